/* check.c - when a pass checks what units write (unit/pass_check.c). */
#include "query/query.h"

static void begin(cs_engine *engine, ce_phase phase)
{
    bool on = engine->settings->check || (!engine->model_json && !engine->stepped);
    if (phase != CE_FORWARD && phase != CE_EVALUATE)
        return;
    ce_pass_check(engine->pass, on);
    engine->uncaptured |= on;
}

static void end(cs_engine *engine, ce_phase phase)
{
    engine->stepped |= phase == CE_STEP && engine->micro == 0;
}

const ce_observer ce_check_observer = { .phase_begin = begin, .phase_end = end };
