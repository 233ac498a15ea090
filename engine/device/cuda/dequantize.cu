/* dequantize.cu - the values of 4-bit weights. A thread computes one run of eight elements of a row; the tables of the
 * codes are arguments of the kernel, and so in constant memory. */
#include "device/cuda/run.cuh"

#include "base/four_bit.h"

struct four_bit_tables {
    float values[16], scales[256];
};

static __device__ float absmax_of(cs_four_bit matrix, const float *scales, int64_t groups, int64_t block)
{
    if (!matrix.nested)
        return ((const float *)matrix.absmax)[block];
    /* without contraction to one instruction, so that the value has the bits that a CPU computes */
    float product =
        __fmul_rn(scales[((const uint8_t *)matrix.absmax)[block]], matrix.nested[block / CE_FOUR_BIT_GROUP]);
    return __fadd_rn(product, matrix.nested[groups]);
}

static __global__ void __launch_bounds__(CE_RUN_THREADS)
    dequantize_rows(ce_view y, cs_four_bit matrix, int64_t first, int64_t rows, int64_t columns, int64_t groups,
                    four_bit_tables tables)
{
    ce_range all = { 0, columns };
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        ce_view to = ce_run_from(y, row * columns);
        for (int64_t at = (int64_t)threadIdx.x * CE_RUN; at < columns; at += (int64_t)blockDim.x * CE_RUN) {
            float value[CE_RUN] = {};
            for (int i = 0; i < CE_RUN && at + i < columns; i++) {
                int64_t element = first + row * matrix.columns + at + i;
                int code = matrix.codes[element / 2] >> (element % 2 ? 0 : 4) & 15;
                value[i] = tables.values[code] * absmax_of(matrix, tables.scales, groups, element / CE_FOUR_BIT_BLOCK);
            }
            ce_run_store(to, at, all, value);
        }
    }
}

extern "C" void ce_cuda_dequantize(cs_device *device, const ce_dequantize *job)
{
    four_bit_tables tables;
    int64_t blocks = ce_divide_up(job->matrix.rows * job->matrix.columns, CE_FOUR_BIT_BLOCK);
    memcpy(tables.values, job->values, sizeof tables.values);
    memcpy(tables.scales, job->scales, sizeof tables.scales);
    ce_launch(ce_cuda_compute(device), ce_run_rows_shape(cs_rows(job->y), cs_columns(job->y)), dequantize_rows,
              ce_run_view(job->y), job->matrix, job->row * job->matrix.columns + job->column, cs_rows(job->y),
              cs_columns(job->y), ce_divide_up(blocks, CE_FOUR_BIT_GROUP), tables);
}
