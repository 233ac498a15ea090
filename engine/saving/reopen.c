/* reopen.c - cs_reopen: derives the configuration for using a trained model from its folder. */
#include "base/must.h"
#include "base/misuse.h"
#include "core/engine.h"
#include "hub/hub.h"
#include "checkpoint/catalog.h"
#include "base/files.h"
#include "checkpoint/line.h"
#include "checkpoint/manifest.h"
#include "checkpoint/staging.h"

#include <stdlib.h>
#include <string.h>

enum { CONFIG_LIMIT = 1 << 26, USUAL_LENGTH = 256 };

/* ---- choice of the checkpoint ---- */

typedef struct {
    char *dir, *name, *tag; /* The checkpoint is in the folder dir/name. `tag` is NULL if the caller gave none. */
} choice;

static void drop(choice *chosen)
{
    free(chosen->dir);
    free(chosen->name);
    free(chosen->tag);
}

/* Chooses the checkpoint whose folder DIR/NAME is `source` itself. */
static cs_status choose_itself(choice *chosen, const char *source)
{
    CE_CLOSED(ce_manifest_close) ce_manifest manifest = { 0 };
    CE_FREED char *path = realpath(source, NULL);
    char *slash = path ? strrchr(path, '/') : NULL;
    CE_TRY(slash ? ce_manifest_load(&manifest, path) : ce_fail(CS_NOT_FOUND, "there is no %s", source));
    *chosen = (choice){ ce_must_copy_part(path, slash == path ? 1 : (size_t)(slash - path)), ce_must_copy(slash + 1),
                        ce_must_copy(manifest.tag) };
    return CS_OK;
}

/* Checks the manifest and the files of a checkpoint, as cs_load_checkpoint does before it reads the checkpoint. */
static cs_status check_whole(const char *dir, const char *name)
{
    CE_CLOSED(ce_manifest_close) ce_manifest manifest = { 0 };
    CE_FREED char *folder = ce_files_join(dir, name);
    CE_TRY(ce_manifest_load(&manifest, folder));
    return ce_manifest_check_files(&manifest, folder);
}

/* Chooses the checkpoint with this tag. If `tag` is NULL, chooses as cs_load_checkpoint does: the checkpoint that the
 * file `latest` names or, if that checkpoint is damaged, its newest complete ancestor. If there is no file `latest`,
 * chooses the newest complete checkpoint. */
static cs_status choose_inside(choice *chosen, const char *dir, const char *tag)
{
    char name[CE_TAG_BYTES];
    ce_catalog catalog;
    char hint[CE_HUB_HINT];
    ce_hub_hint(hint, dir);
    if (!ce_files_exists(dir))
        return ce_fail(CS_NOT_FOUND,
                       "%s: no such folder; name the output folder of a training, one checkpoint in it, "
                       "or a Hugging Face folder%s",
                       dir, hint);
    if (!tag)
        ce_staging_recover(dir);
    cs_status status = tag ? ce_catalog_find(name, dir, tag) : ce_catalog_latest(name, dir);
    bool named = status == CS_OK;
    if (named && !tag)
        status = check_whole(dir, name);
    if (tag || status == CS_OK || status == CS_IO_ERROR) { /* a file that cannot be read proves no damage */
        CE_TRY(status);
        *chosen = (choice){ ce_must_copy(dir), ce_must_copy(name), tag ? ce_must_copy(tag) : NULL };
        return CS_OK;
    }
    CE_TRY(ce_catalog_open(&catalog, dir));
    if (named)
        ce_line_follow(&catalog, dir, name);
    if (catalog.count > 0)
        *chosen = (choice){ ce_must_copy(dir), ce_must_copy(catalog.items[0].name), NULL };
    ce_catalog_close(&catalog);
    if (named && !chosen->dir)
        /* check_whole is called again, so that cs_error() describes the checkpoint that `latest` names. */
        return check_whole(dir, name);
    if (chosen->dir)
        return CS_OK;
    if (ce_files_holds(dir, "adapter_config.json"))
        return ce_fail(CS_NOT_FOUND,
                       "%s is an adapter (adapter_config.json) and no model: give its base model as the model, and "
                       "--adapter %s",
                       dir, dir);
    return ce_fail(CS_NOT_FOUND,
                   "%s is neither a folder of checkpoints, nor a checkpoint, nor a Hugging Face folder: there is no "
                   "latest, manifest.json or config.json in it",
                   dir);
}

/* ---- the configuration without its training keys ---- */

static void copy(json_t *to, json_t *from, const char *key)
{
    json_t *value = json_object_get(from, key);
    if (value && !json_is_null(value))
        json_object_set(to, key, value);
}

static void copy_enabled(json_t *to, json_t *from, const char *key)
{
    if (json_is_true(json_object_get(json_object_get(from, key), "enabled")))
        json_object_set_new(to, key, json_pack("{s:b}", "enabled", 1));
}

static json_t *reduced(json_t *full)
{
    static const char *const names[] = { "model", "seed", "device", "threads" };
    static const char *const texts[] = { "seq_len", "train",   "valid",    "packing", "tokenizer",
                                         "field",   "columns", "template", "cache" };
    json_t *ours = json_object(), *theirs = json_object_get(full, "cspeed"), *root = json_object();
    static const char *const adapters[] = { "r", "alpha", "rslora", "dora", "bias", "targets" };
    static const char *const four_bit[] = { "load_in_4bit", "bnb_4bit_quant_type", "bnb_4bit_use_double_quant",
                                            "llm_int8_skip_modules" };
    json_t *quantization = json_object(), *lora = json_object(), *data = json_object(),
           *from = json_object_get(theirs, "data");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        copy(ours, theirs, names[i]);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        copy(data, from, texts[i]);
    for (size_t i = 0; i < sizeof adapters / sizeof *adapters; i++)
        copy(lora, json_object_get(theirs, "lora"), adapters[i]);
    for (int i = 0; i < CE_PEFT_KEYS; i++)
        copy(lora, json_object_get(theirs, "lora"), ce_config_peft_keys[i]);
    if (json_integer_value(json_object_get(lora, "r")) > 0) {
        json_object_set(ours, "lora", lora);
        for (size_t i = 0; i < sizeof four_bit / sizeof *four_bit; i++)
            copy(quantization, json_object_get(theirs, "quantization_config"), four_bit[i]);
        json_object_set(ours, "quantization_config", quantization);
    }
    json_decref(quantization);
    json_decref(lora);
    json_object_set_new(ours, "data", data);
    json_object_set_new(root, "cspeed", ours);
    copy(root, full, "train_micro_batch_size_per_gpu");
    copy(root, full, "amp");
    copy(root, full, "torch_autocast");
    copy_enabled(root, full, "fp16");
    copy_enabled(root, full, "bf16");
    return root;
}

/* Reads the saved configuration and verifies its checksum, because the configuration determines what the numbers
 * mean. */
static cs_status read_config(json_t **full, const char *folder)
{
    CE_CLOSED(ce_manifest_close) ce_manifest manifest = { 0 };
    CE_FREED char *text = NULL;
    size_t length = 0;
    CE_TRY(ce_manifest_load(&manifest, folder));
    CE_TRY(ce_manifest_read_text(&text, &length, &manifest, folder, CE_CONFIG_FILE));
    if (!text)
        return ce_fail(CS_NOT_FOUND, "%s: the checkpoint was saved without %s", folder, CE_CONFIG_FILE);
    *full = ce_json_strict(text, length);
    return *full ? CS_OK : ce_fail(CS_BAD_FILE, "%s/%s: %s", folder, CE_CONFIG_FILE, cs_error());
}

static cs_status read_checkpoint(json_t **root, const choice *chosen)
{
    json_t *full;
    CE_FREED char *folder = ce_files_join(chosen->dir, chosen->name);
    CE_TRY(read_config(&full, folder));
    *root = reduced(full);
    json_decref(full);
    json_t *ours = json_object_get(*root, "cspeed");
    json_object_set_new(ours, "load", json_string(chosen->dir));
    if (chosen->tag)
        json_object_set_new(ours, "tag", json_string(chosen->tag));
    return CS_OK;
}

/* Makes the configuration for a Hugging Face folder. seq_len is at most the model's number of positions. */
static json_t *of_folder(const char *folder)
{
    static const char *const names[] = { "n_positions", "n_ctx", "max_position_embeddings" };
    CE_FREED char *path = ce_files_join(folder, "config.json");
    CE_FREED char *text = NULL;
    size_t length;
    json_int_t seq_len = USUAL_LENGTH, positions;
    bool there = ce_files_read(&text, &length, path, CONFIG_LIMIT) == CS_OK;
    json_auto_t *config = there ? ce_json_strict(text, length) : NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        positions = json_integer_value(json_object_get(config, names[i]));
        seq_len = positions > 0 && positions < seq_len ? positions : seq_len;
    }
    return json_pack("{s:{s:s, s:{s:I}}}", "cspeed", "model", folder, "data", "seq_len", seq_len);
}

/* ---- cs_reopen ---- */

/* Opens a configuration for a model that is not trained. SGD needs no memory for optimizer state, and at stage 0 (the
 * default) every rank holds the whole model. */
static cs_status open_text(cs_config **config, json_t *root, const char *name)
{
    if (!json_object_get(root, "train_micro_batch_size_per_gpu"))
        json_object_set_new(root, "train_micro_batch_size_per_gpu", json_integer(1));
    json_object_set_new(root, "optimizer", json_pack("{s:s}", "type", "SGD"));
    CE_FREED char *text = json_dumps(root, JSON_INDENT(2));
    ce_json *doc = NULL;
    CE_TRY(ce_json_parse(&doc, text, strlen(text), name));
    *config = ce_must_alloc(sizeof **config);
    (*config)->doc = doc;
    (*config)->reads = true;
    return CS_OK;
}

cs_status cs_reopen(cs_config **config, const char *source, const char *tag)
{
    CE_GIVEN(config, source);
    choice chosen = { 0 };
    json_auto_t *root = NULL;
    char cached[CE_HUB_PATH];
    *config = NULL;
    bool found;
    CE_TRY(ce_hub_find(&found, cached, source));
    source = found ? cached : source;
    bool folder = !ce_files_holds(source, "latest") && !ce_files_holds(source, CE_MANIFEST_FILE) &&
                  ce_files_holds(source, "config.json");
    cs_status status = CS_OK;
    if (folder && tag)
        return ce_fail(CS_BAD_CONFIG, "%s is a Hugging Face folder, which has no tag \"%s\"", source, tag);
    if (folder) {
        root = of_folder(source);
    } else {
        status = !tag && ce_files_holds(source, CE_MANIFEST_FILE) ? choose_itself(&chosen, source)
                                                                  : choose_inside(&chosen, source, tag);
        if (status == CS_OK)
            status = read_checkpoint(&root, &chosen);
        drop(&chosen);
    }
    if (status == CS_OK)
        status = open_text(config, root, source);
    return status;
}
