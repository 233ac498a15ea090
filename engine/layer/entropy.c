/* entropy.c - softmax cross-entropy with the pass's targets.
 *
 * In training the weight of each row's loss is known before forward (cs_pass_dloss). So forward, which reads the
 * logits, replaces them by their gradient, and backward takes this gradient. */
#include "cspeed/layer.h"

void cs_entropy_forward(cs_pass *pass, cs_tensor logits, int64_t classes, cs_tensor loss)
{
    if (cs_pass_hits(pass).data)
        cs_op_hits(cs_pass_stream(pass), cs_pass_hits(pass), logits, cs_pass_targets(pass), classes);
    cs_op_cross_entropy(cs_pass_stream(pass), loss, logits, cs_pass_targets(pass), classes, cs_pass_dloss(pass));
    cs_pass_keep(pass, logits);
}

cs_tensor cs_entropy_backward(cs_pass *pass)
{
    return cs_pass_take(pass);
}
