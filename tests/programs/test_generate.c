/* test_generate.c - text generation: sampling, and the program generate. */
#include "near.h"
#include "suite.h"
#include "shell.h"
#include "cspeed/cspeed.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sampling ---- */

enum { TOKENS = 6, DRAWS = 4000 };

static const float row[2 * TOKENS] = { 9, 9, 9, 9, 9, 9, 0.0f, 2.0f, 1.0f, 2.0f, -1.0f, 1.5f };

static void draw(const cs_sampling *how, int *counts)
{
    cs_tensor logits = cs_matrix((void *)(uintptr_t)row, CS_F32, 2, TOKENS);
    memset(counts, 0, TOKENS * sizeof *counts);
    for (int64_t place = 0; place < DRAWS; place++)
        counts[cs_sample(logits, how, 3, place)]++;
}

/* The tokens that can be drawn, as a string of digits. */
static const struct {
    cs_sampling how;
    const char *can;
} rows
    [] = {
        { { 0, 0, 1, 1 }, "1" }, /* of two tokens with equal logits, the one with the lower id is chosen */
        { { 1, 1, 1, 1 }, "1" },       { { 1, 2, 1, 1 }, "13" },
        { { 1, 3, 1, 1 }, "135" },     { { 1, 0, 1, 1 }, "012345" },
        { { 1, 99, 1, 1 }, "012345" }, { { 1, 0, 0, 1 }, "1" },
        { { 1, 0, 0.3, 1 }, "1" }, /* the tokens' probabilities are 0.33 0.33 0.20 0.12 0.04 0.02 */
        { { 1, 0, 0.6, 1 }, "13" },    { { 1, 0, 0.8, 1 }, "135" },
        { { 1, 2, 0.4, 1 }, "1" }, /* top_k leaves two tokens, with probability 0.5 each */
        { { 0.01, 0, 1, 1 }, "13" },
    };

enum { MANY = 3000 };

static float many[MANY];

static int by_logit(const void *one, const void *other)
{
    int a = *(const int *)one, b = *(const int *)other;
    return many[a] != many[b] ? (many[a] > many[b] ? -1 : 1) : a - b;
}

/* Sorts the logits in `many` to find the tokens that remain after `top_k` and `top_p`. Stores in kept[] whether each
 * token remains. */
static void keep_by_sorting(const cs_sampling *how, bool kept[MANY])
{
    int order[MANY];
    double total = 0, sum = 0;
    int64_t count = how->top_k > 0 ? how->top_k : MANY;
    for (int i = 0; i < MANY; i++)
        order[i] = i;
    qsort(order, MANY, sizeof *order, by_logit);
    for (int64_t i = 0; i < count; i++)
        total += exp((double)many[order[i]]);
    memset(kept, 0, MANY * sizeof *kept);
    for (int64_t i = 0; i < count && sum < how->top_p * total; i++) {
        sum += exp((double)many[order[i]]);
        kept[order[i]] = true;
    }
}

/* Many logits are equal, as it happens in 16 bits. */
START_TEST(a_large_vocabulary_is_cut_as_by_sorting)
{
    static const cs_sampling ways[] = { { 1, 1, 1, 5 },    { 1, 7, 1, 5 },     { 1, 255, 1, 5 },  { 1, 257, 1, 5 },
                                        { 1, 2999, 1, 5 }, { 1, 0, 0.2, 5 },   { 1, 0, 0.95, 5 }, { 1, 0, 0.999, 5 },
                                        { 1, 40, 0.5, 5 }, { 1, 1000, 0.9, 5 } };
    for (int i = 0; i < MANY; i++)
        many[i] = (float)(i * 7919 % 97) / 16;
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        bool kept[MANY], drawn[MANY] = { false };
        int64_t keeps = 0, draws = 0;
        keep_by_sorting(&ways[way], kept);
        for (int place = 0; place < 2000; place++) {
            int32_t token = cs_sample(cs_matrix(many, CS_F32, 1, MANY), &ways[way], 1, place);
            ck_assert_msg(kept[token], "way %d: token %d", (int)way, (int)token);
            draws += !drawn[token];
            drawn[token] = true;
        }
        for (int i = 0; i < MANY; i++)
            keeps += kept[i];
        ck_assert(draws == keeps || keeps > 100);
    }
}
END_TEST

START_TEST(only_what_may_come_is_drawn)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int counts[TOKENS];
        char can[TOKENS + 1] = "";
        draw(&rows[i].how, counts);
        for (int token = 0; token < TOKENS; token++)
            if (counts[token])
                can[strlen(can)] = (char)('0' + token);
        ck_assert_msg(strcmp(can, rows[i].can) == 0, "row %d: %s, not %s", (int)i, can, rows[i].can);
    }
}
END_TEST

START_TEST(as_often_as_it_is_likely)
{
    int counts[TOKENS], again[TOKENS], other[TOKENS];
    draw(&(cs_sampling){ 1, 0, 1, 7 }, counts);
    draw(&(cs_sampling){ 1, 0, 1, 7 }, again);
    draw(&(cs_sampling){ 1, 0, 1, 8 }, other);
    ck_assert_mem_eq(counts, again, sizeof counts);
    ck_assert_mem_ne(counts, other, sizeof counts);
    double ratio = (double)counts[1] / (double)counts[2]; /* expected: e, because the two logits differ by 1 */
    ck_assert_double_gt(ratio, 2.2);
    ck_assert_double_lt(ratio, 3.3);
}
END_TEST

/* ---- the program ---- */

static const char *const config =
    "{ \"train_micro_batch_size_per_gpu\": 4, \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 1e-2 } },\n"
    "  \"zero_optimization\": { \"stage\": 1 },\n"
    "  \"cspeed\": { \"steps\": 60, \"seed\": 5, \"output\": \"out\", \"save_interval\": 30, \"eval_interval\": 0,\n"
    "    \"data\": { \"train\": \"data/train-*.bin\", \"seq_len\": 24 },\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 32, \"n_positions\": 48,\n"
    "      \"vocab_size\": 256, \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0 } } }\n";

/* Trains a model until it continues the alphabet. */
static void prepare(void)
{
    char text[2048] = "";
    shell_enter();
    setenv("OMP_NUM_THREADS", "1", 1);
    for (int i = 0; i < 2000; i++)
        text[i] = (char)('a' + i % 26);
    shell_write("text.txt", text);
    shell_write("config.json", config);
    ck_assert_int_eq(shell_run("%s/pack --output data text.txt", CS_BIN), 0);
    ck_assert_int_eq(shell_run("%s/train --config config.json --set cspeed.device=%s", CS_BIN, near_device()), 0);
}

static void expect(const char *arguments, const char *wanted)
{
    int code = shell_run("%s/generate %s 2>err.txt", CS_BIN, arguments);
    char *out = shell_read("out.txt", NULL), *err = shell_read("err.txt", NULL);
    ck_assert_msg(code == 0, "%s: exit code %d: %s", arguments, code, err);
    size_t length = strlen(wanted); /* the text of one prompt is followed by a line feed */
    bool same = strncmp(out, wanted, length) == 0 && (!out[length] || strcmp(out + length, "\n") == 0);
    ck_assert_msg(same, "%s: \"%s\", not \"%s\"", arguments, out, wanted);
    free(out);
    free(err);
}

static void refuse_with(const char *program, const char *arguments, int wanted, const char *words)
{
    int code = shell_run("%s/%s %s", CS_BIN, program, arguments);
    char *out = shell_read("out.txt", NULL);
    ck_assert_msg(code == wanted, "%s: exit code %d: %s", arguments, code, out);
    ck_assert_msg(strstr(out, words) != NULL, "%s: %s", arguments, out);
    free(out);
}

static void refuse(const char *arguments, int wanted, const char *words)
{
    refuse_with("generate", arguments, wanted, words);
}

START_TEST(a_prompt_is_continued)
{
    prepare();
    expect("out --prompt abcdef --max_tokens 8 --temperature 0", "ghijklmn");
    expect("out --prompt abcdef --max_tokens 0", "");
    expect("--max-tokens=3 --temperature=0 out/global_step60 --prompt wxyz", "abc");
    expect("out --tag global_step60 --prompt hij --max_tokens 30 --temperature 0 --stop st --stop opqr", "klmn");
    expect("out --prompt \"$(head -c 40 text.txt)\" --max_tokens 9 --temperature 0", "opqrstuvw");
    char *fits = shell_read("err.txt", NULL);
    ck_assert_ptr_null(strstr(fits, "at most"));
    free(fits);
    shell_write("typed.txt", "lmn\n");
    expect("out --max_tokens 4 --temperature 0 --set cspeed.threads=1 <typed.txt", "opqr");
    refuse("out <text.txt", 65, "prompt 1 has 2000 tokens, but the model reads at most 48");
    refuse("", 64, "SOURCE is missing");
    refuse("out --prompt a --prompts b", 64, "cannot be given together");
    refuse("out --prompt a --output b", 64, "--output needs --prompts;");
    refuse("out --top_p 2 --prompt a", 64, "--top_p takes a number from 0 to 1, not \"2\"");
    refuse("out --bottom_k 2", 64, "unknown flag --bottom_k");
    refuse("out --prompt", 64, "--prompt needs a value");
    refuse("out --prompt a --seed 99999999999999999999", 64, "--seed takes a whole number");
    refuse("nowhere --prompt a", 66, "nowhere: no such folder; name the output folder of a training");
    refuse("data --prompt a", 66, "neither a folder of checkpoints, nor a checkpoint, nor a Hugging Face folder");
    refuse("out --tag other --prompt a", 66, "other");
    refuse("out --prompts missing.jsonl", 66, "missing.jsonl: cannot open this text");
    refuse("out --tokenizer missing --prompt a", 66, "missing");
    shell_write("more.json",
                "{\"added_tokens\": [{\"id\": 300, \"content\": \"<end>\", \"special\": true}], \"model\": "
                "{\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": []}}");
    refuse(
        "out --tokenizer more.json --prompt 'a<end>'", 65,
        "prompt 1 has token 300: the tokenizer has 301 tokens with its added ones, but vocab_size of the model is 256");
    shell_leave();
}
END_TEST

/* When a text fills the model's 48 positions, the text's last 24 tokens are computed again at the first positions, and
 * generation continues after these tokens. */
START_TEST(a_text_goes_on_beyond_the_positions)
{
    char wanted[256] = "", line[512], prompt[41];
    prepare();
    for (int i = 0; i < 99; i++)
        wanted[i] = (char)('a' + (i + 40) % 26);
    expect("out --prompt \"$(head -c 40 text.txt)\" --max_tokens 99 --temperature 0", wanted);
    char *said = shell_read("err.txt", NULL);
    ck_assert_msg(
        strstr(said,
               "reads at most 48 tokens: after that, each token was computed from the last 24 to 48 tokens of the "
               "text"),
        "%s", said);
    free(said);
    for (int i = 0; i < 41; i++)
        prompt[i] = (char)(i < 40 ? 'a' + i % 26 : '\0');
    snprintf(line, sizeof line, "{\"prompt\": \"%s\"}\n{\"prompt\": \"cd\"}\n", prompt);
    shell_write("prompts.jsonl", line);
    ck_assert_int_eq(shell_run("%s/generate out --prompts prompts.jsonl --max_tokens 99 --temperature 0", CS_BIN), 0);
    char *out = shell_read("out.txt", NULL);
    ck_assert_msg(strstr(out, wanted) && strstr(out, "\"text\":\"efghij"), "%s", out);
    free(out);
    /* a prompt of only 24 tokens is continued correctly too */
    expect("out --prompt \"$(head -c 1000 text.txt | tail -c 24)\" --max_tokens 9 --temperature 0", "mnopqrstu");
    shell_leave();
}
END_TEST

/* The sample that `train` prints is the text that `generate` writes from the checkpoint, also beyond the positions. */
START_TEST(the_sample_of_train_is_generated_text)
{
    prepare();
    ck_assert_int_eq(shell_run("%s/cspeed --num_gpus 2 --oversubscribe --quiet train --config config.json --output two "
                               "--steps 20 --set cspeed.model.n_positions=24 --set zero_optimization.stage=3 --set "
                               "cspeed.device=%s",
                               CS_BIN, near_device()),
                     0);
    char *out = shell_read("out.txt", NULL), *sample = strstr(out, "a sample:\n");
    char *end = sample ? strstr(sample, "\n\nthe training is in ") : NULL;
    ck_assert_msg(end != NULL, "%s", out);
    *end = '\0';
    sample += strlen("a sample:\n");
    ck_assert_int_eq(
        shell_run("%s/generate two --prompt '' --seed 5 --max_tokens 500 2>err.txt | head -c -1 | iconv -c -f UTF-8 -t "
                  "ASCII >text.txt; tr -dc '[:print:]\n' <text.txt >shown.txt",
                  CS_BIN),
        0);
    char *text = shell_read("shown.txt", NULL);
    shell_write("sample.txt", sample);
    ck_assert_int_eq(shell_run("iconv -c -f UTF-8 -t ASCII <sample.txt | tr -dc '[:print:]\n'"), 0);
    char *plain = shell_read("out.txt", NULL);
    ck_assert_uint_gt(strlen(text), 400);
    ck_assert_str_eq(plain, text);
    free(plain);
    free(text);
    free(out);
    shell_leave();
}
END_TEST

/* ---- many prompts ---- */

static char *answers(int ranks, const char *more)
{
    char *said;
    int code = shell_run("%s/cspeed --num_gpus %d --oversubscribe generate out --prompts prompts.jsonl --output "
                         "answers.jsonl --max_tokens 12 %s",
                         CS_BIN, ranks, more);
    said = shell_read("out.txt", NULL);
    ck_assert_msg(code == 0, "%d ranks: exit code %d: %s", ranks, code, said);
    free(said);
    return shell_read("answers.jsonl", NULL);
}

START_TEST(many_prompts_are_answered_in_their_order)
{
    prepare();
    shell_write("prompts.jsonl", "{\"prompt\": \"abcd\", \"id\": 1}\n{\"prompt\": \"uvw\", \"more\": [null]}\n\n"
                                 "{\"prompt\": \"pqrst\"}\n{\"prompt\": \"cdefghij\"}");
    char *greedy = answers(1, "--temperature 0 --stop yz");
    ck_assert_str_eq(greedy, "{\"prompt\":\"abcd\",\"id\":1,\"text\":\"efghijklmnop\",\"tokens\":12,"
                             "\"finish\":\"length\"}\n"
                             "{\"prompt\":\"uvw\",\"more\":[null],\"text\":\"x\",\"tokens\":3,\"finish\":\"stop\"}\n"
                             "{\"prompt\":\"pqrst\",\"text\":\"uvwx\",\"tokens\":6,\"finish\":\"stop\"}\n"
                             "{\"prompt\":\"cdefghij\",\"text\":\"klmnopqrstuv\",\"tokens\":12,"
                             "\"finish\":\"length\"}\n");
    char *drawn = answers(1, "--temperature 3");
    ck_assert_str_ne(drawn, greedy);
    for (int stage = 0; stage <= 3; stage++)
        for (int ranks = 2; ranks <= 3; ranks++) {
            char more[80];
            snprintf(more, sizeof more, "--temperature 3 --set zero_optimization.stage=%d", stage);
            char *shared = answers(ranks, more);
            ck_assert_str_eq(shared, drawn);
            free(shared);
        }
    free(drawn);
    free(greedy);
    shell_write("broken.jsonl", "{\"prompt\": \"a\"}\n{\"text\": \"a\"}\n");
    refuse("out --prompts broken.jsonl", 65, "broken.jsonl:2:");
    shell_leave();
}
END_TEST

/* Rank 0 prints the error, also if another rank would have answered the prompt. */
START_TEST(errors_of_ranks_are_reported)
{
    static const struct {
        const char *arguments, *words;
    } cases[] = {
        { "out --prompts long.jsonl", "prompt 2 has 60 tokens, but the model reads at most 48" },
        { "out </dev/null", "standard input is empty" },
        { "out --prompts - </dev/null", "standard input is empty" },
    };
    prepare();
    shell_write("long.jsonl", "{\"prompt\": \"a\"}\n{\"prompt\": \"bcdefghijkbcdefghijkbcdefghijkbcdefghijk"
                              "bcdefghijkbcdefghijk\"}\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        refuse_with("cspeed --num_gpus 2 --oversubscribe generate", cases[i].arguments, 65, cases[i].words);
        refuse(cases[i].arguments, 65, cases[i].words);
    }
    char *together = NULL;
    for (int ranks = 1; ranks <= 3; ranks++) {
        ck_assert_int_eq(shell_run("%s/cspeed --num_gpus %d --oversubscribe --quiet generate out --prompt abc --seed 4 "
                                   "--temperature 3 --set zero_optimization.stage=3 2>err.txt",
                                   CS_BIN, ranks),
                         0);
        char *said = shell_read("out.txt", NULL);
        together = together ? together : strdup(said);
        ck_assert_uint_gt(strlen(said), 40);
        ck_assert_str_eq(said, together);
        free(said);
    }
    free(together);
    shell_leave();
}
END_TEST

SUITE_MAIN("generate", only_what_may_come_is_drawn, a_large_vocabulary_is_cut_as_by_sorting, as_often_as_it_is_likely,
           a_prompt_is_continued, a_text_goes_on_beyond_the_positions, the_sample_of_train_is_generated_text,
           many_prompts_are_answered_in_their_order, errors_of_ranks_are_reported)
