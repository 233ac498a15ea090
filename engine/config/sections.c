/* sections.c - the key tables of the top level and of checkpoints, and the list of all tables. Each row says whether a
 * key is supported, inert or refused, and why. */
#include "config/rows.h"

#include <string.h>

#define UNREAD "DeepSpeed does not read this key either"
#define PIPELINE "it is for DeepSpeed's PipelineModule; here every rank runs every layer"

static const ce_key top[] = {
    SUPPORTED("train_batch_size", INT, train_batch_size, "null", 1, MAX_EXACT, "auto",
              "number of samples in one update over all ranks; derived from the other batch sizes if absent"),
    SUPPORTED(
        "train_micro_batch_size_per_gpu", INT, micro_batch, "null", 1, MAX_EXACT, "auto",
        "number of samples of one rank in one forward and backward; derived from the other batch sizes if absent"),
    SUPPORTED("gradient_accumulation_steps", INT, accumulation, "null", 1, MAX_EXACT, "auto",
              "number of micro-batches in one update; if absent, derived from the other batch sizes, or 1"),
    REFUSED_UNLESS("managed_gradient_accumulation", "true", "1",
                   "the engine itself determines the boundary of accumulation"),
    INERT("dataloader_drop_last", "false", "windows follow one another across epochs, so no batch is incomplete"),
    REFUSED("data_parallel_size", "null", "all ranks form one data-parallel group, whose size is the world size"),
    REFUSED("sequence_parallel_size", "1", "sequences are not split over ranks"),
    SECTION("optimizer",
            "the optimizer; if absent, AdamW with its defaults, or with those of Hugging Face's Trainer if "
            "some value of the file is \"auto\""),
    INERT("zero_allow_untested_optimizer", "false", "every optimizer here works at every stage"),
    INERT("zero_force_ds_cpu_optimizer", "true", "there is one implementation of each optimizer"),
    SUPPORTED("gradient_clipping", NUMBER, gradient_clipping, "1.0", 0, INFINITY, "auto",
              "maximum global L2 norm of the gradients; 0: no clipping; \"auto\": 1.0"),
    SECTION("scheduler",
            "the learning-rate schedule; if absent, a constant rate, or a linear decay to 0 if some value of "
            "the file is \"auto\"; null: a constant rate"),
    SECTION("fp16", "fp16 parameters, fp32 masters, loss scaling"),
    SECTION("bf16", "bf16 parameters, fp32 masters"),
    SECTION("bfloat16", "older spelling of \"bf16\"; if both are given, \"bf16\" takes precedence"),
    SECTION("data_types", "types of parameters and of gradient accumulation"),
    SECTION("amp", "mixed precision by Apex's levels O0 to O3"),
    SECTION("torch_autocast", "16-bit matrix products on fp32 parameters"),
    SUPPORTED(
        "communication_data_type", STRING, written.wire, "null", 0, 0, "auto",
        "type in which gradients are communicated: fp32, bf16 or fp16; sums are fp32. null: their accumulation type"),
    INERT("seq_parallel_communication_data_type", "\"fp32\"", "sequences are not split over ranks"),
    SUPPORTED(
        "prescale_gradients", BOOL, written.prescale, "false", 0, 0, NULL,
        "divide gradients by the world size before their reduction; false: one factor afterwards divides and clips"),
    SUPPORTED(
        "gradient_predivide_factor", NUMBER, written.predivide, "1.0", 0, INFINITY, NULL,
        "factor by which gradients are divided before their reduction; the rest of the world size divides afterwards"),
    SUPPORTED("gradient_allreduce_op", CHOICE, written.allreduce_op, "\"mean\"", 0, 0, "mean|sum",
              "reduction of gradients over ranks; sum: no division by the world size"),
    REFUSED("sparse_gradients", "false", "the gradient of an embedding is dense"),
    INERT("disable_allgather", "false", UNREAD),
    REFUSED("use_data_before_expert_parallelism", "false", "experts are divided among ranks as all parameters are"),
    INERT("graph_harvesting", "false", "it captures CUDA graphs of PyTorch"),
    INERT("disable_python_gc", "false", "no Python runs here"),
    SECTION("zero_optimization", "sharding (ZeRO); true and false are the old spelling of stages 1 and 0"),
    SIZE("allgather_size", "5e8", "older spelling of allgather_bucket_size"),
    SECTION("aio", "reads and writes of state that is swapped to disk"),
    SUPPORTED("steps_per_print", INT, steps_per_print, "0", 0, INFINITY, "auto",
              "number of updates from one line step=... to the next; 0, null, \"auto\" and Infinity: no lines"),
    SUPPORTED("wall_clock_breakdown", BOOL, wall_clock_breakdown, "false", 0, 0, NULL, "print the time of each phase"),
    SUPPORTED("memory_breakdown", BOOL, memory_breakdown, "false", 0, 0, NULL,
              "print the engine's memory and the process's resident set before and after each phase"),
    SUPPORTED("dump_state", BOOL, dump_state, "false", 0, 0, NULL,
              "print the engine's sizes and the resolved configuration once"),
    INERT_LIKE("log_level", "\"\"", "progress, warnings and errors are always printed"),
    SECTION("timers", "the throughput timer"),
    SECTION("flops_profiler", "a profile of one step"),
    SECTION("csv_monitor", "CSV files, one for each metric"),
    SECTION("tensorboard", "TensorBoard event files"),
    SECTION("wandb", "Weights & Biases"),
    SECTION("comet", "Comet"),
    SECTION("comms_logger", "statistics of collectives"),
    REFUSED("autotuning", OFF, "cspeed does not search for settings"),
    INERT_LIKE("vocabulary_size", "0", "the vocabulary size is read from the model"),
    SECTION("activation_checkpointing", "options of recomputation, which cspeed.recompute enables"),
    SECTION("checkpoint", "options of checkpoints"),
    REFUSED("nebula", OFF, "checkpoints are written to directories, not to Azure"),
    REFUSED("datastates_ckpt", "false", "cspeed has one checkpoint writer, its own"),
    SECTION("elasticity", "batch sizes that fit many world sizes"),
    SECTION("curriculum_learning", "curriculum learning: shorter samples in the first steps"),
    SECTION("data_efficiency", "DeepSpeed's newer section for curriculum learning"),
    REFUSED("progressive_layer_drop", OFF, "every step runs every layer"),
    REFUSED("eigenvalue", OFF, "quantized training is not implemented"),
    REFUSED("quantize_training", OFF, "quantized training is not implemented"),
    REFUSED("compression_training", "{}", "nothing is pruned or quantized in training"),
    SECTION("pipeline", "pipeline parallelism: layers distributed over ranks"),
    REFUSED_UNLESS("tensor_parallel", "{}", "{\"autotp_size\": 0}|{\"autotp_size\": 1}",
                   "no layer is split over ranks"),
    REFUSED("expert_parallel", OFF, "experts are divided among ranks as all parameters are"),
    REFUSED("hybrid_engine", OFF, "it is for generation inside PyTorch training"),
    REFUSED_UNLESS("compile", "{}", "{\"deepcompile\": false}",
                   "it is PyTorch's compiler, and cspeed does not use PyTorch"),
    REFUSED("sparse_attention", "null", "attention is dense and causal"),
    REFUSED("weight_quantization", OFF, "it is for inference"),
    SECTION("cspeed", "settings for which DeepSpeed has no key; DeepSpeed ignores this section"),
    REFUSED("max_grad_norm", "null", "DeepSpeed's name for it is gradient_clipping"),
    REFUSED("offload_optimizer", "null", "it belongs in zero_optimization"),
    REFUSED("offload_param", "null", "it belongs in zero_optimization"),
    REFUSED("msamp", OFF, "MS-AMP's FP8 needs PyTorch"),
    INERT("comment", "null", "a comment for readers"),
    INERT_LIKE("zero3_init_flag", "true", "it is a key of Accelerate, and no rank ever holds the whole model"),
    INERT_LIKE("zero3_save_16bit_model", "true",
               "it is a key of Accelerate; a checkpoint is sharded, and `cspeed export` reads it without gathering"),
    INERT_LIKE("disable_fused_adam", "true", UNREAD ", and there is one implementation of each optimizer"),
    INERT("backend", "null", UNREAD "; cspeed.comm selects the transport"),
    INERT("communication", "null", UNREAD),
    INERT("comms_config", "null", UNREAD "; use comms_logger"),
    INERT("distributed", "null", UNREAD),
    INERT("log", "null", UNREAD),
    INERT("logging", "null", UNREAD),
    INERT("monitor_config", "null", UNREAD "; use csv_monitor and tensorboard at the top level"),
    INERT("monitoring", "null", UNREAD "; use csv_monitor and tensorboard at the top level"),
    INERT("checkpointing", "null", UNREAD "; use cspeed.save_interval and cspeed.keep_last"),
    INERT("memory_optimization", "null", UNREAD),
};

#define NO_SWAP "nothing is swapped to disk"

static const ce_key aio[] = {
    SIZE("block_size", "1048576", NO_SWAP),     SIZE("queue_depth", "8", NO_SWAP),
    SIZE("intra_op_parallelism", "1", NO_SWAP), INERT("single_submit", "false", NO_SWAP),
    INERT("overlap_events", "true", NO_SWAP),   INERT("use_gds", "false", NO_SWAP),
    INERT_LIKE("thread_count", "1", UNREAD),
};

static const ce_key pipeline[] = {
    REFUSED_UNLESS("stages", "\"auto\"", "1", "every rank runs every layer: there are no pipeline stages"),
    REFUSED_UNLESS("pipeline_parallel_size", "null", "1", "every rank runs every layer: there are no pipeline stages"),
    INERT("partition", "\"best\"", PIPELINE),
    INERT("seed_layers", "false", PIPELINE),
    INERT("activation_checkpoint_interval", "0", PIPELINE "; use cspeed.recompute"),
    INERT("activation_checkpointing", "null", UNREAD),
    INERT("pipe_partitioned", "true", PIPELINE),
    INERT("grad_partitioned", "true", PIPELINE),
    INERT("use_reentrant", "true", PIPELINE),
};
static const ce_key activation_checkpointing[] = {
    INERT("partition_activations", "false", "it splits activations over tensor-parallel ranks, and there are none"),
    REFUSED("cpu_checkpointing", "false", "the inputs of units stay in the device's memory"),
    INERT("contiguous_memory_optimization", "false", "all saved tensors are in one block of memory"),
    INERT_LIKE("number_checkpoints", "0", "cspeed.recompute keeps one input for each unit"),
    INERT("synchronize_checkpoint_boundary", "false", "the order of operations in a stream is sufficient"),
    INERT("profile", "false", "wall_clock_breakdown prints times"),
};

static const ce_key checkpoint[] = {
    SUPPORTED("tag_validation", CHOICE, tag_validation, "\"Warn\"", 0, 0, "Ignore|Warn|Fail",
              "what happens if ranks pass different tags"),
    INERT("load_universal", "false", "every checkpoint loads at any world size, without conversion"),
    SUPPORTED(
        "use_node_local_storage", BOOL, written.node_storage, "false", 0, 0, NULL,
        "each node stores its own part; accepted on one node, which then stores all parts; refused on several nodes"),
    SECTION("parallel_write", "parallel writing by pipeline stages"),
    INERT("checkpoint_serialization", "true", "the format is safetensors"),
    REFUSED("writer", "null", "the writer's keys are under cspeed.checkpoint"),
};

static const ce_key parallel_write[] = { INERT("pipeline_stage", "false", "all ranks always write in parallel") };

static const ce_section sections[] = {
    { "aio", CS_KEYS(aio) },
    { "pipeline", CS_KEYS(pipeline) },
    { "activation_checkpointing", CS_KEYS(activation_checkpointing) },
    { "checkpoint", CS_KEYS(checkpoint) },
    { "checkpoint.parallel_write", CS_KEYS(parallel_write) },
};
static const ce_section root[] = { { "", CS_KEYS(top) } };

static const int one = 1, here = sizeof sections / sizeof *sections;

static const struct {
    const ce_section *sections;
    const int *count;
} topics[] = {
    { root, &one },
    { ce_batches_sections, &ce_batches_section_count },
    { ce_formats_sections, &ce_formats_section_count },
    { ce_sharding_sections, &ce_sharding_section_count },
    { ce_monitors_sections, &ce_monitors_section_count },
    { ce_courses_sections, &ce_courses_section_count },
    { sections, &here },
    { ce_ours_sections, &ce_ours_section_count },
};

const ce_section *ce_sections_at(int index)
{
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++) {
        if (index < *topics[i].count)
            return &topics[i].sections[index];
        index -= *topics[i].count;
    }
    return NULL;
}

const ce_section *ce_sections_find(const char *path, size_t length)
{
    const ce_section *section;
    for (int i = 0; (section = ce_sections_at(i)); i++)
        if (strlen(section->path) == length && memcmp(section->path, path, length) == 0)
            return section;
    return NULL;
}
