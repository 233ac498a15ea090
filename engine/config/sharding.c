/* sharding.c - the key tables of zero_optimization: the stage, offload, and keys that tune DeepSpeed's communication.
 * It also reads FSDP's names of the sharding strategies, and finds the size of a sharding group. */
#include "config/resolve.h"
#include "config/rows.h"

#include <stdlib.h>
#include <string.h>

#define BY_UNITS "parameters and gradients are communicated layer by layer, not in buckets"
#define NO_HOOKS "cspeed runs a fixed list of layers: it has no module hooks and traces nothing"
#define ALWAYS "cspeed always does what this key requests"
#define NO_DISK "it is for offload to NVMe, which cspeed does not have"
#define BY_GPU "with offload the GPU computes the update, not the CPU"

static const ce_key zero[] = {
    SUPPORTED("stage", INT, stage, "0", 0, 3, "auto",
              "ZeRO stage: 0 shards nothing, 1 optimizer state, 2 also gradients, 3 also parameters"),
    INERT("contiguous_gradients", "true", ALWAYS),
    INERT("reduce_scatter", "true", ALWAYS),
    SUPPORTED(
        "reduce_bucket_size", INT, reduce_bucket_size, "0", 0, MAX_EXACT, "auto",
        "maximum number of gradient elements in one all-reduce, at stage 0 and between the groups of mics_shard_size at stages 2 and 3; 0: one all-reduce for each layer"),
    INERT("use_multi_rank_bucket_allreduce", "true", BY_UNITS),
    INERT("allgather_partitions", "true", "DeepSpeed does not use this key either"),
    SIZE("allgather_bucket_size", "5e8", BY_UNITS),
    INERT_LIKE("overlap_comm", "true",
               "communication overlaps with computation on a GPU, and on a CPU if the rank has more than one core"),
    REFUSED("load_from_fp32_weights", "true", "a checkpoint contains fp32 masters and no 16-bit weights"),
    INERT("elastic_checkpoint", "false", "checkpoints do not depend on the number of ranks"),
    INERT("round_robin_gradients", "false", BY_UNITS),
    INERT("ignore_unused_parameters", "true", "every trained parameter always has a gradient"),
    INERT("compute_grad_norm", "true",
          "the gradient norm is always computed, by the all-reduce that also averages the loss"),
    INERT("parameter_alignment", "false", "parameters are always aligned"),
    REFUSED("legacy_stage1", "false", "DeepSpeed has removed it, too"),
    SIZE("sub_group_size", "1e9", "an update needs no temporary memory, so that it is not divided into groups"),
    SIZE("stage3_prefetch_bucket_size", "5e7",
         BY_UNITS "; cspeed.prefetch is the number of units that are gathered in advance"),
    SIZE("prefetch_bucket_size", "5e7", "other spelling of stage3_prefetch_bucket_size"),
    SIZE("stage3_param_persistence_threshold", "1e5", BY_UNITS "; a small parameter is gathered with its unit"),
    SIZE("param_persistence_threshold", "1e5", "other spelling of stage3_param_persistence_threshold"),
    SIZE("stage3_model_persistence_threshold", "9223372036854775807", BY_UNITS),
    SIZE("model_persistence_threshold", "9223372036854775807", "other spelling of stage3_model_persistence_threshold"),
    SIZE("stage3_max_live_parameters", "1e9",
         "only the layer in use and the prefetched layers are in memory; cspeed.prefetch is their number"),
    SIZE("max_live_parameters", "1e9", "other spelling of stage3_max_live_parameters"),
    SIZE("stage3_max_reuse_distance", "1e9",
         "a gathered layer is freed after its use; only the last one is kept for backward"),
    SIZE("max_reuse_distance", "1e9", "other spelling of stage3_max_reuse_distance"),
    INERT("stage3_gather_16bit_weights_on_model_save", "false",
          "a checkpoint is sharded, and `cspeed export` reads it without gathering"),
    INERT("gather_16bit_weights_on_model_save", "false", "other spelling of stage3_gather_16bit_weights_on_model_save"),
    INERT("stage3_gather_fp16_weights_on_model_save", "false",
          "older spelling of stage3_gather_16bit_weights_on_model_save"),
    INERT("stage3_module_granularity_threshold", "0", NO_HOOKS),
    INERT("module_granularity_threshold", "0", NO_HOOKS),
    INERT("stage3_use_all_reduce_for_fetch_params", "false", "each layer is gathered by one all-gather"),
    INERT("use_all_reduce_for_fetch_params", "false", "other spelling of stage3_use_all_reduce_for_fetch_params"),
    INERT("stage3_allgather_sequential", "false", BY_UNITS),
    INERT("allgather_sequential", "false", "other spelling of stage3_allgather_sequential"),
    REFUSED("zero_hpz_partition_size", "1",
            "ZeRO++'s secondary copy of parameters is not implemented; see mics_shard_size"),
    REFUSED("zero_quantized_weights", "false",
            "quantized communication is not implemented: parameters are sent in the type in which they are computed"),
    REFUSED("zero_quantized_nontrainable_weights", "false",
            "quantized communication is not implemented: parameters are sent in the type in which they are computed"),
    REFUSED("zero_quantized_gradients", "false", ALL_FP32),
    REFUSED("zeropp_loco_param", "null", ALL_FP32),
    SUPPORTED(
        "mics_shard_size", INT, mics_shard_size, "-1", -1, 0x1p30, NULL,
        "hybrid sharding (MiCS, HSDP): shard within groups of so many consecutive ranks (with tp: lanes), and replicate over groups; use the ranks of a node if the network is slow; -1 and 0: all ranks"),
    INERT("mics_hierarchical_params_gather", "false",
          "gathers over several hosts are hierarchical wherever the number of ranks of a host allows it"),
    INERT("memory_efficient_linear", "true", "it replaces a PyTorch function, which cspeed does not use"),
    INERT("override_module_apply", "true", NO_HOOKS),
    INERT("pipeline_loading_checkpoint", "false", "each rank always reads only its part of a checkpoint"),
    INERT("log_trace_cache_warnings", "false", NO_HOOKS),
    INERT("enable_sanity_checks", "false", "cspeed always makes its checks"),
    INERT("save_muon_momentum_buffer_in_memory", "false", "it is for offload to NVMe, which cspeed does not have"),
    INERT_LIKE("leaf_module", "{}", NO_HOOKS),
    REFUSED("zenflow", "null",
            "asynchronous updates are not implemented: every update is complete before the next forward"),
    SECTION("offload_param", "keeps parameters in host memory instead of GPU memory (stage 3)"),
    SECTION("offload_optimizer", "keeps optimizer state in host memory instead of GPU memory (stages 1 to 3)"),
    INERT_LIKE("cpu_offload", "true",
               "older spelling of offload_optimizer {\"device\": \"cpu\"}, by which it is replaced"),
    INERT_LIKE("cpu_offload_param", "true",
               "older spelling of offload_param {\"device\": \"cpu\"}, by which it is replaced"),
    INERT_LIKE("cpu_offload_use_pin_memory", "true", ALWAYS),
};

static const ce_key offload_param[] = {
    SUPPORTED(
        "device", CHOICE, offload_param, "\"none\"", 0, 0, "none|cpu|nvme|auto",
        "cpu: at stage 3, each rank's shard of the parameters is in pinned host memory and is copied to the GPU for each gather: slower, less GPU memory; nvme is refused"),
    INERT_LIKE("nvme_path", "\"\"", NO_DISK),
    SIZE("buffer_count", "5", NO_DISK),
    SIZE("buffer_size", "1e8", NO_DISK),
    SIZE("max_in_cpu", "1e9", NO_DISK),
    INERT("pin_memory", "true", ALWAYS),
};

static const ce_key offload_optimizer[] = {
    SUPPORTED(
        "device", CHOICE, offload_optimizer, "\"none\"", 0, 0, "none|cpu|nvme|auto",
        "cpu: at stages 1 to 3, master weights and optimizer state are in pinned host memory, which the GPU accesses in the update: slower, less GPU memory; nvme is refused"),
    INERT_LIKE("nvme_path", "\"\"", NO_DISK),
    SIZE("buffer_count", "4", NO_DISK),
    INERT("pin_memory", "true", ALWAYS),
    INERT("pipeline_read", "false", NO_DISK),
    INERT("pipeline_write", "false", NO_DISK),
    INERT("fast_init", "false", NO_DISK),
    REFUSED_UNLESS("ratio", "1.0", "1", "partial offload is not implemented: all optimizer state is offloaded"),
    INERT("super_offload", "false", BY_GPU),
    SHARE("cpuadam_cores_perc", "0.8", BY_GPU),
};

static const ce_key fsdp[] = {
    SUPPORTED(
        "sharding_strategy", CHOICE, sharding_strategy, "\"stage\"", 0, 0,
        "stage|FULL_SHARD|SHARD_GRAD_OP|NO_SHARD|HYBRID_SHARD|_HYBRID_SHARD_ZERO2",
        "PyTorch's name of a stage: FULL_SHARD is 3, SHARD_GRAD_OP 2, NO_SHARD 0; HYBRID_SHARD is 3 and _HYBRID_SHARD_ZERO2 is 2 inside groups of the ranks of a host, or of zero_optimization.mics_shard_size ranks; stage: zero_optimization.stage says it"),
    REFUSED(
        "device_mesh", "null",
        "its names here are cspeed.mesh.dp_replicate, cspeed.mesh.dp_shard (or zero_optimization.mics_shard_size) and cspeed.mesh.tp"),
    REFUSED("reshard_after_forward", "null",
            "its name here is sharding_strategy: true is FULL_SHARD, false is SHARD_GRAD_OP"),
    REFUSED("backward_prefetch", "null", "its name here is cspeed.prefetch"),
    REFUSED("forward_prefetch", "null", "its name here is cspeed.prefetch"),
    REFUSED("mixed_precision", "null", "its names here are bf16, fp16, data_types and communication_data_type"),
    REFUSED("cpu_offload", "null", "its names here are zero_optimization.offload_param and .offload_optimizer"),
    INERT_LIKE("sync_module_states", "true", "all ranks always start with the same weights"),
    INERT_LIKE("use_orig_params", "true", "parameters always keep their names and shapes"),
    INERT_LIKE("limit_all_gathers", "true", "cspeed.prefetch is the number of units that are gathered in advance"),
};

/* The names of PyTorch's ShardingStrategy. The key cspeed.fsdp.sharding_strategy lists its values in the same order. */
static const struct {
    const char *name;
    int stage;
    bool hybrid; /* true if the ranks of each host are a sharding group */
} strategies[] = {
    { "stage", 0, false },    { "FULL_SHARD", 3, false },  { "SHARD_GRAD_OP", 2, false },
    { "NO_SHARD", 0, false }, { "HYBRID_SHARD", 3, true }, { "_HYBRID_SHARD_ZERO2", 2, true },
};
enum { BY_STAGE };

const ce_section ce_sharding_sections[] = {
    { "zero_optimization", CE_KEYS(zero) },
    { "zero_optimization.offload_param", CE_KEYS(offload_param) },
    { "zero_optimization.offload_optimizer", CE_KEYS(offload_optimizer) },
};
const ce_section ce_sharding_fsdp_sections[] = { { "cspeed.fsdp", CE_KEYS(fsdp) } };

/* Sets the stage that cspeed.fsdp.sharding_strategy names. */
static void name_stage(cs_config *config)
{
    static const char strategy_path[] = "cspeed.fsdp.sharding_strategy";
    ce_settings *s = &config->settings;
    int64_t named = strategies[s->sharding_strategy].stage;
    json_t *section, *given;
    if (s->sharding_strategy == BY_STAGE)
        return;
    section = ce_resolve_section(config->doc, "zero_optimization");
    given = json_object_get(section, "stage");
    if (json_is_number(given) && s->stage != named)
        ce_json_fault(config->doc, strategy_path,
                      "%s is stage %lld, and zero_optimization.stage is %lld: remove one of the two",
                      strategies[s->sharding_strategy].name, (long long)named, (long long)s->stage);
    if (!section || (given && !json_is_null(given)))
        return;
    s->stage = named;
    json_object_set_new(section, "stage", json_integer(named));
    ce_json_mark(config->doc, "zero_optimization.stage", "derived: cspeed.fsdp.sharding_strategy");
}

/* Returns the launcher's list of the number of ranks of each host, such as "2,4", if these numbers differ; otherwise
 * NULL. */
static const char *uneven_hosts(void)
{
    const char *list = getenv("CSPEED_HOST_RANKS");
    size_t first = list ? strcspn(list, ",") : 0;
    for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") != first || strncmp(at, list, first) != 0)
            return list;
    return NULL;
}

/* Makes the ranks of each host a sharding group. */
static void group_by_hosts(cs_config *config)
{
    static const char path[] = "cspeed.fsdp.sharding_strategy";
    const cs_world *world = &config->world;
    ce_settings *s = &config->settings;
    const char *uneven = uneven_hosts(), *name = strategies[s->sharding_strategy].name;
    bool whole = world->local_size % s->tp == 0; /* true if each tensor-parallel group is on one host */
    s->shard_size = whole ? world->local_size / s->tp : s->lanes;
    if (uneven)
        ce_json_fault(
            config->doc, path,
            "the hosts have %s ranks, and %s makes the ranks of each host a group: start the same number on each, or "
            "set zero_optimization.mics_shard_size",
            uneven, name);
    else if (!whole)
        ce_json_fault(config->doc, path,
                      "the %d ranks of this host are not a multiple of tp %d: set zero_optimization.mics_shard_size",
                      world->local_size, s->tp);
    else if (world->size % world->local_size != 0)
        ce_json_fault(config->doc, path,
                      "the %d ranks of this host do not divide a world of %d: set zero_optimization.mics_shard_size",
                      world->local_size, world->size);
}

/* Checks one key offload_*.device. The value "cpu" asks for state in host memory, where all state of a CPU rank is
 * already; whether the ranks have GPUs is known later if cspeed.device is "auto". */
static void check_offload(cs_config *config, const char *path, int device)
{
    if (device == CE_OFFLOAD_NVME)
        ce_json_fault(config->doc, path, "not supported: \"nvme\", because nothing is swapped to disk");
    else if (device == CE_OFFLOAD_CPU && config->settings.device != CE_CHOOSE_CUDA)
        ce_json_note(config->doc, path, "\"cpu\" has no effect on a CPU rank, whose state is all in host memory");
}

/* Sets the size of an axis if no key of cspeed.mesh gives it. Origins are listed only for a mesh of several axes. */
static void derive_axis(cs_config *config, const char *path, int64_t *size, int64_t value)
{
    const ce_settings *s = &config->settings;
    if (*size > 0)
        return;
    *size = value;
    if (s->tp > 1 || s->shard_size < s->lanes)
        ce_json_mark(config->doc, path, "derived");
}

void ce_sharding_resolve(cs_config *config)
{
    ce_settings *s = &config->settings;
    const char *path;
    int strategy = s->sharding_strategy;
    int64_t size = ce_mesh_find_shard(config, &path);
    bool divides = size > 0 && size < s->lanes; /* into several groups */
    name_stage(config);
    check_offload(config, "zero_optimization.offload_param.device", s->offload_param);
    check_offload(config, "zero_optimization.offload_optimizer.device", s->offload_optimizer);
    s->shard_size = s->lanes;
    if (divides && strategy != BY_STAGE && !strategies[strategy].hybrid)
        ce_json_fault(config->doc, path, "%s shards over all ranks; only HYBRID_SHARD shards over groups of ranks",
                      strategies[strategy].name);
    else if (divides && size > 1 && s->stage == 0)
        ce_json_fault(config->doc, path, "stage 0 shards nothing: take stage 1, 2 or 3, or leave this key out");
    else if (size > 0)
        s->shard_size = s->stage == 0 ? s->lanes : (int)size;
    else if (strategies[strategy].hybrid)
        group_by_hosts(config);
    s->mics_shard_size = s->shard_size < s->lanes ? s->shard_size : -1;
    derive_axis(config, "cspeed.mesh.dp_shard", &s->mesh.shard, s->stage == 0 ? 1 : s->shard_size);
    derive_axis(config, "cspeed.mesh.dp_replicate", &s->mesh.replicate, s->lanes / s->mesh.shard);
}
