/* test_peft.c - adapters in PEFT's folders: a training's exported adapter is the start of another training, of eval and
 * of generate; merged weights give the same logits; what adapter_config.json asks for and cspeed does not support is
 * refused. */
#include "near.h"
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include "core/engine.h"
#include "interchange/huggingface.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODEL "cspeed.model=\"base\""
#define LORA "cspeed.lora={\"r\": 3, \"alpha\": 7, \"targets\": [\"c_attn\", \"mlp.c_proj\"], \"rslora\": true}"
#define DORA                                                                                                           \
    "cspeed.lora={\"r\": 3, \"targets\": [\"c_attn\", \"mlp.c_proj\"], \"dora\": true, \"bias\": \"lora_only\"}"
#define BIASES "cspeed.lora={\"r\": 3, \"targets\": [\"c_attn\", \"mlp.c_proj\"], \"bias\": \"all\"}"
#define PATTERNS                                                                                                       \
    "cspeed.lora={\"r\": 3, \"targets\": \"all-linear\", \"exclude_modules\": [\"c_fc\"], \"rslora\": true, "          \
    "\"rank_pattern\": {\"mlp.c_proj\": 5, \"^transformer.h.1.attn\\\\.c_.*\": 2}, \"alpha_pattern\": {\"c_attn\": 3}}"
#define LAYERS                                                                                                            \
    "cspeed.lora={\"r\": 3, \"targets\": [\"c_attn\", \"c_fc\"], \"layers_to_transform\": 1, \"layers_pattern\": \"h\", " \
    "\"dora\": true}"
#define EXPRESSION "cspeed.lora={\"r\": 3, \"targets\": \".*\\\\.1\\\\.(attn|mlp)\\\\.c_[pa].*\"}"
#define SAVED                                                                                                          \
    "cspeed.lora={\"r\": 3, \"targets\": \"all-linear\", \"modules_to_save\": [\"wte\", \"ln_f\", \"1.mlp.c_proj\"]}"
#define TIED                                                                                                           \
    "cspeed.lora={\"r\": 3, \"targets\": [\"c_attn\"], \"modules_to_save\": [\"lm_head\"], \"ensure_weight_tying\": true}"

static const run_spec plain = { .world = 1, .steps = 3, .precision = "fp32" };

static void export(const char *from, const char *to, bool merge)
{
    ce_source source;
    ce_huggingface_output output = { .folder = to, .max_shard = 1 << 30 };
    CS_MUST(ce_huggingface_export(&source, &output, (ce_huggingface_choice){ .merge = merge }, from, NULL));
    ce_source_close(&source);
}

/* Writes the Hugging Face folder `base`, trains adapters of it, and writes the results: the checkpoint `saved`, the
 * adapter's folder `adapter`, and the folder `merged`. Returns the trained engine. */
static cs_engine *make_folders(const char *lora)
{
    cs_engine *base = run_open(&plain, NULL);
    CS_MUST(cs_save_checkpoint(base, "first", NULL, NULL));
    CS_MUST(cs_export(base, "first", NULL, "base"));
    cs_destroy(base);
    run_spec spec = plain;
    spec.set[0] = MODEL;
    spec.set[1] = lora;
    spec.set[2] = "optimizer.params.lr=0.1";
    cs_engine *engine = run_open(&spec, NULL);
    for (int step = 0; step < spec.steps; step++)
        run_step(engine, &spec);
    CS_MUST(cs_save_checkpoint(engine, "saved", NULL, NULL));
    CS_MUST(cs_export(engine, "saved", NULL, "adapter"));
    export("saved", "merged", true);
    return engine;
}

static float *logits_of(cs_engine *engine, int64_t *count)
{
    cs_batch batch = run_batch(engine, &plain, 0);
    cs_tensor logits;
    batch.inputs.shape[0] = 1;
    for (int i = 0; i < RUN_LENGTH; i++)
        ((int32_t *)batch.inputs.data)[i] = (5 * i + 3) % RUN_VOCABULARY;
    CS_MUST(cs_predict(engine, &batch, &logits));
    *count = cs_count(logits);
    float *copy = calloc((size_t)*count, sizeof *copy);
    ck_assert_ptr_nonnull(copy);
    for (int64_t i = 0; i < *count; i++)
        copy[i] = cs_element(logits, i);
    return copy;
}

/* Returns the logits of the model in `source`, opened for inference; the caller frees them. `adapter`: the assignment
 * that names the folder of an adapter, or NULL. */
static float *reopened(const char *source, const char *adapter, int64_t *count)
{
    cs_config *config;
    cs_engine *engine;
    CS_MUST(cs_reopen(&config, source, NULL));
    CS_MUST(cs_config_set(config, near_is_cpu() ? "cspeed.device=cpu" : "cspeed.device=cuda"));
    CS_MUST(cs_config_set(config, "cspeed.products=fixed"));
    CS_MUST(cs_config_set(config, "cspeed.threads=1"));
    if (adapter)
        CS_MUST(cs_config_set(config, adapter));
    CS_MUST(cs_initialize(&engine, config, NULL));
    const char *load = cs_config_get_string(config, "cspeed.load");
    if (load)
        CS_MUST(cs_load_checkpoint(engine, load, NULL, &(cs_load_options){ .module_only = true }, NULL));
    float *logits = logits_of(engine, count);
    cs_destroy(engine);
    return logits;
}

static double distance(const float *one, const float *other, int64_t count)
{
    double max = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        max = fmax(max, fabs((double)one[i] - (double)other[i]));
        size = fmax(size, fabs((double)other[i]));
    }
    return max / size;
}

static void check_folders(const char *lora)
{
    shell_enter();
    cs_engine *engine = make_folders(lora);
    int64_t count, same;
    float *trained = logits_of(engine, &count);
    float *base = reopened("base", NULL, &same), *merged = reopened("merged", NULL, &same);
    float *adapted = reopened("base", "cspeed.lora.adapter=adapter", &same), *saved = reopened("saved", NULL, &same);
    float *loaded = reopened("first", "cspeed.lora.adapter=adapter", &same);
    ck_assert_int_eq(count, same);
    ck_assert_double_gt(distance(base, trained, count), 1e-2);
    ck_assert_double_le(distance(merged, trained, count), 1e-5);
    ck_assert_double_le(distance(adapted, trained, count), 1e-6);
    ck_assert_double_le(distance(saved, trained, count), 1e-6);
    ck_assert_double_le(distance(loaded, adapted, count), 0);
    run_spec spec = plain;
    spec.set[0] = MODEL;
    spec.set[1] = "cspeed.lora={\"adapter\": \"adapter\"}";
    cs_engine *further = run_open(&spec, NULL);
    ck_assert_uint_eq(run_masters(further), run_masters(engine));
    cs_destroy(further);
    cs_destroy(engine);
    free(trained);
    free(base);
    free(merged);
    free(adapted);
    free(saved);
    free(loaded);
    shell_leave();
}

START_TEST(folders_hold_what_was_trained)
{
    check_folders(LORA);
    check_folders(DORA);
    check_folders(BIASES);
    check_folders(PATTERNS);
    check_folders(LAYERS);
    check_folders(EXPRESSION);
    check_folders(SAVED);
    check_folders(TIED);
}
END_TEST

/* Before the first step DoRA's model equals the base model: B is zero and the magnitudes are the norms of the weights.
 * Recomputation does not change the results. */
START_TEST(dora_begins_as_the_model)
{
    int64_t count, same;
    shell_enter();
    cs_engine *trained = make_folders(DORA);
    run_spec spec = plain;
    spec.recompute = "unit";
    spec.set[0] = MODEL;
    spec.set[1] = DORA;
    spec.set[2] = "optimizer.params.lr=0.1";
    cs_engine *engine = run_open(&spec, NULL);
    float *begun = logits_of(engine, &count), *base = reopened("base", NULL, &same);
    ck_assert_double_le(distance(begun, base, count), 1e-5);
    for (int step = 0; step < spec.steps; step++)
        run_step(engine, &spec);
    ck_assert_uint_eq(run_masters(engine), run_masters(trained));
    cs_destroy(engine);
    cs_destroy(trained);
    free(begun);
    free(base);
    shell_leave();
}
END_TEST

/* A checkpoint of adapters is refused if the base weights are not those that the training began with. */
START_TEST(another_base_is_refused)
{
    shell_enter();
    cs_destroy(make_folders(LORA));
    run_spec spec = plain;
    spec.set[0] = MODEL;
    spec.set[1] = LORA;
    cs_engine *engine = run_open(&spec, NULL);
    CS_MUST(cs_load_checkpoint(engine, "saved", NULL, NULL, NULL));
    cs_destroy(engine);
    size_t length;
    char *bytes = shell_read("base/model.safetensors", &length);
    bytes[length - 1] ^= 1;
    FILE *file = fopen("base/model.safetensors", "wb");
    ck_assert(file && fwrite(bytes, 1, length, file) == length && fclose(file) == 0);
    free(bytes);
    engine = run_open(&spec, NULL);
    ck_assert_int_eq(cs_load_checkpoint(engine, "saved", NULL, NULL, NULL), CS_BAD_CONFIG);
    ck_assert_msg(strstr(cs_error(), "the weights in base are not the base model"), "%s", cs_error());
    cs_load_options parameters = { .module_only = true };
    CS_MUST(cs_load_checkpoint(engine, "saved", NULL, &parameters, NULL));
    cs_destroy(engine);
    shell_leave();
}
END_TEST

/* Returns the hash of the parameters after a training with these settings of LoRA and of param_groups. */
static uint64_t trained_by(const char *lora, const char *groups)
{
    run_spec spec = plain;
    spec.set[0] = MODEL;
    spec.set[1] = lora;
    spec.set[2] = "optimizer.params.lr=0.01";
    spec.set[3] = groups;
    cs_engine *engine = run_open(&spec, NULL);
    for (int step = 0; step < spec.steps; step++)
        run_step(engine, &spec);
    uint64_t hash = run_masters(engine);
    cs_destroy(engine);
    return hash;
}

START_TEST(lora_plus_is_a_group_of_parameters)
{
    shell_enter();
    cs_destroy(make_folders(LORA));
    uint64_t without = trained_by("cspeed.lora={\"r\": 2}", NULL);
    uint64_t plus = trained_by("cspeed.lora={\"r\": 2, \"loraplus_lr_ratio\": 4}", NULL);
    uint64_t group =
        trained_by("cspeed.lora={\"r\": 2}", "cspeed.param_groups=[{\"params\": \"*.lora_B.weight\", \"lr\": 0.04}]");
    uint64_t normal = trained_by("cspeed.lora={\"r\": 2, \"init_lora_weights\": \"gaussian\"}", NULL);
    ck_assert_uint_ne(plus, without);
    ck_assert_uint_eq(plus, group);
    ck_assert_uint_ne(normal, without);
    shell_leave();
}
END_TEST

static void refuse(const char *key, const char *value, const char *word)
{
    char path[] = "adapter/adapter_config.json";
    size_t length;
    char *text = shell_read(path, &length);
    ck_assert_int_eq(text[length - 1], '\n');
    json_t *config = json_loads(text, 0, NULL);
    json_object_set_new(config, key, json_loads(value, JSON_DECODE_ANY, NULL));
    char *changed = json_dumps(config, 0);
    shell_write(path, changed);
    cs_config *opened;
    cs_engine *engine;
    CS_MUST(cs_reopen(&opened, "base", NULL));
    CS_MUST(cs_config_set(opened, "cspeed.lora.adapter=adapter"));
    ck_assert_msg(cs_initialize(&engine, opened, NULL) != CS_OK, "%s %s is accepted", key, value);
    ck_assert_msg(strstr(cs_error(), word), "%s: %s", key, cs_error());
    shell_write(path, text);
    json_decref(config);
    free(changed);
    free(text);
}

static void refuse_training(const char *model, const char *lora, const char *word)
{
    char path[4096];
    cs_config *config;
    cs_engine *engine;
    run_write_config(&plain, path, sizeof path);
    CS_MUST(cs_config_open(&config, path));
    unlink(path);
    if (model)
        CS_MUST(cs_config_set(config, model));
    CS_MUST(cs_config_set(config, lora));
    ck_assert_msg(cs_initialize(&engine, config, NULL) != CS_OK, "%s is accepted", lora);
    ck_assert_msg(strstr(cs_error(), word), "%s: %s", lora, cs_error());
}

START_TEST(other_adapters_are_refused_by_name)
{
    ce_source source;
    shell_enter();
    cs_destroy(make_folders(LORA));
    refuse("use_dora", "true", "lora_magnitude_vector is missing");
    refuse("bias", "\"all\"", "bias is missing");
    refuse("bias", "\"some\"",
           "adapter_config.json: \"bias\" is \"some\": possible are \"none\", \"all\" and \"lora_only\"");
    refuse("use_qalora", "true", "use_qalora");
    refuse("peft_type", "\"IA3\"", "peft_type");
    refuse("modules_to_save", "[\"lm_head\"]", "lm_head.weight is missing");
    refuse("init_lora_weights", "\"pissa\"", "\"init_lora_weights\", because its adapters belong to changed weights");
    refuse("modules_to_save", "[\"score\"]", "no module whose name ends with \"score\"");
    refuse("modules_to_save", "\"lm_head\"", "\"modules_to_save\": a list of names is needed");
    refuse("rank_pattern", "{\"c_attn\": 2}", "the shape of tensor");
    refuse("rank_pattern", "{\"c_attn\": 0}", "adapter/adapter_config.json: \"rank_pattern\": an object is needed");
    refuse("rank_pattern", "{\"c_(attn\": 2}",
           "rank_pattern: PCRE2 does not accept the regular expression \"c_(attn\"");
    refuse("exclude_modules", "\".*h.1.attn.*\"", "does not belong to a layer");
    refuse("layers_to_transform", "[0]", "does not belong to a layer");
    refuse("layers_pattern", "3", "adapter/adapter_config.json: \"layers_pattern\": a name is needed");
    refuse("target_modules", "\".*c_attn\"", "does not belong to a layer");
    refuse("target_modules", "3", "\"target_modules\" is not a list of names");
    refuse("target_modules", "[\"c_attn\"]", "does not belong to a layer");
    refuse("target_modules", "[\"c_attn\", \"c_proj\"]", "missing");
    refuse("r", "4", "the shape of tensor");
    refuse("r", "0", "at least 1");
    cs_config *config;
    CS_MUST(cs_reopen(&config, "saved", NULL));
    CS_MUST(cs_config_set(config, "cspeed.lora.adapter=adapter"));
    ck_assert_int_eq(cs_config_finish(config), CS_BAD_CONFIG);
    ck_assert_msg(strstr(cs_error(), "adapters of its own"), "%s", cs_error());
    cs_config_close(config);
    refuse_training(MODEL, "cspeed.lora={\"r\": 2, \"dora\": true, \"dropout\": 0.1}", "cspeed.lora.dropout");
    refuse_training(NULL, "cspeed.lora={\"r\": 2, \"dora\": true}", "name a folder with weights in cspeed.model");
    refuse_training(MODEL, "cspeed.lora={\"r\": 2, \"use_dora\": true}", "cspeed.lora.dora");
    refuse_training(MODEL, "cspeed.lora={\"r\": 2, \"targets\": \".*c_\"}", "no linear layer of the model gets");
    refuse_training(MODEL, "cspeed.lora={\"r\": 2, \"targets\": \".*(c_fc|wte)\"}", "transformer.wte.weight");
    refuse_training(MODEL, "cspeed.lora={\"r\": 2, \"init_lora_weights\": \"olora\"}", "PiSSA, OLoRA");
    refuse_training(MODEL, "cspeed.lora={\"r\": 2, \"layers_pattern\": \"h\"}",
                    "needs cspeed.lora.layers_to_transform");
    refuse_training(MODEL, "cspeed.lora={\"r\": 2, \"targets\": \".*c_fc\", \"layers_to_transform\": 1}",
                    "needs a list of names in cspeed.lora.targets");
    ce_huggingface_output output = { .folder = "none", .max_shard = 1 << 30 };
    ck_assert_int_ne(ce_huggingface_export(&source, &output, (ce_huggingface_choice){ .merge = true }, "first", NULL),
                     CS_OK);
    ck_assert_ptr_nonnull(strstr(cs_error(), "no adapters"));
    shell_leave();
}
END_TEST

SUITE_MAIN("peft", folders_hold_what_was_trained, dora_begins_as_the_model, another_base_is_refused,
           lora_plus_is_a_group_of_parameters, other_adapters_are_refused_by_name)
