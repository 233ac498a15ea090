/* test_vocabulary.c - `cspeed add-tokens`: the rows of the table and of the head, the tokenizer's files, config.json, and
 * what is refused. The ids of texts and transformers' own rows are compared in tests/peers/tokens_same.py. */
#include "runs.h"
#include "shell.h"
#include "suite.h"
#include "tokenizers.h"

#include "base/files.h"
#include "core/engine.h"
#include "interchange/huggingface.h"
#include "interchange/vocabulary.h"
#include "text/tokenizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const run_spec plain = { .world = 1, .steps = 1, .precision = "fp32" };

/* Writes the folder `base` with a tokenizer that has more tokens than the table has rows. */
static void make_base(void)
{
    cs_engine *engine = run_open(&plain, NULL);
    CS_MUST(cs_save_checkpoint(engine, "first", NULL, NULL));
    CS_MUST(cs_export(engine, "first", NULL, "base"));
    cs_destroy(engine);
    tokenizers_write("gpt2", "base/tokenizer.json");
    tokenizers_configure("base/tokenizer_config.json", NULL, "<|endoftext|>", "chatml");
    shell_write("base/special_tokens_map.json", "{\"eos_token\": \"<|endoftext|>\"}");
}

static cs_status extend(ce_vocabulary *made, const char *from, const char *to, const char *tokens, const char *specials,
                        const char *named)
{
    json_auto_t *one = json_loads(tokens, 0, NULL), *two = json_loads(specials, 0, NULL),
                *three = json_loads(named, 0, NULL);
    *made = (ce_vocabulary){
        .from = from, .to = to, .tokens = one, .specials = two, .named = three, .multiple = 8, .max_shard = 1 << 20
    };
    return ce_vocabulary_extend(made);
}

static float *read_table(const char *folder, int64_t *rows, int64_t *columns)
{
    ce_source source;
    CS_MUST(ce_huggingface_open(&source, folder));
    int64_t at = ce_source_find(&source, "transformer.wte.weight");
    *rows = source.tensors[at].shape[0];
    *columns = source.tensors[at].shape[1];
    float *values = calloc((size_t)(*rows * *columns), sizeof *values);
    ck_assert_ptr_nonnull(values);
    CS_MUST(source.read(&source, at, (ce_range){ 0, *rows * *columns }, values, CS_F32));
    ce_source_close(&source);
    return values;
}

static json_t *read_json(const char *path)
{
    size_t length;
    char *text = shell_read(path, &length);
    json_t *value = json_loads(text, 0, NULL);
    ck_assert_msg(value != NULL, "%s", path);
    free(text);
    return value;
}

START_TEST(new_rows_are_the_mean)
{
    ce_vocabulary made;
    int64_t rows, columns, old_rows, old_columns;
    shell_enter();
    make_base();
    CS_MUST(extend(&made, "base", "larger", "[\"<tool>\", \"a\"]", "[\"<|user|>\"]", "{\"pad_token\": \"<|pad|>\"}"));
    float *old = read_table("base", &old_rows, &old_columns), *new = read_table("larger", &rows, &columns);
    ck_assert_int_eq(made.added, 3); /* "a" is in the vocabulary */
    ck_assert_int_eq(made.before, old_rows);
    ck_assert_int_eq(made.after, rows);
    ck_assert_int_eq(rows % 8, 0);
    ck_assert_int_eq(columns, old_columns);
    ck_assert_int_gt(rows, old_rows);
    ck_assert_mem_eq(new, old, (size_t)(old_rows * columns) * sizeof *old);
    for (int64_t at = 0; at < columns; at++) {
        double mean = 0;
        for (int64_t row = 0; row < old_rows; row++)
            mean += (double)old[row * columns + at] / (double)old_rows;
        for (int64_t row = old_rows; row < rows; row++)
            ck_assert_double_le(fabs((double)new[row * columns + at] - mean), 1e-8);
    }
    free(old);
    free(new);
    json_auto_t *config = read_json("larger/config.json");
    ck_assert_int_eq(json_integer_value(json_object_get(config, "vocab_size")), rows);
    shell_leave();
}
END_TEST

START_TEST(the_tokenizer_has_the_tokens)
{
    ce_vocabulary made;
    ce_tokenizer *tokenizer, *before;
    shell_enter();
    make_base();
    CS_MUST(ce_tokenizer_open(&before, "base"));
    CS_MUST(extend(&made, "base", "larger", "[\"<tool>\"]", "[\"<|user|>\"]",
                   "{\"pad_token\": \"<|pad|>\", \"eos_token\": \"<|user|>\"}"));
    CS_MUST(ce_tokenizer_open(&tokenizer, "larger"));
    int32_t first = (int32_t)ce_tokenizer_size(before);
    ck_assert_int_eq(ce_tokenizer_find(tokenizer, "<tool>"), first);
    ck_assert_int_eq(ce_tokenizer_find(tokenizer, "<|user|>"), first + 1);
    ck_assert_int_eq(ce_tokenizer_find(tokenizer, "<|pad|>"), first + 2);
    ck_assert(!ce_tokenizer_is_special(tokenizer, first));
    ck_assert(ce_tokenizer_is_special(tokenizer, first + 1));
    ck_assert_str_eq(ce_tokenizer_end_text(tokenizer), "<|user|>");
    json_auto_t *config = read_json("larger/config.json"), *generation = read_json("larger/generation_config.json"),
                *map = read_json("larger/special_tokens_map.json");
    ck_assert_int_eq(json_integer_value(json_object_get(config, "pad_token_id")), first + 2);
    ck_assert_int_eq(json_integer_value(json_object_get(config, "eos_token_id")), first + 1);
    ck_assert_ptr_nonnull(json_object_get(generation, "eos_token_id"));
    ck_assert_str_eq(json_string_value(json_object_get(map, "pad_token")), "<|pad|>");
    ce_tokenizer_close(before);
    ce_tokenizer_close(tokenizer);
    shell_leave();
}
END_TEST

/* The folder that was written is the base of a training that trains table and head beside adapters, and exports them. */
START_TEST(a_training_begins_with_it)
{
    ce_vocabulary made;
    shell_enter();
    make_base();
    CS_MUST(extend(&made, "base", "larger", "[]", "[\"<|user|>\"]", "{}"));
    run_spec spec = plain;
    spec.set[0] = "cspeed.model=\"larger\"";
    spec.set[1] = "cspeed.lora={\"r\": 2, \"modules_to_save\": [\"wte\"], \"ensure_weight_tying\": true}";
    cs_engine *engine = run_open(&spec, NULL);
    run_step(engine, &spec);
    ck_assert_int_eq(cs_vocabulary(engine), made.after);
    CS_MUST(cs_save_checkpoint(engine, "saved", NULL, NULL));
    CS_MUST(cs_export(engine, "saved", NULL, "adapter"));
    cs_destroy(engine);
    ck_assert(ce_files_holds("adapter", "tokenizer.json"));
    shell_leave();
}
END_TEST

static void refuse(cs_status status, const char *word)
{
    ck_assert_int_ne(status, CS_OK);
    ck_assert_msg(strstr(cs_error(), word), "%s", cs_error());
}

START_TEST(others_are_refused)
{
    ce_vocabulary made;
    shell_enter();
    make_base();
    refuse(extend(&made, "base", "first", "[\"x\"]", "[]", "{}"), "first exists already");
    refuse(extend(&made, "base", "out", "[\"\"]", "[]", "{}"), "at least one character");
    refuse(extend(&made, "nowhere", "out", "[\"x\"]", "[]", "{}"), "it has no tokenizer.json");
    shell_write("base/tokenizer_config.json", "[1]");
    refuse(extend(&made, "base", "out", "[\"x\"]", "[]", "{}"), "tokenizer_config.json: an object is needed");
    shell_write("base/tokenizer_config.json", "{}");
    shell_write("base/tokenizer.json", "{\"added_tokens\": []}");
    refuse(extend(&made, "base", "out", "[\"x\"]", "[]", "{}"), "\"model.vocab\" or \"added_tokens\" is missing");
    ck_assert(!ce_files_exists("out"));
    shell_leave();
}
END_TEST

SUITE_MAIN("vocabulary", new_rows_are_the_mean, the_tokenizer_has_the_tokens, a_training_begins_with_it,
           others_are_refused)
