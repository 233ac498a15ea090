/* joined_experts.h - experts whose matrices one tensor of a folder holds together (gpt-oss): a model has a parameter for
 * each expert.
 *
 * A folder has BLOCK.experts.gate_up_proj (experts, width, 2 hidden) and BLOCK.experts.down_proj (experts, hidden, width),
 * a model BLOCK.experts.e.gate_up_proj.weight and BLOCK.experts.e.down_proj.weight for each expert e. */
#ifndef CE_INTERCHANGE_JOINED_EXPERTS_H
#define CE_INTERCHANGE_JOINED_EXPERTS_H

#include "interchange/source.h"

/* Replaces *source, which has a model's tensors, by a source in which the matrices of a layer's experts are one tensor.
 * Without such experts, *source does not change. The new source closes the old one. */
void ce_joined_experts(ce_source *source);

/* MXFP4: a folder may have, instead of BLOCK.experts.X, the bytes BLOCK.experts.X_blocks (experts, outputs, groups, 16)
 * and BLOCK.experts.X_scales (experts, outputs, groups). Each group has 32 numbers of 4 bits with one power of two as
 * scale. ce_mxfp4_open replaces *source by a source that has the matrices of the experts as numbers, (32 groups, outputs)
 * each, under the names of a model. Without such tensors, *source does not change. After a failure the caller closes
 * *source. */
cs_status ce_mxfp4_open(ce_source *source);
/* Returns the source that ce_mxfp4_open was given. */
const ce_source *ce_mxfp4_inner(const ce_source *source);

#endif
