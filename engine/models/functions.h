/* functions.h - the activation functions that config.json may name. */
#ifndef CE_MODELS_FUNCTIONS_H
#define CE_MODELS_FUNCTIONS_H

#include "cspeed/ops.h"

/* The choices for a row of a key table. The setting that the row fills is the index of the choice. */
#define CE_FUNCTIONS                                                                                                   \
    "gelu_new|gelu_pytorch_tanh|gelu_fast|gelu_accurate|gelu_python_tanh|gelu|gelu_python|quick_gelu|relu|relu2|"      \
    "silu|swish"

enum { CE_FUNCTION_GELU_TANH = 0 }; /* index of a choice that means CS_GELU_TANH */

/* Returns the activation function of the choice with this index. */
static inline cs_activation ce_function_of(int choice)
{
    static const cs_activation functions[] = { CS_GELU_TANH, CS_GELU_TANH, CS_GELU_TANH, CS_GELU_TANH,
                                               CS_GELU_TANH, CS_GELU,      CS_GELU,      CS_QUICK_GELU,
                                               CS_RELU,      CS_RELU2,     CS_SILU,      CS_SILU };
    return functions[choice];
}

#endif
