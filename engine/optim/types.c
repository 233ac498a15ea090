/* types.c - the key tables of optimizer.params, which are made from the list of optimizers. It also has a list of the
 * optimizers of DeepSpeed and PyTorch that cspeed does not support, with a reason for the error message. */
#include "optim/types.h"
#include "optim/rules.h"

#include <stdio.h>
#include <strings.h>

#define AT(field) offsetof(ce_optim_settings, field)
#define MAX_VALUE 1e30

/* The macros with which the header of each optimizer defines its <CONSTANT>_KEYS. */
#define NUMBER(key, field, fallback, min, sentence)                                                                    \
    {                                                                                                                  \
        key, CE_KEY_NUMBER, AT(field), fallback, min, MAX_VALUE, "auto", sentence                                      \
    }
#define FLAG(key, field, fallback, sentence)                                                                           \
    {                                                                                                                  \
        key, CE_KEY_BOOL, AT(field), fallback, 0, 0, NULL, sentence                                                    \
    }
#define INERT(key, fallback, sentence)                                                                                 \
    {                                                                                                                  \
        key, CE_KEY_INERT, 0, fallback, 0, 0, NULL, sentence                                                           \
    }
#define REFUSED(key, fallback, harmless, sentence)                                                                     \
    {                                                                                                                  \
        key, CE_KEY_REFUSED, 0, fallback, 0, 0, harmless, sentence                                                     \
    }
#define BETAS(fallback, sentence)                                                                                      \
    {                                                                                                                  \
        "betas", CE_KEY_PAIR, AT(betas), fallback, 0, 1, "auto", sentence                                              \
    }

#define RATE(fallback)                                                                                                 \
    NUMBER("lr", rate, fallback, 0, "learning rate, which the scheduler may change; \"auto\": the default")
#define DECAY(sentence) NUMBER("weight_decay", weight_decay, "0", 0, sentence)
#define MOMENTS "decay rates of the first and second moment; \"auto\": the default"
#define ASKED "weight decay of matrices; vectors (biases, norms) have none; \"auto\": the default"
#define NO_CLIPPING                                                                                                    \
    REFUSED("max_grad_norm", "null", NULL,                                                                             \
            "the engine clips gradients, by \"gradient_clipping\" at the top level: set that key")
#define NO_AMSGRAD REFUSED("amsgrad", "false", "0", "AMSGrad is not implemented")
#define NO_MAXIMUM REFUSED("maximize", "false", "0", "training always minimizes the loss")
#define NO_FUSED                                                                                                       \
    REFUSED("fused", "null", "false|0", "an update is always one fused pass over the parameters: leave the key out")
#define NO_FOREACH INERT("foreach", "null", "an update always works on contiguous blocks of many parameters")
#define NO_ONE_BIT "it belongs to 1-bit optimizers, and cspeed does not compress gradients"
#define GRAD_NONE INERT("set_grad_none", "true", "the engine owns the gradients and resets them after each update")
#define FP32_STATES REFUSED("fp32_optimizer_states", "true", "1", "the moments are always kept in fp32")

/* One key table for each optimizer: keys_ADAMW and so on. */
#define RULE(function, constant, ...) static const ce_key keys_##constant[] = { constant##_KEYS };
#include "optim/rules.h"

static const ce_type types[] = {
#define RULE(function, constant, name, ...)                                                                            \
    [CE_OPTIM_##constant] = { name, CE_OPTIM_##constant, CE_KEYS(keys_##constant) },
#include "optim/rules.h"
};
enum { TYPES = sizeof types / sizeof *types };

#define COMPRESSED "cspeed does not compress gradients: use Adam or Lamb, which this optimizer approximates"
#define MUP "muP's learning rates by width are not implemented"
#define OF_TORCH "cspeed does not implement this optimizer of torch.optim"

/* The optimizers that DeepSpeed or torch.optim has and cspeed does not have. */
static const struct {
    const char *name, *reason;
} refused[] = {
    { "OneBitAdam", COMPRESSED },
    { "OneBitLamb", COMPRESSED },
    { "ZeroOneAdam", COMPRESSED },
    { "MuAdam", MUP },
    { "MuAdamW", MUP },
    { "MuSGD", MUP },
    { "Adadelta", OF_TORCH },
    { "Adafactor", OF_TORCH },
    { "Adamax", OF_TORCH },
    { "ASGD", OF_TORCH },
    { "LBFGS", OF_TORCH },
    { "NAdam", OF_TORCH },
    { "RAdam", OF_TORCH },
    { "RMSprop", OF_TORCH },
    { "Rprop", OF_TORCH },
    { "SparseAdam", OF_TORCH },
};
enum { REFUSED_TYPES = sizeof refused / sizeof *refused };

static const char names[] =
#define RULE(function, constant, name, ...) name ", "
#include "optim/rules.h"
    ;
enum { NAMES_LENGTH = sizeof names - sizeof ", " };

#define SUPPORTED "the optimizers are %.*s"

void ce_types_default(ce_optim_settings *settings)
{
    for (int i = TYPES - 1; i >= 0; i--)
        ce_keys_default(settings, types[i].keys, types[i].count);
    settings->matrix_rate = settings->other_rate = -1;
}

const ce_type *ce_types_of(int kind)
{
    return &types[kind];
}

const ce_type *ce_types_find(ce_json *doc, const char *name)
{
    for (int i = 0; i < TYPES; i++)
        if (strcasecmp(types[i].name, name) == 0)
            return &types[i];
    for (int i = 0; i < REFUSED_TYPES; i++)
        if (strcasecmp(refused[i].name, name) == 0) {
            ce_json_fault(doc, "optimizer.type", "not supported: the optimizer %s, because %s; " SUPPORTED,
                          refused[i].name, refused[i].reason, NAMES_LENGTH, names);
            return NULL;
        }
    ce_json_fault(doc, "optimizer.type", "no optimizer is named \"%.48s\"; " SUPPORTED, name, NAMES_LENGTH, names);
    return NULL;
}

void ce_types_missing(ce_json *doc)
{
    ce_json_fault(doc, "optimizer", "\"type\" is missing; " SUPPORTED, NAMES_LENGTH, names);
}

void ce_types_help(void)
{
    ce_keys_help("optimizer.params of Adam, AdamW", CE_KEYS(keys_ADAM));
    for (int i = 0; i < TYPES; i++) {
        char heading[48];
        if (i == CE_OPTIM_ADAMW || i == CE_OPTIM_ADAM)
            continue;
        snprintf(heading, sizeof heading, "optimizer.params of %s", types[i].name);
        ce_keys_help(heading, types[i].keys, types[i].count);
    }
    printf("\n## Optimizers that are not supported\n\n");
    for (int i = 0; i < REFUSED_TYPES; i++)
        printf("- `%s`, because %s\n", refused[i].name, refused[i].reason);
}
