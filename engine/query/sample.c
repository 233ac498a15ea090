/* sample.c - cs_sample: sampling of the next token from the last row of logits.
 *
 * The steps are applied in Hugging Face's order: first the temperature, then top_k keeps the likeliest tokens, then
 * top_p keeps the smallest set of these whose probabilities sum to top_p. Among equal logits the lower token comes
 * first. */
#include "cspeed/cspeed.h"
#include "base/misuse.h"
#include "base/must.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>

typedef struct {
    double weight; /* first the logit, later the probability up to a common factor */
    int32_t token;
} candidate;

static bool likelier(candidate a, candidate b)
{
    return a.weight > b.weight || (a.weight == b.weight && a.token < b.token);
}

static int by_weight(const void *one, const void *other)
{
    return likelier(*(const candidate *)one, *(const candidate *)other) ? -1 : 1;
}

/* Moves the `wanted` likeliest candidates to the front, in any order (quickselect, Hoare 1961). */
static void select_likeliest(candidate *all, int64_t count, int64_t wanted)
{
    int64_t from = 0, to = count;
    while (to - from > 1) {
        candidate pivot = all[from + (to - from) / 2];
        int64_t low = from, high = to - 1;
        while (low <= high) {
            while (likelier(all[low], pivot))
                low++;
            while (likelier(pivot, all[high]))
                high--;
            if (low <= high) {
                candidate moved = all[low];
                all[low++] = all[high];
                all[high--] = moved;
            }
        }
        if (wanted <= high)
            to = high + 1;
        else if (wanted > low)
            from = low;
        else
            return;
    }
}

static double sum_weights(const candidate *all, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += all[i].weight;
    return sum;
}

/* Selects the candidates that top_k and top_p keep. Moves them to the front of the array, the likeliest first, and
 * returns their number. Usually few candidates are kept, so the function sorts one group after another until enough
 * candidates are sorted. */
static int64_t cut(candidate *all, int64_t count, const cs_sampling *how)
{
    enum { FIRST = 256, GROWTH = 8 };
    if (how->top_k > 0 && how->top_k < count) {
        select_likeliest(all, count, how->top_k);
        count = how->top_k;
    }
    double wanted = how->top_p * sum_weights(all, count), sum = 0;
    for (int64_t sorted = 0, to = FIRST; sorted < count; to *= GROWTH) {
        to = to < count ? to : count;
        select_likeliest(all + sorted, count - sorted, to - sorted);
        qsort(all + sorted, (size_t)(to - sorted), sizeof *all, by_weight);
        for (; sorted < to; sorted++) {
            sum += all[sorted].weight;
            if (how->top_p < 1 && sum >= wanted)
                return sorted + 1;
        }
    }
    return count;
}

static int32_t draw(const candidate *all, int64_t count, double chance)
{
    double left = chance * sum_weights(all, count);
    for (int64_t i = 0; i < count; i++) {
        left -= all[i].weight;
        if (left < 0)
            return all[i].token;
    }
    return all[count - 1].token;
}

int32_t cs_sample(cs_tensor logits, const cs_sampling *how, int64_t text, int64_t place)
{
    CE_GIVEN(how);
    int64_t count = cs_columns(logits), from = (cs_rows(logits) - 1) * count;
    CE_FREED candidate *all = ce_must_alloc((size_t)count * sizeof *all);
    candidate best = { (double)cs_element(logits, from), 0 };
    for (int64_t i = 0; i < count; i++) {
        all[i] = (candidate){ (double)cs_element(logits, from + i), (int32_t)i };
        best = likelier(all[i], best) ? all[i] : best;
    }
    int32_t token = best.token;
    if (how->temperature > 0) {
        for (int64_t i = 0; i < count; i++)
            all[i].weight = exp((all[i].weight - best.weight) / how->temperature);
        uint64_t key = ce_rng_mix(ce_rng_key((uint64_t)how->seed, "sample"), (uint64_t)text);
        bool cuts = how->top_k > 0 || how->top_p < 1;
        token = draw(all, cuts ? cut(all, count, how) : count, ce_rng_uniform(key, (uint64_t)place));
    }
    return token;
}
