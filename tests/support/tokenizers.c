/* tokenizers.c - small tokenizers for tests, from golden/tokenizer.golden and golden/chat.golden. */
#include "tokenizers.h"
#include "shell.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static json_t *read_golden(const char *path)
{
    size_t size;
    char *text = shell_read(path, &size);
    json_t *golden = ce_json_strict(text, size);
    ck_assert_msg(golden != NULL, "%s", cs_error());
    free(text);
    return golden;
}

json_t *tokenizers_golden(void)
{
    return read_golden(CS_TESTS "/golden/tokenizer.golden");
}

json_t *tokenizers_chats(void)
{
    return read_golden(CS_TESTS "/golden/chat.golden");
}

void tokenizers_configure(const char *path, const char *begin, const char *end, const char *template)
{
    json_t *chats = tokenizers_chats();
    json_t *config = json_pack("{s:s*, s:{s:s}, s:O}", "bos_token", begin, "eos_token", "content", end, "chat_template",
                               json_object_get(json_object_get(chats, "templates"), template));
    ck_assert_ptr_nonnull(config);
    ck_assert_int_eq(json_dump_file(config, path, 0), 0);
    json_decref(config);
    json_decref(chats);
}

void tokenizers_write(const char *name, const char *path)
{
    size_t index;
    json_t *golden = tokenizers_golden(), *entry;
    json_array_foreach (golden, index, entry)
        if (strcmp(json_string_value(json_object_get(entry, "name")), name) == 0)
            ck_assert_int_eq(json_dump_file(json_object_get(entry, "tokenizer"), path, 0), 0);
    json_decref(golden);
}
