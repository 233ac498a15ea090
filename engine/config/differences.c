/* differences.c - the table of keys whose default or meaning differs from DeepSpeed's, and why. */
#include "config/differences.h"

#include <string.h>

static const cs_difference list[] = {
    { "train_micro_batch_size_per_gpu", "\"auto\" is filled in by Hugging Face's trainer, from its arguments",
      "\"auto\" with no other batch size is 8, that trainer's default, and a note says so",
      "the file alone is the whole configuration of a run" },
    { "gradient_accumulation_steps",
      "a loss is a mean over the targets of one micro-batch, and an update averages these means over "
      "micro-batches and ranks",
      "a loss is one mean over all targets of an update, of all its micro-batches on all ranks",
      "each target weighs the same, however many others its micro-batch has" },
    { "gradient_clipping", "1.0 since June 2026, and 0, off, in every release before", "1.0",
      "it follows the newest release; the value is printed at start, as a file that does not name it trained unclipped "
      "before" },
    { "scheduler.params.warmup_type", "any other word counts as log, with a warning", "any other word is refused",
      "a misspelt \"linear\" would train otherwise than meant" },
    { "optimizer.params.lr", "\"auto\" is filled in by Hugging Face's trainer",
      "\"auto\" is 5e-5, that trainer's default", "the file alone is the whole configuration of a run" },
    { "optimizer", "absent: the program passes an optimizer, as Hugging Face's Trainer does",
      "absent: AdamW, where some value of the file is \"auto\" with that Trainer's defaults, lr 5e-5, elsewhere "
      "with DeepSpeed's, lr 1e-3; the first note of a run says so",
      "the file alone is the whole configuration of a run" },
    { "scheduler", "absent: a constant rate, unless the program passes a schedule, as Hugging Face's Trainer does",
      "absent: where some value of the file is \"auto\" a linear decay to 0 at the last step, that Trainer's "
      "default; elsewhere, and where it is null, a constant rate",
      "the file alone is the whole configuration of a run" },
    { "bf16.enabled", "\"auto\" is filled in by Hugging Face's Trainer, from its argument bf16",
      "\"auto\" is false, that Trainer's default, on every machine; the same holds for fp16.enabled",
      "the file alone is the whole configuration of a run" },
    { "optimizer.params.bias_correction",
      "in bf16 and fp16 at stage 0 Adam is stepped once, with gradients of 0, when it is made: its bias "
      "correction is one step ahead, and AdamW has decayed once",
      "the first update of a training is step 1, at every stage and in every type",
      "a run's losses do not depend on the stage" },
    { "cspeed.model", "transformers' models that have a padding_idx drop the gradient of that row of the embedding",
      "every row of the embedding has its gradient", "a token is learnt wherever it stands in the text" },
    { "zero_optimization.stage", "\"auto\" is filled in by Accelerate's plugin", "\"auto\" is 2, that plugin's default",
      "the file alone is the whole configuration of a run" },
    { "optimizer.params.weight_decay", "falls on every parameter",
      "falls on matrices; on norms, biases and vectors where a group of cspeed.param_groups gives its own",
      "decay is meant for matrices, and there programs make such groups" },
    { "optimizer.type",
      "Lamb under ZeRO takes the norms of flat parts; Muon's matrices are clipped after they were made "
      "orthogonal; GPT-2's embeddings, wte and wpe, count as matrices to Muon",
      "Lamb's norms are of whole tensors; gradients are clipped first; AdamW moves wte and wpe",
      "a run's losses do not depend on the stage, and clipping is of gradients" },
    { "optimizer.params.adam_lr", "a schedule gives both sides of Muon one rate, unless it scales each side's own",
      "every schedule moves both in proportion, as it moves parameter groups", "AdamW needs a smaller rate than Muon" },
    { "optimizer.params.ns_method", "gram in fp16, standard in bf16", "one loop in fp32 for both",
      "they are the same polynomial" },
    { "scheduler.params.warmup_num_steps", "0, 10.0 and 1e3 are refused since July 2026",
      "they are accepted; below 2 counts as 2, as there", "files from before still train" },
    { "scheduler.params.warmup_min_lr",
      "up to version 0.14 a warm-up began at the full rate: the first update had the optimizer's own lr",
      "the first update has warmup_min_lr, as in later releases", "it follows the newest release" },
    { "scheduler.params.decay_mom_rate", "momentum grows without bound, past 1", "it stops at 0.999",
      "Adam's bias correction has no meaning at 1" },
    { "scheduler.params.cycle_min_lr", "a list has one number a parameter group", "one number, or a list of one",
      "groups have rates of their own, which one schedule moves together" },
    { "fp16.min_loss_scale", "a whole number", "any number above 0, with a note", "such files are common" },
    { "fp16.hysteresis", "0 and below keep the scale from ever falling", "at least 1 is needed",
      "a scale that cannot fall skips every step once it is too high" },
    { "fp16.loss_scale", "stage 0 has a state machine of its own, without hysteresis",
      "one state machine at every stage", "a run's losses do not depend on the stage" },
    { "fp16.fp16_master_weights_and_grads", "needs stage 1 to 3, and the optimizer offloaded to the CPU",
      "works at every stage, with nothing offloaded", "an update takes masters of any type" },
    { "bf16.loss_scale", "this key and its neighbours are refused inside bf16", "they are accepted, with a note",
      "such files are common, and bf16 needs no loss scale" },
    { "bf16.bf16_master_weights_and_grads",
      "needs stage 1 to 3, and the optimizer offloaded to the CPU unless its states are bf16 too",
      "works at every stage, with nothing offloaded", "an update takes masters of any type" },
    { "amp.enabled", "not with ZeRO", "at every stage", "Apex's levels are choices of types, which no stage minds" },
    { "data_types.grad_accum_dtype", "gradients accumulate in the model's type, bf16 in bf16", "in fp32",
      "small gradients would vanish in a large sum" },
    { "communication_data_type", "the parameters' type, unless given",
      "the type that gradients accumulate in, unless given; in 16 bits, gradients are divided by the world size before "
      "they travel, at every stage",
      "a sum of 16-bit numbers leaves their range sooner than a mean" },
    { "prescale_gradients", "refused at stages 2 and 3 with reduce_scatter, ignored at stage 1",
      "it has effect at every stage", "the arithmetic is the same at every stage" },
    { "gradient_predivide_factor", "refused at stages 2 and 3 with reduce_scatter, ignored at stage 1",
      "it has effect at every stage", "the arithmetic is the same at every stage" },
    { "gradient_allreduce_op", "\"sum\" is refused at stage 3", "\"sum\" works at every stage",
      "the arithmetic is the same at every stage" },
    { "zero_optimization.overlap_comm", "true at stage 3, false elsewhere, unless given",
      "communication overlaps where a rank has a core to spare for it", "on a CPU the core decides, not the stage" },
    { "zero_optimization.reduce_bucket_size", "elements that are reduced at once", "without effect",
      "gradients travel unit by unit" },
    { "zero_optimization.offload_optimizer.device", "\"cpu\" moves the state to host memory",
      "\"cpu\" is honoured on a CPU rank, whose state is there anyway, and refused on a GPU",
      "moving state between a GPU and its host is not built" },
    { "steps_per_print", "null: no line; 0 and \"auto\" end in an exception; lr is the next step's",
      "0, null, \"auto\" and Infinity: no line; lr is what the step used",
      "progress is shown all the same, and a line tells of one step" },
    { "log_level", "warning: progress lines are hidden", "progress is always printed",
      "a silent run looks like a dead one" },
    { "comms_logger.enabled", "the section alone enables it, also with \"enabled\": false",
      "the section alone enables it, and \"enabled\": false does not", "false is meant as it is written" },
    { "wall_clock_breakdown", "fwd is the time of forward, bwd that of all gradients",
      "the gradients of a language model's head are computed with its loss, and their time is a part of fwd; "
      "flops_profiler counts the operations of forward alone",
      "the logits exist for a few rows at a time" },
    { "csv_monitor.enabled", "every start adds a header to the files; losses come from pipelines alone",
      "a resumed run continues the files from its own step on; Train/Samples/train_loss is always written, also to "
      "tensorboard",
      "a curve is drawn from them" },
    { "checkpoint.load_universal", "a checkpoint must be converted for another world size",
      "every checkpoint loads at any world size", "it holds names and ranges, never ranks" },
    { "elasticity.version", "0.2 divides by all ranks where it means data-parallel ones, and lists the latter",
      "every count is of ranks, and a batch is shared out over ranks / model_parallel_size",
      "the micro batch must divide what a rank gets" },
    { "elasticity.max_gpus", "below one node it counts as no limit", "it is a limit", "it is named one" },
};

const cs_difference *cs_differences_at(int index)
{
    return index >= 0 && index < (int)(sizeof list / sizeof *list) ? &list[index] : NULL;
}

const cs_difference *cs_differences_find(const char *path)
{
    const cs_difference *row;
    for (int i = 0; (row = cs_differences_at(i)); i++)
        if (strcmp(row->path, path) == 0)
            return row;
    return NULL;
}
