/* entropy.c - softmax cross-entropy against the pass's targets. */
#include "layer/layer.h"

void cs_entropy_forward(cs_pass *pass, cs_tensor logits, int64_t classes, cs_tensor loss)
{
    cs_tensor lse = cs_pass_like(pass, loss);
    cs_op_cross_entropy(cs_pass_stream(pass), loss, lse, logits, cs_pass_targets(pass), classes);
    if (cs_pass_hits(pass).data)
        cs_op_hits(cs_pass_stream(pass), cs_pass_hits(pass), logits, cs_pass_targets(pass), classes);
    cs_pass_keep(pass, logits);
    cs_pass_keep(pass, lse);
}

cs_tensor cs_entropy_backward(cs_pass *pass, int64_t classes, cs_tensor dloss)
{
    cs_tensor lse    = cs_pass_take(pass);
    cs_tensor logits = cs_pass_take(pass);
    cs_op_cross_entropy_grad(cs_pass_stream(pass), logits, dloss, logits, lse, cs_pass_targets(pass), classes);
    return logits;
}
