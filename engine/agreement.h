/* agreement.h - whether all ranks were told the same: program, model, data and configuration. */
#ifndef CS_ACCORD_H
#define CS_ACCORD_H

#include "engine.h"

/* CS_DISAGREE, on all ranks, with the keys and values that differ. The seed becomes rank 0's. Collective, once the
 * model and the world are open. */
cs_status cs_accord_check(cs_engine *engine);

/* Its two steps: what this rank was told, {"KEY.PATH": value}; and whether all ranks have the same. */
json_t *cs_accord_told(cs_engine *engine);
cs_status cs_accord_compare(cs_comm *comm, const json_t *told);

#endif
