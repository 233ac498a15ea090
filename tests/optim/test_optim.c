/* test_optim.c - update rules compared with PyTorch, hyper-parameters, and the section "optimizer" of the
 * configuration. */
#include "optim/optim.h"
#include "optim/rules.h"
#include "suite.h"

#include <string.h>

typedef float rule(float, float, float *, float *, ce_hyper);

static rule *const rules[] = {
#define RULE(function, constant, ...) [CE_OPTIM_##constant] = function,
#include "optim/rules.h"
};

enum { STEPS = 4, ELEMENTS = 3 };

/* The results of torch 2 on a CPU: parameters 0.5, -1.25, 2; gradients 0.1 (t + 1), -0.3 + 0.2 t, 1e-3 (t - 1.5) for t
 * = 0 to 3. */
static const struct {
    const char *name;
    ce_optim_settings settings;
    float expected[STEPS][ELEMENTS];
} cases[] = {
    { "AdamW",
      { .kind = CE_OPTIM_ADAMW,
        .rate = 1e-2,
        .betas = { 0.9, 0.95 },
        .epsilon = 1e-8,
        .weight_decay = 0.1,
        .bias_correction = true },
      { { 4.895000160e-01f, -1.238749981e+00f, 2.007999897e+00f },
        { 4.794306457e-01f, -1.228711605e+00f, 2.014791489e+00f },
        { 4.695061147e-01f, -1.222907543e+00f, 2.017351866e+00f },
        { 4.596281350e-01f, -1.222858310e+00f, 2.014160872e+00f } } },
    { "Adam",
      { .kind = CE_OPTIM_ADAM,
        .rate = 1e-2,
        .betas = { 0.9, 0.999 },
        .epsilon = 1e-8,
        .weight_decay = 0.1,
        .bias_correction = true },
      { { 4.900000095e-01f, -1.240000010e+00f, 1.990000010e+00f },
        { 4.801687002e-01f, -1.230602026e+00f, 1.980000019e+00f },
        { 4.703945816e-01f, -1.223039150e+00f, 1.970000029e+00f },
        { 4.606137872e-01f, -1.219245434e+00f, 1.960000038e+00f } } },
    { "SGD",
      { .kind = CE_OPTIM_SGD, .rate = 0.1, .weight_decay = 0.01 },
      { { 4.894999862e-01f, -1.218750000e+00f, 1.998149991e+00f },
        { 4.690104723e-01f, -1.207531214e+00f, 1.996201873e+00f },
        { 4.385414720e-01f, -1.216323733e+00f, 1.994155645e+00f },
        { 3.981029391e-01f, -1.245107412e+00f, 1.992011547e+00f } } },
    { "SGD, momentum and dampening",
      { .kind = CE_OPTIM_SGD, .rate = 0.1, .weight_decay = 0.01, .momentum = 0.9, .dampening = 0.3 },
      { { 4.894999862e-01f, -1.218750000e+00f, 1.998149991e+00f },
        { 4.657073319e-01f, -1.182771921e+00f, 1.995121241e+00f },
        { 4.229679406e-01f, -1.156563640e+00f, 1.990963817e+00f },
        { 3.562064171e-01f, -1.153166652e+00f, 1.985723495e+00f } } },
    { "SGD, Nesterov",
      { .kind = CE_OPTIM_SGD, .rate = 0.1, .momentum = 0.9, .nesterov = true },
      { { 4.810000062e-01f, -1.192999959e+00f, 2.000284910e+00f },
        { 4.349000156e-01f, -1.149699926e+00f, 2.000501394e+00f },
        { 3.544100225e-01f, -1.138729930e+00f, 2.000556231e+00f },
        { 2.329690307e-01f, -1.176856875e+00f, 2.000365496e+00f } } },
};

START_TEST(test_against_torch)
{
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        float p[ELEMENTS] = { 0.5f, -1.25f, 2.0f }, slots[2][ELEMENTS] = { { 0 } };
        int count = ce_optim_find(&cases[c].settings).slots;
        for (int t = 0; t < STEPS; t++) {
            float g[ELEMENTS] = { 0.1f * (float)(t + 1), -0.3f + 0.2f * (float)t, 1e-3f * ((float)t - 1.5f) };
            ce_hyper h = ce_optim_hyper(&cases[c].settings, cases[c].settings.rate, t + 1, 1);
            for (int i = 0; i < ELEMENTS; i++) {
                p[i] = rules[cases[c].settings.kind](p[i], g[i], count > 0 ? &slots[0][i] : NULL,
                                                     count > 1 ? &slots[1][i] : NULL, h);
                ck_assert_msg(fabsf(p[i] - cases[c].expected[t][i]) <= 1e-6f * fabsf(p[i]),
                              "%s, step %d, element %d: %.9g, not %.9g", cases[c].name, t, i, (double)p[i],
                              (double)cases[c].expected[t][i]);
            }
        }
    }
}
END_TEST

START_TEST(test_hyper)
{
    ce_optim_settings s = { .kind = CE_OPTIM_ADAMW, .betas = { 0.9, 0.999 }, .epsilon = 1e-8, .bias_correction = true };
    ce_hyper h = ce_optim_hyper(&s, 0.5, 3, 0.25);
    ck_assert(h.rate == 0.5f && h.grad_scale == 0.25f && h.first == 0);
    ck_assert(h.correction1 == (float)(1 / (1 - 0.9 * 0.9 * 0.9)));
    ck_assert(h.one_minus_beta2 == 0.001f); /* 1 - 0.999 is computed in double and rounded once; 1 - 0.999f differs */
    s.bias_correction = false;
    h = ce_optim_hyper(&s, 0.5, 1, 1);
    ck_assert(h.correction1 == 1 && h.correction2 == 1 && h.first == 1);
}
END_TEST

START_TEST(test_find)
{
    ce_optim_settings s = { .kind = CE_OPTIM_SGD };
    ck_assert_int_eq(ce_optim_find(&s).slots, 0);
    ck_assert_ptr_null(ce_optim_find(&s).slot_names[0]);
    s.momentum = 0.5;
    ck_assert_int_eq(ce_optim_find(&s).slots, 1);
    ck_assert_str_eq(ce_optim_find(&s).slot_names[0], "momentum_buffer");
    s.kind = CE_OPTIM_ADAM;
    ck_assert_int_eq(ce_optim_find(&s).slots, 2);
    ck_assert_str_eq(ce_optim_find(&s).name, "Adam");
    ck_assert_str_eq(ce_optim_find(&s).slot_names[1], "exp_avg_sq");
}
END_TEST

static cs_status read_text(const char *text, ce_optim_settings *settings)
{
    ce_json *doc;
    ck_assert_int_eq(ce_json_parse(&doc, text, strlen(text), "file"), CS_OK);
    ce_optim_read(doc, json_object_get(ce_json_root(doc), "optimizer"), settings);
    cs_status status = ce_json_verdict(doc);
    ce_json_close(doc);
    return status;
}

START_TEST(test_read)
{
    ce_optim_settings s;
    ck_assert_int_eq(read_text("{}", &s), CS_OK);
    ck_assert(s.kind == CE_OPTIM_ADAMW && s.rate == 1e-3 && s.betas[1] == 0.999 && s.epsilon == 1e-8 &&
              s.weight_decay == 0);
    ck_assert_int_eq(read_text("{\"optimizer\": {\"type\": \"adam\", \"params\": {\"lr\": \"auto\"}}}", &s), CS_OK);
    ck_assert(s.kind == CE_OPTIM_ADAMW && s.rate == 1e-3); /* DeepSpeed's Adam is AdamW */
    ck_assert_int_eq(
        read_text("{\"optimizer\": {\"type\": \"Adam\", \"params\": {\"adam_w_mode\": false, \"torch_adam\": true}}}",
                  &s),
        CS_OK);
    ck_assert(s.kind == CE_OPTIM_ADAM);
    ck_assert_int_eq(read_text("{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"adam_w_mode\": false}}}", &s),
                     CS_OK);
    ck_assert(s.kind == CE_OPTIM_ADAMW);
    ck_assert_int_eq(
        read_text(
            "{\"optimizer\": {\"type\": \"SGD\", \"params\": {\"lr\": 2, \"momentum\": 0.9, \"nesterov\": true}}}", &s),
        CS_OK);
    ck_assert(s.kind == CE_OPTIM_SGD && s.rate == 2 && s.nesterov);
}
END_TEST

START_TEST(test_defaults)
{
    static const struct {
        const char *type;
        int kind, slots;
        double rate, betas[2], epsilon;
    } known[] = {
        { "adagrad", CE_OPTIM_ADAGRAD, 1, 1e-2, { 0, 0 }, 1e-10 },
        { "lion", CE_OPTIM_LION, 1, 1e-3, { 0.9, 0.999 }, 0 },
        { "LAMB", CE_OPTIM_LAMB, 2, 1e-3, { 0.9, 0.999 }, 1e-8 },
        { "muon", CE_OPTIM_MUON, 1, 0.02, { 0.9, 0.95 }, 1e-10 },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char text[64];
        ce_optim_settings s;
        snprintf(text, sizeof text, "{\"optimizer\": {\"type\": \"%s\"}}", known[i].type);
        ck_assert_int_eq(read_text(text, &s), CS_OK);
        ck_assert(s.kind == known[i].kind && s.rate == known[i].rate && ce_optim_find(&s).slots == known[i].slots);
        ck_assert(known[i].betas[0] == 0 || (s.betas[0] == known[i].betas[0] && s.betas[1] == known[i].betas[1]));
        ck_assert(known[i].epsilon == 0 || s.epsilon == known[i].epsilon);
        ck_assert_str_eq(ce_optim_find(&s).slot_names[0], s.kind == CE_OPTIM_MUON      ? "momentum_buffer"
                                                          : s.kind == CE_OPTIM_ADAGRAD ? "sum"
                                                                                       : "exp_avg");
    }
}
END_TEST

START_TEST(test_muon_rates)
{
    static const struct {
        const char *params;
        double matrices, others;
    } rates[] = {
        { "", 0.02, 3e-4 },
        { "\"lr\": \"auto\"", 0.02, 3e-4 },
        { "\"lr\": 0.5", 0.5, 0.5 },
        { "\"lr\": 0.5, \"adam_lr\": 0.1", 0.5, 0.1 },
        { "\"muon_lr\": 0.5", 0.5, 3e-4 },
        { "\"muon_lr\": 0, \"lr\": 0.1", 0, 0.1 },
        { "\"adam_lr\": 0.25", 0.02, 0.25 },
    };
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        char text[128];
        ce_optim_settings s;
        snprintf(text, sizeof text, "{\"optimizer\": {\"type\": \"Muon\", \"params\": {%s}}}", rates[i].params);
        ck_assert_int_eq(read_text(text, &s), CS_OK);
        ce_optim_settings other = ce_optim_beside_muon(&s);
        ck_assert_msg(s.rate == rates[i].matrices && other.rate == rates[i].others, "%s: %g and %g", text, s.rate,
                      other.rate);
        ck_assert(other.kind == CE_OPTIM_ADAMW && other.bias_correction && other.betas[1] == 0.95);
    }
}
END_TEST

START_TEST(test_refused)
{
    static const struct {
        const char *params, *sentence;
    } bad[] = {
        { "\"type\": \"RMSprop\"", "not supported: the optimizer RMSprop, because cspeed does not implement" },
        { "\"type\": \"OneBitLamb\"", "not supported: the optimizer OneBitLamb, because" },
        { "\"type\": \"zerooneadam\"", "not supported: the optimizer ZeroOneAdam, because" },
        { "\"type\": \"MuAdamW\"", "not supported: the optimizer MuAdamW, because" },
        { "\"type\": \"onebitadam\"", "not supported: the optimizer OneBitAdam, because" },
        { "\"type\": \"Addam\"", "no optimizer is named \"Addam\"" },
        { "\"params\": {}", "\"type\" is missing" },
        { "\"type\": \"Adam\", \"params\": {\"max_grad_norm\": 1}", "gradient_clipping" },
        { "\"type\": \"Adam\", \"params\": {\"amsgrad\": true}", "not supported: optimizer.params.amsgrad, because" },
        { "\"type\": \"Adam\", \"params\": {\"betas\": [0.9]}", "a list of two numbers is needed" },
        { "\"type\": \"Adam\", \"params\": {\"betas\": [0.9, 1]}", "both must be below 1" },
        { "\"type\": \"Adam\", \"params\": {\"lr\": -1}", "at least 0 is needed" },
        { "\"type\": \"Adam\", \"params\": {\"lr\": \"1e-4\"}", "a number is needed, not \"1e-4\"" },
        { "\"type\": \"Adam\", \"params\": {\"weigth_decay\": 1}", "the nearest known one is \"weight_decay\"" },
        { "\"type\": \"Adam\", \"eps\": 1", "unknown key" },
        { "\"type\": \"SGD\", \"params\": {\"nesterov\": true}", "Nesterov needs a momentum" },
        { "\"type\": \"Adam\", \"params\": {\"fused\": true}", "not supported: optimizer.params.fused, because" },
        { "\"type\": \"Adam\", \"params\": {\"freeze_step\": 100}", "because it belongs to 1-bit optimizers" },
        { "\"type\": \"Adam\", \"params\": {\"momentum\": 0.9}", "unknown key" },
        { "\"type\": \"Adagrad\", \"params\": {\"amsgrad\": true}",
          "not supported: optimizer.params.amsgrad, because" },
        { "\"type\": \"Adagrad\", \"params\": {\"initial_accumulator_value\": -1}", "at least 0 is needed" },
        { "\"type\": \"Lion\", \"params\": {\"betas\": [1, 0.9]}", "both must be below 1" },
        { "\"type\": \"Lion\", \"params\": {\"eps\": 1e-8}", "unknown key" },
        { "\"type\": \"Lamb\", \"params\": {\"min_coeff\": 2, \"max_coeff\": 1}", "2 is above max_coeff, 1" },
        { "\"type\": \"Lamb\", \"params\": {\"max_grad_norm\": 1}", "gradient_clipping" },
        { "\"type\": \"Muon\", \"params\": {\"momentum\": 1}", "it must be below 1" },
        { "\"type\": \"Muon\", \"params\": {\"betas\": [0.9, 1]}", "both must be below 1" },
        { "\"type\": \"Muon\", \"params\": {\"ns_method\": \"svd\"}", "gram" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256];
        ce_optim_settings s;
        snprintf(text, sizeof text, "{\"optimizer\": {%s}}", bad[i].params);
        ck_assert_int_eq(read_text(text, &s), CS_BAD_CONFIG);
        ck_assert_msg(strstr(cs_error(), bad[i].sentence) != NULL, "%s: %s", text, cs_error());
    }
}
END_TEST

SUITE_MAIN("optim", test_against_torch, test_hyper, test_find, test_read, test_defaults, test_muon_rates, test_refused)
