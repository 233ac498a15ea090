/* optim.c - optimizers: the key tables, name to optimizer, hyper-parameters at step t. */
#include "optim/optim.h"
#include "optim/rules.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define AT(field) offsetof(cs_optim_settings, field)
#define MOST      1e30

#define CLIPPING "it is the engine that clips: use \"gradient_clipping\" at the top level"

static const cs_key adam_keys[] = {
    {"lr", CS_KEY_NUMBER, AT(rate), "1e-3", 0, MOST, "auto", "learning rate; \"auto\": the default"},
    {"betas", CS_KEY_PAIR, AT(betas), "[0.9, 0.999]", 0, 1, "auto", "decay of the two moments; \"auto\": the default"},
    {"eps", CS_KEY_NUMBER, AT(epsilon), "1e-8", 0, MOST, "auto", "added outside the root; \"auto\": the default"},
    {"weight_decay", CS_KEY_NUMBER, AT(weight_decay), "0", 0, MOST, "auto",
     "on parameters that ask for it; \"auto\": the default"},
    {"bias_correction", CS_KEY_BOOL, AT(bias_correction), "true", 0, 0, NULL, "divide the moments by 1 - beta^t"},
    {"adam_w_mode", CS_KEY_BOOL, AT(adam_w_mode), "true", 0, 0, NULL,
     "\"Adam\" with it is AdamW, as in DeepSpeed; \"AdamW\" is always AdamW"},
    {"torch_adam", CS_KEY_INERT, 0, "false", 0, 0, NULL, "one implementation here, with PyTorch's arithmetic"},
    {"set_grad_none", CS_KEY_INERT, 0, "true", 0, 0, NULL, "the engine owns the gradients"},
    {"amsgrad", CS_KEY_REFUSED, 0, "false", 0, 0, "0", "AMSGrad's maximum of the second moment is not kept"},
    {"fp32_optimizer_states", CS_KEY_REFUSED, 0, "true", 0, 0, "1", "the moments are always kept in fp32"},
    {"max_grad_norm", CS_KEY_REFUSED, 0, "null", 0, 0, NULL, CLIPPING},
};

static const cs_key sgd_keys[] = {
    {"lr", CS_KEY_NUMBER, AT(rate), "1e-3", 0, MOST, "auto", "learning rate; \"auto\": the default"},
    {"momentum", CS_KEY_NUMBER, AT(momentum), "0", 0, MOST, "auto", "0: no buffer is kept"},
    {"dampening", CS_KEY_NUMBER, AT(dampening), "0", -MOST, MOST, "auto", "of the gradient entering the buffer"},
    {"weight_decay", CS_KEY_NUMBER, AT(weight_decay), "0", 0, MOST, "auto",
     "added to the gradient of parameters that ask for it"},
    {"nesterov", CS_KEY_BOOL, AT(nesterov), "false", 0, 0, NULL, "Nesterov momentum; needs momentum, and no dampening"},
    {"maximize", CS_KEY_REFUSED, 0, "false", 0, 0, "0", "a loss is minimized"},
    {"max_grad_norm", CS_KEY_REFUSED, 0, "null", 0, 0, NULL, CLIPPING},
};

typedef struct {
    const char *type;
} section_text;

static const cs_key section_keys[] = {
    {"type", CS_KEY_STRING, offsetof(section_text, type), "null", 0, 0, NULL, "Adam, AdamW or SGD, caseless"},
    {"params", CS_KEY_SECTION, 0, "{}", 0, 0, NULL, "the tables below"},
    {"legacy_fusion", CS_KEY_INERT, 0, "false", 0, 0, NULL, "there is one way of updating"},
};

typedef struct {
    const char   *name;
    cs_optim_kind kind;
    const cs_key *keys;
    int           count;
} type_row;

static const type_row types[] = {
    {"AdamW", CS_OPTIM_ADAMW, CS_KEYS(adam_keys)},
    {"Adam", CS_OPTIM_ADAM, CS_KEYS(adam_keys)},
    {"SGD", CS_OPTIM_SGD, CS_KEYS(sgd_keys)},
};

/* DeepSpeed's other optimizers: known, and not there. */
static const struct {
    const char *name, *reason;
} refused_types[] = {
    {"Adagrad", "its rule is not written yet"},
    {"Lion", "its rule is not written yet"},
    {"Lamb", "it needs a norm of each whole tensor, and an update here sees one element"},
    {"Muon", "it needs whole matrices, and an update here sees one element"},
    {"OneBitAdam", "gradients are exchanged uncompressed here"},
    {"OneBitLamb", "gradients are exchanged uncompressed here"},
    {"ZeroOneAdam", "gradients are exchanged uncompressed here"},
    {"MuAdam", "muP's scaling of rates by width is not built"},
    {"MuAdamW", "muP's scaling of rates by width is not built"},
    {"MuSGD", "muP's scaling of rates by width is not built"},
};

cs_optimizer cs_optim_find(const cs_optim_settings *settings)
{
    static const cs_optimizer list[] = {
#define RULE(function, name, slots) {0, name, slots, {NULL, NULL}},
#include "optim/rules.h"
    };
    cs_optimizer found = list[settings->kind];
    found.kind         = (cs_optim_kind)settings->kind;
    if (found.kind == CS_OPTIM_SGD) {
        found.slots         = settings->momentum != 0;
        found.slot_names[0] = found.slots ? "momentum_buffer" : NULL;
    } else {
        found.slot_names[0] = "exp_avg";
        found.slot_names[1] = "exp_avg_sq";
    }
    return found;
}

cs_hyper cs_optim_hyper(const cs_optim_settings *settings, double rate, int64_t t, double grad_scale)
{
    bool     sgd = settings->kind == CS_OPTIM_SGD, fix = !sgd && settings->bias_correction;
    double   one = sgd ? settings->momentum : settings->betas[0], two = sgd ? settings->dampening : settings->betas[1];
    cs_hyper h = {
        .rate       = (float)rate,
        .beta1      = (float)one,
        .beta2      = (float)two,
        .rest1      = (float)(1 - one),
        .rest2      = (float)(1 - two),
        .epsilon    = (float)settings->epsilon,
        .decay      = (float)settings->weight_decay,
        .fix1       = fix ? (float)(1 / (1 - pow(one, (double)t))) : 1.0f,
        .fix2       = fix ? (float)(1 / (1 - pow(two, (double)t))) : 1.0f,
        .grad_scale = (float)grad_scale,
        .nesterov   = settings->nesterov,
        .first      = t == 1,
    };
    return h;
}

static const type_row *find_type(cs_json *doc, const char *name)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcasecmp(types[i].name, name) == 0)
            return &types[i];
    for (size_t i = 0; i < sizeof refused_types / sizeof *refused_types; i++)
        if (strcasecmp(refused_types[i].name, name) == 0) {
            cs_json_fault(doc, "optimizer.type",
                          "not supported: the optimizer %s, because %s; Adam, AdamW and SGD are there",
                          refused_types[i].name, refused_types[i].reason);
            return NULL;
        }
    cs_json_fault(doc, "optimizer.type", "no optimizer is named \"%.48s\"; Adam, AdamW and SGD are there", name);
    return NULL;
}

static void check(cs_json *doc, const cs_optim_settings *settings)
{
    if (settings->kind != CS_OPTIM_SGD && (settings->betas[0] >= 1 || settings->betas[1] >= 1))
        cs_json_fault(doc, "optimizer.params.betas", "both must be below 1, not [%g, %g]", settings->betas[0],
                      settings->betas[1]);
    if (settings->nesterov && (settings->momentum == 0 || settings->dampening != 0))
        cs_json_fault(doc, "optimizer.params.nesterov",
                      "Nesterov needs a momentum above 0 and a dampening of 0, not %g and %g", settings->momentum,
                      settings->dampening);
}

void cs_optim_read(cs_json *doc, json_t *section, cs_optim_settings *settings)
{
    section_text    text;
    const type_row *type   = &types[0];
    json_t         *params = json_object_get(section, "params");
    memset(settings, 0, sizeof *settings);
    cs_keys_default(settings, CS_KEYS(sgd_keys));
    cs_keys_default(settings, CS_KEYS(adam_keys));
    cs_keys_fill(doc, section, "optimizer", &text, CS_KEYS(section_keys));
    if (section && !text.type)
        cs_json_fault(doc, "optimizer", "\"type\" is missing: Adam, AdamW or SGD");
    else if (section)
        type = find_type(doc, text.type);
    if (!type || (section && !text.type))
        return;
    cs_keys_fill(doc, params, "optimizer.params", settings, type->keys, type->count);
    settings->kind = (int)(type->kind == CS_OPTIM_ADAM && settings->adam_w_mode ? CS_OPTIM_ADAMW : type->kind);
    check(doc, settings);
    cs_keys_settle(doc, params, "optimizer.params", settings, type->keys, type->count);
}

const cs_key *cs_optim_keys(const cs_optim_settings *settings, int *count)
{
    const type_row *type = &types[settings->kind];
    *count               = type->count;
    return type->keys;
}

void cs_optim_help(void)
{
    cs_keys_help("optimizer", CS_KEYS(section_keys));
    cs_keys_help("optimizer.params of Adam, AdamW", CS_KEYS(adam_keys));
    cs_keys_help("optimizer.params of SGD", CS_KEYS(sgd_keys));
    printf("\noptimizers that are not supported\n");
    for (size_t i = 0; i < sizeof refused_types / sizeof *refused_types; i++)
        printf("  %-42s because %s\n", refused_types[i].name, refused_types[i].reason);
}
