/* shape.h - what a row of JSON is in training: a text, a prompt with its completion, a conversation, or tokens.
 *
 * A row's shape follows from the row's keys. A key whose value is null counts as missing. If there is a chat template,
 * the shape is the first in this list whose keys the row has:
 *
 *     messages, or conversations     a conversation: messages as in OpenAI's files ({"role", "content"}), or as in
 *                                    ShareGPT's ({"from", "value"})
 *     prompt and completion          two texts, or two lists of messages; the answers of the completion are learnt
 *     instruction and output         Alpaca's rows: the user says the instruction, and after a newline the "input"
 *                                    if there is one; "output" is the answer
 *     the field ("text")             a text
 *     input_ids                      tokens; those whose "attention_mask" is 0 are left out, and those whose "labels"
 *                                    are -100, or whose "completion_mask" or "assistant_masks" (TRL's names) is 0,
 *                                    are not learnt
 *
 * In the first three shapes, the key "system" may hold a text: the system message with which the conversation begins.
 * A mask may have true and false in place of 1 and 0. Of messages and conversations one may be empty; a row in which
 * both have different messages is refused. "chat_template_kwargs" holds variables for the chat template (TRL's key). Keys that ask for something that cannot be
 * done ("functions", a "weight" other than 1, ...) are refused.
 *
 * Without a chat template, a row that has the field is a text, whatever other keys the row has. Otherwise a row with a
 * prompt and a completion becomes one text, in which the completion is learnt. Otherwise the row must have input_ids:
 * conversations and Alpaca's rows are refused. */
#ifndef CE_DATA_SHAPE_H
#define CE_DATA_SHAPE_H

#include "data/columns.h"

enum { CE_SHAPE_COLUMNS = 16, CE_SHAPE_MASKS = 2, CE_SHAPE_OTHERS = 11 };

/* Other names that rows use for the keys above. Some keys do not decide a row's shape: system, input, labels, the
 * masks, tools, documents and chat_template_kwargs. Such a key is read by its other name if the row has that name, and otherwise by the name
 * above. All other keys decide the shape. If a row has the other name of at least one key that decides the shape, all
 * keys that decide the shape are read by their other names only; a key without another name then counts as missing. */
typedef struct {
    const char *key[CE_SHAPE_COLUMNS], *name[CE_SHAPE_COLUMNS];
    int count;
} ce_shape_columns;

/* Adds the name `name` for a key. `name` must stay valid. Returns CS_BAD_CONFIG if there is no such key, or if the key
 * has another name already. */
cs_status ce_shape_column(ce_shape_columns *columns, const char *key, const char *name);

/* Fills a list with all keys that ce_shape_read may look at. The last element is NULL. */
enum { CE_SHAPE_NAMES = 2 * CE_SHAPE_COLUMNS + CE_SHAPE_OTHERS + 2 };
void ce_shape_names(const char *names[CE_SHAPE_NAMES], const ce_shape_columns *columns, const char *field);

typedef enum { CE_SHAPE_TEXT, CE_SHAPE_PAIR, CE_SHAPE_CHAT, CE_SHAPE_TOKENS } ce_shape_kind;

typedef struct {
    ce_shape_kind kind;
    const json_t *text, *completion; /* `text` is a text, or the prompt of `completion`. */
    /* conversation that a chat template formats (chat/chat.h): {"messages", "tools", "documents",
     * "chat_template_kwargs"}; the answers that are in the prompt have "train": false */
    json_t *chat;
    const json_t *tokens, *labels, *mask; /* lists of numbers; `labels` and `mask` may be NULL */
    const json_t *learnt[CE_SHAPE_MASKS]; /* lists with a 0 for each token that is not learnt, or NULL */
    ce_columns_used used;
} ce_shape;

/* Returns true if element `index` of a mask is 0 or false. */
bool ce_shape_is_masked(const json_t *mask, size_t index);

/* Reads a row. `field` is the key of a text; `chats` is true if there is a chat template. *shape has pointers into the
 * row. Returns CS_BAD_FILE if the row has no known shape; the message then lists the keys of the row. */
cs_status ce_shape_read(ce_shape *shape, const json_t *row, const ce_shape_columns *columns, const char *field,
                        bool chats);
/* Refuses a row, other than a text, that asks for something that cannot be done: a weight, or functions of OpenAI's
 * older form. The keys that it looks at are `ce_shape_others`, whose last element is NULL; those that say that the row is
 * learnt are added to *used. */
cs_status ce_shape_check(const json_t *row, ce_columns_used *used);
extern const char *const ce_shape_others[CE_SHAPE_OTHERS];
void ce_shape_free(ce_shape *shape);

#endif
