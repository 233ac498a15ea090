/* source.h - interface to named tensors that are read range by range: from a checkpoint (source_checkpoint.c) or a
 * Hugging Face folder (huggingface.c). A source is used by one process. Memory use does not depend on the size of the
 * tensors.
 *
 *     ce_source source;
 *     CE_TRY(ce_huggingface_open(&source, "models/smollm"));
 *     CE_TRY(source.read(&source, ce_source_find(&source, name), range, to, CS_F32));
 *     ce_source_close(&source); */
#ifndef CE_INTERCHANGE_SOURCE_H
#define CE_INTERCHANGE_SOURCE_H

#include "json/json.h"
#include "base/boxes.h"

enum { CE_SOURCE_BUFFER = 16 << 20 };

typedef struct {
    const char *name; /* name, which the source owns */
    cs_dtype dtype;
    int32_t dims;
    int64_t shape[CS_MAX_DIMS];
    bool kept; /* The tensor is written with its own data type, whatever that of the others is. */
} ce_source_tensor;

typedef struct ce_source ce_source;
struct ce_source {
    ce_source_tensor *tensors;
    int64_t count;
    /* Reads the elements `range` of tensor number `tensor` into `to`, converted to `dtype`. */
    cs_status (*read)(ce_source *source, int64_t tensor, ce_range range, void *to, cs_dtype dtype);
    void (*close)(ce_source *source); /* Frees private_data. */
    void *private_data;
};

/* Returns the number of elements. */
int64_t ce_source_elements(const ce_source_tensor *tensor);
/* Returns the index of the tensor with this name, or -1 if there is none. */
int64_t ce_source_find(const ce_source *source, const char *name);
/* Reads the elements `range` of `box`, a box of tensor number `tensor`, into `to`, converted to `dtype`. `range` counts in
 * the box's own row-major order. The tensor is a vector or a matrix. If the box has some columns of a matrix, whole rows
 * are read through a buffer. */
cs_status ce_source_read_box(ce_source *source, int64_t tensor, const ce_box *box, ce_range range, void *to,
                             cs_dtype dtype);
void ce_source_close(ce_source *source); /* accepts a source whose bytes are all zero */

/* Opens the weights of a checkpoint. `dir` is the checkpoint's folder, or a folder that contains the checkpoint under
 * the name `tag`. If `tag` is NULL and `dir` is no checkpoint itself, opens the checkpoint that the file dir/latest
 * names, or, with a warning, the newest complete one in `dir`. *provenance, which describes the program that saved the
 * checkpoint, is valid until the source is closed. If `averages` is true, the averages of cspeed.ema_decay are the weights
 * of the trained parameters. */
cs_status ce_source_checkpoint_open(ce_source *source, json_t **provenance, const char *dir, const char *tag,
                                    bool averages);
/* Reads the configuration that the checkpoint was saved with; the caller frees *text. The source must be one that
 * ce_source_checkpoint_open opened. */
cs_status ce_source_checkpoint_config(char **text, size_t *length, const ce_source *source);
cs_status ce_huggingface_open(ce_source *source, const char *folder);

#endif
