/* functions.h - the activation functions that config.json may name. */
#ifndef CS_MODELS_FUNCTIONS_H
#define CS_MODELS_FUNCTIONS_H

#include "cspeed/ops.h"

/* The choices of a key's row, which stores the index of one. */
#define CS_FUNCTIONS                                                                                                   \
    "gelu_new|gelu_pytorch_tanh|gelu_fast|gelu_accurate|gelu_python_tanh|gelu|gelu_python|quick_gelu|relu|relu2|"      \
    "silu|swish"

/* Returns the function of a choice. */
static inline cs_activation ce_function_of(int choice)
{
    static const cs_activation functions[] = { CS_GELU_TANH, CS_GELU_TANH, CS_GELU_TANH, CS_GELU_TANH,
                                               CS_GELU_TANH, CS_GELU,      CS_GELU,      CS_QUICK_GELU,
                                               CS_RELU,      CS_RELU2,     CS_SILU,      CS_SILU };
    return functions[choice];
}

#endif
