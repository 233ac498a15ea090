/* record.c - what a checkpoint records of a chat template, so that an exported model talks as the trained one does. */
#include "base/must.h"
#include "chat/template.h"

#include <string.h>

/* Appends the ids of the tokens that end an answer: the template's, and the tokenizer's end of a text. */
static void add_ends(json_t *ends, ce_chat *chat, const ce_tokenizer *tokenizer)
{
    CE_CLOSED(ce_unicode_free) ce_text text = { 0 };
    ce_chat_stop(chat, &text);
    int32_t turn = ce_tokenizer_find(tokenizer, text.bytes), end = ce_tokenizer_end(tokenizer);
    if (turn >= 0)
        json_array_append_new(ends, json_integer(turn));
    if (end >= 0 && end != turn)
        json_array_append_new(ends, json_integer(end));
}

json_t *ce_chat_record(const char *name, const char *path)
{
    ce_tokenizer *tokenizer = NULL;
    ce_chat *chat = NULL;
    json_t *record = NULL, *ends = json_array();
    if (name && ce_tokenizer_open(&tokenizer, path) == CS_OK && ce_chat_open(&chat, name, tokenizer) == CS_OK) {
        if (path)
            add_ends(ends, chat, tokenizer);
        /* The files of the tokenizer have its own templates. */
        record =
            json_pack("{s:s*, s:O}", "template", strcmp(name, "auto") == 0 ? NULL : chat->plain.source, "ends", ends);
    }
    json_decref(ends);
    ce_chat_close(chat);
    ce_tokenizer_close(tokenizer);
    return record;
}
