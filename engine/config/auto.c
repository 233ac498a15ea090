/* auto.c - what Hugging Face's integration fills in for "auto" before DeepSpeed sees the file, where the value is not
 * the default of the key: the rate of its trainer, a stage, and sizes that follow from the width of the model. */
#include "config/resolve.h"

#include <stdio.h>

static void put(cs_json *doc, json_t *object, const char *path, const char *name, json_t *value, const char *origin)
{
    char full[96], shown[48];
    snprintf(full, sizeof full, "%s.%s", path, name);
    cs_json_note(doc, full, "\"auto\" became %s, %s", cs_json_show(value, shown, sizeof shown), origin);
    json_object_set_new(object, name, value);
    snprintf(shown, sizeof shown, "auto: %s", origin);
    cs_json_mark(doc, full, shown);
}

static int64_t width_in(const json_t *model)
{
    static const char *const names[] = {"hidden_size", "n_embd", "d_model"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_is_integer(json_object_get(model, names[i])))
            return json_integer_value(json_object_get(model, names[i]));
    return 0;
}

/* 0: the model is the program's own, or its folder says nothing of a width. */
static int64_t find_width(cs_json *doc)
{
    const json_t *model = cs_json_find(doc, "cspeed.model");
    char          path[4096];
    cs_json      *file;
    if (!json_is_string(model))
        return width_in(model);
    snprintf(path, sizeof path, "%s/config.json", json_string_value(model));
    if (cs_json_open(&file, path) != CS_OK)
        return 0; /* said when the model is opened */
    int64_t width = width_in(cs_json_root(file));
    cs_json_close(file);
    return width;
}

void cs_resolve_auto(cs_config *config)
{
    static const char zero[] = "zero_optimization", optimizer[] = "optimizer.params";
    cs_json          *doc    = config->doc;
    json_t           *object = cs_json_find(doc, optimizer);
    double            width  = (double)find_width(doc);
    if (cs_keys_is_auto(object, "lr"))
        put(doc, object, optimizer, "lr", json_real(5e-5), "Hugging Face's default");
    object = cs_json_find(doc, zero);
    if (cs_keys_is_auto(object, "stage"))
        put(doc, object, zero, "stage", json_integer(2), "Accelerate's default");
    if (!(width >= 1 && width < 0x1p30))
        return;
    if (cs_keys_is_auto(object, "reduce_bucket_size"))
        put(doc, object, zero, "reduce_bucket_size", json_integer((int64_t)(width * width)), "hidden size squared");
    if (cs_keys_is_auto(object, "stage3_prefetch_bucket_size"))
        put(doc, object, zero, "stage3_prefetch_bucket_size", json_integer((int64_t)(0.9 * width * width)),
            "0.9 of hidden size squared");
    if (cs_keys_is_auto(object, "stage3_param_persistence_threshold"))
        put(doc, object, zero, "stage3_param_persistence_threshold", json_integer((int64_t)(10 * width)),
            "10 times the hidden size");
}
