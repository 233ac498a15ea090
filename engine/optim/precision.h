/* precision.h - mixed precision: the types in which a training stores, multiplies, reduces and sends numbers.
 *
 * Arithmetic is fp32 in every mode, with one exception: cspeed.products lets a CPU multiply 16-bit values directly and
 * add the products in fp32. The types below are the formats to which numbers are rounded when they are stored or passed
 * on. */
#ifndef CS_OPTIM_PRECISION_H
#define CS_OPTIM_PRECISION_H

#include "base/status.h"

typedef struct {
    cs_dtype values;   /* parameters during computation, and the tensors between units */
    cs_dtype products; /* inputs and outputs of matrix products and attention */
    cs_dtype masters;  /* parameters during the update; if equal to `values`, there is only one copy */
    cs_dtype slots;    /* optimizer state */
    cs_dtype sums;     /* reduced and accumulated gradients */
    cs_dtype wire;     /* gradients during communication between ranks */
    bool wide_norms;   /* norm layers of a 16-bit model have fp32 parameters */
    bool scaled;       /* loss scaling is on: a step whose gradients are not finite is skipped */
} ce_precision;

const char *ce_precision_name(cs_dtype dtype); /* "fp32", "bf16", "fp16" */

/* One row of the table that says which kind of operation uses which types. ce_precision_list sets *row to row `index`,
 * and returns false after the last row. */
typedef struct {
    const char *operation;
    cs_dtype takes, gives; /* types of its inputs and of its outputs; the operation computes in fp32 */
} ce_precision_row;
bool ce_precision_list(const ce_precision *precision, int index, ce_precision_row *row);

#endif
