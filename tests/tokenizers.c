/* tokenizers.c - the small tokenizers of golden/tokenizer.golden. */
#include "tokenizers.h"
#include "shell.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

json_t *tokenizers_golden(void)
{
    size_t  size;
    char   *text   = shell_read(CS_TESTS "/golden/tokenizer.golden", &size);
    json_t *golden = cs_json_strict(text, size);
    ck_assert_msg(golden != NULL, "%s", cs_error());
    free(text);
    return golden;
}

void tokenizers_write(const char *name, const char *path)
{
    size_t  index;
    json_t *golden = tokenizers_golden(), *entry;
    json_array_foreach(golden, index, entry) if (strcmp(json_string_value(json_object_get(entry, "name")), name) == 0)
        ck_assert_int_eq(json_dump_file(json_object_get(entry, "tokenizer"), path, 0), 0);
    json_decref(golden);
}
