/* function.cuh - the activation functions of cs_activation and their derivatives, for one element in fp32.
 *
 * Each function is a type, so kernels are templates over the function, and a kernel contains no branch on it. value(x)
 * is f(x). terms(x) is what gradients need: two factors whose product is f(x), and the derivative of f. The factors are
 * separate because a gradient multiplies them one after the other. */
#ifndef CE_DEVICE_FUNCTION_CUH
#define CE_DEVICE_FUNCTION_CUH

#include "base/normal.h"
#include "device/cuda/kernel.cuh"

struct ce_terms {
    float first, second, derivative; /* f(x) = first * second */
};

/* Returns e^-x, but at most e^88. The result is finite, so the product of 0 and the result is 0 and not NaN. */
__device__ inline float ce_exp_minus(float x)
{
    return expf(x < -88 ? 88 : -x);
}

/* Returns the terms of x s(u), where s is the logistic function and `slope` is the derivative of u by x. The derivative
 * is s + x s (1 - s) slope. With e = e^-u, 1 - s is computed as e s: the difference 1 - s would lose its digits for
 * large u. */
__device__ inline ce_terms ce_logistic_terms(float x, float u, float slope)
{
    float e = ce_exp_minus(u);
    float s = 1 / (1 + e);
    return ce_terms{ x, s, s + x * slope * (e * s * s) };
}

/* The tanh form of GELU equals x s(2 u), where u = c (x + a x^3). */
struct ce_gelu_tanh {
    static constexpr float twice_root = 1.5957691216057308f; /* 2 c, where c = sqrt(2 / pi) */
    static constexpr float cubic = 0.044715f;                /* the factor a in u */

    static __device__ float value(float x)
    {
        float twice_u = twice_root * (x + cubic * x * x * x);
        return x / (1 + expf(-twice_u));
    }

    static __device__ ce_terms terms(float x)
    {
        float square = x * x;
        float twice_u = twice_root * (x + cubic * x * square);
        return ce_logistic_terms(x, twice_u, twice_root * (1 + 3 * cubic * square));
    }
};

/* Returns the normal distribution function of x; `e` must be e^(-x^2 / 2). The division is the fast one, whose error of
 * 2 ulp is small enough here. */
__device__ inline float ce_normal_fast(float x, float e)
{
    return ce_normal(x, e, __fdividef(1, ce_normal_divisor(x)));
}

/* x Phi(x), where Phi is the normal distribution function. The derivative is Phi(x) + x phi(x), where phi is the normal
 * density. */
struct ce_gelu {
    static __device__ float value(float x)
    {
        return x * ce_normal_fast(x, expf(-0.5f * x * x));
    }

    static __device__ ce_terms terms(float x)
    {
        float e = expf(-0.5f * x * x), normal = ce_normal_fast(x, e);
        return ce_terms{ x, normal, normal + x * e * 0.3989422804f };
    }
};

struct ce_quick_gelu {
    static constexpr float factor = 1.702f;

    static __device__ float value(float x)
    {
        return x / (1 + ce_exp_minus(factor * x));
    }

    static __device__ ce_terms terms(float x)
    {
        return ce_logistic_terms(x, factor * x, factor);
    }
};

struct ce_silu {
    static __device__ float value(float x)
    {
        return x / (1 + ce_exp_minus(x));
    }

    static __device__ ce_terms terms(float x)
    {
        return ce_logistic_terms(x, x, 1);
    }
};

/* The comparisons of ReLU and of its square are false for NaN, so NaN stays NaN. */
struct ce_relu {
    static __device__ float value(float x)
    {
        return x < 0 ? 0 : x;
    }

    static __device__ ce_terms terms(float x)
    {
        return ce_terms{ value(x), 1, x <= 0 ? 0.0f : 1.0f };
    }
};

struct ce_relu2 {
    static __device__ float value(float x)
    {
        return x < 0 ? 0 : x * x;
    }

    static __device__ ce_terms terms(float x)
    {
        float positive = ce_relu::value(x);
        return ce_terms{ positive, positive, 2 * positive };
    }
};

struct ce_sigmoid {
    static __device__ float value(float x)
    {
        return 1 / (1 + ce_exp_minus(x));
    }

    static __device__ ce_terms terms(float x)
    {
        float e = ce_exp_minus(x), s = 1 / (1 + e);
        return ce_terms{ s, 1, e * s * s };
    }
};

struct ce_tanh {
    static __device__ float value(float x)
    {
        return tanhf(x);
    }

    static __device__ ce_terms terms(float x)
    {
        float part = tanhf(x);
        return ce_terms{ part, 1, 1 - part * part };
    }
};

struct ce_exp {
    static __device__ float value(float x)
    {
        return expf(x);
    }

    static __device__ ce_terms terms(float x)
    {
        float power = expf(x);
        return ce_terms{ power, 1, power };
    }
};

/* Calls body(f), where f has the type that belongs to `function`. */
template <typename Body> void ce_by_function(cs_activation function, Body body)
{
    switch (function) {
    case CS_GELU_TANH:
        return body(ce_gelu_tanh{});
    case CS_GELU:
        return body(ce_gelu{});
    case CS_QUICK_GELU:
        return body(ce_quick_gelu{});
    case CS_SILU:
        return body(ce_silu{});
    case CS_RELU:
        return body(ce_relu{});
    case CS_RELU2:
        return body(ce_relu2{});
    case CS_SIGMOID:
        return body(ce_sigmoid{});
    case CS_TANH:
        return body(ce_tanh{});
    default:
        return body(ce_exp{});
    }
}

#endif
