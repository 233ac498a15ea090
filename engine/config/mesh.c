/* mesh.c - the keys that give the device mesh its size, by the names of cspeed, DeepSpeed, Accelerate and torchtitan.
 *
 * The table `spellings` lists these keys. Two of them that give one axis different sizes are an error, unless one is on
 * the command line. */
#include "config/resolve.h"
#include "config/rows.h"

#include <stdio.h>
#include <string.h>

#define OWN_CUTS "the model itself declares which of its matrices are cut, and how"
#define OF_CONTEXT "it is for context parallelism, which cspeed does not have"

static const ce_key mesh[] = {
    SUPPORTED(
        "tp", INT, mesh.tp, "1", 1, 0x1p30, NULL,
        "tensor parallelism: number of consecutive ranks that divide the matrices of each layer and read the same samples; 1: none"),
    SUPPORTED(
        "dp_shard", INT, mesh.shard, "-1", -1, 0x1p30, NULL,
        "number of lanes (groups of tp ranks) over which ZeRO shards the state, as zero_optimization.mics_shard_size; -1: all, divided by dp_replicate"),
    SUPPORTED("dp_replicate", INT, mesh.replicate, "-1", -1, 0x1p30, NULL,
              "number of groups of hybrid sharding; -1: it follows from tp and dp_shard"),
    SUPPORTED(
        "sequence", BOOL, mesh.sequence, "false", 0, 0, NULL,
        "true: Megatron's sequence parallelism: the tp ranks divide the rows of norms and residuals too, which saves memory of activations"),
    SUPPORTED(
        "check_interval", INT, check_interval, "100", 0, 0x1p40, NULL,
        "steps between two comparisons, over the tp ranks, of the parameters that every one of them holds, such as norms, with their masters and optimizer state; 0: never"),
    REFUSED("cp", "1", NO_CONTEXT),
    REFUSED("pp", "1", NO_PIPELINE),
    REFUSED("ep", "1", NO_EXPERT_AXIS),
};

static const ce_key tensor_parallel[] = {
    SUPPORTED("autotp_size", INT, autotp.size, "0", 0, 0x1p30, NULL,
              "DeepSpeed's name of cspeed.mesh.tp; 0 and 1: none"),
    SUPPORTED("tp_size", INT, autotp.plain, "1", 0, 0x1p30, NULL,
              "cspeed.mesh.tp by the name that DeepSpeed's inference has; 0 and 1: another key says it"),
    SECTION("tp", "other settings of DeepSpeed's tensor parallelism"),
    SECTION("tensor_parallel", "other spelling of tp"),
    SUPPORTED("tp_overlap_comm", BOOL, autotp.overlap, "false", 0, 0, NULL,
              "true: in backward, sums over the tp ranks run beside matrix products"),
    INERT_LIKE("dtype", "\"\"",
               "fp16, bf16 and data_types select the type; DeepSpeed's training does not use this key either"),
    SUPPORTED("partition_config", JSON, autotp.partition, "null", 0, 0, NULL,
              "is compared only, because " OWN_CUTS ": each rule that says otherwise, or names no matrix, is reported"),
    INERT_LIKE("preset_model", "\"\"", OWN_CUTS),
    INERT("injection_policy_tuple", "null", OWN_CUTS),
    INERT("keep_module_on_host", "false", "each rank reads only its own part of the weights"),
    INERT("replace_with_kernel_inject", "false", "it is for DeepSpeed's inference"),
    INERT("kernel_inject", "false", "other spelling of replace_with_kernel_inject"),
};

/* The keys of the section "tp" of tensor_parallel, which DeepSpeed accepts by two names. */
#define TP_KEYS(field)                                                                                                 \
    SUPPORTED("tp_size", INT, field, "1", 0, 0x1p30, NULL,                                                             \
              "as autotp_size, which DeepSpeed needs beside it; 0 and 1: another key says it"),                        \
        SIZE("tp_grain_size", "1", OWN_CUTS), INERT("mpu", "null", "it is an object of a Python program"),             \
        INERT("tp_group", "null", "it is an object of a Python program")
static const ce_key tp_short[] = { TP_KEYS(autotp.nested) };
static const ce_key tp_long[] = { TP_KEYS(autotp.nested_long) };

static const ce_key accelerate[] = {
    SUPPORTED("tp_size", INT, accelerate.tp, "1", 0, 0x1p30, NULL, "Accelerate's name of cspeed.mesh.tp"),
    SUPPORTED("dp_shard_size", INT, accelerate.shard, "-1", -1, 0x1p30, NULL,
              "Accelerate's name of cspeed.mesh.dp_shard"),
    SUPPORTED("dp_replicate_size", INT, accelerate.replicate, "-1", -1, 0x1p30, NULL,
              "Accelerate's name of cspeed.mesh.dp_replicate"),
    REFUSED("cp_size", "1", NO_CONTEXT),
    REFUSED("sp_size", "1", NO_CONTEXT),
    INERT_LIKE("tp_handler", "{}", "it has options of PyTorch's tensor parallelism, which Accelerate ignores as well"),
    INERT_LIKE("cp_backend", "\"\"", OF_CONTEXT),
    INERT_LIKE("cp_comm_strategy", "\"\"", OF_CONTEXT),
    INERT_LIKE("cp_handler", "{}", OF_CONTEXT),
    INERT_LIKE("sp_backend", "\"\"", OF_CONTEXT),
    INERT_LIKE("sp_handler", "{}", OF_CONTEXT),
    INERT_LIKE("sp_seq_length", "1", OF_CONTEXT),
    INERT_LIKE("sp_seq_length_is_variable", "true", OF_CONTEXT),
    INERT_LIKE("sp_attn_implementation", "\"\"", OF_CONTEXT),
};

static const ce_key titan[] = {
    SUPPORTED("tensor_parallel_degree", INT, titan.tp, "1", 1, 0x1p30, NULL, "torchtitan's name of cspeed.mesh.tp"),
    SUPPORTED("data_parallel_shard_degree", INT, titan.shard, "-1", -1, 0x1p30, NULL,
              "torchtitan's name of cspeed.mesh.dp_shard"),
    SUPPORTED("data_parallel_replicate_degree", INT, titan.replicate, "-1", -1, 0x1p30, NULL,
              "torchtitan's name of cspeed.mesh.dp_replicate"),
    SUPPORTED("enable_sequence_parallel", BOOL, titan.sequence, "false", 0, 0, NULL,
              "torchtitan's name of cspeed.mesh.sequence"),
    REFUSED("context_parallel_degree", "1", NO_CONTEXT),
    REFUSED("pipeline_parallel_degree", "1", NO_PIPELINE),
    REFUSED("expert_parallel_degree", "1", NO_EXPERT_AXIS),
    REFUSED("expert_tensor_parallel_degree", "1", NO_EXPERT_AXIS),
    REFUSED_UNLESS("fsdp_reshard_after_forward", "null", "\"default\"",
                   "its name here is zero_optimization.stage: always is 3, never is 2"),
    INERT_LIKE("enable_async_tensor_parallel", "true", "tensor_parallel.tp_overlap_comm is used instead"),
    INERT("context_parallel_load_balancer", "null", OF_CONTEXT),
    INERT_LIKE("context_parallel_rotate_method", "\"\"", OF_CONTEXT),
    INERT_LIKE("pipeline_parallel_schedule", "\"\"", OF_PIPELINE),
    INERT_LIKE("pipeline_parallel_schedule_csv", "\"\"", OF_PIPELINE),
    INERT_LIKE("pipeline_parallel_layers_per_stage", "1", OF_PIPELINE),
    INERT_LIKE("pipeline_parallel_first_stage_less_layers", "1", OF_PIPELINE),
    INERT_LIKE("pipeline_parallel_last_stage_less_layers", "1", OF_PIPELINE),
    INERT_LIKE("pipeline_parallel_microbatches", "1", OF_PIPELINE),
    INERT_LIKE("num_pp_microbatches", "1", OF_PIPELINE),
    INERT("module_fqns_per_model_part", "null", OF_PIPELINE),
};

const ce_section ce_mesh_sections[] = {
    { "tensor_parallel", CE_KEYS(tensor_parallel) },
    { "tensor_parallel.tp", CE_KEYS(tp_short) },
    { "tensor_parallel.tensor_parallel", CE_KEYS(tp_long) },
    { "parallelism_config", CE_KEYS(accelerate) },
    { "parallelism", CE_KEYS(titan) },
};
const ce_section ce_mesh_own_sections[] = { { "cspeed.mesh", CE_KEYS(mesh) } };

/* ---- who says how long an axis is ---- */

/* A key that gives the size of an axis. A value of at most `silent` leaves the size to other keys. */
typedef struct {
    const char *path;
    size_t offset;
    ce_axis axis;
    int silent;
} spelling;

static const spelling spellings[] = {
    { "cspeed.mesh.tp", AT(mesh.tp), CE_AXIS_TP, -1 },
    { "tensor_parallel.autotp_size", AT(autotp.size), CE_AXIS_TP, -1 },
    { "tensor_parallel.tp_size", AT(autotp.plain), CE_AXIS_TP, 1 },
    { "tensor_parallel.tp.tp_size", AT(autotp.nested), CE_AXIS_TP, 1 },
    { "tensor_parallel.tensor_parallel.tp_size", AT(autotp.nested_long), CE_AXIS_TP, 1 },
    { "parallelism_config.tp_size", AT(accelerate.tp), CE_AXIS_TP, -1 },
    { "parallelism.tensor_parallel_degree", AT(titan.tp), CE_AXIS_TP, -1 },
    { "cspeed.mesh.dp_shard", AT(mesh.shard), CE_AXIS_SHARD, 0 },
    { "zero_optimization.mics_shard_size", AT(mics_shard_size), CE_AXIS_SHARD, 0 },
    { "parallelism_config.dp_shard_size", AT(accelerate.shard), CE_AXIS_SHARD, 0 },
    { "parallelism.data_parallel_shard_degree", AT(titan.shard), CE_AXIS_SHARD, 0 },
    { "cspeed.mesh.dp_replicate", AT(mesh.replicate), CE_AXIS_REPLICATE, 0 },
    { "parallelism_config.dp_replicate_size", AT(accelerate.replicate), CE_AXIS_REPLICATE, 0 },
    { "parallelism.data_parallel_replicate_degree", AT(titan.replicate), CE_AXIS_REPLICATE, 0 },
};

/* Returns the size that a key gives its axis, or 0 if the file does not have the key or leaves the size to others. */
static int64_t size_by(cs_config *config, const spelling *key)
{
    int64_t size = *(const int64_t *)(const void *)((const char *)&config->settings + key->offset);
    if (!ce_resolve_is_given(config, key->path) || size <= key->silent)
        return 0;
    return size > 1 ? size : 1;
}

/* Reports that two keys give one axis different sizes. It is not an error if the command line gives `by` alone. */
static void compare(cs_config *config, const spelling *by, const spelling *key)
{
    char origin[64];
    if (ce_resolve_is_of_command_line(config, by->path) && !ce_resolve_is_of_command_line(config, key->path))
        ce_json_note(config->doc, key->path, "no effect, because the command line gives %s", by->path);
    else
        ce_json_fault(config->doc, key->path, "it says %lld, and %s (%s) says %lld: remove one of the two",
                      (long long)size_by(config, key), by->path,
                      ce_json_origin(config->doc, by->path, origin, sizeof origin), (long long)size_by(config, by));
}

/* Returns the size of an axis, and sets *path to the key that gives it. Returns 0 if no key does. A key on the command
 * line is found before one in the file. */
static int64_t find_size(cs_config *config, ce_axis axis, const char **path)
{
    enum { COUNT = sizeof spellings / sizeof *spellings };
    const spelling *by = NULL;
    for (int i = 0; i < 2 * COUNT; i++) {
        const spelling *key = &spellings[i % COUNT];
        int64_t size = key->axis == axis ? size_by(config, key) : 0;
        if (size == 0 || ce_resolve_is_of_command_line(config, key->path) != (i < COUNT))
            continue;
        if (!by)
            by = key;
        else if (size != size_by(config, by))
            compare(config, by, key);
    }
    *path = by ? by->path : NULL;
    return by ? size_by(config, by) : 0;
}

/* ---- the axes ---- */

ce_lanes_name ce_mesh_name_lanes(const cs_config *config)
{
    ce_lanes_name name;
    const ce_settings *s = &config->settings;
    if (s->tp == 1)
        snprintf(name.text, sizeof name.text, "world size %d", s->lanes);
    else
        snprintf(name.text, sizeof name.text, "lanes %d (world size %d / tp %d)", s->lanes, config->world.size, s->tp);
    return name;
}

/* Checks the form of DeepSpeed's rules. They are compared with the cuts of the model when the model is known
 * (setup/partition.c). */
static void check_partition(cs_config *config)
{
    static const char path[] = "tensor_parallel.partition_config";
    const json_t *rules = config->settings.autotp.partition, *rule;
    size_t index;
    if (rules && !json_is_object(rules))
        ce_json_fault(config->doc, path, "an object with the key \"layer_specs\" is needed");
    json_array_foreach (json_object_get(rules, "layer_specs"), index, rule) {
        const char *type = json_string_value(json_object_get(rule, "partition_type"));
        if (type && strcasecmp(type, "row") != 0 && strcasecmp(type, "column") != 0 && strcasecmp(type, "skip") != 0)
            ce_json_fault(config->doc, path, "no partition_type is named \"%.40s\": row, column or skip", type);
    }
    if (json_object_size(rules) > 0)
        ce_json_note(config->doc, path, "compared only, because %s", OWN_CUTS);
}

static void resolve_sequence(cs_config *config)
{
    static const char path[] = "cspeed.mesh.sequence", other[] = "parallelism.enable_sequence_parallel";
    ce_settings *s = &config->settings;
    bool both = ce_resolve_is_given(config, path) && ce_resolve_is_given(config, other);
    if (both && s->mesh.sequence != s->titan.sequence)
        ce_json_fault(config->doc, other, "%s says the opposite: remove one of the two", path);
    s->cuts_rows = s->tp > 1 && (s->mesh.sequence || s->titan.sequence);
    if ((s->mesh.sequence || s->titan.sequence) && s->tp == 1)
        ce_json_note(config->doc, s->mesh.sequence ? path : other, "no effect, because tp is 1");
    s->mesh.sequence |= s->titan.sequence;
}

void ce_mesh_resolve(cs_config *config)
{
    ce_settings *s = &config->settings;
    const char *path;
    char origin[96];
    int world = config->world.size;
    int64_t tp = find_size(config, CE_AXIS_TP, &path);
    s->tp = tp > 0 && world % tp == 0 ? (int)tp : 1;
    s->lanes = world / s->tp;
    if (tp > 0 && s->tp != tp)
        ce_json_fault(config->doc, path, "tp %lld does not divide a world of %d: start %lld, %lld, %lld ... ranks",
                      (long long)tp, world, (long long)tp, (long long)(2 * tp), (long long)(3 * tp));
    s->mesh.tp = s->tp;
    snprintf(origin, sizeof origin, "derived: %s", path ? path : "");
    if (path && strcmp(path, spellings[0].path) != 0)
        ce_json_mark(config->doc, spellings[0].path, origin);
    if (path && strstr(path, ".tp_size") && strncmp(path, "tensor_parallel", 15) == 0)
        ce_json_note(config->doc, path, "it is used; DeepSpeed ignores it without tensor_parallel.autotp_size");
    resolve_sequence(config);
    if (s->autotp.overlap && s->tp == 1)
        ce_json_note(config->doc, "tensor_parallel.tp_overlap_comm", "no effect, because tp is 1");
    check_partition(config);
}

int64_t ce_mesh_find_tp(cs_config *config)
{
    const char *path;
    return find_size(config, CE_AXIS_TP, &path);
}

int64_t ce_mesh_find_shard(cs_config *config, const char **path)
{
    const char *by;
    const ce_settings *s = &config->settings;
    int64_t shard = find_size(config, CE_AXIS_SHARD, path), groups = find_size(config, CE_AXIS_REPLICATE, &by);
    if (groups > 0 && shard > 0 && (s->lanes % groups != 0 || s->lanes / groups != shard))
        ce_json_fault(config->doc, by, "%s %lld x %s %lld x tp %d = %.0f ranks, and the world has %d", by,
                      (long long)groups, *path, (long long)shard, s->tp, (double)groups * (double)shard * s->tp,
                      config->world.size);
    else if (groups > 0 && s->lanes % groups != 0)
        ce_json_fault(config->doc, by, "%lld groups do not divide %s", (long long)groups,
                      ce_mesh_name_lanes(config).text);
    else if (groups == 0 && shard > 0 && s->lanes % shard != 0)
        ce_json_fault(config->doc, *path, "groups of %lld do not divide %s", (long long)shard,
                      ce_mesh_name_lanes(config).text);
    else if (groups > 0 && shard == 0) {
        *path = by;
        return s->lanes / groups;
    } else
        return shard;
    return 0;
}

/* ---- what does not work with tensor parallelism yet ---- */

static void refuse(cs_config *config, const char *path, const char *value, const char *why)
{
    ce_json_fault(config->doc, path, "not supported: %s%s%s with cspeed.mesh.tp %d, because %s", path,
                  *value ? " " : "", value, config->settings.tp, why);
}

void ce_mesh_check(cs_config *config)
{
    const ce_settings *s = &config->settings;
    ce_optimizer optimizer = ce_optim_find(&s->optim);
    if (s->tp == 1)
        return;
    if (optimizer.directs && !config->reads)
        refuse(config, "optimizer.type", optimizer.name, "its step needs whole tensors");
    if (s->cuts_rows && s->curriculum.kind != CE_DIFFICULTY_NONE)
        refuse(config, "cspeed.mesh.sequence", "", "a curriculum changes the number of rows");
    if (s->cuda_graphs)
        refuse(config, "cspeed.cuda_graphs", "", "the sums over the ranks of a layer are not part of a graph");
}
