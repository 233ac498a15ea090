/* convolution.h - a unit of two convolutions for images of one channel: an example of a layer that cspeed does not have,
 * made of operations, so that it runs in every precision and on a GPU.
 *
 * Each convolution has 3 x 3 kernels, zero padding and a stride of 2, and is followed by GELU. A linear layer and GELU
 * then compute `outputs` numbers from the last image. Pixels are stored (row, column, channel). A convolution is a matrix
 * product of the neighbourhoods of pixels (im2col: Chellapilla, Puri and Simard, "High performance convolutional neural
 * networks for document processing", 2006). */
#ifndef CS_EXAMPLES_CONVOLUTION_H
#define CS_EXAMPLES_CONVOLUTION_H

#include "cspeed/layer.h"

#include <math.h>

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

/* Returns the neighbourhoods that convolution `number` reads. */
static inline cs_patches patches_at(const convnet *self, int number)
{
    return (cs_patches){ .size = { self->sizes.height >> number, self->sizes.width >> number },
                         .channels = number == 0 ? 1 : self->sizes.channels[number - 1],
                         .kernel = { 3, 3 },
                         .stride = { 2, 2 },
                         .padding = { 1, 1 } };
}

static inline int64_t image_size(const cs_patches *shape)
{
    return shape->size[0] * shape->size[1] * shape->channels;
}

static inline void convnet_declare(cs_unit *unit, const void *given)
{
    static const char *const names[CONVOLUTIONS] = { "convolution.0", "convolution.1" };
    convnet *self = cs_unit_self(unit, sizeof *self);
    self->sizes = *(const convnet_sizes *)given;
    for (int i = 0; i < CONVOLUTIONS; i++) {
        int64_t inputs = KERNEL * patches_at(self, i).channels;
        cs_linear_declare(&self->convolution[i], unit, names[i], inputs, self->sizes.channels[i],
                          (cs_init){ CS_NORMAL, 1 / sqrtf((float)inputs) }, CS_IN_OUT, CS_BIAS);
    }
    cs_patches end = patches_at(self, CONVOLUTIONS);
    cs_linear_declare(&self->last, unit, "linear", image_size(&end), self->sizes.outputs,
                      (cs_init){ CS_NORMAL, 1 / sqrtf((float)image_size(&end)) }, CS_IN_OUT, CS_BIAS);
}

static inline void convnet_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    const convnet *self = cs_unit_self(unit, sizeof *self);
    cs_stream *stream = cs_pass_stream(pass);
    int64_t count = cs_rows(x);
    cs_tensor image = cs_pass_make(pass, cs_pass_dtype(pass), count, cs_columns(x)), h;
    cs_op_cast(stream, image, x);
    for (int i = 0; i < CONVOLUTIONS; i++) {
        cs_patches shape = patches_at(self, i);
        cs_tensor columns =
            cs_pass_make(pass, image.dtype, count * image_size(&shape) / shape.channels / 4, KERNEL * shape.channels);
        cs_op_patches(stream, columns, image, shape);
        h = cs_linear_forward(&self->convolution[i], pass, columns);
        image = cs_pass_like(pass, h);
        cs_op_gelu(stream, image, h);
        cs_pass_keep(pass, h);
    }
    h = cs_linear_forward(&self->last, pass, cs_matrix(image.data, image.dtype, count, cs_count(image) / count));
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
    cs_tensor dimage = cs_linear_backward(&self->last, pass, dh);
    for (int i = CONVOLUTIONS - 1; i >= 0; i--) {
        cs_patches shape = patches_at(self, i);
        h = cs_pass_take(pass);
        dh = cs_pass_like(pass, h);
        cs_op_gelu_grad(stream, dh, cs_matrix(dimage.data, dimage.dtype, cs_rows(h), cs_columns(h)), h);
        if (i == 0) {
            cs_linear_backward_weights(&self->convolution[i], pass, dh);
            break;
        }
        cs_tensor dcolumns = cs_linear_backward(&self->convolution[i], pass, dh);
        dimage = cs_pass_make(pass, dcolumns.dtype, cs_rows(dy), image_size(&shape));
        cs_op_patches_grad(stream, dimage, dcolumns, shape);
    }
}

static const cs_kind convnet_kind = { "convnet", convnet_declare, convnet_forward, convnet_backward, NULL };

#endif
