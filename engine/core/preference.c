/* preference.c - preference training (DPO): computes the losses of pairs of answers, and the weights of rows in the
 * gradients of these losses.
 *
 * Each token of an answer is a row with a loss of its own. The gradient of a pair's loss is a weighted sum of the
 * gradients of the row losses of both answers. The weights depend on the log-probabilities of both answers. Therefore
 * the last unit first computes the losses of all rows (layer/entropy.c), then the weights, and then its gradients with
 * these weights. */
#include "core/engine.h"

bool ce_preference_is_on(const cs_engine *engine)
{
    return engine->settings->preference.beta > 0;
}

static ce_preference_rows rows_of(const cs_engine *engine, cs_tensor losses, cs_tensor facts)
{
    return (ce_preference_rows){ .rule = engine->settings->preference,
                                 .losses = losses,
                                 .targets = engine->batch.targets,
                                 .references = engine->batch.references,
                                 .facts = facts };
}

static void weigh(void *argument, cs_tensor losses)
{
    cs_engine *engine = argument;
    cs_pass *pass = engine->pass;
    cs_tensor facts = cs_pass_make(pass, CS_F32, CE_PREFERENCE_FACTS, cs_pass_batch(pass) / CE_ANSWERS);
    ce_preference_rows rows = rows_of(engine, losses, facts);
    rows.weights = cs_pass_dloss(pass);
    ce_state_preference(cs_pass_stream(pass), &rows);
    ce_step_judge_add_pairs(engine, facts);
}

void ce_preference_begin(cs_engine *engine)
{
    ce_pass_weigh_later(engine->pass, weigh, engine);
}

void ce_preference_facts(cs_engine *engine, cs_tensor losses, cs_tensor facts)
{
    ce_preference_rows rows = rows_of(engine, losses, facts);
    ce_state_preference(ce_device_stream(engine->device, CE_COMPUTE), &rows);
}

int64_t ce_preference_count(cs_tensor targets)
{
    int64_t pairs = cs_rows(targets) / CE_ANSWERS, rows = CE_ANSWERS * cs_columns(targets), counted = 0;
    const int32_t *target = targets.data;
    for (int64_t b = 0; b < pairs; b++) {
        bool real = false;
        for (int64_t i = 0; i < rows && !real; i++)
            real = target[b * rows + i] >= 0;
        counted += real;
    }
    return counted;
}

void ce_preference_report(cs_preference *report, const double means[CE_PAIR_MEANS])
{
    *report =
        (cs_preference){ .chosen_reward = means[CE_PREFERENCE_CHOSEN_REWARD - 1],
                         .rejected_reward = means[CE_PREFERENCE_REJECTED_REWARD - 1],
                         .accuracy = means[CE_PREFERENCE_CORRECT - 1],
                         .margin = means[CE_PREFERENCE_CHOSEN_REWARD - 1] - means[CE_PREFERENCE_REJECTED_REWARD - 1],
                         .chosen_logp = means[CE_PREFERENCE_CHOSEN_LOGP - 1],
                         .rejected_logp = means[CE_PREFERENCE_REJECTED_LOGP - 1] };
}
