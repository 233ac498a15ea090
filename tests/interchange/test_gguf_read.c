/* test_gguf_read.c - GGUF files as models: blocks as PyPI's gguf dequantizes them, models and vocabularies that were
 * written and are read again, and files that are refused. tests/peers/gguf_same.py compares with gguf and transformers. */
#include "shell.h"
#include "suite.h"
#include "tokenizers.h"
#include "training.h"

#include "base/must.h"
#include "gguf/describe.h"
#include "gguf/family.h"
#include "interchange/gguf_parts.h"
#include "text/encoder.h"

#include <stdlib.h>
#include <string.h>

/* ---- blocks ---- */

enum { BLOCKS = 64 };

/* From tests/golden/make_gguf_blocks.py: the type, places of fp16 factors in a block (-1: all numbers are fp16 or bf16),
 * and the hash of the numbers. */
static const struct {
    ce_gguf_type type;
    int factors[2];
    uint32_t hash;
} dequantized[] = {
    { CE_GGUF_F16, { -1 }, 0xcf2cbb50 },    { CE_GGUF_BF16, { -1 }, 0x507d3dd6 },
    { CE_GGUF_Q8_0, { 0 }, 0xc2bdf803 },    { CE_GGUF_Q4_0, { 0 }, 0x87d4c41c },
    { CE_GGUF_Q4_1, { 0, 2 }, 0x36cf3304 }, { CE_GGUF_Q5_0, { 0 }, 0x3f9e21ca },
    { CE_GGUF_Q5_1, { 0, 2 }, 0x0bf0da62 }, { CE_GGUF_Q4_K, { 0, 2 }, 0x51e3d0f6 },
    { CE_GGUF_Q5_K, { 0, 2 }, 0x7f419a30 }, { CE_GGUF_Q6_K, { 208, 208 }, 0xbc7f610e },
};

static void make_blocks(uint8_t *bytes, int64_t length, const int factors[2])
{
    uint32_t x = 1;
    for (int64_t i = 0; i < BLOCKS * length; i++) {
        x = x * 1664525u + 1013904223u;
        int64_t at = i % length;
        bool upper = factors[0] < 0 ? at % 2 == 1 : at == factors[0] + 1 || at == factors[1] + 1;
        bytes[i] = (uint8_t)(x >> 24 & (upper ? 0xbf : 0xff));
    }
}

START_TEST(blocks_are_those_of_gguf)
{
    static uint8_t bytes[BLOCKS * 256];
    static float numbers[BLOCKS * CE_GGUF_SUPERBLOCK];
    for (size_t t = 0; t < sizeof dequantized / sizeof *dequantized; t++) {
        ce_gguf_type type = dequantized[t].type;
        int64_t block = ce_gguf_block_elements(type) > 32 ? CE_GGUF_SUPERBLOCK : CE_GGUF_BLOCK;
        uint32_t hash = 2166136261u;
        make_blocks(bytes, ce_gguf_row_bytes(type, block), dequantized[t].factors);
        ce_gguf_decode(type, numbers, bytes, BLOCKS * block);
        for (int64_t i = 0; i < BLOCKS * block * 4; i++)
            hash = (hash ^ ((const uint8_t *)numbers)[i]) * 16777619u;
        ck_assert_msg(hash == dequantized[t].hash, "type %d: %08x", (int)type, hash);
    }
    float few[3], three[3] = { 1, -2, 3 };
    ce_gguf_decode(CE_GGUF_F32, few, three, 3); /* fewer numbers than a block */
    ck_assert_mem_eq(few, three, sizeof few);
}
END_TEST

/* ---- models ---- */

#define SIZES                                                                                                          \
    "\"vocab_size\": 256, \"hidden_size\": 64, \"intermediate_size\": 96, \"num_hidden_layers\": 2, "                  \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 64"

/* The file `one.gguf`, of the checkpoint in `out`, becomes a model and again a file of the same bytes. */
static void check_again(const char *type)
{
    char command[64];
    ck_assert_int_eq(shell_run("rm -f one.gguf two.gguf"), 0);
    snprintf(command, sizeof command, "export out one.gguf --gguf %s", type);
    shell_expect(0, "tensors", command);
    snprintf(command, sizeof command, "export one.gguf two.gguf --gguf %s", type);
    shell_expect(0, "tensors", command);
    ck_assert_msg(shell_run("cmp one.gguf two.gguf") == 0, "%s differs", type);
}

START_TEST(a_file_is_read_as_it_was_written)
{
    static const char *const models[] = {
        "{\"model_type\": \"llama\", " SIZES
        ", \"attention_bias\": true, \"rope_scaling\": {\"rope_type\": \"llama3\", "
        "\"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 32}}",
        "{\"model_type\": \"qwen3\", " SIZES ", \"head_dim\": 32, \"tie_word_embeddings\": true, \"rope_scaling\": "
        "{\"rope_type\": \"yarn\", \"factor\": 4.0, \"original_max_position_embeddings\": 16}}",
        "{\"model_type\": \"gemma2\", " SIZES
        ", \"head_dim\": 32, \"query_pre_attn_scalar\": 32, \"sliding_window\": 8}",
        "{\"model_type\": \"olmo2\", " SIZES "}",
        "{\"model_type\": \"granite\", " SIZES ", \"embedding_multiplier\": 6.0, \"residual_multiplier\": 0.3, "
        "\"attention_multiplier\": 0.2, \"logits_scaling\": 4.0}",
        "{\"model_type\": \"gemma3_text\", " SIZES
        ", \"head_dim\": 32, \"query_pre_attn_scalar\": 32, \"sliding_window\": "
        "8, \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 8.0}}",
    };
    static const char *const types[] = { "f16", "bf16", "q8_0", "q4_0" };
    char arguments[1024];
    training_prepare();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        training_config("bf16", "", 0);
        ck_assert_int_eq(shell_run("rm -rf out"), 0);
        snprintf(arguments, sizeof arguments, "--steps 1 --set 'cspeed.model=%s'", models[i]);
        training_run(1, arguments);
        check_again("f32");
        for (size_t t = 0; t < sizeof types / sizeof *types && i == 0; t++)
            check_again(types[t]);
    }
    shell_leave();
}
END_TEST

/* Any range of a tensor has the elements that the whole tensor has there: ranges begin inside of rows and blocks. */
static void check_ranges(ce_source *source, int64_t tensor)
{
    int64_t count = ce_source_elements(&source->tensors[tensor]);
    CE_FREED float *whole = ce_must_alloc((size_t)count * sizeof *whole);
    CE_FREED float *part = ce_must_alloc((size_t)count * sizeof *part);
    ck_assert_int_eq(source->read(source, tensor, (ce_range){ 0, count }, whole, CS_F32), CS_OK);
    for (int64_t i = 0; i < 40; i++) {
        ce_range range = { .from = i * 977 % count };
        range.to = range.from + 1 + i * i * 31 % (count - range.from);
        ck_assert_int_eq(source->read(source, tensor, range, part, CS_F32), CS_OK);
        ck_assert_mem_eq(part, whole + range.from, (size_t)(range.to - range.from) * sizeof *part);
    }
}

START_TEST(ranges_are_parts_of_tensors)
{
    static const char *const types[] = { "f32", "f16", "q8_0", "q4_0" };
    char command[64], folder[CE_GGUF_PATH];
    training_prepare();
    training_config("bf16", "", 0);
    training_run(1, "--steps 1 --set 'cspeed.model={\"model_type\": \"llama\", " SIZES ", \"attention_bias\": true}'");
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        ce_source source;
        snprintf(command, sizeof command, "export out %s.gguf --gguf %s", types[t], types[t]);
        shell_expect(0, "tensors", command);
        snprintf(command, sizeof command, "%s.gguf", types[t]);
        ck_assert_msg(ce_gguf_folder(folder, command) == CS_OK, "%s", cs_error());
        ck_assert_int_eq(ce_huggingface_open(&source, folder), CS_OK);
        for (int64_t i = 0; i < source.count; i++)
            check_ranges(&source, i);
        ce_source_close(&source);
    }
    shell_leave();
}
END_TEST

/* A GGUF file stands where a folder does: for training, evaluation and conversion. */
START_TEST(a_file_is_a_model)
{
    double there[2], here[2];
    training_prepare();
    training_config("bf16", "", 0);
    training_run(1, "--steps 2 --set 'cspeed.model={\"model_type\": \"llama\", " SIZES "}'");
    shell_expect(0, "tensors", "export out folder --dtype fp32");
    shell_expect(0, "tensors", "export out m.gguf --gguf f32");
    shell_expect(0, "tensors", "import m.gguf again --dtype fp32");
    ck_assert_int_eq(shell_run("cmp folder/model.safetensors again/model.safetensors"), 0);
    training_run(2, "--steps 2 --model folder --output a");
    training_run(2, "--steps 2 --model m.gguf --output b");
    training_losses("a/metrics.jsonl", there, 2);
    training_losses("b/metrics.jsonl", here, 2);
    ck_assert_mem_eq(there, here, sizeof there);
    shell_leave();
}
END_TEST

START_TEST(the_scaling_of_llama3_is_found)
{
    static const ce_gguf_llama3 given[] = { { 500000, 8, 1, 4, 8192 },
                                            { 500000, 32, 1, 4, 8192 },
                                            { 10000, 4, 2, 8, 2048 } };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        ce_gguf_llama3 found = { .theta = given[i].theta };
        int64_t count;
        float *factors = ce_gguf_llama3_factors(&count, &given[i], 128);
        ck_assert(ce_gguf_llama3_find(&found, factors, 128));
        double ratio = given[i].low; /* only the ratios of the bounds matter */
        ck_assert_double_eq(found.factor, given[i].factor);
        ck_assert_double_eq(found.high, given[i].high / ratio);
        ck_assert_double_eq(found.before, given[i].before / ratio);
        factors[40] *= 1.01F;
        ck_assert(!ce_gguf_llama3_find(&found, factors, 128));
        free(factors);
    }
}
END_TEST

/* ---- vocabularies ---- */

/* Reads a file that has only these keys. */
static void read_keys(ce_gguf_file *file, ce_gguf_keys *keys, char **text, const size_t *length)
{
    char *whole;
    size_t size;
    ce_must_finish(keys->out);
    FILE *out = ce_must_stream(&whole, &size);
    fwrite("GGUF\3\0\0\0", 1, 8, out);
    ce_gguf_number(out, 0, 8);
    ce_gguf_number(out, (uint64_t)keys->count, 8);
    fwrite(*text, 1, *length, out);
    ce_must_finish(out);
    ck_assert_msg(ce_gguf_parse(file, whole, size, (int64_t)size, "a.gguf") == CS_OK, "%s", cs_error());
    free(*text);
    free(whole);
}

/* Writes the vocabulary of tokenizer.json, as that of a model with 1000 tokens, and reads it. */
static void reread(ce_gguf_file *file)
{
    json_t *config = json_pack("{ss}", "model_type", "llama");
    ce_gguf_output output = { .config = config, .tokenizer = "tokenizer.json", .chat = "a template" };
    char *text;
    size_t length;
    ce_gguf_keys keys = { .out = ce_must_stream(&text, &length) };
    cs_status status = ce_gguf_tokenizer_keys(&keys, &output, 1000);
    ck_assert_msg(status == CS_OK, "%s", cs_error());
    read_keys(file, &keys, &text, &length);
    json_decref(config);
}

static void check_cases(const json_t *entry)
{
    json_t *one;
    size_t number;
    ce_tokenizer *tokenizer;
    ck_assert_msg(ce_tokenizer_open(&tokenizer, "read") == CS_OK, "%s", cs_error());
    ck_assert_str_eq(ce_tokenizer_template(tokenizer, "default"), "a template");
    ce_encoder *encoder = ce_encoder_open(tokenizer);
    json_array_foreach (json_object_get(entry, "cases"), number, one) {
        const json_t *text = json_object_get(one, "text"), *ids = json_object_get(one, "ids");
        /* Tokens that take spaces: a GGUF file cannot say this. */
        if (strstr(json_string_value(text), "<left>") || strstr(json_string_value(text), "<right>"))
            continue;
        const ce_encoded *made = ce_encoder_document(encoder, json_string_value(text), json_string_length(text));
        ck_assert_msg(made->count == (int64_t)json_array_size(ids), "%s: %s",
                      json_string_value(json_object_get(entry, "name")), json_string_value(text));
        for (int64_t i = 0; i < made->count; i++)
            ck_assert_int_eq(made->ids[i], json_integer_value(json_array_get(ids, (size_t)i)));
    }
    ce_encoder_close(encoder);
    ce_tokenizer_close(tokenizer);
}

static void check_tokenizer(const json_t *entry)
{
    static const char *const names[] = { "read/tokenizer.json", "read/tokenizer_config.json", "read/generation" };
    json_t *made[3];
    ce_gguf_file file;
    ck_assert_int_eq(json_dump_file(json_object_get(entry, "tokenizer"), "tokenizer.json", 0), 0);
    reread(&file);
    ck_assert_int_eq(ce_gguf_vocabulary(&made[0], &made[1], &made[2], &file, "a.gguf"), CS_OK);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(json_dump_file(made[i], names[i], 0), 0);
        json_decref(made[i]);
    }
    ce_gguf_close(&file);
    check_cases(entry);
}

/* Checks the tokenizers of these names in a list of golden tokenizers. */
static void check_tokenizers(json_t *golden, const char *names, int wanted)
{
    size_t index;
    json_t *entry;
    int checked = 0;
    json_array_foreach (golden, index, entry) {
        char name[64];
        snprintf(name, sizeof name, " %s ", json_string_value(json_object_get(entry, "name")));
        if (!strstr(names, name) || !json_object_get(entry, "tokenizer"))
            continue;
        check_tokenizer(entry);
        checked++;
    }
    ck_assert_int_eq(checked, wanted);
    json_decref(golden);
}

START_TEST(vocabularies_are_read_as_they_were_written)
{
    shell_enter();
    ck_assert_int_eq(shell_run("mkdir read"), 0);
    check_tokenizers(tokenizers_golden(), " gpt2 llama3 qwen2 smollm ", 4);
    check_tokenizers(json_load_file(CS_SOURCE "/tests/golden/constructs.golden", 0, NULL), " llama2 gemma ", 2);
    shell_leave();
}
END_TEST

/* ---- refusals ---- */

typedef struct {
    const char *find, *put; /* the first `length` bytes of `put` replace those of `find`, with an offset from its end */
    int from, length;
    int code;
    const char *words;
} damage;

START_TEST(other_files_are_refused)
{
#define HUGE "\0\0\0\0\0\0\0\x10"
    static const damage rows[] = {
        { "GGUF", "\1\0\0\0", 0, 4, 78, "its header, byte 8: version 1 of the format; version 3 is read" },
        { "GGUF", "\2\0\0\0", 0, 4, 78, "version 2 of the format" },
        { "GGUF", "\0\0\0\3", 0, 4, 78, "a big-endian file" },
        { "GGUF", HUGE, 4, 8, 65, "1152921504606846976 tensors and" },
        { "GGUF", HUGE, 12, 8, 65, "1152921504606846976 keys, and only" },
        { "GGUF", HUGE, 20, 8, 65, "key 0, byte 32: a text of 1152921504606846976 bytes" },
        { "general.type", "\x63\0\0\0", 0, 4, 65, "key general.type, byte" },
        { "general.type", "\7\0\0\0", 0, 4, 65, "key " },
        { "llama.block_count", "\x9\0\0\0", 0, 4, 65, "key " },
        { "llama.block_count", "x", -1, 1, 65, "has no key llama.block_count" },
        { "llama.vocab_size", "x", -1, 1, 78, "keys of which it is not known what they change: llama.vocab_sizx" },
        { "general.architecture", "mamba", 12, 5, 78,
          "general.architecture is mamba, because only these are read: llama" },
        { "blk.0.attn_q.weight", "\7\0\0\0", 0, 4, 65, "tensor blk.0.attn_q.weight, byte" },
        { "blk.0.attn_q.weight", HUGE, 4, 8, 65, "blk.0.attn_q.weight" },
        { "blk.0.attn_q.weight", "\x12\0\0\0", 20, 4, 78, "blk.0.attn_q.weight is IQ3_XXS; these types are read: F32" },
        { "blk.0.attn_q.weight", "\xff\0\0\0", 20, 4, 78, "blk.0.attn_q.weight is type 255;" },
        { "blk.0.attn_q.weight", "\xc\0\0\0", 20, 4, 65, "rows of 64 elements are no whole blocks of Q4_K" },
        { "blk.0.attn_q.weight", "\1", 24, 1, 65, "its offset, " },
        { "blk.0.attn_q.weight", HUGE, 24, 8, 65, "are not in the file, which has" },
        { "blk.0.attn_q.weight", "x", -1, 1, 78, "the architecture llama has no such tensors: blk.0.attn_q.weighx" },
        { "blk.0.attn_q.weight", "k", -8, 1, 65, "the file has the tensor blk.0.attn_k.weight twice" },
    };
    training_prepare();
    training_config("bf16", "", 0);
    training_run(1, "--steps 1 --set 'cspeed.model={\"model_type\": \"llama\", " SIZES "}'");
    shell_expect(0, "tensors", "export out good.gguf --gguf f32");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t size;
        char *bytes = shell_read("good.gguf", &size);
        char *place = memmem(bytes, size, rows[i].find, strlen(rows[i].find));
        ck_assert_ptr_nonnull(place);
        memcpy(place + strlen(rows[i].find) + rows[i].from, rows[i].put, (size_t)rows[i].length);
        FILE *file = fopen("bad.gguf", "w");
        fwrite(bytes, 1, size, file);
        fclose(file);
        free(bytes);
        shell_expect(rows[i].code, rows[i].words, "import bad.gguf never");
        ck_assert_int_ne(shell_run("ls never*"), 0);
    }
    for (int bytes = 10; bytes < 2000; bytes += 250) {
        ck_assert_int_eq(shell_run("head -c %d good.gguf > cut.gguf", bytes), 0);
        shell_expect(65, "cut.gguf", "import cut.gguf never");
    }
    ck_assert_int_eq(shell_run("head -c -100 good.gguf > cut.gguf"), 0);
    shell_expect(65, "the download or the copy is incomplete", "import cut.gguf never");
    shell_expect(65, "cut.gguf", "generate cut.gguf --prompt x");
    shell_expect(78, "at cspeed.model: cut.gguf: tensor", "config config.json --set cspeed.model=cut.gguf");
    shell_leave();
}
END_TEST

START_TEST(one_of_several_files_is_refused)
{
    char *text;
    size_t length;
    ce_gguf_file file;
    json_t *config;
    ce_gguf_keys keys = { .out = ce_must_stream(&text, &length) };
    ce_gguf_key_count(&keys, "split.count", 3);
    read_keys(&file, &keys, &text, &length);
    ck_assert_int_eq(ce_gguf_config(&config, &file, "a.gguf"), CS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(cs_error(), "one of several files of a model (split.count): `llama-gguf-split"));
    ce_gguf_close(&file);
}
END_TEST

SUITE_MAIN("gguf_read", blocks_are_those_of_gguf, a_file_is_read_as_it_was_written, ranges_are_parts_of_tensors,
           a_file_is_a_model, the_scaling_of_llama3_is_found, vocabularies_are_read_as_they_were_written,
           other_files_are_refused, one_of_several_files_is_refused)
