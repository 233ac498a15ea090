/* best.c - the best evaluation of a training: its checkpoint is kept (cspeed.keep_best), and a training that does not
 * improve any more ends (cspeed.early_stopping_patience). Both decide as Trainer and its EarlyStoppingCallback do. The
 * record is a part of each checkpoint, so a training that continues knows it. */
#include "base/must.h"
#include "train.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The values of cspeed.best_metric, by their index. */
enum { LOSS, ACCURACY, MARGIN };

static int64_t metric(const session *run)
{
    return cs_config_get_int(run->config, "cspeed.best_metric");
}

static const char *metric_name(const session *run)
{
    static const char *const names[] = { "loss", "rewards/accuracies", "rewards/margins" };
    return names[metric(run)];
}

static bool keeps(const session *run)
{
    return cs_config_get_bool(run->config, "cspeed.keep_best");
}

/* Returns by how much the value is better than the best one. A greater reward is better, and a smaller loss. */
static double gain_of(const session *run, double value)
{
    return metric(run) == LOSS ? run->best.value - value : value - run->best.value;
}

static double value_of(const session *run, const cs_scores *scores)
{
    return metric(run) == LOSS       ? scores->loss
           : metric(run) == ACCURACY ? scores->preference.accuracy
                                     : scores->preference.margin;
}

static void set(session *run, best_record record)
{
    run->best = record;
    if (keeps(run))
        cs_keep_checkpoint(run->engine, record.step);
}

bool best_take(session *run, const cs_scores *scores)
{
    double value = value_of(run, scores), gain = gain_of(run, value);
    bool first = run->best.step == 0 && isfinite(value), better = first || gain > 0;
    bool counts = first || gain > cs_config_get_number(run->config, "cspeed.early_stopping_threshold");
    best_record record = { better ? value : run->best.value, better ? cs_last_step(run->engine).step : run->best.step,
                           counts ? 0 : run->best.waited + 1 };
    run->former = run->best;
    set(run, record);
    return better && keeps(run);
}

void best_withdraw(session *run)
{
    best_record record = run->former;
    record.waited = run->best.waited;
    set(run, record);
}

bool best_ends(const session *run)
{
    int64_t patience = cs_config_get_int(run->config, "cspeed.early_stopping_patience");
    return patience > 0 && run->best.waited >= patience;
}

void best_say_end(const session *run)
{
    say("the training ends early: %" PRId64
        " evaluations in a row were not better than the best, %s %.4f at step %" PRId64
        "; a greater cspeed.early_stopping_patience continues",
        run->best.waited, metric_name(run), run->best.value, run->best.step);
}

char *best_tag(const session *run)
{
    return keeps(run) && run->best.step > 0 ? ce_must_print("global_step%" PRId64, run->best.step) : NULL;
}

char *best_text(const session *run)
{
    if (run->best.step == 0)
        return ce_must_print("\"waited_evaluations\": %" PRId64, run->best.waited);
    return ce_must_print("\"best_metric\": \"%s\", \"best_value\": %.17g, \"best_step\": %" PRId64
                         ", \"waited_evaluations\": %" PRId64,
                         metric_name(run), run->best.value, run->best.step, run->best.waited);
}

/* Returns true if the checkpoint of the record was removed, or was never saved because cspeed.keep_best was false. */
static bool is_gone(const session *run)
{
    CE_FREED char *tag = best_tag(run);
    CE_FREED char *manifest = ce_must_print("%s/%s/manifest.json", run->output, tag ? tag : "");
    return cs_agree(run->engine, tag && is_rank_zero() && access(manifest, F_OK) != 0);
}

void best_resume(session *run, const char *client, double (*number)(const char *json, const char *key, double fallback))
{
    CE_FREED char *same = ce_must_print("\"best_metric\": \"%s\"", metric_name(run));
    int64_t step = (int64_t)number(client, "best_step", 0);
    if (step > 0 && !strstr(client, same)) {
        say("cspeed.best_metric is another than before: the best checkpoint is found anew");
        return;
    }
    set(run, (best_record){ number(client, "best_value", (double)NAN), step,
                            (int64_t)number(client, "waited_evaluations", 0) });
    if (is_gone(run)) {
        say("there is no checkpoint of the best evaluation, at step %" PRId64 ": the best checkpoint is found anew",
            step);
        set(run, (best_record){ .value = (double)NAN });
    }
}

void best_load(session *run)
{
    CE_FREED char *tag = best_tag(run);
    if (!tag)
        return;
    say("the best checkpoint is %s/%s, %s %.4f", run->output, tag, metric_name(run), run->best.value);
    if (run->best.step != cs_last_step(run->engine).step)
        CS_MUST(cs_load_checkpoint(run->engine, run->output, tag, &(cs_load_options){ .module_only = true }, NULL));
}
