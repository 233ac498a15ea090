/* data.h - tokens in: mapped token shards, and which window of them a step reads.
 *
 * A window is seq_len + 1 tokens of one shard at a multiple of seq_len. The window at global position g (samples
 * since the start of training) is a permutation of all windows, a function of (seed, epoch, g mod windows); the world
 * size only decides who computes it. The whole state of a loader is one number, so that resuming is arithmetic. */
#ifndef CS_DATA_DATA_H
#define CS_DATA_DATA_H

#include "base/status.h"

typedef struct {
    const char *const *patterns; /* file names or globs, relative to the working directory */
    int pattern_count;
    int64_t seq_len;
    bool shuffle;
    uint64_t seed;
    int64_t vocab_size;    /* of the model; a token at or above it is CS_BAD_FILE with its place. 0: unchecked */
    const double *weights; /* (pattern_count) of a mixture: mixture.h; NULL: all windows once an epoch */
    bool documents;        /* the documents of a window are kept apart, which the shards have to list */
} cs_data_settings;

/* One window's rows, (seq_len) each. Where documents are kept apart, starts[t] is the row at which row t's document
 * begins, or 0 if it began before the window; and the first token of a document is nobody's target: it is -1. */
typedef struct {
    int32_t *inputs, *targets, *starts; /* starts may be NULL where documents are not kept apart */
} cs_window;

typedef struct cs_windows cs_windows;

/* Opens and checks all shards. CS_NOT_FOUND: no file matches a pattern. CS_BAD_FILE: a malformed shard, or fewer than
 * seq_len + 1 tokens. */
cs_status cs_windows_open(cs_windows **windows, const cs_data_settings *settings);
void cs_windows_close(cs_windows *windows);
int64_t cs_windows_count(const cs_windows *windows); /* of one epoch */
/* A number that other tokens, or the same in another order, hardly share: of each shard's length and 256 places. */
uint64_t cs_windows_mark(const cs_windows *windows);
/* Window at global position g. */
void cs_windows_read(const cs_windows *windows, int64_t position, cs_window window);
/* In file order, not shuffled: window `index` of [0, count). For evaluation. */
void cs_windows_read_plain(const cs_windows *windows, int64_t index, cs_window window);
/* index -> [0, count), a permutation for each (seed, epoch). */
int64_t cs_windows_permute(uint64_t seed, int64_t epoch, int64_t count, int64_t index);

#endif
