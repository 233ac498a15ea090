/* run.h - what the files of operations need: checks of tensors, and macros that call a function of the device's
 * table. */
#ifndef CE_DEVICE_RUN_H
#define CE_DEVICE_RUN_H

#include "device/table.h"
#include "base/must.h"

#define RUN_ON(stream, given, operation, ...)                                                                          \
    do {                                                                                                               \
        if ((stream)->device->table->operation)                                                                        \
            (stream)->device->table->operation(given, __VA_ARGS__);                                                    \
    } while (0)
#define RUN(stream, operation, ...) RUN_ON(stream, (stream)->device, operation, __VA_ARGS__)
#define RUN_IN(stream, operation, ...) RUN_ON(stream, stream, operation, __VA_ARGS__)

static inline bool is_compute(cs_tensor x)
{
    return x.data && x.dtype <= CS_F16;
}

static inline bool is_matrix(cs_tensor x, int64_t rows, int64_t columns)
{
    return cs_rows(x) == rows && cs_columns(x) == columns;
}

/* Returns whether b has the rows and columns of a. The type of b may differ. */
static inline bool is_shaped(cs_tensor a, cs_tensor b)
{
    return is_compute(b) && is_matrix(b, cs_rows(a), cs_columns(a));
}

static inline bool is_f32(cs_tensor x)
{
    return x.data && x.dtype == CS_F32;
}

/* Returns whether b has the type, the rows and the columns of a. */
static inline bool is_like(cs_tensor a, cs_tensor b)
{
    return b.data && a.dtype == b.dtype && is_matrix(b, cs_rows(a), cs_columns(a));
}

static inline bool is_vector(cs_tensor x, cs_dtype dtype, int64_t count)
{
    return x.data && x.dtype == dtype && cs_count(x) == count;
}

#endif
