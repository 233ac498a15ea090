/* convolution.h - a unit of two convolutions for images of one channel, written with a linear layer and loops in C: an
 * example of a layer that cspeed does not have.
 *
 * Each convolution has 3 x 3 kernels and zero padding, and is followed by GELU and by a mean over 2 x 2 pixels. A
 * linear layer and GELU then compute `outputs` numbers from the last image. Pixels are stored (row, column, channel). A
 * convolution is a matrix product of the neighbourhoods of all pixels (im2col: Chellapilla, Puri and Simard, "High
 * performance convolutional neural networks for document processing", 2006). The loops need fp32 in host memory. */
#ifndef CS_EXAMPLES_CONVOLUTION_H
#define CS_EXAMPLES_CONVOLUTION_H

#include "cspeed/layer.h"

#include <math.h>
#include <string.h>

enum { CONVOLUTIONS = 2, KERNEL = 9 };

typedef struct {
    int64_t height, width;          /* both divisible by 4 */
    int64_t channels[CONVOLUTIONS]; /* number of channels that each convolution computes */
    int64_t outputs;
} convnet_sizes;

typedef struct {
    convnet_sizes sizes;
    cs_linear convolution[CONVOLUTIONS], last;
} convnet;

/* Images of one size: count * height * width pixels of `channels` numbers. */
typedef struct {
    int64_t count, height, width, channels;
} images;

/* Returns the images that convolution `number` reads. */
static inline images images_at(const convnet *self, int64_t count, int number)
{
    return (images){ count, self->sizes.height >> number, self->sizes.width >> number,
                     number == 0 ? 1 : self->sizes.channels[number - 1] };
}

static inline void convnet_declare(cs_unit *unit, const void *given)
{
    static const char *const names[CONVOLUTIONS] = { "convolution.0", "convolution.1" };
    convnet *self = cs_unit_self(unit, sizeof *self);
    self->sizes = *(const convnet_sizes *)given;
    for (int i = 0; i < CONVOLUTIONS; i++) {
        int64_t inputs = KERNEL * images_at(self, 1, i).channels;
        cs_linear_declare(&self->convolution[i], unit, names[i], inputs, self->sizes.channels[i],
                          (cs_init){ CS_NORMAL, 1 / sqrtf((float)inputs) }, CS_IN_OUT, CS_BIAS);
    }
    images end = images_at(self, 1, CONVOLUTIONS);
    int64_t inputs = end.height * end.width * end.channels;
    cs_linear_declare(&self->last, unit, "linear", inputs, self->sizes.outputs,
                      (cs_init){ CS_NORMAL, 1 / sqrtf((float)inputs) }, CS_IN_OUT, CS_BIAS);
}

/* Row p of `columns` (pixels, 9 channels) holds the 3 x 3 neighbourhood of pixel p. Forward copies the pixels of
 * `image` there, and zeros for pixels beyond the edge; backward adds the rows to the pixels from which they were
 * copied. */
static inline void neighbourhoods(images size, float *image, float *columns, bool backward)
{
    for (int64_t n = 0; n < size.count; n++)
        for (int64_t y = 0; y < size.height; y++)
            for (int64_t x = 0; x < size.width; x++)
                for (int64_t k = 0; k < KERNEL; k++) {
                    int64_t from_y = y + k / 3 - 1, from_x = x + k % 3 - 1;
                    bool inside = from_y >= 0 && from_y < size.height && from_x >= 0 && from_x < size.width;
                    int64_t pixel = ((n * size.height + from_y) * size.width + from_x) * size.channels;
                    for (int64_t c = 0; c < size.channels; c++, columns++)
                        if (!backward)
                            *columns = inside ? image[pixel + c] : 0;
                        else if (inside)
                            image[pixel + c] += *columns;
                }
}

/* Means over 2 x 2 pixels: the forward function computes `small` from `large`, the backward function computes the
 * gradients of `large`. */
static inline void halve(images size, float *large, float *small, bool backward)
{
    int64_t line = size.width * size.channels;
    for (int64_t row = 0; row < size.count * size.height / 2; row++)
        for (int64_t x = 0; x < size.width / 2; x++)
            for (int64_t c = 0; c < size.channels; c++, small++) {
                float *corner = large + 2 * row * line + 2 * x * size.channels + c;
                float *four[] = { corner, corner + size.channels, corner + line, corner + line + size.channels };
                if (!backward)
                    *small = 0.25f * (*four[0] + *four[1] + *four[2] + *four[3]);
                for (int i = 0; backward && i < 4; i++)
                    *four[i] = 0.25f * *small;
            }
}

static inline void convnet_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    const convnet *self = cs_unit_self(unit, sizeof *self);
    cs_stream *stream = cs_pass_stream(pass);
    int64_t count = cs_rows(x);
    for (int i = 0; i < CONVOLUTIONS; i++) {
        images in = images_at(self, count, i), out = in;
        int64_t pixels = in.count * in.height * in.width;
        cs_tensor columns = cs_pass_make(pass, CS_F32, pixels, KERNEL * in.channels);
        if (!cs_pass_measuring(pass))
            neighbourhoods(in, x.data, columns.data, false);
        cs_tensor h = cs_linear_forward(&self->convolution[i], pass, columns), active = cs_pass_like(pass, h);
        cs_op_gelu(stream, active, h);
        cs_pass_keep(pass, h);
        out.channels = self->sizes.channels[i];
        x = cs_pass_make(pass, CS_F32, in.count, in.height / 2 * (in.width / 2) * out.channels);
        if (!cs_pass_measuring(pass))
            halve(out, active.data, x.data, false);
    }
    cs_tensor h = cs_linear_forward(&self->last, pass, x);
    cs_op_gelu(stream, y, h);
    cs_pass_keep(pass, h);
}

/* dx is absent: this is the model's first unit. */
static inline void convnet_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    const convnet *self = cs_unit_self(unit, sizeof *self);
    cs_stream *stream = cs_pass_stream(pass);
    cs_tensor h = cs_pass_take(pass), dh = cs_pass_like(pass, h);
    (void)dx;
    cs_op_gelu_grad(stream, dh, dy, h);
    cs_tensor dsmall = cs_linear_backward(&self->last, pass, dh);
    for (int i = CONVOLUTIONS - 1; i >= 0; i--) {
        images in = images_at(self, cs_rows(dy), i), out = in;
        out.channels = self->sizes.channels[i];
        h = cs_pass_take(pass);
        cs_tensor dactive = cs_pass_like(pass, h);
        dh = cs_pass_like(pass, h);
        if (!cs_pass_measuring(pass))
            halve(out, dactive.data, dsmall.data, true);
        cs_op_gelu_grad(stream, dh, dactive, h);
        if (i == 0) {
            cs_linear_backward_weights(&self->convolution[i], pass, dh);
            break;
        }
        cs_tensor dcolumns = cs_linear_backward(&self->convolution[i], pass, dh);
        dsmall = cs_pass_make(pass, CS_F32, in.count, in.height * in.width * in.channels);
        if (!cs_pass_measuring(pass)) {
            memset(dsmall.data, 0, (size_t)cs_count(dsmall) * sizeof(float));
            neighbourhoods(in, dsmall.data, dcolumns.data, true);
        }
    }
}

static const cs_kind convnet_kind = { "convnet", convnet_declare, convnet_forward, convnet_backward, NULL };

#endif
