/* test_wrapped.c - folders of models with images: the text model is trained, and what is written has the tensors of the
 * other parts unchanged. The folder is made of an exported text model, whose tensors get the names of the whole model. */
#include "near.h"
#include "shell.h"
#include "suite.h"
#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, LENGTH = 8, VOCABULARY = 61, LOGITS = BATCH * LENGTH * VOCABULARY, OTHER_BYTES = 24 };

#define TEXT                                                                                                           \
    "{\"model_type\": \"gemma3_text\", \"vocab_size\": 61, \"hidden_size\": 24, \"intermediate_size\": 40, "           \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8, "              \
    "\"max_position_embeddings\": 64, \"initializer_range\": 0.2}"

static cs_status try_engine(cs_engine **engine, const char *model)
{
    cs_config *config;
    char text[2048];
    snprintf(
        text, sizeof text,
        "{ \"train_micro_batch_size_per_gpu\": 2, \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 1e-2 } "
        "}, \"cspeed\": { \"data\": { \"seq_len\": 8 }, \"threads\": 1, \"model\": %s } }\n",
        model);
    shell_write("config.json", text);
    CE_TRY(cs_config_open(&config, "config.json"));
    return cs_initialize(engine, config, NULL);
}

/* Computes the logits of a model; `steps` steps of training come first, and then a checkpoint in the folder "saved". */
static void logits_of(const char *model, int steps, float *logits)
{
    int32_t inputs[BATCH * LENGTH], targets[BATCH * LENGTH];
    cs_engine *engine;
    cs_tensor output;
    for (int i = 0; i < BATCH * LENGTH; i++) {
        inputs[i] = 7 * i % VOCABULARY;
        targets[i] = 5 * i % VOCABULARY;
    }
    cs_batch batch = { .inputs = cs_matrix(inputs, CS_I32, BATCH, LENGTH),
                       .targets = cs_matrix(targets, CS_I32, BATCH, LENGTH) };
    CS_MUST(try_engine(&engine, model));
    for (int step = 0; step < steps; step++) {
        cs_forward(engine, &batch);
        cs_backward(engine);
        cs_step(engine);
    }
    if (steps > 0)
        CS_MUST(cs_save_checkpoint(engine, "saved", NULL, NULL));
    CS_MUST(cs_predict(engine, &batch, &output));
    ck_assert_int_eq(cs_count(output), LOGITS);
    memcpy(logits, output.data, LOGITS * sizeof *logits);
    cs_destroy(engine);
}

static void same(const float *a, const float *b, const char *what)
{
    ck_assert(near_same_bits(what, cs_vector((void *)(uintptr_t)a, CS_F32, LOGITS),
                             cs_vector((void *)(uintptr_t)b, CS_F32, LOGITS)));
}

static json_t *header_of(const char *text, uint64_t *bytes)
{
    memcpy(bytes, text, 8);
    json_t *header = json_loadb(text + 8, (size_t)*bytes, 0, NULL);
    ck_assert_ptr_nonnull(header);
    return header;
}

/* Makes the folder "whole" of the folder "text": its tensors get `prefix` before or instead of "model.", and a tensor of
 * another part follows them. */
static void wrap(const char *prefix, const char *part)
{
    uint64_t header_bytes;
    size_t bytes;
    const char *name;
    json_t *value, *old_one, *new_one = json_object();
    ck_assert_int_eq(shell_run("rm -rf whole && mkdir whole"), 0);
    char *text = shell_read("text/model.safetensors", &bytes), *config = NULL;
    old_one = header_of(text, &header_bytes);
    size_t data = bytes - 8 - header_bytes;
    json_object_foreach (old_one, name, value) {
        char full[256];
        bool tensor = strncmp(name, "model.", 6) == 0;
        snprintf(full, sizeof full, "%s%s", tensor ? prefix : "", tensor ? name + 6 : name);
        json_object_set(new_one, full, value);
    }
    json_object_set_new(new_one, part,
                        json_pack("{ss s[iii] s[II]}", "dtype", "F16", "shape", 2, 3, 2, "data_offsets",
                                  (json_int_t)data, (json_int_t)(data + OTHER_BYTES)));
    char *header = json_dumps(new_one, JSON_COMPACT);
    uint64_t length = strlen(header);
    FILE *file = fopen("whole/model.safetensors", "wb");
    ck_assert(file && fwrite(&length, 8, 1, file) == 1 && fwrite(header, 1, length, file) == length &&
              fwrite(text + 8 + header_bytes, 1, data, file) == data &&
              fwrite("abcdefghijklmnopqrstuvwx", 1, OTHER_BYTES, file) == OTHER_BYTES && fclose(file) == 0);
    ck_assert_int_gt(asprintf(&config, "{\"model_type\": \"gemma3\", \"text_config\": %s, \"vision_config\": {}}",
                              TEXT),
                     0);
    shell_write("whole/config.json", config);
    free(config), free(header), free(text);
    json_decref(old_one), json_decref(new_one);
}

/* The folder has the tensors of "whole", and the part that is not trained has its type and its bytes. */
static void check_folder(const char *folder, const char *part)
{
    uint64_t ours, theirs;
    size_t bytes, whole_bytes;
    char path[64];
    const char *name;
    json_t *value;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    char *text = shell_read(path, &bytes), *whole = shell_read("whole/model.safetensors", &whole_bytes);
    json_t *got = header_of(text, &ours), *want = header_of(whole, &theirs);
    json_object_foreach (want, name, value) {
        ck_assert_msg(json_object_get(got, name), "%s: %s is missing", folder, name);
    }
    ck_assert_uint_eq(json_object_size(got), json_object_size(want));
    json_t *kept = json_object_get(got, part);
    ck_assert_str_eq(json_string_value(json_object_get(kept, "dtype")), "F16");
    json_int_t from = json_integer_value(json_array_get(json_object_get(kept, "data_offsets"), 0));
    ck_assert_mem_eq(text + 8 + ours + from, "abcdefghijklmnopqrstuvwx", OTHER_BYTES);
    free(text), free(whole);
    json_decref(got), json_decref(want);
}

static float first[LOGITS], second[LOGITS], third[LOGITS];

static void check_names(const char *prefix, const char *part)
{
    wrap(prefix, part);
    logits_of("\"whole\"", 0, second);
    same(first, second, prefix);
    logits_of("\"whole\"", 2, third);
    ck_assert_int_eq(shell_run("rm -rf out again; %s/cspeed export saved out --dtype fp32", CS_BIN), 0);
    check_folder("out", part);
    logits_of("\"out\"", 0, second);
    same(third, second, "exported");
    ck_assert_int_eq(shell_run("grep -q Gemma3ForConditionalGeneration out/config.json"), 0);
    ck_assert_int_eq(shell_run("%s/cspeed import out again --dtype bf16", CS_BIN), 0);
    check_folder("again", part);
    ck_assert_int_eq(shell_run("rm -rf saved"), 0);
}

START_TEST(the_text_model_is_trained)
{
    shell_enter();
    logits_of(TEXT, 1, first);
    ck_assert_int_eq(shell_run("%s/cspeed export saved text --dtype fp32 && rm -rf saved", CS_BIN), 0);
    check_names("language_model.model.", "vision_tower.patch.weight");
    check_names("model.language_model.", "model.multi_modal_projector.weight");
    shell_leave();
}
END_TEST

static void refused(const char *model, const char *part)
{
    cs_engine *engine;
    ck_assert_int_ne(try_engine(&engine, model), CS_OK);
    ck_assert_msg(strstr(cs_error(), part), "%s (wanted: %s)", cs_error(), part);
}

START_TEST(what_is_not_understood_is_named)
{
    shell_enter();
    logits_of(TEXT, 1, first);
    ck_assert_int_eq(shell_run("%s/cspeed export saved text --dtype fp32 && rm -rf saved", CS_BIN), 0);
    wrap("language_model.model.", "audio_tower.weight");
    refused("\"whole\"", "1 unexpected (audio_tower.weight)");
    refused("{\"model_type\": \"gemma3\"}", "needs \"text_config\"");
    refused("{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": \"bert\"}}", "\"bert\" is not built in");
    refused("{\"model_type\": \"gemma3\", \"quantization_config\": {\"bits\": 4}, \"text_config\": {}}",
            "quantization_config");
    logits_of("{\"model_type\": \"gemma3\", \"text_config\": " TEXT "}", 1, second);
    shell_expect(78, "did not begin with a folder", "export saved out");
    wrap("language_model.model.", "vision_tower.weight");
    ck_assert_int_eq(shell_run("rm -rf saved"), 0);
    logits_of("\"whole\"", 1, second);
    ck_assert_int_eq(shell_run("mv whole elsewhere"), 0);
    shell_expect(66, "the parts that are not trained are read from", "export saved out");
    shell_leave();
}
END_TEST

SUITE_MAIN("wrapped", the_text_model_is_trained, what_is_not_understood_is_named)
