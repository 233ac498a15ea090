/* resolve.c - turns values of the file into settings: precision, offload, and the section "cspeed". */
#include "config/resolve.h"
#include "base/hub.h"
#include "data/fill.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- fp32, bf16, fp16 ---- */

bool ce_resolve_is_given(cs_config *config, const char *path)
{
    const char *text = json_string_value(ce_json_find(config->doc, path));
    return ce_json_is_set(config->doc, path) && !(text && strcasecmp(text, "auto") == 0);
}

static void check_scaler(cs_config *config)
{
    const ce_scaler_settings *scaler = &config->settings.scaler;
    bool dynamic = scaler->loss_scale == 0;
    if (scaler->min_loss_scale != trunc(scaler->min_loss_scale))
        ce_json_note(config->doc, "fp16.min_loss_scale", "%g is accepted; DeepSpeed takes whole numbers only",
                     scaler->min_loss_scale);
    if (!(config->settings.written.fp16 || config->settings.written.autocast.enabled) || !dynamic)
        return;
    if (scaler->min_loss_scale <= 0)
        ce_json_fault(config->doc, "fp16.min_loss_scale", "above 0 is needed, not %g", scaler->min_loss_scale);
    if (scaler->loss_scale_window < 1)
        ce_json_fault(config->doc, "fp16.loss_scale_window", "at least 1 is needed, not %lld",
                      (long long)scaler->loss_scale_window);
    if (scaler->hysteresis < 1)
        ce_json_fault(config->doc, "fp16.hysteresis",
                      "at least 1 is needed, not %lld: 1 lowers the scale at every overflow",
                      (long long)scaler->hysteresis);
    if (ldexp(1, (int)scaler->initial_scale_power) < scaler->min_loss_scale)
        ce_json_fault(config->doc, "fp16.initial_scale_power", "the first scale, 2^%lld, is below min_loss_scale, %g",
                      (long long)scaler->initial_scale_power, scaler->min_loss_scale);
}

/* Adds a note if the file leaves the precision to Hugging Face's Trainer. Such a file most often trains in 16 bits there,
 * by the argument --bf16 or --fp16. */
static void note_auto(cs_config *config)
{
    const char *bf16 = ce_resolve_spelling(config->doc, "bf16");
    bool of_bf16 = ce_keys_is_auto(ce_json_find(config->doc, bf16), "enabled");
    bool of_fp16 = ce_keys_is_auto(ce_json_find(config->doc, "fp16"), "enabled");
    const ce_settings *s = &config->settings;
    bool wide = !s->written.fp16 && !s->written.bf16 && !s->written.autocast.enabled && !s->written.amp.enabled;
    if (wide && (of_bf16 || of_fp16))
        ce_json_note(config->doc, "precision",
                     "fp32, because \"auto\" in %s stands for an argument of Hugging Face's Trainer, whose default is "
                     "false; %s%s%s%s%s trains in 16 bits",
                     of_bf16 && of_fp16 ? "bf16 and fp16"
                     : of_bf16          ? bf16
                                        : "fp16",
                     of_bf16 ? "--set " : "", of_bf16 ? bf16 : "", of_bf16 ? ".enabled=true" : "",
                     of_bf16 && of_fp16 ? " or " : "", of_fp16 ? "--set fp16.enabled=true" : "");
}

void ce_resolve_precision(cs_config *config)
{
    ce_settings *s = &config->settings;
    if (s->written.fp16 && s->written.bf16)
        ce_json_fault(config->doc, "fp16.enabled", "fp16 and bf16 are both enabled: choose one");
    check_scaler(config);
    note_auto(config);
    s->dtype = s->written.fp16 ? CS_F16 : s->written.bf16 ? CS_BF16 : CS_F32;
}

/* ---- offload ---- */

/* Checks one key offload_*.device. The value "cpu" asks for state in host memory, where all state of a CPU rank is
 * already; whether the ranks have GPUs is known later if cspeed.device is "auto". */
static void resolve_device(cs_config *config, const char *path, int device)
{
    if (device == CE_OFFLOAD_NVME)
        ce_json_fault(config->doc, path, "not supported: \"nvme\", because nothing is swapped to disk");
    else if (device == CE_OFFLOAD_CPU && config->settings.device != CE_CHOOSE_CUDA)
        ce_json_note(config->doc, path, "\"cpu\" has no effect on a CPU rank, whose state is all in host memory");
}

void ce_resolve_offload(cs_config *config)
{
    resolve_device(config, "zero_optimization.offload_param.device", config->settings.written.offload_param);
    resolve_device(config, "zero_optimization.offload_optimizer.device", config->settings.written.offload_optimizer);
}

/* ---- the "cspeed" section ---- */

/* Reads the weights of the training data sets. A single data set needs no weight. */
static void read_weights(cs_config *config)
{
    static const char path[] = "cspeed.data.weights";
    ce_settings *s = &config->settings;
    size_t index, count = json_array_size(s->written.weights);
    json_t *value;
    s->weighted = count > 1;
    if (!s->written.weights || (count == 1 && s->train_count < 2))
        return;
    if (count != (size_t)s->train_count)
        ce_json_fault(config->doc, path, "a list of as many numbers as data.train has names is needed: %d",
                      s->train_count);
    json_array_foreach (s->written.weights, index, value) {
        if (!(json_number_value(value) >= 0) || !json_is_number(value))
            ce_json_fault(config->doc, path, "a weight is a number, 0 or more");
        else if (index < CE_CONFIG_FILES)
            s->weights[index] = json_number_value(value);
    }
    if (s->weighted && !s->shuffle)
        ce_json_fault(config->doc, path, "a mixture has no order but a shuffled one: leave data.shuffle true");
}

static void check_long(cs_config *config)
{
    const ce_settings *s = &config->settings;
    if (s->longer != CE_LONG_AUTO && s->packing != CE_PACK_DOCUMENTS && s->preference.beta <= 0)
        ce_json_fault(config->doc, "cspeed.data.long", "has no effect without cspeed.data.packing \"documents\"");
}

static void read_columns(cs_config *config)
{
    static const char path[] = "cspeed.data.columns";
    ce_settings *s = &config->settings;
    const char *key;
    json_t *name;
    s->columns.count = 0;
    if (s->written.columns && !json_is_object(s->written.columns))
        ce_json_fault(config->doc, path, "an object is needed, such as {\"messages\": \"dialog\"}");
    json_object_foreach (s->written.columns, key, name) {
        if (!json_is_string(name))
            ce_json_fault(config->doc, path, "the column of \"%s\" is a name in double quotes", key);
        else if (ce_shape_column(&s->columns, key, json_string_value(name)) != CS_OK)
            ce_json_fault(config->doc, path, "%s", cs_error());
    }
}

/* Writes a value that follows from other values into the resolved file and into its field of the settings. */
static void derive(cs_config *config, const char *section, const char *name, const char *value, const char **field)
{
    char path[64];
    json_t *object = ce_json_root(config->doc), *made = json_string(value);
    snprintf(path, sizeof path, "%s.%s", section, name);
    for (const char *at = section; *at && json_is_object(object);) {
        char word[32];
        size_t length = strcspn(at, ".");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        if (!json_is_object(json_object_get(object, word)))
            json_object_set_new(object, word, json_object());
        object = json_object_get(object, word);
        at += length + (at[length] == '.');
    }
    if (!made || json_object_set_new(object, name, made) != 0) {
        ce_json_fault(config->doc, path, "a folder is needed, as the file's own name is not UTF-8");
        return;
    }
    *field = json_string_value(made);
    ce_json_mark(config->doc, path, "derived");
}

/* Replaces the name of a model by its folder if the cache of the Hugging Face Hub has it. `field` is the value of the key
 * `key` of `section`. */
static void find_folder(cs_config *config, const char *section, const char *key, const char **field)
{
    char folder[CE_HUB_PATH], path[64];
    if (!*field || !ce_hub_find(folder, *field))
        return;
    snprintf(path, sizeof path, "%s.%s", section, key);
    ce_json_note(config->doc, path, "%s is %s, in the cache of the Hugging Face Hub", *field, folder);
    derive(config, section, key, folder, field);
}

static void resolve_model(cs_config *config)
{
    ce_settings *s = &config->settings;
    const json_t *model = s->written.model;
    if (json_is_object(model))
        s->model = s->written.model;
    else if (json_is_string(model) && *json_string_value(model))
        s->model_path = json_string_value(model);
    else if (model)
        ce_json_fault(config->doc, "cspeed.model",
                      "a folder in double quotes is needed, or an object with the keys of config.json");
    find_folder(config, "cspeed", "model", &s->model_path);
    find_folder(config, "cspeed.dpo", "reference", &s->reference);
}

/* Sets the default output folder. Its name contains the name of the configuration file, so that no run continues
 * another one by accident. */
static void resolve_output(cs_config *config)
{
    char folder[320], cache[4096];
    ce_settings *s = &config->settings;
    const char *stem = basename(ce_json_name(config->doc)), *dot = strrchr(stem, '.');
    size_t count = dot && dot > stem ? (size_t)(dot - stem) : strlen(stem);
    snprintf(folder, sizeof folder, "runs/%.*s", (int)(count < 255 ? count : 255), stem);
    if (!s->output)
        derive(config, "cspeed", "output", folder, &s->output);
    if (!s->output || s->cache)
        return;
    for (count = strlen(s->output); count > 1 && s->output[count - 1] == '/';)
        count--;
    snprintf(cache, sizeof cache, "%.*s.tokens", (int)count, s->output);
    derive(config, "cspeed.data", "cache", cache, &s->cache);
}

static void resolve_storage(cs_config *config)
{
    static const char path[] = "checkpoint.use_node_local_storage";
    if (config->settings.written.node_storage && config->world.local_size < config->world.size)
        ce_json_fault(config->doc, path,
                      "not supported: on several nodes, because a checkpoint is one directory that all ranks see");
    else if (config->settings.written.node_storage)
        ce_json_note(config->doc, path, "already so, as all ranks are on this node");
}

/* True if the value is "all-linear" or a list of names. */
static bool are_targets(const json_t *value)
{
    size_t index;
    json_t *name;
    json_array_foreach (value, index, name) {
        if (!json_is_string(name) || !*json_string_value(name))
            return false;
    }
    return json_is_array(value) ? json_array_size(value) > 0
                                : json_is_string(value) && strcmp(json_string_value(value), "all-linear") == 0;
}

static void resolve_lora(cs_config *config)
{
    static const char *const of_folder[] = { "cspeed.lora.r",    "cspeed.lora.alpha", "cspeed.lora.rslora",
                                             "cspeed.lora.dora", "cspeed.lora.bias",  "cspeed.lora.targets" };
    const ce_lora_settings *lora = &config->settings.lora;
    bool other = lora->alpha < 8 || lora->alpha > 8 || lora->dropout > 0 || lora->rslora || lora->targets ||
                 lora->dora || lora->bias;
    if (lora->targets && !are_targets(lora->targets))
        ce_json_fault(config->doc, "cspeed.lora.targets",
                      "a list of names such as [\"q_proj\", \"v_proj\"] is needed, or \"all-linear\"; regular "
                      "expressions are not supported");
    if (lora->dora && lora->dropout > 0 && !config->reads)
        ce_json_fault(config->doc, "cspeed.lora.dropout",
                      "not supported: %g with DoRA, which would compute the product of the weights twice: set it to 0, "
                      "or cspeed.lora.dora to false",
                      lora->dropout);
    if (lora->r == 0 && !lora->adapter && other)
        ce_json_fault(config->doc, "cspeed.lora", "it has no effect without a rank: set cspeed.lora.r");
    for (size_t i = 0; lora->adapter && i < sizeof of_folder / sizeof *of_folder; i++)
        if (ce_resolve_is_given(config, of_folder[i]))
            ce_json_fault(config->doc, of_folder[i],
                          config->reads ? "the checkpoint has adapters of its own, so it takes no others"
                                        : "it is that of cspeed.lora.adapter's adapter_config.json: leave it out");
}

/* Returns the transport for "gloo", PyTorch's name for communication through host memory, and for "cpu". */
static const char *host_transport(const cs_world *world)
{
    if (world->size == 1)
        return "self";
    return world->local_size == world->size ? "shm" : "tcp";
}

static bool is_of_command_line(cs_config *config, const char *path)
{
    char origin[32];
    return strcmp(ce_json_origin(config->doc, path, origin, sizeof origin), "command line") == 0;
}

/* Two keys that exclude each other: a number of updates, and a number of epochs or a number for each epoch, which
 * replaces the default of the first key. If the command line gives one of them and the file the other, the command line
 * decides. The key that has no effect becomes 0. */
static void choose(cs_config *config, const char *path, int64_t *updates, const char *other_path, int64_t *other)
{
    bool set = is_of_command_line(config, path), other_set = is_of_command_line(config, other_path);
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

void ce_resolve_run(cs_config *config)
{
    static const char *const transports[] = { "auto", "self", "shm", "tcp", "mpi", "nccl" };
    /* the key accepts two more words after these: "gloo" and "cpu" */
    enum { NAMED = sizeof transports / sizeof *transports };
    ce_settings *s = &config->settings;
    resolve_model(config);
    resolve_lora(config);
    resolve_output(config);
    ce_resolve_data(config);
    read_weights(config);
    read_columns(config);
    check_long(config);
    s->comm = s->written.comm < NAMED ? transports[s->written.comm] : host_transport(&config->world);
    s->stage = (int)s->written.stage;
    s->gradient_sum = s->written.allreduce_op == CE_GRADIENTS_SUM;
    resolve_storage(config);
    choose(config, "cspeed.save_interval", &s->save_interval, "cspeed.saves_per_epoch", &s->saves_per_epoch);
    choose(config, "cspeed.eval_interval", &s->eval_interval, "cspeed.evals_per_epoch", &s->evals_per_epoch);
    choose(config, "cspeed.steps", &s->steps, "cspeed.epochs", &s->epochs);
    if (s->epochs == 0 && s->steps == 0)
        ce_json_fault(config->doc, "cspeed.steps", "at least 1 step is needed, or epochs");
}
