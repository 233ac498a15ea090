/* stall_report.h - the stall report: which rank waits for which collective when no rank has progressed. */
#ifndef CL_STALL_REPORT_H
#define CL_STALL_REPORT_H

#include "front/front.h"

/* Returns the nanoseconds since any rank of this job last made progress, that is, since the step or the collective of
 * its progress record changed. Returns INT64_MAX if no rank has sent a progress record. */
int64_t cl_stall_report_age(const cl_front *front, int64_t now);

/* Returns the rank that probably holds up the others: the one that is not in the collective in which the others wait,
 * or that is one step behind. Returns -1 when all ranks are at the same position. */
int cl_stall_report_suspect(const cl_front *front);

/* Returns the report as malloc'ed text: one row for each position, and a line that names the suspected rank. */
char *cl_stall_report_text(const cl_front *front, int64_t now);

#endif
