/* precision.c - mixed precision: the table that says which operation uses which types. */
#include "optim/precision.h"

const char *ce_precision_name(cs_dtype dtype)
{
    static const char *const names[] = { [CS_F32] = "fp32", [CS_BF16] = "bf16", [CS_F16] = "fp16" };
    return names[dtype];
}

bool ce_precision_list(const ce_precision *precision, int index, ce_precision_row *row)
{
    const cs_dtype values = precision->values, products = precision->products;
    const cs_dtype norms = precision->wide_norms ? CS_F32 : values;
    const ce_precision_row rows[] = {
        { "embedding", values, values },
        { "norm", values, products },
        { "norm parameters", norms, norms },
        { "matrix product", products, products },
        { "attention", products, products },
        { "softmax", CS_F32, CS_F32 },
        { "GELU", products, products },
        { "residual sum", values, values },
        { "loss", products, CS_F32 },
        { "weight gradient", products, CS_F32 },
        { "gradient sum", precision->sums, precision->sums },
        { "gradient transfer", precision->wire, precision->wire },
        { "optimizer", precision->sums, precision->masters },
    };
    if (index >= (int)(sizeof rows / sizeof *rows))
        return false;
    *row = rows[index];
    return true;
}
