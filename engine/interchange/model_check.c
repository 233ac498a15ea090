/* model_check.c - names everything in a model's files that is not understood. */
#include "interchange/model_check.h"
#include "base/ends_with.h"
#include "base/files.h"
#include "base/must.h"
#include "gguf/describe.h"
#include "gguf/family.h"
#include "hub/hub.h"
#include "interchange/four_bit.h"
#include "interchange/huggingface.h"
#include "text/tokenizer.h"

#include <string.h>

static void set(json_t *report, const char *key, const char *text)
{
    json_object_set_new(report, key, json_string(text));
}

static void add(json_t *report, const char *what, const char *name, const char *why)
{
    json_array_append_new(json_object_get(report, "problems"),
                          json_pack("{s:s, s:s, s:s}", "what", what, "name", name, "why", why));
}

static void add_error(json_t *report, const char *what, const char *name)
{
    add(report, what, name, cs_error());
}

/* ---- GGUF files ---- */

static void check_gguf_tensors(json_t *report, const ce_gguf_file *file)
{
    const ce_gguf_family *family = NULL;
    char name[CE_GGUF_FAMILY_NAME], why[256], type[CE_GGUF_TYPE_NAME];
    if (ce_gguf_family_of_arch(&family, json_string_value(json_object_get(file->keys, "general.architecture"))) !=
        CS_OK)
        return; /* ce_gguf_config says this */
    for (int64_t i = 0; i < file->count; i++) {
        const ce_gguf_tensor *tensor = &file->tensors[i];
        snprintf(why, sizeof why, "is %s; these types are read: %s", ce_gguf_type_name(type, tensor->type),
                 ce_gguf_types_read);
        if (tensor->bytes == 0)
            add(report, "tensor", tensor->name, why);
        if (!ce_gguf_family_tensor(name, family, tensor->name) && strcmp(tensor->name, "rope_freqs.weight") != 0)
            add(report, "tensor", tensor->name, "the architecture has no such tensor");
    }
}

/* Checks what the file says before it is described as a folder. */
static void check_gguf(json_t *report, const char *path)
{
    json_t *made[4] = { NULL };
    ce_gguf_file file;
    if (ce_gguf_open(&file, path) != CS_OK) {
        add_error(report, "file", path);
        return;
    }
    check_gguf_tensors(report, &file);
    if (ce_gguf_config(&made[0], &file, path) != CS_OK)
        add_error(report, "key", path);
    if (ce_gguf_vocabulary(&made[1], &made[2], &made[3], &file, path) != CS_OK)
        add_error(report, "tokenizer", path);
    for (int i = 0; i < 4; i++)
        json_decref(made[i]);
    ce_gguf_close(&file);
}

/* ---- folders ---- */

static bool is_added(const json_t *report, const char *why)
{
    size_t i;
    json_t *one;
    json_array_foreach (json_object_get(report, "problems"), i, one)
        if (strcmp(json_string_value(json_object_get(one, "why")), why) == 0)
            return true;
    return false;
}

/* Adds each line of the message about config.json, which has one for each key: "FILE:LINE:COLUMN at KEY: sentence". */
static void add_keys(json_t *report)
{
    CE_FREED char *lines = ce_must_copy(cs_error());
    char *next;
    for (char *line = strtok_r(lines, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        const char *at = strstr(line, " at "), *end = at ? strstr(at, ": ") : NULL;
        CE_FREED char *key = end ? ce_must_copy_part(at + 4, (size_t)(end - at - 4)) : ce_must_copy("config.json");
        if (!is_added(report, line))
            add(report, "key", key, line);
    }
}

static cs_status open_config(ce_json **doc, const char *path)
{
    CE_TRY(ce_json_open(doc, path));
    if (ce_four_bit_is_described(ce_json_root(*doc)))
        json_object_del(ce_json_root(*doc), "quantization_config");
    return CS_OK;
}

/* Adds the keys of config.json that are refused. */
static void check_keys(json_t *report, const char *path)
{
    cs_model *model = NULL;
    ce_json *doc = NULL;
    ce_model_facts facts = { 0 };
    cs_status status = open_config(&doc, path);
    if (status == CS_OK)
        status = ce_models_open(&model, &facts, doc, ce_json_root(doc), "");
    if (status != CS_OK)
        add_keys(report);
    if (doc)
        ce_json_print_warnings(doc);
    cs_model_free(model);
    ce_json_close(doc);
}

static void add_difference(void *report, ce_difference kind, const char *name, const char *detail)
{
    CE_FREED char *why = kind == CE_DIFFERENCE_SHAPE
                             ? ce_must_copy(detail)
                             : ce_must_print(kind == CE_DIFFERENCE_MISSING ? "%s is needed, and not there"
                                                                           : "%s: the model has no such tensor",
                                             detail);
    add(report,
        kind == CE_DIFFERENCE_MISSING ? "missing"
        : kind == CE_DIFFERENCE_SHAPE ? "shape"
                                      : "tensor",
        name, why);
}

static void check_weights(json_t *report, const cs_model *model, const ce_model_facts *facts, const char *folder)
{
    ce_source source;
    bool found = false;
    if (ce_hub_lacks_weights(folder)) {
        set(report, "weights", "not checked, because they are not in the cache");
        return;
    }
    cs_status status = ce_huggingface_detect(&found, folder);
    if (status == CS_OK && !found) {
        set(report, "weights", "there are none: a training starts from random values");
        return;
    }
    if (status != CS_OK || ce_huggingface_open(&source, folder) != CS_OK) {
        add_error(report, "file", folder);
        return;
    }
    if (ce_huggingface_compare(&source, model, facts, add_difference, report) != CS_OK)
        add_error(report, "file", folder);
    int64_t elements = 0;
    for (int64_t i = 0; i < source.count; i++)
        elements += ce_source_elements(&source.tensors[i]);
    json_object_set_new(report, "tensors", json_integer(source.count));
    json_object_set_new(report, "parameters", json_integer(elements));
    ce_source_close(&source);
}

/* Opens the model in spite of keys that check_keys has added, and compares its tensors. */
static void check_model(json_t *report, const char *path, const char *folder)
{
    cs_model *model = NULL;
    ce_json *doc = NULL;
    ce_model_facts facts = { 0 };
    if (open_config(&doc, path) != CS_OK)
        return; /* check_keys has added this */
    ce_json_lenient(doc);
    const char *type = json_string_value(json_object_get(ce_json_root(doc), "model_type"));
    set(report, "model_type", type ? type : "");
    if (ce_huggingface_open_model(&model, &facts, doc, folder) == CS_OK) {
        set(report, "architecture", facts.architecture);
        check_weights(report, model, &facts, folder);
    } else {
        add_keys(report); /* about values that do not fit each other */
    }
    cs_model_free(model);
    ce_json_close(doc);
}

static void check_tokenizer(json_t *report, const char *folder)
{
    ce_tokenizer *tokenizer = NULL;
    if (!ce_files_holds_tokenizer(folder)) {
        set(report, "tokenizer", "there is none");
        return;
    }
    if (ce_tokenizer_open(&tokenizer, folder) != CS_OK)
        add_error(report, "tokenizer", folder);
    ce_tokenizer_close(tokenizer);
}

cs_status ce_model_check(json_t **report, const char *name)
{
    char cached[CE_HUB_PATH], hint[CE_HUB_HINT];
    bool found = false, gguf = ce_ends_with(name, ".gguf") && !ce_files_is_folder(name);
    *report = json_pack("{s:s, s:[]}", "model", name, "problems");
    if (gguf && ce_files_exists(name))
        check_gguf(*report, name);
    if (json_array_size(json_object_get(*report, "problems")) > 0)
        return CS_OK;
    cs_status status = ce_hub_find(&found, cached, name);
    const char *folder = found ? cached : name;
    CE_FREED char *path = ce_files_join(folder, "config.json");
    if (status == CS_OK && !ce_files_exists(path)) {
        ce_hub_hint(hint, name);
        status = ce_fail(CS_NOT_FOUND, "%s: no such model; there is no %s%s", name, path, hint);
    }
    if (status != CS_OK) {
        json_decref(*report);
        return status;
    }
    check_keys(*report, path);
    check_model(*report, path, folder);
    check_tokenizer(*report, folder);
    return CS_OK;
}
