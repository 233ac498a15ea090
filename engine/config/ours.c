/* ours.c - the key tables of the "cspeed" section, what DeepSpeed's file has no word for. */
#include "config/rows.h"

static const cs_key cspeed[] = {
    SUPPORTED("model", JSON, written.model, "null", 0, 0, NULL,
              "a folder with Hugging Face's config.json, or an object with its keys"),
    SECTION("data", "what is learnt from"),
    SUPPORTED(
        "param_groups", JSON, written.param_groups, "null", 0, 0, NULL,
        "[{\"params\": \"*.wte.weight\", \"lr\": 1e-4, ...}, ...]: parameters whose name matches a pattern, or one of "
        "a "
        "list, have their own values of optimizer.params; the first that matches counts; a weight_decay given here "
        "falls on vectors too"),
    SUPPORTED("steps", INT, steps, "2000", 0, MOST, NULL, "updates of the whole training"),
    SUPPORTED("fit_seconds", NUMBER, fit_seconds, "0", 0, MOST, NULL,
              "take fewer steps where they would last longer than this; 0: never"),
    SUPPORTED("epochs", INT, epochs, "0", 0, MOST, NULL, "instead of steps: passes over the data"),
    SUPPORTED("seed", INT, seed, "1234", 0, 9.2e18, NULL,
              "of first values, window order and dropout; rank 0's, where ranks have different ones"),
    SUPPORTED("output", STRING, output, "null", 0, 0, NULL,
              "folder of checkpoints and metrics; null: runs/ and the name of the file, less .json"),
    SUPPORTED("load", STRING, load, "null", 0, 0, NULL,
              "folder of checkpoints to start from; null: continue from output if it holds one"),
    SUPPORTED("tag", STRING, tag, "null", 0, 0, NULL,
              "checkpoint of load to start from, or of output to go back to; null: the latest"),
    SUPPORTED("save_interval", INT, save_interval, "200", 0, MOST, NULL,
              "updates between checkpoints; 0: only at the end"),
    SUPPORTED("keep_last", INT, keep_last, "3", 0, MOST, NULL,
              "checkpoints to keep of those that the latest continues; 0: all"),
    SUPPORTED("keep_every", INT, keep_every, "0", 0, MOST, NULL,
              "never remove checkpoints of steps that are multiples of this; 0: no such"),
    SUPPORTED("nan_patience", INT, nan_patience, "10", 0, MOST, NULL,
              "steps in a row whose loss or gradients are not finite, after which the run ends with exit code 1 and is "
              "not restarted; steps whose gradients alone overflow under a dynamic loss scale do not count; 0: never"),
    SUPPORTED("async_save", BOOL, async_save, "false", 0, 0, NULL,
              "training goes on while a checkpoint is written, from a copy of the state that it costs in memory"),
    SUPPORTED("eval_interval", INT, eval_interval, "200", 0, MOST, NULL,
              "updates between evaluations; 0: only at the end"),
    SUPPORTED("eval_batches", INT, eval_batches, "50", 0, MOST, NULL,
              "micro-batches of an evaluation, over all ranks; 0: all of data.valid"),
    SECTION("checkpoint", "how checkpoints are written and read"),
    SUPPORTED("export", STRING, export_folder, "null", 0, 0, NULL,
              "Hugging Face folder to write when training is finished; null: none"),
    SUPPORTED("export_dtype", CHOICE, export_dtype, "\"auto\"", 0, 0, "auto|fp32|bf16|fp16",
              "of the weights in it; auto: what the training computed in"),
    SUPPORTED("metrics", STRING, metrics, "metrics.jsonl", 0, 0, NULL,
              "file of one object an update, relative to output; null: none"),
    SUPPORTED("device", CHOICE, device, "\"auto\"", 0, 0, "auto|cpu|cuda", "what computes"),
    SUPPORTED("bf16_products", CHOICE, bf16_products, "\"auto\"", 0, 0, "auto|native|fp32",
              "a CPU multiplies bf16 matrices as bf16 (native) or as fp32 copies; auto: as rank 0 measures it faster"),
    SUPPORTED("tf32", BOOL, tf32, "false", 0, 0, NULL,
              "a GPU's fp32 products on tensor cores, factors rounded to 10 bits of mantissa; a CPU's stay fp32"),
    SUPPORTED("cuda_graphs", BOOL, cuda_graphs, "false", 0, 0, NULL,
              "a GPU is given forward and backward of a micro-batch as one launch each, where ranks talk by nccl"),
    SUPPORTED("threads", INT, threads, "0", 0, 4096, "auto",
              "of a rank; 0 and \"auto\": the cores bound to it; OMP_NUM_THREADS wins"),
    SUPPORTED("comm", CHOICE, written.comm, "\"auto\"", 0, 0, "auto|self|shm|tcp|mpi|nccl",
              "how ranks talk; auto: GPUs by nccl where each rank has one of its own; mpi is not built"),
    SUPPORTED("recompute", CHOICE, recompute, "\"none\"", 0, 0, "none|unit",
              "unit: keep a unit's input alone and compute the rest again"),
    SUPPORTED("prefetch", INT, prefetch, "1", 0, 64, NULL, "units gathered ahead at stage 3"),
    REFUSED("mode", "\"zero\"", NOT_YET "; \"zero\" is there, and its stage 0 is data parallelism"),
    REFUSED("strict", "false", NOT_YET),
};

static const cs_key cspeed_data[] = {
    SUPPORTED("train", JSON, written.train, "null", 0, 0, NULL,
              "file name or pattern of token shards, or of texts (.jsonl, .txt) or a folder of texts, which are made "
              "into token shards first; or a list of such"),
    SUPPORTED("valid", JSON, written.valid, "null", 0, 0, NULL, "the same, for evaluation"),
    SUPPORTED("seq_len", INT, seq_len, "256", 1, 0x1p30, NULL, "tokens of a window"),
    SUPPORTED("shuffle", BOOL, shuffle, "true", 0, 0, NULL,
              "another permutation of the windows each epoch; false: file order"),
    SUPPORTED("weights", JSON, written.weights, "null", 0, 0, NULL,
              "a number for each name of \"train\": its share of an epoch, which is shuffled; null: all windows once"),
    SUPPORTED("packing", CHOICE, packing, "\"windows\"", 0, 0, "windows|documents",
              "what attention sees of a window: all of it, or of its documents each its own, as if it stood alone"),
    SUPPORTED("tokenizer", STRING, tokenizer, "null", 0, 0, NULL,
              "folder or tokenizer.json that texts are read with; null: the model's folder, or a token a byte where "
              "the model is no folder"),
    SUPPORTED("field", STRING, field, "text", 0, 0, NULL, "key of a document's text in a line of JSON"),
    SUPPORTED("template", STRING, template, "null", 0, 0, NULL,
              "lines of JSON are conversations, written as this template has them, and only answers are learnt: auto "
              "(the tokenizer's, where it is known to be one of these), chatml, chatml-bos, qwen2, qwen2.5, smollm2, "
              "llama3, llama3.1, llama2, mistral, mistral-v7, zephyr or plain; null: documents"),
    SUPPORTED(
        "skip_bad", INT, skip_bad, "0", 0, MOST, NULL,
        "lines of JSON that may be left out of a name's texts because something is wrong with them, each named in "
        "a warning; one more ends the run"),
    SUPPORTED("cache", STRING, cache, "null", 0, 0, NULL,
              "folder that keeps the tokens of texts for later runs; null: output's name and .tokens"),
};

static const cs_key cspeed_checkpoint[] = {
    SUPPORTED("writer_threads", INT, writer_threads, "2", 1, 64, NULL, "files that a rank writes at the same time"),
    SUPPORTED("io_buffer_size", INT, io_buffer_size, "16777216", 4096, 0x1p30, NULL,
              "bytes of one write; a multiple of 4096"),
    SUPPORTED("direct", BOOL, direct, "true", 0, 0, NULL, "write past the page cache where the file system allows"),
    SUPPORTED(
        "on_bad_latest", CHOICE, on_bad_latest, "\"fallback\"", 0, 0, "fallback|fail",
        "when latest is missing or damaged: load the newest whole one that it continues, with a warning, or fail"),
    SUPPORTED("verify_on_load", CHOICE, verify_on_load, "\"touched\"", 0, 0, "touched|full|off",
              "checksums to hold data to: of what this run reads, of all files first, or none (headers always)"),
};

const cs_section cs_ours_sections[] = {
    { "cspeed", CS_KEYS(cspeed) },
    { "cspeed.data", CS_KEYS(cspeed_data) },
    { "cspeed.checkpoint", CS_KEYS(cspeed_checkpoint) },
};
const int cs_ours_section_count = sizeof cs_ours_sections / sizeof *cs_ours_sections;
