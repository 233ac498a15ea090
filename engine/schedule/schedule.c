/* schedule.c - learning-rate schedules: the table of schedules, the rate of an update, and the section "scheduler" of a
 * configuration. */
#include "schedule/schedule.h"
#include "schedule/warmup.h"

#include <stdio.h>
#include <string.h>

#define CYCLED_BETA2 0.99 /* beta2 that DeepSpeed sets while it cycles the momentum */

#define ADDRESS(type) &ce_schedule_##type,
static const ce_schedule *const shapes[] = { CE_SCHEDULES(ADDRESS) };
enum { SHAPES = sizeof shapes / sizeof *shapes };

#define NAME(type) #type ", "
static const char names[] = CE_SCHEDULES(NAME);
enum { NAMES_LENGTH = sizeof names - sizeof ", " };

typedef struct {
    const char *type;
} section_text;

static const ce_key section_keys[] = {
    { "type", CE_KEY_STRING, offsetof(section_text, type), "null", 0, 0, NULL,
      CE_SCHEDULES(NAME) "in exactly this spelling" },
    { "params", CE_KEY_SECTION, 0, "{}", 0, 0, NULL, "see the tables below" },
};

/* Schedules of PyTorch and of Trainer that cspeed does not support. DeepSpeed would construct PyTorch's; here each gives
 * an error. */
static const char refused_types[] =
    "ChainedScheduler, CyclicLR, LambdaLR, MultiStepLR, MultiplicativeLR, OneCycleLR, ReduceLROnPlateau, SequentialLR, "
    "greedy, reduce_lr_on_plateau";

const ce_schedule *ce_schedule_at(int index)
{
    return index < SHAPES ? shapes[index] : NULL;
}

const ce_key *ce_schedule_keys(int *count)
{
    *count = sizeof section_keys / sizeof *section_keys;
    return section_keys;
}

double ce_schedule_rate(const ce_schedule_settings *settings, int64_t update)
{
    int64_t start = settings->last_batch_iteration;
    /* If last_batch_iteration is 0 or more, update 0 has the optimizer's lr, as in DeepSpeed. */
    if (!settings->shape || (update == 0 && start >= 0))
        return settings->base_rate;
    return settings->shape->rate(settings, start + update);
}

bool ce_schedule_momentum(const ce_schedule_settings *settings, int64_t update, double *beta1, double *beta2)
{
    int64_t start = settings->last_batch_iteration;
    if (!settings->cycle_momentum || !settings->shape || !settings->shape->momentum || (update == 0 && start >= 0))
        return false;
    *beta1 = settings->shape->momentum(settings, start + update);
    *beta2 = CYCLED_BETA2;
    return true;
}

void ce_schedule_leave_momentum(ce_json *doc, ce_schedule_settings *settings)
{
    if (settings->cycle_momentum && settings->shape && settings->shape->momentum)
        ce_json_note(doc, "scheduler.params.cycle_momentum",
                     "without effect, as in DeepSpeed, because this optimizer has no betas");
    settings->cycle_momentum = false;
}

/* True if the list "a, b, c" contains this name. */
static bool lists(const char *list, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = list; length && (at = strstr(at, name)); at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ',' || at[length] == 0))
            return true;
    return false;
}

static const ce_schedule *find_shape(ce_json *doc, const char *name)
{
    for (int i = 0; i < SHAPES; i++)
        if (strcmp(shapes[i]->name, name) == 0)
            return shapes[i];
    if (lists(refused_types, name))
        ce_json_fault(doc, "scheduler.type",
                      "not supported: %s schedule %s, because no PyTorch runs here; there are %.*s, and "
                      "cs_set_schedule for a program's own",
                      *name >= 'a' ? "Hugging Face's" : "PyTorch's", name, NAMES_LENGTH, names);
    else
        ce_json_fault(doc, "scheduler.type", "no schedule is named \"%.48s\"; there are %.*s", name, NAMES_LENGTH,
                      names);
    return NULL;
}

static bool is_there(const json_t *params, const char *name)
{
    return json_object_get(params, name) && !json_is_null(json_object_get(params, name));
}

/* Returns the key that says when the schedule ends, or NULL if this schedule does not end. */
static const ce_key *find_total(const ce_schedule *shape)
{
    const ce_key *key = ce_keys_find(shape->keys, shape->key_count, "total_num_steps");
    return key ? key : ce_keys_find(shape->keys, shape->key_count, "total_iters");
}

const char *ce_schedule_total(const ce_schedule_settings *settings)
{
    const ce_key *key = settings->shape ? find_total(settings->shape) : NULL;
    return key ? key->name : NULL;
}

static void resolve_total(ce_json *doc, json_t *params, int64_t total_steps, ce_schedule_settings *settings)
{
    const ce_key *total = find_total(settings->shape);
    bool needed = total && strcmp(total->fallback, "null") == 0;
    if (!total && settings->warmup_ratio <= 0)
        return;
    if (!total || ce_keys_is_auto(params, total->name) || (!needed && settings->total_num_steps == 0)) {
        settings->total_is_auto = true;
        settings->total_num_steps = total_steps;
        if (total)
            json_object_set_new(params, total->name, json_string("auto"));
    } else if (!is_there(params, total->name) && needed) {
        ce_json_fault(doc, "scheduler.params", "%s needs \"total_num_steps\" (\"auto\": cspeed.steps)",
                      settings->shape->name);
    }
    if (settings->total_num_steps > 0 && settings->total_num_steps < settings->warmup_num_steps)
        ce_json_note(doc, "scheduler.params.total_num_steps",
                     "%lld is below warmup_num_steps, %lld: the rate falls to its end right after the warm-up",
                     (long long)settings->total_num_steps, (long long)settings->warmup_num_steps);
}

/* Decides between warmup_num_steps and warmup_ratio. A missing warmup_num_steps is 0 beside a ratio, whatever its
 * default. */
static void resolve_warmup(ce_json *doc, const json_t *params, ce_schedule_settings *settings)
{
    bool given = is_there(params, "warmup_num_steps") && !ce_keys_is_auto(params, "warmup_num_steps");
    if (ce_keys_is_auto(params, "warmup_num_steps") || (settings->warmup_ratio > 0 && !given))
        settings->warmup_num_steps = 0;
    if (settings->warmup_ratio > 0 && settings->warmup_num_steps > 0)
        ce_json_fault(doc, "scheduler.params.warmup_ratio", "warmup_num_steps is given too: leave one of them out");
}

/* Checks where Trainer's schedules end. */
static void check_end(ce_json *doc, const json_t *params, const ce_schedule_settings *settings)
{
    const ce_schedule *shape = settings->shape;
    if (ce_keys_find(shape->keys, shape->key_count, "min_lr") &&
        is_there(params, "min_lr") == is_there(params, "min_lr_rate"))
        ce_json_fault(doc, "scheduler.params", "%s needs one of \"min_lr\" and \"min_lr_rate\"", shape->name);
    if (ce_keys_find(shape->keys, shape->key_count, "lr_end") && settings->lr_end >= settings->base_rate)
        ce_json_fault(doc, "scheduler.params.lr_end", "%g is not below optimizer.params.lr, %g", settings->lr_end,
                      settings->base_rate);
}

/* Adds an error to doc if this schedule has the key without a default, and the file does not contain it. */
static void require(ce_json *doc, const json_t *params, const ce_schedule *shape, const char *name)
{
    const ce_key *key = ce_keys_find(shape->keys, shape->key_count, name);
    if (key && strcmp(key->fallback, "null") == 0 && !is_there(params, name))
        ce_json_fault(doc, "scheduler.params", "%s needs \"%s\"", shape->name, name);
}

/* Replaces a list of one number by the number. DeepSpeed accepts a list with one number for each parameter group. */
static void unwrap_lists(json_t *params, const ce_schedule *shape)
{
    for (int i = 0; i < shape->key_count; i++) {
        json_t *value = json_object_get(params, shape->keys[i].name);
        if (json_is_array(value) && json_array_size(value) == 1)
            json_object_set(params, shape->keys[i].name, json_array_get(value, 0));
    }
}

/* Removes the key that says when the schedule ends. Used if the value of this key is "auto" and the number of steps is
 * not known yet. Returns the removed value; the caller owns this value. */
static json_t *remove_total(json_t *params, const ce_schedule *shape)
{
    json_t *value = json_incref(json_object_get(params, find_total(shape)->name));
    json_object_del(params, find_total(shape)->name);
    return value;
}

/* Adds a note if the file does not contain warmup_max_lr and DeepSpeed's default, a number, differs from the
 * optimizer's rate. The user may expect that the rate rises to the optimizer's rate. */
static void note_rate(ce_json *doc, const json_t *params, const ce_schedule_settings *settings)
{
    const ce_key *key = ce_keys_find(settings->shape->keys, settings->shape->key_count, "warmup_max_lr");
    if (key && strcmp(key->fallback, "null") != 0 && !is_there(params, key->name) &&
        settings->warmup_max_lr != settings->base_rate)
        ce_json_note(doc, "scheduler.params.warmup_max_lr",
                     "not in the file: the rate rises to DeepSpeed's default, %g, and not to optimizer.params.lr, %g",
                     settings->warmup_max_lr, settings->base_rate);
}

static void read_params(ce_json *doc, json_t *params, int64_t total_steps, ce_schedule_settings *settings)
{
    static const char *const needed[] = { "cycle_min_lr", "cycle_max_lr", "T_0",  "num_decay_steps",
                                          "T_max",        "step_size",    "gamma" };
    const ce_schedule *shape = settings->shape;
    unwrap_lists(params, shape);
    ce_keys_fill(doc, params, "scheduler.params", settings, shape->keys, shape->key_count);
    if (ce_keys_is_auto(params, "warmup_max_lr"))
        settings->warmup_max_lr = settings->base_rate;
    resolve_warmup(doc, params, settings);
    if (settings->cycle_second_step_size < 0)
        settings->cycle_second_step_size = settings->cycle_first_step_size;
    if (settings->cycle_second_stair_count < 0)
        settings->cycle_second_stair_count = settings->cycle_first_stair_count;
    note_rate(doc, params, settings);
    resolve_total(doc, params, total_steps, settings);
    check_end(doc, params, settings);
    bool open = settings->total_is_auto && total_steps == 0 && find_total(shape);
    json_t *unknown = open ? remove_total(params, shape) : NULL;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        require(doc, params, shape, needed[i]);
    ce_keys_settle(doc, params, "scheduler.params", settings, shape->keys, shape->key_count);
    if (unknown) {
        char path[64];
        snprintf(path, sizeof path, "scheduler.params.%s", find_total(shape)->name);
        ce_json_mark(doc, path, "auto: known once the data is read");
        json_object_set_new(params, find_total(shape)->name, unknown);
    }
}

void ce_schedule_read(ce_json *doc, json_t *section, double base_rate, int64_t total_steps,
                      ce_schedule_settings *settings)
{
    section_text text;
    *settings = (ce_schedule_settings){ .base_rate = base_rate,
                                        .warmup_max_lr = base_rate,
                                        .last_batch_iteration = -1,
                                        .cycle_second_step_size = -1,
                                        .cycle_second_stair_count = -1,
                                        .num_stable_steps = -1,
                                        .min_lr = -1,
                                        .min_lr_rate = -1,
                                        .warmup_lr_rate = -1 };
    if (!section)
        return;
    ce_keys_fill(doc, section, "scheduler", &text, CE_KEYS(section_keys));
    if (!text.type)
        ce_json_fault(doc, "scheduler", "\"type\" is missing; there are %.*s", NAMES_LENGTH, names);
    else
        settings->shape = find_shape(doc, text.type);
    if (!json_object_get(section, "params"))
        json_object_set_new(section, "params", json_object());
    if (settings->shape)
        read_params(doc, json_object_get(section, "params"), total_steps, settings);
}

void ce_schedule_help(void)
{
    char heading[96];
    ce_keys_help("scheduler", CE_KEYS(section_keys));
    for (int i = 0; i < SHAPES; i++) {
        snprintf(heading, sizeof heading, "scheduler.params of %s", shapes[i]->name);
        ce_keys_help(heading, shapes[i]->keys, shapes[i]->key_count);
    }
    printf("\n## Schedules that are not supported\n\nPyTorch's and Hugging Face's %s.\n", refused_types);
}
