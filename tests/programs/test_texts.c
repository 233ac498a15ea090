/* test_texts.c - training on text files and conversations: from a Hugging Face folder to a Hugging Face folder. */
#include "shell.h"
#include "suite.h"
#include "tokenizers.h"
#include "training.h"

#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const recipe =
    "{ \"train_batch_size\": 6,\n"
    "  \"cspeed\": { \"model\": \"model\", \"data\": { \"train\": \"chats.jsonl\", \"template\": \"auto\",\n"
    "    \"packing\": \"documents\", \"seq_len\": 64 },\n"
    "    \"steps\": 30, \"output\": \"out\", \"export\": \"tuned\" } }\n";

static const char *const plain =
    "{ \"train_batch_size\": 2,\n"
    "  \"cspeed\": { \"steps\": 2, \"output\": \"out\", \"data\": { \"seq_len\": 16 },\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 16,\n"
    "               \"n_positions\": 16, \"vocab_size\": 256 } } }\n";

/* Writes Qwen2's tokenizer with the special tokens of its chat template. */
static void write_tokenizer(void)
{
    static const char *const words[] = { "<|im_start|>", "<|im_end|>" };
    json_t *root;
    tokenizers_write("qwen2", "model/tokenizer.json");
    root = json_load_file("model/tokenizer.json", 0, NULL);
    ck_assert_ptr_nonnull(root);
    json_t *added = json_object_get(root, "added_tokens");
    for (int i = 0; i < 2; i++)
        json_array_append_new(added, json_pack("{s:i, s:s, s:b, s:b}", "id", 417 + i, "content", words[i], "special", 1,
                                               "normalized", 0));
    ck_assert_int_eq(json_dump_file(root, "model/tokenizer.json", 0), 0);
    json_decref(root);
    tokenizers_configure("model/tokenizer_config.json", NULL, "<|im_end|>", "chatml");
    ck_assert_int_eq(shell_run("sed -i 's/{/{\"model_max_length\": 1000000000000000019884624838656, /;' "
                               "model/tokenizer_config.json"),
                     0);
}

static void write_chats(const char *path, int count)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < count; i++)
        fprintf(file,
                "{\"id\": 18446744073709551616, \"messages\": ["
                "{\"role\": \"user\", \"content\": \"What is %d?\"}, "
                "{\"role\": \"assistant\", \"content\": \"It is %d and nothing else.\"}]}\n",
                i % 7, i % 7);
    ck_assert_int_eq(fclose(file), 0);
}

/* Enters a folder with a model like those of Qwen: its vocabulary is larger than the tokenizer's. */
static void enter(void)
{
    shell_enter();
    ck_assert_int_eq(mkdir("model", 0777), 0);
    write_tokenizer();
    shell_write("model/config.json",
                "{ \"model_type\": \"qwen2\", \"vocab_size\": 448, \"hidden_size\": 32, "
                "\"intermediate_size\": 48, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
                "\"num_key_value_heads\": 2, \"max_position_embeddings\": 64, \"tie_word_embeddings\": true }");
    write_chats("chats.jsonl", 60);
    shell_write("recipe.json", recipe);
    shell_write("plain.json", plain);
}

/* Checks that the cache has `count` folders, and writes the path of the first folder to `path`. */
static void find_folder(char *path, size_t capacity, const char *cache, int count)
{
    char pattern[256];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*/made_from.txt", cache);
    ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
    ck_assert_int_eq((int)found.gl_pathc, count);
    snprintf(path, capacity, "%.*s", (int)(strrchr(found.gl_pathv[0], '/') - found.gl_pathv[0]), found.gl_pathv[0]);
    globfree(&found);
}

static double loss_of(const char *source)
{
    ck_assert_int_eq(shell_run("'%s/eval' %s --data chats.jsonl --seq_len 64 --set cspeed.data.template=auto --set "
                               "cspeed.data.cache=cache --set cspeed.data.packing=documents --micro_batch 4 --json",
                               CS_BIN, source),
                     0);
    char *out = shell_read("out.txt", NULL);
    const char *at = strstr(out, "\"loss\": ");
    ck_assert_msg(at != NULL, "%s", out);
    double loss = strtod(at + 8, NULL);
    free(out);
    return loss;
}

START_TEST(a_folder_and_conversations_become_a_folder)
{
    enter();
    shell_ended(0, training_try(2, "recipe.json"), "wrote tuned");
    ck_assert(training_says("the same command with --steps 60 --export NEW_FOLDER continues it"));
    ck_assert(!training_says("cspeed export"));
    ck_assert_int_eq(shell_run("cmp model/tokenizer.json tuned/tokenizer.json && test -f tuned/model.safetensors && "
                               "cmp model/tokenizer_config.json tuned/tokenizer_config.json"),
                     0);
    double tuned = loss_of("tuned"), trained = loss_of("out"), before = log(448);
    ck_assert_msg(tuned == trained && trained < 0.9 * before, "tuned %.9g, checkpoint %.9g", tuned, trained);
    ck_assert_int_eq(shell_run("'%s/generate' tuned --prompt 'What is 3?' --max_tokens 4 --temperature 0", CS_BIN), 0);
    shell_ended(0, training_try(1, "recipe.json"), "tuned exists already,");
    ck_assert(!training_says("cspeed.model names"));
    ck_assert_int_eq(shell_run("cp -r model other"), 0);
    shell_ended(0, training_try(1, "recipe.json --model other"), "cspeed.model names other, and this checkpoint's");
    shell_ended(78, training_try(1, "recipe.json --steps 32"), "cspeed.export: tuned exists already,");
    /* all steps of the run are done */
    shell_ended(0, training_try(1, "recipe.json --export half --set cspeed.export_dtype=bf16"), "wrote half");
    ck_assert_int_eq(shell_run("grep -q BF16 half/model.safetensors && grep -q bfloat16 half/config.json"), 0);
    shell_leave();
}
END_TEST

START_TEST(tokens_are_those_of_pack)
{
    char folder[256];
    enter();
    shell_ended(0, training_try(2, "recipe.json --steps 1 --set cspeed.export=null"), "making tokens of chats.jsonl");
    find_folder(folder, sizeof folder, "out.tokens", 1);
    ck_assert_int_eq(shell_run("'%s/pack' --valid 0 --tokenizer model --template auto --output packed chats.jsonl",
                               CS_BIN),
                     0);
    ck_assert_int_eq(shell_run("cmp packed/train-00000.bin %s/train-00000.bin", folder), 0);
    shell_leave();
}
END_TEST

START_TEST(tokens_are_made_once)
{
    char folder[256], stale[300];
    enter();
    shell_ended(0, training_try(3, "recipe.json --steps 1 --set cspeed.export=null"), "making tokens of chats.jsonl");
    shell_ended(0, training_try(2, "recipe.json --steps 2 --set cspeed.export=null"),
                "where an earlier run saved them");
    find_folder(folder, sizeof folder, "out.tokens", 1);
    snprintf(stale, sizeof stale, "%s.part", folder);
    /* A run that is killed while it makes the tokens leaves a folder with the suffix .part. */
    ck_assert_int_eq(rename(folder, stale), 0);
    shell_ended(0, training_try(2, "recipe.json --steps 3 --set cspeed.export=null"), "making tokens of chats.jsonl");
    ck_assert_int_ne(access(stale, F_OK), 0);
    ck_assert_int_eq(shell_run("echo damaged > %s/made_from.txt", folder), 0);
    shell_ended(0, training_try(2, "recipe.json --steps 4 --set cspeed.export=null"), "making tokens of chats.jsonl");
    shell_ended(0, training_try(1, "recipe.json --steps 5 --set cspeed.export=null --set cspeed.data.template=chatml"),
                "making tokens of chats.jsonl");
    find_folder(folder, sizeof folder, "out.tokens", 2);
    /* A template is a file though its path has a colon, as "auto:NAME" has, and tokens of an older one are not used. */
    ck_assert_int_eq(mkdir("a:b", 0777), 0);
    for (int i = 0; i < 2; i++) {
        shell_write("a:b/t.jinja", i ? "{% for m in messages %}{{ m.content }}<|im_end|>{% endfor %}"
                                     : "{% for m in messages %}{{ m.content }}!<|im_end|>{% endfor %}");
        shell_ended(0,
                    training_try(1, "recipe.json --steps 1 --fresh --set cspeed.export=null --set "
                                    "cspeed.data.template=a:b/t.jinja"),
                    "making tokens of chats.jsonl");
    }
    shell_leave();
}
END_TEST

/* A model whose tokens are bytes is exported and imported without a tokenizer. */
START_TEST(an_exported_model_of_bytes_reads_texts)
{
    enter();
    shell_write("a.txt", "some text, long enough for a window or two of sixteen bytes each, and then some\n");
    shell_ended(0, training_try(1, "plain.json --data a.txt --export bytes"), "wrote bytes");
    shell_ended(0, training_try(2, "plain.json --data a.txt --model bytes --output next"), "one token for each byte");
    shell_leave();
}
END_TEST

/* Cached tokens of an earlier version of the same texts are removed, unless a run uses them. Other files are not
 * removed. */
START_TEST(tokens_of_older_texts_are_removed)
{
    char folder[256], newer[256];
    enter();
    write_chats("other.jsonl", 60);
    shell_ended(0, training_try(1, "recipe.json --steps 1 --set cspeed.export=null"), "making tokens of chats.jsonl");
    find_folder(folder, sizeof folder, "out.tokens", 1);
    shell_ended(0, training_try(1, "recipe.json --steps 2 --set cspeed.export=null --set cspeed.data.template=chatml"),
                "making");
    shell_ended(0, training_try(1, "recipe.json --steps 3 --set cspeed.export=null --data other.jsonl"), "making");
    find_folder(newer, sizeof newer, "out.tokens", 3);

    int reader = open(folder, O_RDONLY | O_DIRECTORY);
    ck_assert_int_eq(flock(reader, LOCK_SH | LOCK_NB), 0);
    write_chats("chats.jsonl", 61);
    shell_ended(0, training_try(1, "recipe.json --steps 4 --set cspeed.export=null"), "making tokens of chats.jsonl");
    find_folder(newer, sizeof newer, "out.tokens", 4);
    close(reader);
    write_chats("chats.jsonl", 62);
    shell_ended(0, training_try(2, "recipe.json --steps 5 --set cspeed.export=null"),
                "old tokens of chats.jsonl are removed");
    find_folder(newer, sizeof newer, "out.tokens", 3);
    ck_assert_int_ne(access(folder, F_OK), 0);
    ck_assert_int_eq(shell_run("test $(ls out.tokens | wc -l) = 6"), 0); /* three folders and a lock file for each */
    shell_ended(0, training_try(1, "recipe.json --steps 6 --set cspeed.export=null --set cspeed.data.template=chatml"),
                "making");
    find_folder(newer, sizeof newer, "out.tokens", 3);
    shell_leave();
}
END_TEST

/* Three runs need the same cache at the same time: one of them makes it, and the others wait for it or find it. */
START_TEST(runs_share_a_cache)
{
    char folder[256];
    pid_t runs[3];
    enter();
    write_chats("chats.jsonl", 4000);
    for (int i = 0; i < 3; i++)
        runs[i] = shell_start("'%s/train' --config recipe.json --steps 1 --set cspeed.export=null --output out%d --set "
                              "cspeed.data.cache=shared > %d.txt 2>&1",
                              CS_BIN, i, i);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(shell_wait(runs[i]), 0);
    ck_assert_int_eq(shell_run("test $(grep -l 'making tokens' [012].txt | wc -l) = 1"), 0);
    find_folder(folder, sizeof folder, "shared", 1);
    shell_leave();
}
END_TEST

/* Data of every kind, with weights: texts, JSON lines with a key, a folder with both, shards. */
START_TEST(texts_of_every_sort_are_read)
{
    enter();
    ck_assert_int_eq(mkdir("more", 0777), 0);
    shell_write("a.txt", "A text of its own, long enough for more than one window of sixteen bytes.\n");
    shell_write("more/b.txt", "Another text, as long as the first, or a little longer than that was.\n");
    shell_write("more/c.jsonl", "{\"body\": \"Lines of JSON with a key of their own, and twice of it.\"}\n");
    ck_assert_int_eq(shell_run("'%s/pack' --valid 0 --output packed a.txt", CS_BIN), 0);
    shell_ended(0, training_try(2, "plain.json --data a.txt --set cspeed.data.valid=more/b.txt"),
                "one token for each byte");
    shell_ended(
        0,
        training_try(2, "plain.json --fresh --set 'cspeed.data.train=[\"a.txt\", \"packed/train-*.bin\", \"more\"]' "
                        "--set 'cspeed.data.weights=[1, 2, 1]' --set cspeed.data.field=body"),
        "documents, ");
    shell_ended(0,
                training_try(1, "plain.json --fresh --data more --set cspeed.data.field=body "
                                "--set cspeed.data.packing=documents"),
                "where an earlier run saved them");
    ck_assert_int_eq(shell_run("'%s/cspeed' inspect out | grep -q ' 1 rank, ZeRO-'", CS_BIN), 0);
    shell_leave();
}
END_TEST

/* If a file has the name that --data gives, the name is not a pattern, whatever characters it contains. The name of the
 * output folder may contain any characters too. The name of the cache is made from the name of the output folder. */
START_TEST(names_may_have_any_character)
{
    enter();
    ck_assert_int_eq(mkdir("more [1]*", 0777), 0);
    shell_write("a[1].txt", "A text of its own, long enough for more than one window of sixteen bytes.\n");
    shell_write("more [1]*/b.txt", "Another text, as long as the first, or a little longer than that was.\n");
    shell_ended(0, training_try(2, "plain.json --data 'a[1].txt' --output 'out[1]'"), "in 1 document, ");
    shell_ended(0, training_try(2, "plain.json --data 'more [1]*' --output 'out[1]' --fresh"), "in 1 document, ");
    shell_leave();
}
END_TEST

/* A run that resumes with another text prints a warning, and hosts with different tokens refuse to start. */
START_TEST(other_data_is_reported)
{
    enter();
    shell_write("a.txt", "A text of its own, long enough for more than one window of sixteen bytes.\n");
    shell_ended(0, training_try(2, "plain.json --data a.txt --steps 1"), "making tokens of a.txt");
    shell_write("a.txt", "Another text, of just as many bytes, though not a single one of them same.\n");
    ck_assert_int_eq(shell_run("truncate -s 74 a.txt"), 0);
    shell_ended(0, training_try(2, "plain.json --data a.txt --steps 2"), "was made on other data of as many windows");
    shell_ended(0, training_try(1, "plain.json --data a.txt --steps 3 --set cspeed.data.seq_len=8"),
                "windows of data, here");
    shell_write("rank.sh", "cd host$RANK && exec \"$1\" --config ../plain.json --data t.txt.bin\n");
    ck_assert_int_eq(shell_run("for h in 0 1; do mkdir host$h && seq $h 90 > t.txt && '%s/pack' --valid 0 --output p "
                               "t.txt && mv p/train-00000.bin host$h/t.txt.bin && rm -r p; done",
                               CS_BIN),
                     0);
    shell_ended(76, shell_run("'%s/cspeed' --num_gpus 2 --oversubscribe run sh rank.sh '%s/train'", CS_BIN, CS_BIN),
                "not the same on all ranks");
    shell_leave();
}
END_TEST

/* If making tokens fails, for example on a full disk, no part of them remains. */
START_TEST(failures_leave_nothing)
{
    enter();
    shell_write("bad.jsonl", "{\"text\": \"good\"}\n{\"text\": 5}\n");
    shell_ended(65, training_try(2, "plain.json --data bad.jsonl"), "bad.jsonl, line 2: ");
    ck_assert_int_eq(shell_run("test -d out.tokens && ! ls -d out.tokens/*.part"), 0);
    shell_leave();
}
END_TEST

/* Bad lines that a run with skip_bad left out are errors again in the next run without skip_bad. */
START_TEST(bad_lines_are_left_out_if_asked)
{
    enter();
    shell_write("bad.jsonl", "{\"text\": \"long enough for a window of sixteen tokens\"}\n{\"text\": \"a\\u0000\"}\n");
    for (int again = 0; again < 2; again++) {
        shell_ended(65, training_try(2, "plain.json --data bad.jsonl"), "bad.jsonl, line 2: ");
        shell_ended(0, training_try(2, "plain.json --data bad.jsonl --fresh --set cspeed.data.skip_bad=1"),
                    again ? "where an earlier run saved them" : "1 bad lines were left out (cspeed.data.skip_bad 1)");
    }
    shell_leave();
}
END_TEST

START_TEST(export_is_checked_first)
{
    enter();
    shell_write("a.txt", "A text of its own, long enough for more than one window of sixteen bytes.\n");
    shell_write("file", "");
    shell_ended(78, training_try(2, "plain.json --data a.txt --export file/x"),
                "cspeed.export: cannot write to file: ");
    ck_assert_int_ne(access("out/latest", F_OK), 0);
    shell_ended(0, training_try(2, "plain.json --data a.txt --export deep/er/"),
                "wrote deep/er/, a Hugging Face folder");
    ck_assert_int_eq(shell_run("test -f deep/er/model.safetensors -a $(ls -a deep | wc -l) = 3"), 0);
    shell_leave();
}
END_TEST

START_TEST(faults_are_named)
{
    static const struct {
        const char *arguments;
        int code;
        const char *words;
    } cases[] = {
        { "plain.json --data none.jsonl", 66, "none.jsonl: no such file" },
        { "plain.json --data empty", 66, "empty: no text, .jsonl or .txt (also .gz, .zst)" },
        { "plain.json --data bad.jsonl", 65, "bad.jsonl, line 2: " },
        { "plain.json --data a.csv", 65, "a.csv: not a token shard: it begins with no known magic number" },
        { "plain.json --data chats.jsonl", 65,
          "a conversation, but no chat template is set: --set cspeed.data.template=auto" },
        { "plain.json --set cspeed.data.train=null", 78, "train: no training data: give --data PATH" },
        { "plain.json --data chats.jsonl --set cspeed.data.template=auto", 78, "no chat_template" },
        { "plain.json --data a.txt --set cspeed.data.tokenizer=none", 66, "none" },
        { "plain.json --data a.txt --set cspeed.data.cache=bad.jsonl/tokens", 1, "cspeed.data.cache to another" },
        { "plain.json --data short.txt", 65, "too short" },
        { "plain.json --data a.txt --model pickled", 78, "is a checkpoint of DeepSpeed" },
        { "plain.json --data a.txt --model empty", 66, "there is no empty/config.json" },
        { "plain.json --data a.txt --model nowhere", 66,
          "cspeed.model: nowhere: no such folder; name a Hugging Face folder" },
        { "recipe.json --set cspeed.export_dtype=int8", 78, "one of auto|fp32|bf16|fp16" },
        { "recipe.json --model odd", 78, "not supported: the tag {% include %}" },
        { "recipe.json --model tight", 65, "tokens with its added ones, but vocab_size of the model is 400" },
    };
    enter();
    ck_assert_int_eq(mkdir("empty", 0777), 0);
    ck_assert_int_eq(mkdir("pickled", 0777), 0);
    shell_write("pickled/mp_rank_00_model_states.pt", "PK");
    ck_assert_int_eq(shell_run("cp -r model tight && sed -i s/448/400/ tight/config.json"), 0);
    ck_assert_int_eq(shell_run("cp -r model odd"), 0);
    shell_write("odd/chat_template.jinja", "{% include 'other' %}");
    shell_write("bad.jsonl", "{\"text\": \"good\"}\n{\"text\": 5}\n");
    shell_write("a.txt", "A text of its own, long enough for more than one window of sixteen bytes.\n");
    shell_write("short.txt", "short");
    shell_write("a.csv", "prompt,completion\na,b\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shell_ended(cases[i].code, training_try(2, cases[i].arguments), cases[i].words);
        /* the mistake is found before the products are measured and the model is read */
        char *out = shell_read("out.txt", NULL);
        ck_assert_msg(!strstr(out, "first values"), "%s", out);
        free(out);
    }
    shell_leave();
}
END_TEST

/* While one host makes the tokens, the message of another host of the same job says so. */
START_TEST(who_makes_the_tokens_is_named)
{
    static const char *const jobs[] = { "one", "other" }, *const who[] = { "host of this job", "run" };
    enter();
    shell_write("a.txt", "A text of its own, long enough for more than one window of sixteen bytes.\n");
    shell_ended(0, training_try(1, "plain.json --data a.txt"), "making tokens of a.txt");
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(
            shell_run("lock=$(ls out.tokens/*.lock) && rm -rf ${lock%%.lock} log && exec 9<>$lock && flock 9 && "
                      "printf one >$lock && { CSPEED_JOB_ID=%s '%s/train' --config plain.json --fresh "
                      "--data a.txt >log 2>&1 9>&- & } && until grep -qs makes log; do sleep 0.05; done; "
                      "exec 9>&-; wait; cat log; grep -q 'another %s makes these tokens' log",
                      jobs[i], CS_BIN, who[i]),
            0);
    shell_leave();
}
END_TEST

SUITE_MAIN("texts", a_folder_and_conversations_become_a_folder, tokens_are_those_of_pack, tokens_are_made_once,
           an_exported_model_of_bytes_reads_texts, tokens_of_older_texts_are_removed, runs_share_a_cache,
           texts_of_every_sort_are_read, names_may_have_any_character, other_data_is_reported, failures_leave_nothing,
           bad_lines_are_left_out_if_asked, export_is_checked_first, faults_are_named, who_makes_the_tokens_is_named)
