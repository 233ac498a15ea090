/* mesh.c - finds the device mesh of a job from the program's arguments, and checks that it suits the hosts. */
#include "plan/mesh.h"

#include "base/must.h"
#include "base/status.h"
#include "config/config.h"
#include "config/resolve.h"
#include "cspeed/options.h"
#include "plan/world_sizes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Returns true if the program has the options --tp and --set: if it trains, or if `uses` is true, if it uses a model. */
static bool has_options(const char *program, bool uses)
{
    static const char *const names[] = { "train", "eval", "generate" };
    const char *slash = strrchr(program, '/');
    for (size_t i = uses; i < (uses ? sizeof names / sizeof *names : 1); i++)
        if (strcmp(slash ? slash + 1 : program, names[i]) == 0)
            return true;
    return false;
}

/* Sets the keys that the program's options give. */
static void apply(cs_config *config, char **arguments)
{
    for (char **at = arguments + 1; *at; at++) {
        char *pair[] = { at[0], at[1], NULL };
        const char *set = strncmp(*at, "--set", strlen("--set")) == 0 ? cs_options_last("set", pair) : NULL;
        const char *tp = strncmp(*at, "--tp", strlen("--tp")) == 0 ? cs_options_last("tp", pair) : NULL;
        CE_FREED char *both = tp ? ce_must_print("cspeed.mesh.tp=%s", tp) : set ? ce_must_copy(set) : NULL;
        if (both && cs_config_set(config, both) != CS_OK)
            ce_clear_error();
    }
}

/* Opens the configuration of the program: the file that it names or, for a program that uses a model, whose mesh only its
 * options give, one without a mesh. Returns NULL if it has none, or one that cannot be read. A pipe is not read, because
 * the program reads it. */
static cs_config *open_config(char **arguments)
{
    static const char none[] = "{\"train_micro_batch_size_per_gpu\": 1}";
    cs_config *config = NULL;
    bool uses = arguments[0] && has_options(arguments[0], true);
    const char *file = uses ? none : arguments[0] ? cl_world_sizes_config(arguments + 1) : NULL;
    struct stat about;
    bool readable = uses || (file && stat(file, &about) == 0 && S_ISREG(about.st_mode));
    if (readable && cs_config_open(&config, file) == CS_OK && (uses || has_options(arguments[0], false)))
        apply(config, arguments);
    if (config && uses)
        config->reads = true;
    ce_clear_error();
    return config;
}

int cl_mesh_tp(char **arguments)
{
    cs_config *config = open_config(arguments);
    int tp = config ? ce_tp_read(config) : 1;
    cs_config_close(config);
    ce_clear_error();
    return tp;
}

/* Returns the node of the plan that has the rank. */
static const cl_plan_node *node_of(const cl_plan *plan, int rank)
{
    int i = plan->node_count - 1;
    while (plan->nodes[i].first_rank > rank)
        i--;
    return &plan->nodes[i];
}

char *cl_mesh_warning(const cl_plan *plan)
{
    int tp = cl_mesh_tp(plan->arguments), spanning = 0, first = 0;
    for (int rank = plan->rank_count - tp; rank >= 0 && plan->rank_count % tp == 0; rank -= tp) {
        bool spans = node_of(plan, rank) != node_of(plan, rank + tp - 1);
        spanning += spans;
        first = spans ? rank : first;
    }
    if (spanning == 0)
        return NULL;
    const char *hosts[] = { node_of(plan, first)->host->name, node_of(plan, first + tp - 1)->host->name };
    return ce_must_print("tensor-parallel groups that are not on one host: %d of %d (ranks %d to %d are on %s to %s); "
                         "their layers wait for the network, so start a multiple of tp %d ranks on each host",
                         spanning, plan->rank_count / tp, first, first + tp - 1, hosts[0], hosts[1], tp);
}

ce_mesh cl_mesh_find(const cl_plan *plan)
{
    ce_mesh mesh = { 0 };
    cs_config *config = open_config(plan->arguments);
    if (!config)
        return mesh;
    cs_config_for_world(config, plan->rank_count, plan->nodes[0].host->slot_count);
    if (cs_config_finish(config) == CS_OK)
        mesh = ce_mesh_of(0, plan->rank_count, config->settings.tp, (int)config->settings.mesh.shard);
    cs_config_close(config);
    ce_clear_error();
    return mesh;
}

void cl_mesh_print(const cl_plan *plan)
{
    ce_mesh mesh = cl_mesh_find(plan);
    if (mesh.size[CE_AXIS_TP] <= 1 && (mesh.size[CE_AXIS_REPLICATE] <= 1 || mesh.size[CE_AXIS_SHARD] == 1))
        return;
    int width = (int)strlen("host");
    for (int i = 0; i < plan->node_count; i++)
        if ((int)strlen(plan->nodes[i].host->name) > width)
            width = (int)strlen(plan->nodes[i].host->name);
    printf("\n  rank   %-*s  slot  replica  shard  tp\n", width, "host");
    for (int rank = 0; rank < plan->rank_count; rank++) {
        const cl_plan_node *node = node_of(plan, rank);
        ce_mesh at = ce_mesh_of(rank, plan->rank_count, mesh.size[CE_AXIS_TP], mesh.size[CE_AXIS_SHARD]);
        printf("  %-5d  %-*s  %-4d  %-7d  %-5d  %d\n", rank, width, node->host->name,
               node->host->slots[rank - node->first_rank], at.own[CE_AXIS_REPLICATE], at.own[CE_AXIS_SHARD],
               at.own[CE_AXIS_TP]);
    }
    CE_FREED char *warning = cl_mesh_warning(plan);
    if (warning)
        printf("\nwarning   %s\n", warning);
}
