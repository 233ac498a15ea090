/* rearrange.cu - transposed matrices, and the neighbourhoods of the pixels of images (im2col). One thread computes one
 * element of the result, so stores are adjacent. */
#include "device/cuda/run.cuh"
#include "device/patches.h"

static ce_shape elements_shape(int64_t count)
{
    return ce_shape{ dim3(ce_bounded_grid(ce_divide_up(count, CE_RUN_THREADS))), dim3(CE_RUN_THREADS) };
}

static __device__ int64_t first_element()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

static __device__ int64_t element_step()
{
    return (int64_t)gridDim.x * blockDim.x;
}

/* An item has `width` elements. */
template <typename T>
static __global__ void __launch_bounds__(CE_RUN_THREADS)
    transpose_elements(T *y, const T *x, int64_t rows, int64_t columns, int64_t width, int64_t count)
{
    for (int64_t at = first_element(); at < count; at += element_step()) {
        int64_t item = at / width, row = item % rows, column = item / rows % columns, matrix = item / rows / columns;
        y[at] = x[((matrix * rows + row) * columns + column) * width + at % width];
    }
}

extern "C" void ce_cuda_transpose(cs_device *device, cs_tensor y, cs_tensor x, int64_t batch, int64_t rows,
                                  int64_t columns)
{
    int64_t count = cs_count(x);
    if (count == 0)
        return;
    ce_by_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        ce_launch(ce_cuda_compute(device), elements_shape(count), transpose_elements<T>, (T *)y.data, (const T *)x.data,
                  rows, columns, count / (batch * rows * columns), count);
    });
}

/* ---- neighbourhoods ---- */

template <typename T>
static __global__ void __launch_bounds__(CE_RUN_THREADS)
    patches_elements(T *columns, const T *image, cs_patches shape, int64_t count)
{
    for (int64_t at = first_element(); at < count; at += element_step()) {
        int64_t channel = at % shape.channels, place = at / shape.channels;
        int64_t kernel_x = place % shape.kernel[1], kernel_y = place / shape.kernel[1] % shape.kernel[0];
        int64_t output = place / shape.kernel[1] / shape.kernel[0];
        int64_t x = output % shape.outputs[1] * shape.stride[1] - shape.padding[1] + kernel_x * shape.dilation[1];
        int64_t line = output / shape.outputs[1], sample = line / shape.outputs[0];
        int64_t y = line % shape.outputs[0] * shape.stride[0] - shape.padding[0] + kernel_y * shape.dilation[0];
        bool inside = y >= 0 && y < shape.size[0] && x >= 0 && x < shape.size[1];
        int64_t from = ((sample * shape.size[0] + y) * shape.size[1] + x) * shape.channels + channel;
        columns[at] = inside ? image[from] : ce_narrow<T>(0);
    }
}

extern "C" void ce_cuda_patches(cs_device *device, cs_tensor columns, cs_tensor image, const cs_patches *shape)
{
    ce_by_type(image.dtype, [&](auto zero) {
        using T = decltype(zero);
        ce_launch(ce_cuda_compute(device), elements_shape(cs_count(columns)), patches_elements<T>, (T *)columns.data,
                  (const T *)image.data, *shape, cs_count(columns));
    });
}

/* A thread adds, in the order of the kernel's places, all elements that were copied from its element of the image. */
template <typename T>
static __global__ void __launch_bounds__(CE_RUN_THREADS)
    patches_grad_elements(T *image, const T *columns, cs_patches shape, int64_t count)
{
    int64_t places = shape.kernel[0] * shape.kernel[1];
    for (int64_t at = first_element(); at < count; at += element_step()) {
        int64_t channel = at % shape.channels, pixel = at / shape.channels;
        int64_t x = pixel % shape.size[1], line = pixel / shape.size[1];
        float sum = 0;
        for (int64_t place = 0; place < places; place++) {
            int64_t from_y = ce_patches_reader(&shape, 0, line % shape.size[0], place / shape.kernel[1]);
            int64_t from_x = ce_patches_reader(&shape, 1, x, place % shape.kernel[1]);
            int64_t row = (line / shape.size[0] * shape.outputs[0] + from_y) * shape.outputs[1] + from_x;
            if (from_y >= 0 && from_x >= 0)
                sum += ce_wide(columns[(row * places + place) * shape.channels + channel]);
        }
        image[at] = ce_narrow<T>(sum);
    }
}

extern "C" void ce_cuda_patches_grad(cs_device *device, cs_tensor dimage, cs_tensor dcolumns, const cs_patches *shape)
{
    ce_by_type(dimage.dtype, [&](auto zero) {
        using T = decltype(zero);
        ce_launch(ce_cuda_compute(device), elements_shape(cs_count(dimage)), patches_grad_elements<T>, (T *)dimage.data,
                  (const T *)dcolumns.data, *shape, cs_count(dimage));
    });
}
