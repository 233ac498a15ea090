/* check.h - whether the hosts of a job are fit for it, before anything is started. */
#ifndef CL_CHECK_H
#define CL_CHECK_H

#include "plan/hostplan.h"

/* Asks every host of the plan at once: reached and let in, cspeed there and of this version, working directory there,
 * the program's configuration file (--config, --deepspeed_config) the same, clock right. Prints a row a host to stdout
 * (TABLE), or only what is wrong to stderr (FAULTS). The code of the first host that is not fit: CL_CODE_HOST,
 * CL_CODE_NOT_FOUND, CL_CODE_DISAGREE, CL_CODE_NO_FILE. For --preflight full, and `cspeed check`. */
typedef enum { CL_CHECK_TABLE, CL_CHECK_FAULTS } cl_check_print;

int cl_check_run(const cl_plan *plan, cl_check_print print);

#endif
