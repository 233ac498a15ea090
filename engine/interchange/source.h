/* source.h - interface to named tensors that are read range by range: from a checkpoint (source_checkpoint.c), a
 * Hugging Face folder (huggingface.c), or llm.c's file (llmc.c). Used by one process; memory use does not depend on the
 * size of the tensors.
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
    const char *name; /* owned by the source */
    cs_dtype dtype;
    int32_t dims;
    int64_t shape[CS_MAX_DIMS];
} cs_source_tensor;

typedef struct cs_source cs_source;
struct cs_source {
    cs_source_tensor *tensors;
    int64_t count;
    /* Reads the elements `range` of tensor number `tensor`, converted to `dtype`, into `to`. */
    cs_status (*read)(cs_source *source, int64_t tensor, cs_range range, void *to, cs_dtype dtype);
    void (*close)(cs_source *source); /* frees `own` */
    void *own;
};

int64_t cs_source_find(const cs_source *source, const char *name); /* index of the tensor; -1: no such tensor */
void cs_source_close(cs_source *source);                           /* accepts a zeroed source */

/* Opens the weights of a checkpoint: `dir` is the checkpoint, or a directory that holds it under `tag`. If `tag` is
 * NULL, the one that `latest` names, or, with a warning, the newest complete one. *provenance, which describes the
 * saving program, is borrowed from the source. */
cs_status cs_source_checkpoint_open(cs_source *source, json_t **provenance, const char *dir, const char *tag);
cs_status cs_huggingface_open(cs_source *source, const char *folder);
/* Opens a GPT-2 checkpoint of llm.c, and makes a config.json that describes it (a new reference). */
cs_status cs_llmc_open(cs_source *source, json_t **config, const char *path);

#endif
