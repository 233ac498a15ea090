/* shape.h - what a row of JSON is in training: a text, a prompt with its completion, a conversation, or tokens.
 *
 * A row's shape follows from its keys. A key whose value is null counts as missing. The shape is the first in this list
 * whose keys the row has:
 *
 *     messages, or conversations     a conversation as OpenAI's files have it ({"role", "content"}), or as ShareGPT's
 *                                    do ({"from", "value"}); "system" may hold a system message that stands before it
 *     prompt and completion          two texts, or two lists of messages; the answers of the completion are learnt
 *     instruction and output         Alpaca's rows: the user says the instruction, and after a newline the "input"
 *                                    if there is one; "output" is the answer
 *     the field ("text")             a text
 *     input_ids                      tokens; those whose "attention_mask" is 0 are left out, and those whose "labels"
 *                                    are -100, or whose "completion_mask" or "assistant_masks" (TRL's names) is 0,
 *                                    are not learnt
 *
 * Without a chat template, the field is the first in this list; a prompt and its completion become one text, in which
 * the completion is learnt; conversations and Alpaca's rows are refused. */
#ifndef CS_DATA_SHAPE_H
#define CS_DATA_SHAPE_H

#include "base/json.h"

enum { CS_SHAPE_COLUMNS = 16, CS_SHAPE_MASKS = 2 };

/* Other names that rows use for the keys above. The keys system, input, labels, the masks, tools and documents do not
 * decide a shape: each of them is read by its other name if the row has that name, and otherwise by the name above. All
 * other keys decide the shape. If a row has another name for at least one key that decides the shape, each such key is
 * read by its other name only, and counts as missing if it has no other name. */
typedef struct {
    const char *key[CS_SHAPE_COLUMNS], *name[CS_SHAPE_COLUMNS];
    int count;
} ce_shape_columns;

/* Adds the name `name` for a key. `name` must stay valid. Returns CS_BAD_CONFIG if there is no such key, or if the key
 * has another name already. */
cs_status ce_shape_column(ce_shape_columns *columns, const char *key, const char *name);

/* Fills a list with all keys that ce_shape_read may look at. The last element is NULL. */
enum { CS_SHAPE_NAMES = 2 * CS_SHAPE_COLUMNS + 3 };
void ce_shape_names(const char *names[CS_SHAPE_NAMES], const ce_shape_columns *columns, const char *field);

typedef enum { CS_SHAPE_TEXT, CS_SHAPE_PAIR, CS_SHAPE_CHAT, CS_SHAPE_TOKENS } ce_shape_kind;

typedef struct {
    ce_shape_kind kind;
    const json_t *text, *completion; /* `text` is a text, or the prompt of `completion`. */
    /* For a conversation with a prompt: `answers` is the number of all its answers, `given` the number of answers that
     * are in the prompt. */
    int64_t answers, given;
    json_t *chat;                         /* conversation that chat/chat.h writes: {"messages", "tools", "documents"} */
    const json_t *tokens, *labels, *mask; /* lists of numbers; `labels` and `mask` may be NULL */
    const json_t *learnt[CS_SHAPE_MASKS]; /* lists with a 0 for each token that is not learnt, or NULL */
} ce_shape;

/* Reads a row. `field` is the key of a text; `chats` is true if there is a chat template. The shape has pointers into
 * the row. Returns CS_BAD_FILE if the row has no known shape; the message then lists its keys. */
cs_status ce_shape_read(ce_shape *shape, const json_t *row, const ce_shape_columns *columns, const char *field,
                        bool chats);
void ce_shape_free(ce_shape *shape);

#endif
