/* rms.h - the factors of RMS norms, for layers that compute such norms themselves. */
#ifndef CE_LAYER_RMS_H
#define CE_LAYER_RMS_H

#include "cspeed/layer.h"

/* Returns the factors of a norm: the weight itself, or, if `plus_one` is true, a tensor of 1 + weight in fp32. That
 * tensor is valid until the forward or the backward of the unit returns. In both cases, the gradient of the returned
 * tensor is the gradient of the weight. */
cs_tensor ce_rms_factors(const cs_param *weight, bool plus_one, cs_pass *pass);

#endif
