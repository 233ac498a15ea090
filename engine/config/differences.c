/* differences.c - the table of keys whose default or meaning differs from DeepSpeed's, and why. */
#include "config/differences.h"

#include <string.h>

static const ce_difference list[] = {
    { "train_micro_batch_size_per_gpu", "Hugging Face's Trainer replaces \"auto\" by its arguments",
      "\"auto\" without another batch size is 8, the Trainer's default, and a note says so",
      "the file contains the whole configuration of a run" },
    { "gradient_accumulation_steps",
      "the loss is the mean over the targets of one micro-batch, and an update averages these means over "
      "micro-batches and ranks",
      "the loss is one mean over all targets of an update, of all its micro-batches on all ranks",
      "every target has the same weight, whatever the number of targets in its micro-batch" },
    { "gradient_clipping", "1.0 since June 2026; 0 (no clipping) in earlier releases", "1.0",
      "it follows the newest release; the value is printed at the start, because a file without this key trained "
      "without clipping before" },
    { "scheduler.params.warmup_type", "a word other than log and linear counts as log, with a warning",
      "any other word is refused", "a misspelt \"linear\" would silently select another schedule" },
    { "optimizer.params.lr", "Hugging Face's Trainer replaces \"auto\"", "\"auto\" is 5e-5, the Trainer's default",
      "the file contains the whole configuration of a run" },
    { "optimizer", "if absent, the program passes an optimizer, as Hugging Face's Trainer does",
      "if absent, AdamW: with the Trainer's defaults (lr 5e-5) if some value of the file is \"auto\", otherwise "
      "with DeepSpeed's (lr 1e-3); the first note of a run says which",
      "the file contains the whole configuration of a run" },
    { "scheduler", "if absent, a constant rate, unless the program passes a schedule, as Hugging Face's Trainer does",
      "if absent, a linear decay to 0 at the last step, the Trainer's default, if some value of the file is "
      "\"auto\"; otherwise, and if it is null, a constant rate",
      "the file contains the whole configuration of a run" },
    { "bf16.enabled", "Hugging Face's Trainer replaces \"auto\" by its argument bf16",
      "\"auto\" is false, the Trainer's default, on every machine; the same holds for fp16.enabled",
      "the file contains the whole configuration of a run" },
    { "optimizer.params.bias_correction",
      "in bf16 and fp16 at stage 0 Adam makes one step with zero gradients when it is created: its bias "
      "correction is one step ahead, and AdamW has applied its decay once",
      "the first update of a training is step 1 of the bias correction, at every stage and in every type",
      "the losses of a run do not depend on the stage" },
    { "zero_optimization.stage", "Accelerate's plugin replaces \"auto\"", "\"auto\" is 2, the plugin's default",
      "the file contains the whole configuration of a run" },
    { "optimizer.params.weight_decay", "decays every parameter",
      "decays matrices; norms, biases and vectors only if a group of cspeed.param_groups sets its own weight_decay",
      "weight decay is intended for matrices; programs for DeepSpeed make such groups themselves" },
    { "optimizer.type",
      "Lamb under ZeRO uses the norms of flat parts; Muon clips after orthogonalization and treats GPT-2's "
      "embeddings wte and wpe as matrices",
      "Lamb uses the norms of whole tensors; gradients are clipped before Muon; AdamW updates wte and wpe",
      "the losses of a run do not depend on the stage, and clipping applies to gradients" },
    { "optimizer.params.adam_lr",
      "a schedule sets one rate for Muon's matrices and its other parameters, unless it scales both rates",
      "every schedule scales both rates by the same factor, as for parameter groups",
      "AdamW needs a smaller rate than Muon" },
    { "optimizer.params.ns_method", "gram computes in fp16, standard in bf16",
      "both compute the same iteration in fp32", "they are the same polynomial" },
    { "scheduler.params.warmup_num_steps", "0, 10.0 and 1e3 are refused since July 2026",
      "they are accepted; values below 2 count as 2, as in DeepSpeed", "older files still train" },
    { "scheduler.params.warmup_min_lr",
      "up to version 0.14 a warm-up began at the full rate: the first update had the optimizer's own lr",
      "the first update has warmup_min_lr, as in later releases", "it follows the newest release" },
    { "scheduler.params.decay_mom_rate", "momentum grows without bound, beyond 1", "momentum is at most 0.999",
      "Adam's bias correction is undefined at 1" },
    { "scheduler.params.cycle_min_lr", "a list has one number for each parameter group", "one number, or a list of one",
      "groups have their own rates, and one schedule scales all of them" },
    { "fp16.min_loss_scale", "it must be a whole number", "any number above 0 is accepted, with a note",
      "such files are common" },
    { "fp16.hysteresis", "with 0 or less the scale is never lowered", "it must be at least 1",
      "if a scale that is too high cannot be lowered, every step is skipped" },
    { "fp16.loss_scale", "stage 0 has its own state machine, without hysteresis",
      "all stages use the same state machine", "the losses of a run do not depend on the stage" },
    { "fp16.fp16_master_weights_and_grads", "requires stage 1 to 3 and an optimizer that is offloaded to the CPU",
      "works at every stage, without offloading", "an update accepts masters of any type" },
    { "bf16.loss_scale", "this key and the other keys of loss scaling are refused in bf16",
      "they are accepted, with a note", "such files are common, and bf16 needs no loss scale" },
    { "bf16.bf16_master_weights_and_grads",
      "requires stage 1 to 3, and an optimizer that is offloaded to the CPU unless its state is bf16 too",
      "works at every stage, without offloading", "an update accepts masters of any type" },
    { "amp.enabled", "refused with ZeRO", "accepted at every stage",
      "Apex's levels only choose types, and every stage supports all types" },
    { "data_types.grad_accum_dtype", "gradients accumulate in the model's type", "gradients accumulate in fp32",
      "in 16 bits small gradients are lost when they are added to a large sum" },
    { "communication_data_type", "default: the type of the parameters",
      "default: the type in which gradients accumulate; in 16 bits, gradients are divided by the world size before "
      "their reduction, at every stage",
      "a sum of 16-bit numbers overflows sooner than a mean" },
    { "prescale_gradients", "refused at stages 2 and 3 with reduce_scatter, ignored at stage 1",
      "it has an effect at every stage", "the arithmetic is the same at every stage" },
    { "gradient_predivide_factor", "refused at stages 2 and 3 with reduce_scatter, ignored at stage 1",
      "it has an effect at every stage", "the arithmetic is the same at every stage" },
    { "gradient_allreduce_op", "\"sum\" is refused at stage 3", "\"sum\" works at every stage",
      "the arithmetic is the same at every stage" },
    { "zero_optimization.overlap_comm", "default: true at stage 3, false at other stages",
      "communication overlaps with computation on a GPU, and on a CPU if the rank has more than one core",
      "on a CPU overlap depends on the cores, not on the stage" },
    { "zero_optimization.reduce_bucket_size", "number of elements that are reduced at once; default 5e8",
      "default 0: each unit is reduced by itself; the key has an effect at stage 0, and at stages 2 and 3 on the "
      "sum over the groups of mics_shard_size",
      "the reduction of a unit overlaps with the backward of the next one" },
    { "zero_optimization.mics_shard_size", "it has an effect at stage 3 only", "it has an effect at stages 1, 2 and 3",
      "the groups are the same at every stage" },
    { "zero_optimization.offload_optimizer.device",
      "\"cpu\" moves the state to host memory, and the CPU computes the update",
      "\"cpu\" moves the state to host memory, and the GPU computes the update; no effect on a CPU",
      "the GPU reads and writes the state in host memory, so no copy of the gradients is sent to the host" },
    { "steps_per_print", "null: no line; 0 and \"auto\" raise an exception; the printed lr is that of the next step",
      "0, null, \"auto\" and Infinity: no line; the printed lr is that of the step",
      "the progress line is shown in any case, and all numbers of a line belong to one step" },
    { "log_level", "\"warning\" hides progress lines", "progress is always printed",
      "a run without output cannot be distinguished from one that hangs" },
    { "comms_logger.enabled", "the presence of the section enables it, even with \"enabled\": false",
      "the presence of the section enables it, unless it has \"enabled\": false",
      "a user who writes false wants it disabled" },
    { "wall_clock_breakdown", "fwd is the time of forward, bwd that of all gradients",
      "the gradients of a language model's head are computed with its loss, and their time is a part of fwd; "
      "flops_profiler counts the operations of forward alone",
      "the logits exist for a few rows at a time" },
    { "csv_monitor.enabled", "every start adds a header to the files; only pipelines write losses",
      "a resumed run continues the files from its first step on; Train/Samples/train_loss is always written, also to "
      "tensorboard",
      "curves are drawn from these files" },
    { "checkpoint.load_universal", "a checkpoint must be converted for another world size",
      "every checkpoint loads at any world size", "a checkpoint contains names and ranges, never ranks" },
    { "tensor_parallel.autotp_size", "the token embedding is whole on every rank, and so is a head that is tied to it",
      "the embedding and the head are cut by the vocabulary, and the loss is computed without gathering logits",
      "these are the largest matrices of a small model" },
    { "tensor_parallel.tp.tp_size", "it is ignored without autotp_size", "it is used, with a note",
      "a file that gives a size means it" },
    { "tensor_parallel.partition_config", "its rules choose the cut of each layer",
      "compared with the cuts of the model: a warning names each rule that says otherwise, or that names no matrix",
      "the model itself declares its cuts, and any cut gives the same results" },
    { "elasticity.version",
      "version 0.2 divides by the number of all ranks instead of that of data-parallel ranks, and lists the latter",
      "all counts are numbers of ranks, and a batch is divided over ranks / model_parallel_size data-parallel ranks",
      "the micro batch must divide the batch of a rank" },
    { "elasticity.model_parallel_size", "it must be 1 with version 0.1", "it is cspeed.mesh.tp with both versions",
      "the ranks of a tensor-parallel group count as one in either computation" },
    { "elasticity.max_gpus", "a value smaller than one node is ignored", "it is always a limit",
      "its name says that it is a limit" },
};

const ce_difference *ce_differences_at(int index)
{
    return index >= 0 && index < (int)(sizeof list / sizeof *list) ? &list[index] : NULL;
}

const ce_difference *ce_differences_find(const char *path)
{
    const ce_difference *row;
    for (int i = 0; (row = ce_differences_at(i)); i++)
        if (strcmp(row->path, path) == 0)
            return row;
    return NULL;
}
