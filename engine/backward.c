/* backward.c - cs_backward: units in reverse order; each unit's gradient is reduced as soon as it is complete. */
#include "engine.h"

static cs_micro micro_of(const cs_engine *engine)
{
    return engine->micro == 0 ? CS_FIRST_MICRO_BATCH : CS_LATER_MICRO_BATCH;
}

static void open_first(cs_shard *shard)
{
    cs_gradient_open(shard, CS_FIRST_MICRO_BATCH);
}

static void open_later(cs_shard *shard)
{
    cs_gradient_open(shard, CS_LATER_MICRO_BATCH);
}

void cs_backward_open(cs_engine *engine, int i)
{
    cs_walk_each(engine, i, micro_of(engine) == CS_FIRST_MICRO_BATCH ? open_first : open_later);
    cs_unit_refresh_loans(engine->model->units[i]);
}

/* Activation recomputation: the unit's forward runs again, from its saved input and with the same random bits. */
static void recompute(cs_engine *engine, int i)
{
    cs_unit *unit = engine->model->units[i];
    cs_tensor x = engine->inputs[i];
    int64_t rows = cs_pass_batch(engine->pass) * cs_pass_length(engine->pass);
    unit->kind->forward(unit, engine->pass, x,
                        cs_pass_make(engine->pass, cs_pass_dtype(engine->pass), rows, engine->model->width));
    cs_pass_let_go(engine->pass, x);
}

static void reduce_gradients(cs_engine *engine, int i)
{
    double started = cs_clock_seconds();
    cs_gradient_reduce(engine->shards[i], micro_of(engine));
    engine->seconds.reduce += cs_clock_seconds() - started;
}

void cs_backward_units(cs_engine *engine)
{
    int last = engine->model->count - 1;
    cs_tensor dy = cs_pass_dloss(engine->pass);
    engine->ahead = last; /* forward left the last unit gathered */
    cs_graphs_backward(engine);
    for (int i = last; i >= 0; i--) {
        cs_unit *unit = cs_walk_enter(engine, i, CS_UP);
        cs_backward_open(engine, i);
        if (i < last && engine->settings->recompute == CS_RECOMPUTE_UNIT)
            recompute(engine, i);
        cs_tensor dx = { 0 };
        if (i > 0) {
            dx = cs_pass_make(engine->pass, cs_pass_dtype(engine->pass), cs_rows(dy), engine->model->width);
            cs_pass_hold(engine->pass, dx);
        }
        unit->kind->backward(unit, engine->pass, dy, dx);
        cs_pass_let_go(engine->pass, dy);
        cs_walk_leave(engine, i, true);
        reduce_gradients(engine, i);
        dy = dx;
    }
    cs_pass_let_go(engine->pass, engine->loss_rows);
    cs_pass_end(engine->pass);
    cs_graphs_end(engine);
}

void cs_backward(cs_engine *engine)
{
    cs_phase_begin(engine, CS_BACKWARD);
    cs_backward_units(engine);
    cs_phase_end(engine, CS_BACKWARD);
}
