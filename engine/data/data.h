/* data.h - maps token shards and selects the window that each training sample reads.
 *
 * A window is a range of seq_len + 1 tokens of one shard that begins at a multiple of seq_len, or whole documents of one
 * shard (fill.h), or a pair of answers. The global position g is the number of samples since the start of training.
 * Each epoch has a permutation of all N windows, which depends only on the seed and the epoch. Position g reads element
 * g mod N of its epoch's permutation. The world size only decides which rank reads a window. The whole state of a loader
 * is therefore the number g, and resuming needs no replay. */
#ifndef CE_DATA_DATA_H
#define CE_DATA_DATA_H

#include "data/fill.h"

typedef struct {
    const char *const *patterns; /* file names or globs, relative to the working directory */
    int pattern_count;
    int64_t seq_len;
    bool shuffle;
    uint64_t seed;
    /* The vocabulary size of the model. Opening fails with CS_BAD_FILE if a token is not less than this size; the
     * message has the token's position. If the size is 0, tokens are not checked. */
    int64_t vocab_size;
    /* weights of a mixture (mixture.h), one for each pattern; if NULL, every window is read once in each epoch */
    const double *weights;
    /* If true, a window is a pair of answers: two documents of a shard, with the first seq_len tokens of each
     * document. */
    bool pairs;
    /* If true, a window has whole documents, which are kept separate, and the shards must have a document index. */
    bool documents;
    int longer; /* what becomes of a document longer than seq_len, CE_LONG_*; only with `documents` */
    /* If true, every target of the shards is in exactly one window, as evaluation needs it: the tokens after the last
     * whole window get a window too, and a long document is divided, whatever `longer` is (except CE_LONG_REFUSE). */
    bool all;
} ce_data_settings;

/* The rows of one window. Each array has seq_len elements. With `pairs` it has 2 * seq_len: first the rows of the
 * chosen answer, then those of the rejected answer. targets[t] is -1 where the next token is masked (tokens.h), and
 * from the last token of a whole document or answer on. Rows after the last token are padding, with input 0 and target
 * -1. If documents are kept separate, starts[t] is the row at which the document of row t begins; the padding counts as
 * a document. */
typedef struct {
    int32_t *inputs, *targets, *starts; /* `starts` may be NULL if documents are not kept separate */
} ce_window;

typedef struct ce_windows ce_windows;

/* Opens and checks all shards. Returns CS_NOT_FOUND if no file matches a pattern, and CS_BAD_FILE if a shard is
 * malformed or there is no window. */
cs_status ce_windows_open(ce_windows **windows, const ce_data_settings *settings);
void ce_windows_close(ce_windows *windows);
int64_t ce_windows_count(const ce_windows *windows); /* Returns the number of windows in one epoch. */
/* Returns the sums over all shards. They are valid until ce_windows_close. */
const ce_data_counts *ce_windows_counts(const ce_windows *windows);
/* Returns how often an epoch reads each window of set `set` of a mixture, on average. */
double ce_windows_times(const ce_windows *windows, int set);
/* Returns a hash that identifies the data. It covers the length and 256 sampled tokens of each shard, in the order of
 * the shards. For pairs it covers all tokens, and the positions at which the answers begin; for whole documents also
 * sampled pieces of the plan. */
uint64_t ce_windows_mark(const ce_windows *windows);
/* Returns the index, in file order, of the window at the global position `position`. */
int64_t ce_windows_index(const ce_windows *windows, int64_t position);
/* Reads the window at the global position `position`. */
void ce_windows_read(const ce_windows *windows, int64_t position, ce_window window);
/* Reads window `index` in file order, without shuffling, for evaluation. `index` is less than ce_windows_count. */
void ce_windows_read_plain(const ce_windows *windows, int64_t index, ce_window window);
/* Returns element `index` of a permutation of [0, count), which is different for each seed and epoch. */
int64_t ce_windows_permute(uint64_t seed, int64_t epoch, int64_t count, int64_t index);

#endif
