/* test_help.c - `cspeed help PAGE`: how Markdown is printed, and that the pages agree with the code that they
 * describe. */
#include "ground/codes.h"
#include "ground/command.h"
#include "command/pages.h"
#include "shell.h"
#include "show/markdown.h"
#include "suite.h"

#include "json/json.h"
#include "config/listing.h"
#include "config/words.h"
#include "ground/options.h"

#include <signal.h>
#include <stdio.h>

/* ---- Markdown as text ---- */

static void must_become(const char *markdown, int columns, bool styled, const char *wanted)
{
    char *text = NULL;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    cl_markdown_print(&(cl_markdown){ .file = file, .columns = columns, .styled = styled }, markdown);
    fclose(file);
    ck_assert_str_eq(text, wanted);
    free(text);
}

START_TEST(blocks_are_laid_out)
{
    must_become("# A *page*\n<!-- a\ncomment -->\n\n\nOne **bold word**\nand `two  spaces`.\n\n## Part\n", 20, false,
                "# A *page*\n\nOne **bold word**\nand `two spaces`.\n\n## Part\n");
    must_become("- one item of two\n  lines\n- another\n10. a number is\n    wide\n", 14, false,
                "- one item of\n  two lines\n- another\n10. a number\n    is wide\n");
    must_become("Text\n\n```console\n$ a command that is longer than the line\nout  put\n```\nText\n", 20, false,
                "Text\n\n    $ a command that is longer than the line\n    out  put\nText\n");
    must_become("Text\n\n![a picture](a.svg)\n\n<!-- a comment -->\nMore\n", 20, false, "Text\n\nMore\n");
    must_become("# Head\n\nA b.\n\n```console\n$ ls\nx\n```\n", 20, true,
                "\033[1m# Head\n\033[0m\nA b.\n\n    \033[1m$ ls\033[0m\n    x\n");
}
END_TEST

START_TEST(rows_of_tables_become_records)
{
    must_become("| key | meaning |\n|---|--:|\n| `a\\|b` | one two three |\n| c | |\nText\n", 20, false,
                "`a\\|b`\n    meaning: one two\n        three\nc\nText\n");
    must_become("| | x | |\n|---|---|---|\n| a | b | c |\n", 20, true, "\033[1ma\n\033[0m    x: b\n    c\n");
}
END_TEST

START_TEST(wide_characters_take_two_columns)
{
    must_become("# 页\n\n第一个小时，从零开始训练一个模型\n吧 `ls` 了。\n", 20, false,
                "# 页\n\n第一个小时，从零开始\n训练一个模型吧 `ls`\n了。\n");
}
END_TEST

/* ---- the pages ---- */

static const char *page_of(const char *name)
{
    for (const cl_page *page = cl_pages; page->name; page++)
        if (strcmp(page->name, name) == 0)
            return page->text;
    ck_abort_msg("no page %s", name);
}

/* A line that is indented by four spaces is code or an item of a nested list, and may be wider; so may a single word. */
START_TEST(every_page_fits_into_80_columns)
{
    shell_enter();
    for (const cl_page *page = cl_pages; page->name; page++) {
        int column = 0, indent = 0, words = 0;
        ck_assert_int_eq(shell_run("TERM=xterm " CS_BIN "/cspeed help %s", page->name), 0);
        char *text = shell_read("out.txt", NULL);
        ck_assert_msg(*text && !strchr(text, '\033') && !strstr(text, "\n|"), "%s", page->name);
        for (const char *c = text; *c; c++) {
            words = *c == '\n' ? 0 : words + (*c != ' ' && (column == 0 || c[-1] == ' '));
            indent = *c == '\n' ? 0 : indent + (*c == ' ' && indent == column);
            column = *c == '\n' ? 0 : column + ((*c & 0xC0) != 0x80);
            ck_assert_msg(column <= 80 || indent >= 4 || words == 1, "%s: %.80s", page->name, c - 79);
        }
        free(text);
        ck_assert_int_eq(shell_run(CS_BIN "/cspeed help | grep -qw -- %s", page->name), 0);
    }
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed --color always help memory | grep -q \"$(printf '\\033')\""), 0);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed help troubleshoting 2>&1 | grep -q 'nearest is troubleshooting'"), 0);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed help xyzzy 2>&1 | grep -q 'metrics, models-and-data,'"), 0);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed help xyzzy"), 64);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed help memory gpu"), 64);
    shell_leave();
}
END_TEST

static void must_fit(const char *command)
{
    ck_assert_int_eq(shell_run("COLUMNS=200 " CS_BIN "/%s", command), 0);
    char *text = shell_read("out.txt", NULL), *rest = text;
    ck_assert_msg(*text, "%s prints nothing", command);
    for (char *line; (line = strsep(&rest, "\n"));)
        ck_assert_msg(strlen(line) <= 80, "%s: a line of %zu columns: %s", command, strlen(line), line);
    free(text);
}

/* The help of every command and program is ASCII, so each byte is one column. */
START_TEST(every_help_fits_into_80_columns)
{
    static const char *const others[] = { "cspeed --help",   "cspeed help flags", "train --help",
                                          "generate --help", "eval --help",       "pack --help",
                                          "bench --help",    "ddp_toy --help",    "train_npy --help" };
    char command[80];
    shell_enter();
    for (const cl_command *const *each = cl_commands; *each; each++) {
        snprintf(command, sizeof command, "cspeed help %s", (*each)->name);
        must_fit(command);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        must_fit(others[i]);
    shell_leave();
}
END_TEST

/* A command prints its help wherever --help stands among its arguments, unless the arguments may be those of another
 * program. */
START_TEST(every_command_has_help_behind_its_arguments)
{
    shell_enter();
    for (const cl_command *const *each = cl_commands; *each; each++) {
        const cl_command *command = *each;
        const char *first = command->hands_on ? "" : "word --flag";
        ck_assert_int_eq(shell_run(CS_BIN "/cspeed %s %s --help", command->name, first), 0);
        char *text = shell_read("out.txt", NULL);
        ck_assert_msg(strncmp(text, "usage: cspeed ", 14) == 0, "%s %s --help: %.200s", command->name, first, text);
        free(text);
    }
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed --quiet --no_prefix run /bin/echo --help"), 0);
    char *text = shell_read("out.txt", NULL);
    ck_assert_msg(strstr(text, "usage: cspeed") == NULL, "%.200s", text);
    free(text);
    shell_leave();
}
END_TEST

START_TEST(the_page_of_keys_is_what_the_table_says)
{
    shell_enter();
    ck_assert_int_eq(shell_run(CS_BIN "/train --config_help"), 0);
    char *text = shell_read("out.txt", NULL);
    ck_assert_msg(strcmp(text, page_of("keys")) == 0, "docs/keys.md is old: train --config_help > docs/keys.md");
    free(text);
    shell_leave();
}
END_TEST

START_TEST(the_page_of_words_is_what_the_table_says)
{
    shell_enter();
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed config --words"), 0);
    char *text = shell_read("out.txt", NULL);
    ck_assert_msg(strcmp(text, page_of("from-trainer")) == 0,
                  "docs/from-trainer.md is old: cspeed config --words > docs/from-trainer.md");
    free(text);
    shell_leave();
}
END_TEST

/* The picture of curves is what cspeed plot draws. */
START_TEST(the_picture_of_curves_is_what_plot_draws)
{
    shell_enter();
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed plot " CS_SOURCE
                                      "/tests/docs/curves.jsonl --what loss,lr --svg curves.svg"),
                     0);
    ck_assert_msg(shell_run("cmp curves.svg " CS_SOURCE "/docs/curves.svg") == 0,
                  "docs/curves.svg is old: cspeed plot tests/docs/curves.jsonl --what loss,lr --svg docs/curves.svg");
    shell_leave();
}
END_TEST

/* commit.cmake writes the commit and date of a git repository, and an empty text for other sources. */
START_TEST(the_build_knows_its_commit)
{
    shell_enter();
    ck_assert_int_eq(shell_run("mkdir r && cmake -DOUT=$PWD/c.c -DSOURCES=$PWD/r -P " CS_SOURCE
                               "/launcher/command/commit.cmake && grep -q '= \"\";' c.c"),
                     0);
    ck_assert_int_eq(shell_run(
                         "! command -v git || { git init -q r && git -C r -c user.name=a -c user.email=a@b commit -q "
                         "--allow-empty -m a && cmake -DOUT=$PWD/c.c -DSOURCES=$PWD/r -P " CS_SOURCE
                         "/launcher/command/commit.cmake && grep -qE '[0-9a-f]{12} of [0-9-]{10}\";' c.c; }"),
                     0);
    shell_leave();
}
END_TEST

static void ignore_row(void *to, const char *heading, const ce_key *key)
{
    (void)to;
    (void)heading;
    ck_assert_msg(key->type != CE_KEY_REFUSED, "%s is refused", key->name);
}

static void must_exist(const char *key, const char *options_of_train)
{
    char row[80];
    snprintf(row, sizeof row, "  %s", key);
    ck_assert_msg(*key != '-'                                          ? ce_listing_explain(key, ignore_row, NULL) > 0
                  : cs_options_find(cl_flags, cl_flags_count, key + 2) ? true
                                                                       : strstr(options_of_train, row) != NULL,
                  "no key or flag is at %s", key);
}

/* Each answer of the table is a key that has an effect or a flag, and no word has two answers. */
START_TEST(words_of_other_trainers_have_true_answers)
{
    char name[CS_OPTION_BYTES];
    int count = 0;
    shell_enter();
    ck_assert_int_eq(shell_run(CS_BIN "/train --help"), 0);
    char *options = shell_read("out.txt", NULL);
    for (int i = 0; i < ce_words_count; i++) {
        const ce_word *word = &ce_words[i];
        for (const char *place = word->key; cs_options_name(&place, name);)
            must_exist(name, options);
        for (const char *of = word->of; *of; of++)
            ck_assert_ptr_nonnull(ce_words_owner(*of));
        for (const char *place = word->names; cs_options_name(&place, name); count++)
            ck_assert_msg(ce_words_find(name, word->kind == CE_WORD_COMMAND) == word, "%s has two rows", name);
    }
    ck_assert_int_ge(count, 300);
    free(options);
    shell_leave();
}
END_TEST

START_TEST(troubleshooting_has_every_exit_code)
{
    static const int ours[] = { CL_CODE_USAGE,    CL_CODE_FILE,    CL_CODE_NO_FILE, CL_CODE_HOST,
                                CL_CODE_SLOTS,    CL_CODE_SYSTEM,  CL_CODE_LOG,     CL_CODE_PEER,
                                CL_CODE_DISAGREE, CL_CODE_TIMEOUT, CL_CODE_STALLED, CL_CODE_NOT_EXECUTABLE,
                                CL_CODE_NOT_FOUND };
    bool wanted[256] = { false };
    for (int code = 0; code < 256; code++)
        wanted[code] = *cl_codes_meaning(code) != 0;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        wanted[ours[i]] = true;
    for (int code = 0; code < 256; code++) {
        char row[16];
        snprintf(row, sizeof row, "\n| %d |", code);
        ck_assert_msg(!wanted[code] || strstr(page_of("troubleshooting"), row), "exit code %d is not in the page",
                      code);
    }
}
END_TEST

/* The Job of configs/kubernetes.yaml fails after the codes that no restart helps, except CL_CODE_SLOTS: a replaced pod may
 * find the port or the output folder of its predecessor in use. It ignores the codes by which a pod ends with the job. */
START_TEST(kubernetes_knows_the_exit_codes)
{
    char *file = shell_read(CS_SOURCE "/configs/kubernetes.yaml", NULL), code[8], *fails, *ignored;
    ck_assert_ptr_nonnull(fails = strstr(file, "values: ["));
    ck_assert_ptr_nonnull(ignored = strstr(fails + 1, "values: ["));
    *strchr(fails, ']') = *strchr(ignored, ']') = '\0';
    for (int i = 1; i < 256; i++) {
        snprintf(code, sizeof code, "%d", i);
        ck_assert_msg((strstr(fails, code) != NULL) == (cl_codes_explained(i) && i != CL_CODE_SLOTS) || i < 10,
                      "exit code %d", i);
    }
    snprintf(code, sizeof code, "%d", CL_CODE_PEER);
    ck_assert_ptr_nonnull(strstr(ignored, code));
    snprintf(code, sizeof code, "%d", CL_CODE_SIGNAL + SIGTERM);
    ck_assert_ptr_nonnull(strstr(ignored, code));
    free(file);
}
END_TEST

START_TEST(metrics_has_every_key)
{
    const char *name;
    json_t *value;
    int count = 0;
    shell_enter();
    shell_write("text.txt", "To be, or not to be, that is the question.\n");
    shell_write("a.json",
                "{\"train_batch_size\": 1, \"cspeed\": {\"steps\": 1, \"output\": \"run\", \"data\": "
                "{\"train\": \"text.txt\", \"valid\": \"text.txt\", \"seq_len\": 8}, \"model\": {\"model_type\": "
                "\"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 8, \"n_positions\": 8, "
                "\"vocab_size\": 256}}}");
    ck_assert_int_eq(shell_run(CS_BIN "/train --config a.json"), 0);
    json_t *line = json_load_file("run/metrics.jsonl", 0, NULL);
    ck_assert_ptr_nonnull(line);
    json_object_foreach (line, name, value) {
        char row[64];
        snprintf(row, sizeof row, "\n| `%s` |", name);
        ck_assert_msg(strstr(page_of("metrics"), row) != NULL, "%s is not in the page", name);
        count++;
    }
    ck_assert_int_ge(count, 13);
    json_decref(line);
    shell_leave();
}
END_TEST

SUITE_MAIN("help", blocks_are_laid_out, rows_of_tables_become_records, wide_characters_take_two_columns,
           every_page_fits_into_80_columns, every_help_fits_into_80_columns,
           every_command_has_help_behind_its_arguments, the_build_knows_its_commit,
           the_page_of_keys_is_what_the_table_says, the_page_of_words_is_what_the_table_says,
           the_picture_of_curves_is_what_plot_draws, words_of_other_trainers_have_true_answers,
           troubleshooting_has_every_exit_code, kubernetes_knows_the_exit_codes, metrics_has_every_key)
