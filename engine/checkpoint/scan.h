/* scan.h - statistics of a saved tensor and comparison of two, computed block by block so that memory use does not
 * depend on the tensor's size. Each function works on one rank. */
#ifndef CS_CHECKPOINT_SCAN_H
#define CS_CHECKPOINT_SCAN_H

#include "checkpoint/reader.h"

enum { CS_SCAN_BINS = 16 };

typedef struct {
    int64_t count, nans, infinite;    /* the members below are of the finite elements */
    double min, max, mean, deviation; /* population standard deviation */
    int64_t bins[CS_SCAN_BINS];       /* histogram: equal parts of [min, max] */
} ce_scan;

/* CS_NOT_FOUND: no such tensor. Reads the tensor twice. */
cs_status ce_scan_tensor(ce_scan *scan, const ce_checkpoint_reader *reader, const char *name);

/* Result of comparing two tensors of the same shape and type from two checkpoints, element by element. */
typedef struct {
    int64_t differing, first; /* number of differing elements; index of the first, or -1 */
    double max;               /* largest absolute difference; infinite if a NaN is compared with a number */
    double one, other;        /* values of the first element that differs */
} ce_scan_difference;
cs_status ce_scan_compare(ce_scan_difference *difference, ce_checkpoint_reader *one, ce_checkpoint_reader *other,
                          cs_comm *self, const char *name);

#endif
