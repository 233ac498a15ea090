/* model_check.h - names everything in a model's files that is not understood, without reading the weights. */
#ifndef CE_INTERCHANGE_MODEL_CHECK_H
#define CE_INTERCHANGE_MODEL_CHECK_H

#include "json/json.h"

/* Checks a Hugging Face folder, a GGUF file, or a model of the Hub. Returns CS_NOT_FOUND if there is no such model; otherwise
 * sets *report to an object:
 *
 *     "model"         the name
 *     "model_type", "architecture", "tensors", "parameters"    as far as they are known
 *     "weights", "tokenizer"    a sentence if there are none, so that they were not checked
 *     "problems"      a list of {"what", "name", "why"}; "what" is "file", "key", "tensor" (one that the model does not have,
 *                     or whose type is not read), "missing", "shape" or "tokenizer"
 *
 * Keys of config.json without effect are logged as a warning. */
cs_status ce_model_check(json_t **report, const char *name);

#endif
