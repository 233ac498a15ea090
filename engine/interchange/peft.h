/* peft.h - reads adapter_config.json of PEFT's folders of LoRA adapters, and presents the tensors of a checkpoint
 * either under the names of such a folder or with the adapters merged into the weights. */
#ifndef CS_INTERCHANGE_PEFT_H
#define CS_INTERCHANGE_PEFT_H

#include "interchange/source.h"

typedef struct {
    int64_t r;
    double alpha, dropout;
    bool rslora, dora;
    char bias[16];   /* "none", "all" or "lora_only": which biases of the model the folder has */
    json_t *targets; /* "all-linear" or a list of names; a new reference */
} ce_peft_facts;

/* Reads FOLDER/adapter_config.json. If it asks for something that cspeed lacks, such as QLoRA, CS_UNSUPPORTED names
 * it. */
cs_status ce_peft_read(ce_peft_facts *facts, const char *folder);

/* The adapter_config.json of a checkpoint whose provenance has this object "lora"; `base` is the folder of the model,
 * or NULL. A new reference. */
json_t *ce_peft_config(const json_t *lora, const char *base);

/* Both functions take ownership of a checkpoint's source and replace it; `lora` is the provenance's object, which must
 * live as long. ce_peft_adapters: by a source that has only the adapters' tensors and the trained biases, under PEFT's
 * names. ce_peft_merge: by a source that has only the model's tensors, with the adapters added to their values (in
 * fp32, rounded once). */
cs_status ce_peft_adapters(ce_source *source, const json_t *lora);
cs_status ce_peft_merge(ce_source *source, const json_t *lora);

#endif
