/* scan.h - statistics of a saved tensor and comparison of two saved tensors, computed block by block so that memory use
 * does not depend on the tensor's size. The functions do not communicate with other ranks. */
#ifndef CE_CHECKPOINT_SCAN_H
#define CE_CHECKPOINT_SCAN_H

#include "checkpoint/reader.h"

enum { CE_SCAN_BINS = 16 };

typedef struct {
    /* Numbers of all elements, NaNs and infinities. The members below describe the finite elements only. */
    int64_t count, nans, infinite;
    double min, max, mean, deviation; /* `deviation` is the population standard deviation */
    int64_t bins[CE_SCAN_BINS];       /* histogram: numbers of elements in equal parts of [min, max] */
} ce_scan;

/* Computes the statistics of a tensor, which it reads twice. Returns CS_NOT_FOUND if there is no such tensor. */
cs_status ce_scan_tensor(ce_scan *scan, const ce_checkpoint_reader *reader, const char *name);

/* Result of comparing two tensors of the same shape from two checkpoints, element by element. If their types differ,
 * their elements are converted to fp32 first. */
typedef struct {
    int64_t differing, first; /* number of differing elements, and index of the first differing element or -1 */
    double max;               /* largest absolute difference; infinite if a NaN is compared with a number */
    double one, other;        /* values of the first differing element, in the first and in the second tensor */
} ce_scan_difference;
cs_status ce_scan_compare(ce_scan_difference *difference, ce_checkpoint_reader *one, ce_checkpoint_reader *other,
                          cs_comm *self, const char *name);

#endif
