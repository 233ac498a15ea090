/* scan.h - the numbers of a saved tensor, block by block: memory does not grow with its size. One rank's work. */
#ifndef CS_CHECKPOINT_SCAN_H
#define CS_CHECKPOINT_SCAN_H

#include "checkpoint/reader.h"

enum { CS_SCAN_BINS = 16 };

typedef struct {
    int64_t count, nans, infinite;    /* the numbers below are of the others */
    double min, max, mean, deviation; /* of the population */
    int64_t bins[CS_SCAN_BINS];       /* equal parts of [least, most] */
} cs_scan;

/* CS_NOT_FOUND: no such tensor. Reads it twice. */
cs_status cs_scan_tensor(cs_scan *scan, const cs_checkpoint_reader *reader, const char *name);

/* Two tensors of one shape and kind, of two checkpoints, element by element. */
typedef struct {
    int64_t differing, first; /* elements; the first that differs, -1: none      */
    double max;               /* difference; infinite where a NaN meets a number */
    double one, other;        /* the first that differs                          */
} cs_scan_difference;
cs_status cs_scan_compare(cs_scan_difference *difference, cs_checkpoint_reader *one, cs_checkpoint_reader *other,
                          cs_comm *self, const char *name);

#endif
