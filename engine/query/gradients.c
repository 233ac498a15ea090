/* gradients.c - cs_check_gradients: the gradients of backward compared with differences of the loss.
 *
 * The slope of the loss along a direction in the space of one parameter is measured by central differences whose step is
 * halved several times; Ridders' method (1982) extrapolates the differences to step 0 and estimates the error. So neither
 * the curvature of the loss (a step that is too long) nor the rounding of fp32 (one that is too short) has to be known.
 * A parameter is checked along one direction in which all elements change, each in the direction of its gradient, since
 * this slope is large beside the rounding; and along some single elements: the one with the greatest gradient, and
 * others in an order that depends only on the seed and the parameter's name. */
#include "query/query.h"
#include "base/misuse.h"
#include "base/must.h"
#include "base/rng.h"
#include "cspeed/comm.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 6, ELEMENTS = 4 };

static const double first_step = 0.1; /* relative to the mean size of the elements, or to 0.1 if they are smaller */

typedef struct {
    cs_engine *engine;
    cs_batch batch;
    double tolerance;
    const char *name;
    int64_t count;
    float *before, *gradient, *direction, *moved; /* of the parameter that is checked, as whole parameters */
    double loss;                                  /* of the unchanged model */
} check;

/* The loss of one rank's micro-batch. */
typedef struct {
    double sum;
    int64_t rows;
} part;

/* ---- the loss and the gradients ---- */

static void run_micro_batch(check *c, int64_t micro)
{
    c->engine->micro = micro;
    c->engine->phase = CE_FORWARD;
    cs_forward(c->engine, &c->batch);
    cs_backward(c->engine);
    ce_walk_settle(c->engine);
}

/* Returns the mean loss over all ranks. Every rank adds up the same numbers in the same order. */
static double loss_of(check *c)
{
    cs_engine *engine = c->engine;
    CE_FREED part *all = ce_must_alloc((size_t)engine->world.size * sizeof *all);
    part own = { 0 }, total = { 0 };
    ce_exact sum;
    run_micro_batch(c, 0);
    ce_stream_fetch(ce_device_stream(engine->device, CE_COMPUTE), &sum, &engine->judge.device->sums.loss, sizeof sum);
    if (ce_mesh_leads(&engine->mesh))
        own = (part){ ce_exact_value(&sum), engine->loss_rows_counted };
    cs_comm_all_gather(engine->comm, all, &own, sizeof own, CS_U8);
    for (int rank = 0; rank < engine->world.size; rank++) {
        total.sum += all[rank].sum;
        total.rows += all[rank].rows;
    }
    return total.sum / (double)total.rows;
}

/* Runs the micro-batch as often as a step needs, so that the gradients are complete. */
static cs_status read_gradient(check *c)
{
    cs_engine *engine = c->engine;
    for (int64_t micro = 0; micro < engine->settings->accumulation; micro++)
        run_micro_batch(c, micro);
    CE_TRY(cs_gradient_read(engine, c->name, c->gradient));
    double sums = ce_step_judge_terms(engine).sum_factor; /* the gradient of the sum over lanes, not of the mean */
    for (int64_t i = 0; i < c->count; i++)
        c->gradient[i] = (float)(c->gradient[i] / sums);
    engine->phase = CE_FORWARD;
    engine->micro = 0;
    return CS_OK;
}

static cs_status put(check *c, const float *values)
{
    c->engine->phase = CE_FORWARD;
    c->engine->micro = 0;
    return cs_param_write(c->engine, c->name, values);
}

/* ---- the slope along c->direction ---- */

static cs_status loss_at(check *c, double by, double *loss)
{
    for (int64_t i = 0; i < c->count; i++)
        c->moved[i] = (float)(c->before[i] + by * c->direction[i]);
    CE_TRY(put(c, c->moved));
    *loss = loss_of(c);
    return CS_OK;
}

/* Sets *slope to the measured slope and *error to an estimate of its error. The caller puts the values back. */
static cs_status measure(check *c, double step, double *slope, double *error)
{
    double row[STEPS], next[STEPS], above, below;
    *error = INFINITY;
    for (int i = 0; i < STEPS; i++, step /= 2) {
        CE_TRY(loss_at(c, step, &above));
        CE_TRY(loss_at(c, -step, &below));
        double rounding = (double)FLT_EPSILON * fabs(c->loss) / step, power = 1;
        next[0] = (above - below) / (2 * step);
        for (int j = 1; j <= i; j++) {
            power *= 4;
            next[j] = (next[j - 1] * power - row[j - 1]) / (power - 1);
            double doubt = fmax(fabs(next[j] - next[j - 1]), fabs(next[j] - row[j - 1])) + rounding;
            if (doubt <= *error) {
                *error = doubt;
                *slope = next[j];
            }
        }
        memcpy(row, next, sizeof row);
        if (*error < 0.1 * c->tolerance * fabs(*slope))
            break;
    }
    return CS_OK;
}

/* Returns the first step for the parameter's elements. */
static double step_for(const check *c)
{
    double squares = 0;
    for (int64_t i = 0; i < c->count; i++)
        squares += (double)c->before[i] * c->before[i];
    return first_step * fmax(sqrt(squares / (double)c->count), 0.1);
}

/* Compares the slope along c->direction; `element` is below 0 if all elements change. */
static cs_status compare(check *c, int64_t element)
{
    double slope = 0, measured = 0, error;
    for (int64_t i = 0; i < c->count; i++)
        slope += (double)c->direction[i] * c->gradient[i];
    CE_TRY(measure(c, step_for(c), &measured, &error));
    CE_TRY(put(c, c->before));
    if (fabs(measured - slope) <= c->tolerance * fmax(fabs(measured), fabs(slope)) + 2 * error)
        return CS_OK;
    const ce_unit_entry *entry = ce_model_find(c->engine->model, c->name);
    int64_t columns = entry->cut.whole[1];
    char where[96] = "the sum over all elements, each times a number of the sign of its gradient";
    if (element >= 0)
        snprintf(where, sizeof where, "element (%lld, %lld)", (long long)(element / columns),
                 (long long)(element % columns));
    return ce_fail(
        CS_MISUSE,
        "the gradient of %s is wrong, %s: backward computes %.7g, and differences of the loss give %.7g "
        "(error about %.1g). The parameters behind it in the model have the right gradients: look at backward "
        "of its unit, and at dx of the unit behind it",
        c->name, where, slope, measured, error);
}

/* ---- the directions of a parameter ---- */

static double random_of(const check *c, uint64_t number)
{
    uint64_t key = ce_rng_key((uint64_t)c->engine->settings->seed, c->name);
    return (double)(cs_rng_mix(key, number) >> 11) * 0x1p-53;
}

static cs_status check_all_elements(check *c)
{
    for (int64_t i = 0; i < c->count; i++) {
        double random = random_of(c, (uint64_t)i);
        bool down = c->gradient[i] < 0 || (c->gradient[i] == 0 && random < 0.5);
        c->direction[i] = (float)((0.5 + random / 2) * (down ? -1 : 1));
    }
    return compare(c, -1);
}

static cs_status check_elements(check *c)
{
    int64_t greatest = 0;
    for (int64_t i = 1; i < c->count; i++)
        if (fabsf(c->gradient[i]) > fabsf(c->gradient[greatest]))
            greatest = i;
    for (int n = 0; n < ELEMENTS && n < c->count; n++) {
        int64_t element = greatest;
        if (n > 0)
            element = (int64_t)(random_of(c, UINT64_MAX - (uint64_t)n) * (double)c->count);
        memset(c->direction, 0, (size_t)c->count * sizeof *c->direction);
        c->direction[element] = 1;
        CE_TRY(compare(c, element));
    }
    return CS_OK;
}

static cs_status check_param(check *c, const ce_unit_entry *entry)
{
    size_t bytes = (size_t)(entry->cut.whole[0] * entry->cut.whole[1]) * sizeof(float);
    c->name = entry->full_name;
    c->count = entry->cut.whole[0] * entry->cut.whole[1];
    CE_FREED float *before = c->before = ce_must_alloc(bytes), *gradient = c->gradient = ce_must_alloc(bytes);
    CE_FREED float *direction = c->direction = ce_must_alloc(bytes), *moved = c->moved = ce_must_alloc(bytes);
    CE_TRY(cs_param_read(c->engine, c->name, before));
    CE_TRY(read_gradient(c));
    cs_status status = check_all_elements(c);
    return status == CS_OK ? check_elements(c) : status;
}

/* ---- the call ---- */

static cs_status refuse(const cs_engine *engine, double tolerance)
{
    ce_precision types = engine->zero.precision;
    if (!(tolerance > 0 && tolerance < 1))
        return ce_fail(CS_MISUSE, "cs_check_gradients: the tolerance is %g, and a number between 0 and 1 is needed",
                       tolerance);
    if (types.values != CS_F32 || types.products != CS_F32)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: cs_check_gradients in 16 bits, because their rounding hides small "
                       "differences of the loss: check with a configuration in fp32");
    if (engine->model->load.layers > 0)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: cs_check_gradients of a model with experts, because the loss jumps "
                       "where a token changes its experts");
    if (engine->settings->lora.dora)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: cs_check_gradients with DoRA, whose gradients take the norm of a row "
                       "as a constant");
    if (engine->micro != 0)
        return ce_fail(CS_MISUSE,
                       "cs_check_gradients: %lld micro-batches of a step have been accumulated; call it "
                       "between two steps",
                       (long long)engine->micro);
    return CS_OK;
}

static cs_status check_model(check *c)
{
    const cs_model *model = c->engine->model;
    c->loss = loss_of(c);
    if (!isfinite(c->loss))
        return ce_fail(CS_MISUSE, "cs_check_gradients: the loss of the batch is %g", c->loss);
    for (int i = model->count - 1; i >= model->first_trained; i--)
        for (int at = 0; at < model->units[i]->entry_count; at++)
            if (!model->units[i]->entries[at]->param.frozen)
                CE_TRY(check_param(c, model->units[i]->entries[at]));
    return CS_OK;
}

cs_status cs_check_gradients(cs_engine *engine, const cs_batch *batch, double tolerance)
{
    CE_GIVEN(engine, batch);
    ce_phase_expect(engine, CE_FORWARD, "cs_check_gradients");
    CE_TRY(refuse(engine, tolerance));
    check c = { .engine = engine, .batch = *batch, .tolerance = tolerance };
    int64_t count = engine->sequences;
    CE_FREED int64_t *samples = ce_must_alloc((size_t)count * sizeof *samples);
    for (int64_t b = 0; b < count; b++)
        samples[b] = ce_forward_sample(engine, b);
    if (!batch->samples)
        c.batch.samples = samples; /* each run has the same dropout */
    bool fresh = engine->fresh;
    cs_status status = check_model(&c);
    engine->phase = CE_FORWARD;
    engine->micro = 0;
    engine->fresh = fresh;
    return status;
}
