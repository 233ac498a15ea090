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
#define BITS                                                                                                           \
    {                                                                                                                  \
        "optim_bits", CE_KEY_INT, AT(bits), "32", 8, 32, NULL,                                                         \
            "8: keep the moments as 8-bit codes with one fp32 scale for each 256 elements, as bitsandbytes does; "     \
            "parameters with fewer than 4096 elements, and embeddings unless their own group asks for 8, keep 32"      \
    }
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

/* The names of bitsandbytes, torchao and Hugging Face's Trainer for these optimizers, and the bits of their state. */
static const struct {
    const char *name;
    ce_optim_kind kind;
    int64_t bits;
} others[] = {
    { "AdamW8bit", CE_OPTIM_ADAMW, 8 },        { "PagedAdamW8bit", CE_OPTIM_ADAMW, 8 },
    { "adamw_8bit", CE_OPTIM_ADAMW, 8 },       { "adamw_bnb_8bit", CE_OPTIM_ADAMW, 8 },
    { "paged_adamw_8bit", CE_OPTIM_ADAMW, 8 }, { "adamw_torch_8bit", CE_OPTIM_ADAMW, 8 },
    { "AdamW32bit", CE_OPTIM_ADAMW, 32 },      { "PagedAdamW32bit", CE_OPTIM_ADAMW, 32 },
    { "PagedAdamW", CE_OPTIM_ADAMW, 32 },      { "paged_adamw_32bit", CE_OPTIM_ADAMW, 32 },
    { "paged_adamw", CE_OPTIM_ADAMW, 32 },     { "Adam8bit", CE_OPTIM_ADAMW, 8 },
    { "PagedAdam8bit", CE_OPTIM_ADAMW, 8 },    { "Adam32bit", CE_OPTIM_ADAMW, 32 },
    { "PagedAdam32bit", CE_OPTIM_ADAMW, 32 },  { "PagedAdam", CE_OPTIM_ADAMW, 32 },
    { "Lion8bit", CE_OPTIM_LION, 8 },          { "PagedLion8bit", CE_OPTIM_LION, 8 },
    { "lion_8bit", CE_OPTIM_LION, 8 },         { "paged_lion_8bit", CE_OPTIM_LION, 8 },
    { "Lion32bit", CE_OPTIM_LION, 32 },        { "PagedLion32bit", CE_OPTIM_LION, 32 },
    { "PagedLion", CE_OPTIM_LION, 32 },        { "lion_32bit", CE_OPTIM_LION, 32 },
    { "paged_lion_32bit", CE_OPTIM_LION, 32 }, { "paged_lion", CE_OPTIM_LION, 32 },
};
enum { OTHERS = sizeof others / sizeof *others };

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

/* Returns the optimizer with a name of other libraries, or NULL. A paged optimizer computes the same numbers. */
static const ce_type *find_other(ce_json *doc, const char *name, int64_t *bits)
{
    int at = 0;
    while (at < OTHERS && strcasecmp(others[at].name, name) != 0)
        at++;
    if (at == OTHERS)
        return NULL;
    *bits = others[at].bits;
    ce_json_note(doc, "optimizer.type", "\"%s\" is %s with optim_bits %lld%s", others[at].name,
                 types[others[at].kind].name, (long long)*bits,
                 strncasecmp(name, "paged", 5) == 0 ? "; zero_optimization.offload_optimizer moves state to the host"
                                                    : "");
    return &types[others[at].kind];
}

const ce_type *ce_types_find(ce_json *doc, const char *name, int64_t *bits)
{
    const ce_type *other = find_other(doc, name, bits);
    if (other)
        return other;
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
