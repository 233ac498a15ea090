/* check.h - checking the hosts of a job before anything is started, for `cspeed check` and --preflight full. */
#ifndef CL_CHECK_H
#define CL_CHECK_H

#include "plan/hostplan.h"

/* Asks all hosts of the plan in parallel. The questions are: can the host be reached, and does it accept the login;
 * does it have the same version of cspeed; does the working directory exist there; is the program's configuration file
 * (--config, --deepspeed_config) the same as here; and is the host's clock right. CL_CHECK_TABLE prints one row for
 * each host to stdout; CL_CHECK_FAULTS prints only the problems, to stderr. Returns 0, or the code of the first host
 * with a problem: CL_CODE_HOST, CL_CODE_NOT_FOUND, CL_CODE_DISAGREE or CL_CODE_NO_FILE. */
typedef enum { CL_CHECK_TABLE, CL_CHECK_FAULTS } cl_check_print;

int cl_check_run(const cl_plan *plan, cl_check_print print);

#endif
