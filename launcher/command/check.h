/* check.h - checking the hosts of a job before anything is started, for `cspeed check` and --preflight full. */
#ifndef CL_CHECK_H
#define CL_CHECK_H

#include "plan/hostplan.h"

/* Asks every host of the plan at the same time: can it be reached and logged in to, does it have cspeed in the same
 * version, does the working directory exist, is the program's configuration file (--config, --deepspeed_config) the
 * same, and is its clock right. CL_CHECK_TABLE prints one row for each host to stdout; CL_CHECK_FAULTS prints only the
 * problems, to stderr. Returns 0, or the code of the first host with a problem: CL_CODE_HOST, CL_CODE_NOT_FOUND,
 * CL_CODE_DISAGREE or CL_CODE_NO_FILE. */
typedef enum { CL_CHECK_TABLE, CL_CHECK_FAULTS } cl_check_print;

int cl_check_run(const cl_plan *plan, cl_check_print print);

#endif
