/* huggingface.h - a Hugging Face model folder: its weights read (source.h), or a new one written.
 *
 * Weights are model.safetensors, or the shards that model.safetensors.index.json names; keys and layouts are those of
 * the model's class in transformers, which are ours too. A folder saved from a model without its head has names without
 * the class's prefix ("h.0.ln_1.weight"): they get it here. Buffers that hold no weights are passed over. */
#ifndef CS_INTERCHANGE_HUGGINGFACE_H
#define CS_INTERCHANGE_HUGGINGFACE_H

#include "interchange/source.h"

/* Whether the folder holds weights. CS_UNSUPPORTED when they are another program's (other_formats.h), with the command that
 * converts them. */
cs_status cs_huggingface_look(bool *found, const char *folder);

/* The tensors that a config.json calls for, with the shapes transformers gives them: `*wanted` of `*count`, and the
 * name of the table of tokens that a tied head is (NULL: it is not tied). CS_UNSUPPORTED for a family that is not known;
 * CS_BAD_FILE where a size is missing. */
cs_status cs_huggingface_names(cs_source_tensor **wanted, int64_t *count, const char **tied, const json_t *config);
void cs_huggingface_free(cs_source_tensor *wanted, int64_t count); /* accepts NULL */

/* A head that is tied to the table `tied` (NULL: nothing to do) leaves the source of a folder, which may hold the table
 * under both names, or under the head's alone, as safetensors' save_model writes it. */
void cs_huggingface_tie(cs_source *source, const char *tied);

/* Strict: every wanted tensor is there in its shape, and there is nothing else. CS_BAD_FILE with all that is missing,
 * unexpected and of another shape; `folder` is for the sentence. */
cs_status cs_huggingface_check(const cs_source *source, const cs_source_tensor *wanted, int64_t count,
                               const char *folder);

typedef struct {
    const char *folder; /* must not be there yet                                              */
    cs_dtype dtype;     /* of every tensor                                                    */
    int64_t max_shard;  /* bytes of a file                                                    */
    json_t *config;     /* config.json; its dtype is set here                                 */
    const char *beside; /* a folder whose tokenizer files are copied, or NULL                 */
} cs_huggingface_output;

/* Writes beside the folder's place, and renames at the end. */
cs_status cs_huggingface_write(const cs_huggingface_output *output, cs_source *source);

/* The weights of a checkpoint (cs_source_checkpoint_open) so, with the config.json of the model they are of; of `output` come
 * folder and max_shard; dtype if `typed`, else the type the training computed in; and beside, else the folder the
 * training started from. The source is left open, for who tells what was written; not after a failure. */
cs_status cs_huggingface_export(cs_source *source, const cs_huggingface_output *output, bool typed, const char *dir,
                                const char *tag);

#endif
