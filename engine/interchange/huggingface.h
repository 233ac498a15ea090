/* huggingface.h - reads the weights of a Hugging Face model folder as a source of tensors (source.h), and writes such
 * folders.
 *
 * weight_files.h says which files of a folder are read. The names and shapes of
 * the tensors are those of the model's class in transformers; cspeed's models have the same names and shapes. Buffers
 * that hold no weights are skipped. */
#ifndef CE_INTERCHANGE_HUGGINGFACE_H
#define CE_INTERCHANGE_HUGGINGFACE_H

#include "security/mac.h"
#include "interchange/source.h"
#include "models/models.h"

/* Sets *found to true if the folder holds weights. If it holds weights that are not read (weight_files.h), or weights in
 * another program's format (other_formats.h), returns an error that names them and says what to do. */
cs_status ce_huggingface_detect(bool *found, const char *folder);
/* Logs the names of the files in the folder that look like weights and are not read. `source` has been opened from this
 * folder. */
void ce_huggingface_name_others(const ce_source *source, const char *folder);

/* Opens the model that the config.json of the folder describes, as ce_models_open does; `doc` is this config.json. If
 * the head is tied to the token table, but the folder has both tensors with different values, the model's head is not
 * tied, and a warning of doc says so, as in transformers. "tie_word_embeddings" of doc then becomes false. */
cs_status ce_huggingface_open_model(cs_model **model, ce_model_facts *facts, ce_json *doc, const char *folder);

/* Gives the tensors of a Hugging Face folder's source the names that the model has:
 * - If all names have the prefix "module." or "_orig_mod." of a PyTorch wrapper, the prefix is removed, with a message.
 * - If the folder was saved from a model without its head ("h.0.ln_1.weight"), the class's prefix is added.
 * - A token table that a tied head shares may have two names in the folder, its own and the head's, or only the head's
 *   name, as safetensors' save_model writes the table. The table gets its own name only.
 * - A tensor with the matrices of all experts of a layer, as in transformers 5, becomes one tensor for each matrix. */
cs_status ce_huggingface_rename(ce_source *source, const cs_model *model, const ce_model_facts *facts);

/* Gives the tensors of a whole model's folder the names of its text model, and removes those of its other parts. */
void ce_huggingface_unwrap(ce_source *source, const ce_wrapped *wrapped);
/* Replaces *source, which has the tensors of the text model, by a source that has all tensors of the folder under their
 * names there: those of the text model have the values of *source, the others the values and the types of the folder. The
 * new source closes the old one. After a failure *source still has to be closed. */
cs_status ce_huggingface_wrap(ce_source *source, const ce_wrapped *wrapped, const char *folder);

/* Calls ce_huggingface_rename, ce_mxfp4_open and ce_four_bit_open, then `report` for each parameter of the model that the
 * source does not have or has in another shape, and for each other tensor. `detail` is the shape that is wanted or found, or a sentence
 * with both. */
typedef enum { CE_DIFFERENCE_MISSING, CE_DIFFERENCE_UNEXPECTED, CE_DIFFERENCE_SHAPE, CE_DIFFERENCES } ce_difference;
typedef void ce_difference_report(void *to, ce_difference kind, const char *name, const char *detail);
cs_status ce_huggingface_compare(ce_source *source, const cs_model *model, const ce_model_facts *facts,
                                 ce_difference_report *report, void *to);
/* Does the same. Returns CS_BAD_FILE if there is a difference; the message lists the first ones of each kind. `folder` is
 * used in the message only. */
cs_status ce_huggingface_check(ce_source *source, const cs_model *model, const ce_model_facts *facts,
                               const char *folder);

/* Writes to `text` the SHA-256, in hexadecimal digits, of the SHA-256s of all files with weights in a Hugging Face
 * folder. The files are read completely. */
cs_status ce_huggingface_digest(char text[CE_MAC_DIGEST], const char *folder);

/* ce_huggingface_ends reads generation_config.json of the folder (NULL: there is none) into *generation, a new reference
 * to an object, which is empty if there is no such file and after an error. It adds to `ids` the ids that
 * "eos_token_id" of this file names or, if the file has no such key, "eos_token_id" of `config`.
 * ce_huggingface_add_ends adds an id or a list of ids; each id is in the list only once. */
cs_status ce_huggingface_ends(json_t *ids, json_t **generation, const char *folder, const json_t *config);
void ce_huggingface_add_ends(json_t *ids, const json_t *value);

/* Opens the file adapter_model.safetensors of a folder of PEFT. The tensors get the names that they have in the model:
 * without PEFT's prefix "base_model.model.", and without ".base_layer" in the names of biases. */
cs_status ce_huggingface_open_adapter(ce_source *source, const char *folder);

typedef struct {
    bool adapter;       /* True if the files are to be named adapter_config.json and adapter_model.safetensors. */
    const char *folder; /* folder to write, which must not exist */
    cs_dtype dtype;     /* data type of every tensor in the files */
    int64_t max_shard;  /* maximum number of bytes in one file */
    json_t *config;     /* contents of config.json; ce_huggingface_write sets its data type, unless `adapter` is true */
    const char *training;  /* if `config` is NULL, the contents of ds_config.json, which is written instead; or NULL */
    const char *beside;    /* folder of the model from which the tokenizer files are copied, or NULL */
    const char *tokenizer; /* another folder, or a file, from which the tokenizer files are copied instead, or NULL */
    const json_t *files;   /* {NAME: TEXT}: texts of the tokenizer's files instead of those that are copied, or NULL */
    const char *chat;      /* text of chat_template.jinja; NULL means the template beside the tokenizer */
    const json_t *ends;    /* ids of tokens that end an answer, which generation_config.json names; may be NULL */
} ce_huggingface_output;

/* Writes all tensors of the source into a temporary folder next to output->folder, and renames the folder at the
 * end. ce_joined_experts may replace *source. */
cs_status ce_huggingface_write(const ce_huggingface_output *output, ce_source *source);

typedef struct {
    bool typed; /* True if output->dtype is set. */
    /* NULL, or the type of the matrices of a GGUF file (gguf.h), which output->folder then names. */
    const char *gguf;
    bool merge; /* True if adapters are added to the weights. A checkpoint without adapters then gives CS_BAD_CONFIG. */
    bool averages; /* True if the averages of cspeed.ema_decay are written instead of the weights. */
} ce_huggingface_choice;
/* Writes the weights of a checkpoint as ce_huggingface_write does, with the config.json of its model or, for a model that
 * a program defined, with the ds_config.json of its training. `dir` and `tag`
 * are those of ce_source_checkpoint_open. If the checkpoint has adapters and `merge` is false, only the adapters are
 * written, as a folder of PEFT.
 *
 * Members of `output`: `folder` and `max_shard` are used. `dtype` is used if `typed` is true; otherwise the type is
 * that in which the training computed, or fp32 for adapters. `beside` and `tokenizer` are used if
 * one of them is not NULL; otherwise they are those of the training. `chat` and `ends` are not used: they are those of
 * the training.
 *
 * On success the source stays open for the caller, who may report what was written and must close the source. After a
 * failure the source is closed. */
cs_status ce_huggingface_export(ce_source *source, const ce_huggingface_output *output, ce_huggingface_choice choice,
                                const char *dir, const char *tag);

#endif
