/* reporting.h - the functions of reporting/ that other files call, in this room or outside: log lines, memory, profile
 * and trace. */
#ifndef CE_REPORTING_REPORTING_H
#define CE_REPORTING_REPORTING_H

#include "core/engine.h"

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

#endif
