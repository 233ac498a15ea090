/* pairs.h - pairs of answers in a token shard. Document 2 k is the chosen answer of pair k, and document 2 k + 1 the
 * rejected one. Each of the two begins with the prompt, whose tokens are not targets. */
#ifndef CE_DATA_PAIRS_H
#define CE_DATA_PAIRS_H

#include "data/data.h"
#include "data/tokens.h"

/* The pairs of a shard, without the pairs whose prompt has seq_len tokens or more. */
typedef struct {
    int64_t *first; /* index of the first document of each pair, `count` elements */
    int64_t count;
} ce_pairs;

/* Adds to *counts, where a pair counts as a document: the pairs that are left out (bare), those with an answer that is
 * cut after seq_len tokens (longer), and the targets that the cut answers lose. Returns CS_BAD_FILE if the shard has no
 * pairs. */
cs_status ce_pairs_open(ce_pairs *pairs, ce_data_counts *counts, const ce_tokens *tokens, int64_t seq_len,
                        const char *path);
void ce_pairs_close(ce_pairs *pairs);
void ce_pairs_read(const ce_pairs *pairs, const ce_tokens *tokens, int64_t index, int64_t seq_len, ce_window window);
/* Returns the hash `mark`, continued with the tokens of all pairs and the positions at which their answers begin. */
uint64_t ce_pairs_mark(const ce_pairs *pairs, const ce_tokens *tokens, uint64_t mark);

#endif
