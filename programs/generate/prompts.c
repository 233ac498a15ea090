/* prompts.c - the file of --prompts: JSON lines {"prompt": ...} or conversations, or texts. */
#include "base/must.h"
#include "generate.h"
#include "data/shape.h"
#include "formats/plain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns a copy of a row in which a prompt is a conversation, or NULL if the row has both. */
static json_t *as_conversation(const json_t *row)
{
    json_t *made = json_deep_copy(row);
    ce_json_drop_nulls(made);
    json_t *prompt = json_object_get(made, "prompt");
    if (prompt && (json_object_get(made, "messages") || json_object_get(made, "conversations"))) {
        json_decref(made);
        return NULL;
    }
    if (json_is_string(prompt))
        json_object_set_new(made, "messages", json_pack("[{s:s, s:O}]", "role", "user", "content", prompt));
    else if (prompt)
        json_object_set(made, "messages", prompt);
    return made;
}

cs_status prompts_text(ce_chat *chat, const json_t *row, ce_text *text)
{
    static const ce_shape_columns columns;
    ce_shape shape = { 0 };
    json_auto_t *asked = as_conversation(row);
    text->size = 0;
    if (!asked)
        return ce_fail(CS_BAD_FILE, "the row has \"prompt\" and a conversation: remove one of them");
    cs_status status = ce_shape_read(&shape, asked, &columns, "prompt", true);
    if (status == CS_OK)
        status = ce_chat_prompt(chat, shape.chat, text);
    ce_unicode_append(text, "", 1);
    ce_shape_free(&shape);
    return status;
}

/* Appends a row to `list`, and what is to be continued to `texts`. */
static cs_status add_row(const prompts_list *self, json_t *row)
{
    const json_t *prompt = json_object_get(row, "prompt");
    CE_CLOSED(ce_unicode_free) ce_text text = { 0 };
    cs_status status = self->chat ? prompts_text(self->chat, row, &text) : CS_OK;
    if (!self->chat && !json_is_string(prompt))
        status = ce_fail(CS_BAD_FILE, "a line must be {\"prompt\": \"...\"} (with --chat also {\"messages\": [...]})");
    if (status == CS_OK &&
        (json_array_append(self->rows, row) != 0 ||
         json_array_append_new(self->texts, json_string(self->chat ? text.bytes : json_string_value(prompt))) != 0))
        status = ce_fail(CS_NO_MEMORY, "out of memory for the prompts");
    return status;
}

static cs_status append(const prompts_list *self, const char *line, size_t length, const char *path, int64_t number)
{
    const char *ending = strrchr(path, '.');
    bool json = *line == '{' || !ending || strcmp(ending, ".txt") != 0;
    length -= !json && line[length - 1] == '\n';
    json_auto_t *row = json ? ce_json_strict(line, length) : json_pack("{s:s%}", "prompt", line, length);
    cs_status status = row ? add_row(self, row) : CS_BAD_FILE;
    if (status != CS_OK)
        status =
            ce_fail(status, "%s:%" PRId64 ": %s", path, number, row || json ? cs_error() : "text that is not UTF-8");
    return status;
}

/* Opens the file. A compressed file or a table (Parquet, Arrow) is decoded into a temporary file first. */
static cs_status open_lines(FILE **file, const char *path)
{
    const char *folder = getenv("TMPDIR");
    ce_plain_how how = { .folder = folder ? folder : "/tmp" };
    *file = stdin;
    return strcmp(path, "-") == 0 ? CS_OK : ce_plain_open(file, path, &how);
}

static cs_status read_lines(const prompts_list *self, FILE *file, const char *path)
{
    CE_FREED char *line = NULL;
    size_t capacity = 0;
    int64_t number = 0;
    cs_status status = CS_OK;
    for (ssize_t length; status == CS_OK && (length = getline(&line, &capacity, file)) > 0;) {
        number++;
        if ((size_t)length > strspn(line, " \t\r\n"))
            status = append(self, line, (size_t)length, path, number);
    }
    if (number == 0 && file == stdin)
        status = ce_fail(CS_BAD_FILE, "standard input is empty, as it always is with launch flags: --prompts FILE");
    return status;
}

void prompts_free(prompts_list *self)
{
    json_decref(self->rows);
    json_decref(self->texts);
    *self = (prompts_list){ 0 };
}

cs_status prompts_read(prompts_list *self, ce_chat *chat, const char *path)
{
    FILE *file;
    CE_TRY(open_lines(&file, path));
    *self = (prompts_list){ chat, json_array(), json_array() };
    cs_status status = read_lines(self, file, path);
    if (file != stdin)
        fclose(file);
    if (status != CS_OK)
        prompts_free(self);
    return status;
}
