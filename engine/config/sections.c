/* sections.c - the key tables of the top level and of checkpoints, and the list of all tables. Each row says whether a
 * key is supported, inert or refused, and why. */
#include "config/rows.h"

#include <string.h>

#define UNREAD "DeepSpeed does not read it either"
#define PIPELINE "it is for DeepSpeed's PipelineModule, and every rank runs every layer here"

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
    SECTION("optimizer", "what moves the parameters; absent: AdamW with its defaults, or, where some value of the file "
                         "is \"auto\", with those of Hugging Face's Trainer"),
    INERT("zero_allow_untested_optimizer", "false", "every optimizer here works at every stage"),
    INERT("zero_force_ds_cpu_optimizer", "true", "there is one implementation of each optimizer"),
    SUPPORTED("gradient_clipping", NUMBER, gradient_clipping, "1.0", 0, INFINITY, "auto",
              "largest global L2 norm of the gradients; 0: no clipping; \"auto\": 1.0"),
    SECTION("scheduler", "learning rate over steps; absent: constant, or, where some value of the file is \"auto\", "
                         "linear to 0; null: constant"),
    SECTION("fp16", "fp16 parameters, fp32 masters, loss scaling"),
    SECTION("bf16", "bf16 parameters, fp32 masters"),
    SECTION("bfloat16", "older spelling of \"bf16\", which wins when both are there"),
    SECTION("data_types", "accumulation"),
    SECTION("amp", "Apex's O0 to O3"),
    SECTION("torch_autocast", "16-bit matrix products on fp32 parameters"),
    SUPPORTED("communication_data_type", STRING, written.wire, "null", 0, 0, "auto",
              "fp32, bf16 or fp16: what gradients travel in; sums are fp32. null: the type they accumulate in"),
    INERT("seq_parallel_communication_data_type", "\"fp32\"", "sequences are not split over ranks"),
    SUPPORTED(
        "prescale_gradients", BOOL, written.prescale, "false", 0, 0, NULL,
        "divide gradients by the world size before they travel; else one factor divides, unscales and clips after"),
    SUPPORTED("gradient_predivide_factor", NUMBER, written.predivide, "1.0", 0, INFINITY, NULL,
              "divide gradients by this before they travel, and by the rest after"),
    SUPPORTED("gradient_allreduce_op", CHOICE, written.allreduce_op, "\"mean\"", 0, 0, "mean|sum",
              "over ranks; sum: without division by the world size"),
    REFUSED("sparse_gradients", "false", "an embedding's gradient is dense here"),
    INERT("disable_allgather", "false", UNREAD),
    REFUSED("use_data_before_expert_parallelism", "false", "there are no experts to spread over ranks"),
    INERT("graph_harvesting", "false", "it captures CUDA graphs of PyTorch"),
    SECTION("zero_optimization", "who holds what; true and false are the old spelling of stages 1 and 0"),
    SIZE("allgather_size", "5e8", "an older spelling of allgather_bucket_size"),
    SECTION("aio", "reading and writing of what is swapped to disk"),
    SUPPORTED("steps_per_print", INT, steps_per_print, "0", 0, INFINITY, "auto",
              "updates between step=... lines; 0, null, \"auto\" and Infinity: none"),
    SUPPORTED("wall_clock_breakdown", BOOL, wall_clock_breakdown, "false", 0, 0, NULL, "print the time of each phase"),
    SUPPORTED("memory_breakdown", BOOL, memory_breakdown, "false", 0, 0, NULL,
              "print memory before and after each phase: the engine's own, and the process's resident set"),
    SUPPORTED("dump_state", BOOL, dump_state, "false", 0, 0, NULL,
              "print the engine and the configuration as resolved, once"),
    INERT_LIKE("log_level", "\"\"", "progress, warnings and errors are always printed"),
    SECTION("timers", "the throughput timer"),
    SECTION("flops_profiler", "a profile of one step"),
    SECTION("csv_monitor", "one CSV file a metric"),
    SECTION("tensorboard", "event files"),
    SECTION("wandb", "Weights & Biases"),
    SECTION("comet", "Comet"),
    SECTION("comms_logger", "times of collectives"),
    REFUSED("autotuning", OFF, "nothing here searches for settings"),
    INERT_LIKE("vocabulary_size", "0", "the model knows it"),
    SECTION("activation_checkpointing", "tunes recomputation, which cspeed.recompute switches on"),
    SECTION("checkpoint", "tags"),
    REFUSED("nebula", OFF, "checkpoints are written to directories, not to Azure"),
    REFUSED("datastates_ckpt", "false", "checkpoints have one writer, ours"),
    SECTION("elasticity", "batch sizes for many world sizes"),
    SECTION("curriculum_learning", "shorter samples at first"),
    SECTION("data_efficiency", "DeepSpeed's newer place for it"),
    REFUSED("progressive_layer_drop", OFF, "every step runs every layer"),
    REFUSED("eigenvalue", OFF, "quantized training is not built"),
    REFUSED("quantize_training", OFF, "quantized training is not built"),
    REFUSED("compression_training", "{}", "nothing is pruned or quantized in training"),
    SECTION("pipeline", "layers over ranks"),
    REFUSED_UNLESS("tensor_parallel", "{}", "{\"autotp_size\": 0}|{\"autotp_size\": 1}",
                   "no layer is split over ranks"),
    REFUSED("expert_parallel", OFF, "there are no experts to spread over ranks"),
    REFUSED("hybrid_engine", OFF, "it is for generation inside PyTorch training"),
    REFUSED_UNLESS("compile", "{}", "{\"deepcompile\": false}", "it is PyTorch's compiler, and no PyTorch runs here"),
    REFUSED("sparse_attention", "null", "attention is dense and causal"),
    REFUSED("weight_quantization", OFF, "it is for inference"),
    SECTION("cspeed", "what DeepSpeed's file has no word for; DeepSpeed ignores it"),
    REFUSED("max_grad_norm", "null", "its name in this file is gradient_clipping"),
    REFUSED("offload_optimizer", "null", "its place is in zero_optimization"),
    REFUSED("offload_param", "null", "its place is in zero_optimization"),
    REFUSED("msamp", OFF, "MS-AMP's FP8 needs PyTorch"),
    INERT("comment", "null", "a remark"),
    INERT_LIKE("zero3_init_flag", "true", "it is Accelerate's, and no rank ever holds the whole model here"),
    INERT_LIKE("zero3_save_16bit_model", "true",
               "it is Accelerate's; a checkpoint is sharded, and exported without gathering"),
    INERT_LIKE("disable_fused_adam", "true", UNREAD ", and there is one implementation of each optimizer"),
    INERT("backend", "null", UNREAD "; cspeed.comm chooses how ranks talk"),
    INERT("communication", "null", UNREAD),
    INERT("comms_config", "null", UNREAD "; comms_logger is there"),
    INERT("distributed", "null", UNREAD),
    INERT("log", "null", UNREAD),
    INERT("logging", "null", UNREAD),
    INERT("monitor_config", "null", UNREAD "; csv_monitor and tensorboard stand at the top level"),
    INERT("monitoring", "null", UNREAD "; csv_monitor and tensorboard stand at the top level"),
    INERT("checkpointing", "null", UNREAD "; cspeed.save_interval and cspeed.keep_last are there"),
    INERT("memory_optimization", "null", UNREAD),
};

#define NO_SWAP "nothing is swapped to disk"

static const cs_key aio[] = {
    SIZE("block_size", "1048576", NO_SWAP),     SIZE("queue_depth", "8", NO_SWAP),
    SIZE("intra_op_parallelism", "1", NO_SWAP), INERT("single_submit", "false", NO_SWAP),
    INERT("overlap_events", "true", NO_SWAP),   INERT("use_gds", "false", NO_SWAP),
    INERT_LIKE("thread_count", "1", UNREAD),
};

static const cs_key pipeline[] = {
    REFUSED_UNLESS("stages", "\"auto\"", "1", "every rank runs every layer: there are no pipeline stages"),
    REFUSED_UNLESS("pipeline_parallel_size", "null", "1", "every rank runs every layer: there are no pipeline stages"),
    INERT("partition", "\"best\"", PIPELINE),
    INERT("seed_layers", "false", PIPELINE),
    INERT("activation_checkpoint_interval", "0", PIPELINE "; cspeed.recompute is there"),
    INERT("activation_checkpointing", "null", UNREAD),
    INERT("pipe_partitioned", "true", PIPELINE),
    INERT("grad_partitioned", "true", PIPELINE),
    INERT("use_reentrant", "true", PIPELINE),
};
static const cs_key activation_checkpointing[] = {
    INERT("partition_activations", "false", "it splits over tensor-parallel ranks, and there are none"),
    INERT("cpu_checkpointing", "false", "a unit's input stays on the device that computes"),
    INERT("contiguous_memory_optimization", "false", "the stash is one piece of memory anyway"),
    INERT_LIKE("number_checkpoints", "0", "cspeed.recompute keeps one input a unit"),
    INERT("synchronize_checkpoint_boundary", "false", "the order of a stream is enough"),
    INERT("profile", "false", "wall_clock_breakdown prints times"),
};

static const cs_key checkpoint[] = {
    SUPPORTED("tag_validation", CHOICE, tag_validation, "\"Warn\"", 0, 0, "Ignore|Warn|Fail",
              "when ranks name different tags"),
    INERT("load_universal", "false", "every checkpoint holds names and ranges, so none has to be converted"),
    SUPPORTED("use_node_local_storage", BOOL, written.node_storage, "false", 0, 0, NULL,
              "each node keeps its own part; on one node that is all of it, on several it is refused"),
    SECTION("parallel_write", "of pipeline stages"),
    INERT("checkpoint_serialization", "true", "the format is safetensors"),
    REFUSED("writer", "null", "the writer's keys are under cspeed.checkpoint"),
};

static const cs_key parallel_write[] = { INERT("pipeline_stage", "false", "all ranks write in parallel, always") };

static const cs_section sections[] = {
    { "aio", CS_KEYS(aio) },
    { "pipeline", CS_KEYS(pipeline) },
    { "activation_checkpointing", CS_KEYS(activation_checkpointing) },
    { "checkpoint", CS_KEYS(checkpoint) },
    { "checkpoint.parallel_write", CS_KEYS(parallel_write) },
};
static const cs_section root[] = { { "", CS_KEYS(top) } };

static const int one = 1, here = sizeof sections / sizeof *sections;

static const struct {
    const cs_section *sections;
    const int *count;
} topics[] = {
    { root, &one },
    { cs_batches_sections, &cs_batches_section_count },
    { cs_formats_sections, &cs_formats_section_count },
    { cs_sharding_sections, &cs_sharding_section_count },
    { cs_monitors_sections, &cs_monitors_section_count },
    { cs_courses_sections, &cs_courses_section_count },
    { sections, &here },
    { cs_ours_sections, &cs_ours_section_count },
};

const cs_section *cs_sections_at(int index)
{
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
        if (index < *topics[i].count)
            return &topics[i].sections[index];
        index -= *topics[i].count;
    }
    return NULL;
}

const cs_section *cs_sections_find(const char *path, size_t length)
{
    const cs_section *section;
    for (int i = 0; (section = cs_sections_at(i)); i++)
        if (strlen(section->path) == length && memcmp(section->path, path, length) == 0)
            return section;
    return NULL;
}
