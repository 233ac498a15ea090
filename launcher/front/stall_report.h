/* stall_report.h - who is stuck: the table of who waits for whom, when no rank has moved for --stall_timeout. */
#ifndef CL_STALL_REPORT_H
#define CL_STALL_REPORT_H

#include "front/front.h"

/* Nanoseconds since the rank of this job that moved last did so (its beat: step or collective changed); INT64_MAX: no
 * rank has ever told a beat, so nothing is known. */
int64_t cl_stall_report_age(const cl_front *front, int64_t now);

/* The rank that holds up the others: the one that is not in the collective the others wait in, or is behind by a step;
 * -1 when all stand at the same place. */
int cl_stall_report_suspect(const cl_front *front);

/* The table as malloc'ed text, ranks at the same place in one row, the odd one out named. */
char *cl_stall_report_text(const cl_front *front, int64_t now);

#endif
