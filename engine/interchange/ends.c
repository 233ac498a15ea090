/* ends.c - the ids of the tokens that end a text, as a model's folder names them. */
#include "base/log.h"
#include "base/files.h"
#include "interchange/huggingface.h"

#include <stdlib.h>

void ce_huggingface_add_ends(json_t *ids, const json_t *value)
{
    size_t index;
    json_t *id;
    json_array_foreach (value, index, id)
        ce_huggingface_add_ends(ids, id);
    json_array_foreach (ids, index, id)
        if (json_equal(id, value))
            return;
    if (json_is_integer(value))
        json_array_append(ids, (json_t *)(uintptr_t)value);
}

cs_status ce_huggingface_ends(json_t *ids, json_t **generation, const char *folder, const json_t *config)
{
    ce_json *doc = NULL;
    char *path = folder ? ce_files_join(folder, "generation_config.json") : NULL;
    cs_status status = path ? ce_json_open(&doc, path) : CS_OK;
    free(path);
    *generation = doc ? json_incref(ce_json_root(doc)) : json_object();
    ce_json_close(doc);
    const json_t *known = json_object_get(*generation, "eos_token_id");
    ce_huggingface_add_ends(ids, known ? known : json_object_get(config, "eos_token_id"));
    return status == CS_NOT_FOUND ? CS_OK : status;
}
