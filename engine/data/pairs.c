/* pairs.c - pairs of answers in a token shard. */
#include "data/pairs.h"
#include "base/must.h"
#include "base/rng.h"

#include <stdlib.h>

/* Returns the position of the first target in a document, or the end of the document if it has no target. */
static int64_t answer_at(const ce_tokens *tokens, ce_range of)
{
    int64_t at = of.from;
    while (at < of.to && !ce_tokens_is_learnt(tokens, at))
        at++;
    return at;
}

/* Counts the rows of a pair, and what is cut from it. */
static void count_pair(ce_data_counts *counts, const ce_tokens *tokens, int64_t chosen, int64_t seq_len,
                       const char *path)
{
    int64_t longest = 0;
    for (int64_t i = chosen; i < chosen + 2; i++) {
        ce_range of = ce_tokens_range(tokens, i);
        int64_t length = ce_range_length(of);
        longest = length > longest ? length : longest;
        counts->rows += length < seq_len ? length : seq_len;
        counts->lost += ce_tokens_targets(tokens, (ce_range){ of.from + seq_len, of.to });
    }
    if (longest > seq_len)
        ce_fill_note_long(counts, path, chosen / 2 + 1, longest);
}

cs_status ce_pairs_open(ce_pairs *pairs, ce_data_counts *counts, const ce_tokens *tokens, int64_t seq_len,
                        const char *path)
{
    int64_t all = tokens->documents / 2;
    *pairs = (ce_pairs){ 0 };
    if (tokens->documents == 0 || tokens->documents % 2 != 0 || !tokens->learnt)
        return ce_fail(CS_BAD_FILE,
                       "%s: not pairs of answers, which cspeed.dpo needs: name files of prompt, chosen and rejected "
                       "(.jsonl)",
                       path);
    pairs->first = ce_must_alloc((size_t)all * sizeof *pairs->first);
    for (int64_t k = 0; k < all; k++) {
        ce_range chosen = ce_tokens_range(tokens, 2 * k);
        if (answer_at(tokens, chosen) - chosen.from >= seq_len) {
            counts->bare++;
            continue;
        }
        pairs->first[pairs->count++] = 2 * k;
        count_pair(counts, tokens, 2 * k, seq_len, path);
    }
    counts->documents += all;
    return CS_OK;
}

void ce_pairs_close(ce_pairs *pairs)
{
    free(pairs->first);
    *pairs = (ce_pairs){ 0 };
}

static void read_answer(const ce_tokens *tokens, ce_range of, int64_t seq_len, int32_t *inputs, int32_t *targets)
{
    int64_t length = ce_range_length(of) < seq_len ? ce_range_length(of) : seq_len;
    for (int64_t t = 0; t < seq_len; t++) {
        bool learnt = t + 1 < length && ce_tokens_is_learnt(tokens, of.from + t + 1);
        inputs[t] = t < length ? (int32_t)ce_tokens_at(tokens, of.from + t) : 0;
        targets[t] = learnt ? (int32_t)ce_tokens_at(tokens, of.from + t + 1) : -1;
    }
}

void ce_pairs_read(const ce_pairs *pairs, const ce_tokens *tokens, int64_t index, int64_t seq_len, ce_window window)
{
    for (int i = 0; i < 2; i++)
        read_answer(tokens, ce_tokens_range(tokens, pairs->first[index] + i), seq_len, window.inputs + i * seq_len,
                    window.targets + i * seq_len);
}

uint64_t ce_pairs_mark(const ce_pairs *pairs, const ce_tokens *tokens, uint64_t mark)
{
    for (int64_t k = 0; k < 2 * pairs->count; k++) {
        ce_range of = ce_tokens_range(tokens, pairs->first[k / 2] + k % 2);
        mark = ce_rng_mix(mark, (uint64_t)(answer_at(tokens, of) - of.from));
        for (int64_t at = of.from; at < of.to; at++)
            mark = ce_rng_mix(mark, (uint64_t)ce_tokens_at(tokens, at));
    }
    return mark;
}
