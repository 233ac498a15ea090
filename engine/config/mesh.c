/* mesh.c - the key table of cspeed.mesh: how many ranks the axes of the device mesh have. */
#include "config/resolve.h"
#include "config/rows.h"

static const ce_key keys[] = {
    SUPPORTED(
        "tp", INT, mesh.tp, "1", 1, 0x1p30, NULL,
        "tensor parallelism: number of ranks that divide the matrices of each layer and read the same samples; 1: none"),
};

const ce_section ce_mesh_sections[] = { { "cspeed.mesh", CE_KEYS(keys) } };

void ce_mesh_resolve(cs_config *config)
{
    ce_settings *s = &config->settings;
    int world = config->world.size;
    s->tp = world % s->mesh.tp == 0 ? (int)s->mesh.tp : 1;
    s->lanes = world / s->tp;
    if (s->tp != s->mesh.tp)
        ce_json_fault(config->doc, "cspeed.mesh.tp", "%lld does not divide a world of %d", (long long)s->mesh.tp,
                      world);
}
