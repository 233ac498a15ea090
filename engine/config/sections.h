/* sections.h - the key tables of all sections except "optimizer" and "scheduler", whose rooms have their own tables. */
#ifndef CS_CONFIG_SECTIONS_H
#define CS_CONFIG_SECTIONS_H

#include "base/keys.h"

typedef struct {
    const char *path;   /* "" for the top level, "zero_optimization.offload_param" */
    const ce_key *keys; /* their offsets are offsets in ce_settings */
    int count;
} ce_section;

/* One list for each topic, in the source file of the same name. */
extern const ce_section ce_formats_sections[], ce_sharding_sections[], ce_monitors_sections[], ce_ours_sections[],
    ce_batches_sections[], ce_courses_sections[], ce_modes_sections[];
extern const int ce_formats_section_count, ce_sharding_section_count, ce_monitors_section_count, ce_ours_section_count,
    ce_batches_section_count, ce_courses_section_count, ce_modes_section_count;

const ce_section *ce_sections_at(int index);                         /* index 0 is the top level; NULL after the last */
const ce_section *ce_sections_find(const char *path, size_t length); /* NULL: no section of this path */

#endif
