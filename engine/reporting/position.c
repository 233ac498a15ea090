/* position.c - writes to the heartbeat (base/beat.h) which unit of which phase this rank computes. If the rank stalls, the
 * launcher's report says so. On a GPU it is the unit whose operations the host queues; replayed CUDA graphs have none. */
#include "reporting/reporting.h"
#include "base/beat.h"

static void begin_phase(cs_engine *engine, ce_phase phase)
{
    static const int names[] = { [CE_FORWARD] = CE_BEAT_FORWARD,
                                 [CE_BACKWARD] = CE_BEAT_BACKWARD,
                                 [CE_STEP] = CE_BEAT_UPDATE,
                                 [CE_EVALUATE] = CE_BEAT_EVALUATION };
    bool counts = phase != CE_EVALUATE && engine->settings->accumulation > 1;
    ce_beat_phase(names[phase], counts ? engine->micro + 1 : 0);
}

static void end_phase(cs_engine *engine, ce_phase phase)
{
    (void)engine, (void)phase;
    ce_beat_phase(CE_BEAT_NO_PHASE, 0);
}

static void begin_unit(cs_engine *engine, int unit)
{
    ce_beat_unit(unit, ce_unit_label(engine->model->units[unit]));
}

static void end_units(cs_engine *engine)
{
    (void)engine;
    ce_beat_no_unit();
}

const ce_observer ce_position_observer = {
    .phase_begin = begin_phase, .phase_end = end_phase, .unit_begin = begin_unit, .units_end = end_units
};
