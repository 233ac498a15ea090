/* lora.h - LoRA (Hu et al. 2021): adapters of low rank beside the frozen weights of linear layers.
 *
 * A part of a linear layer that has an adapter computes y = x W + b + scale (dropout(x) A^T) B^T, with A (r, inputs)
 * and B (outputs, r). Layers that cspeed computes as one product, such as q, k and v, have one adapter for each part,
 * as in PEFT, where the parts are separate layers. Parameters: NAME.lora_A.weight and NAME.lora_B.weight beside
 * NAME.weight.
 *
 * With DoRA (Liu et al. 2024) a part computes y = b + (m / n) (x W + scale (x A^T) B^T), where m, the parameter
 * NAME.lora_magnitude_vector (outputs), begins as n, and n, the norm of each output's weights in W + scale B A, counts
 * as a constant in backward. */
#ifndef CS_LAYER_LORA_H
#define CS_LAYER_LORA_H

#include "base/json.h"
#include "cspeed/layer.h"

enum { CS_LORA_PARTS = 4 };

typedef struct {
    cs_param *a, *b;
    cs_param *magnitude; /* NULL: the adapter is no DoRA */
    int64_t first;       /* index of the first column of the part in the layer's result */
    uint64_t place;      /* the random key of the adapter's dropout */
} ce_lora_part;

struct cs_adapter {
    ce_lora_part part[CS_LORA_PARTS];
    int count;
    float scale, rate; /* rate: probability of dropout */
    cs_adapter *next;
};

/* ---- lora.c: for linear.c; they do nothing without an adapter ---- */

/* Adds the adapters' results for x (rows, inputs) to y (rows, outputs), and keeps tensors for backward. */
void ce_lora_forward(const cs_linear *linear, cs_pass *pass, cs_tensor y, cs_tensor x);
/* Returns the gradient of the layer's products for that of its result: dy itself, or with DoRA a copy whose columns are
 * scaled; then it also adds to the gradients of the magnitudes. To be called before ce_lora_backward. */
cs_tensor ce_lora_backward_scaled(const cs_linear *linear, cs_pass *pass, cs_tensor dy);
/* Adds to the gradients of A and B, and to dx unless it is absent. x and dy have the type that matrix products take; dy
 * is what ce_lora_backward_scaled returned. */
void ce_lora_backward(const cs_linear *linear, cs_pass *pass, cs_tensor dx, cs_tensor dy, cs_tensor x);

/* ---- lora_attach.c ---- */

typedef struct {
    int64_t r;
    double alpha, dropout;
    bool rslora; /* the scale is alpha / sqrt(r), not alpha / r */
    bool dora;
    bool all_biases, own_biases; /* all biases of the model are trained too, or those of the adapted layers */
    const json_t *targets; /* "all-linear", or a list of layers' names, or of the ends of such names behind a dot */
} ce_lora_sizes;

typedef struct {
    cs_adapter *first;   /* all adapters; owned */
    json_t *targets;     /* the given list or, for "all-linear", the last words of the layers' names; owned */
    bool fan_in_fan_out; /* PEFT's word: the weights are (inputs, outputs) */
} ce_lora;

double ce_lora_scale(int64_t r, double alpha, bool rslora);
/* Gives the layers that `targets` names adapters, and marks all other parameters of the model as frozen, except the
 * biases that are trained too. A is uniform within 1 / sqrt(inputs), B is zero, as in PEFT; the first magnitudes of
 * DoRA are set when the weights are read. CS_BAD_CONFIG if a name matches no layer. The caller must call ce_lora_close
 * after a failure too. */
cs_status ce_lora_attach(ce_lora *lora, cs_model *model, const ce_lora_sizes *sizes);
void ce_lora_close(ce_lora *lora);

#endif
