/* observer.h - what rooms outside the loop do at the points of a step: saving, reporting and input. The loop calls the
 * functions of engine->observers in the order of this list, and knows nothing else of these rooms. A function may be
 * NULL. */
#ifndef CE_CORE_OBSERVER_H
#define CE_CORE_OBSERVER_H

#include "cspeed/cspeed.h"
#include "optim/verdict.h"

typedef struct ce_forward_input ce_forward_input;

/* The phases of a micro-batch: a program calls cs_forward, cs_backward and cs_step in this order. CE_EVALUATE is an
 * evaluation, which is allowed when the next call is cs_forward. */
typedef enum { CE_FORWARD, CE_BACKWARD, CE_STEP, CE_EVALUATE } ce_phase;

typedef struct {
    void (*phase_begin)(cs_engine *engine, ce_phase phase); /* before the phase's clock starts */
    void (*phase_end)(cs_engine *engine, ce_phase phase);   /* after the phase's clock has stopped */
    /* The units' operations of a forward or backward begin; `input` is NULL in backward. */
    void (*units_begin)(cs_engine *engine, const ce_forward_input *input);
    void (*units_end)(cs_engine *engine);
    void (*unit_begin)(cs_engine *engine, int unit);         /* before the unit's parameters are gathered */
    void (*unit_enter)(cs_engine *engine);                   /* the parameters of the next unit are gathered */
    void (*unit_leave)(cs_engine *engine, int unit);         /* called before the unit's parameters are released */
    void (*batch)(cs_engine *engine, cs_batch *batch);       /* may replace the micro-batch, whose shape is checked */
    void (*sums_add)(cs_engine *engine, ce_step_sums *sums); /* adds to this rank's sums, before the sum over ranks */
    void (*reduce)(cs_engine *engine); /* may put collectives into the comm stream, beside the sum over ranks */
    /* This rank has read the verdict on step number metrics.step; the loss scale is still that of this step. */
    void (*settled)(cs_engine *engine, const ce_verdict *verdict);
    /* All ranks have read the same verdict on the last step, so that the function may communicate. The gradients of
     * this step are still in memory if the host reads the verdict at once (ce_step_settle). */
    void (*agreed)(cs_engine *engine);
    void (*before_update)(cs_engine *engine); /* parameters and optimizer state change after this call */
    /* The run ends: completes what is in progress, and returns its status. Collective. Sets *kept to the name of the
     * last good checkpoint, if there is one. */
    cs_status (*run_end)(cs_engine *engine, const char **kept);
} ce_observer;

/* Calls a function of all observers that have it, with a list of arguments in parentheses. */
#define CE_OBSERVE(engine, point, arguments)                                                                           \
    do                                                                                                                 \
        for (const ce_observer *const *each = (engine)->observers; each && *each; each++)                              \
            if ((*each)->point)                                                                                        \
                (*each)->point arguments;                                                                              \
    while (0)

#endif
