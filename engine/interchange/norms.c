/* norms.c - the norms of weights that DoRA needs, computed from a source of tensors. */
#include "interchange/norms.h"
#include "base/ends_with.h"
#include "base/status.h"
#include "checkpoint/convert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char suffix[] = ".lora_magnitude_vector";

bool ce_norms_are(const char *magnitudes)
{
    return ce_ends_with(magnitudes, suffix);
}

bool ce_norms_weight(int64_t *weight, const ce_source *source, const char *magnitudes)
{
    char name[512];
    if (!ce_norms_are(magnitudes))
        return false;
    snprintf(name, sizeof name, "%.*s.weight", (int)(strlen(magnitudes) - (sizeof suffix - 1)), magnitudes);
    *weight = ce_source_find(source, name);
    return *weight >= 0;
}

/* Adds the squares of the weights of the outputs `range` to `sums`. If `turned` is true, an output is a column, and the
 * whole weight is read. */
static cs_status add_squares(ce_source *source, int64_t weight, bool turned, ce_range range, double *sums,
                             float *buffer)
{
    const int64_t *shape = source->tensors[weight].shape;
    ce_range all = { turned ? 0 : range.from * shape[1], (turned ? shape[0] : range.to) * shape[1] };
    int64_t max = CE_SOURCE_BUFFER / (int64_t)sizeof *buffer;
    for (int64_t at = all.from, next; at < all.to; at = next) {
        next = all.to - at < max ? all.to : at + max;
        CE_TRY(source->read(source, weight, (ce_range){ at, next }, buffer, CS_F32));
        for (int64_t i = at; i < next; i++) {
            int64_t output = turned ? i % shape[1] : i / shape[1];
            if (output >= range.from && output < range.to)
                sums[output - range.from] += (double)buffer[i - at] * (double)buffer[i - at];
        }
    }
    return CS_OK;
}

cs_status ce_norms_read(ce_source *source, int64_t weight, bool turned, ce_range range, void *to, cs_dtype dtype)
{
    int64_t count = ce_range_length(range);
    double *sums = calloc((size_t)count + 1, sizeof *sums);
    float *buffer = malloc(CE_SOURCE_BUFFER);
    cs_status status = sums && buffer ? CS_OK : ce_fail(CS_NO_MEMORY, "out of memory for norms of weights");
    if (status == CS_OK)
        status = add_squares(source, weight, turned, range, sums, buffer);
    for (int64_t i = 0; i < count && status == CS_OK; i++) {
        float norm = (float)sqrt(sums[i]);
        ce_convert_elements((char *)to + (size_t)i * cs_dtype_bytes(dtype), dtype, &norm, CS_F32, 1);
    }
    free(sums);
    free(buffer);
    return status;
}
