/* reporting.h - the functions of reporting/ that other files call, in this room or outside: log lines, memory, profile
 * and trace. */
#ifndef CE_REPORTING_REPORTING_H
#define CE_REPORTING_REPORTING_H

#include "core/engine.h"
#include "monitor/monitor.h"

typedef struct ce_profile ce_profile;
typedef struct ce_trace_file ce_trace_file;

/* Steps whose loss or gradient norm is not finite, and steps that move nothing (finite.c). */
typedef struct {
    int64_t idle; /* number of steps in a row, up to the last one, without a target or whose gradients are all zero */
    int64_t high; /* number of steps in a row, up to the last one, whose loss is above the watchdog's threshold */
    /* true if a series of non-finite steps has begun and its first step is not reported yet */
    bool unreported;
    int64_t step; /* first step of the current series of non-finite steps; `loss` and `norm` are of this step */
    double loss, norm;
} ce_finite;

struct ce_reporting {
    cs_phase_seconds micro_before;     /* engine->seconds at the end of the previous micro-batch */
    int64_t timed_steps, timed_micros; /* steps and micro-batches that this process has timed */
    double timed_seconds;              /* seconds of the steps of this process, without the first two steps */
    ce_monitor *monitor;               /* monitors that receive events; NULL if none is enabled or this is not rank 0 */
    ce_profile *profile;               /* the profile of a pass; NULL if the profiler is off or this is not rank 0 */
    ce_trace_file *trace;              /* the trace file; NULL without cspeed.trace */
    ce_finite finite;
};

/* report.c: DeepSpeed's log lines and monitor events */
cs_status ce_report_open(cs_engine *engine);
void ce_report_close(cs_engine *engine);
extern const ce_observer ce_report_observer; /* everything that is reported of phases, units and steps */

/* memory_report.c: prints the lines of memory_breakdown, and computes the bytes that this rank's engine holds */
void ce_memory_report_print(const cs_engine *engine, const char *moment);
double ce_memory_report_held(const cs_engine *engine);

/* trace.c: cspeed.trace, a file in Chrome's trace format. ce_trace_file_begin_step is called before a step's first
 * forward, ce_trace_file_end_step after the step; both do nothing for steps that are not recorded. All functions but
 * ce_trace_file_close are collective. */
cs_status ce_trace_file_open(cs_engine *engine);
void ce_trace_file_close(cs_engine *engine);
void ce_trace_file_begin_step(cs_engine *engine);
void ce_trace_file_end_step(cs_engine *engine);

/* dump.c: prints the configuration and the engine's sizes if dump_state is set */
void ce_dump_engine(const cs_engine *engine);

/* profile.c: profile of one forward pass, unit by unit. Each function returns at once if there is no profile. */
void ce_profile_open(cs_engine *engine);
void ce_profile_close(cs_engine *engine);
void ce_profile_start(cs_engine *engine); /* called before a forward pass; sets engine->uncaptured */
void ce_profile_enter(cs_engine *engine);
void ce_profile_leave(cs_engine *engine, int i);
void ce_profile_stop(cs_engine *engine);
void ce_profile_print(cs_engine *engine); /* prints the profile after the step that was profiled */

/* experts.c: the load of the experts; nothing is done for a model without experts.
 * ce_experts_check returns CS_UNSUPPORTED if the configuration has a setting that a model with experts does not
 * support. */
cs_status ce_experts_check(const cs_engine *engine);
/* Returns the bytes of device memory that ce_experts_open needs, a multiple of 64. */
size_t ce_experts_bytes(const cs_engine *engine);
void ce_experts_open(cs_engine *engine, void *memory); /* memory: ce_experts_bytes bytes, aligned to 64 bytes */
void ce_experts_close(cs_engine *engine);
/* Returns the number of counts, one of each expert of each layer, which a step adds up over all ranks; 0 without experts. */
int64_t ce_experts_cells(const cs_engine *engine);
extern const ce_observer ce_experts_observer;

/* position.c: writes phase, unit and micro-batch to the heartbeat that the launcher reads */
extern const ce_observer ce_position_observer;

/* copies.c: compares the copies of parameters on the ranks of a tensor-parallel group, every check_interval steps */
extern const ce_observer ce_copies_observer;

/* finite.c: steps whose loss or gradients are not finite. Updates metrics.not_finite from each verdict: adds 1 if the
 * loss or the gradient norm is not finite; otherwise sets metrics.not_finite to 0. The verdict is ignored if no row has a
 * target, or if only the gradients overflowed and a dynamic loss scale skips the step. Also counts the steps that move
 * nothing. Reports the first step of a series of such steps, and ends the run after nan_patience of them in a row. */
extern const ce_observer ce_finite_observer;
void ce_finite_close(cs_engine *engine); /* logs a step that is not reported yet */

#endif
