/* packing.h - texts to token shards, by many threads: DIR/train-00000.bin ... and DIR/valid.bin.
 *
 * The same texts and settings give the same files, byte for byte, whatever the number of threads. */
#ifndef CS_DATA_PACKING_H
#define CS_DATA_PACKING_H

#include "base/status.h"

typedef struct {
    char *const *paths; /* texts; those named .jsonl are JSON, a document a line */
    int path_count;
    const char *output;
    const char *tokenizer; /* folder or tokenizer.json; NULL: a token a byte */
    const char *separator; /* a line that is this ends a document of a text; NULL: none */
    const char *field;     /* of JSON, that holds a document's text; given: all texts are JSON. NULL: "text" */
    const char *chat;      /* JSON holds conversations, written as this template has them: text/chat.h; NULL: no */
    int64_t skip_bad;      /* lines of JSON that may be left out because something is wrong with them, of all texts */
    bool by_name;          /* texts named .jsonl are JSON and no others, whatever field and chat say */
    const char *end;       /* the token behind each document; NULL: the tokenizer's own */
    double valid;          /* fraction of the bytes that is held out */
    int64_t seq_len, shard_tokens;
    int threads; /* 0: as many as cores */
} cs_packing_settings;

typedef struct {
    int64_t bytes, documents, repaired;                       /* repaired: broken characters that became U+FFFD */
    int64_t train_tokens, train_shards, valid_tokens, learnt; /* learnt: tokens of both that are targets */
    int64_t skipped;                                          /* lines that were left out, each named in a warning */
    double seconds;
} cs_packing_counts;

cs_status cs_packing_run(const cs_packing_settings *settings, cs_packing_counts *counts);

#endif
