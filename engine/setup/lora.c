/* lora.c - the section cspeed.lora of the configuration: which layers get adapters. */
#include "base/ends_with.h"
#include "base/must.h"
#include "setup/setup.h"
#include "saving/saving.h"
#include "base/log.h"
#include "config/resolve.h"
#include "interchange/peft_names.h"

#include <string.h>

/* The layers to which PEFT adds adapters by default, for the families that cspeed knows. */
static const struct {
    const char *type, *targets[4];
} families[] = {
    { "gpt2", { "c_attn" } },
    { "gpt_neox", { "query_key_value" } },
    { "falcon", { "query_key_value" } },
    { "llama", { "q_proj", "v_proj" } },
    { "mistral", { "q_proj", "v_proj" } },
    { "mixtral", { "q_proj", "v_proj" } },
    { "qwen2", { "q_proj", "v_proj" } },
    { "qwen3", { "q_proj", "v_proj" } },
    { "gemma", { "q_proj", "v_proj" } },
    { "gemma2", { "q_proj", "v_proj" } },
    { "gemma3_text", { "q_proj", "v_proj" } },
};

/* Returns a new list of the layers to which PEFT adds adapters by default; NULL if PEFT has no default for this
 * family. */
static json_t *usual_targets(const cs_engine *engine)
{
    const char *type = json_string_value(json_object_get(engine->model_json, "model_type"));
    for (size_t i = 0; type && i < sizeof families / sizeof *families; i++) {
        if (strcmp(families[i].type, type) != 0)
            continue;
        json_t *list = json_array();
        for (int at = 0; at < 4 && families[i].targets[at]; at++)
            json_array_append_new(list, json_string(families[i].targets[at]));
        return list;
    }
    return NULL;
}

/* ---- checks of the targets ---- */

/* What a target chooses in the model. */
typedef struct {
    bool layer, head, other; /* other: a matrix that is not the weight of a linear layer */
    const char *name;        /* of the last head or other matrix */
} chosen;

/* In transformers 5 experts and routers are no nn.Linear, so that PEFT has no adapters of this kind for them either. */
static chosen choose(const cs_model *model, const json_t *names)
{
    chosen all = { 0 };
    for (int i = 0; i < model->count; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++) {
            const ce_unit_entry *entry = model->units[i]->entries[at];
            if (entry->param.value.dims != 2 || !ce_ends_with(entry->full_name, ".weight"))
                continue;
            CE_FREED char *layer = ce_must_copy_part(entry->full_name, strlen(entry->full_name) - strlen(".weight"));
            if (!ce_peft_matches(names, layer))
                continue;
            bool head = i == model->count - 1;
            all.layer |= entry->param.linear && !head;
            all.head |= head;
            all.other |= !entry->param.linear && !head;
            if (head || !entry->param.linear)
                all.name = entry->full_name;
        }
    return all;
}

static cs_status refuse_target(const char *target, bool head)
{
    return ce_fail(CS_UNSUPPORTED, "not supported: cspeed.lora.targets: \"%s\", because %s", target,
                   head ? "the logits of the head are never in memory all at once, and an adapter would need them"
                        : "adapters are for linear layers; experts, their routers and embeddings have none");
}

static cs_status check_target(const cs_model *model, const char *target)
{
    json_auto_t *names = json_pack("[s]", target);
    chosen all = choose(model, names);
    if (all.layer)
        return CS_OK;
    all.head = all.head || strcmp(target, "lm_head") == 0; /* a tied head has no weight of its own */
    return all.head || all.other
               ? refuse_target(target, all.head)
               : ce_fail(CS_BAD_CONFIG,
                         "cspeed.lora.targets: the model has no linear layer \"%s\"; give the last part of their "
                         "names, such as \"q_proj\", or \"all-linear\"",
                         target);
}

static cs_status check_targets(const cs_model *model, const json_t *targets)
{
    size_t index;
    json_t *target;
    const char *expression = json_string_value(targets);
    json_array_foreach (targets, index, target) {
        CE_TRY(check_target(model, json_string_value(target)));
    }
    if (!expression || strcmp(expression, "all-linear") == 0)
        return CS_OK;
    chosen all = choose(model, targets);
    return all.name ? refuse_target(all.name, all.head) : CS_OK;
}

/* ---- modules_to_save ---- */

/* PEFT trains a copy of each module, so that a tied head gets a table of its own if it is such a module or if its table
 * is: only one of the two may be trained, or each for itself. */
static cs_status untie(cs_engine *engine, const ce_lora_settings *settings, const json_t *lora)
{
    ce_model_facts *facts = &engine->facts;
    bool tied = facts->alias && engine->model->units[engine->model->count - 1]->shared_count;
    bool named = tied && (ce_peft_saves(lora, facts->alias) || ce_peft_saves(lora, facts->alias_of));
    if (!named || json_is_true(settings->peft[CE_PEFT_TIES]))
        return CS_OK;
    if (facts->wrapped)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: cspeed.lora.modules_to_save with the tied head of model_type \"%s\": set "
                       "cspeed.lora.ensure_weight_tying to true",
                       facts->wrapped->type);
    facts->untied = facts->alias;
    facts->untied_of = facts->alias_of;
    cs_model_free(engine->model);
    json_decref(engine->model_json);
    engine->model_json = NULL;
    ce_log(CE_LOG_INFO, "cspeed.lora.modules_to_save: %s and %s are two matrices from now on, and were one",
           facts->untied, facts->untied_of);
    return ce_initialize_model(engine);
}

/* True if modules_to_save chooses the parameter, or the second name of a table that stays tied. */
static bool is_saved(const cs_engine *engine, const json_t *lora, const ce_unit_entry *entry)
{
    const ce_model_facts *facts = &engine->facts;
    bool tied = facts->alias && strcmp(entry->full_name, facts->alias_of) == 0;
    return !entry->lora && (ce_peft_saves(lora, entry->full_name) || (tied && ce_peft_saves(lora, facts->alias)));
}

/* Fails if an item of modules_to_save is not the end of any module's name. */
static cs_status check_modules(const cs_engine *engine, const json_t *modules)
{
    size_t index;
    json_t *item;
    json_array_foreach (modules, index, item) {
        bool found = false;
        json_auto_t *one = json_pack("{s:{s:[O]}}", "peft", "modules_to_save", item);
        for (int i = 0; i < engine->model->count; i++)
            for (int at = 0; at < engine->model->units[i]->entry_count; at++)
                found |= is_saved(engine, one, engine->model->units[i]->entries[at]);
        if (!found)
            return ce_fail(CS_BAD_CONFIG,
                           "cspeed.lora.modules_to_save: the model has no module whose name ends with \"%s\"",
                           json_string_value(item));
    }
    return CS_OK;
}

/* Trains the parameters of modules_to_save in full. */
static void train_modules(const cs_engine *engine, const json_t *lora)
{
    int64_t elements = 0;
    for (int i = 0; i < engine->model->count; i++)
        for (int at = 0; at < engine->model->units[i]->entry_count; at++) {
            ce_unit_entry *entry = engine->model->units[i]->entries[at];
            if (!is_saved(engine, lora, entry))
                continue;
            entry->param.frozen = false;
            elements += ce_cut_count(&entry->cut);
        }
    if (elements)
        ce_log(CE_LOG_INFO, "LoRA: %lld elements of modules_to_save are trained too", (long long)elements);
}

/* ---- adapters ---- */

static cs_status attach(cs_engine *engine, ce_lora_settings *settings)
{
    json_auto_t *lora = ce_lora_describe(settings);
    ce_lora_sizes sizes = { .dropout = settings->dropout,
                            .rslora = settings->rslora,
                            .dora = settings->dora,
                            .gaussian = json_is_string(settings->peft[CE_PEFT_INIT]),
                            .all_biases = settings->bias == CE_BIASES_ALL,
                            .own_biases = settings->bias == CE_BIASES_ADAPTED,
                            .choose = ce_peft_choose,
                            .from = lora };
    CE_TRY(ce_peft_check_names(lora));
    CE_TRY(untie(engine, settings, lora));
    CE_TRY(check_modules(engine, settings->peft[CE_PEFT_MODULES]));
    int64_t before = engine->model->parameters;
    CE_TRY(check_targets(engine->model, settings->targets));
    CE_TRY(ce_lora_attach(&engine->lora, engine->model, &sizes));
    const char *expression = json_string_value(settings->targets);
    if (expression && strcmp(expression, "all-linear") == 0)
        settings->targets = engine->lora.words;
    ce_config_set_lora(engine->config, settings);
    CE_FREED char *names = json_dumps(settings->targets, JSON_COMPACT | JSON_ENCODE_ANY);
    ce_log(CE_LOG_INFO, "%s: adapters of rank %lld, scale %g%s, on %s: %lld elements", settings->dora ? "DoRA" : "LoRA",
           (long long)settings->r, ce_lora_scale(settings->r, settings->alpha, settings->rslora),
           settings->peft[CE_PEFT_RANKS] || settings->peft[CE_PEFT_ALPHAS] ? ", and others by patterns" : "", names,
           (long long)(engine->model->parameters - before));
    train_modules(engine, lora);
    return CS_OK;
}

/* Refuses DoRA with dropout: PEFT would then multiply the layer's weight by two matrices, the input and the input after
 * dropout, and cspeed computes only one product. Also refuses DoRA for a model with random initial weights, because
 * DoRA starts from the norms of pretrained weights. */
static cs_status check_dora(cs_engine *engine, ce_lora_settings *settings)
{
    if (engine->config->reads)
        settings->dropout = 0;
    if (!engine->config->reads && !settings->adapter && !engine->settings->model_path)
        return ce_fail(CS_BAD_CONFIG,
                       "cspeed.lora.dora: DoRA starts from the norms of the model's weights, but this model starts "
                       "from random values: name a folder with weights in cspeed.model, or set cspeed.lora.dora to "
                       "false");
    return settings->dropout <= 0 ? CS_OK
                                  : ce_fail(CS_UNSUPPORTED,
                                            "not supported: a dropout of %g with the DoRA adapters of %s: set "
                                            "cspeed.lora.dropout to 0",
                                            settings->dropout, settings->adapter);
}

cs_status ce_lora_open(cs_engine *engine)
{
    ce_lora_settings settings = engine->settings->lora;
    json_auto_t *made = NULL;
    if (settings.adapter)
        CE_TRY(ce_adapter_describe(&settings, &made, !ce_resolve_is_given(engine->config, "cspeed.lora.dropout")));
    if (settings.r == 0)
        return CS_OK;
    if (settings.adapter && settings.plus > 0 && (settings.dora || settings.bias))
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: cspeed.lora.loraplus_lr_ratio with the DoRA adapters or the trained biases of "
                       "%s: a group of cspeed.param_groups can set their lr",
                       settings.adapter);
    if (settings.dora)
        CE_TRY(check_dora(engine, &settings));
    if (!settings.targets)
        settings.targets = made = usual_targets(engine);
    return settings.targets ? attach(engine, &settings)
                            : ce_fail(CS_BAD_CONFIG, "cspeed.lora.targets is needed, because PEFT has no default for "
                                                     "this model: name linear layers, or \"all-linear\"");
}
