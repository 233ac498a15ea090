/* preference.c - the losses of pairs of answers in preference training, and the weights of the answers' rows. Pairs are
 * independent. */
#include "device/cpu/cpu.h"

/* Adds up the losses of the rows of one answer in order, and counts the answer's tokens. */
static void read_answer(const ce_preference_rows *all, int64_t sequence, float *logp, int64_t *tokens)
{
    int64_t length = cs_columns(all->targets), first = sequence * length;
    const float *loss = (const float *)all->losses.data + first;
    const int32_t *target = (const int32_t *)all->targets.data + first;
    double sum = 0;
    *tokens = 0;
    for (int64_t t = 0; t < length; t++) {
        sum += (double)loss[t];
        *tokens += target[t] >= 0;
    }
    *logp = (float)-sum;
}

static void weigh_answer(const ce_preference_rows *all, int64_t sequence, double slope)
{
    int64_t length = cs_columns(all->targets);
    float *weight = (float *)all->weights.data + sequence * length;
    /* the sign changes, because a row's loss is the negative of its log-probability */
    for (int64_t t = 0; t < length; t++)
        weight[t] = (float)((double)weight[t] * -slope);
}

static void judge_pair(const ce_preference_rows *all, int64_t b)
{
    ce_preference_pair pair = { 0 };
    float *facts = (float *)all->facts.data + b;
    int64_t pairs = cs_columns(all->facts);
    for (int i = 0; i < CE_ANSWERS; i++) {
        read_answer(all, CE_ANSWERS * b + i, &pair.logp[i], &pair.tokens[i]);
        if (all->references.data)
            pair.reference[i] = ((const float *)all->references.data)[CE_ANSWERS * b + i];
    }
    ce_preference_result result = ce_preference_judge(&all->rule, &pair);
    bool real = pair.tokens[CE_CHOSEN] + pair.tokens[CE_REJECTED] > 0;
    facts[CE_PREFERENCE_LOSS * pairs] = real ? (float)result.loss : 0;
    facts[CE_PREFERENCE_CHOSEN_REWARD * pairs] = real ? (float)result.reward[CE_CHOSEN] : 0;
    facts[CE_PREFERENCE_REJECTED_REWARD * pairs] = real ? (float)result.reward[CE_REJECTED] : 0;
    facts[CE_PREFERENCE_CORRECT * pairs] = real && result.reward[CE_CHOSEN] > result.reward[CE_REJECTED];
    facts[CE_PREFERENCE_CHOSEN_LOGP * pairs] = real ? pair.logp[CE_CHOSEN] : 0;
    facts[CE_PREFERENCE_REJECTED_LOGP * pairs] = real ? pair.logp[CE_REJECTED] : 0;
    for (int i = 0; i < CE_ANSWERS && all->weights.data; i++)
        weigh_answer(all, CE_ANSWERS * b + i, result.slope[i]);
}

static void judge_pairs(void *argument, ce_range range, int part)
{
    (void)part;
    for (int64_t b = range.from; b < range.to; b++)
        judge_pair(argument, b);
}

void ce_cpu_preference(cs_stream *stream, const ce_preference_rows *rows)
{
    ce_cpu_walk(stream->device, cs_columns(rows->facts), 4, judge_pairs, (void *)(uintptr_t)rows);
}
