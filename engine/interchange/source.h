/* source.h - named tensors that are read range by range, whatever they lie in: a checkpoint (source_checkpoint.c), a Hugging Face
 * folder (huggingface.c), llm.c's file (llmc.c). One process; memory does not grow with the tensors.
 *
 *     cs_source source;
 *     CS_TRY(cs_huggingface_open(&source, "models/smollm"));
 *     CS_TRY(source.read(&source, cs_source_find(&source, name), range, to, CS_F32));
 *     cs_source_close(&source); */
#ifndef CS_INTERCHANGE_SOURCE_H
#define CS_INTERCHANGE_SOURCE_H

#include "base/json.h"
#include "base/range.h"

enum { CS_SOURCE_BUFFER = 16 << 20 };

typedef struct {
    const char *name; /* belongs to the source */
    cs_dtype dtype;
    int32_t dims;
    int64_t shape[CS_MAX_DIMS];
} cs_source_tensor;

typedef struct cs_source cs_source;
struct cs_source {
    cs_source_tensor *tensors;
    int64_t count;
    /* Elements `range` of a tensor, converted to `dtype`. */
    cs_status (*read)(cs_source *source, int64_t tensor, cs_range range, void *to, cs_dtype dtype);
    void (*close)(cs_source *source); /* frees `own` */
    void *own;
};

int64_t cs_source_find(const cs_source *source, const char *name); /* -1: not there */
void cs_source_close(cs_source *source);                           /* accepts a zeroed one */

/* The weights of a checkpoint: dir is one, or holds it under `tag`, NULL being what latest names or, with a warning,
 * the newest whole one. `provenance`, of who saved it, is borrowed. */
cs_status cs_source_checkpoint_open(cs_source *source, json_t **provenance, const char *dir, const char *tag);
cs_status cs_huggingface_open(cs_source *source, const char *folder);
/* llm.c's GPT-2 checkpoint, with a config.json that describes it. */
cs_status cs_llmc_open(cs_source *source, json_t **config, const char *path);

#endif
