/* ends.c - the tokens that end a text of a model that is used, not trained. */
#include "saving/saving.h"
#include "base/misuse.h"
#include "interchange/huggingface.h"

cs_status ce_ends_load(cs_engine *engine)
{
    const char *folders[] = { engine->settings->lora.adapter, engine->settings->model_path };
    const json_t *configs[] = { NULL, engine->model_json };
    cs_status status = CS_OK;
    engine->ends = json_array();
    for (int i = 0; i < 2 && engine->config->reads && status == CS_OK; i++) {
        json_t *generation;
        status = ce_huggingface_ends(engine->ends, &generation, folders[i], configs[i]);
        json_decref(generation);
    }
    return status;
}

bool cs_ends_text(const cs_engine *engine, int32_t token)
{
    CE_GIVEN(engine);
    size_t index;
    json_t *id;
    json_array_foreach (engine->ends, index, id)
        if (json_integer_value(id) == token)
            return true;
    return false;
}
