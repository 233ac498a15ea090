/* ours.c - the key tables of the section "cspeed": settings that DeepSpeed's file does not have. */
#include "config/rows.h"

static const ce_key cspeed[] = {
    SUPPORTED(
        "model", JSON, written.model, "null", 0, 0, NULL,
        "Hugging Face model folder (config.json and, if it is to be fine-tuned, weights), or an object with the keys of config.json"),
    SECTION("data", "the training and validation data"),
    SUPPORTED(
        "param_groups", JSON, written.param_groups, "null", 0, 0, NULL,
        "[{\"params\": \"*.wte.weight\", \"lr\": 1e-4, ...}, ...]: parameters whose name matches a pattern, or one of a list of patterns, get their own values of optimizer.params; the first group that matches counts; a weight_decay given here applies to vectors too; \"train\": false freezes the group's parameters, which then have no gradient, no master and no optimizer state"),
    SECTION("lora", "LoRA: adapters of low rank are trained, and the model's own parameters are frozen"),
    SECTION("fsdp", "settings by the names of PyTorch's FSDP"),
    SECTION("dpo", "preference training: pairs of a chosen and a rejected answer to the same prompt"),
    SUPPORTED("steps", INT, steps, "2000", 0, MAX_EXACT, NULL, "number of optimizer steps of the whole training"),
    SUPPORTED(
        "fit_seconds", NUMBER, fit_seconds, "0", 0, MAX_EXACT, NULL,
        "time limit in seconds of training, validation and saves: makes fewer steps if they would take longer. Their number is computed at the end of the warm-up, and again at each save unless the learning rate depends on it; 0: no limit"),
    SUPPORTED("epochs", INT, epochs, "0", 0, MAX_EXACT, NULL,
              "number of passes over the training data; give it instead of steps"),
    SUPPORTED(
        "seed", INT, seed, "1234", 0, 9.2e18, NULL,
        "random seed of the initial weights, the order of samples and dropout; if ranks have different seeds, that of rank 0 is used"),
    SUPPORTED("output", STRING, output, "null", 0, 0, NULL,
              "folder for checkpoints and metrics; null: runs/ and the name of this file without .json"),
    SUPPORTED(
        "load", STRING, load, "null", 0, 0, NULL,
        "folder of checkpoints from which to start; null: continue from the latest checkpoint in output, if there is one"),
    SUPPORTED("tag", STRING, tag, "null", 0, 0, NULL,
              "name of the checkpoint in load, or in output, from which to start; null: the latest"),
    SUPPORTED("save_interval", INT, save_interval, "200", 0, MAX_EXACT, NULL,
              "number of updates between checkpoints; 0: only at the end"),
    SUPPORTED(
        "saves_per_epoch", INT, saves_per_epoch, "0", 0, MAX_EXACT, NULL,
        "number of checkpoints in each pass over the data, instead of save_interval; 1: at the end of each pass; 0: save_interval is used"),
    SUPPORTED("keep_last", INT, keep_last, "3", 0, MAX_EXACT, NULL,
              "number of the newest checkpoints to keep; older ones of this training are removed; 0: keep all"),
    SUPPORTED(
        "keep_every", INT, keep_every, "0", 0, MAX_EXACT, NULL,
        "checkpoints of steps that are multiples of this number are never removed by keep_last; 0: keep_last decides alone"),
    SUPPORTED(
        "nan_patience", INT, nan_patience, "10", 0, MAX_EXACT, NULL,
        "after this many steps in a row whose loss or gradients are not finite, or in which no sample has a target or all gradients are zero, the run ends with exit code 1 and is not restarted; steps with a finite loss that a dynamic loss scale skips do not count; 0: never"),
    SUPPORTED(
        "async_save", BOOL, async_save, "false", 0, 0, NULL,
        "true: training continues while a checkpoint is written in the background, from a copy of the state, which needs host memory"),
    SUPPORTED("eval_interval", INT, eval_interval, "200", 0, MAX_EXACT, NULL,
              "number of updates between evaluations on data.valid; 0: only at the end"),
    SUPPORTED("evals_per_epoch", INT, evals_per_epoch, "0", 0, MAX_EXACT, NULL,
              "number of evaluations in each pass over the data, instead of eval_interval; 0: eval_interval is used"),
    SUPPORTED(
        "eval_batches", INT, eval_batches, "50", 0, MAX_EXACT, NULL,
        "number of micro-batches of one evaluation, over all ranks; more gives a less noisy loss; 0: all of data.valid"),
    SUPPORTED(
        "eval_on", CHOICE, eval_on, "\"all\"", 0, 0, "all|rank0",
        "which ranks evaluate; rank0: only rank 0, while the others wait (at stage 3 they take part in gathers): slower, with the same result"),
    SECTION("checkpoint", "how checkpoints are written and read"),
    SECTION("trace", "writes a timeline of some steps of all ranks, for Perfetto"),
    SUPPORTED("export", STRING, export_folder, "null", 0, 0, NULL,
              "Hugging Face model folder to write at the end of training; null: none"),
    SUPPORTED("export_dtype", CHOICE, export_dtype, "\"auto\"", 0, 0, "auto|fp32|bf16|fp16",
              "data type of the exported weights; auto: the type in which the training computes"),
    SUPPORTED("metrics", STRING, metrics, "metrics.jsonl", 0, 0, NULL,
              "file with one JSON object for each optimizer step, relative to output; null: none"),
    SUPPORTED("device", CHOICE, device, "\"auto\"", 0, 0, "auto|cpu|cuda", "the device that computes"),
    SUPPORTED(
        "products", CHOICE, products, "\"auto\"", 0, 0, "auto|fixed|native|sgemm|packed",
        "how a CPU multiplies matrices: by oneDNN's primitives in the type itself (native), by oneDNN's sgemm on fp32 values, by cspeed's own product on fp32 values (packed), or by one of the last two without a measurement (fixed); packed is for CPUs without AVX-512, and refused on others; auto: for each shape what rank 0 measures to be fastest, and after a resume what the checkpoint records"),
    REFUSED("bf16_products", "\"auto\"",
            "its name is cspeed.products now, and its value \"fp32\" is called \"fixed\" there"),
    SUPPORTED(
        "tf32", BOOL, tf32, "false", 0, 0, NULL,
        "true: a GPU computes fp32 matrix products in TF32 on tensor cores (10 bits of mantissa): faster, less exact; no effect on a CPU"),
    SUPPORTED(
        "cuda_graphs", BOOL, cuda_graphs, "false", 0, 0, NULL,
        "true: launch forward and backward of a micro-batch as one CUDA graph each, which avoids the cost of single launches; needs nccl"),
    SUPPORTED(
        "threads", INT, threads, "0", 0, 4096, "auto",
        "number of CPU threads of a rank; 0 and \"auto\": the number of cores to which it is bound; OMP_NUM_THREADS overrides it"),
    SUPPORTED(
        "comm", CHOICE, written.comm, "\"auto\"", 0, 0, "auto|self|shm|tcp|mpi|nccl|gloo|cpu",
        "transport between ranks; auto: nccl for GPUs if each rank has its own; gloo and cpu: shared memory on one host, tcp among several; mpi: ranks that mpirun or srun started"),
    REFUSED("comm_algorithms", "null",
            "each transport chooses the algorithm of a collective by the length of the vector"),
    SUPPORTED(
        "recompute", CHOICE, recompute, "\"none\"", 0, 0, "none|unit",
        "activation checkpointing; unit: save only the input of each layer and compute the rest again in backward: less memory, slower"),
    SUPPORTED(
        "prefetch", INT, prefetch, "1", 0, 64, NULL,
        "stage 3: number of layers that are gathered in advance: more hides communication and needs memory; no effect for CPU ranks of one host"),
    REFUSED("strict", "false", NOT_YET),
};

static const ce_key cspeed_data[] = {
    SUPPORTED(
        "train", JSON, written.train, "null", 0, 0, NULL,
        "a folder that pack made, or a folder of texts, or the name or pattern of token shards or texts (.txt, .jsonl, .json, also .gz and .zst; .parquet, .arrow); or a list of these. Texts are tokenized first"),
    SUPPORTED("valid", JSON, written.valid, "null", 0, 0, NULL,
              "as train, for evaluation; null: valid.bin of the folders in train that pack made; []: no evaluation"),
    SUPPORTED("seq_len", INT, seq_len, "256", 1, 0x1p30, NULL, "length of a training sample in tokens"),
    SUPPORTED("shuffle", BOOL, shuffle, "true", 0, 0, NULL,
              "true: read samples in a new random order in each epoch; false: in the order of the files"),
    SUPPORTED(
        "weights", JSON, written.weights, "null", 0, 0, NULL,
        "list with a number for each entry of \"train\": its share of the samples of an epoch; needs shuffle; null: every sample once"),
    SUPPORTED(
        "packing", CHOICE, packing, "\"windows\"", 0, 0, "windows|documents",
        "documents: a window has whole documents, best-fit decreasing (TRL's packing_strategy bfd; with long \"split\": bfd_split), and attention does not cross their borders; windows: a window begins at each multiple of seq_len, and attention crosses the borders of documents (wrapped)"),
    SUPPORTED(
        "long", CHOICE, longer, "\"auto\"", 0, 0, "auto|truncate|split|drop|refuse",
        "with packing \"documents\", what becomes of a training document longer than seq_len: its first seq_len tokens are read (truncate), it is divided into samples of seq_len tokens (split), it is left out (drop), or the run ends (refuse); auto: truncate where only answers are learnt, otherwise split. Validation and eval divide it"),
    SUPPORTED(
        "tokenizer", STRING, tokenizer, "null", 0, 0, NULL,
        "folder, tokenizer.json or tokenizer.model with which texts are tokenized; null: the model's folder, or if the model is not a folder, one token for each byte"),
    SUPPORTED("field", STRING, field, "text", 0, 0, NULL,
              "key of the text in each JSON line, or name of the column in a table"),
    SUPPORTED(
        "columns", JSON, written.columns, "null", 0, 0, NULL,
        "other names for the keys of rows, as {\"prompt\": \"question\", \"completion\": \"answer\"}: messages, conversations, prompt, completion, instruction, input, output, system, tools, documents, chat_template_kwargs, input_ids, labels, attention_mask, completion_mask, assistant_masks; a row that has none of these names is read by its own keys"),
    SUPPORTED(
        "template", STRING, template, "null", 0, 0, NULL,
        "conversations are written in the form of this chat template, and only answers are learnt: auto (the tokenizer's template; auto:NAME: the one of this name), chatml, chatml-bos, qwen2, qwen2.5, smollm2, "
        "llama3, llama3.1, llama2, mistral, mistral-v7, zephyr, plain, or a file NAME.jinja; null: documents"),
    SUPPORTED(
        "turns", CHOICE, turns, "\"auto\"", 0, 0, "auto|all|last",
        "which samples a conversation becomes: auto: one, or one for each answer if the template writes earlier messages differently when others follow; all: always one for each answer; last: one, of which the last answer is learnt"),
    SUPPORTED(
        "skip_bad", INT, skip_bad, "0", 0, MAX_EXACT, NULL,
        "number of invalid JSON lines that are skipped in each entry, with a warning; one more ends the training with an error"),
    SUPPORTED("cache", STRING, cache, "null", 0, 0, NULL,
              "folder in which the tokens of texts are cached for later runs; null: the name of output with .tokens"),
};

static const ce_key cspeed_lora[] = {
    SUPPORTED("r", INT, lora.r, "0", 0, 65536, NULL,
              "rank of the LoRA adapters (PEFT's r), usually 8 to 64; 0: no LoRA"),
    SUPPORTED("alpha", NUMBER, lora.alpha, "8", 0, INFINITY, NULL,
              "the output of an adapter is multiplied by alpha / r (PEFT's lora_alpha)"),
    SUPPORTED("dropout", NUMBER, lora.dropout, "0", 0, 0.999, NULL,
              "probability of dropout on the input of an adapter (PEFT's lora_dropout)"),
    SUPPORTED(
        "targets", JSON, lora.targets, "null", 0, 0, NULL,
        "the linear layers with adapters (PEFT's target_modules): a list of names such as \"q_proj\", or \"all-linear\"; null: those that PEFT takes for the family"),
    SUPPORTED(
        "rslora", BOOL, lora.rslora, "false", 0, 0, NULL,
        "true: the factor of an adapter is alpha / sqrt(r) instead of alpha / r (PEFT's use_rslora), for large r"),
    SUPPORTED("dora", BOOL, lora.dora, "false", 0, 0, NULL,
              "true: DoRA, which also trains the norm of each weight vector (PEFT's use_dora); needs dropout 0"),
    SUPPORTED("bias", CHOICE, lora.bias, "\"none\"", 0, 0, "none|all|lora_only",
              "which biases of the model are trained too: all, or those of the layers that have adapters"),
    SUPPORTED(
        "adapter", STRING, lora.adapter, "null", 0, 0, NULL,
        "folder of PEFT to start from; r, alpha, rslora, dora, bias and targets are those of its adapter_config.json, and so is dropout if it is not given"),
    SUPPORTED(
        "merge", BOOL, lora.merge, "false", 0, 0, NULL,
        "true: cspeed.export writes the whole model with the adapters added to its weights; false: an adapter folder for PEFT"),
    REFUSED("qlora", "false", "quantized base weights (QLoRA) are not implemented: weights are fp32, bf16 or fp16"),
    REFUSED("modules_to_save", "null", "no module can be trained in full beside the adapters, only biases"),
    REFUSED("init_lora_weights", "true",
            "adapters are always initialized by PEFT's default: A uniform within 1/sqrt(inputs), B zero"),
    REFUSED("rank_pattern", "{}", "all adapters have the same rank"),
    REFUSED("alpha_pattern", "{}", "all adapters have the same alpha"),
    REFUSED("lora_alpha", "null", "its name here is cspeed.lora.alpha"),
    REFUSED("lora_dropout", "null", "its name here is cspeed.lora.dropout"),
    REFUSED("target_modules", "null", "its name here is cspeed.lora.targets"),
    REFUSED("use_rslora", "false", "its name here is cspeed.lora.rslora"),
    REFUSED("use_dora", "false", "its name here is cspeed.lora.dora"),
};

static const ce_key cspeed_fsdp[] = {
    SUPPORTED(
        "sharding_strategy", CHOICE, written.strategy, "\"stage\"", 0, 0,
        "stage|FULL_SHARD|SHARD_GRAD_OP|NO_SHARD|HYBRID_SHARD|_HYBRID_SHARD_ZERO2",
        "PyTorch's name of a stage: FULL_SHARD is 3, SHARD_GRAD_OP 2, NO_SHARD 0; HYBRID_SHARD is 3 and _HYBRID_SHARD_ZERO2 is 2 inside groups of the ranks of a host, or of zero_optimization.mics_shard_size ranks; stage: zero_optimization.stage says it"),
    REFUSED("device_mesh", "null",
            "its name here is zero_optimization.mics_shard_size, the size of the mesh's dimension over which state is "
            "sharded"),
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

static const ce_key cspeed_dpo[] = {
    SUPPORTED(
        "beta", NUMBER, preference.beta, "0", 0, MAX_EXACT, NULL,
        "DPO's beta: how strongly the model is kept near the reference model, usually 0.1; data are rows with prompt, chosen, rejected; 0: no preference training"),
    SUPPORTED("loss_type", CHOICE, preference.kind, "\"sigmoid\"", 0, 0, "sigmoid|hinge|ipo|robust",
              "loss of a pair of answers, by TRL's names; sigmoid is the loss of DPO"),
    SUPPORTED("label_smoothing", NUMBER, preference.smoothing, "0", 0, 0.5, NULL,
              "for robust: share of pairs whose labels are swapped by mistake, below 0.5"),
    SUPPORTED(
        "reference", STRING, reference, "null", 0, 0, NULL,
        "Hugging Face folder or Hub name of the reference model; null: the model with which the training starts (load, or model)"),
};

static const ce_key cspeed_checkpoint[] = {
    SUPPORTED("writer_threads", INT, writer_threads, "2", 1, 64, NULL,
              "number of files that a rank writes at the same time; more can be faster on network storage"),
    SUPPORTED("io_buffer_size", INT, io_buffer_size, "16777216", 4096, 0x1p30, NULL,
              "size of one write in bytes; a multiple of 4096"),
    SUPPORTED("direct", BOOL, direct, "true", 0, 0, NULL,
              "true: write with O_DIRECT, without the page cache, if the file system allows it"),
    SUPPORTED(
        "on_bad_latest", CHOICE, on_bad_latest, "\"fallback\"", 0, 0, "fallback|fail",
        "if the latest checkpoint is missing or damaged: load the newest complete one that it continues, with a warning, or fail"),
    SUPPORTED("verify_on_load", CHOICE, verify_on_load, "\"touched\"", 0, 0, "touched|full|off",
              "checksums to verify: of the data that this run reads, of all files before, or none (headers always)"),
};

static const ce_key cspeed_trace[] = {
    SUPPORTED(
        "file", STRING, trace.file, "null", 0, 0, NULL,
        "file in Chrome's trace format (chrome://tracing, Perfetto) with the computation, communication and copies of all ranks by unit, relative to output; null: none"),
    SUPPORTED("first_step", INT, trace.first_step, "3", 1, MAX_EXACT, NULL,
              "number of the first step to record, counted from 1"),
    SUPPORTED("steps", INT, trace.steps, "1", 1, 1000, NULL, "number of steps to record"),
};

const ce_section ce_ours_sections[] = {
    { "cspeed", CE_KEYS(cspeed) },
    { "cspeed.data", CE_KEYS(cspeed_data) },
    { "cspeed.lora", CE_KEYS(cspeed_lora) },
    { "cspeed.fsdp", CE_KEYS(cspeed_fsdp) },
    { "cspeed.dpo", CE_KEYS(cspeed_dpo) },
    { "cspeed.checkpoint", CE_KEYS(cspeed_checkpoint) },
    { "cspeed.trace", CE_KEYS(cspeed_trace) },
};
const int ce_ours_section_count = sizeof ce_ours_sections / sizeof *ce_ours_sections;
