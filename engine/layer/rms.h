/* rms.h - the factors of RMS norms, for layers that compute such norms themselves. */
#ifndef CS_LAYER_RMS_H
#define CS_LAYER_RMS_H

#include "cspeed/layer.h"

/* Returns the weight itself, or a tensor of 1 + weight in fp32, which is valid until the unit's forward or backward
 * returns. In both cases, the gradient of the returned tensor is the gradient of the weight. */
cs_tensor ce_rms_factors(const cs_param *weight, bool plus_one, cs_pass *pass);

#endif
