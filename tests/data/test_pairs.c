/* test_pairs.c - pairs of answers: lines of JSON as texts, and windows of a shard of pairs. */
#include "suite.h"
#include "shell.h"
#include "json/json.h"
#include "data/data.h"
#include "data/pair.h"
#include "data/tokens.h"

/* ---- lines ---- */

static ce_pair pair;

static cs_status read_line(ce_chat *chat, const char *end, const char *line)
{
    json_t *document = json_loads(line, 0, NULL);
    ck_assert_ptr_nonnull(document);
    cs_status status = ce_pair_read(&pair, chat, end, document);
    json_decref(document);
    return status;
}

static void is(const ce_text *text, const char *wanted)
{
    ck_assert_msg(text->size == strlen(wanted) && memcmp(text->bytes, wanted, text->size) == 0, "'%.*s', not '%s'",
                  (int)text->size, text->bytes, wanted);
}

static void becomes(ce_chat *chat, const char *end, const char *line, const char *prompt, const char *chosen,
                    const char *rejected)
{
    ck_assert_msg(read_line(chat, end, line) == CS_OK, "%s: %s", line, cs_error());
    is(&pair.prompt, prompt);
    is(&pair.chosen, chosen);
    is(&pair.rejected, rejected);
}

START_TEST(texts_are_joined_and_ended)
{
    becomes(NULL, NULL, "{\"prompt\": \"a \", \"chosen\": \"b\", \"rejected\": \"\"}", "a ", "a b", "a ");
    becomes(NULL, "<e>", "{\"prompt\": \"a\", \"chosen\": \"b<e>\", \"rejected\": \"c\"}", "a", "ab<e>", "ac<e>");
    ck_assert(!pair.rendered && !pair.repeated);
    becomes(NULL, NULL, "{\"prompt\": \"a\", \"chosen\": \"ab\", \"rejected\": \"ac\"}", "a", "aab", "aac");
    ck_assert(pair.repeated);
}
END_TEST

START_TEST(a_prompt_that_is_implicit_is_what_both_have)
{
    becomes(NULL, NULL, "{\"chosen\": \"It is red\", \"rejected\": \"It is blue\"}", "It is", "It is red",
            "It is blue");
    becomes(NULL, NULL, "{\"chosen\": \"ab\", \"rejected\": \"abc\", \"prompt\": null}", "a", "ab", "abc");
    /* the two letters differ in their second byte */
    becomes(NULL, NULL, "{\"chosen\": \"x\\u00e4\", \"rejected\": \"x\\u00f6\"}", "x", "x\xc3\xa4", "x\xc3\xb6");
    becomes(NULL, NULL, "{\"chosen\": \"a\", \"rejected\": \"b\"}", "", "a", "b");
}
END_TEST

#define SAID(role, words) "{\"role\": \"" role "\", \"content\": \"" words "\"}"

START_TEST(conversations_are_written_by_the_template)
{
    ce_tokenizer *tokenizer;
    ce_chat *chat;
    ce_chat_lines lines = { 0 };
    CS_MUST(ce_tokenizer_open(&tokenizer, NULL));
    CS_MUST(ce_chat_open(&chat, "plain", tokenizer));
    static const char whole[] = "{\"messages\": [" SAID("user", "Q") ", " SAID("assistant", "A") "]}";
    json_t *document = json_loads(whole, 0, NULL);
    CS_MUST(ce_chat_write(chat, document, CE_TURNS_AUTO, &lines));
    json_decref(document);
    char *wanted = strndup(lines.text.bytes, lines.text.size);
    static const char *const forms[] = {
        "{\"prompt\": [" SAID("user", "Q") "], \"chosen\": [" SAID("assistant",
                                                                   "A") "], \"rejected\": [" SAID("assistant",
                                                                                                  "B") "]}",
        "{\"chosen\": [" SAID("user", "Q") ", " SAID("assistant",
                                                     "A") "], \"rejected\": [" SAID("user", "Q") ", " SAID("assistant",
                                                                                                           "B") "]}",
        "{\"prompt\": \"Q\", \"chosen\": [" SAID("user", "Q") ", " SAID("assistant", "A") "], \"rejected\": [" SAID(
            "user", "Q") ", " SAID("assistant", "B") "]}",
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        ck_assert_msg(read_line(chat, "<e>", forms[i]) == CS_OK, "%s", cs_error());
        ck_assert(pair.rendered);
        ck_assert(!pair.repeated);
        is(&pair.chosen, wanted);
        ck_assert_uint_lt(pair.prompt.size, pair.chosen.size);
        ck_assert_int_eq(memcmp(pair.prompt.bytes, wanted, pair.prompt.size), 0);
        ck_assert_ptr_nonnull(memchr(pair.rejected.bytes, 'B', pair.rejected.size));
    }
    /* as in TRL, a prompt that the answers repeat is written twice */
    CS_MUST(read_line(chat, NULL,
                      "{\"prompt\": [" SAID("user", "Q") "], \"chosen\": [" SAID("user", "Q") ", " SAID(
                          "assistant", "A") "], \"rejected\": [" SAID("user", "Q") ", " SAID("assistant", "B") "]}"));
    ck_assert(pair.repeated);
    is(&pair.chosen, "User: Q\n\nUser: Q\n\nAssistant: A\n\n");
    ck_assert_int_eq(read_line(NULL, NULL, forms[0]), CS_BAD_CONFIG);
    ck_assert_int_eq(read_line(chat, "<e>",
                               "{\"prompt\": \"Q\", \"chosen\": [{\"role\": \"assistant\", \"content\": \"A\", "
                               "\"train\": false}], \"rejected\": [" SAID("assistant", "B") "]}"),
                     CS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(cs_error(), "message 1 of \"chosen\" has \"train\""));
    ck_assert_int_eq(read_line(chat, "<e>",
                               "{\"prompt\": \"Q\", \"chosen\": [" SAID("assistant",
                                                                        "A") "], \"rejected\": [" SAID("assistant",
                                                                                                       "B") "]}"),
                     CS_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(cs_error(), "a pair without a prompt"));
    free(wanted);
    ce_chat_lines_free(&lines);
    ce_chat_close(chat);
    ce_tokenizer_close(tokenizer);
}
END_TEST

START_TEST(other_lines_are_refused)
{
    static const char *const lines[] = {
        "{\"prompt\": \"a\", \"chosen\": \"b\"}",
        "{\"prompt\": \"a\", \"rejected\": \"b\"}",
        "{\"prompt\": 1, \"chosen\": \"b\", \"rejected\": \"c\"}",
        "{\"prompt\": [" SAID("user", "Q") "], \"chosen\": \"b\", \"rejected\": \"c\"}",
        "{\"chosen\": [], \"rejected\": []}",
        "{\"chosen\": \"b\", \"rejected\": [" SAID("user", "Q") "]}",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        ck_assert_msg(read_line(NULL, NULL, lines[i]) == CS_BAD_FILE, "%s", lines[i]);
    ck_assert_int_eq(read_line(NULL, NULL,
                               "{\"chosen\": \"b\", \"rejected\": \"c\", \"chat_template_kwargs\": {\"x\": 1}}"),
                     CS_UNSUPPORTED);
}
END_TEST

/* ---- windows ---- */

/* Appends a document of the tokens `first`, first + 1, ..., of which the first `prompt` are not targets. */
static void append(ce_tokens_writer *writer, int32_t first, int count, int prompt)
{
    ce_tokens_document(writer);
    for (int i = 0; i < count; i++) {
        int32_t token = first + i;
        bool learnt = i >= prompt;
        CS_MUST(ce_tokens_append_masked(writer, &token, &learnt, 1));
    }
}

enum { LONG = 4 };

static void check_answer(const int32_t *inputs, const int32_t *targets, int32_t first, int count, int prompt)
{
    for (int t = 0; t < LONG; t++) {
        bool target = t + 1 < count && t + 1 < LONG && t + 1 >= prompt;
        ck_assert_int_eq(inputs[t], t < count ? first + t : 0);
        ck_assert_int_eq(targets[t], target ? first + t + 1 : -1);
    }
}

START_TEST(pairs_are_cut_padded_and_left_out)
{
    ce_tokens_writer *writer;
    ce_windows *windows;
    int32_t inputs[2 * LONG], targets[2 * LONG];
    const char *patterns[] = { "pairs.bin" };
    ce_data_settings settings = { .patterns = patterns, .pattern_count = 1, .seq_len = LONG, .pairs = true };
    shell_enter();
    CS_MUST(ce_tokens_create(&writer, "pairs.bin", 1000));
    append(writer, 10, 3, 2);
    append(writer, 20, 9, 2); /* longer than the window: the answer is cut */
    append(writer, 30, 7, 4); /* the prompt fills the window, so the pair is left out */
    append(writer, 40, 5, 4);
    append(writer, 50, 6, 3);
    append(writer, 60, 4, 3);
    CS_MUST(ce_tokens_finish(writer));
    ck_assert_msg(ce_windows_open(&windows, &settings) == CS_OK, "%s", cs_error());
    ck_assert_int_eq(ce_windows_count(windows), 2);
    ck_assert_int_eq(ce_windows_counts(windows)->bare, 1);
    ck_assert_int_eq(ce_windows_counts(windows)->longer, 2);
    ck_assert_int_eq(ce_windows_counts(windows)->lost, 7);
    ce_windows_read(windows, 0, (ce_window){ inputs, targets, NULL });
    check_answer(inputs, targets, 10, 3, 2);
    check_answer(inputs + LONG, targets + LONG, 20, 9, 2);
    ce_windows_read(windows, 3, (ce_window){ inputs, targets, NULL });
    check_answer(inputs, targets, 50, 6, 3);
    check_answer(inputs + LONG, targets + LONG, 60, 4, 3);
    uint64_t mark = ce_windows_mark(windows);
    ce_windows_close(windows);
    /* the same tokens, but two answers begin at other positions */
    CS_MUST(ce_tokens_create(&writer, "pairs.bin", 1000));
    append(writer, 10, 3, 1);
    append(writer, 20, 9, 1);
    append(writer, 30, 7, 4);
    append(writer, 40, 5, 4);
    append(writer, 50, 6, 3);
    append(writer, 60, 4, 3);
    CS_MUST(ce_tokens_finish(writer));
    CS_MUST(ce_windows_open(&windows, &settings));
    ck_assert(ce_windows_mark(windows) != mark);
    ce_windows_close(windows);
    settings.seq_len = 1;
    ck_assert_int_eq(ce_windows_open(&windows, &settings), CS_BAD_FILE);
    CS_MUST(ce_tokens_create(&writer, "pairs.bin", 1000));
    append(writer, 10, 3, 1); /* one document is no pair */
    CS_MUST(ce_tokens_finish(writer));
    ck_assert_int_eq(ce_windows_open(&windows, &settings), CS_BAD_FILE);
    shell_leave();
    ce_pair_free(&pair);
}
END_TEST

SUITE_MAIN("pairs", texts_are_joined_and_ended, a_prompt_that_is_implicit_is_what_both_have,
           conversations_are_written_by_the_template, other_lines_are_refused, pairs_are_cut_padded_and_left_out)
