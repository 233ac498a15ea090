/* finite.c - detection of NaN and infinity: steps whose loss or gradient norm is not finite are counted and reported
 * with the first affected parameter, and nan_patience such steps in a row end the run. Steps without a target, and steps
 * whose gradients are all zero, are counted too: nan_patience of them in a row end the run. So do steps with a high
 * loss (loss_watchdog_threshold).
 *
 * Every rank reads the same verdict, so every rank counts the same steps. The search for the parameter is collective
 * and reads all values and gradients; it runs only once for each series of such steps. A GPU's verdict is read one step
 * later: the reported step number is right, but the search sees the state after the step. */
#include "reporting/reporting.h"
#include "base/log.h"
#include "base/must.h"
#include "base/plural.h"
#include "base/say.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns true for a step that a dynamic loss scale skips because only the gradients overflowed. A dynamic loss scale
 * finds its value by such steps, so they are not counted. A loss that is not finite is always counted,
 * because the loss scale does not affect the loss. */
static bool is_search(const cs_engine *engine, const ce_verdict *verdict)
{
    return engine->scaler.dynamic && !verdict->gate.open && isfinite(verdict->loss);
}

/* Counts the steps in a row that move nothing. */
static void count_idle(cs_engine *engine, const ce_verdict *verdict)
{
    int64_t patience = engine->settings->nan_patience, *idle = &engine->reporting->finite.idle;
    char why[384];
    *idle = verdict->rows == 0 || verdict->norm == 0 ? *idle + 1 : 0;
    if (patience == 0 || *idle < patience)
        return;
    snprintf(
        why, sizeof why, "%s in %lld step%s in a row, the first of them step %lld (cspeed.nan_patience): %s",
        verdict->rows == 0 ? "no sample had a target" : "all gradients were zero", (long long)*idle, ce_plural(*idle),
        (long long)(engine->metrics.step - *idle + 1),
        verdict->rows == 0
            ? "the data has no token that counts in the loss; check the roles and the template of its conversations"
            : "no parameter changes; the gradients with an fp16 loss scale that is too low become zero, and so "
              "do those of a model that already predicts all its data");
    if (!engine->must_end)
        engine->must_end = strdup(why);
    *idle = 0;
}

/* Counts the steps in a row whose loss is above the watchdog's threshold. A NaN is above it too. */
static void count_high(cs_engine *engine, const ce_verdict *verdict)
{
    const ce_settings *settings = engine->settings;
    int64_t *high = &engine->reporting->finite.high;
    char why[384];
    *high = verdict->rows > 0 && !(verdict->loss <= settings->loss_watchdog_threshold) ? *high + 1 : 0;
    if (settings->loss_watchdog_threshold <= 0 || *high < settings->loss_watchdog_patience || engine->must_end)
        return;
    snprintf(why, sizeof why,
             "the loss was above %g (cspeed.loss_watchdog_threshold) in %lld step%s in a row, the first of them step "
             "%lld: a lower learning rate, a longer warm-up or gradient_clipping may prevent it",
             settings->loss_watchdog_threshold, (long long)*high, ce_plural(*high),
             (long long)(engine->metrics.step - *high + 1));
    engine->must_end = strdup(why);
}

static void count(cs_engine *engine, const ce_verdict *verdict)
{
    ce_finite *finite = &engine->reporting->finite;
    count_idle(engine, verdict);
    count_high(engine, verdict);
    if (verdict->rows == 0 || is_search(engine, verdict))
        return;
    if (isfinite(verdict->loss) && isfinite(verdict->norm)) {
        engine->metrics.not_finite = 0;
        return;
    }
    if (engine->metrics.not_finite++ > 0)
        return;
    finite->unreported = true;
    finite->step = engine->metrics.step;
    finite->loss = verdict->loss;
    finite->norm = verdict->norm;
}

/* ---- the first affected parameter ---- */

typedef enum { IN_VALUE, IN_GRADIENT } place;

/* A search for elements that are not finite. The operation for the gradient norm counts them; every device has this
 * operation. */
typedef struct {
    cs_stream *stream;
    ce_exact *sum; /* in device memory */
    int64_t seen;  /* sum->nonfinite at the last read */
} search;

static bool finds(search *s, void *elements, cs_dtype dtype, int64_t count)
{
    ce_exact sum;
    ce_state_sum_squares(s->stream, s->sum, cs_vector(elements, dtype, count), 0, 1);
    ce_stream_fetch(s->stream, &sum, s->sum, sizeof sum);
    bool found = sum.nonfinite != s->seen;
    s->seen = sum.nonfinite;
    return found;
}

static const int64_t nowhere = INT64_MAX;

/* Returns the index, within the unit, of the first parameter whose shard on this rank is not finite; `nowhere` if all
 * are finite. */
static int64_t search_unit(search *s, cs_engine *engine, int i, place where)
{
    const cs_unit *unit = engine->model->units[i];
    ce_precision types = engine->zero.precision;
    CE_FREED ce_shard_piece *pieces = ce_must_alloc(ce_shard_pieces_room(engine->shards[i]));
    int count = ce_shard_pieces(engine->shards[i], pieces);
    int64_t number = 0, found = nowhere;
    for (int at = 0; at < count && found == nowhere; at++) {
        void *elements = where == IN_VALUE ? pieces[at].master : pieces[at].gradient;
        while (unit->entries[number] != pieces[at].entry)
            number++;
        if (finds(s, elements, where == IN_VALUE ? types.masters : types.sums, ce_shard_span(&pieces[at])))
            found = number;
    }
    return found;
}

/* Returns the name of the first parameter, in the model's order, that is not finite on some rank; NULL if there is
 * none. Collective. */
static const char *find_first(cs_engine *engine, place where)
{
    search s = { ce_device_stream(engine->device, CE_COMPUTE), ce_device_alloc(engine->device, sizeof *s.sum), 0 };
    int64_t found = nowhere, before = 0;
    int unit = 0;
    cs_op_fill(s.stream, cs_vector(s.sum, CS_F32, sizeof *s.sum / sizeof(float)), 0);
    for (int i = 0; i < engine->model->count && found == nowhere; i++) {
        int64_t number = search_unit(&s, engine, i, where);
        found = number == nowhere ? nowhere : before + number;
        before += engine->model->units[i]->entry_count;
    }
    ce_device_free(engine->device, s.sum);
    cs_comm_all_reduce(engine->comm, &found, 1, CS_I64, CS_MIN);
    if (found == nowhere)
        return NULL;
    for (; found >= engine->model->units[unit]->entry_count; unit++)
        found -= engine->model->units[unit]->entry_count;
    return engine->model->units[unit]->entries[found]->full_name;
}

/* ---- messages ---- */

static const char *advice(const cs_engine *engine)
{
    if (engine->zero.precision.masters == CS_F16)
        return "fp16 cannot hold small optimizer states: keep fp32 masters (amp: \"opt_level\": \"O2\"), or use bf16";
    if (engine->zero.precision.scaled && !engine->scaler.dynamic)
        return "a static loss scale cannot adapt: use a lower one, or a dynamic one (fp16: \"loss_scale\": 0, amp: "
               "\"dynamic\")";
    return "a lower learning rate, a longer warm-up or gradient_clipping may prevent it";
}

/* Values are searched before gradients, because one value that is not finite makes the gradients of many parameters not
 * finite. */
static void report(cs_engine *engine)
{
    const ce_finite *finite = &engine->reporting->finite;
    int64_t patience = engine->settings->nan_patience;
    char where[512] = "every parameter's value and gradient are finite now", limit[128] = "";
    ce_walk_settle(engine);
    const char *value = find_first(engine, IN_VALUE), *gradient = value ? NULL : find_first(engine, IN_GRADIENT);
    if (value || gradient)
        snprintf(where, sizeof where, "the first parameter whose %s is not finite is %s", value ? "value" : "gradient",
                 value ? value : gradient);
    if (patience > 0)
        snprintf(limit, sizeof limit, "; the run ends after %lld such step%s in a row (cspeed.nan_patience)",
                 (long long)patience, ce_plural(patience));
    ce_log(CE_LOG_WARNING, "step %lld: the loss is %s and the norm of the gradients is %s; %s; %s%s",
           (long long)finite->step, ce_say_number(finite->loss).text, ce_say_number(finite->norm).text, where,
           advice(engine), limit);
}

/* Ends every rank with exit code 1; cs_must also tells the launcher not to restart the job. If a save is in progress,
 * the function completes it first. */
static void end_run(cs_engine *engine, const char *why)
{
    const char *kept;
    if (ce_phase_end_run(engine, &kept) != CS_OK)
        ce_log(CE_LOG_WARNING, "%s", cs_error());
    ce_fail(CS_NOT_FINITE, "%s; the run ends here, and %s%s", why,
            kept ? "its last checkpoint with finite values is " : "it has saved no checkpoint with finite values",
            kept ? kept : "");
    cs_must(CS_NOT_FINITE, "");
}

static void report_and_end(cs_engine *engine)
{
    ce_finite *finite = &engine->reporting->finite;
    int64_t patience = engine->settings->nan_patience;
    char why[512];
    if (finite->unreported) {
        finite->unreported = false;
        report(engine);
    }
    if (engine->must_end) {
        snprintf(why, sizeof why, "%s", engine->must_end);
        free(engine->must_end);
        engine->must_end = NULL;
        end_run(engine, why);
    }
    if (patience == 0 || engine->metrics.not_finite < patience)
        return;
    snprintf(why, sizeof why,
             "the loss or the gradients were not finite in %lld step%s in a row, the first of them step %lld "
             "(cspeed.nan_patience): %s",
             (long long)engine->metrics.not_finite, ce_plural(engine->metrics.not_finite), (long long)finite->step,
             advice(engine));
    engine->metrics.not_finite = 0;
    end_run(engine, why);
}

const ce_observer ce_finite_observer = { .settled = count, .agreed = report_and_end };

void ce_finite_close(cs_engine *engine)
{
    const ce_finite *finite = &engine->reporting->finite;
    if (finite->unreported)
        ce_log(CE_LOG_WARNING, "step %lld: the loss is %s and the norm of the gradients is %s", (long long)finite->step,
               ce_say_number(finite->loss).text, ce_say_number(finite->norm).text);
}
