/* lora.h - LoRA (Hu et al. 2021): adapters of low rank beside the frozen weights of linear layers.
 *
 * A part of a linear layer that has an adapter computes y = x W + b + scale (dropout(x) A^T) B^T, with A (r, inputs)
 * and B (outputs, r). Layers that cspeed computes as one product, such as q, k and v, have one adapter for each part,
 * as in PEFT, where the parts are separate layers. Parameters: NAME.lora_A.weight and NAME.lora_B.weight beside
 * NAME.weight.
 *
 * With DoRA (Liu et al. 2024) a part computes y = b + (m / n) (x W + scale (x A^T) B^T), where n is the norm of each
 * output's weights in W + scale B A, and m is the parameter NAME.lora_magnitude_vector (outputs). In a new adapter
 * m is equal to n. Backward treats n as a constant. */
#ifndef CE_LAYER_LORA_H
#define CE_LAYER_LORA_H

#include "json/json.h"
#include "cspeed/layer.h"

enum { CE_LORA_PARTS = 4 };

typedef struct {
    cs_param *a, *b;
    cs_param *magnitude; /* `magnitude` is NULL if the adapter is LoRA without DoRA */
    int64_t first;       /* index of the part's first column in the layer's result */
    float scale;
    uint64_t place; /* the random key of the adapter's dropout for this part */
} ce_lora_part;

struct cs_adapter {
    ce_lora_part part[CE_LORA_PARTS];
    int count;
    float rate; /* the probability of dropout */
    cs_adapter *next;
};

/* ---- lora.c: called by linear.c; these functions do nothing if the layer has no adapter ---- */

/* Adds the adapters' results for x (rows, inputs) to y (rows, outputs), and saves tensors for backward. */
void ce_lora_forward(const cs_linear *linear, cs_pass *pass, cs_tensor y, cs_tensor x);
/* Returns the gradient of the layer's products; dy is the gradient of the layer's result. The result is dy itself, or
 * with DoRA a copy of dy whose columns are scaled. With DoRA, also adds to the gradients of the magnitudes. To be
 * called before ce_lora_backward. */
cs_tensor ce_lora_backward_scaled(const cs_linear *linear, cs_pass *pass, cs_tensor dy);
/* Adds to the gradients of A and B, and to dx unless dx is absent. x and dy have the type of the operands of matrix
 * products; dy is the tensor that ce_lora_backward_scaled returned. */
void ce_lora_backward(const cs_linear *linear, cs_pass *pass, cs_tensor dx, cs_tensor dy, cs_tensor x);

/* ---- lora_attach.c ---- */

typedef struct {
    double dropout;
    bool rslora; /* whether the scale is alpha / sqrt(r) and not alpha / r */
    bool dora;
    bool gaussian; /* A is normal with deviation 1 / r and not uniform */
    /* all_biases: all biases of the model are trained; own_biases: only the biases of the adapted layers are trained */
    bool all_biases, own_biases;
    /* Returns true if the layer of this full name, without ".weight", gets an adapter, and sets its rank and alpha. */
    bool (*choose)(const void *from, const char *layer, int64_t *r, double *alpha);
    const void *from; /* the first argument of `choose` */
} ce_lora_sizes;

typedef struct {
    cs_adapter *first;   /* first element of the linked list of all adapters; this struct owns all of them */
    json_t *words;       /* the last words of the names of the adapted layers, such as "q_proj"; owned */
    bool fan_in_fan_out; /* true if an adapted layer stores its weight as (inputs, outputs); the name is PEFT's */
} ce_lora;

double ce_lora_scale(int64_t r, double alpha, bool rslora);
/* Adds adapters to the layers that sizes->choose chooses. Freezes all other parameters of the model, except the biases
 * that are trained too. The head has no adapter, because its logits never exist as a whole tensor (layer/entropy.c);
 * PEFT's "all-linear" excludes the head too. As in PEFT, A is uniform within 1 / sqrt(inputs), and B is zero. DoRA's magnitudes get their initial
 * values when the weights are read. Returns CS_BAD_CONFIG if no layer gets an adapter. The caller must call
 * ce_lora_close after a failure too. */
cs_status ce_lora_attach(ce_lora *lora, cs_model *model, const ce_lora_sizes *sizes);
void ce_lora_close(ce_lora *lora);

#endif
