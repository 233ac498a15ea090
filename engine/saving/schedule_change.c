/* schedule_change.c - after a resume: logs a message if the learning-rate schedule differs from that of the checkpoint.
 *
 * The message is logged at the first step, because until then the program may still set the number of steps
 * (cs_set_total_steps) or a schedule of its own (cs_set_schedule). */
#include "base/must.h"
#include "saving/saving.h"
#include "base/log.h"
#include "json/value.h"
#include "checkpoint/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANGES_BYTES = 512, VALUE_BYTES = 48 };

/* Reads the schedule of a resolved configuration. Returns false if the configuration has errors. */
static bool read_schedule(ce_schedule_settings *schedule, const char *text, size_t length)
{
    ce_json *doc = NULL;
    ce_optim_settings optim;
    if (ce_json_parse(&doc, text, length, CE_CONFIG_FILE) != CS_OK)
        return false;
    json_t *optimizer = ce_json_find(doc, "optimizer"), *scheduler = ce_json_find(doc, "scheduler");
    json_int_t steps = json_integer_value(ce_json_find(doc, "cspeed.steps"));
    ce_optim_read(doc, json_is_object(optimizer) ? optimizer : NULL, &optim);
    ce_schedule_read(doc, json_is_object(scheduler) ? scheduler : NULL, optim.rate, steps, schedule);
    bool good = ce_json_verdict(doc) == CS_OK;
    ce_json_close(doc);
    return good;
}

void ce_schedule_change_read(cs_engine *engine, const ce_checkpoint_reader *reader)
{
    CE_FREED char *text = NULL;
    size_t length = 0;
    engine->saving->resumed.known = false;
    if (engine->world.rank == 0 &&
        ce_manifest_read_text(&text, &length, &reader->manifest, reader->path, CE_CONFIG_FILE) == CS_OK && text)
        engine->saving->resumed.known = read_schedule(&engine->saving->resumed.schedule, text, length);
}

static void add_change(char changes[CHANGES_BYTES], const char *name, const json_t *before, const json_t *after)
{
    char values[2][VALUE_BYTES];
    size_t used = strlen(changes);
    if (!json_equal(before, after))
        snprintf(changes + used, CHANGES_BYTES - used, "%s%s %s became %s", used ? ", " : "", name,
                 ce_json_show(before, values[0], VALUE_BYTES), ce_json_show(after, values[1], VALUE_BYTES));
}

static void compare_keys(char changes[CHANGES_BYTES], const ce_schedule_settings *before,
                         const ce_schedule_settings *after)
{
    for (int i = 0; i < after->shape->key_count; i++) {
        const ce_key *key = &after->shape->keys[i];
        json_auto_t *one = ce_value_any(key, (const char *)before + key->offset);
        json_auto_t *other = ce_value_any(key, (const char *)after + key->offset);
        add_change(changes, key->name, one, other);
    }
}

static const char *name_of(const ce_schedule_settings *schedule)
{
    return schedule->shape ? schedule->shape->name : "a constant rate";
}

/* Writes what has changed between two schedules, or "" if nothing has. */
static void compare(char changes[CHANGES_BYTES], const ce_schedule_settings *before, const ce_schedule_settings *after)
{
    *changes = '\0';
    if (before->shape != after->shape)
        snprintf(changes, CHANGES_BYTES, "%s became %s", name_of(before), name_of(after));
    else if (after->shape)
        compare_keys(changes, before, after);
    else if (before->base_rate != after->base_rate)
        snprintf(changes, CHANGES_BYTES, "lr %g became %g", before->base_rate, after->base_rate);
}

void ce_schedule_change_say(cs_engine *engine)
{
    char changes[CHANGES_BYTES];
    const ce_schedule_settings *before = &engine->saving->resumed.schedule, *after = &engine->settings->schedule;
    if (!engine->saving->resumed.known)
        return;
    engine->saving->resumed.known = false;
    compare(changes, before, after);
    if (!*changes || engine->rate)
        return;
    ce_log(
        CE_LOG_INFO,
        "note: the schedule of the learning rate has changed since the checkpoint: %s. This run's schedule holds: step "
        "%lld takes %g, and by the checkpoint's it would take %g",
        changes, (long long)engine->metrics.step + 1, ce_schedule_rate(after, engine->scheduled),
        ce_schedule_rate(before, engine->scheduled));
}
