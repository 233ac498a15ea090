/* test_gguf.c - GGUF files: a reader of its own compares keys, names, order of rows and elements with the exported
 * folder of the same checkpoint. tests/peers/gguf_same.py opens such files in llama.cpp. */
#include "shell.h"
#include "suite.h"
#include "tokenizers.h"
#include "training.h"

#include "base/half.h"
#include "base/must.h"
#include "interchange/gguf_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- blocks ---- */

/* Returns element i of a row, by the definition of the type. */
static double element(const uint8_t *row, int type, int64_t i)
{
    uint16_t half;
    uint32_t bits;
    float whole;
    const uint8_t *block = row + i / 32 * (type == CE_GGUF_Q8_0 ? 34 : 18);
    int at = (int)(i % 32);
    switch (type) {
    case CE_GGUF_F32:
        memcpy(&whole, row + 4 * i, 4);
        return (double)whole;
    case CE_GGUF_F16:
        memcpy(&half, row + 2 * i, 2);
        return (double)ce_f16_to_float(half);
    case CE_GGUF_BF16:
        memcpy(&half, row + 2 * i, 2);
        bits = (uint32_t)half << 16;
        memcpy(&whole, &bits, 4);
        return (double)whole;
    case CE_GGUF_Q8_0:
        memcpy(&half, block, 2);
        return (double)ce_f16_to_float(half) * (int8_t)block[2 + at];
    default:
        memcpy(&half, block, 2);
        return (double)ce_f16_to_float(half) * ((at < 16 ? block[2 + at] & 15 : block[2 + at - 16] >> 4) - 8);
    }
}

/* Returns the greatest error of a scale that is rounded to fp16. */
static double half_error(double scale)
{
    return fmax(scale * 0x1p-11, 0x1p-25);
}

/* Returns the greatest error that the type may have for the elements of one block. */
static double bound(int type, const float *x)
{
    double most = 0;
    for (int i = 0; i < 32; i++)
        most = fmax(most, fabs((double)x[i]));
    switch (type) {
    case CE_GGUF_F32:
        return 0;
    case CE_GGUF_F16:
        return half_error(most);
    case CE_GGUF_BF16:
        return most * 0x1p-8;
    case CE_GGUF_Q8_0:
        return most / 127 / 2 + 127 * half_error(most / 127);
    default:
        return most / 8 + 8 * half_error(most / 8); /* the positive end of the range is one step shorter */
    }
}

START_TEST(blocks_hold_the_elements)
{
    static const ce_gguf_type types[] = { CE_GGUF_F32, CE_GGUF_F16, CE_GGUF_BF16, CE_GGUF_Q8_0, CE_GGUF_Q4_0 };
    enum { COUNT = 32 * 40 };
    float x[COUNT], buffer[COUNT];
    for (int i = 0; i < COUNT; i++) /* a block of zeros, one with a single element, and others of several scales */
        x[i] = i < 32 ? 0 : i < 64 ? (i == 40 ? -3.F : 0) : (float)(sin(i * 1.7) * pow(10, i / 32 % 7 - 3));
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        memcpy(buffer, x, sizeof x);
        ce_gguf_encode(types[t], buffer, buffer, COUNT);
        for (int i = 0; i < COUNT; i++) {
            double got = element((const uint8_t *)buffer, (int)types[t], i);
            ck_assert_msg(fabs(got - (double)x[i]) <= bound((int)types[t], x + i / 32 * 32),
                          "type %d, element %d: %g, not %g", (int)types[t], i, got, (double)x[i]);
        }
    }
    ck_assert_int_eq(ce_gguf_row_bytes(CE_GGUF_Q8_0, 64), 68);
    ck_assert_int_eq(ce_gguf_row_bytes(CE_GGUF_Q4_0, 64), 36);
}
END_TEST

/* ---- a reader ---- */

typedef struct {
    char *bytes;
    size_t size, at, data;
    json_t *keys, *tensors;
} reading;

static uint64_t number(reading *r, int bytes)
{
    uint64_t value = 0;
    ck_assert_uint_le(r->at + (size_t)bytes, r->size);
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t)(uint8_t)r->bytes[r->at++] << (8 * i);
    return value;
}

static char *text(reading *r)
{
    size_t length = number(r, 8);
    ck_assert_uint_le(r->at + length, r->size);
    char *copy = ce_must_copy_part(r->bytes + r->at, length);
    r->at += length;
    return copy;
}

static json_t *value(reading *r, int type)
{
    if (type == 8) {
        char *read = text(r);
        json_t *made = json_string(read);
        free(read);
        return made;
    }
    if (type == 9) {
        json_t *list = json_array();
        int of = (int)number(r, 4);
        for (uint64_t i = number(r, 8); i > 0; i--)
            json_array_append_new(list, value(r, of));
        return list;
    }
    if (type == 7)
        return json_boolean(number(r, 1));
    uint32_t bits = (uint32_t)number(r, 4);
    return type == 6 ? json_real((double)ce_bits_float(bits)) : json_integer((int32_t)bits);
}

static reading read_file(const char *path)
{
    reading r = { .keys = json_object(), .tensors = json_object() };
    r.bytes = shell_read(path, &r.size);
    ck_assert(memcmp(r.bytes, "GGUF\3\0\0\0", 8) == 0);
    r.at = 8;
    uint64_t tensors = number(&r, 8);
    for (uint64_t i = number(&r, 8); i > 0; i--) {
        char *key = text(&r);
        int type = (int)number(&r, 4);
        ck_assert_msg(!json_object_get(r.keys, key), "%s stands twice", key);
        json_object_set_new(r.keys, key, value(&r, type));
        free(key);
    }
    for (; tensors > 0; tensors--) {
        char *name = text(&r);
        uint64_t dims = number(&r, 4), columns = number(&r, 8), rows = dims > 1 ? number(&r, 8) : 1;
        uint64_t type = number(&r, 4), offset = number(&r, 8);
        ck_assert_uint_eq(offset % 32, 0);
        json_object_set_new(r.tensors, name,
                            json_pack("[IIII]", (json_int_t)rows, (json_int_t)columns, (json_int_t)type,
                                      (json_int_t)offset));
        free(name);
    }
    r.data = (r.at + 31) / 32 * 32;
    return r;
}

static void forget(reading *r)
{
    json_decref(r->keys);
    json_decref(r->tensors);
    free(r->bytes);
}

/* ---- a file ---- */

#define MODEL                                                                                                          \
    "{\"model_type\": \"llama\", \"vocab_size\": 256, \"hidden_size\": 64, \"intermediate_size\": 96, "                \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "                               \
    "\"max_position_embeddings\": 32, \"rms_norm_eps\": 1e-5, \"rope_theta\": 500.0, \"attention_bias\": true}"

static int64_t fact(const reading *r, const char *name, size_t which)
{
    const json_t *facts = json_object_get(r->tensors, name);
    ck_assert_msg(facts != NULL, "there is no tensor %s", name);
    return json_integer_value(json_array_get(facts, which));
}

/* Compares a tensor of the file with that of the source. With `heads`, row i of a head is row i / 2 of its first half if i
 * is even, and of its second half if i is odd. */
static void compare(const reading *r, const char *name, ce_source *source, const char *of, int64_t heads, int type)
{
    int64_t i = ce_source_find(source, of), rows = fact(r, name, 0), columns = fact(r, name, 1), vector = rows == 1;
    ck_assert_int_ge(i, 0);
    ck_assert_int_eq(fact(r, name, 2), vector ? CE_GGUF_F32 : type);
    float *x = ce_must_alloc((size_t)(rows * columns) * sizeof *x);
    ck_assert_int_eq(source->read(source, i, (ce_range){ 0, rows * columns }, x, CS_F32), CS_OK);
    const uint8_t *data = (const uint8_t *)r->bytes + r->data + fact(r, name, 3);
    int64_t height = vector ? columns : rows, width = vector ? 1 : columns, head = heads ? height / heads : 0;
    for (int64_t row = 0; row < height; row++) {
        int64_t from = head ? row / head * head + row % head % 2 * (head / 2) + row % head / 2 : row;
        for (int64_t column = 0; column < width; column++) {
            int64_t place = row * width + column;
            double got = element(data, (int)fact(r, name, 2), place), want = (double)x[from * width + column];
            double most = vector ? 0 : bound(type, x + from * width + column / 32 * 32);
            ck_assert_msg(fabs(got - want) <= most, "%s, row %lld, column %lld: %g, not %g", name, (long long)row,
                          (long long)column, got, want);
        }
    }
    free(x);
}

static void check_file(const char *type_name, int type)
{
    static const char *const keys = "{\"general.architecture\": \"llama\", \"general.type\": \"model\", "
                                    "\"llama.block_count\": 2, \"llama.context_length\": 32, "
                                    "\"llama.embedding_length\": 64, \"llama.feed_forward_length\": 96, "
                                    "\"llama.attention.head_count\": 4, \"llama.attention.head_count_kv\": 2, "
                                    "\"llama.attention.key_length\": 16, \"llama.attention.value_length\": 16, "
                                    "\"llama.vocab_size\": 256, \"llama.rope.freq_base\": 500.0, "
                                    "\"llama.rope.dimension_count\": 16, \"tokenizer.ggml.model\": \"none\", "
                                    "\"general.quantization_version\": 2}";
    char command[128];
    json_t *wanted = json_loads(keys, 0, NULL), *want;
    const char *key;
    ce_source source;
    snprintf(command, sizeof command, "export out model.gguf --gguf %s", type_name);
    shell_expect(0, "model.gguf: ", command);
    reading r = read_file("model.gguf");
    json_object_foreach (wanted, key, want)
        ck_assert_msg(json_equal(want, json_object_get(r.keys, key)), "%s", key);
    ck_assert_int_eq(ce_huggingface_open(&source, "folder"), CS_OK);
    ck_assert_uint_eq(json_object_size(r.tensors), (size_t)source.count);
    int ends = type == CE_GGUF_Q4_0 ? CE_GGUF_Q8_0 : type;
    compare(&r, "token_embd.weight", &source, "model.embed_tokens.weight", 0, ends);
    compare(&r, "output.weight", &source, "lm_head.weight", 0, ends);
    compare(&r, "output_norm.weight", &source, "model.norm.weight", 0, type);
    compare(&r, "blk.1.attn_q.weight", &source, "model.layers.1.self_attn.q_proj.weight", 4, type);
    compare(&r, "blk.1.attn_q.bias", &source, "model.layers.1.self_attn.q_proj.bias", 4, type);
    compare(&r, "blk.0.attn_k.weight", &source, "model.layers.0.self_attn.k_proj.weight", 2, type);
    compare(&r, "blk.0.attn_v.weight", &source, "model.layers.0.self_attn.v_proj.weight", 0, type);
    compare(&r, "blk.0.attn_output.weight", &source, "model.layers.0.self_attn.o_proj.weight", 0, type);
    compare(&r, "blk.0.ffn_gate.weight", &source, "model.layers.0.mlp.gate_proj.weight", 0, type);
    compare(&r, "blk.0.ffn_down.weight", &source, "model.layers.0.mlp.down_proj.weight", 0, type);
    compare(&r, "blk.0.ffn_norm.weight", &source, "model.layers.0.post_attention_layernorm.weight", 0, type);
    ce_source_close(&source);
    json_decref(wanted);
    forget(&r);
    ck_assert_int_eq(shell_run("rm model.gguf && ! ls model.gguf*"), 0);
}

START_TEST(a_checkpoint_becomes_a_file)
{
    training_prepare();
    training_config("bf16", "", 2);
    training_run(2, "--steps 2 --set 'cspeed.model=" MODEL "'");
    shell_expect(0, "tensors", "export out folder --dtype fp32");
    check_file("f32", CE_GGUF_F32);
    check_file("f16", CE_GGUF_F16);
    check_file("bf16", CE_GGUF_BF16);
    check_file("q8_0", CE_GGUF_Q8_0);
    check_file("q4_0", CE_GGUF_Q4_0);
    /* A folder gives the same bytes as the checkpoint from which it was exported. */
    shell_expect(0, "tensors", "export out one.gguf --gguf q8_0");
    shell_expect(0, "tensors", "export folder two.gguf --gguf q8_0");
    ck_assert_int_eq(shell_run("cmp one.gguf two.gguf"), 0);
    shell_expect(78, "--gguf q5_k: f32, f16, bf16, q8_0 or q4_0 is needed", "export out new.gguf --gguf q5_k");
    shell_expect(64, "one.gguf exists already", "export out one.gguf --gguf f32");
    ck_assert_int_eq(shell_run(
                         "sed -i 's/\"silu\"/\"gelu\"/; s/\"rope_theta\"/\"hidden_act\": \"gelu\", \"rope_theta\"/' "
                         "folder/config.json"),
                     0);
    shell_expect(78, "with the activation function gelu, because llama.cpp always computes silu",
                 "export folder new.gguf --gguf f32");
    ck_assert_int_ne(shell_run("ls new.gguf*"), 0);
    shell_leave();
}
END_TEST

START_TEST(other_families_are_refused)
{
    training_prepare();
    training_config("bf16", "", 0);
    training_run(1, "--steps 2");
    shell_expect(78, "GGUF files of model_type gpt2, because only these are written: llama, mistral",
                 "export out new.gguf --gguf f32");
    ck_assert_int_ne(shell_run("ls new.gguf*"), 0);
    shell_leave();
}
END_TEST

/* ---- vocabularies ---- */

static void check_vocabulary(const char *name, const char *model, const char *pre)
{
    json_t *config = json_pack("{ss}", "model_type", "llama");
    ce_gguf_output output = { .config = config, .tokenizer = "tokenizer.json", .chat = "a template" };
    reading r = { .keys = json_object() };
    ce_gguf_keys keys = { .out = ce_must_stream(&r.bytes, &r.size) };
    tokenizers_write(name, "tokenizer.json");
    cs_status status = ce_gguf_tokenizer_keys(&keys, &output, 1000);
    ce_must_finish(keys.out);
    if (!model) {
        ck_assert_msg(status == CS_UNSUPPORTED, "%s", name);
    } else {
        ck_assert_msg(status == CS_OK, "%s: %s", name, cs_error());
        for (int64_t i = 0; i < keys.count; i++) {
            char *key = text(&r);
            int type = (int)number(&r, 4);
            json_object_set_new(r.keys, key, value(&r, type));
            free(key);
        }
        ck_assert_str_eq(json_string_value(json_object_get(r.keys, "tokenizer.ggml.model")), model);
        ck_assert_str_eq(json_string_value(json_object_get(r.keys, "tokenizer.ggml.pre")), pre);
        ck_assert_str_eq(json_string_value(json_object_get(r.keys, "tokenizer.chat_template")), "a template");
        ck_assert_uint_eq(json_array_size(json_object_get(r.keys, "tokenizer.ggml.tokens")), 1000);
        ck_assert_uint_eq(json_array_size(json_object_get(r.keys, "tokenizer.ggml.token_type")), 1000);
    }
    free(r.bytes);
    json_decref(r.keys);
    json_decref(config);
}

START_TEST(vocabularies_are_written_or_refused)
{
    shell_enter();
    check_vocabulary("gpt2", "gpt2", "gpt-2");
    check_vocabulary("llama3", "gpt2", "llama-bpe");
    check_vocabulary("qwen2", "gpt2", "qwen2");
    check_vocabulary("smollm", "gpt2", "smollm");
    check_vocabulary("o200k", NULL, NULL);
    shell_leave();
}
END_TEST

SUITE_MAIN("gguf", blocks_hold_the_elements, a_checkpoint_becomes_a_file, other_families_are_refused,
           vocabularies_are_written_or_refused)
