/* need.h - checks of the arguments of operations. A tensor that is not as needed ends the process with a sentence that
 * names the operation and the tensor, and says what the tensor is and what is needed (base/misuse.h). */
#ifndef CE_DEVICE_NEED_H
#define CE_DEVICE_NEED_H

#include "base/misuse.h"
#include "cspeed/ops.h"

/* Begins the check of a public operation: its name is __func__, and its stream must not be NULL. */
#define NEED_STREAM(stream) ce_need_stream(stream, __func__)
/* Each of these macros calls a function below with the tensor's name in the source text. */
#define NEED_PRESENT(x) ce_need_present(#x, x)
#define NEED_NUMBERS(x) ce_need_numbers(#x, x)
#define NEED_TYPE(x, dtype) ce_need_type(#x, x, dtype)
#define NEED_MATRIX(x, rows, columns) ce_need_matrix(#x, x, rows, columns)
#define NEED_ROWS(x, rows) ce_need_rows(#x, x, rows)
#define NEED_COLUMNS(x, columns) ce_need_columns(#x, x, columns)
#define NEED_COUNT(x, count) ce_need_count(#x, x, count)
#define NEED_VECTOR(x, dtype, count) ce_need_vector(#x, x, dtype, count)
#define NEED_SHAPE_OF(x, like) ce_need_shape_of(#x, x, like)
#define NEED_LIKE(x, like) ce_need_like(#x, x, like)
#define NEED_LAYOUT(w, layout, inputs, outputs) ce_need_layout(#w, w, layout, inputs, outputs)
/* Any other condition: the message follows the name of the operation. */
#define NEED(condition, ...)                                                                                           \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            ce_need_failed(__VA_ARGS__);                                                                               \
    } while (0)

void ce_need_stream(const cs_stream *stream, const char *operation);
void ce_need_present(const char *name, cs_tensor x);
void ce_need_numbers(const char *name, cs_tensor x); /* present, and fp32, bf16 or fp16 */
void ce_need_type(const char *name, cs_tensor x, cs_dtype dtype);
void ce_need_matrix(const char *name, cs_tensor x, int64_t rows, int64_t columns);
void ce_need_rows(const char *name, cs_tensor x, int64_t rows);
void ce_need_columns(const char *name, cs_tensor x, int64_t columns);
void ce_need_count(const char *name, cs_tensor x, int64_t count); /* number of elements */
void ce_need_vector(const char *name, cs_tensor x, cs_dtype dtype, int64_t count);
void ce_need_shape_of(const char *name, cs_tensor x, cs_tensor like); /* numbers, with the rows and columns of `like` */
void ce_need_like(const char *name, cs_tensor x, cs_tensor like);     /* with the type, rows and columns of `like` */
/* (inputs, outputs) with CS_IN_OUT, otherwise (outputs, inputs) */
void ce_need_layout(const char *name, cs_tensor w, cs_layout layout, int64_t inputs, int64_t outputs);
/* The dropout of a tensor of `count` elements and `batch` samples. */
void ce_need_dropout(cs_dropout dropout, int64_t batch, int64_t count);
__attribute__((noreturn, format(printf, 1, 2))) void ce_need_failed(const char *format, ...);

/* Ends the process if a number of the tensor, CS_I32 in memory that the host reads, is `limit` or more, or is negative and
 * `masks` is false. `what` says what the numbers are: "token", "target". */
void ce_need_below(const char *what, cs_tensor numbers, bool masks, int64_t limit);

#endif
