/* backward.c - cs_backward: runs the units in reverse order, down to the first unit that has a trained parameter. Each
 * unit's gradient is reduced as soon as it is complete. At stages 0 and 1 a unit's gradient is reduced only in the last
 * micro-batch of a step, when the gradients of all micro-batches have been added. */
#include "core/engine.h"

static ce_micro micro_of(const cs_engine *engine)
{
    return engine->micro == 0 ? CE_FIRST_MICRO_BATCH : CE_LATER_MICRO_BATCH;
}

static void open_first(ce_shard *shard)
{
    ce_gradient_open(shard, CE_FIRST_MICRO_BATCH);
}

static void open_later(ce_shard *shard)
{
    ce_gradient_open(shard, CE_LATER_MICRO_BATCH);
}

void ce_backward_open(cs_engine *engine, int i)
{
    ce_walk_each(engine, i, micro_of(engine) == CE_FIRST_MICRO_BATCH ? open_first : open_later);
    ce_unit_refresh_shared(engine->model->units[i]);
}

/* Activation recomputation: the unit's forward runs again, from its saved input and with the same random bits. */
static void recompute(cs_engine *engine, int i)
{
    cs_unit *unit = engine->model->units[i];
    cs_pass *pass = engine->pass;
    cs_tensor y = cs_pass_make(pass, cs_pass_dtype(pass), ce_pass_rows(pass), engine->model->width);
    ce_pass_turn(pass, CE_PASS_AGAIN);
    unit->kind->forward(unit, pass, engine->inputs[i], y);
    ce_pass_turn(pass, CE_PASS_BACKWARD);
    ce_pass_let_go(pass, engine->inputs[i]);
}

/* Returns true if backward finishes the reduction of gradients. CUDA graphs cannot finish the reduction: their launches
 * are the same in every micro-batch, and the reduction is finished only in the last micro-batch. */
bool ce_backward_finishes(const cs_engine *engine)
{
    return !engine->graphs;
}

/* Starts the reduction of a unit's gradients. In the last micro-batch of a step it also finishes the reduction, which
 * then overlaps with the backward of the next units. */
static void reduce_gradients(cs_engine *engine, int i)
{
    double started = ce_clock_seconds();
    ce_gradient_reduce(engine->shards[i], micro_of(engine));
    if (ce_backward_finishes(engine) && engine->micro + 1 == engine->settings->accumulation)
        ce_gradient_finish(engine->shards[i]);
    engine->seconds.reduce += ce_clock_seconds() - started;
}

void ce_backward_units(cs_engine *engine)
{
    int last = engine->model->count - 1, first = engine->model->first_trained;
    cs_tensor dy = cs_pass_dloss(engine->pass);
    engine->ahead = last; /* after forward the parameters of the last unit are still gathered */
    CE_OBSERVE(engine, units_begin, (engine, NULL));
    for (int i = last; i >= first; i--) {
        cs_unit *unit = ce_walk_enter(engine, engine->pass, i, CE_UP);
        ce_backward_open(engine, i);
        if (i < last && engine->settings->recompute == CE_RECOMPUTE_UNIT)
            recompute(engine, i);
        cs_tensor dx = { 0 };
        if (i > 0) {
            dx = cs_pass_make(engine->pass, cs_pass_dtype(engine->pass), ce_pass_rows(engine->pass),
                              engine->model->width);
            ce_pass_hold(engine->pass, dx);
        }
        unit->kind->backward(unit, engine->pass, dy, dx);
        ce_pass_let_go(engine->pass, dy);
        ce_walk_leave(engine, engine->pass, i, CE_UP, true);
        reduce_gradients(engine, i);
        dy = dx;
    }
    ce_pass_let_go(engine->pass, dy); /* `dy` is empty if the loop went down to unit 0 */
    ce_pass_let_go(engine->pass, engine->loss_rows);
    ce_pass_end(engine->pass);
    CE_OBSERVE(engine, units_end, (engine));
}

void cs_backward(cs_engine *engine)
{
    ce_phase_begin(engine, CE_BACKWARD);
    ce_backward_units(engine);
    ce_phase_end(engine, CE_BACKWARD);
}
