/* sample.c - cs_sample: sampling of the next token from the last row of logits.
 *
 * Steps are applied in Hugging Face's order: temperature, then the top_k likeliest tokens, then the smallest set of
 * those whose probabilities sum to top_p. Among equal logits the lower token comes first. */
#include "cspeed/cspeed.h"
#include "base/must.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    double weight; /* probability times the sum of all weights */
    int32_t token;
} candidate;

static int32_t likeliest(cs_tensor logits, int64_t from, int64_t count)
{
    int32_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (cs_element(logits, from + i) > cs_element(logits, from + best))
            best = (int32_t)i;
    return best;
}

static int by_weight(const void *one, const void *other)
{
    const candidate *a = one, *b = other;
    if (a->weight != b->weight)
        return a->weight > b->weight ? -1 : 1;
    return a->token < b->token ? -1 : 1;
}

/* Number of the sorted candidates that top_k and top_p keep. */
static int64_t cut(const candidate *all, int64_t count, const cs_sampling *how)
{
    double total = 0, sum = 0;
    count = how->top_k > 0 && how->top_k < count ? how->top_k : count;
    for (int64_t i = 0; i < count; i++)
        total += all[i].weight;
    for (int64_t i = 0; i < count; i++) {
        sum += all[i].weight;
        if (sum >= how->top_p * total)
            return i + 1;
    }
    return count;
}

static int32_t draw(const candidate *all, int64_t count, double chance)
{
    double total = 0;
    for (int64_t i = 0; i < count; i++)
        total += all[i].weight;
    double left = chance * total;
    for (int64_t i = 0; i < count; i++) {
        left -= all[i].weight;
        if (left < 0)
            return all[i].token;
    }
    return all[count - 1].token;
}

int32_t cs_sample(cs_tensor logits, const cs_sampling *how, int64_t text, int64_t place)
{
    int64_t count = cs_columns(logits), from = (cs_rows(logits) - 1) * count;
    int32_t best = likeliest(logits, from, count);
    double max = (double)cs_element(logits, from + best);
    if (how->temperature <= 0)
        return best;
    candidate *all = malloc((size_t)count * sizeof *all);
    if (!all)
        cs_fatal(CS_NO_MEMORY, "out of memory for the candidates of the next token");
    for (int64_t i = 0; i < count; i++)
        all[i] = (candidate){ exp(((double)cs_element(logits, from + i) - max) / how->temperature), (int32_t)i };
    bool cuts = how->top_k > 0 || how->top_p < 1;
    if (cuts)
        qsort(all, (size_t)count, sizeof *all, by_weight);
    uint64_t key = cs_rng_mix(cs_rng_key((uint64_t)how->seed, "sample"), (uint64_t)text);
    int32_t token = draw(all, cuts ? cut(all, count, how) : count, cs_rng_uniform(key, (uint64_t)place));
    free(all);
    return token;
}
