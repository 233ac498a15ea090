/* sections.h - the key tables: every section of the file but "optimizer" and "scheduler", whose rooms have their own.
 */
#ifndef CS_CONFIG_SECTIONS_H
#define CS_CONFIG_SECTIONS_H

#include "base/keys.h"

typedef struct {
    const char   *path; /* "" for the top level, "zero_optimization.offload_param" */
    const cs_key *keys; /* offsets are of cs_settings                              */
    int           count;
} cs_section;

extern const cs_section cs_sections[];
extern const int        cs_section_count;

const cs_section *cs_sections_find(const char *path, size_t length); /* NULL: no section of this path */

#endif
