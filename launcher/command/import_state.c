/* import_state.c - `cspeed import` of a training state that another program saved. It writes a checkpoint with weights,
 * optimizer state and counters, from which `train` continues with the given configuration. */
#include "command/import_state.h"
#include "base/log.h"
#include "base/plural.h"
#include "base/files.h"
#include "config/config.h"
#include "config/resolve.h"
#include "interchange/training_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { HEAP_BYTES = 4096 };

typedef struct {
    const cl_weights_request *request;
    ce_training_state state;
    cs_config *config;
    const ce_settings *settings; /* the settings of `config`, which owns them */
    cs_model *model;
    ce_model_facts facts;
    json_t *model_json; /* the contents of config.json, which the checkpoint stores in its "provenance" */
} import;

bool cl_import_state_is(const cl_weights_request *request)
{
    return ce_files_holds(request->from, CE_TRAINING_STATE_FILE);
}

/* ---- the configuration ---- */

/* Reads the configuration for the number of lanes with which the other program ran, because the batch sizes in the file
 * are those of the other program. Its tensor parallelism is not part of the state, so the file may give another one. */
static cs_status open_config(import *all)
{
    CE_TRY(cs_config_open(&all->config, all->request->config));
    int world = all->state.world_size / all->state.tp * ce_tp_read(all->config);
    cs_config_for_world(all->config, world, world);
    CE_TRY(cs_config_finish(all->config));
    all->settings = &all->config->settings;
    return CS_OK;
}

static cs_status open_model(import *all)
{
    const ce_settings *settings = all->settings;
    if (json_is_object(settings->model))
        return ce_models_open_described(&all->model, &all->facts, &all->model_json, all->config->doc, settings->model,
                                        "cspeed.model");
    if (!settings->model_path)
        return ce_fail(CS_BAD_CONFIG,
                       "%s: the key cspeed.model is missing: set it to the folder of the model, or to an object with "
                       "the keys of its config.json",
                       all->request->config);
    ce_json *doc = NULL;
    char *path = ce_files_join(settings->model_path, "config.json");
    cs_status status = ce_json_open(&doc, path);
    free(path);
    CE_TRY(status);
    if (all->request->lenient)
        ce_json_lenient(doc);
    status = ce_models_open_described(&all->model, &all->facts, &all->model_json, doc, ce_json_root(doc), "");
    ce_json_close(doc);
    return status;
}

/* ---- the optimizer ---- */

static bool has_slots(const ce_optimizer *optimizer, const ce_training_state *state)
{
    bool same = optimizer->slots == state->slot_count;
    for (int i = 0; same && i < state->slot_count; i++)
        same = strcmp(optimizer->slot_names[i], state->slots[i]) == 0;
    return same;
}

/* Checks that, for every parameter group, the optimizer has the slots (state tensors) that the other program saved. */
static cs_status check_optimizer(const import *all)
{
    const ce_training_state *state = &all->state;
    for (int i = 0; i < all->settings->groups.count; i++) {
        const ce_optimizer *optimizer = &all->settings->groups.group[i].optimizer;
        bool named = !state->optimizer || strcasecmp(state->optimizer, optimizer->name) == 0;
        if (!named || !has_slots(optimizer, state))
            return ce_fail(CS_BAD_CONFIG,
                           "%s names the optimizer %s, but %s was trained with %s, whose state has %d value%s for "
                           "each element (%s%s%s): name the optimizer of the training",
                           all->request->config, optimizer->name, state->origin,
                           state->optimizer ? state->optimizer : "another one", state->slot_count,
                           ce_plural(state->slot_count), state->slot_count ? state->slots[0] : "none",
                           state->slot_count > 1 ? ", " : "", state->slot_count > 1 ? state->slots[1] : "");
    }
    return CS_OK;
}

/* A hyper-parameter of the optimizer's update, and the number of model parameters for which the hyper-parameter's value
 * differs between the other program and cspeed. */
typedef struct {
    const char *name;
    int64_t count;
    const char *first; /* name of the first model parameter for which the value differs */
    double theirs, ours;
} change;

enum { DECAY, EPSILON, BETA1, BETA2, CHANGES };

static void compare(change *of, const json_t *written, double ours, const char *parameter)
{
    double theirs = json_number_value(written);
    if (!json_is_number(written) || fabs(theirs - ours) <= 1e-9 * fabs(theirs))
        return;
    if (of->count++ == 0) {
        of->first = parameter;
        of->theirs = theirs;
        of->ours = ours;
    }
}

static void compare_parameter(const import *all, change changes[CHANGES], const json_t *group, const char *name)
{
    const ce_source *weights = &all->state.sources[0];
    int64_t at = ce_source_find(weights, name);
    if (at < 0)
        return;
    bool vector = weights->tensors[at].dims < 2;
    const ce_group *ours = &all->settings->groups.group[ce_groups_find(&all->settings->groups, name, vector, false)];
    const ce_optim_settings *values = &ours->settings;
    const json_t *betas = json_object_get(group, "betas");
    double decay = vector && !ours->decays ? 0 : values->weight_decay;
    name = weights->tensors[at].name;
    compare(&changes[DECAY], json_object_get(group, "weight_decay"), decay, name);
    compare(&changes[EPSILON], json_object_get(group, "eps"), values->epsilon, name);
    if (all->settings->schedule.cycle_momentum) /* the schedule sets the betas, so they are not compared */
        return;
    compare(&changes[BETA1], json_array_get(betas, 0), values->betas[0], name);
    compare(&changes[BETA2], json_array_get(betas, 1), values->betas[1], name);
}

/* Warns if a hyper-parameter of the optimizer's update differs from that of the other program. A common cause is weight
 * decay, which DeepSpeed also applies to vectors. */
static void warn_of_changes(const import *all)
{
    change changes[CHANGES] = { [DECAY] = { .name = "weight_decay" },
                                [EPSILON] = { .name = "eps" },
                                [BETA1] = { .name = "betas[0]" },
                                [BETA2] = { .name = "betas[1]" } };
    size_t i, k;
    const json_t *group, *name;
    json_array_foreach (all->state.groups, i, group) {
        json_array_foreach (json_object_get(group, "params"), k, name) {
            if (json_is_string(name))
                compare_parameter(all, changes, group, json_string_value(name));
        }
    }
    for (i = 0; i < CHANGES; i++)
        if (changes[i].count > 0)
            ce_log(CE_LOG_WARNING,
                   "%s of %lld of %lld parameters was %g in %s and is %g here (the first is %s): optimizer.params or "
                   "cspeed.param_groups sets it",
                   changes[i].name, (long long)changes[i].count, (long long)all->state.sources[0].count,
                   changes[i].theirs, all->state.origin, changes[i].ours, changes[i].first);
}

/* ---- the checkpoint ---- */

static json_t *engine_state(const import *all)
{
    const ce_training_state *state = &all->state;
    int64_t tokens = state->samples * all->settings->seq_len;
    return json_pack("{s:I, s:I, s:I, s:I, s:O, s:{s:s, s:I}, s:{s:I}}", "global_step", (json_int_t)state->step,
                     "samples", (json_int_t)state->samples, "tokens", (json_int_t)tokens, "skipped_steps",
                     (json_int_t)state->skipped, "loss_scale", state->loss_scale, "optimizer", "type",
                     ce_optim_find(&all->settings->optim).name, "step", (json_int_t)state->updates, "lr_scheduler",
                     "last_step", (json_int_t)state->scheduled);
}

static json_t *provenance(const import *all)
{
    static const char *const dtypes[] = { [CS_F32] = "F32", [CS_BF16] = "BF16", [CS_F16] = "F16" };
    char *folder = all->settings->model_path ? realpath(all->settings->model_path, NULL) : NULL;
    json_t *root = json_pack("{s:s, s:i, s:i, s:s, s:s, s:O, s:s*}", "origin", all->state.origin, "world_size",
                             all->state.world_size, "zero_stage", all->state.stage, "train_dtype",
                             dtypes[all->settings->precision.products], "cspeed", CS_VERSION, "model", all->model_json,
                             "model_folder", folder);
    free(folder);
    return root;
}

static cs_status write_checkpoint(const import *all, const ce_checkpoint_content *content)
{
    cs_world world = { .size = 1, .local_size = 1 };
    cs_comm_settings settings = { .kind = "self", .heap_bytes = HEAP_BYTES };
    cs_comm *self = NULL;
    CE_TRY(cs_comm_open(&self, &world, &settings));
    cs_status status = ce_checkpoint_save(self, all->request->to, content);
    cs_comm_close(self);
    if (status != CS_OK)
        rmdir(all->request->to);
    return status;
}

static cs_status save(const import *all)
{
    char tag[64], *client_state = all->state.client_state ? json_dumps(all->state.client_state, JSON_ENCODE_ANY) : NULL;
    snprintf(tag, sizeof tag, "global_step%lld", (long long)all->state.step);
    json_t *engine = engine_state(all), *from = provenance(all), *line = json_array();
    json_t *aliases = all->facts.alias ? json_pack("{s:s}", all->facts.alias, all->facts.alias_of) : json_object();
    ce_checkpoint_content content = {
        .tag = tag,
        .client_state = client_state,
        .config_text = all->config->text,
        .engine = engine,
        .aliases = aliases,
        .provenance = from,
        .step = all->state.step,
        .line = line,
        .pieces = all->state.pieces,
        .piece_count = all->state.piece_count,
        .device_copy = &all->state.reader,
        .finite = true,
    };
    cs_status status = write_checkpoint(all, &content);
    json_decref(engine);
    json_decref(from);
    json_decref(line);
    json_decref(aliases);
    free(client_state);
    return status;
}

static cs_status import_all(import *all)
{
    CE_TRY(ce_training_state_open(&all->state, all->request->from));
    CE_TRY(open_config(all));
    CE_TRY(open_model(all));
    CE_TRY(check_optimizer(all));
    CE_TRY(ce_training_state_match(&all->state, all->model, &all->facts));
    warn_of_changes(all);
    return save(all);
}

cs_status cl_import_state(const cl_weights_request *request)
{
import all = {.request = request };
    cs_status status = import_all(&all);
    if (status == CS_OK) {
        cl_weights_report(request, &all.state.sources[0]);
        printf("`cspeed train --config %s --output %s` continues the training of %s at step %lld\n", request->config,
               request->to, all.state.origin, (long long)all.state.step);
    }
    ce_training_state_close(&all.state);
    json_decref(all.model_json);
    cs_model_free(all.model);
    cs_config_close(all.config);
    return status;
}
