/* check.h - whether the hosts of a job are fit for it, before anything is started. */
#ifndef CS_LAUNCHER_PREFLIGHT_H
#define CS_LAUNCHER_PREFLIGHT_H

#include "plan/hostplan.h"

/* Asks every host of the plan at once: reached and let in, cspeed there and of this version, working directory there,
 * the program's configuration file (--config, --deepspeed_config) the same, clock right. Prints a row a host to stdout
 * (TABLE), or only what is wrong to stderr (FAULTS). The code of the first host that is not fit: CS_CODE_HOST,
 * CS_CODE_NOT_FOUND, CS_CODE_DISAGREE, CS_CODE_NO_FILE. For --preflight full, and `cspeed check`. */
typedef enum { CS_PREFLIGHT_TABLE, CS_PREFLIGHT_FAULTS } cs_preflight_print;

int cs_preflight_run(const cs_plan *plan, cs_preflight_print print);

#endif
