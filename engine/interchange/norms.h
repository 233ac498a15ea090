/* norms.h - DoRA's norms: of the weights of each output of a linear layer, from a source. */
#ifndef CS_INTERCHANGE_NORMS_H
#define CS_INTERCHANGE_NORMS_H

#include "interchange/source.h"

/* True if the name is that of DoRA's magnitudes, NAME.lora_magnitude_vector. */
bool ce_norms_are(const char *magnitudes);
/* Sets *weight to the number of the tensor NAME.weight whose norms these magnitudes begin with; false: the name is
 * another, or there is no such tensor. */
bool ce_norms_weight(int64_t *weight, const ce_source *source, const char *magnitudes);
/* Computes the Euclidean norms of the outputs `range` of a weight, in double precision, and writes them as `dtype`.
 * `turned`: the weight is (inputs, outputs), not (outputs, inputs). */
cs_status ce_norms_read(ce_source *source, int64_t weight, bool turned, ce_range range, void *to, cs_dtype dtype);

#endif
