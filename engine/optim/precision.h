/* precision.h - what numbers are stored, multiplied, summed and sent in: one row of types for a whole training.
 *
 * Arithmetic is fp32 in every mode (where cspeed.bf16_products says so a CPU multiplies bf16 itself, and adds in fp32): a type says what a number
 * is rounded to where it is kept or handed on. */
#ifndef CS_OPTIM_PRECISION_H
#define CS_OPTIM_PRECISION_H

#include "base/status.h"

typedef struct {
    cs_dtype values;   /* parameters as they compute, and what flows between units                     */
    cs_dtype products; /* what matrix products and attention take and give                             */
    cs_dtype masters;  /* parameters as the optimizer moves them; where this is `values`, there is one copy */
    cs_dtype slots;    /* the optimizer's memory                                                       */
    cs_dtype sums;     /* reduced and accumulated gradients                                            */
    cs_dtype wire;     /* gradients between ranks                                                      */
    bool wide_norms;   /* norms of a 16-bit model have fp32 parameters                               */
    bool scaled;       /* the loss is scaled, and a step whose gradients are not finite is skipped   */
} cs_precision;

const char *cs_precision_name(cs_dtype dtype); /* "fp32", "bf16", "fp16" */

/* Row `index` of the table that says which kind of operation runs in what; false after the last. */
typedef struct {
    const char *operation;
    cs_dtype takes, gives; /* in between it computes in fp32 */
} cs_precision_row;
bool cs_precision_list(const cs_precision *precision, int index, cs_precision_row *row);

#endif
