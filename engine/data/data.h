/* data.h - data loader: maps token shards and selects the window that each training sample reads.
 *
 * A window is seq_len + 1 tokens of one shard, beginning at a multiple of seq_len. The window for the global position g
 * (the number of samples since the start of training) is element g mod windows of a permutation of all windows, which
 * depends only on the seed and the epoch. The world size only decides which rank reads a window. The whole state of a
 * loader is therefore the number g, and resuming needs no replay. */
#ifndef CS_DATA_DATA_H
#define CS_DATA_DATA_H

#include "base/status.h"

typedef struct {
    const char *const *patterns; /* file names or globs, relative to the working directory */
    int pattern_count;
    int64_t seq_len;
    bool shuffle;
    uint64_t seed;
    /* Vocabulary size of the model; a token that is larger or equal is CS_BAD_FILE, and the message has its position.
     * 0: tokens are not checked. */
    int64_t vocab_size;
    /* (pattern_count) weights of a mixture (mixture.h); NULL: every window is read once in each epoch */
    const double *weights;
    /* If true, a window is a pair of answers: two documents of a shard, and of each document its first seq_len
     * tokens. */
    bool pairs;
    bool documents; /* keep the documents of a window separate; the shards must have a document index */
} ce_data_settings;

/* The rows of one window; each array has seq_len elements, or 2 * seq_len with `pairs`: first the rows of the chosen
 * answer, then those of the rejected one; the targets of an answer are -1 from its last token on. targets[t] is -1
 * where the next token is masked (tokens.h). If documents are kept separate, starts[t] is the row at which the document
 * of row t begins (0 if it began before the window), and targets[t] is also -1 where the next token begins another
 * document. */
typedef struct {
    int32_t *inputs, *targets, *starts; /* starts may be NULL if documents are not kept separate */
} ce_window;

typedef struct ce_windows ce_windows;

/* Opens and checks all shards. CS_NOT_FOUND: no file matches a pattern. CS_BAD_FILE: a malformed shard, or fewer than
 * seq_len + 1 tokens in all. */
cs_status ce_windows_open(ce_windows **windows, const ce_data_settings *settings);
void ce_windows_close(ce_windows *windows);
int64_t ce_windows_count(const ce_windows *windows); /* windows of one epoch */
/* Number of pairs that are left out, because the prompt alone has seq_len tokens or more. */
int64_t ce_windows_left_out(const ce_windows *windows);
/* Fingerprint of the data: a hash of the length and of 256 sampled tokens of each shard, in the order of the shards.
 * For pairs it is a hash of all tokens and of the positions at which the answers begin. */
uint64_t ce_windows_mark(const ce_windows *windows);
/* Index in file order of the window at global position `position`. */
int64_t ce_windows_index(const ce_windows *windows, int64_t position);
/* Reads the window at global position `position`. */
void ce_windows_read(const ce_windows *windows, int64_t position, ce_window window);
/* Reads window `index` of [0, count) in file order, without shuffling; for evaluation. */
void ce_windows_read_plain(const ce_windows *windows, int64_t index, ce_window window);
/* A permutation of [0, count) for each (seed, epoch), evaluated at `index`. */
int64_t ce_windows_permute(uint64_t seed, int64_t epoch, int64_t count, int64_t index);

#endif
