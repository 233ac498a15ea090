/* any_norm.h - a norm of a kind that the model family chooses: LayerNorm with or without a bias, or RMSNorm. */
#ifndef CE_MODELS_ANY_NORM_H
#define CE_MODELS_ANY_NORM_H

#include "cspeed/layer.h"

typedef enum {
    CE_RMS_NORM,
    CE_RMS_NORM_PLUS_ONE, /* the factors are 1 + weight */
    CE_LAYER_NORM,
    CE_LAYER_NORM_UNBIASED
} ce_norm_kind;

/* Only one of the two norms is declared; both have no weight if there is no norm. */
typedef struct {
    cs_norm layer;
    cs_rms rms;
} ce_any_norm;

/* Does nothing if `name` is NULL. */
void ce_any_norm_declare(ce_any_norm *norm, cs_unit *unit, ce_norm_kind kind, const char *name, int64_t width,
                         float epsilon);
bool ce_any_norm_exists(const ce_any_norm *norm);
cs_tensor ce_any_norm_forward(const ce_any_norm *norm, cs_pass *pass, cs_tensor x);
cs_tensor ce_any_norm_backward(const ce_any_norm *norm, cs_pass *pass, cs_tensor dy);
/* As cs_norm_forward_add and cs_norm_backward_add, also if there is no norm: then the result of the first is the
 * residual sum, and dx becomes dy + beside. */
cs_tensor ce_any_norm_forward_add(const ce_any_norm *norm, cs_pass *pass, const cs_addition *x);
void ce_any_norm_backward_add(const ce_any_norm *norm, cs_pass *pass, cs_tensor dx, cs_tensor dy, cs_tensor beside);

#endif
