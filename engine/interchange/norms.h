/* norms.h - the norms of weights that DoRA needs, one for each output of a linear layer, computed from a source of
 * tensors. */
#ifndef CE_INTERCHANGE_NORMS_H
#define CE_INTERCHANGE_NORMS_H

#include "interchange/source.h"

/* Returns true if the name is that of DoRA's magnitudes, NAME.lora_magnitude_vector. */
bool ce_norms_are(const char *magnitudes);
/* Sets *weight to the index of the tensor NAME.weight. The norms of this tensor are the initial values of the
 * magnitudes. Returns false if `magnitudes` has another form, or if there is no such tensor. */
bool ce_norms_weight(int64_t *weight, const ce_source *source, const char *magnitudes);
/* Computes the Euclidean norms of the outputs `range` of a weight, in double precision, and writes them as `dtype`. If
 * `turned` is true, the weight has the shape (inputs, outputs), otherwise (outputs, inputs). */
cs_status ce_norms_read(ce_source *source, int64_t weight, bool turned, ce_range range, void *to, cs_dtype dtype);

#endif
