/* types.c - the optimizers' key tables, and the names that are refused. */
#include "optim/types.h"

#include <stdio.h>
#include <strings.h>

#define AT(field) offsetof(cs_optim_settings, field)
#define MOST 1e30

#define NUMBER(key, field, fallback, min, sentence)                                                                    \
    {                                                                                                                  \
        key, CS_KEY_NUMBER, AT(field), fallback, min, MOST, "auto", sentence                                           \
    }
#define FLAG(key, field, fallback, sentence)                                                                           \
    {                                                                                                                  \
        key, CS_KEY_BOOL, AT(field), fallback, 0, 0, NULL, sentence                                                    \
    }
#define INERT(key, fallback, sentence)                                                                                 \
    {                                                                                                                  \
        key, CS_KEY_INERT, 0, fallback, 0, 0, NULL, sentence                                                           \
    }
#define REFUSED(key, fallback, harmless, sentence)                                                                     \
    {                                                                                                                  \
        key, CS_KEY_REFUSED, 0, fallback, 0, 0, harmless, sentence                                                     \
    }
#define BETAS(fallback, sentence)                                                                                      \
    {                                                                                                                  \
        "betas", CS_KEY_PAIR, AT(betas), fallback, 0, 1, "auto", sentence                                              \
    }

#define RATE(fallback) NUMBER("lr", rate, fallback, 0, "learning rate; \"auto\": the default")
#define DECAY(sentence) NUMBER("weight_decay", weight_decay, "0", 0, sentence)
#define MOMENTS "decay of the two moments; \"auto\": the default"
#define ASKED "on parameters that ask for it; \"auto\": the default"
#define NO_CLIPPING                                                                                                    \
    REFUSED("max_grad_norm", "null", NULL, "it is the engine that clips: use \"gradient_clipping\" at the top level")
#define NO_AMSGRAD REFUSED("amsgrad", "false", "0", "AMSGrad's maximum of the second moment is not kept")
#define NO_MAXIMUM REFUSED("maximize", "false", "0", "a loss is minimized")
#define NO_FUSED REFUSED("fused", "null", "false|0", "an update is one fused pass anyway: leave the key out")
#define NO_FOREACH INERT("foreach", "null", "a flat row is updated at a time")
#define NO_ONE_BIT "it belongs to 1-bit optimizers, and gradients are exchanged uncompressed here"
#define GRAD_NONE INERT("set_grad_none", "true", "the engine owns the gradients")
#define FP32_STATES REFUSED("fp32_optimizer_states", "true", "1", "the moments are always kept in fp32")

static const cs_key adam_keys[] = {
    RATE("1e-3"),
    BETAS("[0.9, 0.999]", MOMENTS),
    NUMBER("eps", epsilon, "1e-8", 0, "added outside the root; \"auto\": the default"),
    DECAY(ASKED),
    FLAG("bias_correction", bias_correction, "true", "divide the moments by 1 - beta^t"),
    FLAG("adam_w_mode", adam_w_mode, "true", "\"Adam\" with it is AdamW, as in DeepSpeed; \"AdamW\" is always AdamW"),
    INERT("torch_adam", "false", "one implementation here, with PyTorch's arithmetic"),
    GRAD_NONE,
    NO_FOREACH,
    NO_AMSGRAD,
    NO_FUSED,
    NO_MAXIMUM,
    FP32_STATES,
    REFUSED("freeze_step", "null", NULL, NO_ONE_BIT),
    NO_CLIPPING,
};

static const cs_key sgd_keys[] = {
    RATE("1e-3"),
    NUMBER("momentum", momentum, "0", 0, "0: no buffer is kept"),
    NUMBER("dampening", dampening, "0", -MOST, "of the gradient entering the buffer"),
    DECAY("added to the gradient of parameters that ask for it"),
    FLAG("nesterov", nesterov, "false", "Nesterov momentum; needs momentum, and no dampening"),
    NO_FOREACH,
    NO_FUSED,
    NO_MAXIMUM,
    NO_CLIPPING,
};

static const cs_key adagrad_keys[] = {
    RATE("1e-2"),
    NUMBER("lr_decay", lr_decay, "0", 0, "update t has the rate lr / (1 + (t - 1) lr_decay)"),
    DECAY("added to the gradient of parameters that ask for it"),
    NUMBER("initial_accumulator_value", first_sum, "0", 0, "the sum of squares begins here"),
    NUMBER("eps", epsilon, "1e-10", 0, "added outside the root; \"auto\": the default"),
    NO_FOREACH,
    NO_AMSGRAD,
    NO_FUSED,
    NO_MAXIMUM,
    FP32_STATES,
    NO_CLIPPING,
};

static const cs_key lion_keys[] = {
    RATE("1e-3"),
    BETAS("[0.9, 0.999]", "of the mix whose sign is taken, and of the momentum; the paper has [0.9, 0.99]"),
    DECAY(ASKED),
    GRAD_NONE,
    FP32_STATES,
    NO_CLIPPING,
};

static const cs_key lamb_keys[] = {
    RATE("1e-3"),
    BETAS("[0.9, 0.999]", MOMENTS),
    NUMBER("eps", epsilon, "1e-8", 0, "added outside the root, or inside: the next key"),
    FLAG("eps_inside_sqrt", inside_root, "false", "eps is added under the root"),
    DECAY(ASKED),
    NUMBER("max_coeff", max_ratio, "10", 0, "largest ratio of a tensor's norm to its step's"),
    NUMBER("min_coeff", min_ratio, "0.01", 0, "smallest ratio"),
    FLAG("bias_correction", bias_correction, "true", "multiply by sqrt(1 - beta2^t) / (1 - beta1^t)"),
    NO_AMSGRAD,
    REFUSED("freeze_step", "null", NULL, NO_ONE_BIT),
    NO_CLIPPING,
};

static const cs_key muon_keys[] = {
    NUMBER("lr", rate, "0.02", 0, "learning rate of both sides where the next two are not given"),
    NUMBER("muon_lr", matrix_rate, "null", 0, "of matrices; null: lr, else 0.02"),
    NUMBER("adam_lr", other_rate, "null", 0, "of what is no matrix, of embeddings and the head; null: lr, else 3e-4"),
    { "momentum", CS_KEY_NUMBER, AT(momentum), "0.95", 0, 1, "auto", "of the matrices' gradients" },
    DECAY(ASKED),
    { "ns_method", CS_KEY_CHOICE, AT(ns_method), "\"gram\"", 0, 0, "gram|standard",
      "one loop for both here, five iterations in fp32: they are the same polynomial" },
    BETAS("[0.9, 0.95]", "AdamW's, for the other side"),
    NUMBER("eps", epsilon, "1e-10", 0, "AdamW's, for the other side"),
    NO_CLIPPING,
};

static const cs_type types[] = {
    /* the first of a kind names its table */
    { "AdamW", CS_OPTIM_ADAMW, CS_KEYS(adam_keys) }, { "Adam", CS_OPTIM_ADAM, CS_KEYS(adam_keys) },
    { "SGD", CS_OPTIM_SGD, CS_KEYS(sgd_keys) },      { "Adagrad", CS_OPTIM_ADAGRAD, CS_KEYS(adagrad_keys) },
    { "Lion", CS_OPTIM_LION, CS_KEYS(lion_keys) },   { "Lamb", CS_OPTIM_LAMB, CS_KEYS(lamb_keys) },
    { "Muon", CS_OPTIM_MUON, CS_KEYS(muon_keys) },
};
enum { TYPES = sizeof types / sizeof *types };

#define COMPRESSED "gradients are exchanged uncompressed here; Adam and Lamb are the optimizers it approximates"
#define MUP "muP's scaling of rates by width is not built"
#define OF_TORCH "of torch.optim only Adam, AdamW, SGD, Adagrad and Muon have a rule here"

/* Known to DeepSpeed, by itself or in torch.optim, and not there. */
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

#define THERE "Adam, AdamW, SGD, Adagrad, Lion, Lamb and Muon are there"

void cs_types_default(cs_optim_settings *settings)
{
    for (int i = TYPES - 1; i >= 0; i--)
        cs_keys_default(settings, types[i].keys, types[i].count);
    settings->matrix_rate = settings->other_rate = -1;
}

const cs_type *cs_types_of(int kind)
{
    return &types[kind];
}

const cs_type *cs_types_find(cs_json *doc, const char *name)
{
    for (int i = 0; i < TYPES; i++)
        if (strcasecmp(types[i].name, name) == 0)
            return &types[i];
    for (int i = 0; i < REFUSED_TYPES; i++)
        if (strcasecmp(refused[i].name, name) == 0) {
            cs_json_fault(doc, "optimizer.type", "not supported: the optimizer %s, because %s; " THERE, refused[i].name,
                          refused[i].reason);
            return NULL;
        }
    cs_json_fault(doc, "optimizer.type", "no optimizer is named \"%.48s\"; " THERE, name);
    return NULL;
}

void cs_types_help(void)
{
    cs_keys_help("optimizer.params of Adam, AdamW", CS_KEYS(adam_keys));
    for (int i = CS_OPTIM_SGD; i < TYPES; i++) {
        char heading[48];
        snprintf(heading, sizeof heading, "optimizer.params of %s", types[i].name);
        cs_keys_help(heading, types[i].keys, types[i].count);
    }
    printf("\noptimizers that are not supported\n");
    for (int i = 0; i < REFUSED_TYPES; i++)
        printf("  %-42s because %s\n", refused[i].name, refused[i].reason);
}
