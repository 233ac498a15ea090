/* family.h - the models of llama.cpp that are read and written: how llama.cpp names a model, its sizes and its
 * tensors. */
#ifndef CE_GGUF_FAMILY_H
#define CE_GGUF_FAMILY_H

#include "json/json.h"

enum { CE_GGUF_FAMILY_NAME = 128 };

typedef struct {
    const char *type;     /* model_type of config.json */
    const char *class;    /* name of the class in transformers */
    const char *arch;     /* name of the architecture in llama.cpp */
    bool permuted;        /* the rows of q and k are in the order of pairs, not of halves */
    bool plus_one;        /* the factors of RMSNorm are 1 + weight */
    bool sandwich;        /* norms before and after attention and feed-forward */
    bool after;           /* norms only after them */
    bool biased;          /* q, k, v, o and the feed-forward may have biases */
    int64_t period;       /* all layers but every n-th have a sliding window; 0: none has */
    const char *function; /* activation function of the feed-forward */
    int64_t large;        /* the number of layers by which llama.cpp knows the model of 27B; 0: there is none */
} ce_gguf_family;

/* Finds the family by its model_type, or by its architecture (the first of the table, if several models have it).
 * Return CS_UNSUPPORTED, with a message that lists those that there are. */
cs_status ce_gguf_family_of_type(const ce_gguf_family **family, const char *type);
cs_status ce_gguf_family_of_arch(const ce_gguf_family **family, const char *arch);

/* Writes the name that llama.cpp gives to a tensor of the model, or the model's name of a tensor of llama.cpp. Return
 * false if there is no such tensor. */
bool ce_gguf_family_name(char name[CE_GGUF_FAMILY_NAME], const ce_gguf_family *family, const char *tensor);
bool ce_gguf_family_tensor(char name[CE_GGUF_FAMILY_NAME], const ce_gguf_family *family, const char *in_file);
/* Returns the number of heads whose rows a tensor of the model has in the order of pairs, or 0. */
int64_t ce_gguf_family_heads(const ce_gguf_family *family, const char *tensor, int64_t heads, int64_t key_heads);
/* True if 1 was added to the elements of the tensor. */
bool ce_gguf_family_plus_one(const ce_gguf_family *family, const char *in_file);

/* Values of config.json and their keys in a file; a key that begins with '.' follows the name of the architecture. */
typedef struct {
    const char *config, *file;
    bool count;    /* an integer; otherwise a real number */
    bool needed;   /* The file has it in any case; otherwise it has it if the value is not 0. */
    bool windowed; /* Only families with windows have it. */
} ce_gguf_setting;
extern const ce_gguf_setting ce_gguf_settings[];
extern const int ce_gguf_setting_count;

/* Returns the factors by which llama.cpp divides the rotary frequencies of a head of `width` columns (scaling of Llama
 * 3), malloc'ed, and their number. */
typedef struct {
    double theta, factor, low, high, before; /* `before`: original_max_position_embeddings */
} ce_gguf_llama3;
float *ce_gguf_llama3_factors(int64_t *count, const ce_gguf_llama3 *scaling, int64_t width);
/* Finds the scaling of which these are the factors, whose theta is given. Returns false if there is none. */
bool ce_gguf_llama3_find(ce_gguf_llama3 *scaling, const float *factors, int64_t width);

#endif
