/* strings.c - converts booleans and numbers that are written as strings, in sections where DeepSpeed does so.
 *
 * DeepSpeed's pydantic sections read "true" as true and "3" as 3. In all other sections DeepSpeed keeps the string, and
 * cspeed reports an error. */
#include "json/value.h"
#include "config/resolve.h"
#include "config/sections.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const coercing[] = {
    "zero_optimization",
    "zero_optimization.offload_param",
    "zero_optimization.offload_optimizer",
    "fp16",
    "bf16",
    "csv_monitor",
    "tensorboard",
    "wandb",
    "comet",
    "comms_logger",
    "timers.throughput",
};

/* Converts the words that pydantic accepts as a boolean, in upper or lower case. Returns NULL for any other text. */
static json_t *boolean_of(const char *text)
{
    static const char *const words[][2] = {
        { "false", "true" }, { "0", "1" }, { "off", "on" }, { "f", "t" }, { "n", "y" }, { "no", "yes" },
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int truth = 0; truth < 2; truth++)
            if (strcasecmp(text, words[i][truth]) == 0)
                return json_boolean(truth);
    return NULL;
}

/* Converts decimal digits with an optional sign and an optional fraction of zeros. Returns NULL if `text` has another
 * form, or 19 or more digits. */
static json_t *integer_of(const char *text)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    size_t digits = strspn(text + (*text == '-' || *text == '+'), "0123456789");
    size_t zeros = *end == '.' ? strspn(end + 1, "0") : 0;
    bool whole = zeros > 0 && end[1 + zeros] == 0;
    return digits > 0 && digits < 19 && (*end == 0 || whole) ? json_integer(value) : NULL;
}

static json_t *number_of(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    bool plain = *text && !*end && text[strspn(text, "+-.0123456789eE")] == 0;
    return plain ? json_real(value) : NULL; /* json_real returns NULL for an infinite value. */
}

/* Returns the type of a row's values. For an inert or refused row, that is the type of its default or sample. */
static ce_key_type type_of(const ce_key *key)
{
    json_t *sample = key->type >= CE_KEY_INERT ? ce_value_sample(key) : NULL;
    bool whole = json_is_integer(sample) || key->max == INFINITY;
    ce_key_type type = json_is_boolean(sample)  ? CE_KEY_BOOL
                       : json_is_number(sample) ? (whole ? CE_KEY_INT : CE_KEY_NUMBER)
                                                : key->type;
    json_decref(sample);
    return type;
}

static void coerce(ce_json *doc, json_t *object, const char *path, const ce_key *key)
{
    char full[160], shown[64];
    const char *text = json_string_value(json_object_get(object, key->name));
    ce_key_type type = text ? type_of(key) : CE_KEY_JSON;
    json_t *value = type == CE_KEY_BOOL     ? boolean_of(text)
                    : type == CE_KEY_INT    ? integer_of(text)
                    : type == CE_KEY_NUMBER ? number_of(text)
                                            : NULL;
    if (!value)
        return;
    snprintf(full, sizeof full, "%s.%s", path, key->name);
    ce_json_note(doc, full, "the string \"%.20s\" is taken for %s, as DeepSpeed does; write it without quotes", text,
                 ce_json_show(value, shown, sizeof shown));
    json_object_set_new(object, key->name, value);
}

void ce_strings_resolve(cs_config *config)
{
    for (size_t i = 0; i < sizeof coercing / sizeof *coercing; i++) {
        const ce_section *section = ce_sections_find(coercing[i], strlen(coercing[i]));
        const char *path = ce_legacy_spelling(config->doc, coercing[i]);
        json_t *object = ce_json_find(config->doc, path);
        for (int k = 0; section && k < section->count; k++)
            coerce(config->doc, object, path, &section->keys[k]);
    }
}
