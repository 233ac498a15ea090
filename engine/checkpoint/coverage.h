/* coverage.h - whether the pieces of all ranks make up each tensor exactly once, and the table of tensors that follows.
 */
#ifndef CS_CHECKPOINT_COVERAGE_H
#define CS_CHECKPOINT_COVERAGE_H

#include "checkpoint/checkpoint.h"

/* Rank 0's view of what all ranks will write. */
typedef struct {
    json_t *tensors; /* the manifest's: {name: {"dtype", "shape", "folder"}}; owns the names of `empty` */
    cs_piece *empty; /* tensors without elements, which rank 0 writes */
    int64_t empty_count;
} cs_coverage;

/* Collective. On other ranks than 0 the result is empty. CS_BAD_CONFIG when pieces disagree, overlap or leave a hole.
 */
cs_status cs_coverage_open(cs_coverage *coverage, cs_comm *comm, const cs_piece *pieces, int64_t count);
void cs_coverage_close(cs_coverage *coverage);

#endif
