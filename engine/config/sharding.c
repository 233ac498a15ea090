/* sharding.c - the key tables of zero_optimization: the stage, offload, and keys that tune DeepSpeed's
 * communication. */
#include "config/rows.h"

#define BY_UNITS "parameters and gradients are communicated unit by unit, not in buckets"
#define NO_HOOKS "the engine runs a list of units, without hooks or traces"
#define ALWAYS "cspeed always does this"
#define OFFLOAD                                                                                                        \
    "\"cpu\" is accepted on a CPU, where all state is in host memory, and refused on a GPU; \"nvme\" is refused"

static const ce_key zero[] = {
    SUPPORTED("stage", INT, written.stage, "0", 0, 3, "auto",
              "ZeRO stage: 0 shards nothing, 1 optimizer state, 2 also gradients, 3 also parameters"),
    INERT("contiguous_gradients", "true", ALWAYS),
    INERT("reduce_scatter", "true", ALWAYS),
    SIZE("reduce_bucket_size", "5e8", BY_UNITS),
    INERT("use_multi_rank_bucket_allreduce", "true", BY_UNITS),
    INERT("allgather_partitions", "true", "DeepSpeed does not read this key either"),
    SIZE("allgather_bucket_size", "5e8", BY_UNITS),
    INERT_LIKE("overlap_comm", "true",
               "communication overlaps with computation on a GPU, and on a CPU if the rank has more than one core"),
    REFUSED("load_from_fp32_weights", "true", "a checkpoint contains fp32 masters and no 16-bit weights"),
    INERT("elastic_checkpoint", "false", "checkpoints do not depend on the number of ranks"),
    INERT("round_robin_gradients", "false", BY_UNITS),
    INERT("ignore_unused_parameters", "true", "every parameter of a unit has a gradient"),
    REFUSED("legacy_stage1", "false", "DeepSpeed has removed it too"),
    SIZE("sub_group_size", "1e9", "an update needs no memory besides the state, so it is not divided into groups"),
    SIZE("stage3_prefetch_bucket_size", "5e7",
         BY_UNITS "; cspeed.prefetch is the number of units that are gathered in advance"),
    SIZE("prefetch_bucket_size", "5e7", "other spelling of stage3_prefetch_bucket_size"),
    SIZE("stage3_param_persistence_threshold", "1e5", BY_UNITS "; a small parameter is gathered with its unit"),
    SIZE("param_persistence_threshold", "1e5", "other spelling of stage3_param_persistence_threshold"),
    SIZE("stage3_model_persistence_threshold", "9223372036854775807", BY_UNITS),
    SIZE("model_persistence_threshold", "9223372036854775807", "other spelling of stage3_model_persistence_threshold"),
    SIZE("stage3_max_live_parameters", "1e9", "only the unit in use and the prefetched units are in memory"),
    SIZE("max_live_parameters", "1e9", "other spelling of stage3_max_live_parameters"),
    SIZE("stage3_max_reuse_distance", "1e9",
         "a unit is released after its use; only the last unit is kept for backward"),
    SIZE("max_reuse_distance", "1e9", "other spelling of stage3_max_reuse_distance"),
    INERT("stage3_gather_16bit_weights_on_model_save", "false",
          "a checkpoint is sharded, and `cspeed export` reads it without gathering"),
    INERT("gather_16bit_weights_on_model_save", "false", "other spelling of stage3_gather_16bit_weights_on_model_save"),
    INERT("stage3_gather_fp16_weights_on_model_save", "false",
          "older spelling of stage3_gather_16bit_weights_on_model_save"),
    INERT("stage3_module_granularity_threshold", "0", NO_HOOKS),
    INERT("module_granularity_threshold", "0", NO_HOOKS),
    INERT("stage3_use_all_reduce_for_fetch_params", "false", "a unit is gathered by one all-gather"),
    INERT("stage3_allgather_sequential", "false", BY_UNITS),
    REFUSED("zero_hpz_partition_size", "1", "parameters are partitioned once, over all ranks"),
    REFUSED("zero_quantized_weights", "false", "parameters are communicated in the type that computes"),
    REFUSED("zero_quantized_nontrainable_weights", "false", "parameters are communicated in the type that computes"),
    REFUSED("zero_quantized_gradients", "false", ALL_FP32),
    REFUSED("zeropp_loco_param", "null", ALL_FP32),
    REFUSED_UNLESS("mics_shard_size", "-1", "0", "the shards of a parameter are distributed over all ranks"),
    REFUSED("mics_hierarchical_params_gather", "false", "the shards of a parameter are distributed over all ranks"),
    INERT("memory_efficient_linear", "true", "there is no autograd function to replace"),
    INERT("override_module_apply", "true", NO_HOOKS),
    INERT("pipeline_loading_checkpoint", "false", "no rank ever loads the whole model"),
    INERT("log_trace_cache_warnings", "false", NO_HOOKS),
    INERT("enable_sanity_checks", "false", "the checks are always made"),
    INERT("save_muon_momentum_buffer_in_memory", "false", "nothing is swapped to disk"),
    INERT_LIKE("leaf_module", "{}", NO_HOOKS),
    REFUSED("zenflow", "null", "it delays the update of offloaded parameters, and nothing is offloaded"),
    SECTION("offload_param", "parameters in host memory or on disk"),
    SECTION("offload_optimizer", "optimizer state in host memory or on disk"),
    INERT_LIKE("cpu_offload", "true",
               "older spelling of offload_optimizer {\"device\": \"cpu\"}, by which it is replaced"),
    INERT_LIKE("cpu_offload_param", "true",
               "older spelling of offload_param {\"device\": \"cpu\"}, by which it is replaced"),
    INERT_LIKE("cpu_offload_use_pin_memory", "true", "nothing is offloaded"),
};

static const ce_key offload_param[] = {
    SUPPORTED("device", CHOICE, written.offload_param, "\"none\"", 0, 0, "none|cpu|nvme|auto", OFFLOAD),
    INERT_LIKE("nvme_path", "\"\"", "nothing is offloaded"),
    SIZE("buffer_count", "5", "nothing is offloaded"),
    SIZE("buffer_size", "1e8", "nothing is offloaded"),
    SIZE("max_in_cpu", "1e9", "nothing is offloaded"),
    INERT("pin_memory", "true", "nothing is offloaded"),
};

static const ce_key offload_optimizer[] = {
    SUPPORTED("device", CHOICE, written.offload_optimizer, "\"none\"", 0, 0, "none|cpu|nvme|auto", OFFLOAD),
    INERT_LIKE("nvme_path", "\"\"", "nothing is offloaded"),
    SIZE("buffer_count", "4", "nothing is offloaded"),
    INERT("pin_memory", "true", "nothing is offloaded"),
    INERT("pipeline_read", "false", "nothing is offloaded"),
    INERT("pipeline_write", "false", "nothing is offloaded"),
    INERT("fast_init", "false", "nothing is offloaded"),
    SHARE("ratio", "1.0", "nothing is offloaded"),
    INERT("super_offload", "false", "nothing is offloaded"),
    SHARE("cpuadam_cores_perc", "0.8", "nothing is offloaded"),
};

const ce_section ce_sharding_sections[] = {
    { "zero_optimization", CS_KEYS(zero) },
    { "zero_optimization.offload_param", CS_KEYS(offload_param) },
    { "zero_optimization.offload_optimizer", CS_KEYS(offload_optimizer) },
};
const int ce_sharding_section_count = sizeof ce_sharding_sections / sizeof *ce_sharding_sections;
