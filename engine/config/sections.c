/* sections.c - the key tables of the top level and of checkpoints, and the list of all tables. Each row says whether a
 * key is supported, inert or refused, and why. */
#include "config/resolve.h"
#include "config/rows.h"

#include <string.h>

#define UNREAD "DeepSpeed does not use this key either"

static const ce_key top[] = {
    SUPPORTED(
        "train_batch_size", INT, train_batch_size, "null", 1, MAX_EXACT, "auto",
        "samples (sequences) in one update over all ranks = micro-batch x accumulation steps x ranks / cspeed.mesh.tp; if absent, derived from the others"),
    SUPPORTED(
        "train_micro_batch_size_per_gpu", INT, micro_batch, "null", 1, MAX_EXACT, "auto",
        "samples of one rank in one forward and backward; if absent, derived from the other batch sizes. Lower it if memory is short"),
    SUPPORTED(
        "gradient_accumulation_steps", INT, accumulation, "null", 1, MAX_EXACT, "auto",
        "number of micro-batches whose gradients are summed before one update; if absent, derived from the other batch sizes, or 1"),
    REFUSED_UNLESS("managed_gradient_accumulation", "true", "1",
                   "the engine itself counts micro-batches and determines when to update"),
    INERT("dataloader_drop_last", "false",
          "there is no incomplete last batch: the samples of the next epoch follow in the same batch"),
    REFUSED("data_parallel_size", "null", "it follows from the world size and cspeed.mesh.tp"),
    REFUSED("sequence_parallel_size", "1", NO_CONTEXT),
    SECTION("optimizer",
            "the optimizer; if absent, AdamW with its defaults, or with those of Hugging Face's Trainer if "
            "some value of the file is \"auto\""),
    INERT("zero_allow_untested_optimizer", "false", "all optimizers of cspeed work at every ZeRO stage"),
    INERT("zero_force_ds_cpu_optimizer", "true", "cspeed has one implementation of each optimizer, for CPU and GPU"),
    SUPPORTED(
        "gradient_clipping", NUMBER, gradient_clipping, "1.0", 0, INFINITY, "auto",
        "maximum global L2 norm of the gradients, which are scaled down if it is larger; 0: no clipping; \"auto\": 1.0"),
    SECTION("scheduler",
            "the learning-rate schedule; if absent, a constant rate, or a linear decay to 0 if some value of "
            "the file is \"auto\"; null: a constant rate"),
    SECTION("fp16", "mixed precision in fp16: fp32 master weights and loss scaling"),
    SECTION("bf16", "mixed precision in bf16: fp32 master weights, no loss scaling"),
    SECTION("bfloat16", "older spelling of \"bf16\"; if both are given, \"bf16\" takes precedence"),
    SECTION("data_types", "data types of parameters and of the accumulation of gradients"),
    SECTION("amp", "mixed precision by Apex's levels O0 to O3"),
    SECTION("torch_autocast", "as torch.autocast: matrix products in 16 bits, parameters in fp32"),
    SUPPORTED(
        "communication_data_type", STRING, communication_dtype, "null", 0, 0, "auto",
        "data type in which ranks send gradients: fp32, bf16 or fp16 (sums are fp32); null: the type in which gradients accumulate"),
    INERT("seq_parallel_communication_data_type", "\"fp32\"", NO_CONTEXT),
    SUPPORTED(
        "prescale_gradients", BOOL, prescale_gradients, "false", 0, 0, NULL,
        "true: divide gradients by the world size / cspeed.mesh.tp before they are summed over ranks (against overflow in 16 bits); false: afterwards"),
    SUPPORTED(
        "gradient_predivide_factor", NUMBER, predivide_factor, "1.0", 0, INFINITY, NULL,
        "divide gradients by this factor before they are summed over ranks, and by the rest of the divisor afterwards"),
    SUPPORTED("gradient_allreduce_op", CHOICE, gradient_op, "\"mean\"", 0, 0, "mean|sum",
              "how gradients are reduced over ranks; sum: they are not divided by the world size"),
    REFUSED("sparse_gradients", "false", "gradients of embeddings are always dense"),
    INERT("disable_allgather", "false", UNREAD),
    REFUSED("use_data_before_expert_parallelism", "false", NO_EXPERT_AXIS),
    INERT("graph_harvesting", "false", "it is for PyTorch's CUDA graphs; cspeed has cspeed.cuda_graphs"),
    INERT("disable_python_gc", "false", "cspeed runs no Python, which has a garbage collector"),
    SECTION(
        "zero_optimization",
        "ZeRO: sharding of optimizer state, gradients and parameters; true and false are the old spelling of stages 1 and 0"),
    SIZE("allgather_size", "5e8", "older spelling of allgather_bucket_size"),
    SECTION("aio", "asynchronous file access for ZeRO-Infinity, which cspeed does not have"),
    SUPPORTED("steps_per_print", INT, steps_per_print, "0", 0, INFINITY, "auto",
              "print DeepSpeed's line \"step=...\" every so many updates; 0, null, \"auto\" and Infinity: never"),
    SUPPORTED("wall_clock_breakdown", BOOL, wall_clock_breakdown, "false", 0, 0, NULL,
              "print the time of forward, backward, gradient reduction and update; use it to find what is slow"),
    SUPPORTED("memory_breakdown", BOOL, memory_breakdown, "false", 0, 0, NULL,
              "print the engine's memory and the resident memory of the process before and after each phase of a step"),
    SUPPORTED("dump_state", BOOL, dump_state, "false", 0, 0, NULL,
              "print the engine's sizes and the resolved configuration once at the start"),
    INERT_LIKE("log_level", "\"\"", "cspeed has no log levels: progress, warnings and errors are always printed"),
    SECTION("timers", "timer of the throughput in samples per second"),
    SECTION("flops_profiler", "profile of one step: time and floating-point operations of each layer"),
    SECTION("csv_monitor", "writes each metric to a CSV file"),
    SECTION("tensorboard", "writes metrics to TensorBoard's event files"),
    SECTION("wandb", "Weights & Biases, which is not supported"),
    SECTION("comet", "Comet, which is not supported"),
    SECTION("comms_logger", "prints the time and size of each kind of collective"),
    REFUSED("autotuning", OFF, "cspeed does not search for the best settings"),
    INERT_LIKE("vocabulary_size", "0", "the vocabulary size is read from the model"),
    SECTION("activation_checkpointing", "options of activation checkpointing, which cspeed.recompute turns on"),
    SECTION("checkpoint", "DeepSpeed's options of checkpoints"),
    REFUSED("nebula", OFF, "checkpoints are written to folders, not to Azure Nebula"),
    REFUSED("datastates_ckpt", "false",
            "cspeed has its own checkpoint writer; cspeed.async_save saves in the background"),
    SECTION("elasticity", "elastic training: chooses a batch size that works with many numbers of ranks"),
    SECTION("curriculum_learning", "curriculum learning: shorter samples in the first steps"),
    SECTION("data_efficiency", "DeepSpeed's newer section for curriculum learning"),
    REFUSED("progressive_layer_drop", OFF, "layers are never dropped: every step runs every layer"),
    REFUSED("eigenvalue", OFF, "quantized training is not implemented"),
    REFUSED("quantize_training", OFF, "quantized training is not implemented"),
    REFUSED("compression_training", "{}", "pruning and quantization in training are not implemented"),
    SECTION("pipeline", "DeepSpeed's pipeline parallelism, which is not supported"),
    SECTION("tensor_parallel", "DeepSpeed's tensor parallelism (AutoTP)"),
    SECTION("parallelism_config",
            "Accelerate's names of the mesh; also with the prefix parallelism_config_ and outside the section"),
    SECTION("parallelism", "torchtitan's names of the mesh"),
    REFUSED("sequence_parallel", OFF, NO_CONTEXT),
    REFUSED("expert_parallel", OFF, NO_EXPERT_AXIS),
    REFUSED("hybrid_engine", OFF, "it is for generation inside training (RLHF), which is not implemented"),
    REFUSED_UNLESS("compile", "{}", "{\"deepcompile\": false}",
                   "it is PyTorch's compiler, and cspeed does not use PyTorch"),
    REFUSED("sparse_attention", "null", "attention is dense and causal"),
    REFUSED("weight_quantization", OFF, "it is for DeepSpeed's inference, not for training"),
    SECTION("cspeed", "settings for which DeepSpeed has no key; DeepSpeed ignores this section"),
    REFUSED("max_grad_norm", "null", "its name is gradient_clipping"),
    REFUSED("offload_optimizer", "null", "its place is inside the section zero_optimization"),
    REFUSED("offload_param", "null", "its place is inside the section zero_optimization"),
    REFUSED("msamp", OFF, "MS-AMP's FP8 needs PyTorch"),
    INERT("comment", "null", "a comment for readers of the file"),
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

#define NO_SWAP "it is for offload to NVMe, which cspeed does not have"

static const ce_key aio[] = {
    SIZE("block_size", "1048576", NO_SWAP),     SIZE("queue_depth", "8", NO_SWAP),
    SIZE("intra_op_parallelism", "1", NO_SWAP), INERT("single_submit", "false", NO_SWAP),
    INERT("overlap_events", "true", NO_SWAP),   INERT("use_gds", "false", NO_SWAP),
    INERT_LIKE("thread_count", "1", UNREAD),
};

static const ce_key pipeline[] = {
    REFUSED_UNLESS("stages", "\"auto\"", "1", NO_PIPELINE),
    REFUSED_UNLESS("pipeline_parallel_size", "null", "1", NO_PIPELINE),
    INERT("partition", "\"best\"", OF_PIPELINE),
    INERT("seed_layers", "false", OF_PIPELINE),
    INERT("activation_checkpoint_interval", "0", OF_PIPELINE "; use cspeed.recompute"),
    INERT("activation_checkpointing", "null", UNREAD),
    INERT("pipe_partitioned", "true", OF_PIPELINE),
    INERT("grad_partitioned", "true", OF_PIPELINE),
    INERT("use_reentrant", "true", OF_PIPELINE),
};
static const ce_key activation_checkpointing[] = {
    INERT("partition_activations", "false",
          "each rank of a tensor-parallel group keeps whole activations; cspeed.recompute saves more memory"),
    REFUSED("cpu_checkpointing", "false", "saved activations stay in the memory of the device that computes"),
    INERT("contiguous_memory_optimization", "false", "saved activations are always in one block of memory"),
    INERT_LIKE("number_checkpoints", "0", "with cspeed.recompute the input of each layer is kept"),
    INERT("synchronize_checkpoint_boundary", "false",
          "cspeed needs no synchronization here, because operations run in order in one stream"),
    INERT("profile", "false", "use wall_clock_breakdown, which prints times"),
};

static const ce_key checkpoint[] = {
    SUPPORTED("tag_validation", CHOICE, tag_validation, "\"Warn\"", 0, 0, "Ignore|Warn|Fail",
              "what to do if ranks save under different tags: nothing, warn, or end with an error"),
    INERT("load_universal", "false",
          "every checkpoint loads at any number of ranks and any ZeRO stage, without conversion"),
    SUPPORTED(
        "use_node_local_storage", BOOL, node_storage, "false", 0, 0, NULL,
        "write checkpoints to local disks of the nodes; accepted on one node, where it changes nothing, and refused on several"),
    SECTION("parallel_write", "parallel writing of checkpoints"),
    INERT("checkpoint_serialization", "true", "checkpoints are always written as safetensors"),
    REFUSED("writer", "null", "the options of the writer are in cspeed.checkpoint"),
};

static const ce_key parallel_write[] = { INERT("pipeline_stage", "false", "all ranks always write in parallel") };

static const ce_section root[] = { { "", CE_KEYS(top) } };
static const ce_section others[] = {
    { "aio", CE_KEYS(aio) },
    { "pipeline", CE_KEYS(pipeline) },
    { "activation_checkpointing", CE_KEYS(activation_checkpointing) },
    { "checkpoint", CE_KEYS(checkpoint) },
    { "checkpoint.parallel_write", CE_KEYS(parallel_write) },
};

static const struct {
    const ce_section *sections;
    int count;
} topics[] = {
    { CE_KEYS(root) },
    { CE_KEYS(ce_batches_sections) },
    { CE_KEYS(ce_formats_sections) },
    { CE_KEYS(ce_sharding_sections) },
    { CE_KEYS(ce_monitors_sections) },
    { CE_KEYS(ce_courses_sections) },
    { CE_KEYS(others) },
    { CE_KEYS(ce_mesh_sections) },
    { CE_KEYS(ce_ours_sections) },
    { CE_KEYS(ce_data_sections) },
    { CE_KEYS(ce_lora_sections) },
    { CE_KEYS(ce_quantization_sections) },
    { CE_KEYS(ce_sharding_fsdp_sections) },
    { CE_KEYS(ce_mesh_own_sections) },
    { CE_KEYS(ce_preference_sections) },
    { CE_KEYS(ce_ours_output_sections) },
};

const ce_section *ce_sections_at(int index)
{
    for (size_t i = 0; i < sizeof topics / sizeof *topics; index -= topics[i++].count)
        if (index < topics[i].count)
            return &topics[i].sections[index];
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

const ce_key *ce_sections_key(const char *path, const ce_section **section)
{
    const char *dot = strrchr(path, '.');
    *section = ce_sections_find(path, dot ? (size_t)(dot - path) : 0);
    return *section ? ce_keys_find((*section)->keys, (*section)->count, dot ? dot + 1 : path) : NULL;
}

void ce_sections_resolve(cs_config *config)
{
    static const char path[] = "checkpoint.use_node_local_storage";
    if (config->settings.node_storage && config->world.local_size < config->world.size)
        ce_json_fault(config->doc, path,
                      "not supported: on several nodes, because a checkpoint is one directory that all ranks see");
    else if (config->settings.node_storage)
        ce_json_note(config->doc, path, "it has no effect, because all ranks are on this node");
}
