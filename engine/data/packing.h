/* packing.h - tokenizes texts into token shards with several threads: DIR/train-00000.bin ... and DIR/valid.bin.
 *
 * The same texts and settings give identical files, whatever the number of threads. */
#ifndef CE_DATA_PACKING_H
#define CE_DATA_PACKING_H

#include "data/places.h"
#include "data/shape.h"

typedef struct {
    char *const *paths; /* text files in the formats that formats/plain.h reads */
    int path_count;
    const char *output;
    const char *tokenizer; /* the path for ce_tokenizer_open; NULL means that each byte is a token */
    const char *separator; /* A line equal to this text ends a document. NULL means that there are no separators. */
    /* The key of the text in a JSON document. NULL means "text". */
    const char *field;
    ce_shape_columns columns; /* other names that the members of JSON documents may have */
    /* The chat template (chat/chat.h) that formats JSON documents as conversations. NULL means that JSON documents are
     * not conversations. */
    const char *chat;
    int turns; /* ce_chat_turns: which samples a conversation becomes */
    /* True if JSON documents are pairs of answers (pair.h). Each pair becomes two documents. Answers that are
     * conversations are formatted by the template `chat`, or by the tokenizer's template if `chat` is NULL. The caller
     * must make `shard_tokens` so great that all tokens fit in one shard: a shard must not end between two answers. */
    bool pairs;
    int64_t skip_bad; /* number of faulty JSON lines in all files that may be skipped */
    /* True if only the name of a file decides whether the file is JSON. If false, all files are JSON if `field` or
     * `chat` is given; otherwise the names decide. */
    bool by_name;
    const char *end; /* text of the token that follows each document; NULL means the end token of the tokenizer */
    double valid;    /* fraction of all files' bytes that is held out for validation; 0 means none */
    int64_t seq_len, shard_tokens;
    int64_t threads; /* 0 means the number of processors that the process may use */
} ce_packing_settings;

typedef struct {
    int64_t bytes, documents, repaired; /* `repaired` counts invalid characters that became U+FFFD. */
    /* `learnt` counts the targets among the tokens for training and for validation. */
    int64_t train_tokens, train_shards, valid_tokens, learnt;
    /* the number of tokens of the longest document, and the number of documents longer than seq_len if this is above 0;
     * of the documents for training and for validation */
    int64_t longest, longer;
    char first_longer[CE_PLACES_TEXT]; /* the place of the first document that `longer` counts */
    /* The number of faulty lines that were skipped; each was reported in a warning. `unsupported` of them ask for
     * something that is not supported. */
    int64_t skipped, unsupported;
    int64_t bare; /* number of conversations without an answer to learn, which are left out; a warning reports them */
    double seconds;
} ce_packing_counts;

cs_status ce_packing_run(const ce_packing_settings *settings, ce_packing_counts *counts);

#endif
