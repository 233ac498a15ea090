/* packing.h - tokenizes texts into token shards with several threads: DIR/train-00000.bin ... and DIR/valid.bin.
 *
 * The same texts and settings give identical files, whatever the number of threads. */
#ifndef CS_DATA_PACKING_H
#define CS_DATA_PACKING_H

#include "data/shape.h"

typedef struct {
    char *const *paths; /* files (formats/plain.h); the name says whether a file has JSON documents */
    int path_count;
    const char *output;
    const char *tokenizer;    /* folder or tokenizer.json; NULL: each byte is a token */
    const char *separator;    /* a line equal to this ends a document; NULL: none */
    const char *field;        /* JSON member with a document's text; if given, all files are JSON. NULL: "text" */
    ce_shape_columns columns; /* other names for the members of JSON documents */
    /* JSON documents are conversations, which are written by this template (chat/chat.h); NULL: they are not
     * conversations */
    const char *chat;
    /* JSON documents are pairs of answers (pair.h), and each becomes two documents; `chat` writes those that are
     * conversations, or the tokenizer's template if `chat` is NULL. All tokens are in one shard. */
    bool pairs;
    int64_t skip_bad; /* number of faulty JSON lines that may be skipped, over all files */
    bool by_name;     /* only files whose names say so are JSON, even if `field` or `chat` is given */
    const char *end;  /* token after each document; NULL: the tokenizer's own */
    double valid;     /* fraction of the bytes that is held out for validation */
    int64_t seq_len, shard_tokens;
    int64_t threads; /* 0: the number of processors that the process may use */
} ce_packing_settings;

typedef struct {
    int64_t bytes, documents, repaired;                       /* repaired: invalid characters that became U+FFFD */
    int64_t train_tokens, train_shards, valid_tokens, learnt; /* learnt: tokens of both sets that are targets */
    int64_t skipped; /* faulty lines that were skipped, each reported in a warning */
    double seconds;
} ce_packing_counts;

cs_status ce_packing_run(const ce_packing_settings *settings, ce_packing_counts *counts);

#endif
