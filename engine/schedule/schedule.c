/* schedule.c - step to learning rate; the table of shapes. */
#include "schedule/schedule.h"
#include "schedule/warmup.h"

#include <stdio.h>
#include <string.h>

static const cs_schedule *const shapes[] = {&cs_schedule_warmup, &cs_schedule_warmup_decay, &cs_schedule_warmup_cosine};

enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct {
    const char *type;
} section_text;

static const cs_key section_keys[] = {
    {"type", CS_KEY_STRING, offsetof(section_text, type), "null", 0, 0, NULL,
     "WarmupLR, WarmupDecayLR or WarmupCosineLR"},
    {"params", CS_KEY_SECTION, 0, "{}", 0, 0, NULL, "the tables below"},
};

static const char refused_types[] = "LRRangeTest and OneCycle"; /* DeepSpeed's other two */

double cs_schedule_rate(const cs_schedule_settings *settings, int64_t update)
{
    int64_t start = settings->last_batch_iteration;
    if (!settings->shape ||
        (update == 0 && start >= 0)) /* a schedule that starts midway leaves the optimizer's lr until its first step */
        return settings->base_rate;
    return settings->shape->rate(settings, start + update);
}

static const cs_schedule *find_shape(cs_json *doc, const char *name)
{
    for (int i = 0; i < SHAPES; i++)
        if (strcmp(shapes[i]->name, name) == 0)
            return shapes[i];
    if (strcmp(name, "LRRangeTest") == 0 || strcmp(name, "OneCycle") == 0)
        cs_json_fault(doc, "scheduler.type",
                      "not supported: the schedule %s, because it is not written yet; WarmupLR, WarmupDecayLR and "
                      "WarmupCosineLR are there",
                      name);
    else
        cs_json_fault(doc, "scheduler.type",
                      "no schedule is named \"%.48s\"; WarmupLR, WarmupDecayLR and WarmupCosineLR are there", name);
    return NULL;
}

static void resolve_total(cs_json *doc, json_t *params, int64_t total_steps, cs_schedule_settings *settings)
{
    if (!cs_keys_find(settings->shape->keys, settings->shape->key_count, "total_num_steps"))
        return;
    if (cs_keys_is_auto(params, "total_num_steps")) {
        settings->total_is_auto   = true;
        settings->total_num_steps = total_steps;
    } else if (!json_object_get(params, "total_num_steps") ||
               json_is_null(json_object_get(params, "total_num_steps"))) {
        cs_json_fault(doc, "scheduler.params", "%s needs \"total_num_steps\" (\"auto\": cspeed.steps)",
                      settings->shape->name);
    }
    if (settings->total_num_steps > 0 && settings->total_num_steps < settings->warmup_num_steps)
        cs_json_note(doc, "scheduler.params.total_num_steps",
                     "%lld is below warmup_num_steps, %lld: the rate falls to its end right after the warm-up",
                     (long long)settings->total_num_steps, (long long)settings->warmup_num_steps);
}

void cs_schedule_read(cs_json *doc, json_t *section, double base_rate, int64_t total_steps,
                      cs_schedule_settings *settings)
{
    section_text text;
    json_t      *params = json_object_get(section, "params");
    *settings = (cs_schedule_settings){.base_rate = base_rate, .warmup_max_lr = base_rate, .last_batch_iteration = -1};
    if (!section)
        return;
    cs_keys_fill(doc, section, "scheduler", &text, CS_KEYS(section_keys));
    if (!text.type)
        cs_json_fault(doc, "scheduler", "\"type\" is missing: WarmupLR, WarmupDecayLR or WarmupCosineLR");
    else
        settings->shape = find_shape(doc, text.type);
    if (!settings->shape)
        return;
    const cs_schedule *shape = settings->shape;
    cs_keys_fill(doc, params, "scheduler.params", settings, shape->keys, shape->key_count);
    if (cs_keys_is_auto(params, "warmup_max_lr"))
        settings->warmup_max_lr = base_rate;
    resolve_total(doc, params, total_steps, settings);
    cs_keys_settle(doc, params, "scheduler.params", settings, shape->keys, shape->key_count);
}

void cs_schedule_help(void)
{
    char heading[96];
    cs_keys_help("scheduler", CS_KEYS(section_keys));
    for (int i = 0; i < SHAPES; i++) {
        snprintf(heading, sizeof heading, "scheduler.params of %s", shapes[i]->name);
        cs_keys_help(heading, shapes[i]->keys, shapes[i]->key_count);
    }
    printf("\nschedules that are not supported\n  %s, because they are not written yet\n", refused_types);
}
