/* functions.c - activation functions other than the tanh form of GELU, alone and as gates, and the soft cap. */
#include "base/normal.h"
#include "device/cpu/activation.h"
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

enum { MIN_ELEMENTS = 8192, MIN_ROWS = 4 };

/* ---- activation functions f of a chunk of elements, and their gradients dx = dy f'(x) ---- */

static inline float normal(float x, float e)
{
    return ce_normal(x, e, 1 / ce_normal_divisor(x));
}

static void gelu(float *restrict y, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] * normal(x[i], ce_elements_exp_one(-0.5f * x[i] * x[i]));
}

/* The derivative of x Phi(x) is Phi(x) + x phi(x), where phi is the normal density. */
static void gelu_grad(float *restrict dx, const float *restrict dy, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float e = ce_elements_exp_one(-0.5f * x[i] * x[i]);
        dx[i] = dy[i] * (normal(x[i], e) + x[i] * e * 0.3989422804f);
    }
}

/* Returns e^-x, but at most e^88. The result is finite, so the product of 0 and the result is 0 and not NaN. logistic()
 * computes x s(a x), where s is the logistic function. logistic_grad() uses the derivative s + a x s (1 - s), where 1 -
 * s is computed as e^(-a x) s. */
static inline float decay_of(float x)
{
    return ce_elements_exp_one(x < -88 ? 88 : -x);
}

static inline void logistic(float *restrict y, const float *restrict x, int64_t count, float a)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] / (1 + decay_of(a * x[i]));
}

static inline void logistic_grad(float *restrict dx, const float *restrict dy, const float *restrict x, int64_t count,
                                 float a)
{
    for (int64_t i = 0; i < count; i++) {
        float e = decay_of(a * x[i]);
        float s = 1 / (1 + e);
        dx[i] = dy[i] * (s + a * x[i] * (e * s * s));
    }
}

static void quick_gelu(float *restrict y, const float *restrict x, int64_t count)
{
    logistic(y, x, count, 1.702f);
}

static void quick_gelu_grad(float *restrict dx, const float *restrict dy, const float *restrict x, int64_t count)
{
    logistic_grad(dx, dy, x, count, 1.702f);
}

static void silu(float *restrict y, const float *restrict x, int64_t count)
{
    logistic(y, x, count, 1);
}

static void silu_grad(float *restrict dx, const float *restrict dy, const float *restrict x, int64_t count)
{
    logistic_grad(dx, dy, x, count, 1);
}

/* the comparison is false for NaN, so NaN stays NaN */
static void relu(float *restrict y, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] < 0 ? 0 : x[i];
}

static void relu_grad(float *restrict dx, const float *restrict dy, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        dx[i] = x[i] <= 0 ? 0 : dy[i];
}

static void relu2(float *restrict y, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = x[i] < 0 ? 0 : x[i] * x[i];
}

static void relu2_grad(float *restrict dx, const float *restrict dy, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        dx[i] = x[i] <= 0 ? 0 : 2 * x[i] * dy[i];
}

static void sigmoid(float *restrict y, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = 1 / (1 + decay_of(x[i]));
}

static void sigmoid_grad(float *restrict dx, const float *restrict dy, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float e = decay_of(x[i]), s = 1 / (1 + e);
        dx[i] = dy[i] * (e * s * s);
    }
}

static void hyperbolic(float *restrict y, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = ce_elements_tanh_one(x[i]);
}

static void hyperbolic_grad(float *restrict dx, const float *restrict dy, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float part = ce_elements_tanh_one(x[i]);
        dx[i] = dy[i] * (1 - part * part);
    }
}

static void exponential(float *restrict y, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = ce_elements_exp_one(x[i]);
}

static void exponential_grad(float *restrict dx, const float *restrict dy, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        dx[i] = dy[i] * ce_elements_exp_one(x[i]);
}

/* Computes the gradients of silu(gate) up, with one e^x for both. */
static void silu_gate_grad(float *restrict dgate, float *restrict dup, const float *restrict dy,
                           const float *restrict gate, const float *restrict up, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float e = decay_of(gate[i]);
        float s = 1 / (1 + e);
        dup[i] = dy[i] * gate[i] * s;
        dgate[i] = dy[i] * up[i] * (s + gate[i] * (e * s * s));
    }
}

/* `gate_grad` is NULL if the gradients of a gate are computed by the other two functions. */
static const struct {
    void (*value)(float *restrict y, const float *restrict x, int64_t count);
    void (*slope)(float *restrict dx, const float *restrict dy, const float *restrict x, int64_t count);
    void (*gate_grad)(float *restrict dgate, float *restrict dup, const float *restrict dy, const float *restrict gate,
                      const float *restrict up, int64_t count);
} functions[] = {
    [CS_GELU_TANH] = { ce_gelu_chunk, ce_gelu_grad_chunk, NULL },
    [CS_GELU] = { gelu, gelu_grad, NULL },
    [CS_QUICK_GELU] = { quick_gelu, quick_gelu_grad, NULL },
    [CS_SILU] = { silu, silu_grad, silu_gate_grad },
    [CS_RELU] = { relu, relu_grad, NULL },
    [CS_RELU2] = { relu2, relu2_grad, NULL },
    [CS_SIGMOID] = { sigmoid, sigmoid_grad, NULL },
    [CS_TANH] = { hyperbolic, hyperbolic_grad, NULL },
    [CS_EXP] = { exponential, exponential_grad, NULL },
};

/* ---- activation functions of a whole tensor ---- */

typedef struct {
    cs_tensor y, x, dy;
    cs_activation function;
    float cap;
} function_job;

static void activation_chunk(const void *argument, int64_t at, int64_t count)
{
    const function_job *all = argument;
    float wide[CE_CHUNK], out[CE_CHUNK];
    functions[all->function].value(out, ce_elements_read(all->x, at, count, wide), count);
    ce_elements_write(all->y, at, count, out);
}

static void activation_grad_chunk(const void *argument, int64_t at, int64_t count)
{
    const function_job *all = argument;
    float wide[CE_CHUNK], wide_dy[CE_CHUNK], out[CE_CHUNK];
    const float *x = ce_elements_read(all->x, at, count, wide);
    functions[all->function].slope(out, ce_elements_read(all->dy, at, count, wide_dy), x, count);
    ce_elements_write(all->y, at, count, out);
}

void ce_cpu_activation(cs_device *device, cs_tensor y, cs_tensor x, cs_activation function)
{
    ce_cpu_walk_chunks(device, cs_count(x), MIN_ELEMENTS, activation_chunk,
                       &(function_job){ .y = y, .x = x, .function = function });
}

void ce_cpu_activation_grad(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x, cs_activation function)
{
    ce_cpu_walk_chunks(device, cs_count(x), MIN_ELEMENTS, activation_grad_chunk,
                       &(function_job){ .y = dx, .x = x, .dy = dy, .function = function });
}

/* ---- activation functions as gates; the left half of a row of x is the gate, the right half is `up` ---- */

static void gated_chunk(const void *argument, int64_t row, int64_t at, int64_t count)
{
    const function_job *all = argument;
    int64_t columns = cs_columns(all->y), place = 2 * row * columns + at;
    float wide_gate[CE_CHUNK], wide_up[CE_CHUNK], out[CE_CHUNK];
    const float *up = ce_elements_read(all->x, place + columns, count, wide_up);
    functions[all->function].value(out, ce_elements_read(all->x, place, count, wide_gate), count);
    for (int64_t i = 0; i < count; i++)
        out[i] *= up[i];
    ce_elements_write(all->y, row * columns + at, count, out);
}

static void gate_grad(cs_activation function, float *restrict dgate, float *restrict dup, const float *restrict dy,
                      const float *restrict gate, const float *restrict up, int64_t count)
{
    float product[CE_CHUNK];
    if (functions[function].gate_grad) {
        functions[function].gate_grad(dgate, dup, dy, gate, up, count);
        return;
    }
    functions[function].value(dup, gate, count);
    for (int64_t i = 0; i < count; i++) {
        dup[i] *= dy[i];
        product[i] = dy[i] * up[i];
    }
    functions[function].slope(dgate, product, gate, count);
}

static void gated_grad_chunk(const void *argument, int64_t row, int64_t at, int64_t count)
{
    const function_job *all = argument;
    int64_t columns = cs_columns(all->dy), place = 2 * row * columns + at;
    float wide_gate[CE_CHUNK], wide_up[CE_CHUNK], wide_dy[CE_CHUNK], dgate[CE_CHUNK], dup[CE_CHUNK];
    const float *gate = ce_elements_read(all->x, place, count, wide_gate);
    const float *up = ce_elements_read(all->x, place + columns, count, wide_up);
    const float *dy = ce_elements_read(all->dy, row * columns + at, count, wide_dy);
    gate_grad(all->function, dgate, dup, dy, gate, up, count);
    ce_elements_write(all->y, place, count, dgate);
    ce_elements_write(all->y, place + columns, count, dup);
}

void ce_cpu_gated(cs_device *device, cs_tensor y, cs_tensor x, cs_activation function)
{
    ce_cpu_walk_rows(device, cs_rows(y), cs_columns(y), MIN_ROWS, gated_chunk,
                     &(function_job){ .y = y, .x = x, .function = function });
}

void ce_cpu_gated_grad(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x, cs_activation function)
{
    ce_cpu_walk_rows(device, cs_rows(dy), cs_columns(dy), MIN_ROWS, gated_grad_chunk,
                     &(function_job){ .y = dx, .x = x, .dy = dy, .function = function });
}

void ce_cpu_swiglu(cs_device *device, cs_tensor y, cs_tensor x)
{
    ce_cpu_gated(device, y, x, CS_SILU);
}

void ce_cpu_swiglu_grad(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x)
{
    ce_cpu_gated_grad(device, dx, dy, x, CS_SILU);
}

/* ---- the soft cap; in forward, dy is absent ---- */

static void softcap_chunk(const void *argument, int64_t at, int64_t count)
{
    const function_job *all = argument;
    float cap = all->cap, wide[CE_CHUNK], wide_dy[CE_CHUNK], out[CE_CHUNK];
    const float *x = ce_elements_read(all->x, at, count, wide), *dy = NULL;
    if (all->dy.data)
        dy = ce_elements_read(all->dy, at, count, wide_dy);
    for (int64_t i = 0; i < count; i++)
        out[i] = ce_elements_tanh_one(x[i] / cap);
    for (int64_t i = 0; i < count; i++)
        out[i] = dy ? dy[i] * (1 - out[i] * out[i]) : cap * out[i];
    ce_elements_write(all->y, at, count, out);
}

void ce_cpu_softcap(cs_device *device, cs_tensor y, cs_tensor x, float cap)
{
    ce_cpu_walk_chunks(device, cs_count(x), MIN_ELEMENTS, softcap_chunk, &(function_job){ .y = y, .x = x, .cap = cap });
}

void ce_cpu_softcap_grad(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x, float cap)
{
    ce_cpu_walk_chunks(device, cs_count(x), MIN_ELEMENTS, softcap_chunk,
                       &(function_job){ .y = dx, .x = x, .dy = dy, .cap = cap });
}
