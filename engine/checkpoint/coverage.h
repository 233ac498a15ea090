/* coverage.h - checks that the pieces of all ranks cover each tensor exactly once, and builds the manifest's table of
 * tensors from them. */
#ifndef CS_CHECKPOINT_COVERAGE_H
#define CS_CHECKPOINT_COVERAGE_H

#include "checkpoint/checkpoint.h"

/* What all ranks together will write; filled on rank 0. */
typedef struct {
    json_t *tensors; /* for the manifest: {name: {"dtype", "shape", "folder"}}; owns the names of `empty` */
    cs_piece *empty; /* tensors without elements, which rank 0 writes */
    int64_t empty_count;
} cs_coverage;

/* Collective. *coverage stays empty on ranks other than 0. CS_BAD_CONFIG if pieces of one tensor differ in type, shape
 * or folder, overlap, or leave elements uncovered. */
cs_status cs_coverage_open(cs_coverage *coverage, cs_comm *comm, const cs_piece *pieces, int64_t count);
void cs_coverage_close(cs_coverage *coverage);

#endif
