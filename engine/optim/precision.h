/* precision.h - mixed precision: the types in which a training stores, multiplies, reduces and sends numbers.
 *
 * Arithmetic is fp32 in every mode, with one exception: cspeed.products lets a CPU multiply 16-bit values directly and
 * add the products in fp32. The types below are the formats to which numbers are rounded when they are stored or passed
 * on. */
#ifndef CE_OPTIM_PRECISION_H
#define CE_OPTIM_PRECISION_H

#include "base/status.h"

typedef struct {
    cs_dtype values;   /* type of parameters during computation, and of the tensors between units */
    cs_dtype products; /* type of the inputs and outputs of matrix products and of attention */
    /* type of parameters during the update; if it is equal to `values`, there is only one copy of the parameters */
    cs_dtype masters;
    cs_dtype slots;  /* type of optimizer state (the slots) */
    cs_dtype sums;   /* type of gradients after their reduction and accumulation */
    cs_dtype wire;   /* type of gradients while they are sent between ranks */
    bool wide_norms; /* True if the norm layers of a 16-bit model have fp32 parameters. */
    bool scaled;     /* True if loss scaling is on: a step whose gradients are not finite is skipped. */
} ce_precision;

const char *ce_precision_name(cs_dtype dtype); /* Returns "fp32", "bf16" or "fp16". */

/* One row of the table that says which kind of operation uses which types. ce_precision_list sets *row to row number
 * `index`, and returns false if the table has no such row. */
typedef struct {
    const char *operation;
    cs_dtype takes, gives; /* types of the operation's inputs and outputs; the operation computes in fp32 */
} ce_precision_row;
bool ce_precision_list(const ce_precision *precision, int index, ce_precision_row *row);

#endif
