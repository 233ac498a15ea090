/* test_words.c - patterns written for Oniguruma, and Falcon's pre-tokenizer, cut texts as tokenizers 0.23 cuts them. The
 * pieces come from the library; tests/peers/patterns_same.py compares random patterns. */
#include "suite.h"
#include "text/parts.h"

#include <string.h>

static const char falcon[] =
    "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Punctuation\", \"behavior\": \"Contiguous\"}, {\"type\": "
    "\"ByteLevel\", \"add_prefix_space\": false, \"use_regex\": true}, {\"type\": \"Digits\", \"individual_digits\": "
    "false}, {\"type\": \"Split\", \"pattern\": {\"Regex\": \"[0-9][0-9][0-9]\"}, \"behavior\": \"Isolated\", "
    "\"invert\": false}]}";

static const struct {
    const char *pattern, *text, *pieces;
} cases[] = {
    { "a{1,3}+b", "aaaaab aab", "aaaaab| |aab" },
    { "a{2}?", "aaaaa", "aa|aa|a" },
    { "a{,2}b", "aaab", "a|aab" },
    { "\\b\\w+\\b", "It's \302\274 word_1!", "It|'|s| |\302\274| |word_1|!" },
    { "[\\w]+", "a\302\274b", "a|\302\274|b" },
    { "\\W", "a\302\274-b", "a\302\274|-|b" },
    { "\\h+", "beefy FACE", "beef|y |FACE" },
    { "[\\p{L}&&[^\\p{Han}]]+", "abc\344\270\255\346\226\207d\303\251", "abc|\344\270\255\346\226\207|d\303\251" },
    { "[a[bc]]+", "xabcab-", "x|abcab|-" },
    { "[^(\\s|[.,])]+", "ab (c|d), e.", "ab| (|c|||d|), |e|." },
    { "[[:alpha:]_]+|[[:^digit:]]", "ab_1-", "ab_|1|-" },
    { "\\p{Han}+", "\344\270\255\343\200\201\346\226\207", "\344\270\255|\343\200\201|\346\226\207" },
    { "a(?i)b|c", "aB aC Ac c", "aB| |aC| Ac c" },
    { "(?m:a.b)", "a\012b ab", "a\012b| ab" },
    { "\\u4e2d\\x{6587}", "\344\270\255\346\226\207\345\255\227", "\344\270\255\346\226\207|\345\255\227" },
    { "\\v|\\S+", "a\013b c", "a|\013|b| |c" },
    { falcon, "Hello, world!! 12345 \320\274\320\270\321\200 67",
      "Hello|,| world|!!| |123|45| \320|\274|\320\270\321\200| |67" },
    { falcon, "it's 3.14159... \012\012ok", "it|'|s| |3|.|141|59|...| \012|\012|ok" },
    { falcon, "\303\251\302\275 \344\270\255\346\226\2071234", "\303\251|\302|\275| \344\270\255\346\226\207|123|4" },
    { "a(?#of a)+", "aab", "aa|b" },
    { falcon, "a \xe0\xa7\xbd", "a| \xe0\xa7|\xbd" },
};

typedef struct {
    ce_text pieces;
    const char *text;
    size_t done; /* the pieces so far begin before this offset of the text */
} collector;

static void collect(void *context, ce_span word)
{
    collector *c = context;
    if (c->pieces.size > 0)
        ce_unicode_append(&c->pieces, "|", 1);
    ck_assert_uint_eq(ce_span_origin(word, 0), c->done);
    ck_assert_int_eq(memcmp(c->text + c->done, word.bytes, word.size), 0);
    c->done += word.size;
    ce_unicode_append(&c->pieces, word.bytes, word.size);
}

static void open_words(ce_words *words, const char *pattern)
{
    if (pattern != falcon) {
        ck_assert_msg(ce_words_add_regex(words, pattern) == CS_OK, "%s", cs_error());
        return;
    }
    json_t *part = ce_json_strict(falcon, sizeof falcon - 1);
    ck_assert(ce_words_reads_bytes(part));
    ck_assert_msg(ce_words_read(words, part) == CS_OK, "%s", cs_error());
    json_decref(part);
}

START_TEST(patterns_cut_as_oniguruma)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        collector c = { .text = cases[i].text };
        ce_words *words = ce_words_open();
        open_words(words, cases[i].pattern);
        ce_cutters *cutters = ce_words_cutters(words);
        ce_words_each(cutters, (ce_span){ .bytes = cases[i].text, .size = strlen(cases[i].text) }, false, collect, &c);
        ce_unicode_append(&c.pieces, "", 1);
        ck_assert_msg(strcmp(c.pieces.bytes, cases[i].pieces) == 0, "%s cuts %s: %s", cases[i].pattern, cases[i].text,
                      c.pieces.bytes);
        ck_assert_uint_eq(c.done, strlen(cases[i].text));
        ce_words_release(cutters);
        ce_words_close(words);
        ce_unicode_free(&c.pieces);
    }
}
END_TEST

START_TEST(what_has_no_translation_is_refused)
{
    static const char *const refused[][2] = {
        { "a\\Kb", "\\K" },
        { "(a)\\1", "\\1" },
        { "(?x: a )", "a group" },
        { "[]a]", "[]" },
        { "[a&&]", "a right side" },
        { "(?i:[a[^b]])", "under (?i)" },
        { "a{1,2}+*", "}+" },
        { "[[:graph:]]", "[:NAME:]" },
        { "\\p{L", "name in braces" },
        { "a)", "without its (" },
        { "(a", "without its )" },
        { "[a", "without end" },
        { "\\xe9", "not a character" },
        { "(?~a)", "a group" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        ce_words *words = ce_words_open();
        ck_assert_msg(ce_words_add_regex(words, refused[i][0]) != CS_OK, "%s", refused[i][0]);
        ck_assert_msg(strstr(cs_error(), refused[i][1]) && strstr(cs_error(), refused[i][0]), "%s", cs_error());
        ce_words_close(words);
    }
}
END_TEST

SUITE_MAIN("words", patterns_cut_as_oniguruma, what_has_no_translation_is_refused)
