/* family.h - a family of models (GPT-2, Llama and so on): its key table, the function that builds its models, and the
 * list of all families. */
#ifndef CE_MODELS_FAMILY_H
#define CE_MODELS_FAMILY_H

#include "models/models.h"

/* The input of a family's build function. */
typedef struct {
    const void *settings; /* family's settings, which its key table has filled */
    json_t *config;       /* description of the model, an object with the keys of config.json */
    ce_json *doc;         /* document to which faults are added */
    const char *path;     /* path of `config` in `doc`, at which faults are reported; "" if `config` is the document */
    ce_cut_group tp;      /* the tensor-parallel group */
} ce_family_input;

/* Called by a family's build function when it has read all settings: returns CS_BAD_CONFIG if faults were added to
 * input->doc, or if the model is too narrow for the tensor-parallel group; otherwise makes a model without units.
 * `heads` is the number of query heads, `inner` the inner width of the feed-forward. */
cs_status ce_family_open(cs_model **model, const ce_family_input *input, int64_t width, int64_t heads, int64_t inner,
                         int64_t vocabulary);

/* Returns a copy of a key table, followed by those rows that every family accepts and the table lacks. The caller frees
 * it. */
ce_key *ce_family_keys(const ce_key *own, int own_count, int *count);

typedef struct {
    const char *type;         /* model_type in config.json */
    const char *architecture; /* name of the class in Hugging Face's transformers, such as "LlamaForCausalLM" */
    const ce_key *keys;
    int key_count;
    size_t settings_bytes;
    /* Checks what a key table cannot check, adds faults by ce_json_fault, and builds the model. */
    cs_status (*build)(cs_model **model, ce_model_facts *facts, const ce_family_input *input);
} ce_family;

/* A row of a key table. The file defines AT, which gives the place of a field in the family's settings. */
#define CE_ROW(name, type, field, fallback, min, max, choices, sentence)                                               \
    {                                                                                                                  \
        name, CE_KEY_##type, AT(field), fallback, min, max, choices, sentence                                          \
    }

/* The first rows of a family whose settings have the fields vocabulary, positions and width. */
#define CE_ROWS_OF_SIZES(type, vocab, max, width_)                                                                     \
    { "model_type", CE_KEY_INERT, 0, "\"" type "\"", 0, 0, NULL, "it selects the model family" },                      \
        CE_ROW("vocab_size", INT, vocabulary, vocab, 1, 1 << 24, NULL,                                                 \
               "number of tokens in the vocabulary; token ids are 0 to vocab_size - 1"),                               \
        CE_ROW("max_position_embeddings", INT, positions, max, 1, 1 << 24, NULL,                                       \
               "maximum length of a sequence in tokens"),                                                              \
        CE_ROW("hidden_size", INT, width, width_, 1, 1 << 20, NULL,                                                    \
               "width of the hidden states (elements for each token)")

/* The row of a key that is accepted and has no effect, whatever its value. */
#define CE_INERT(name, sentence)                                                                                       \
    {                                                                                                                  \
        name, CE_KEY_INERT, 0, "null", 0, 0, NULL, sentence                                                            \
    }

/* The row of a key that is refused with every value except `value` and those of the list `harmless`. */
#define CE_REFUSED(name, value, harmless, sentence)                                                                    \
    {                                                                                                                  \
        name, CE_KEY_REFUSED, 0, value, 0, 0, harmless, sentence                                                       \
    }

/* The list of families. For FAMILY(name), "name" is the model_type in config.json, and ce_family_<name> is the family.
 * To add a family, write its file and add its name here. */
#define CE_FAMILIES(FAMILY)                                                                                            \
    FAMILY(gpt2)                                                                                                       \
    FAMILY(llama)                                                                                                      \
    FAMILY(mistral)                                                                                                    \
    FAMILY(qwen2)                                                                                                      \
    FAMILY(qwen3)                                                                                                      \
    FAMILY(ministral)                                                                                                  \
    FAMILY(ministral3)                                                                                                 \
    FAMILY(hunyuan_v1_dense)                                                                                           \
    FAMILY(smollm3)                                                                                                    \
    FAMILY(seed_oss)                                                                                                   \
    FAMILY(internlm3)                                                                                                  \
    FAMILY(arcee)                                                                                                      \
    FAMILY(ernie4_5)                                                                                                   \
    FAMILY(cohere)                                                                                                     \
    FAMILY(cohere2)                                                                                                    \
    FAMILY(glm)                                                                                                        \
    FAMILY(glm4)                                                                                                       \
    FAMILY(olmo3)                                                                                                      \
    FAMILY(gemma)                                                                                                      \
    FAMILY(gpt_neox)                                                                                                   \
    FAMILY(gemma2)                                                                                                     \
    FAMILY(gemma3_text)                                                                                                \
    FAMILY(phi3)                                                                                                       \
    FAMILY(olmo2)                                                                                                      \
    FAMILY(granite)                                                                                                    \
    FAMILY(phi)                                                                                                        \
    FAMILY(starcoder2)                                                                                                 \
    FAMILY(falcon)                                                                                                     \
    FAMILY(olmoe)                                                                                                      \
    FAMILY(mixtral)                                                                                                    \
    FAMILY(qwen2_moe)                                                                                                  \
    FAMILY(qwen3_moe)                                                                                                  \
    FAMILY(gpt_oss)

#define CE_FAMILY_DECLARE(name) extern const ce_family ce_family_##name;
CE_FAMILIES(CE_FAMILY_DECLARE)
#undef CE_FAMILY_DECLARE

#endif
