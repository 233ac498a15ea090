/* fill.h - divides the documents of a token shard among windows, so that no document is cut that fits in a window.
 *
 * The plan is best-fit decreasing (Johnson, "Near-optimal bin packing algorithms", 1973; packing_strategy "bfd" of TRL):
 * the documents are taken from the longest to the shortest, and each is put into the fullest window that has room for
 * it. The windows are then ordered by their first document. A document is never continued in another window, except
 * that CE_LONG_SPLIT divides a document longer than seq_len into parts. A plan depends only on the lengths of the
 * documents, on the mask, on seq_len and on the rule for long documents. */
#ifndef CE_DATA_FILL_H
#define CE_DATA_FILL_H

#include "data/tokens.h"

/* What becomes of a document longer than seq_len; the values of the key cspeed.data.long. */
enum {
    CE_LONG_AUTO,     /* CE_LONG_TRUNCATE if the shard has a mask, otherwise CE_LONG_SPLIT */
    CE_LONG_TRUNCATE, /* Only the first seq_len tokens are read. */
    CE_LONG_SPLIT,    /* The document is divided into parts of seq_len tokens, each a sample of its own. */
    CE_LONG_DROP,     /* The document is left out. */
    CE_LONG_REFUSE    /* Opening the data fails. */
};

/* What the windows of a data set contain, and what they leave out. The numbers are sums over shards. */
typedef struct {
    int64_t documents; /* number of documents that have a token; 0 if it is unknown where documents begin */
    int64_t rows;      /* number of tokens that the windows read as inputs; the remaining rows are padding */
    int64_t longer;    /* number of documents longer than seq_len */
    int64_t divided;   /* number of documents that are continued in another window */
    int64_t bare;      /* number of documents that are left out because they keep no target */
    int64_t lost;      /* number of targets that are in no window, or, in a mixture, in no window of its set */
    /* the first document longer than seq_len: its shard, its number in the shard, from 1, and its length */
    const char *example;
    int64_t example_number, example_length;
} ce_data_counts;

typedef struct {
    int64_t from; /* position of the first token in the shard */
    int32_t rows; /* number of tokens that are inputs */
    /* True if the token after the last input belongs to the same document and is the target of the last input. */
    bool continues;
} ce_fill_piece;

typedef struct {
    int64_t count, piece_count;
    int64_t *first;        /* Window i has the pieces first[i] to first[i + 1] - 1; count + 1 elements. */
    ce_fill_piece *pieces; /* piece_count elements, in the order of the windows */
} ce_fill;

/* Makes the plan and adds to *counts. `path` is the name of the shard for messages. */
cs_status ce_fill_open(ce_fill *plan, ce_data_counts *counts, const ce_tokens *tokens, int64_t seq_len, int longer,
                       const char *path);
void ce_fill_close(ce_fill *plan); /* accepts a plan that is closed already, or zeroed */

/* Counts a document, or a pair of answers, that is longer than seq_len. `path` must stay valid. */
void ce_fill_note_long(ce_data_counts *counts, const char *path, int64_t number, int64_t length);

#endif
