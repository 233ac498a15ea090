/* test_formats.c - texts in the formats in which they are published give the same tokens as plain JSON lines: in pack,
 * in training, in a weighted mixture, and as prompts. */
#include "data/tokens.h"
#include "shell.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PACK "'" CS_BIN "/pack'"
#define TABLES CS_TESTS "/golden/tables/"

static const char *const config =
    "{ \"train_batch_size\": 2,\n"
    "  \"cspeed\": { \"steps\": 2, \"output\": \"out\", \"data\": { \"seq_len\": 16 },\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 16,\n"
    "               \"n_positions\": 16, \"vocab_size\": 256 } } }\n";

/* The same conversations in the formats of several projects, and the tokens that the template "plain" gives. */
static const char openai[] =
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Add.\\n1 2\"}, {\"role\": \"assistant\", \"content\": \"3\"}]}\n"
    "{\"messages\": [{\"role\": \"user\", \"content\": \"Say hello.\"}, {\"role\": \"assistant\", \"content\": \"Hi\"}]}\n";
static const char sharegpt[] =
    "{\"conversations\": [{\"from\": \"human\", \"value\": \"Add.\\n1 2\"}, {\"from\": \"gpt\", \"value\": \"3\"}]}\n"
    "{\"conversations\": [{\"from\": \"human\", \"value\": \"Say hello.\"}, {\"from\": \"gpt\", \"value\": \"Hi\"}]}\n";
static const char alpaca[] = "[\n  {\n    \"instruction\": \"Add.\", \"input\": \"1 2\",\n    \"output\": \"3\"\n  },\n"
                             "  {\"instruction\": \"Say hello.\", \"input\": \"\", \"output\": \"Hi\"}\n]\n";
static const char pairs[] = "{\"q\": \"Add.\\n1 2\", \"a\": \"3\"}\n{\"q\": \"Say hello.\", \"a\": \"Hi\"}\n";

static bool has_tables(void)
{
    return access(CS_BIN "/libcspeed_arrow.so", F_OK) == 0;
}

/* Returns the tokens of a shard as text, one character each. A '.' follows each token that is not a target, and a '|'
 * begins each document. The caller frees it. */
static char *show_tokens(const char *path)
{
    ce_tokens tokens;
    char *text, *at;
    ck_assert_msg(ce_tokens_open(&tokens, path) == CS_OK, "%s", cs_error());
    text = at = calloc(1, (size_t)(3 * tokens.count + tokens.documents) + 1);
    ck_assert_ptr_nonnull(text);
    for (int64_t i = 0, document = 0; i < tokens.count; i++) {
        for (; document < tokens.documents && tokens.starts[document] == (uint64_t)i; document++)
            *at++ = '|';
        *at++ = (char)ce_tokens_at(&tokens, i);
        if (!ce_tokens_is_learnt(&tokens, i))
            *at++ = '.';
    }
    ce_tokens_close(&tokens);
    return text;
}

static void expect_tokens(const char *arguments, const char *expected)
{
    ck_assert_msg(shell_run(PACK " --valid 0 --output packed %s", arguments) == 0, "%s", shell_read("out.txt", NULL));
    char *shown = show_tokens("packed/train-00000.bin");
    ck_assert_str_eq(shown, expected);
    free(shown);
}

START_TEST(every_shape_gives_the_same_tokens)
{
    static const struct {
        const char *name, *text;
    } files[] = {
        { "openai.jsonl", openai }, { "sharegpt.jsonl", sharegpt }, { "alpaca.json", alpaca }, { "pairs.jsonl", pairs }
    };
    shell_enter();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        shell_write(files[i].name, files[i].text);
        ck_assert_int_eq(shell_run(PACK " --template plain --column prompt=q --column completion=a --valid 0 --output "
                                        "out%zu %s",
                                   i, files[i].name),
                         0);
        ck_assert_msg(shell_run("cmp out0/train-00000.bin out%zu/train-00000.bin", i) == 0, "%s", files[i].name);
    }
    char *shown = show_tokens("out0/train-00000.bin");
    ck_assert_msg(strstr(shown, "|U.s.e.r.:. .S.a.y. .h.e.l.l.o...\n.\n.A.s.s.i.s.t.a.n.t.:. Hi\n\n"), "%s", shown);
    free(shown);
    shell_leave();
}
END_TEST

/* If a prompt and a completion are lists of messages, only the answers in the completion are targets. */
START_TEST(columns_of_tables_are_counted)
{
    shell_enter();
    if (has_tables()) {
        shell_ended(
            0, shell_run(PACK " --valid 0 --output packed --template plain --field body " TABLES "rows.parquet"),
            "columns not read: \"kind\" (4 rows), \"score\" (4 rows), \"body\" (2 rows), \"input_ids\" (4 rows); "
            "read: \"messages\" (3 rows), \"body\" (1 row)");
    }
    shell_leave();
}
END_TEST

START_TEST(answers_of_a_prompt_are_not_learnt)
{
    shell_enter();
    shell_write("a.jsonl",
                "\xef\xbb\xbf{\"prompt\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
                "\"content\": \"b\"}, {\"role\": \"user\", \"content\": \"c\"}], \"completion\": "
                "[{\"role\": \"assistant\", \"content\": \"d\"}]}");
    expect_tokens("--template plain a.jsonl",
                  "|U.s.e.r.:. .a.\n.\n.A.s.s.i.s.t.a.n.t.:. .b.\n.\n.U.s.e.r.:. .c.\n.\n.A.s.s.i.s.t.a.n.t.:. d\n\n");
    shell_leave();
}
END_TEST

START_TEST(pairs_texts_and_tokens_need_no_template)
{
    shell_enter();
    shell_write("a.jsonl", "{\"prompt\": \"ab\", \"completion\": \"cd\"}\n{\"text\": \"ef\"}\n"
                           "{\"input_ids\": [103, 104, 105, 0], \"labels\": [-100, 104, -100, 0], "
                           "\"attention_mask\": [1, 1, 1, 0]}\n");
    expect_tokens("a.jsonl", "|a.b.cd|ef|g.hi.");
    shell_write("b.jsonl", "{\"text\": \"ef\"}\n{\"input_ids\": [1, 256]}\n");
    shell_ended(65, shell_run(PACK " --valid 0 --output packed b.jsonl"),
                "b.jsonl, line 2: \"input_ids\" has the token 256, but the tokenizer has only 256");
    shell_write("b.jsonl", "{\"input_ids\": [1, 2, 3], \"labels\": [2, 3, -100]}\n");
    shell_ended(65, shell_run(PACK " --valid 0 --output packed b.jsonl"),
                "b.jsonl, line 1: \"labels\" has 2 at 0, where \"input_ids\" has 1");
    shell_write("c.json", "[{\"text\": \"ef\"},\n\n {\"texts\": 1}]");
    shell_ended(65, shell_run(PACK " --valid 0 --output packed c.json"), "c.json, line 3: there is no key \"text\"");
    shell_write("c.json", "[{\"text\": \"ef\"},\n {\"text\": \"]\\\"}, {\"}");
    shell_ended(65, shell_run(PACK " --valid 0 --output packed c.json"), "c.json: truncated: it is a list");
    shell_write("c.json", "[{\"text\": \"ef\"}] {}");
    shell_ended(65, shell_run(PACK " --valid 0 --output packed c.json"), "c.json: there is more text after the list");
    shell_write("c.json", " [ {\"text\": \"]\\\"}, {\\\\\"} , {\"text\": \"x\"}]\n");
    expect_tokens("c.json", "|]\"}, {\\|x");
    shell_ended(64, shell_run(PACK " --column prompt c.json"), "--column: KEY=NAME is needed");
    shell_ended(64, shell_run(PACK " --column text=body c.json"), "\"field\" names the column of a text");
    shell_leave();
}
END_TEST

START_TEST(compressed_texts_are_read)
{
    shell_enter();
    shell_write("a.txt", "some text, long enough for a window or two of sixteen bytes each, and then some\n%\nmore\n");
    shell_write("b.jsonl", openai);
    ck_assert_int_eq(shell_run(PACK " --valid 0 --separator %% --template plain --output plain a.txt b.jsonl"), 65);
    ck_assert_int_eq(shell_run(PACK " --valid 0 --separator %% --output plain a.txt"), 0);
    ck_assert_int_eq(shell_run("gzip -k a.txt b.jsonl && " PACK " --valid 0 --separator %% --output packed a.txt.gz"),
                     0);
    ck_assert_int_eq(shell_run("diff -r -x '*.places' plain packed"), 0);
    ck_assert_int_eq(shell_run("head -c 60 b.jsonl.gz > cut.jsonl.gz"), 0);
    shell_ended(65, shell_run(PACK " --template plain --output none cut.jsonl.gz"),
                "cut.jsonl.gz: truncated: it ends at byte 60, in the middle of its compressed text");
    ck_assert_int_ne(access("none", F_OK), 0);
    shell_leave();
}
END_TEST

/* A mixture of a compressed text, a list in Alpaca's format, a folder with pairs, and a Parquet file. If the module for
 * tables is not built, a folder of shards takes the place of the Parquet file. */
START_TEST(a_mixture_may_have_every_shape)
{
    shell_enter();
    shell_write("config.json", config);
    shell_write("a.txt", "some text, long enough for a window or two of sixteen bytes each, and then some\n");
    shell_write("alpaca.json", alpaca);
    ck_assert_int_eq(mkdir("folder", 0777), 0);
    shell_write("folder/pairs.jsonl", pairs);
    ck_assert_int_eq(shell_run("gzip a.txt folder/pairs.jsonl && " PACK " --valid 0 --output shards a.txt.gz"), 0);
    shell_ended(0,
                shell_run("'%s/cspeed' --num_gpus 2 --oversubscribe train --config config.json "
                          "--set 'cspeed.data.train=[\"a.txt.gz\", \"alpaca.json\", \"folder\", \"%s\"]' --set "
                          "'cspeed.data.weights=[1, 2, 3, 1]' --set cspeed.data.template=plain "
                          "--set 'cspeed.data.columns={\"prompt\": \"q\", \"completion\": \"a\"}' "
                          "--set cspeed.data.field=body",
                          CS_BIN, has_tables() ? TABLES "rows.parquet" : "shards"),
                "making tokens of folder");
    ck_assert_int_eq(shell_run("grep -rlx 'prompt in the column q' out.tokens/*/made_from.txt | grep -q ."), 0);
    shell_ended(0, shell_run("'%s/cspeed' eval out --data folder", CS_BIN), "loss");
    ck_assert_int_eq(shell_run("echo '{\"prompt\": \"some\", \"id\": 7}' | gzip > prompts.jsonl.gz"), 0);
    shell_ended(0, shell_run("'%s/generate' out --prompts prompts.jsonl.gz --max_tokens 2", CS_BIN),
                "\"id\":7,\"text\":");
    ck_assert_int_eq(shell_run("gzip -dk folder/pairs.jsonl.gz"), 0);
    shell_ended(65, shell_run(PACK " folder"), "folder/pairs.jsonl.gz: the same text as folder/pairs.jsonl");
    shell_write("masked.jsonl", "{\"input_ids\": [5, 6, 7, 8], \"completion_mask\": [0, 0, 1, 1], "
                                "\"assistant_masks\": [1, 1, 0, 1]}\n");
    shell_ended(0, shell_run(PACK " --valid 0 --output masked masked.jsonl"), "1 of these 4 tokens are answers");
    /* names that differ only in the suffix of compression mean the same text; contents are not compared */
    ck_assert_int_eq(shell_run("mv folder/pairs.jsonl folder/pairs.jsonl.zst"), 0);
    shell_ended(65, shell_run(PACK " folder"), "folder/pairs.jsonl.gz: the same text as folder/pairs.jsonl.zst");
    shell_ended(
        78,
        shell_run("'%s/cspeed' train --config config.json --data folder --set 'cspeed.data.columns={\"text\": 1}'",
                  CS_BIN),
        "the column of \"text\" is a name in double quotes");
    shell_leave();
}
END_TEST

/* A folder that the library `datasets` has saved: state.json lists the data files, and other files of the folder are
 * not data. */
START_TEST(saved_folders_are_read)
{
    shell_enter();
    ck_assert_int_eq(mkdir("saved", 0777), 0);
    ck_assert_int_eq(mkdir("saved/train", 0777), 0);
    shell_write("saved/dataset_dict.json", "{\"splits\": [\"train\", \"test\"]}");
    shell_write("saved/train/state.json", "{\"_data_files\": [{\"filename\": \"data-00000-of-00001.arrow\"}]}");
    shell_write("saved/train/dataset_info.json", "{}");
    shell_write("saved/train/cache-1.arrow", "an index that map() left");
    shell_ended(65, shell_run(PACK " saved"),
                "saved: a data set with several splits; give the path of one of them: saved/train, saved/test");
    shell_ended(66, shell_run(PACK " saved/train"),
                "saved/train/data-00000-of-00001.arrow: no such file; state.json lists it");
    ck_assert_int_eq(shell_run("cp '" TABLES "stream.arrow' saved/train/data-00000-of-00001.arrow"), 0);
    if (has_tables()) {
        ck_assert_int_eq(shell_run(PACK " --valid 0 --field body --output packed saved/train"), 0);
        expect_tokens("saved/train", "|\001\002\003||\377|\004\005");
    } else {
        shell_ended(78, shell_run(PACK " saved/train"), "because libcspeed_arrow.so cannot be opened");
    }
    shell_write("saved/train/state.json", "{\"_data_files\": [{\"filename\": \"data-00000-of-00001.arrow\"}], "
                                          "\"_indices_data_files\": [{\"filename\": \"indices.arrow\"}]}");
    shell_ended(78, shell_run(PACK " saved/train"), "saved/train/state.json: \"_indices_data_files\"");
    shell_write("saved/train/state.json", "{}");
    shell_ended(65, shell_run(PACK " saved/train"), "saved/train/state.json: it lists no \"_data_files\"");

    ck_assert_int_eq(mkdir("hub", 0777), 0);
    ck_assert_int_eq(shell_run("touch hub/train-00000-of-00001.parquet hub/test-00000-of-00001.parquet"), 0);
    shell_ended(65, shell_run(PACK " hub"), "hub: it has files of several splits, ");
    shell_leave();
}
END_TEST

/* A folder is refused if its files belong to several splits. The name of a file tells the split of the file: either the
 * name has the form used on the Hub, with or without a hash, or the name without its suffix is the split's name. */
START_TEST(a_folder_with_several_splits_is_refused)
{
    static const struct {
        const char *files, *words; /* NULL: the folder is read */
    } folders[] = {
        { "test_sft-00000-of-00001-f7df.jsonl train_sft-00000-of-00001-a3ec.jsonl", "those of one with f/test_sft-*" },
        { "my-test-00000-of-00001.jsonl my-train-00000-of-00001.jsonl", "those of one with f/my-test-*" },
        { "test.jsonl train.jsonl", "those of one with f/test.*" },
        { "train-00000-of-00002-a.jsonl train-00001-of-00002-b.jsonl train.txt", NULL },
        { "training.jsonl test-of-strength.jsonl valid.jsonl", NULL },
    };
    shell_enter();
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        ck_assert_int_eq(shell_run("rm -rf f && mkdir f && cd f && echo '{\"text\": \"a\"}' | tee %s",
                                   folders[i].files),
                         0);
        shell_ended(folders[i].words ? 65 : 0, shell_run(PACK " --valid 0 f"),
                    folders[i].words ? folders[i].words : "packed");
    }
    shell_leave();
}
END_TEST

/* The program tries several places to find the module. If the module file beside the program cannot be opened, the
 * message gives the error for this file, not the error for a place that was tried later. */
START_TEST(a_module_that_does_not_open_says_why)
{
    shell_enter();
    shell_write("libcspeed_arrow.so", "no library");
    ck_assert_int_eq(shell_run("cp " PACK " '" TABLES "rows.parquet' ."), 0);
    shell_ended(78, shell_run("unset CSPEED_ARROW_MODULE; ./pack rows.parquet"), "libcspeed_arrow.so: file too short");
    shell_leave();
}
END_TEST

SUITE_MAIN("formats", every_shape_gives_the_same_tokens, columns_of_tables_are_counted,
           answers_of_a_prompt_are_not_learnt, pairs_texts_and_tokens_need_no_template, compressed_texts_are_read,
           a_mixture_may_have_every_shape, saved_folders_are_read, a_folder_with_several_splits_is_refused,
           a_module_that_does_not_open_says_why)
