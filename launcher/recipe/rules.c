/* rules.c - how the keys of other trainers become keys of the configuration: the keys whose values are converted. Other
 * keys are copied to the place that the table of words (config/word_list.c) gives. */
#include "recipe/values.h"
#include "base/must.h"
#include "cspeed/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool same(cl_conversion *c, const char *path, const json_t *value)
{
    cl_rules_set(c, path, cl_value_number(value));
    return true;
}

static bool positive(cl_conversion *c, const char *path, const json_t *value)
{
    double number = cl_value_double(value);
    if (isnan(number) && !cl_value_is_off(value))
        return cl_rules_no(c, "a number is needed");
    return number > 0 ? same(c, path, value) : true; /* 0 and -1 mean that it is not set */
}

static bool whole(cl_conversion *c, const char *path, const json_t *value)
{
    double number = cl_value_double(value);
    if (!(number > 0) || number != floor(number) || number > 1e9)
        return cl_rules_no(c, "a whole number of epochs is needed; cspeed.steps ends a training within an epoch");
    cl_rules_set(c, path, json_integer((json_int_t)number));
    return true;
}

static bool at_least_one(cl_conversion *c, const char *path, const json_t *value)
{
    return cl_value_double(value) < 1
               ? cl_rules_no(c, "a share of the training is not a number of steps: set the number")
               : positive(c, path, value);
}

static bool list(cl_conversion *c, const char *path, const json_t *value)
{
    cl_rules_set(c, path, cl_value_list(value));
    return true;
}

static bool truth(cl_conversion *c, const char *path, const json_t *value)
{
    cl_rules_set(c, path, json_boolean(cl_value_is_on(value)));
    return true;
}

/* `path` is "KEY=VALUE": a value that is on sets the key. */
static bool if_on(cl_conversion *c, const char *path, const json_t *value)
{
    const char *equals = strchr(path, '=');
    CE_FREED char *key = ce_must_copy_part(path, (size_t)(equals - path));
    if (cl_value_is_on(value))
        cl_rules_set(c, key, json_loads(equals + 1, JSON_DECODE_ANY, NULL));
    return true;
}

static bool optimizer(cl_conversion *c, const char *path, const json_t *value)
{
    if (!json_is_string(value))
        return cl_rules_no(c, "the name of an optimizer is needed");
    static const char *const adamw[] = { "adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_apex_fused",
                                         "adamw",       "adamw_anyprecision" };
    static const char *const names[][2] = { { "sgd", "SGD" },   { "adam", "Adam" }, { "adagrad", "Adagrad" },
                                            { "lion", "Lion" }, { "muon", "Muon" }, { "lion_pytorch", "Lion" },
                                            { "lamb", "Lamb" } };
    const char *name = cl_value_text(value);
    for (size_t i = 0; i < sizeof adamw / sizeof *adamw; i++)
        name = cl_value_is(value, adamw[i]) ? "AdamW" : name;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        name = cl_value_is(value, names[i][0]) ? names[i][1] : name;
    cl_rules_set(c, path, json_string(name));
    return true;
}

static bool betas(cl_conversion *c, const char *path, const json_t *value)
{
    const json_t *one = json_object_get(c->from, "adam_beta1"), *two = json_object_get(c->from, "adam_beta2");
    (void)value;
    cl_rules_set(c, path,
                 json_pack("[o,o]", one ? cl_value_number(one) : json_real(0.9),
                           two ? cl_value_number(two) : json_real(0.999)));
    return true;
}

static bool warmup(cl_conversion *c, const char *path, const json_t *value)
{
    double number = cl_value_double(value);
    return number > 0 && number < 1 ? same(c, "scheduler.params.warmup_ratio", value) : positive(c, path, value);
}

static bool arguments(cl_conversion *c, const char *path, const json_t *value)
{
    const char *name;
    json_t *argument;
    json_auto_t *read =
        json_is_string(value) ? json_loads(json_string_value(value), 0, NULL) : json_incref((json_t *)value);
    if (!json_is_object(read))
        return cl_rules_no(c, "an object is needed");
    value = read;
    json_object_foreach ((json_t *)value, name, argument) {
        CE_FREED char *key = ce_must_print("%s.%s", path, name);
        same(c, key, argument);
    }
    return true;
}

/* A name of a data type: the type in which the training computes. */
static bool precision(cl_conversion *c, const char *path, const json_t *value)
{
    static const char *const none[] = { "auto", "fp32", "float32", "32" };
    const char *name = cl_value_text(value);
    name += strncmp(name, "torch.", 6) == 0 ? 6 : 0;
    bool bf16 = strcmp(name, "bf16") == 0 || strcmp(name, "bfloat16") == 0;
    bool fp16 = strcmp(name, "fp16") == 0 || strcmp(name, "float16") == 0;
    (void)path;
    if (bf16 || fp16)
        cl_rules_set(c, bf16 ? "bf16.enabled" : "fp16.enabled", json_true());
    bool plain = bf16 || fp16;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        plain = plain || strcmp(name, none[i]) == 0;
    return plain || cl_rules_no(c, "the types are bf16, fp16 and fp32");
}

static bool sharding(cl_conversion *c, const char *path, const json_t *value)
{
    static const char *const names[] = { "FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", "NO_SHARD" };
    static const char *const others[] = { "1", "2", "4", "3" }; /* Accelerate's numbers */
    CE_FREED char *text = json_is_true(value)     ? ce_must_copy(names[0])
                          : json_is_string(value) ? ce_must_copy(cl_value_text(value))
                                                  : json_dumps(value, JSON_ENCODE_ANY);
    if (strcasestr(text, "zero2"))
        return cl_rules_no(c, "hybrid sharding is that of stage 3");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasestr(text, names[i]) || strcmp(text, others[i]) == 0) {
            cl_rules_set(c, path, json_string(names[i]));
            if (strcasestr(text, "offload"))
                cl_rules_set(c, "zero_optimization.offload_param.device", json_string("cpu"));
            return true;
        }
    return cl_rules_no(c, "FULL_SHARD, SHARD_GRAD_OP, HYBRID_SHARD or NO_SHARD is needed");
}

static bool reshard(cl_conversion *c, const char *path, const json_t *value)
{
    cl_rules_set(c, path, json_string(cl_value_is_on(value) ? "FULL_SHARD" : "SHARD_GRAD_OP"));
    return true;
}

static bool model(cl_conversion *c, const char *path, const json_t *value)
{
    static const char *const revisions[] = { "model_revision", "revision_of_model", "revision" };
    const json_t *revision = NULL;
    for (size_t i = 0; i < sizeof revisions / sizeof *revisions && !revision; i++)
        revision = json_object_get(c->from, revisions[i]);
    bool other = !cl_value_is_off(revision) && !cl_value_is(revision, "main");
    CE_FREED char *name =
        ce_must_print("%s%s%s", cl_value_text(value), other ? "@" : "", other ? cl_value_text(revision) : "");
    cl_rules_set(c, path, json_string(name));
    return true;
}

static bool with_model(cl_conversion *c, const char *path, const json_t *value)
{
    (void)c, (void)path, (void)value;
    return true; /* `model` reads it */
}

/* `path` is "KEY WORD=VALUE WORD=VALUE ...". */
static bool choice(cl_conversion *c, const char *path, const json_t *value)
{
    char pair[CS_OPTION_BYTES], key[CS_OPTION_BYTES];
    size_t length = strlen(cl_value_text(value));
    cs_options_name(&path, key);
    for (const char *at = path; length && cs_options_name(&at, pair);)
        if (strncasecmp(pair, cl_value_text(value), length) == 0 && pair[length] == '=') {
            if (pair[length + 1])
                cl_rules_set(c, key, json_string(pair + length + 1));
            return true;
        }
    snprintf(c->reason, sizeof c->reason, "%s has no such value", key);
    return false;
}

static bool learn_all(cl_conversion *c, const char *path, const json_t *value)
{
    (void)path;
    return !cl_value_is_on(value) || cl_rules_no(c, "where rows have prompts and answers, only the answers are learnt");
}

/* "steps", "epoch" and "no" of saves or evaluations; `path` is the key that counts steps. */
static bool strategy(cl_conversion *c, const char *path, const json_t *value)
{
    bool saves = strstr(path, "save") != NULL;
    if (cl_value_is(value, "epoch"))
        cl_rules_set(c, saves ? "cspeed.saves_per_epoch" : "cspeed.evals_per_epoch", json_integer(1));
    else if (cl_value_is(value, "best"))
        cl_rules_set(c, "cspeed.keep_best", json_true());
    else if (cl_value_is_off(value) && saves)
        cl_rules_set(c, path, json_integer(0));
    return true;
}

/* A number of steps between saves or evaluations, unless the strategy counts epochs. */
static bool interval(cl_conversion *c, const char *path, const json_t *value)
{
    bool saves = strstr(path, "save") != NULL;
    const json_t *how = json_object_get(c->from, saves ? "save_strategy" : "eval_strategy");
    how = how || saves ? how : json_object_get(c->from, "evaluation_strategy");
    if (how && !cl_value_is(how, "steps"))
        return true; /* Trainer does not use it either */
    return at_least_one(c, path, value);
}

static bool trackers(cl_conversion *c, const char *path, const json_t *value)
{
    json_t *names = cl_value_list(value), *name;
    bool known = true;
    size_t i;
    (void)path;
    json_array_foreach (names, i, name) {
        if (cl_value_is(name, "tensorboard") || cl_value_is(name, "all"))
            cl_rules_set(c, "tensorboard.enabled", json_true());
        else
            known = known && cl_value_is_off(name);
    }
    json_decref(names);
    return known ||
           cl_rules_no(
               c, "cspeed sends nothing to other servers; tensorboard.enabled and csv_monitor.enabled write files");
}

/* The loss of preference training; simpo has no reference model. */
static bool loss(cl_conversion *c, const char *path, const json_t *value)
{
    bool simpo = cl_value_is(value, "simpo");
    if (simpo)
        cl_rules_set(c, "cspeed.dpo.reference_free", json_true());
    if (simpo && !json_object_get(c->from, "pref_loss") && !json_object_get(c->from, "cpo_alpha"))
        cl_rules_set(c, "cspeed.dpo.cpo_alpha", json_real(1)); /* the default of TRL's CPOConfig */
    return same(c, path, value);
}

/* Preference training. */
static bool method(cl_conversion *c, const char *path, const json_t *value)
{
    static const char *const plain[] = { "sft", "pt", "pretrain", "instruct" };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (cl_value_is(value, plain[i]))
            return true;
    if (cl_value_is(value, "ipo") || cl_value_is(value, "simpo"))
        loss(c, "cspeed.dpo.loss_type", value);
    else if (!cl_value_is(value, "dpo"))
        return cl_rules_no(c, "preference training is by cspeed.dpo");
    static const char *const given[] = { "beta", "pref_beta", "rl_beta" };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (json_object_get(c->from, given[i]))
            return true;
    cl_rules_set(c, path, json_real(0.1));
    return true;
}

static bool another_recipe(cl_conversion *c, const char *path, const json_t *value)
{
    (void)path, (void)value;
    return cl_rules_no(c, "it is a recipe too: convert it, and join the two configurations");
}

static bool launch(cl_conversion *c, const char *path, const json_t *value)
{
    CE_FREED char *text =
        json_is_string(value) ? ce_must_copy(cl_value_text(value)) : json_dumps(value, JSON_ENCODE_ANY);
    if (cl_value_is_on(value))
        fprintf(c->flags, " %s %s", path, text);
    return true;
}

/* Accelerate counts the processes of all hosts, --num_gpus those of each. */
static bool processes(cl_conversion *c, const char *path, const json_t *value)
{
    double hosts = cl_value_double(json_object_get(c->from, "num_machines")), all = cl_value_double(value);
    double each = all / (hosts > 1 ? hosts : 1);
    if (!(each >= 1) || each != floor(each))
        return cl_rules_no(c, "it is no multiple of num_machines");
    fprintf(c->flags, " %s %lld", path, (long long)each);
    return true;
}

/* The strength of a preference loss counts only if the method has one. */
static bool beta(cl_conversion *c, const char *path, const json_t *value)
{
    const json_t *method_of = json_object_get(c->from, "rl");
    method_of = method_of ? method_of : json_object_get(c->from, "stage");
    if (method_of && !cl_value_is(method_of, "dpo") && !cl_value_is(method_of, "ipo") &&
        !cl_value_is(method_of, "simpo"))
        return cl_rules_no(c, "the method of the recipe is not dpo");
    return same(c, path, value);
}

static const cl_rule rules[] = {
    { "per_device_train_batch_size per_gpu_train_batch_size micro_batch_size", same, "train_micro_batch_size_per_gpu" },
    { "gradient_accumulation_steps", same, "gradient_accumulation_steps" },
    { "max_steps", positive, "cspeed.steps" },
    { "num_train_epochs num_epochs", whole, "cspeed.epochs" },
    { "seed", same, "cspeed.seed" },
    { "optim optimizer", optimizer, "optimizer.type" },
    { "weight_decay", same, "optimizer.params.weight_decay" },
    { "adam_beta1 adam_beta2", betas, "optimizer.params.betas" },
    { "max_grad_norm clip_grad", same, "gradient_clipping" },
    { "lr_scheduler_type lr_scheduler", same, "scheduler.type" },
    { "lr_scheduler_kwargs", arguments, "scheduler.params" },
    { "cosine_min_lr_ratio", positive, "scheduler.params.min_lr_rate" },
    { "warmup_steps num_warmup_steps", warmup, "scheduler.params.warmup_num_steps" },
    { "warmup_ratio lr_warmup_fraction", positive, "scheduler.params.warmup_ratio" },
    { "bf16", if_on, "bf16.enabled=true" },
    { "fp16", if_on, "fp16.enabled=true" },
    { "mixed_precision torch_dtype dtype model_dtype", precision, "" },
    { "gradient_checkpointing activation_checkpointing fsdp_activation_checkpointing", if_on,
      "cspeed.recompute=\"unit\"" },
    { "disable_gradient_checkpointing", if_on, "cspeed.recompute=\"none\"" },
    { "tf32", truth, "cspeed.tf32" },
    { "deepspeed deepspeed_config_file", cl_rule_deepspeed, "" },
    { "fsdp fsdp_sharding_strategy", sharding, "cspeed.fsdp.sharding_strategy" },
    { "fsdp_reshard_after_forward", reshard, "cspeed.fsdp.sharding_strategy" },
    { "fsdp_offload_params", if_on, "zero_optimization.offload_param.device=\"cpu\"" },
    { "offload_optimizer_device", choice, "zero_optimization.offload_optimizer.device cpu=cpu none=" },
    { "offload_param_device", choice, "zero_optimization.offload_param.device cpu=cpu none=" },
    { "use_cpu no_cuda cpu", if_on, "cspeed.device=\"cpu\"" },
    { "model_name_or_path base_model hf_model_path model_name", model, "cspeed.model" },
    { "revision model_revision revision_of_model", with_model, "" },
    { "adapter finetuning_type use_peft", cl_rule_adapter, "cspeed.lora.r" },
    { "load_in_4bit", truth, "cspeed.quantization_config.load_in_4bit" },
    { "quantization_bit", cl_rule_bits, "cspeed.quantization_config.load_in_4bit" },
    { "double_quantization bnb_4bit_use_double_quant", truth, "cspeed.quantization_config.bnb_4bit_use_double_quant" },
    { "lora_target target_modules lora_target_modules", cl_rule_targets, "cspeed.lora.targets" },
    { "modules_to_save lora_modules_to_save additional_target", list, "cspeed.lora.modules_to_save" },
    { "bos_token", cl_tokens_take, "--bos_token" },
    { "eos_token", cl_tokens_take, "--eos_token" },
    { "unk_token", cl_tokens_take, "--unk_token" },
    { "tokens add_tokens", cl_tokens_take, "--token" },
    { "additional_special_tokens add_special_tokens", cl_tokens_take, "--special_token" },
    { "resize_token_embeddings_to_32x", cl_tokens_multiple, "--multiple 32" },
    { "lora_target_linear", if_on, "cspeed.lora.targets=\"all-linear\"" },
    { "max_length max_seq_length sequence_len cutoff_len seq_length", same, "cspeed.data.seq_len" },
    { "packing sample_packing neat_packing", cl_rule_packing, "cspeed.data.packing" },
    { "packing_strategy", cl_rule_packing_strategy, "cspeed.data.packing" },
    { "excess_length_strategy", choice, "cspeed.data.long drop=drop truncate=truncate raise=refuse" },
    { "truncation_mode", choice, "cspeed.data.long keep_start=truncate" },
    { "train_on_inputs train_on_prompt", learn_all, "" },
    { "dataset datasets train_file train_files dataset_name", cl_rule_data, "cspeed.data.train" },
    { "eval_dataset test_datasets validation_file", cl_rule_data, "cspeed.data.valid" },
    { "chat_template chat_template_jinja template", cl_rule_chat_template, "cspeed.data.template" },
    { "interleave_probs", list, "cspeed.data.weights" },
    { "save_strategy", strategy, "cspeed.save_interval" },
    { "save_steps", interval, "cspeed.save_interval" },
    { "save_total_limit", positive, "cspeed.keep_last" },
    { "saves_per_epoch", positive, "cspeed.saves_per_epoch" },
    { "eval_strategy evaluation_strategy", strategy, "cspeed.eval_interval" },
    { "eval_steps", interval, "cspeed.eval_interval" },
    { "evals_per_epoch", positive, "cspeed.evals_per_epoch" },
    { "load_best_model_at_end", if_on, "cspeed.keep_best=true" },
    { "label_smoothing_factor", positive, "cspeed.label_smoothing_factor" },
    { "neftune_noise_alpha noisy_embedding_alpha", positive, "cspeed.neftune_noise_alpha" },
    { "loss_watchdog_threshold", positive, "cspeed.loss_watchdog_threshold" },
    { "metric_for_best_model", choice,
      "cspeed.best_metric loss=loss eval_loss=loss rewards/accuracies=rewards/accuracies "
      "eval_rewards/accuracies=rewards/accuracies rewards/margins=rewards/margins" },
    { "logging_steps log_interval", at_least_one, "steps_per_print" },
    { "report_to", trackers, "" },
    { "rl stage", method, "cspeed.dpo.beta" },
    { "beta pref_beta rl_beta", beta, "cspeed.dpo.beta" },
    { "loss_type pref_loss", loss, "cspeed.dpo.loss_type" },
    { "config_file config", another_recipe, "" },
    { "num_processes", processes, "--num_gpus" },
    { "nproc_per_node num_gpus", launch, "--num_gpus" },
    { "num_machines nnodes num_nodes", launch, "--num_nodes" },
    { "machine_rank node_rank", launch, "--node_rank" },
    { "main_process_ip master_addr", launch, "--master_addr" },
    { "main_process_port master_port", launch, "--master_port" },
    { "deepspeed_hostfile hostfile", launch, "--hostfile" },
};

const cl_rule *cl_rules_find(const char *name)
{
    char spelling[CS_OPTION_BYTES];
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        for (const char *place = rules[i].names; cs_options_name(&place, spelling);)
            if (strcmp(spelling, name) == 0)
                return &rules[i];
    return NULL;
}

bool cl_rules_takes_off(const cl_rule *rule)
{
    return rule->take == strategy || rule->take == truth || rule->take == reshard;
}
