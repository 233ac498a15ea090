/* sections.c - the key tables: what is supported, what is inert here and why, what is refused and why. */
#include "config/sections.h"
#include "config/config.h"

#include <string.h>

#define AT(field) offsetof(cs_settings, field)
#define MOST      9e15 /* what a double counts exactly */
#define OFF       "{\"enabled\": false}"

#define SUPPORTED(key, type, field, fallback, least, most, choices, sentence)                                          \
    {                                                                                                                  \
        key, CS_KEY_##type, AT(field), fallback, least, most, choices, sentence                                        \
    }
#define SECTION(key, sentence)                                                                                         \
    {                                                                                                                  \
        key, CS_KEY_SECTION, 0, "{}", 0, 0, NULL, sentence                                                             \
    }
#define INERT(key, fallback, sentence)                                                                                 \
    {                                                                                                                  \
        key, CS_KEY_INERT, 0, fallback, 0, 0, NULL, sentence                                                           \
    }
#define SIZE(key, fallback, sentence)                                                                                  \
    {                                                                                                                  \
        key, CS_KEY_INERT, 0, fallback, 0, INFINITY, NULL, sentence                                                    \
    }
#define REFUSED(key, fallback, sentence)                                                                               \
    {                                                                                                                  \
        key, CS_KEY_REFUSED, 0, fallback, 0, 0, NULL, sentence                                                         \
    }
#define REFUSED_UNLESS(key, fallback, harmless, sentence)                                                              \
    {                                                                                                                  \
        key, CS_KEY_REFUSED, 0, fallback, 0, 0, harmless, sentence                                                     \
    }

#define BY_UNITS "parameters and gradients travel unit by unit here, not in buckets"
#define NO_HOOKS "the engine walks a list of units: there are no hooks or traces to tune"
#define ALWAYS   "this is how it is always done here"
#define NO_OFFLOAD                                                                                                     \
    "state stays on the device that computes, which for a CPU rank is host memory anyway: leave it out or say "        \
    "\"none\""
#define NO_WRITER "no such writer is built; every number of a step is in cspeed.metrics"
#define OF_WRITER "a writer that is refused when enabled"
#define NO_TORCH  "it is a feature of PyTorch, and no PyTorch runs here"
#define NO_SCALE  "bf16 has the range of fp32 and needs no loss scale"
#define ALL_FP32  "gradients are summed and accumulated in fp32"
#define NOT_YET   "it is not built yet"

static const cs_key top[] = {
    SUPPORTED("train_batch_size", INT, train_batch_size, "null", 1, MOST, "auto",
              "samples of one update over all ranks; derived when absent"),
    SUPPORTED("train_micro_batch_size_per_gpu", INT, micro_batch, "null", 1, MOST, "auto",
              "samples of one rank in one forward and backward; derived when absent"),
    SUPPORTED("gradient_accumulation_steps", INT, accumulation, "null", 1, MOST, "auto",
              "micro-steps of one update; derived when absent, else 1"),
    REFUSED_UNLESS("managed_gradient_accumulation", "true", "1",
                   "the engine itself finds the boundary of accumulation"),
    INERT("dataloader_drop_last", "false", "windows follow one another across epochs, so no batch is incomplete"),
    REFUSED("data_parallel_size", "null", "all ranks form one data-parallel group, as large as the launch"),
    REFUSED("sequence_parallel_size", "1", "sequences are not split over ranks"),
    SECTION("optimizer", "what moves the parameters; absent: AdamW with its defaults"),
    INERT("zero_allow_untested_optimizer", "false", "every optimizer here works at every stage"),
    INERT("zero_force_ds_cpu_optimizer", "true", "there is one implementation of each optimizer"),
    SUPPORTED("gradient_clipping", NUMBER, gradient_clipping, "1.0", 0, INFINITY, "auto",
              "largest global L2 norm of the gradients; 0: no clipping; \"auto\": 1.0"),
    SECTION("scheduler", "learning rate over steps; absent: constant"),
    SECTION("fp16", "fp16 parameters, fp32 masters, loss scaling"),
    SECTION("bf16", "bf16 parameters, fp32 masters"),
    SECTION("bfloat16", "older spelling of \"bf16\", which wins when both are there"),
    SECTION("data_types", "accumulation"),
    REFUSED("amp", OFF, "it names NVIDIA apex; use fp16 or bf16"),
    REFUSED("torch_autocast", OFF, NO_TORCH "; use fp16 or bf16"),
    REFUSED_UNLESS("communication_data_type", "null", "\"fp32\"|\"float32\"|\"float\"", ALL_FP32),
    INERT("seq_parallel_communication_data_type", "\"fp32\"", "sequences are not split over ranks"),
    INERT("prescale_gradients", "false", "sums are fp32, and the division is one factor with unscaling and clipping"),
    REFUSED("gradient_predivide_factor", "1.0",
            "gradients are summed in fp32, where dividing in two parts buys nothing"),
    SUPPORTED("gradient_allreduce_op", CHOICE, written.allreduce_op, "\"mean\"", 0, 0, "mean|sum",
              "over ranks; sum: without division by the world size"),
    REFUSED("sparse_gradients", "false", "an embedding's gradient is dense here"),
    INERT("disable_allgather", "false", "DeepSpeed does not read it either"),
    REFUSED("use_data_before_expert_parallelism", "false", "there are no experts to spread over ranks"),
    INERT("graph_harvesting", "false", "it captures CUDA graphs of PyTorch"),
    SECTION("zero_optimization", "who holds what; true and false are the old spelling of stages 1 and 0"),
    SIZE("allgather_size", "5e8", "an older spelling of allgather_bucket_size"),
    INERT("aio", "{}", "nothing is swapped to disk"),
    SUPPORTED("steps_per_print", INT, steps_per_print, "0", 0, INFINITY, NULL,
              "updates between step=... lines; 0, null and Infinity: none"),
    SUPPORTED("wall_clock_breakdown", BOOL, wall_clock_breakdown, "false", 0, 0, NULL, "print the time of each phase"),
    REFUSED("memory_breakdown", "false",
            "memory is not measured at the phases of a step; it is planned before the first"),
    INERT("dump_state", "false", "the configuration as resolved is saved with each checkpoint"),
    INERT("log_level", "null", "progress, warnings and errors are always printed"),
    SECTION("timers", "the throughput timer"),
    SECTION("flops_profiler", "a profile of one step"),
    SECTION("csv_monitor", "one CSV file a metric"),
    SECTION("tensorboard", "event files"),
    SECTION("wandb", "Weights & Biases"),
    SECTION("comet", "Comet"),
    SECTION("comms_logger", "times of collectives"),
    REFUSED("autotuning", OFF, "nothing here searches for settings"),
    INERT("vocabulary_size", "null", "the model knows it"),
    SECTION("activation_checkpointing", "tunes recomputation, which cspeed.recompute switches on"),
    SECTION("checkpoint", "tags"),
    REFUSED("nebula", OFF, "checkpoints are written to directories, not to Azure"),
    REFUSED("datastates_ckpt", "false", "checkpoints have one writer, ours"),
    REFUSED("elasticity", OFF, "a run keeps its batch size and world size"),
    REFUSED("curriculum_learning", OFF, "the sequence length is constant"),
    REFUSED("data_efficiency", OFF, "data is read in a plain permutation of all windows"),
    REFUSED("progressive_layer_drop", OFF, "every step runs every layer"),
    REFUSED("eigenvalue", OFF, "quantized training is not built"),
    REFUSED("quantize_training", OFF, "quantized training is not built"),
    REFUSED("compression_training", "{}", "nothing is pruned or quantized in training"),
    REFUSED("pipeline", "{}", "every rank runs every layer: there are no pipeline stages"),
    REFUSED_UNLESS("tensor_parallel", "{}", "{\"autotp_size\": 0}|{\"autotp_size\": 1}",
                   "no layer is split over ranks"),
    REFUSED("expert_parallel", OFF, "there are no experts to spread over ranks"),
    REFUSED("hybrid_engine", OFF, "it is for generation inside PyTorch training"),
    REFUSED_UNLESS("compile", "{}", "{\"deepcompile\": false}", "it is PyTorch's compiler, and no PyTorch runs here"),
    REFUSED("sparse_attention", "null", "attention is dense and causal"),
    REFUSED("weight_quantization", OFF, "it is for inference"),
    SECTION("cspeed", "what DeepSpeed's file has no word for; DeepSpeed ignores it"),
};

static const cs_key fp16[] = {
    SUPPORTED("enabled", BOOL, written.fp16, "false", 0, 0, "auto", "\"auto\": false"),
    SUPPORTED("loss_scale", NUMBER, scaler.loss_scale, "0", 0, 0x1p126, "auto", "0: dynamic; else this scale, always"),
    SUPPORTED("initial_scale_power", INT, scaler.initial_scale_power, "16", -126, 126, "auto",
              "the first scale is 2 to this power"),
    SUPPORTED("loss_scale_window", INT, scaler.loss_scale_window, "1000", 0, 0, "auto",
              "clean steps between doublings"),
    SUPPORTED("hysteresis", INT, scaler.hysteresis, "2", 0, 0, "auto",
              "at this overflow the scale is lowered; the earlier ones only skip"),
    SUPPORTED("consecutive_hysteresis", BOOL, scaler.consecutive_hysteresis, "false", 0, 0, "auto",
              "every clean step refills the hysteresis"),
    SUPPORTED("min_loss_scale", NUMBER, scaler.min_loss_scale, "1", 0, 0x1p126, "auto",
              "an overflow at this scale ends the run"),
    INERT("auto_cast", "false", "inputs are token numbers or cast by the model"),
    REFUSED("fp16_master_weights_and_grads", "false", "masters are fp32"),
};

static const cs_key bf16[] = {
    SUPPORTED("enabled", BOOL, written.bf16, "false", 0, 0, "auto",
              "\"auto\": true where the CPU has AMX and on GPUs, unless fp16 is"),
    SUPPORTED("check_grad_overflow", BOOL, check_grad_overflow, "true", 0, 0, "auto",
              "skip a step whose gradients are not finite"),
    INERT("immediate_grad_update", "false", ALL_FP32 " as they come"),
    REFUSED("bf16_master_weights_and_grads", "false", "masters and accumulated gradients are fp32"),
    REFUSED("bf16_optimizer_states", "false", "optimizer state is fp32"),
    INERT("loss_scale", "null", NO_SCALE),
    INERT("initial_scale_power", "null", NO_SCALE),
    INERT("loss_scale_window", "null", NO_SCALE),
    INERT("hysteresis", "null", NO_SCALE),
    INERT("consecutive_hysteresis", "null", NO_SCALE),
    INERT("min_loss_scale", "null", NO_SCALE),
    INERT("auto_cast", "null", "inputs are token numbers or cast by the model"),
};

static const cs_key data_types[] = {
    REFUSED_UNLESS("grad_accum_dtype", "null", "\"fp32\"|\"float32\"|\"float\"", ALL_FP32),
    REFUSED("param_dtype", "null", "it follows from fp16.enabled and bf16.enabled"),
    REFUSED("buffer_dtype", "null", "models have no buffers besides their parameters"),
};

static const cs_key zero[] = {
    SUPPORTED("stage", INT, written.stage, "0", 0, 3, "auto",
              "what is sharded: 0 nothing, 1 optimizer state, 2 and gradients, 3 and parameters"),
    INERT("contiguous_gradients", "true", ALWAYS),
    INERT("reduce_scatter", "true", ALWAYS),
    SIZE("reduce_bucket_size", "5e8", BY_UNITS),
    INERT("use_multi_rank_bucket_allreduce", "true", BY_UNITS),
    INERT("allgather_partitions", "true", "DeepSpeed does not read it either"),
    SIZE("allgather_bucket_size", "5e8", BY_UNITS),
    INERT("overlap_comm", "null", "communication overlaps where a rank has a core to spare for it"),
    REFUSED("load_from_fp32_weights", "true", "a checkpoint holds fp32 masters and no 16-bit weights to load from"),
    INERT("elastic_checkpoint", "false", "checkpoints hold names and ranges, never ranks"),
    INERT("round_robin_gradients", "false", BY_UNITS),
    INERT("ignore_unused_parameters", "true", "every parameter of a unit has a gradient"),
    REFUSED("legacy_stage1", "false", "DeepSpeed has dropped it too"),
    SIZE("sub_group_size", "1e9", "an update needs no memory beyond the state, so it needs no groups"),
    SIZE("stage3_prefetch_bucket_size", "5e7", BY_UNITS "; cspeed.prefetch says how many ahead"),
    SIZE("prefetch_bucket_size", "5e7", "other spelling of stage3_prefetch_bucket_size"),
    SIZE("stage3_param_persistence_threshold", "1e5", BY_UNITS ": a small parameter travels with its unit"),
    SIZE("param_persistence_threshold", "1e5", "other spelling of stage3_param_persistence_threshold"),
    SIZE("stage3_model_persistence_threshold", "9223372036854775807", BY_UNITS),
    SIZE("model_persistence_threshold", "9223372036854775807", "other spelling of stage3_model_persistence_threshold"),
    SIZE("stage3_max_live_parameters", "1e9", "the unit in use and those prefetched are live, no more"),
    SIZE("max_live_parameters", "1e9", "other spelling of stage3_max_live_parameters"),
    SIZE("stage3_max_reuse_distance", "1e9", "a unit is released after its use, except at the turn"),
    SIZE("max_reuse_distance", "1e9", "other spelling of stage3_max_reuse_distance"),
    INERT("stage3_gather_16bit_weights_on_model_save", "false",
          "a checkpoint is sharded, and exported without gathering"),
    INERT("gather_16bit_weights_on_model_save", "false", "other spelling of stage3_gather_16bit_weights_on_model_save"),
    INERT("stage3_gather_fp16_weights_on_model_save", "false",
          "older spelling of stage3_gather_16bit_weights_on_model_save"),
    INERT("stage3_module_granularity_threshold", "0", NO_HOOKS),
    INERT("module_granularity_threshold", "0", NO_HOOKS),
    INERT("stage3_use_all_reduce_for_fetch_params", "false", "a unit is all-gathered"),
    INERT("stage3_allgather_sequential", "false", BY_UNITS),
    REFUSED("zero_hpz_partition_size", "1", "parameters have one partition, over all ranks"),
    REFUSED("zero_quantized_weights", "false", "parameters travel in the type that computes"),
    REFUSED("zero_quantized_nontrainable_weights", "false", "parameters travel in the type that computes"),
    REFUSED("zero_quantized_gradients", "false", ALL_FP32),
    REFUSED("zeropp_loco_param", "null", ALL_FP32),
    REFUSED_UNLESS("mics_shard_size", "-1", "0", "the shards of a parameter are spread over all ranks"),
    REFUSED("mics_hierarchical_params_gather", "false", "the shards of a parameter are spread over all ranks"),
    INERT("memory_efficient_linear", "true", "no autograd function is replaced, as there is none"),
    INERT("override_module_apply", "true", NO_HOOKS),
    INERT("pipeline_loading_checkpoint", "false", "no rank ever loads the whole model"),
    INERT("log_trace_cache_warnings", "false", NO_HOOKS),
    INERT("enable_sanity_checks", "false", "they are always on"),
    INERT("save_muon_momentum_buffer_in_memory", "false", "nothing is swapped to disk"),
    INERT("leaf_module", "null", NO_HOOKS),
    REFUSED("zenflow", "null", "it updates offloaded parameters late, and nothing is offloaded"),
    SECTION("offload_param", "parameters in host memory or on disk"),
    SECTION("offload_optimizer", "optimizer state in host memory or on disk"),
    REFUSED("cpu_offload", "false", NO_OFFLOAD),
    REFUSED("cpu_offload_param", "false", NO_OFFLOAD),
    INERT("cpu_offload_use_pin_memory", "null", "nothing is offloaded"),
};

static const cs_key offload_param[] = {
    REFUSED("device", "\"none\"", NO_OFFLOAD),         INERT("nvme_path", "null", "nothing is offloaded"),
    SIZE("buffer_count", "5", "nothing is offloaded"), SIZE("buffer_size", "1e8", "nothing is offloaded"),
    SIZE("max_in_cpu", "1e9", "nothing is offloaded"), INERT("pin_memory", "true", "nothing is offloaded"),
};

static const cs_key offload_optimizer[] = {
    REFUSED("device", "\"none\"", NO_OFFLOAD),
    INERT("nvme_path", "null", "nothing is offloaded"),
    SIZE("buffer_count", "4", "nothing is offloaded"),
    INERT("pin_memory", "true", "nothing is offloaded"),
    INERT("pipeline_read", "false", "nothing is offloaded"),
    INERT("pipeline_write", "false", "nothing is offloaded"),
    INERT("fast_init", "false", "nothing is offloaded"),
    SIZE("ratio", "1.0", "nothing is offloaded"),
    INERT("super_offload", "false", "nothing is offloaded"),
    SIZE("cpuadam_cores_perc", "0.8", "nothing is offloaded"),
};

static const cs_key timers[]     = {SECTION("throughput", "samples a second")};
static const cs_key throughput[] = {
    INERT("enabled", "true", "throughput is always measured"),
    INERT("synchronized", "true", "a step is timed from boundary to boundary"),
};

static const cs_key flops_profiler[] = {
    REFUSED_UNLESS("enabled", "false", "0", "no profile is printed; each step reports its share of the matrix roof"),
    INERT("profile_step", "1", OF_WRITER),
    INERT("module_depth", "-1", OF_WRITER),
    INERT("top_modules", "1", OF_WRITER),
    INERT("detailed", "true", OF_WRITER),
    INERT("output_file", "null", OF_WRITER),
    INERT("recompute_fwd_factor", "0.0", OF_WRITER),
};

static const cs_key file_monitor[] = {
    REFUSED_UNLESS("enabled", "false", "0", NO_WRITER),
    INERT("output_path", "null", OF_WRITER),
    INERT("job_name", "null", OF_WRITER),
};

static const cs_key wandb[] = {
    REFUSED_UNLESS("enabled", "false", "0", NO_WRITER),
    INERT("group", "null", OF_WRITER),
    INERT("team", "null", OF_WRITER),
    INERT("project", "null", OF_WRITER),
};

static const cs_key comet[] = {
    REFUSED_UNLESS("enabled", "false", "0", NO_WRITER),
    INERT("samples_log_interval", "100", OF_WRITER),
    INERT("project", "null", OF_WRITER),
    INERT("workspace", "null", OF_WRITER),
    INERT("api_key", "null", OF_WRITER),
    INERT("experiment_name", "null", OF_WRITER),
    INERT("experiment_key", "null", OF_WRITER),
    INERT("online", "null", OF_WRITER),
    INERT("mode", "null", OF_WRITER),
};

static const cs_key comms_logger[] = {
    REFUSED_UNLESS("enabled", "false", "0", "collectives are not timed one by one"),
    INERT("verbose", "false", OF_WRITER),
    INERT("prof_all", "true", OF_WRITER),
    INERT("debug", "false", OF_WRITER),
    INERT("prof_ops", "[]", OF_WRITER),
};

static const cs_key activation_checkpointing[] = {
    INERT("partition_activations", "false", "it splits over tensor-parallel ranks, and there are none"),
    INERT("cpu_checkpointing", "false", "a unit's input stays on the device that computes"),
    INERT("contiguous_memory_optimization", "false", "the stash is one piece of memory anyway"),
    INERT("number_checkpoints", "null", "cspeed.recompute keeps one input a unit"),
    INERT("synchronize_checkpoint_boundary", "false", "the order of a stream is enough"),
    INERT("profile", "false", "wall_clock_breakdown prints times"),
};

static const cs_key checkpoint[] = {
    SUPPORTED("tag_validation", CHOICE, tag_validation, "\"Warn\"", 0, 0, "Ignore|Warn|Fail",
              "when ranks name different tags"),
    INERT("load_universal", "false", "every checkpoint holds names and ranges, so none has to be converted"),
    REFUSED("use_node_local_storage", "false", "a checkpoint is one directory that all ranks see"),
    SECTION("parallel_write", "of pipeline stages"),
    INERT("checkpoint_serialization", "true", "the format is safetensors"),
    REFUSED("writer", "null", "the writer's keys are under cspeed.checkpoint"),
};

static const cs_key parallel_write[] = {INERT("pipeline_stage", "false", "all ranks write in parallel, always")};

static const cs_key cspeed[] = {
    SUPPORTED("model", JSON, written.model, "null", 0, 0, NULL,
              "a folder with Hugging Face's config.json, or an object with its keys"),
    SECTION("data", "token shards"),
    SUPPORTED("steps", INT, steps, "2000", 0, MOST, NULL, "updates of the whole training"),
    SUPPORTED("fit_seconds", NUMBER, fit_seconds, "0", 0, MOST, NULL,
              "take fewer steps where they would last longer than this; 0: never"),
    SUPPORTED("epochs", INT, epochs, "0", 0, MOST, NULL, "instead of steps: passes over the data"),
    SUPPORTED("seed", INT, seed, "1234", 0, 9.2e18, NULL, "of first values, window order and dropout"),
    SUPPORTED("output", STRING, output, "null", 0, 0, NULL,
              "folder of checkpoints and metrics; null: runs/ and the name of the file, less .json"),
    SUPPORTED("load", STRING, load, "null", 0, 0, NULL,
              "folder of checkpoints to start from; null: continue from output if it holds one"),
    SUPPORTED("tag", STRING, tag, "null", 0, 0, NULL, "checkpoint to start from; null: the latest"),
    SUPPORTED("save_interval", INT, save_interval, "200", 0, MOST, NULL,
              "updates between checkpoints; 0: only at the end"),
    SUPPORTED("keep_last", INT, keep_last, "3", 0, MOST, NULL, "checkpoints to keep; 0: all"),
    SUPPORTED("keep_every", INT, keep_every, "0", 0, MOST, NULL,
              "never remove checkpoints of steps that are multiples of this; 0: no such"),
    REFUSED("async_save", "false", NOT_YET ": a save finishes before the next step"),
    SUPPORTED("eval_interval", INT, eval_interval, "200", 0, MOST, NULL,
              "updates between evaluations; 0: only at the end"),
    SUPPORTED("eval_batches", INT, eval_batches, "50", 0, MOST, NULL,
              "micro-batches of an evaluation, over all ranks; 0: all of data.valid"),
    SECTION("checkpoint", "how checkpoints are written and read"),
    SUPPORTED("metrics", STRING, metrics, "metrics.jsonl", 0, 0, NULL,
              "file of one object an update, relative to output; null: none"),
    SUPPORTED("device", CHOICE, device, "\"auto\"", 0, 0, "auto|cpu|cuda", "what computes"),
    SUPPORTED("threads", INT, threads, "0", 0, 4096, "auto",
              "of a rank; 0 and \"auto\": the cores bound to it; OMP_NUM_THREADS wins"),
    SUPPORTED("comm", CHOICE, written.comm, "\"auto\"", 0, 0, "auto|self|shm|tcp|mpi|nccl",
              "how ranks talk; tcp, mpi and nccl are not built"),
    SUPPORTED("recompute", CHOICE, recompute, "\"none\"", 0, 0, "none|unit",
              "unit: keep a unit's input alone and compute the rest again"),
    SUPPORTED("prefetch", INT, prefetch, "1", 0, 64, NULL, "units gathered ahead at stage 3"),
    REFUSED("mode", "\"zero\"", NOT_YET "; \"zero\" is there, and its stage 0 is data parallelism"),
    REFUSED("strict", "false", NOT_YET),
};

static const cs_key cspeed_data[] = {
    SUPPORTED("train", JSON, written.train, "null", 0, 0, NULL,
              "file name or pattern of token shards, or a list of such"),
    SUPPORTED("valid", JSON, written.valid, "null", 0, 0, NULL, "the same, for evaluation"),
    SUPPORTED("seq_len", INT, seq_len, "256", 1, 0x1p30, NULL, "tokens of a window"),
    SUPPORTED("shuffle", BOOL, shuffle, "true", 0, 0, NULL,
              "another permutation of the windows each epoch; false: file order"),
    REFUSED_UNLESS("weights", "[1.0]", "[1]", NOT_YET ": all shards of \"train\" are one text"),
};

static const cs_key cspeed_checkpoint[] = {
    REFUSED("writer_threads", "2", NOT_YET),
    REFUSED("io_buffer_size", "16777216", NOT_YET),
    REFUSED("direct", "true", NOT_YET),
    REFUSED("on_bad_latest", "\"fallback\"", NOT_YET),
    REFUSED("verify_on_load", "\"touched\"", NOT_YET),
};

const cs_section cs_sections[] = {
    {"", CS_KEYS(top)},
    {"fp16", CS_KEYS(fp16)},
    {"bf16", CS_KEYS(bf16)},
    {"data_types", CS_KEYS(data_types)},
    {"zero_optimization", CS_KEYS(zero)},
    {"zero_optimization.offload_param", CS_KEYS(offload_param)},
    {"zero_optimization.offload_optimizer", CS_KEYS(offload_optimizer)},
    {"timers", CS_KEYS(timers)},
    {"timers.throughput", CS_KEYS(throughput)},
    {"flops_profiler", CS_KEYS(flops_profiler)},
    {"csv_monitor", CS_KEYS(file_monitor)},
    {"tensorboard", CS_KEYS(file_monitor)},
    {"wandb", CS_KEYS(wandb)},
    {"comet", CS_KEYS(comet)},
    {"comms_logger", CS_KEYS(comms_logger)},
    {"activation_checkpointing", CS_KEYS(activation_checkpointing)},
    {"checkpoint", CS_KEYS(checkpoint)},
    {"checkpoint.parallel_write", CS_KEYS(parallel_write)},
    {"cspeed", CS_KEYS(cspeed)},
    {"cspeed.data", CS_KEYS(cspeed_data)},
    {"cspeed.checkpoint", CS_KEYS(cspeed_checkpoint)},
};
const int cs_section_count = sizeof cs_sections / sizeof *cs_sections;

const cs_section *cs_sections_find(const char *path, size_t length)
{
    for (int i = 0; i < cs_section_count; i++)
        if (strlen(cs_sections[i].path) == length && memcmp(cs_sections[i].path, path, length) == 0)
            return &cs_sections[i];
    return NULL;
}
