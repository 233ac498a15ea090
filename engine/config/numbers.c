/* numbers.c - resolves fp16, bf16, amp, torch_autocast and data_types into one ce_precision. */
#include "config/resolve.h"

#include <stdio.h>
#include <string.h>

enum { NO_TYPE = -1 };

/* Returns the cs_dtype that `name`, the value of the key at `path`, names. Returns NO_TYPE if `name` is NULL or "auto".
 * If `name` is not the name of a type, reports an error and returns NO_TYPE. */
static int type_of(cs_config *config, const char *path, const char *name)
{
    enum { NAMES = 4 };
    static const char *const known[][NAMES] = {
        [CS_F32] = { "fp32", "float32", "float", "torch.float32" },
        [CS_F16] = { "fp16", "float16", "half", "torch.float16" },
        [CS_BF16] = { "bf16", "bfloat16", "torch.bfloat16" },
    };
    if (!name || strcasecmp(name, "auto") == 0)
        return NO_TYPE;
    for (int type = 0; type < (int)(sizeof known / sizeof *known); type++)
        for (int i = 0; i < NAMES && known[type][i]; i++)
            if (strcasecmp(name, known[type][i]) == 0)
                return type;
    ce_json_fault(config->doc, path, "no type is named \"%.40s\": fp32, bf16 or fp16", name);
    return NO_TYPE;
}

/* ---- fp16, bf16 ---- */

static ce_precision plain(const ce_settings *s)
{
    cs_dtype type = s->fp16 ? CS_F16 : s->bf16 ? CS_BF16 : CS_F32;
    bool half = type == CS_F16 ? s->fp16_masters : type == CS_BF16 && s->bf16_masters;
    cs_dtype state = half ? type : CS_F32;
    bool small = type == CS_BF16 && half && s->bf16_slots;
    return (ce_precision){ .values = type,
                           .products = type,
                           .masters = state,
                           .sums = state,
                           .slots = small ? CS_BF16 : CS_F32,
                           .scaled = type == CS_F16 };
}

/* Sets the precision that fp16 and bf16 give without amp and torch_autocast. */
static void resolve_plain(cs_config *config)
{
    ce_settings *s = &config->settings;
    int type = type_of(config, "data_types.param_dtype", s->param_dtype);
    s->precision = plain(s);
    if (s->bf16 && s->bf16_slots && !s->bf16_masters)
        ce_json_fault(config->doc, "bf16.bf16_optimizer_states", "it needs bf16_master_weights_and_grads too");
    if (type != NO_TYPE && type != (int)s->precision.values)
        ce_json_fault(config->doc, "data_types.param_dtype", "%s is not what fp16.enabled and bf16.enabled say: %s",
                      ce_precision_name((cs_dtype)type), ce_precision_name(s->precision.values));
}

/* ---- amp ---- */

/* Reads a flag as Apex does: true, false, "True" or "False". Returns `otherwise` if the key is not given. */
static bool flag_of(cs_config *config, const char *path, const json_t *value, bool otherwise)
{
    const char *text = json_string_value(value);
    if (!value || json_is_boolean(value))
        return value ? json_is_true(value) : otherwise;
    if (!text || (strcasecmp(text, "true") != 0 && strcasecmp(text, "false") != 0))
        ce_json_fault(config->doc, path, "true or false is needed");
    return text && strcasecmp(text, "true") == 0;
}

/* Marks the keys of "fp16" as derived from amp, because their values in the file have no effect with amp. */
static void mark_scaler(cs_config *config)
{
    static const char *const names[] = { "loss_scale", "initial_scale_power", "loss_scale_window", "hysteresis",
                                         "min_loss_scale" };
    char path[64];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "fp16.%s", names[i]);
        ce_json_mark(config->doc, path, "derived: amp");
    }
}

/* Sets the loss scaler as Apex does: without hysteresis, and doubling the scale after 2,000 steps without overflow, up
 * to 2^24. */
static void scale_amp(cs_config *config)
{
    ce_settings *s = &config->settings;
    const json_t *given = s->amp.loss_scale;
    const char *text = json_string_value(given);
    bool mixed = s->amp.level == CE_AMP_O1 || s->amp.level == CE_AMP_O2;
    bool dynamic = text ? strcasecmp(text, "dynamic") == 0 : !given && mixed;
    double scale = json_is_number(given) ? json_number_value(given) : 1;
    double min = s->amp.min_scale;
    if (given && !dynamic && !(json_is_number(given) && scale > 0 && scale <= 0x1p126))
        ce_json_fault(config->doc, "amp.loss_scale", "\"dynamic\" is needed, or a number above 0");
    mark_scaler(config);
    s->scaler = (ce_scaler_settings){ .loss_scale = dynamic ? 0 : scale,
                                      .initial_scale_power = 16,
                                      .loss_scale_window = 2000,
                                      .hysteresis = 1,
                                      .min_loss_scale = min > 0 ? min : 0x1p-24,
                                      .max_loss_scale = s->amp.max_scale };
    s->precision.scaled = dynamic || scale != 1 || s->precision.products == CS_F16;
}

static void resolve_amp(cs_config *config)
{
    ce_settings *s = &config->settings;
    int level = s->amp.level;
    bool half = level >= CE_AMP_O2, whole = level == CE_AMP_O3;
    if (!half && s->amp.keep_norms)
        ce_json_fault(config->doc, "amp.keep_batchnorm_fp32",
                      "parameters are always fp32 with opt_level O%d: leave it out", level);
    if (!half && s->amp.masters)
        ce_json_fault(config->doc, "amp.master_weights", "parameters are always fp32 with opt_level O%d: leave it out",
                      level);
    bool norms = flag_of(config, "amp.keep_batchnorm_fp32", s->amp.keep_norms, !whole);
    bool masters = flag_of(config, "amp.master_weights", s->amp.masters, !whole);
    cs_dtype state = half && !masters ? CS_F16 : CS_F32;
    s->precision = (ce_precision){ .values = half ? CS_F16 : CS_F32,
                                   .products = level >= CE_AMP_O1 ? CS_F16 : CS_F32,
                                   .masters = state,
                                   .slots = state,
                                   .sums = state,
                                   .wide_norms = half && norms };
    scale_amp(config);
}

/* ---- torch_autocast ---- */

static bool holds_linear(const json_t *names)
{
    size_t index;
    json_t *name;
    json_array_foreach (names, index, name) {
        const char *text = json_string_value(name);
        if (text && (strcmp(text, "torch.nn.Linear") == 0 || strcmp(text, "torch.nn.modules.linear.Linear") == 0))
            return true;
    }
    return false;
}

static void resolve_autocast(cs_config *config)
{
    ce_settings *s = &config->settings;
    int type = type_of(config, "torch_autocast.dtype", s->autocast.dtype);
    if (!s->autocast.dtype || type == CS_F32)
        ce_json_fault(config->doc, "torch_autocast.dtype", "bfloat16 or float16 is needed");
    if (s->autocast.modules && !holds_linear(s->autocast.modules))
        ce_json_fault(config->doc, "torch_autocast.lower_precision_safe_modules",
                      "not supported: a list without torch.nn.Linear, because only matrix products run in 16 bits");
    s->precision = (ce_precision){ .products = type == CS_F16 ? CS_F16 : CS_BF16, .scaled = type == CS_F16 };
}

/* ---- gradients ---- */

static void resolve_types(cs_config *config)
{
    ce_settings *s = &config->settings;
    ce_precision *types = &s->precision;
    int sums = type_of(config, "data_types.grad_accum_dtype", s->grad_accum_dtype);
    int wire = type_of(config, "communication_data_type", s->communication_dtype);
    if (sums != NO_TYPE)
        types->sums = (cs_dtype)sums;
    types->wire = wire == NO_TYPE ? types->sums : (cs_dtype)wire;
    if (types->wire == types->sums || types->sums == CS_F32)
        return;
    if (types->wire != CS_F32)
        ce_json_fault(config->doc, "communication_data_type",
                      "not supported: %s for gradients that accumulate in %s, because each of them loses bits that "
                      "the other has",
                      ce_precision_name(types->wire), ce_precision_name(types->sums));
    /* The result has the same bits as if fp32 were sent, because the gradients were rounded before, and are added in
     * fp32. */
    else if (s->stage < 2) {
        types->wire = types->sums;
        ce_json_note(config->doc, "communication_data_type",
                     "fp32 became %s, because at stages 0 and 1 the accumulated gradients are sent, which are %s",
                     ce_precision_name(types->sums), ce_precision_name(types->sums));
    }
}

/* Sets the factor by which gradients are multiplied before they are reduced. With prescale_gradients it is 1 / lanes.
 * It is 1 / lanes also if the gradients are sent in 16 bits and gradient_predivide_factor is 1, so that the 16-bit sum
 * stays in range. Otherwise it is 1 / gradient_predivide_factor. The rest of the division follows after the
 * reduction. */
static void resolve_division(cs_config *config)
{
    ce_settings *s = &config->settings;
    double divisor = s->predivide_factor;
    bool narrow = s->precision.wire != CS_F32 && divisor == 1;
    if (divisor <= 0 || divisor > 0x1p126)
        ce_json_fault(config->doc, "gradient_predivide_factor", "a number above 0 is needed, not %g", divisor);
    s->prescale_factor = (float)(1 / (s->prescale_gradients || narrow ? (double)s->lanes : divisor));
}

static void check_optimizer(cs_config *config)
{
    const ce_precision *types = &config->settings.precision;
    bool wide = types->masters == CS_F32 && types->slots == CS_F32 && types->sums == CS_F32;
    ce_optimizer with = ce_optim_find(&config->settings.optim);
    if (!wide && with.directs)
        ce_json_fault(config->doc, "optimizer.type",
                      "not supported: %s with masters, states or gradients in 16 bits, because its step needs whole "
                      "tensors, which are kept in fp32 alone",
                      with.name);
}

void ce_numbers_resolve(cs_config *config)
{
    ce_settings *s = &config->settings;
    bool half = s->fp16 || s->bf16, amp = s->amp.enabled;
    if (amp && half)
        ce_json_fault(config->doc, "amp.enabled", "amp and %s are both enabled: choose one", s->fp16 ? "fp16" : "bf16");
    if (s->autocast.enabled && (half || amp))
        ce_json_fault(config->doc, "torch_autocast.enabled", "torch_autocast and %s are both enabled: choose one",
                      amp       ? "amp"
                      : s->fp16 ? "fp16"
                                : "bf16");
    resolve_plain(config);
    if (amp)
        resolve_amp(config);
    else if (s->autocast.enabled)
        resolve_autocast(config);
    resolve_types(config);
    resolve_division(config);
    check_optimizer(config);
}

const char *ce_numbers_name(const ce_settings *settings)
{
    static const char *const levels[] = { "amp O0", "amp O1", "amp O2", "amp O3" };
    if (settings->amp.enabled)
        return levels[settings->amp.level];
    if (settings->autocast.enabled)
        return settings->precision.products == CS_F16 ? "autocast fp16" : "autocast bf16";
    return ce_precision_name(settings->precision.values);
}
