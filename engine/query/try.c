/* try.c - the calls of a step that return a status: cs_try_forward, cs_try_backward, cs_try_step. */
#include "query/query.h"
#include "base/catch.h"
#include "base/misuse.h"

typedef struct {
    cs_engine *engine;
    const cs_batch *batch;
    bool *stepped;
} call;

static void forward(void *argument)
{
    const call *c = argument;
    cs_forward(c->engine, c->batch);
}

static void backward(void *argument)
{
    const call *c = argument;
    cs_backward(c->engine);
}

static void step(void *argument)
{
    const call *c = argument;
    *c->stepped = cs_step(c->engine);
}

/* After a fatal error the engine's streams, shards and pass are as the error has left them. */
static cs_status attempt(void (*run)(void *argument), call c)
{
    if (c.engine->failed)
        return ce_fail(CS_MISUSE, "an earlier call of a step failed, so this engine can only be destroyed");
    cs_status status = ce_catch(run, &c);
    c.engine->failed = status != CS_OK;
    return status;
}

cs_status cs_try_forward(cs_engine *engine, const cs_batch *batch)
{
    CE_GIVEN(engine, batch);
    return attempt(forward, (call){ .engine = engine, .batch = batch });
}

cs_status cs_try_backward(cs_engine *engine)
{
    CE_GIVEN(engine);
    return attempt(backward, (call){ .engine = engine });
}

cs_status cs_try_step(cs_engine *engine, bool *stepped)
{
    CE_GIVEN(engine, stepped);
    return attempt(step, (call){ .engine = engine, .stepped = stepped });
}
