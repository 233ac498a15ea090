/* sections.h - the key tables of all sections except "optimizer" and "scheduler", whose rooms have their own tables. */
#ifndef CS_CONFIG_SECTIONS_H
#define CS_CONFIG_SECTIONS_H

#include "base/keys.h"

typedef struct {
    const char *path;   /* "" for the top level, "zero_optimization.offload_param" */
    const cs_key *keys; /* offsets are those of fields of cs_settings */
    int count;
} cs_section;

/* One list for each topic, in the source file of the same name. */
extern const cs_section cs_formats_sections[], cs_sharding_sections[], cs_monitors_sections[], cs_ours_sections[],
    cs_batches_sections[], cs_courses_sections[];
extern const int cs_formats_section_count, cs_sharding_section_count, cs_monitors_section_count, cs_ours_section_count,
    cs_batches_section_count, cs_courses_section_count;

const cs_section *cs_sections_at(int index);                         /* index 0 is the top level; NULL after the last */
const cs_section *cs_sections_find(const char *path, size_t length); /* NULL: no section of this path */

#endif
