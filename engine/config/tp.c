/* tp.c - reads the size of tensor parallelism of a configuration that is not resolved, for programs that need it before
 * the world size is known. */
#include "config/resolve.h"
#include "config/sections.h"

static void read_sections(cs_config *config, const ce_section *sections, int count)
{
    for (int i = 0; i < count; i++)
        ce_keys_fill(config->doc, ce_json_find(config->doc, sections[i].path), sections[i].path, &config->settings,
                     sections[i].keys, sections[i].count);
}

int ce_tp_read(cs_config *config)
{
    ce_strings_resolve(config);
    ce_legacy_resolve(config);
    read_sections(config, CE_KEYS(ce_mesh_sections));
    read_sections(config, CE_KEYS(ce_mesh_own_sections));
    int64_t tp = ce_mesh_find_tp(config);
    return ce_json_verdict(config->doc) == CS_OK && tp > 0 ? (int)tp : 1;
}
