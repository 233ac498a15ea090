/* agreement.h - comparison of all ranks' version, model and configuration before training starts. */
#ifndef CS_AGREEMENT_H
#define CS_AGREEMENT_H

#include "engine.h"

/* Compares version, model and configuration of all ranks. CS_DISAGREE on all ranks, with the keys and values that
 * differ; else all ranks take rank 0's seed. Collective; call it once the model and the world are open. */
cs_status cs_agreement_check(cs_engine *engine);

/* The two steps of cs_agreement_check, for tests. _facts returns the facts to compare, {"KEY.PATH": value}, which the
 * caller owns; _compare compares those of all ranks. */
json_t *cs_agreement_facts(cs_engine *engine);
cs_status cs_agreement_compare(cs_comm *comm, const json_t *facts);

#endif
