/* test_export.c - cspeed export: which checkpoint it exports; that it leaves a complete folder or none; that the memory
 * use of export and import does not grow with the model. */
#include "saved.h"
#include "shell.h"
#include "suite.h"

#include "base/must.h"
#include "interchange/huggingface.h"
#include "unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define SMALL                                                                                                          \
    "{\"model_type\": \"gpt2\", \"vocab_size\": 50, \"n_positions\": 8, \"n_embd\": 16, \"n_layer\": 2, \"n_head\": "  \
    "2}"
#define BYTES                                                                                                          \
    "{\"model_type\": \"gpt2\", \"vocab_size\": 256, \"n_positions\": 8, \"n_embd\": 16, \"n_layer\": 1, \"n_head\": " \
    "2}"
/* A model whose weights take 333 MB in fp32. */
#define LARGE                                                                                                          \
    "{\"model_type\": \"llama\", \"vocab_size\": 16000, \"hidden_size\": 1024, \"intermediate_size\": 4096, "          \
    "\"num_hidden_layers\": 3, \"num_attention_heads\": 16, \"tie_word_embeddings\": false}"

enum { LARGEST = 16000 * 1024, TENSORS = 32, LIMIT_KB = 100000 };

/* Saves a model's weights, whose elements are all `value`. All tensors share one buffer, which is as large as the
 * largest of them. */
static void save_model(const char *config_text, const char *dir, const char *tag, int64_t step, float value)
{
    ce_json *doc;
    cs_model *model;
    ce_model_facts facts = { 0 };
    CS_MUST(ce_json_parse(&doc, config_text, strlen(config_text), "config.json"));
    CS_MUST(ce_models_open(&model, &facts, doc, ce_json_root(doc), ""));
    json_t *provenance = json_pack("{sO}", "model", ce_json_root(doc));
    ce_piece pieces[TENSORS];
    int64_t count = 0;
    float *data = malloc(LARGEST * sizeof *data);
    for (int i = 0; i < LARGEST; i++)
        data[i] = value;
    for (int i = 0; i < model->count; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++) {
            const ce_unit_entry *entry = model->units[i]->entries[at];
            ce_piece *piece = &pieces[count++];
            *piece = (ce_piece){ .name = entry->full_name,
                                 .folder = "weights",
                                 .dtype = CS_F32,
                                 .dims = entry->param.value.dims,
                                 .range = { 0, entry->count },
                                 .data = data };
            memcpy(piece->shape, entry->param.value.shape, sizeof piece->shape);
        }
    ce_checkpoint_content content = {
        .tag = tag, .config_text = "{}", .step = step, .provenance = provenance, .pieces = pieces, .piece_count = count
    };
    cs_comm *comm = saved_world();
    CS_MUST(ce_checkpoint_save(comm, dir, &content));
    cs_comm_close(comm);
    json_decref(provenance);
    cs_model_free(model);
    ce_json_close(doc);
    free(data);
}

/* Checks that all elements of the folder's first and last tensors are `value`. */
static void holds(const char *folder, float value)
{
    ce_source source;
    float got[16];
    CS_MUST(ce_huggingface_open(&source, folder));
    for (int64_t i = 0; i < source.count; i += source.count - 1) {
        CS_MUST(source.read(&source, i, (ce_range){ 0, 16 }, got, CS_F32));
        for (int at = 0; at < 16; at++)
            ck_assert_msg(got[at] == value, "%s has %g, not %g", folder, (double)got[at], (double)value);
    }
    ce_source_close(&source);
}

/* Without a tag export takes the checkpoint that `latest` names, or else, with a warning, the newest complete one. */
START_TEST(the_newest_whole_one_is_taken)
{
    shell_enter();
    save_model(SMALL, "runs", "a", 1, 1);
    save_model(SMALL, "runs", "b", 2, 2);
    save_model(SMALL, "runs", "c", 3, 3);
    shell_expect(0, "28 tensors", "export runs by-latest");
    holds("by-latest", 3);
    ck_assert_int_eq(shell_run("printf a > runs/latest"), 0);
    shell_expect(0, "28 tensors", "export runs by-older");
    holds("by-older", 1);
    shell_expect(0, "28 tensors", "export runs by-tag --tag b");
    holds("by-tag", 2);
    shell_expect(0, "28 tensors", "export runs/c by-folder");
    holds("by-folder", 3);

    ck_assert_int_eq(shell_run("rm runs/latest"), 0);
    shell_expect(0, "using runs/c instead, the newest complete checkpoint (step 3)", "export runs no-latest");
    holds("no-latest", 3);
    ck_assert_int_eq(shell_run("printf c > runs/latest && rm runs/c/manifest.json"), 0);
    shell_expect(0, "using runs/b instead, the newest complete checkpoint (step 2)", "export runs broken");
    holds("broken", 2);
    ck_assert_int_eq(shell_run("truncate -s -1 runs/b/weights/shard-00001-of-00001.safetensors"), 0);
    shell_expect(0, "using runs/a instead", "export runs cut");
    holds("cut", 1);
    shell_expect(65, "runs/c has no manifest.json", "export runs named --tag c");
    shell_expect(65, "the file was truncated or extended", "export runs named --tag b");
    shell_expect(66, "runs has no checkpoint \"d\"; it holds a", "export runs named --tag d");
    ck_assert_int_eq(shell_run("rm -r runs/a"), 0);
    shell_expect(65, "runs/c has no manifest.json", "export runs named");
    ck_assert_int_eq(shell_run("rm runs/latest"), 0);
    shell_expect(65, "contains no complete checkpoint: ", "export runs named");
    shell_expect(66, "nowhere", "export nowhere named");
    ck_assert_int_ne(shell_run("ls -d named*"), 0);
    shell_leave();
}
END_TEST

/* An existing folder is never changed; a folder that cannot be completed is removed. */
START_TEST(a_whole_folder_or_none)
{
    shell_enter();
    save_model(SMALL, "runs", "a", 1, 1);
    shell_write("file", "mine");
    ck_assert_int_eq(shell_run("mkdir full && cp file full"), 0);
    shell_expect(64, "file exists already:", "export runs file");
    shell_expect(64, "full exists already:", "export runs full");
    ck_assert_int_eq(shell_run("cmp file full/file && ls full | wc -l | grep -qx 1"), 0);
    ck_assert_int_eq(shell_run("ulimit -f 8; trap '' XFSZ; %s/cspeed export runs out 2> why", CS_BIN), 1);
    ck_assert_int_eq(shell_run("grep 'model.safetensors.*File too large' why"), 0);
    ck_assert_int_ne(shell_run("ls -d out out.cspeed*"), 0);
    ck_assert_int_eq(shell_run("cd runs/a/weights && printf damage | dd of=shard-00001-of-00001.safetensors bs=1 "
                               "seek=$(($(stat -c %%s shard-00001-of-00001.safetensors) - 9)) conv=notrunc"),
                     0);
    shell_expect(65, ": the file is damaged\n", "export runs out");
    ck_assert_int_ne(shell_run("ls -d out out.cspeed*"), 0);
    /* The two newest checkpoints are damaged in their data, not in their headers. */
    save_model(SMALL, "runs", "b", 2, 2);
    save_model(SMALL, "runs", "c", 3, 3);
    save_model(SMALL, "runs", "d", 4, 4);
    ck_assert_int_eq(shell_run(
                         "for tag in c d; do printf damage | dd of=runs/$tag/weights/shard-00001-of-00001.safetensors"
                         " bs=1 seek=$(($(stat -c %%s runs/b/weights/shard-00001-of-00001.safetensors) - 9)) "
                         "conv=notrunc || exit 1; done"),
                     0);
    shell_expect(65, "The newest complete checkpoint is b: `cspeed export runs out --tag b`", "export runs out");
    ck_assert_int_ne(shell_run("ls -d out out.cspeed*"), 0);
    shell_expect(65, "the file is damaged\n", "export runs out --tag d");
    shell_expect(65, "the file is damaged\n", "export runs/d out");
    /* What a killed process has left is removed, but not what a living one writes. */
    ck_assert_int_eq(shell_run("mkdir out.cspeed-tmp && touch out.cspeed-tmp/junk"), 0);
    int writer = open("out.cspeed-tmp", O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(flock(writer, LOCK_EX), 0);
    shell_expect(1, "another process writes out", "export runs out --tag b");
    ck_assert_int_eq(shell_run("test -e out.cspeed-tmp/junk"), 0);
    close(writer);
    shell_expect(0, "28 tensors", "export runs out --tag b");
    ck_assert_int_ne(shell_run("ls -d out.cspeed* out/junk"), 0);
    holds("out", 2);
    shell_leave();
}
END_TEST

START_TEST(a_missing_tokenizer_is_reported)
{
    shell_enter();
    save_model(SMALL, "runs", "a", 1, 1);
    save_model(BYTES, "runs", "b", 2, 2);
    shell_expect(0, "small has no tokenizer: the files of the model's tokenizer are unknown;",
                 "export runs small --tag a");
    shell_expect(0, "bytes has no tokenizer: the tokens of this model are bytes", "export runs bytes --tag b");
    shell_expect(0, "again has no tokenizer: the tokens of this model are bytes", "import bytes again");
    shell_leave();
}
END_TEST

/* Exports and imports models several times as large as the memory limit. Skipped if not even a small model can be
 * exported under the limit, for example because a sanitizer needs memory itself. */
START_TEST(memory_stays_flat)
{
    shell_enter();
    save_model(SMALL, "runs", "a", 1, 1);
    if (shell_run("ulimit -v %d; %s/cspeed export runs small", LIMIT_KB, CS_BIN) != 0) {
        printf("skipped: flat memory (no program starts with %d KB here)\n", LIMIT_KB);
    } else {
        save_model(LARGE, "large", "a", 1, 2);
        ck_assert_int_eq(shell_run("ulimit -v %d; %s/cspeed export large out --dtype bf16", LIMIT_KB, CS_BIN), 0);
        holds("out", 2);
        ck_assert_int_eq(shell_run("rm -r large; ulimit -v %d; %s/cspeed import out again --max_shard 100MB", LIMIT_KB,
                                   CS_BIN),
                         0);
        holds("again", 2);
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("export", the_newest_whole_one_is_taken, a_whole_folder_or_none, a_missing_tokenizer_is_reported,
           memory_stays_flat)
