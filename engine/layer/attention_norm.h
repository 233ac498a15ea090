/* attention_norm.h - the RMS norms of q and k in an attention layer, for attention.c. */
#ifndef CE_LAYER_ATTENTION_NORM_H
#define CE_LAYER_ATTENTION_NORM_H

#include "cspeed/layer.h"
#include "unit/cut.h"

/* Declares NAME.q_norm.weight (queries) and NAME.k_norm.weight (keys). A weight as long as one head normalizes each head
 * by itself; a longer weight normalizes all heads of q, or of k, as one row. */
void ce_attention_norm_declare(cs_attention *attention, cs_unit *unit, const char *name, const char *const parts[2],
                               int64_t queries, int64_t keys);
/* Tensor parallelism: `q` and `k` are this rank's columns of q and of k. */
void ce_attention_norm_cut(cs_attention *attention, cs_unit *unit, ce_cut_part q, ce_cut_part k);
/* Returns a copy of qkv with norms applied to q and k; v is copied unchanged. */
cs_tensor ce_attention_norm(const cs_attention *attention, cs_pass *pass, cs_tensor qkv);
/* Replaces the gradient of the result of ce_attention_norm, `dqkv`, by the gradient of its argument. */
void ce_attention_norm_backward(const cs_attention *attention, cs_pass *pass, cs_tensor dqkv);

#endif
