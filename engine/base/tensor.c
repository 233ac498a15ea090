/* tensor.c - sizes, shapes and elements of cs_tensor. */
#include "base/half.h"
#include "base/misuse.h"

size_t cs_dtype_bytes(cs_dtype dtype)
{
    static const size_t bytes[] = {
        [CS_F32] = 4, [CS_BF16] = 2, [CS_F16] = 2, [CS_I32] = 4, [CS_I64] = 8, [CS_U8] = 1
    };
    if ((unsigned)dtype > CS_U8)
        ce_misuse(NULL, "the type of a tensor or vector is %d, which is none of cs_dtype", (int)dtype);
    return bytes[dtype];
}

/* Ends the process if a tensor has more dimensions than there are, because its struct was not filled. */
static void check_dims(cs_tensor tensor)
{
    if (tensor.dims < 0 || tensor.dims > CS_MAX_DIMS)
        ce_misuse(NULL, "a tensor has %d dimensions: 0 to %d are possible", (int)tensor.dims, CS_MAX_DIMS);
}

int64_t cs_count(cs_tensor tensor)
{
    int64_t count = 1;
    check_dims(tensor);
    for (int i = 0; i < tensor.dims; i++)
        count *= tensor.shape[i];
    return count;
}

int64_t cs_columns(cs_tensor tensor)
{
    check_dims(tensor);
    return tensor.dims ? tensor.shape[tensor.dims - 1] : 1;
}

int64_t cs_rows(cs_tensor tensor)
{
    int64_t rows = 1;
    check_dims(tensor);
    for (int i = 0; i + 1 < tensor.dims; i++)
        rows *= tensor.shape[i];
    return rows;
}

cs_tensor cs_matrix(void *data, cs_dtype dtype, int64_t rows, int64_t columns)
{
    return (cs_tensor){ data, dtype, 2, { rows, columns }, false };
}

cs_tensor cs_matrix_rows(cs_tensor matrix, int64_t first, int64_t rows)
{
    if (matrix.dims != 2 || first < 0 || rows < 0 || first + rows > matrix.shape[0])
        ce_misuse(__func__, "%lld rows from row %lld on are needed of a tensor with %d dimensions and %lld rows",
                  (long long)rows, (long long)first, (int)matrix.dims, (long long)matrix.shape[0]);
    size_t row_bytes = (size_t)cs_columns(matrix) * cs_dtype_bytes(matrix.dtype);
    return cs_matrix((char *)matrix.data + (size_t)first * row_bytes, matrix.dtype, rows, cs_columns(matrix));
}

cs_tensor cs_vector(void *data, cs_dtype dtype, int64_t count)
{
    return (cs_tensor){ data, dtype, 1, { count }, false };
}

float cs_element(cs_tensor tensor, int64_t index)
{
    if (!tensor.data || index < 0 || index >= cs_count(tensor))
        ce_misuse(__func__, "element %lld is needed of %s with %lld elements", (long long)index,
                  tensor.data ? "a tensor" : "an absent tensor", (long long)cs_count(tensor));
    switch (tensor.dtype) {
    case CS_F32:
        return ((const float *)tensor.data)[index];
    case CS_BF16:
        return ce_bf16_to_float(((const uint16_t *)tensor.data)[index]);
    case CS_F16:
        return ce_f16_to_float(((const uint16_t *)tensor.data)[index]);
    case CS_I32:
        return (float)((const int32_t *)tensor.data)[index];
    case CS_I64:
        return (float)((const int64_t *)tensor.data)[index];
    default:
        return ((const uint8_t *)tensor.data)[index];
    }
}
