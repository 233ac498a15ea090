/* check.h - checking the hosts of a job before anything is started, for `cspeed check` and --preflight full; checking a
 * model. */
#ifndef CL_CHECK_H
#define CL_CHECK_H

#include "plan/hostplan.h"

/* Asks all hosts of the plan in parallel. Each host should be reachable, accept the login, have the same version of
 * cspeed, the working directory, and a correct clock. The program's configuration file (--config, --deepspeed_config)
 * should be the same as on this machine. CL_CHECK_TABLE prints one row for each host to stdout; CL_CHECK_FAULTS prints
 * only the problems, to stderr. Returns 0, or the code of the first host with a problem: CL_CODE_HOST,
 * CL_CODE_NOT_FOUND, CL_CODE_DISAGREE or CL_CODE_NO_FILE. Returns CL_CODE_SYSTEM with a message if no host can be
 * asked. */
typedef enum { CL_CHECK_TABLE, CL_CHECK_FAULTS } cl_check_print;

int cl_check_run(const cl_plan *plan, cl_check_print print);

/* ---- check_model.c ---- */

/* True if the arguments name a model to check: a folder, a GGUF file, or ORG/NAME of the Hub. */
bool cl_check_model_is(char **arguments);
int cl_check_model(char **arguments);

#endif
