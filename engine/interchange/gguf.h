/* gguf.h - writes a model as a GGUF file, the format of llama.cpp (version 3 of the format).
 *
 * Matrices get the type of the output; vectors are fp32. Block types (Q8_0, Q4_0) have a scale for each 32 elements of a
 * row; a matrix whose rows are no multiple of 32 is fp16 instead. With Q4_0, the token table and the head are Q8_0, as
 * llama.cpp's own tools keep them more exact than the rest. */
#ifndef CE_INTERCHANGE_GGUF_H
#define CE_INTERCHANGE_GGUF_H

#include "gguf/blocks.h"
#include "interchange/source.h"

typedef struct {
    const char *file; /* file to write, which must not exist */
    ce_gguf_type type;
    const json_t *config;  /* contents of the model's config.json */
    const char *tokenizer; /* folder of the tokenizer, or a tokenizer.json; NULL: the file gets no vocabulary */
    const char *chat;      /* chat template; NULL: that of the tokenizer */
} ce_gguf_output;

/* Writes all tensors of the source, which have the model's names. Returns CS_UNSUPPORTED, with a message that names the
 * part, if llama.cpp has no such model or vocabulary. After a failure there is no file. */
cs_status ce_gguf_write(const ce_gguf_output *output, ce_source *source);

#endif
