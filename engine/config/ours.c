/* ours.c - the key tables of the section "cspeed", which has the settings for which DeepSpeed has no key. Larger
 * sections in it have files of their own. */
#include "config/resolve.h"
#include "config/rows.h"
#include "hub/hub.h"

#include <stdio.h>
#include <string.h>

static const ce_key cspeed[] = {
    SUPPORTED(
        "model", JSON, model, "null", 0, 0, NULL,
        "Hugging Face model folder (config.json and, if it is to be fine-tuned, weights), GGUF file, ORG/NAME[@REVISION] of a model on the Hugging Face Hub, or an object with the keys of config.json"),
    SECTION("data", "the training and validation data"),
    SUPPORTED(
        "param_groups", JSON, param_groups, "null", 0, 0, NULL,
        "[{\"params\": \"*.wte.weight\", \"lr\": 1e-4, ...}, ...]: parameters whose name matches a pattern, or one of a list of patterns, get their own values of optimizer.params; the first group that matches counts; a weight_decay given here applies to vectors too; \"train\": false freezes the group's parameters, which then have no gradient, no master and no optimizer state"),
    SECTION("lora", "LoRA: adapters of low rank are trained, and the model's own parameters are frozen"),
    SECTION(
        "quantization_config",
        "QLoRA: the frozen weights of linear layers take 4 bits; the keys are those of Hugging Face's BitsAndBytesConfig"),
    SECTION("mesh", "the device mesh: over which ranks the work is divided"),
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
    SUPPORTED(
        "label_smoothing_factor", NUMBER, label_smoothing, "0", 0, 1, NULL,
        "share of the loss that is the mean over all tokens of the vocabulary instead of the target's, as in Hugging Face's Trainer; below 1; evaluations are without it; 0: none"),
    SUPPORTED(
        "z_loss", NUMBER, z_loss, "0", 0, 1, NULL,
        "factor of log(sum of e^logits)^2 in the loss, which keeps logits small, usually 1e-4; evaluations are without it; 0: none"),
    SUPPORTED(
        "neftune_noise_alpha", NUMBER, neftune_noise_alpha, "0", 0, 1e6, NULL,
        "NEFTune: in training, embeddings get uniform noise of at most this number / sqrt(seq_len x width); usually 5 to 15; 0: none"),
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
        "ema_decay", NUMBER, ema_decay, "0", 0, 1, NULL,
        "keeps an average of the parameters in fp32: after each update, average = ema_decay x average + (1 - ema_decay) x parameter; usually 0.999 or more, below 1; checkpoints have it, and `cspeed export --ema` writes it; 0: none"),
    SUPPORTED(
        "keep_best", BOOL, keep_best, "false", 0, 0, NULL,
        "true: each evaluation on data.valid that is the best so far is followed by a checkpoint, which is not removed before a better one is complete; the export and the sample at the end are of the best checkpoint"),
    SUPPORTED(
        "best_metric", CHOICE, best_metric, "\"loss\"", 0, 0, "loss|rewards/accuracies|rewards/margins",
        "value of an evaluation that decides which is the best: the least loss, or in preference training the greatest of one of the others"),
    SUPPORTED(
        "early_stopping_patience", INT, early_stopping_patience, "0", 0, MAX_EXACT, NULL,
        "the training ends after this many evaluations in a row that are not better than the best one by more than early_stopping_threshold; 0: no early end"),
    SUPPORTED("early_stopping_threshold", NUMBER, early_stopping_threshold, "0", 0, MAX_EXACT, NULL,
              "how much better than the best one an evaluation must be to count for early_stopping_patience"),
    SUPPORTED(
        "nan_patience", INT, nan_patience, "10", 0, MAX_EXACT, NULL,
        "after this many steps in a row whose loss or gradients are not finite, or in which no sample has a target or all gradients are zero, the run ends with exit code 1 and is not restarted; steps with a finite loss that a dynamic loss scale skips do not count; 0: never"),
    SUPPORTED(
        "check", BOOL, check, "false", 0, 0, NULL,
        "true: in every step, checks that each unit of the model writes all of its outputs, and makes the tensors for which memory was measured; slow. The first step of a model that a program defines is always checked"),
    SUPPORTED("loss_watchdog_threshold", NUMBER, loss_watchdog_threshold, "0", 0, 1e30, NULL,
              "a step whose loss is above this number counts for loss_watchdog_patience; 0: the watchdog is off"),
    SUPPORTED(
        "loss_watchdog_patience", INT, loss_watchdog_patience, "3", 1, MAX_EXACT, NULL,
        "after this many steps in a row with a loss above loss_watchdog_threshold, the run ends with exit code 1 and is not restarted"),
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
        "products", CHOICE, products, "\"auto\"", 0, 0, "auto|fixed|native|sgemm|packed|tiles|x6|x3",
        "how a CPU multiplies matrices: by oneDNN's primitives in the type itself (native), by oneDNN's sgemm on fp32 values, by cspeed's own product on fp32 values (packed), or by one of the last two without a measurement (fixed); packed is for CPUs without AVX-512, and refused on others; on the tiles of AMX: bf16 matrices (tiles), fp32 matrices as sums of three bf16 parts (x6) or, less exactly, of two (x3); without AMX the last three are very slow; auto: for each shape what rank 0 measures to be fastest, and after a resume what the checkpoint records"),
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
        "comm", CHOICE, comm, "\"auto\"", 0, 0, "auto|self|shm|tcp|mpi|nccl|gloo|cpu",
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

const ce_section ce_ours_sections[] = { { "cspeed", CE_KEYS(cspeed) } };
const ce_section ce_ours_output_sections[] = {
    { "cspeed.checkpoint", CE_KEYS(cspeed_checkpoint) },
    { "cspeed.trace", CE_KEYS(cspeed_trace) },
};

/* Replaces the name of a model on the Hugging Face Hub by its folder in the cache, and a GGUF file by the folder that
 * describes it. `field` is the value of the key `key` of `section`. */
static void find_folder(cs_config *config, const char *section, const char *key, const char **field)
{
    char folder[CE_HUB_PATH], path[64];
    bool found = false;
    snprintf(path, sizeof path, "%s.%s", section, key);
    if (*field && ce_hub_find(&found, folder, *field) != CS_OK) {
        ce_json_fault(config->doc, path, "%s", cs_error());
        return;
    }
    if (!found)
        return;
    ce_json_note(config->doc, path, "%s is %s, in the cache", *field, folder);
    ce_resolve_derive(config, section, key, folder, field);
}

static void resolve_model(cs_config *config)
{
    ce_settings *s = &config->settings;
    const char *folder = json_string_value(s->model);
    if (folder && *folder)
        s->model_path = folder;
    else if (s->model && !json_is_object(s->model))
        ce_json_fault(config->doc, "cspeed.model",
                      "a folder in double quotes is needed, or an object with the keys of config.json");
    find_folder(config, "cspeed", "model", &s->model_path);
    if (s->model_path)
        s->model = ce_json_find(config->doc, "cspeed.model"); /* find_folder may have replaced it */
    find_folder(config, "cspeed.dpo", "reference", &s->reference);
    find_folder(config, "cspeed.lora", "adapter", &s->lora.adapter);
    find_folder(config, "cspeed.data", "tokenizer", &s->tokenizer);
}

/* Sets the default output folder. Its name contains the name of the configuration file, so that no run continues
 * another one by accident. */
static void resolve_output(cs_config *config)
{
    char folder[320];
    ce_settings *s = &config->settings;
    const char *stem = basename(ce_json_name(config->doc)), *dot = strrchr(stem, '.');
    size_t count = dot && dot > stem ? (size_t)(dot - stem) : strlen(stem);
    snprintf(folder, sizeof folder, "runs/%.*s", (int)(count < 255 ? count : 255), stem);
    if (!s->output)
        ce_resolve_derive(config, "cspeed", "output", folder, &s->output);
}

/* Sets the transport. "gloo", PyTorch's name for communication through host memory, and "cpu" mean one that suits the
 * world. */
static void resolve_transport(cs_config *config)
{
    static const char *const transports[] = { "auto", "self", "shm", "tcp", "mpi", "nccl" };
    /* the key accepts two more words after these: "gloo" and "cpu" */
    enum { NAMED = sizeof transports / sizeof *transports };
    ce_settings *s = &config->settings;
    const cs_world *world = &config->world;
    s->transport = s->comm < NAMED                    ? transports[s->comm]
                   : world->size == 1                 ? "self"
                   : world->local_size == world->size ? "shm"
                                                      : "tcp";
}

/* Two keys that exclude each other: a number of updates, and a number of epochs or a number for each epoch, which
 * replaces the default of the first key. If the command line gives one of them and the file the other, the command line
 * decides. The key that has no effect becomes 0. */
static void choose(cs_config *config, const char *path, int64_t *updates, const char *other_path, int64_t *other)
{
    bool set = ce_resolve_is_of_command_line(config, path),
         other_set = ce_resolve_is_of_command_line(config, other_path);
    bool given = ce_resolve_is_given(config, path);
    char origin[64];
    if (*updates <= 0 || *other <= 0)
        return;
    if (given && set == other_set)
        ce_json_fault(config->doc, other_path, "%s is given too: set one of the two to 0, or leave it out", path);
    else if (given)
        ce_json_note(config->doc, set ? other_path : path, "no effect, because the command line gives %s",
                     set ? path : other_path);
    if (set && !other_set) {
        *other = 0;
        return;
    }
    *updates = 0;
    snprintf(origin, sizeof origin, "derived: %s", other_path);
    ce_json_mark(config->doc, path, origin);
}

void ce_ours_resolve(cs_config *config)
{
    ce_settings *s = &config->settings;
    resolve_model(config);
    resolve_output(config);
    resolve_transport(config);
    choose(config, "cspeed.save_interval", &s->save_interval, "cspeed.saves_per_epoch", &s->saves_per_epoch);
    choose(config, "cspeed.eval_interval", &s->eval_interval, "cspeed.evals_per_epoch", &s->evals_per_epoch);
    choose(config, "cspeed.steps", &s->steps, "cspeed.epochs", &s->epochs);
    if (s->epochs == 0 && s->steps == 0)
        ce_json_fault(config->doc, "cspeed.steps", "at least 1 step is needed, or epochs");
}
