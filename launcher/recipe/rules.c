/* rules.c - how the keys of other trainers become keys of the configuration: the keys whose values are converted. Other
 * keys are copied to the place that the table of words (config/word_list.c) gives. */
#include "recipe/rules.h"
#include "base/files.h"
#include "base/must.h"
#include "cspeed/options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- values ---- */

static const char *text_of(const json_t *value)
{
    return json_is_string(value) ? json_string_value(value) : "";
}

static bool is_text(const json_t *value, const char *text)
{
    return strcasecmp(text_of(value), text) == 0;
}

bool cl_rules_is_off(const json_t *value)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && (is_text(value, "") || is_text(value, "no") || is_text(value, "none") ||
                                      is_text(value, "false") || is_text(value, "null"))) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* True for true, "true", "auto", 1 and other values that switch something on. */
static bool is_on(const json_t *value)
{
    return !cl_rules_is_off(value) && !(json_is_number(value) && json_number_value(value) == 0);
}

json_t *cl_rules_number(const json_t *value)
{
    char *end;
    double number = strtod(text_of(value), &end);
    if (!json_is_string(value) || end == text_of(value) || *end || !isfinite(number))
        return json_deep_copy(value);
    return fabs(number) < 1e15 && number == floor(number) ? json_integer((json_int_t)number) : json_real(number);
}

void cl_rules_set(cl_conversion *c, const char *path, json_t *value)
{
    char part[CS_OPTION_BYTES];
    json_t *at = c->to->config;
    for (const char *dot; (dot = strchr(path, '.')) != NULL; path = dot + 1) {
        snprintf(part, sizeof part, "%.*s", (int)(dot - path), path);
        json_t *inner = json_object_get(at, part);
        if (!json_is_object(inner)) {
            inner = json_object();
            json_object_set_new(at, part, inner);
        }
        at = inner;
    }
    json_object_set_new(at, path, value);
}

static bool no(cl_conversion *c, const char *reason)
{
    snprintf(c->reason, sizeof c->reason, "%s", reason);
    return false;
}

static double number_of(const json_t *value)
{
    json_t *number = cl_rules_number(value);
    double result = json_is_number(number) ? json_number_value(number) : (double)NAN;
    json_decref(number);
    return result;
}

/* Returns the items of a list, or of a text with commas or spaces between them, as a new list of texts or numbers. */
static json_t *list_of(const json_t *value)
{
    json_t *list = json_array();
    CE_FREED char *copy = ce_must_copy(text_of(value));
    char *rest = NULL;
    if (json_is_array(value)) {
        json_decref(list);
        return json_deep_copy(value);
    }
    for (char *word = strtok_r(copy, ", ", &rest); word; word = strtok_r(NULL, ", ", &rest)) {
        json_t *text = json_string(word);
        json_array_append_new(list, cl_rules_number(text));
        json_decref(text);
    }
    if (json_is_number(value))
        json_array_append(list, (json_t *)value);
    return list;
}

/* ---- rules ---- */

static bool same(cl_conversion *c, const char *path, const json_t *value)
{
    cl_rules_set(c, path, cl_rules_number(value));
    return true;
}

static bool positive(cl_conversion *c, const char *path, const json_t *value)
{
    return number_of(value) > 0 ? same(c, path, value) : true; /* 0 and -1 mean that it is not set */
}

static bool whole(cl_conversion *c, const char *path, const json_t *value)
{
    double number = number_of(value);
    if (!(number > 0) || number != floor(number) || number > 1e9)
        return no(c, "a whole number of epochs is needed; cspeed.steps ends a training within an epoch");
    cl_rules_set(c, path, json_integer((json_int_t)number));
    return true;
}

static bool at_least_one(cl_conversion *c, const char *path, const json_t *value)
{
    return number_of(value) < 1 ? no(c, "a share of the training is not a number of steps: set the number")
                                : positive(c, path, value);
}

static bool list(cl_conversion *c, const char *path, const json_t *value)
{
    cl_rules_set(c, path, list_of(value));
    return true;
}

static bool truth(cl_conversion *c, const char *path, const json_t *value)
{
    cl_rules_set(c, path, json_boolean(is_on(value)));
    return true;
}

/* `path` is "KEY=VALUE": a value that is on sets the key. */
static bool if_on(cl_conversion *c, const char *path, const json_t *value)
{
    const char *equals = strchr(path, '=');
    CE_FREED char *key = ce_must_copy_part(path, (size_t)(equals - path));
    if (is_on(value))
        cl_rules_set(c, key, json_loads(equals + 1, JSON_DECODE_ANY, NULL));
    return true;
}

static bool optimizer(cl_conversion *c, const char *path, const json_t *value)
{
    if (!json_is_string(value))
        return no(c, "the name of an optimizer is needed");
    static const char *const adamw[] = { "adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_apex_fused",
                                         "adamw",       "adamw_anyprecision" };
    static const char *const names[][2] = { { "sgd", "SGD" },   { "adam", "Adam" }, { "adagrad", "Adagrad" },
                                            { "lion", "Lion" }, { "muon", "Muon" }, { "lion_pytorch", "Lion" },
                                            { "lamb", "Lamb" } };
    const char *name = text_of(value);
    for (size_t i = 0; i < sizeof adamw / sizeof *adamw; i++)
        name = is_text(value, adamw[i]) ? "AdamW" : name;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        name = is_text(value, names[i][0]) ? names[i][1] : name;
    cl_rules_set(c, path, json_string(name));
    return true;
}

static bool betas(cl_conversion *c, const char *path, const json_t *value)
{
    const json_t *one = json_object_get(c->from, "adam_beta1"), *two = json_object_get(c->from, "adam_beta2");
    (void)value;
    cl_rules_set(c, path,
                 json_pack("[o,o]", one ? cl_rules_number(one) : json_real(0.9),
                           two ? cl_rules_number(two) : json_real(0.999)));
    return true;
}

static bool warmup(cl_conversion *c, const char *path, const json_t *value)
{
    double number = number_of(value);
    return number > 0 && number < 1 ? same(c, "scheduler.params.warmup_ratio", value) : positive(c, path, value);
}

static bool arguments(cl_conversion *c, const char *path, const json_t *value)
{
    const char *name;
    json_t *argument;
    json_auto_t *read =
        json_is_string(value) ? json_loads(json_string_value(value), 0, NULL) : json_incref((json_t *)value);
    if (!json_is_object(read))
        return no(c, "an object is needed");
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
    const char *name = text_of(value);
    name += strncmp(name, "torch.", 6) == 0 ? 6 : 0;
    bool bf16 = strcmp(name, "bf16") == 0 || strcmp(name, "bfloat16") == 0;
    bool fp16 = strcmp(name, "fp16") == 0 || strcmp(name, "float16") == 0;
    (void)path;
    if (bf16 || fp16)
        cl_rules_set(c, bf16 ? "bf16.enabled" : "fp16.enabled", json_true());
    bool plain = bf16 || fp16;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        plain = plain || strcmp(name, none[i]) == 0;
    return plain || no(c, "the types are bf16, fp16 and fp32");
}

static bool sharding(cl_conversion *c, const char *path, const json_t *value)
{
    static const char *const names[] = { "FULL_SHARD", "SHARD_GRAD_OP", "HYBRID_SHARD", "NO_SHARD" };
    static const char *const others[] = { "1", "2", "4", "3" }; /* Accelerate's numbers */
    CE_FREED char *text = json_is_true(value)     ? ce_must_copy(names[0])
                          : json_is_string(value) ? ce_must_copy(text_of(value))
                                                  : json_dumps(value, JSON_ENCODE_ANY);
    if (strcasestr(text, "zero2"))
        return no(c, "hybrid sharding is that of stage 3");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcasestr(text, names[i]) || strcmp(text, others[i]) == 0) {
            cl_rules_set(c, path, json_string(names[i]));
            if (strcasestr(text, "offload"))
                cl_rules_set(c, "zero_optimization.offload_param.device", json_string("cpu"));
            return true;
        }
    return no(c, "FULL_SHARD, SHARD_GRAD_OP, HYBRID_SHARD or NO_SHARD is needed");
}

static bool reshard(cl_conversion *c, const char *path, const json_t *value)
{
    cl_rules_set(c, path, json_string(is_on(value) ? "FULL_SHARD" : "SHARD_GRAD_OP"));
    return true;
}

static bool model(cl_conversion *c, const char *path, const json_t *value)
{
    static const char *const revisions[] = { "model_revision", "revision_of_model", "revision" };
    const json_t *revision = NULL;
    for (size_t i = 0; i < sizeof revisions / sizeof *revisions && !revision; i++)
        revision = json_object_get(c->from, revisions[i]);
    bool other = !cl_rules_is_off(revision) && !is_text(revision, "main");
    CE_FREED char *name = ce_must_print("%s%s%s", text_of(value), other ? "@" : "", other ? text_of(revision) : "");
    cl_rules_set(c, path, json_string(name));
    return true;
}

static bool with_model(cl_conversion *c, const char *path, const json_t *value)
{
    (void)c, (void)path, (void)value;
    return true; /* `model` reads it */
}

/* The method names adapters. The rank, and what the trainer sets if the recipe does not say it, are set at the end
 * (cl_rules_finish). */
static bool adapter(cl_conversion *c, const char *path, const json_t *value)
{
    (void)path;
    if (cl_rules_is_off(value) || is_text(value, "full"))
        return true;
    if (json_is_string(value) && !is_text(value, "lora") && !is_text(value, "qlora"))
        return no(c, "the adapters are LoRA and DoRA");
    if (is_text(value, "qlora"))
        cl_rules_set(c, "cspeed.quantization_config.load_in_4bit", json_true());
    return true;
}

static bool has(const cl_conversion *c, const char *key)
{
    return !cl_rules_is_off(json_object_get(c->from, key));
}

/* Sets a number of the section lora if the recipe has none. */
static void lora_default(cl_conversion *c, const char *key, json_t *value)
{
    const json_t *lora = json_object_get(json_object_get(c->to->config, "cspeed"), "lora");
    CE_FREED char *path = ce_must_print("cspeed.lora.%s", key);
    if (json_object_get(lora, key))
        json_decref(value);
    else
        cl_rules_set(c, path, value);
}

/* Adapters: the defaults of the trainer, or no section if the recipe trains the whole model. */
static void finish_lora(cl_conversion *c)
{
    static const char *const methods[] = { "adapter", "finetuning_type", "use_peft" };
    bool named = false, wanted = false;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const json_t *value = json_object_get(c->from, methods[i]);
        named = named || value;
        wanted = wanted || (has(c, methods[i]) && !is_text(value, "full") && !is_text(value, "freeze"));
    }
    if (named && !wanted) {
        json_object_del(json_object_get(c->to->config, "cspeed"), "lora");
    } else if (wanted && has(c, "use_peft")) { /* TRL's ModelConfig */
        lora_default(c, "r", json_integer(16));
        lora_default(c, "alpha", json_integer(32));
        lora_default(c, "dropout", json_real(0.05));
    } else if (wanted) {
        lora_default(c, "r", json_integer(8));
        const json_t *lora = json_object_get(json_object_get(c->to->config, "cspeed"), "lora");
        if (has(c, "finetuning_type")) /* LLaMA-Factory takes twice the rank */
            lora_default(c, "alpha", json_integer(2 * json_integer_value(json_object_get(lora, "r"))));
    }
}

static bool is_preference(const cl_conversion *c)
{
    return has(c, "rl") || is_text(json_object_get(c->from, "stage"), "dpo") || has(c, "beta");
}

/* Without packing a sample of other trainers never reaches into another one. */
static void finish_packing(cl_conversion *c)
{
    const json_t *data = json_object_get(json_object_get(c->to->config, "cspeed"), "data");
    bool windows = is_text(json_object_get(c->from, "stage"), "pt") || is_preference(c);
    if (!windows && !json_object_get(data, "packing"))
        cl_rules_set(c, "cspeed.data.packing", json_string("documents"));
}

void cl_rules_finish(cl_conversion *c)
{
    finish_lora(c);
    finish_packing(c);
}

static bool bits(cl_conversion *c, const char *path, const json_t *value)
{
    if (cl_rules_is_off(value))
        return true;
    if (json_integer_value(value) != 4)
        return no(c, "weights are quantised to 4 bits only");
    cl_rules_set(c, path, json_true());
    return true;
}

static bool targets(cl_conversion *c, const char *path, const json_t *value)
{
    bool all = is_text(value, "all") || is_text(value, "all-linear");
    bool expression = strpbrk(text_of(value), "\\.*+?()[]|^$") != NULL;
    cl_rules_set(c, path, all ? json_string("all-linear") : expression ? json_deep_copy(value) : list_of(value));
    return true;
}

static bool packing(cl_conversion *c, const char *path, const json_t *value)
{
    if (is_on(value) && !json_object_get(c->from, "packing_strategy"))
        cl_rules_set(c, path, json_string("documents"));
    return true;
}

/* TRL reads it only if packing is on. */
static bool packing_strategy(cl_conversion *c, const char *path, const json_t *value)
{
    if (!is_on(json_object_get(c->from, "packing")))
        return true;
    if (is_text(value, "bfd_split"))
        cl_rules_set(c, "cspeed.data.long", json_string("split"));
    else if (!is_text(value, "bfd") && !is_text(value, "wrapped"))
        return no(c, "bfd, bfd_split or wrapped is needed");
    cl_rules_set(c, path, json_string(is_text(value, "wrapped") ? "windows" : "documents"));
    return true;
}

/* `path` is "KEY WORD=VALUE WORD=VALUE ...". */
static bool choice(cl_conversion *c, const char *path, const json_t *value)
{
    char pair[CS_OPTION_BYTES], key[CS_OPTION_BYTES];
    size_t length = strlen(text_of(value));
    cs_options_name(&path, key);
    for (const char *at = path; length && cs_options_name(&at, pair);)
        if (strncasecmp(pair, text_of(value), length) == 0 && pair[length] == '=') {
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
    return !is_on(value) || no(c, "where rows have prompts and answers, only the answers are learnt");
}

/* "steps", "epoch" and "no" of saves or evaluations; `path` is the key that counts steps. */
static bool strategy(cl_conversion *c, const char *path, const json_t *value)
{
    bool saves = strstr(path, "save") != NULL;
    if (is_text(value, "epoch"))
        cl_rules_set(c, saves ? "cspeed.saves_per_epoch" : "cspeed.evals_per_epoch", json_integer(1));
    else if (is_text(value, "best"))
        cl_rules_set(c, "cspeed.keep_best", json_true());
    else if (cl_rules_is_off(value) && saves)
        cl_rules_set(c, path, json_integer(0));
    return true;
}

/* A number of steps between saves or evaluations, unless the strategy counts epochs. */
static bool interval(cl_conversion *c, const char *path, const json_t *value)
{
    bool saves = strstr(path, "save") != NULL;
    const json_t *how = json_object_get(c->from, saves ? "save_strategy" : "eval_strategy");
    how = how || saves ? how : json_object_get(c->from, "evaluation_strategy");
    if (how && !is_text(how, "steps"))
        return true; /* Trainer does not use it either */
    return at_least_one(c, path, value);
}

static bool trackers(cl_conversion *c, const char *path, const json_t *value)
{
    json_t *names = list_of(value), *name;
    bool known = true;
    size_t i;
    (void)path;
    json_array_foreach (names, i, name) {
        if (is_text(name, "tensorboard") || is_text(name, "all"))
            cl_rules_set(c, "tensorboard.enabled", json_true());
        else
            known = known && cl_rules_is_off(name);
    }
    json_decref(names);
    return known ||
           no(c, "cspeed sends nothing to other servers; tensorboard.enabled and csv_monitor.enabled write files");
}

/* The loss of preference training; simpo has no reference model. */
static bool loss(cl_conversion *c, const char *path, const json_t *value)
{
    if (is_text(value, "simpo"))
        cl_rules_set(c, "cspeed.dpo.reference_free", json_true());
    return same(c, path, value);
}

/* Preference training. */
static bool method(cl_conversion *c, const char *path, const json_t *value)
{
    static const char *const plain[] = { "sft", "pt", "pretrain", "instruct" };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (is_text(value, plain[i]))
            return true;
    if (is_text(value, "ipo") || is_text(value, "simpo"))
        loss(c, "cspeed.dpo.loss_type", value);
    else if (!is_text(value, "dpo"))
        return no(c, "preference training is by cspeed.dpo");
    static const char *const given[] = { "beta", "pref_beta", "rl_beta" };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (json_object_get(c->from, given[i]))
            return true;
    cl_rules_set(c, path, json_real(0.1));
    return true;
}

/* A configuration of DeepSpeed; keys of the recipe have priority. */
static bool deepspeed(cl_conversion *c, const char *path, const json_t *value)
{
    ce_json *doc = NULL;
    CE_FREED char *beside = ce_must_print("%s/%s", c->folder, text_of(value));
    const char *file = ce_files_exists(text_of(value)) ? text_of(value) : beside;
    (void)path;
    if (json_is_object(value)) {
        json_object_update_recursive(c->to->config, (json_t *)value);
        return true;
    }
    if (ce_json_open(&doc, file) != CS_OK)
        return no(c, cs_error());
    json_object_update_recursive(c->to->config, ce_json_root(doc));
    ce_json_close(doc);
    return true;
}

/* Adds a file or folder of data to the list at `path`. */
static bool add_data(cl_conversion *c, const char *path, const char *name)
{
    json_t *data = json_object_get(json_object_get(c->to->config, "cspeed"), "data");
    json_t *files = json_object_get(data, strrchr(path, '.') + 1);
    CE_FREED char *beside = ce_must_print("%s/%s", c->folder, name);
    const char *file = ce_files_exists(name) ? name : ce_files_exists(beside) ? beside : NULL;
    if (!*name)
        return no(c, "the path of a file or folder is needed");
    if (!file) {
        snprintf(c->reason, sizeof c->reason,
                 "there is no file %.200s; a data set of the Hub is downloaded by `hf download --repo-type dataset "
                 "%.200s`, and its files are named in %s",
                 name, name, path);
        return false;
    }
    if (files)
        json_array_append_new(files, json_string(file));
    else
        cl_rules_set(c, path, json_pack("[s]", file));
    return true;
}

/* Adds one data set: a name, or axolotl's object with a path. Other members of the object are not taken. */
static bool add_set(cl_conversion *c, const char *path, const json_t *set)
{
    static const char *const taken[] = { "path", "data_files", "type",
                                         "ds_type" }; /* rows are recognized by their keys */
    json_auto_t *files = list_of(json_object_get(set, "data_files"));
    const char *key;
    json_t *member;
    size_t i;
    json_object_foreach ((json_t *)set, key, member) {
        bool known = cl_rules_is_off(member);
        for (i = 0; i < sizeof taken / sizeof *taken; i++)
            known = known || strcmp(taken[i], key) == 0;
        if (!known) {
            CE_FREED char *line =
                ce_must_print("datasets.%s: members of a data set other than its path are not taken", key);
            json_array_append_new(c->to->lost, json_string(line));
        }
    }
    if (json_array_size(files) == 0)
        return add_data(c, path, text_of(json_is_object(set) ? json_object_get(set, "path") : set));
    bool found = true;
    json_array_foreach (files, i, member)
        found = add_data(c, path, text_of(member)) && found;
    return found;
}

static bool data(cl_conversion *c, const char *path, const json_t *value)
{
    json_auto_t *sets = json_is_object(value) ? json_pack("[O]", value) : list_of(value);
    json_t *set;
    bool found = true;
    size_t i;
    if (json_is_string(value) && ce_files_exists(text_of(value))) /* a name with a space */
        return add_data(c, path, text_of(value));
    json_array_foreach (sets, i, set)
        found = add_set(c, path, set) && found;
    return found;
}

/* LLaMA-Factory's templates are those of the models; axolotl's are named as here. */
static bool chat_template(cl_conversion *c, const char *path, const json_t *value)
{
    bool own = json_object_get(c->from, "template") || strncmp(text_of(value), "tokenizer_default", 17) == 0;
    cl_rules_set(c, path, json_string(own ? "auto" : text_of(value)));
    return true;
}

static bool another_recipe(cl_conversion *c, const char *path, const json_t *value)
{
    (void)path, (void)value;
    return no(c, "it is a recipe too: convert it, and join the two configurations");
}

static bool launch(cl_conversion *c, const char *path, const json_t *value)
{
    CE_FREED char *text = json_is_string(value) ? ce_must_copy(text_of(value)) : json_dumps(value, JSON_ENCODE_ANY);
    if (is_on(value))
        fprintf(c->flags, " %s %s", path, text);
    return true;
}

/* Accelerate counts the processes of all hosts, --num_gpus those of each. */
static bool processes(cl_conversion *c, const char *path, const json_t *value)
{
    double hosts = number_of(json_object_get(c->from, "num_machines")), all = number_of(value);
    double each = all / (hosts > 1 ? hosts : 1);
    if (!(each >= 1) || each != floor(each))
        return no(c, "it is no multiple of num_machines");
    fprintf(c->flags, " %s %lld", path, (long long)each);
    return true;
}

/* The strength of a preference loss counts only if the method has one. */
static bool beta(cl_conversion *c, const char *path, const json_t *value)
{
    const json_t *method_of = json_object_get(c->from, "rl");
    method_of = method_of ? method_of : json_object_get(c->from, "stage");
    if (method_of && !is_text(method_of, "dpo") && !is_text(method_of, "ipo") && !is_text(method_of, "simpo"))
        return no(c, "the method of the recipe is not dpo");
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
    { "deepspeed deepspeed_config_file", deepspeed, "" },
    { "fsdp fsdp_sharding_strategy", sharding, "cspeed.fsdp.sharding_strategy" },
    { "fsdp_reshard_after_forward", reshard, "cspeed.fsdp.sharding_strategy" },
    { "fsdp_offload_params", if_on, "zero_optimization.offload_param.device=\"cpu\"" },
    { "offload_optimizer_device", choice, "zero_optimization.offload_optimizer.device cpu=cpu none=" },
    { "offload_param_device", choice, "zero_optimization.offload_param.device cpu=cpu none=" },
    { "use_cpu no_cuda cpu", if_on, "cspeed.device=\"cpu\"" },
    { "model_name_or_path base_model hf_model_path model_name", model, "cspeed.model" },
    { "revision model_revision revision_of_model", with_model, "" },
    { "adapter finetuning_type use_peft", adapter, "cspeed.lora.r" },
    { "load_in_4bit", truth, "cspeed.quantization_config.load_in_4bit" },
    { "quantization_bit", bits, "cspeed.quantization_config.load_in_4bit" },
    { "double_quantization bnb_4bit_use_double_quant", truth, "cspeed.quantization_config.bnb_4bit_use_double_quant" },
    { "lora_target target_modules lora_target_modules", targets, "cspeed.lora.targets" },
    { "modules_to_save lora_modules_to_save additional_target", list, "cspeed.lora.modules_to_save" },
    { "bos_token", cl_tokens_take, "--bos_token" },
    { "eos_token", cl_tokens_take, "--eos_token" },
    { "unk_token", cl_tokens_take, "--unk_token" },
    { "tokens add_tokens", cl_tokens_take, "--token" },
    { "additional_special_tokens add_special_tokens", cl_tokens_take, "--special_token" },
    { "resize_token_embeddings_to_32x", cl_tokens_multiple, "--multiple 32" },
    { "lora_target_linear", if_on, "cspeed.lora.targets=\"all-linear\"" },
    { "max_length max_seq_length sequence_len cutoff_len seq_length", same, "cspeed.data.seq_len" },
    { "packing sample_packing neat_packing", packing, "cspeed.data.packing" },
    { "packing_strategy", packing_strategy, "cspeed.data.packing" },
    { "excess_length_strategy", choice, "cspeed.data.long drop=drop truncate=truncate raise=refuse" },
    { "truncation_mode", choice, "cspeed.data.long keep_start=truncate" },
    { "train_on_inputs train_on_prompt", learn_all, "" },
    { "dataset datasets train_file train_files dataset_name", data, "cspeed.data.train" },
    { "eval_dataset test_datasets validation_file", data, "cspeed.data.valid" },
    { "chat_template chat_template_jinja template", chat_template, "cspeed.data.template" },
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
