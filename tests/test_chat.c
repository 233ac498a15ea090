/* test_chat.c - prompts of conversations are those of transformers' chat templates, and `generate --chat` answers. */
#include "near.h"
#include "shell.h"
#include "suite.h"
#include "tokenizers.h"

#include "text/chat.h"
#include "text/encoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- against golden/chat.golden (tests/peers/chat_same.py) ---- */

static json_t *golden(void)
{
    size_t  size;
    char   *text = shell_read(CS_TESTS "/golden/chat.golden", &size);
    json_t *all  = cs_json_strict(text, size);
    ck_assert_msg(all != NULL, "%s", cs_error());
    free(text);
    return all;
}

/* GPT-2's of golden/tokenizer.golden, with the words of all templates. */
static void write_tokenizer(const json_t *words)
{
    size_t  index;
    json_t *word;
    tokenizers_write("gpt2", "tokenizer.json");
    json_t *root = json_load_file("tokenizer.json", 0, NULL);
    json_array_foreach(words, index, word)
    {
        json_t *added = json_deep_copy(word);
        json_object_set_new(added, "special", json_true());
        json_array_append_new(json_object_get(root, "added_tokens"), added);
    }
    ck_assert_int_eq(json_dump_file(root, "tokenizer.json", 0), 0);
    json_decref(root);
}

static void write_template(const json_t *template)
{
    json_t *config = json_pack("{s:s, s:s, s:O}", "bos_token", "<s>", "eos_token", "</s>", "chat_template",
                               json_object_get(template, "chat_template"));
    ck_assert_int_eq(json_dump_file(config, "tokenizer_config.json", 0), 0);
    json_decref(config);
}

static void same_ids(const cs_encoded *got, const json_t *wanted, const char *name, size_t which)
{
    ck_assert_msg((size_t)got->count == json_array_size(wanted), "%s, chat %zu: %lld tokens, not %zu", name, which,
                  (long long)got->count, json_array_size(wanted));
    for (int64_t i = 0; i < got->count; i++)
        ck_assert_msg(got->ids[i] == json_integer_value(json_array_get(wanted, (size_t)i)), "%s, chat %zu, token %lld",
                      name, which, (long long)i);
}

static void check_template(const json_t *template)
{
    const char          *name = json_string_value(json_object_get(template, "name"));
    cs_tokenizer        *tokenizer;
    const cs_chat_shape *shape, *named;
    cs_chat_lines        lines = { 0 };
    size_t               index;
    json_t              *one;
    write_template(template);
    ck_assert_msg(cs_tokenizer_open(&tokenizer, ".") == CS_OK, "%s", cs_error());
    ck_assert_msg(cs_chat_find(&shape, "auto", tokenizer) == CS_OK, "%s", cs_error());
    ck_assert_int_eq(cs_chat_find(&named, name, tokenizer), CS_OK);
    ck_assert_ptr_eq(shape, named);
    cs_encoder *encoder = cs_encoder_open(tokenizer);
    json_array_foreach(json_object_get(template, "cases"), index, one)
    {
        ck_assert_msg(cs_chat_prompt(shape, tokenizer, one, &lines) == CS_OK, "%s", cs_error());
        same_ids(cs_encoder_text(encoder, lines.text.bytes, lines.text.size), json_object_get(one, "ids"), name, index);
    }
    cs_chat_free(&lines);
    cs_encoder_close(encoder);
    cs_tokenizer_close(tokenizer);
}

START_TEST(prompts_are_those_of_transformers)
{
    size_t  index;
    json_t *all = golden(), *template;
    shell_enter();
    write_tokenizer(json_object_get(all, "words"));
    json_array_foreach(json_object_get(all, "templates"), index, template) check_template(template);
    ck_assert_uint_eq(index, 4);
    json_decref(all);
    shell_leave();
}
END_TEST

/* ---- the program ---- */

static const char *const config =
    "{ \"train_batch_size\": 8, \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 1e-2 } },\n"
    "  \"cspeed\": { \"steps\": 60, \"seed\": 5, \"output\": \"out\",\n"
    "    \"data\": { \"train\": \"chats.jsonl\", \"template\": \"plain\", \"packing\": \"documents\",\n"
    "      \"seq_len\": 32 },\n"
    "    \"model\": { \"model_type\": \"llama\", \"num_hidden_layers\": 2, \"num_attention_heads\": 2,\n"
    "      \"hidden_size\": 32, \"intermediate_size\": 64, \"max_position_embeddings\": 96,\n"
    "      \"vocab_size\": 256 } } }\n";

/* A model of bytes that has learnt two answers. */
static void prepare(void)
{
    shell_enter();
    setenv("OMP_NUM_THREADS", "1", 1);
    shell_write("config.json", config);
    FILE *file = fopen("chats.jsonl", "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 40; i++)
        fprintf(file, "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", "
                "\"content\": \"%s\"}]}\n", i % 2 ? "ping" : "tick", i % 2 ? "pong" : "tock");
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(shell_run("%s/train --config config.json --set cspeed.device=%s", CS_BIN, near_device()), 0);
}

static void expect(int code, const char *words, const char *arguments)
{
    int   got  = shell_run("%s/generate %s --max_tokens 12 --temperature 0 2>err.txt", CS_BIN, arguments);
    char *text = shell_read(code ? "err.txt" : "out.txt", NULL);
    ck_assert_msg(got == code && (code ? strstr(text, words) != NULL : strcmp(text, words) == 0),
                  "%s: exit code %d, and it printed \"%s\"", arguments, got, text);
    free(text);
}

START_TEST(a_chat_is_answered)
{
    prepare();
    expect(0, "pong", "out --chat --prompt ping");
    expect(0, "tock", "out --prompt '  tick ' --chat");
    shell_write("said.txt", "tick\n");
    expect(0, "tock", "out --chat < said.txt");
    shell_write("said.txt", "{\"messages\": [{\"role\": \"user\", \"content\": \"ping\"}]}\n");
    expect(0, "pong", "out --chat < said.txt");
    shell_write("said.txt", "{\"messages\": [{\"role\": \"assistant\", \"content\": \"tock\"}]}");
    expect(65, "ends with an answer", "out --chat < said.txt");
    shell_write("said.txt", "{\"messages\": 3}");
    expect(65, "no list \"messages\"", "out --chat < said.txt");
    shell_write("said.txt", "{ is no conversation");
    expect(65, "--chat: standard input", "out --chat < said.txt");
    expect(64, "--chat and --prompts: one of the two", "out --chat --prompts said.txt");
    expect(78, "--chat: the template chatml writes <|im_start|>, which this tokenizer has no token for",
           "out --chat --prompt ping --set cspeed.data.template=chatml");
    expect(78, "--chat: the tokenizer has no chat_template to follow",
           "out --chat --prompt ping --set cspeed.data.template=auto");
    shell_leave();
}
END_TEST

SUITE_MAIN("chat", prompts_are_those_of_transformers, a_chat_is_answered)
