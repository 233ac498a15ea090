/* peft.h - reads adapter_config.json of PEFT's folders of LoRA adapters. It also presents the tensors of a checkpoint
 * either under the names of such a folder, or with the adapters merged into the weights. */
#ifndef CE_INTERCHANGE_PEFT_H
#define CE_INTERCHANGE_PEFT_H

#include "interchange/source.h"

typedef struct {
    int64_t r;
    double alpha, dropout;
    bool rslora, dora;
    char bias[16];  /* which biases of the model the folder contains: "none", "all" or "lora_only" */
    json_t *config; /* the whole object, without members that are null, {} or []; the caller owns this reference */
} ce_peft_facts;

/* Reads FOLDER/adapter_config.json. If the file asks for something that cspeed lacks, such as QLoRA, returns
 * CS_UNSUPPORTED, with a message that names it. */
cs_status ce_peft_read(ce_peft_facts *facts, const char *folder);

/* Returns the adapter_config.json for a checkpoint. `lora` is the object "lora" of the checkpoint's provenance; `base`
 * is the folder of the model, or NULL. The caller owns the new reference. */
json_t *ce_peft_config(const json_t *lora, const char *base);

/* These functions replace *source, which is the source of a checkpoint. The new source owns the old one. `lora` is the
 * object "lora" of the checkpoint's provenance, and must live as long as the new source. The new source of
 * ce_peft_adapters has only the adapters' tensors, the trained biases and modules_to_save, under PEFT's names. The new source of
 * ce_peft_merge has only the model's tensors, with the adapters added (in fp32, rounded once). */
void ce_peft_adapters(ce_source *source, const json_t *lora);
void ce_peft_merge(ce_source *source, const json_t *lora);
/* Returns how far rounding to the type of the merged weights has moved those that were read from the source of
 * ce_peft_merge, relative to how far the adapters have: the ratio of the root mean squares; 0 for fp32. */
double ce_peft_rounding(const ce_source *source);

#endif
