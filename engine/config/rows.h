/* rows.h - macros for the rows of the key tables in this folder, and reasons that several rows share. */
#ifndef CE_CONFIG_ROWS_H
#define CE_CONFIG_ROWS_H

#include "config/config.h"
#include "config/sections.h"

#include <math.h>

#define AT(field) offsetof(ce_settings, field)
#define MAX_EXACT 9e15 /* Integers up to 9e15 are exact in a double. */
#define OFF "{\"enabled\": false}"

#define ROW(key, type, offset, fallback, min, max, choices, sentence)                                                  \
    {                                                                                                                  \
        key, CE_KEY_##type, offset, fallback, min, max, choices, sentence                                              \
    }
#define SUPPORTED(key, type, field, fallback, min, max, choices, sentence)                                             \
    ROW(key, type, AT(field), fallback, min, max, choices, sentence)
#define SECTION(key, sentence) ROW(key, SECTION, 0, "{}", 0, 0, NULL, sentence)
#define INERT(key, fallback, sentence) ROW(key, INERT, 0, fallback, 0, 0, NULL, sentence)
/* A row of an inert key whose default is null. Any other value must have the same JSON type as `sample`. */
#define INERT_LIKE(key, sample, sentence) ROW(key, INERT, 0, "null", 0, 0, sample, sentence)
#define SIZE(key, fallback, sentence) ROW(key, INERT, 0, fallback, 0, INFINITY, NULL, sentence)
#define SHARE(key, fallback, sentence) ROW(key, INERT, 0, fallback, 0, 1, NULL, sentence)
#define REFUSED(key, fallback, sentence) ROW(key, REFUSED, 0, fallback, 0, 0, NULL, sentence)
#define REFUSED_UNLESS(key, fallback, harmless, sentence) ROW(key, REFUSED, 0, fallback, 0, 0, harmless, sentence)

#define ALL_FP32 "gradients are summed and accumulated in fp32"
#define NO_CONTEXT "context parallelism is not implemented: every rank has whole sequences"
#define NO_PIPELINE "pipeline parallelism is not implemented: every rank runs every layer"
#define OF_PIPELINE "it is for pipeline parallelism, which cspeed does not have"
#define NO_EXPERT_AXIS "expert parallelism is not implemented: experts are sharded by ZeRO, as all parameters are"
#define NOT_YET "it is not built yet"

#endif
