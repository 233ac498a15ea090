/* rows.h - macros for the rows of the key tables in this folder, and reasons that several rows share. */
#ifndef CE_CONFIG_ROWS_H
#define CE_CONFIG_ROWS_H

#include "config/config.h"
#include "config/sections.h"

#include <math.h>

#define AT(field) offsetof(ce_settings, field)
#define MAX_EXACT 9e15 /* Integers up to 9e15 are exact in a double. */
#define OFF "{\"enabled\": false}"

#define SUPPORTED(key, type, field, fallback, min, max, choices, sentence)                                             \
    {                                                                                                                  \
        key, CE_KEY_##type, AT(field), fallback, min, max, choices, sentence                                           \
    }
#define SECTION(key, sentence)                                                                                         \
    {                                                                                                                  \
        key, CE_KEY_SECTION, 0, "{}", 0, 0, NULL, sentence                                                             \
    }
#define INERT(key, fallback, sentence)                                                                                 \
    {                                                                                                                  \
        key, CE_KEY_INERT, 0, fallback, 0, 0, NULL, sentence                                                           \
    }
/* A row of an inert key whose default is null. Any other value must have the same JSON type as `sample`. */
#define INERT_LIKE(key, sample, sentence)                                                                              \
    {                                                                                                                  \
        key, CE_KEY_INERT, 0, "null", 0, 0, sample, sentence                                                           \
    }
#define SIZE(key, fallback, sentence)                                                                                  \
    {                                                                                                                  \
        key, CE_KEY_INERT, 0, fallback, 0, INFINITY, NULL, sentence                                                    \
    }
#define SHARE(key, fallback, sentence)                                                                                 \
    {                                                                                                                  \
        key, CE_KEY_INERT, 0, fallback, 0, 1, NULL, sentence                                                           \
    }
#define REFUSED(key, fallback, sentence)                                                                               \
    {                                                                                                                  \
        key, CE_KEY_REFUSED, 0, fallback, 0, 0, NULL, sentence                                                         \
    }
#define REFUSED_UNLESS(key, fallback, harmless, sentence)                                                              \
    {                                                                                                                  \
        key, CE_KEY_REFUSED, 0, fallback, 0, 0, harmless, sentence                                                     \
    }

#define ALL_FP32 "gradients are summed and accumulated in fp32"
#define NOT_YET "it is not built yet"

#endif
