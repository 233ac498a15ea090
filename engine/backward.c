/* backward.c - cs_backward: up the list, reducing on the way. */
#include "engine.h"

static cs_micro micro_of(const cs_engine *engine)
{
    return engine->micro == 0 ? CS_FIRST_MICRO_BATCH : CS_LATER_MICRO_BATCH;
}

static void open_grads(cs_engine *engine, int i)
{
    cs_unit *unit = engine->model->units[i];
    cs_gradient_open(engine->shards[i], micro_of(engine));
    for (int lender = 0; lender < unit->lender_count; lender++)
        cs_gradient_open(engine->shards[unit->lenders[lender]->index], micro_of(engine));
    cs_unit_refresh_loans(unit);
}

/* What forward forgot is made again, from the unit's input and the same random bits. */
static void recompute(cs_engine *engine, int i)
{
    cs_unit *unit = engine->model->units[i];
    cs_tensor x = engine->inputs[i];
    int64_t rows = cs_pass_batch(engine->pass) * cs_pass_length(engine->pass);
    unit->kind->forward(unit, engine->pass, x,
                        cs_pass_make(engine->pass, cs_pass_dtype(engine->pass), rows, engine->model->width));
    cs_pass_let_go(engine->pass, x);
}

void cs_backward_ascend(cs_engine *engine)
{
    int last = engine->model->count - 1;
    cs_tensor dy = cs_pass_dloss(engine->pass);
    engine->ahead = last; /* still gathered since the turn */
    cs_graphs_up(engine);
    for (int i = last; i >= 0; i--) {
        cs_unit *unit = cs_walk_enter(engine, i, CS_UP);
        open_grads(engine, i);
        if (i < last && engine->settings->recompute)
            recompute(engine, i);
        cs_tensor dx = { 0 };
        if (i > 0) {
            dx = cs_pass_make(engine->pass, cs_pass_dtype(engine->pass), cs_rows(dy), engine->model->width);
            cs_pass_hold(engine->pass, dx);
        }
        unit->kind->backward(unit, engine->pass, dy, dx);
        cs_pass_let_go(engine->pass, dy);
        cs_walk_leave(engine, i, true);
        double started = cs_clock_seconds();
        cs_gradient_reduce(engine->shards[i], micro_of(engine));
        engine->seconds.reduce += cs_clock_seconds() - started;
        dy = dx;
    }
    cs_pass_let_go(engine->pass, engine->loss_rows);
    cs_pass_end(engine->pass);
    cs_graphs_end(engine);
}

void cs_backward(cs_engine *engine)
{
    cs_forward_expect(engine, CS_EXPECT_BACKWARD, "cs_backward");
    cs_occupancy_print(engine, "Engine before backward");
    double started = cs_clock_seconds();
    cs_device_enter(engine->device, "backward");
    cs_backward_ascend(engine);
    cs_device_leave(engine->device);
    engine->phase = CS_EXPECT_STEP;
    engine->seconds.backward += cs_walk_clock(engine) - started;
    cs_occupancy_print(engine, "Engine after backward");
}
