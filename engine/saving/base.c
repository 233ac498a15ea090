/* base.c - the digest (SHA-256) of the base model's weights. Adapters are trained for these weights, so the digest must
 * be equal to the one that the checkpoint contains. */
#include "saving/saving.h"
#include "comm/collective_status.h"
#include "interchange/huggingface.h"

#include <string.h>

cs_status ce_base_note(cs_engine *engine, const char *folder)
{
    if (!engine->lora.first || engine->config->reads)
        return CS_OK;
    cs_status status = engine->world.rank == 0 ? ce_huggingface_digest(engine->base_digest, folder) : CS_OK;
    CE_TRY(ce_collective_status(engine->comm, status));
    cs_comm_broadcast(engine->comm, engine->base_digest, CE_MAC_DIGEST, CS_U8, 0);
    return CS_OK;
}

cs_status ce_base_check(const cs_engine *engine, const json_t *provenance)
{
    const char *saved = json_string_value(json_object_get(json_object_get(provenance, "lora"), "base_sha256"));
    if (!saved || !engine->base_digest[0] || strcmp(saved, engine->base_digest) == 0)
        return CS_OK;
    return ce_fail(
        CS_BAD_CONFIG,
        "cspeed.model: the weights in %s are not the base model with which the checkpoint's adapters were trained: "
        "the SHA-256 of their files is %.12s..., and it was %.12s...; name a folder with the earlier weights",
        engine->settings->model_path, engine->base_digest, saved);
}
