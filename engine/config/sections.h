/* sections.h - the key tables of all sections except "optimizer" and "scheduler". The tables of these two are in the
 * folders engine/optim and engine/schedule. */
#ifndef CE_CONFIG_SECTIONS_H
#define CE_CONFIG_SECTIONS_H

#include "json/keys.h"

typedef struct {
    const char *path;   /* path of the section, for example "zero_optimization.offload_param"; "" for the top level */
    const ce_key *keys; /* The keys of the section. Their offsets are offsets in ce_settings. */
    int count;
} ce_section;

/* The lists of sections of the topics. A list is in the source file that has the name of its topic. The lengths stand
 * here, so that the compiler checks them. */
extern const ce_section ce_batches_sections[1], ce_formats_sections[5], ce_sharding_sections[3],
    ce_monitors_sections[8], ce_courses_sections[9], ce_ours_sections[1], ce_data_sections[1], ce_lora_sections[1],
    ce_quantization_sections[1], ce_sharding_fsdp_sections[1], ce_preference_sections[1], ce_ours_output_sections[2],
    ce_mesh_sections[5], ce_mesh_own_sections[1];

/* Returns section number `index`, where 0 is the top level, or NULL after the last section. */
const ce_section *ce_sections_at(int index);
/* Returns NULL if there is no section of this path. */
const ce_section *ce_sections_find(const char *path, size_t length);
/* Returns the row of the key with this dotted path, or NULL, and sets *section to the section of the key, or to NULL. */
const ce_key *ce_sections_key(const char *path, const ce_section **section);

#endif
