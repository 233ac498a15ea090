/* formats.c - the key tables of number formats: fp16, bf16, data_types, amp, torch_autocast. It also checks the keys of
 * the loss scale. */
#include "config/resolve.h"
#include "config/rows.h"

#define NO_SCALE "bf16 has the range of fp32 and needs no loss scaling"

static const ce_key fp16[] = {
    SUPPORTED("enabled", BOOL, fp16, "false", 0, 0, "auto",
              "true: train in fp16 with fp32 master weights and loss scaling; \"auto\": false"),
    SUPPORTED("loss_scale", NUMBER, scaler.loss_scale, "0", 0, 0x1p126, "auto",
              "factor of the loss before backward, against underflow; 0: dynamic loss scaling"),
    SUPPORTED(
        "initial_scale_power", INT, scaler.initial_scale_power, "16", -126, 126, "auto",
        "dynamic loss scaling starts with the scale 2 to this power; lower it if the first steps are all skipped"),
    SUPPORTED("loss_scale_window", INT, scaler.loss_scale_window, "1000", 0, 0, "auto",
              "number of steps without overflow after which the scale is doubled"),
    SUPPORTED("hysteresis", INT, scaler.hysteresis, "2", 0, 0, "auto",
              "number of overflows after which the scale is halved; earlier overflows only skip their step"),
    SUPPORTED(
        "consecutive_hysteresis", BOOL, scaler.consecutive_hysteresis, "false", 0, 0, "auto",
        "true: every step without overflow resets the count of overflows for hysteresis; false: only a doubling of the scale does"),
    SUPPORTED("min_loss_scale", NUMBER, scaler.min_loss_scale, "1", 0, 0x1p126, "auto",
              "minimum loss scale; an overflow at this scale ends the run"),
    INERT("auto_cast", "false", "inputs are token ids, which need no cast; a model of your own casts its inputs"),
    REFUSED("dynamic_loss_scale", "null", "a dynamic loss scale is written \"loss_scale\": 0 in the section \"fp16\""),
    SUPPORTED(
        "fp16_master_weights_and_grads", BOOL, fp16_masters, "false", 0, 0, "auto",
        "true: no fp32 master weights: fp16 parameters are updated directly, and gradients accumulate in fp16; saves memory, less exact"),
};

static const ce_key bf16[] = {
    SUPPORTED("enabled", BOOL, bf16, "false", 0, 0, "auto",
              "true: train in bf16 with fp32 master weights; \"auto\": false, on every machine"),
    SUPPORTED("check_grad_overflow", BOOL, check_grad_overflow, "true", 0, 0, "auto",
              "true: skip the update if gradients are Inf or NaN"),
    INERT("immediate_grad_update", "false",
          "the gradient of a unit is always accumulated at the end of its backward, as this key requests"),
    SUPPORTED(
        "bf16_master_weights_and_grads", BOOL, bf16_masters, "false", 0, 0, "auto",
        "true: no fp32 master weights: bf16 parameters are updated directly, and gradients accumulate in bf16; saves memory, less exact"),
    SUPPORTED("bf16_optimizer_states", BOOL, bf16_slots, "false", 0, 0, "auto",
              "true: store the optimizer state in bf16, which saves memory; requires bf16_master_weights_and_grads"),
    INERT_LIKE("loss_scale", "0", NO_SCALE),
    INERT_LIKE("initial_scale_power", "0", NO_SCALE),
    INERT_LIKE("loss_scale_window", "0", NO_SCALE),
    INERT_LIKE("hysteresis", "0", NO_SCALE),
    INERT_LIKE("consecutive_hysteresis", "true", NO_SCALE),
    INERT_LIKE("min_loss_scale", "0", NO_SCALE),
    INERT_LIKE("auto_cast", "true", "inputs are token ids, which need no cast; a model of your own casts its inputs"),
};

static const ce_key data_types[] = {
    SUPPORTED(
        "grad_accum_dtype", STRING, grad_accum_dtype, "null", 0, 0, "auto",
        "type in which gradients accumulate: fp32, bf16 or fp16; null: fp32 (DeepSpeed: the type of the parameters)"),
    SUPPORTED("param_dtype", STRING, param_dtype, "null", 0, 0, "auto",
              "type of the parameters: fp32, bf16 or fp16; must agree with fp16.enabled and bf16.enabled"),
    REFUSED("buffer_dtype", "null", "models here have no buffers, only parameters"),
    INERT_LIKE("keep_in_fp32_modules", "[]", "it is for buffers, and models here have none"),
};

static const ce_key amp[] = {
    SUPPORTED("enabled", BOOL, amp.enabled, "false", 0, 0, NULL,
              "true: mixed precision as in NVIDIA Apex, by opt_level"),
    SUPPORTED("opt_level", CHOICE, amp.level, "\"O1\"", 0, 0, "O0|O1|O2|O3",
              "O0: fp32; O1: fp16 products on fp32 parameters; O2: fp16 with fp32 norms and masters; O3: all fp16"),
    SUPPORTED("loss_scale", JSON, amp.loss_scale, "null", 0, 0, NULL,
              "loss scale, \"dynamic\" or a number; null: dynamic at O1 and O2, else 1"),
    SUPPORTED("min_loss_scale", NUMBER, amp.min_scale, "null", 0, 0x1p126, NULL,
              "minimum loss scale; an overflow at this scale ends the run; null: 2^-24"),
    SUPPORTED("max_loss_scale", NUMBER, amp.max_scale, "16777216", 0, 0x1p126, NULL,
              "maximum of the dynamic loss scale"),
    SUPPORTED("keep_batchnorm_fp32", JSON, amp.keep_norms, "null", 0, 0, NULL,
              "keep the parameters of norms in fp32; null: true at O2, false at O3; no effect at O0 and O1"),
    SUPPORTED("master_weights", JSON, amp.masters, "null", 0, 0, NULL,
              "keep fp32 masters; null: true at O2, false at O3; no effect at O0 and O1"),
    REFUSED("cast_model_type", "null", "opt_level determines it"),
    REFUSED("patch_torch_functions", "null", "opt_level determines it"),
    REFUSED("cast_model_outputs", "null", "the model's output is a loss, in fp32"),
    REFUSED("num_losses", "1", "a model has exactly one loss"),
    INERT("verbosity", "1", "the types of the operations are always printed once"),
};

static const ce_key autocast[] = {
    SUPPORTED(
        "enabled", BOOL, autocast.enabled, "false", 0, 0, NULL,
        "true: matrix products in 16 bits on fp32 parameters; with float16 the loss is scaled by the keys of \"fp16\""),
    SUPPORTED("dtype", STRING, autocast.dtype, "null", 0, 0, NULL,
              "type of matrix products, bfloat16 or float16; required if enabled"),
    SUPPORTED("lower_precision_safe_modules", JSON, autocast.modules, "null", 0, 0, NULL,
              "must contain torch.nn.Linear, since matrix products run in 16 bits; other names have no effect"),
};

const ce_section ce_formats_sections[] = {
    { "fp16", CE_KEYS(fp16) },
    { "bf16", CE_KEYS(bf16) },
    { "data_types", CE_KEYS(data_types) },
    { "amp", CE_KEYS(amp) },
    { "torch_autocast", CE_KEYS(autocast) },
};

static void check_scaler(cs_config *config)
{
    const ce_scaler_settings *scaler = &config->settings.scaler;
    bool dynamic = scaler->loss_scale == 0;
    if (scaler->min_loss_scale != trunc(scaler->min_loss_scale))
        ce_json_note(config->doc, "fp16.min_loss_scale", "%g is accepted; DeepSpeed takes whole numbers only",
                     scaler->min_loss_scale);
    if (!(config->settings.fp16 || config->settings.autocast.enabled) || !dynamic)
        return;
    if (scaler->min_loss_scale <= 0)
        ce_json_fault(config->doc, "fp16.min_loss_scale", "above 0 is needed, not %g", scaler->min_loss_scale);
    if (scaler->loss_scale_window < 1)
        ce_json_fault(config->doc, "fp16.loss_scale_window", "at least 1 is needed, not %lld",
                      (long long)scaler->loss_scale_window);
    if (scaler->hysteresis < 1)
        ce_json_fault(config->doc, "fp16.hysteresis",
                      "at least 1 is needed, not %lld: 1 lowers the scale at every overflow",
                      (long long)scaler->hysteresis);
    if (ldexp(1, (int)scaler->initial_scale_power) < scaler->min_loss_scale)
        ce_json_fault(config->doc, "fp16.initial_scale_power", "the first scale, 2^%lld, is below min_loss_scale, %g",
                      (long long)scaler->initial_scale_power, scaler->min_loss_scale);
}

/* Adds a note if the file leaves the precision to Hugging Face's Trainer. Such a file most often trains in 16 bits there,
 * by the argument --bf16 or --fp16. */
static void note_auto(cs_config *config)
{
    const char *spelling = ce_legacy_spelling(config->doc, "bf16");
    bool of_bf16 = ce_keys_is_auto(ce_json_find(config->doc, spelling), "enabled");
    bool of_fp16 = ce_keys_is_auto(ce_json_find(config->doc, "fp16"), "enabled");
    const ce_settings *s = &config->settings;
    bool wide = !s->fp16 && !s->bf16 && !s->autocast.enabled && !s->amp.enabled;
    if (wide && (of_bf16 || of_fp16))
        ce_json_note(config->doc, "precision",
                     "fp32, because \"auto\" in %s stands for an argument of Hugging Face's Trainer, whose default is "
                     "false; %s%s%s%s%s trains in 16 bits",
                     of_bf16 && of_fp16 ? "bf16 and fp16"
                     : of_bf16          ? spelling
                                        : "fp16",
                     of_bf16 ? "--set " : "", of_bf16 ? spelling : "", of_bf16 ? ".enabled=true" : "",
                     of_bf16 && of_fp16 ? " or " : "", of_fp16 ? "--set fp16.enabled=true" : "");
}

void ce_formats_resolve(cs_config *config)
{
    if (config->settings.fp16 && config->settings.bf16)
        ce_json_fault(config->doc, "fp16.enabled", "fp16 and bf16 are both enabled: choose one");
    check_scaler(config);
    note_auto(config);
}
