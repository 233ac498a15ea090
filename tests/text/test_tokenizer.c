/* test_tokenizer.c - tokenizers from files: ids equal to those of Hugging Face's library, decoding, and messages about
 * what is not supported. */
#include "text/encoder.h"
#include "base/base64.h"
#include "shell.h"
#include "suite.h"
#include "tokenizers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ce_tokenizer *open_named(const char *name)
{
    ce_tokenizer *tokenizer;
    tokenizers_write(name, "tokenizer.json");
    ck_assert_msg(ce_tokenizer_open(&tokenizer, ".") == CS_OK, "%s: %s", name, cs_error());
    return tokenizer;
}

static void check_case(ce_encoder *encoder, const char *name, const json_t *one)
{
    const json_t *text = json_object_get(one, "text"), *ids = json_object_get(one, "ids");
    const ce_encoded *made = ce_encoder_document(encoder, json_string_value(text), json_string_length(text));
    ck_assert_msg(made->count == (int64_t)json_array_size(ids), "%s: %jd tokens, not %zu, of: %s", name,
                  (intmax_t)made->count, json_array_size(ids), json_string_value(text));
    for (int64_t i = 0; i < made->count; i++)
        ck_assert_msg(made->ids[i] == json_integer_value(json_array_get(ids, (size_t)i)), "%s: token %jd of: %s", name,
                      (intmax_t)i, json_string_value(text));
}

START_TEST(ids_are_those_of_tokenizers)
{
    size_t index, number;
    json_t *golden = tokenizers_golden(), *entry, *one;
    shell_enter();
    ck_assert_uint_eq(json_array_size(golden), 6);
    json_array_foreach (golden, index, entry) {
        const char *name = json_string_value(json_object_get(entry, "name"));
        ce_tokenizer *tokenizer = open_named(name);
        ce_encoder *encoder = ce_encoder_open(tokenizer);
        for (int round = 0; round < 2; round++) /* in the second round the words are in the cache */
            json_array_foreach (json_object_get(entry, "cases"), number, one)
                check_case(encoder, name, one);
        ce_encoder_close(encoder);
        ce_tokenizer_close(tokenizer);
    }
    json_decref(golden);
    shell_leave();
}
END_TEST

/* Writes and opens the tokenizer of an entry of constructs.golden. */
static ce_tokenizer *open_entry(const json_t *entry)
{
    ce_tokenizer *tokenizer;
    const char *model = json_string_value(json_object_get(entry, "model"));
    size_t size = 0;
    ck_assert_int_eq(shell_run("rm -f tokenizer.json tokenizer.model"), 0);
    if (model) {
        char *bytes = ce_base64_decode(model, &size);
        FILE *file = fopen("tokenizer.model", "w");
        ck_assert(bytes && file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
        free(bytes);
    } else {
        ck_assert_int_eq(json_dump_file(json_object_get(entry, "tokenizer"), "tokenizer.json", 0), 0);
    }
    ck_assert_msg(ce_tokenizer_open(&tokenizer, ".") == CS_OK, "%s: %s",
                  json_string_value(json_object_get(entry, "name")), cs_error());
    return tokenizer;
}

/* Compares ids and decoded text. An entry of SentencePiece is encoded and decoded without special tokens, as the ids
 * and texts in the golden file were. */
static void check_construct(const ce_tokenizer *tokenizer, ce_encoder *encoder, const json_t *entry, const json_t *one)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    const json_t *text = json_object_get(one, "text"), *ids = json_object_get(one, "ids");
    const json_t *wanted = json_object_get(one, "decoded");
    bool sentence = json_object_get(entry, "model") != NULL;
    ce_text decoded = { 0 };
    const ce_encoded *made = sentence ? ce_encoder_text(encoder, json_string_value(text), json_string_length(text))
                                      : ce_encoder_document(encoder, json_string_value(text), json_string_length(text));
    ck_assert_msg(made->count == (int64_t)json_array_size(ids), "%s: %jd tokens, not %zu, of: %s", name,
                  (intmax_t)made->count, json_array_size(ids), json_string_value(text));
    for (int64_t i = 0; i < made->count; i++)
        ck_assert_msg(made->ids[i] == json_integer_value(json_array_get(ids, (size_t)i)), "%s: token %jd of: %s", name,
                      (intmax_t)i, json_string_value(text));
    ce_tokenizer_decode(tokenizer, made->ids, made->count, sentence, &decoded);
    ce_unicode_append(&decoded, "", 1);
    ck_assert_msg(decoded.size == json_string_length(wanted) + 1 &&
                      memcmp(decoded.bytes, json_string_value(wanted), decoded.size) == 0,
                  "%s: the tokens of '%s' become '%s'", name, json_string_value(text), decoded.bytes);
    ce_unicode_free(&decoded);
}

/* Normalizers, pre-tokenizers, decoders and post-processors of tokenizer.json, and SentencePiece models, give the same
 * results as their own libraries. */
START_TEST(constructs_are_those_of_the_libraries)
{
    size_t index, number, size;
    json_t *entry, *one;
    char *text = shell_read(CS_TESTS "/golden/constructs.golden", &size);
    json_t *golden = json_loadb(text, size, JSON_ALLOW_NUL, NULL);
    ck_assert_uint_gt(json_array_size(golden), 20);
    shell_enter();
    json_array_foreach (golden, index, entry) {
        ce_tokenizer *tokenizer = open_entry(entry);
        ce_encoder *encoder = ce_encoder_open(tokenizer);
        json_array_foreach (json_object_get(entry, "cases"), number, one)
            check_construct(tokenizer, encoder, entry, one);
        ce_encoder_close(encoder);
        ce_tokenizer_close(tokenizer);
    }
    json_decref(golden);
    free(text);
    shell_leave();
}
END_TEST

/* A text that is cut at a line and encoded in two parts has the tokens of the whole text, also with tokenizers that add
 * a prefix to a text. */
START_TEST(parts_have_the_tokens_of_the_whole)
{
    static const char text[] = "The dog\nand the friends\nwords word";
    static const char *const names[] = { "mistral", "gemma" };
    size_t index, size, cuts = 0;
    json_t *entry;
    char *file = shell_read(CS_TESTS "/golden/constructs.golden", &size);
    json_t *golden = json_loadb(file, size, JSON_ALLOW_NUL, NULL);
    shell_enter();
    json_array_foreach (golden, index, entry) {
        ce_tokenizer *tokenizer = open_entry(entry);
        ce_encoder *encoder = ce_encoder_open(tokenizer);
        size_t cut = ce_tokenizer_cut(tokenizer, text, 20);
        bool named = false;
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            named |= strcmp(json_string_value(json_object_get(entry, "name")), names[i]) == 0;
        ck_assert_msg(!named || cut == 8 || json_object_get(entry, "model"), "entry %zu is cut at %zu", index, cut);
        const ce_encoded *made = ce_encoder_document(encoder, text, sizeof text - 1);
        int64_t count = made->count, first;
        int32_t whole[256];
        memcpy(whole, made->ids, (size_t)count * sizeof *whole);
        first = cut ? ce_encoder_part(encoder, text, cut, CE_ENCODER_BEGINS)->count : 0;
        ck_assert_int_eq(memcmp(made->ids, whole, (size_t)first * sizeof *whole), 0);
        if (cut) {
            made = ce_encoder_part(encoder, text + cut, sizeof text - 1 - cut, CE_ENCODER_ENDS);
            ck_assert_int_eq(first + made->count, count);
            ck_assert_int_eq(memcmp(made->ids, whole + first, (size_t)made->count * sizeof *whole), 0);
            cuts++;
        }
        ce_encoder_close(encoder);
        ce_tokenizer_close(tokenizer);
    }
    ck_assert_uint_gt(cuts, 3);
    json_decref(golden);
    free(file);
    shell_leave();
}
END_TEST

/* `starts` has the position of each token in the given text, also where the text was normalized. */
START_TEST(starts_are_places_of_the_text)
{
    static const char text[] = "a\xc3\x85 e\xcc\x81 b";
    static const int64_t wanted[] = { 0, 0, 1, 3, 4, 7, 8 };
    ce_tokenizer *tokenizer;
    shell_enter();
    shell_write("tokenizer.json",
                "{\"model\": {\"type\": \"BPE\", \"unk_token\": \"?\", \"vocab\": {\"?\": 0, \"a\": 1, \"b\": 2, "
                "\"\u2581\": 3, \"\u00e9\": 4}, \"merges\": []}, \"normalizer\": {\"type\": \"NFC\"}, "
                "\"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"\u2581\"}}");
    ck_assert_msg(ce_tokenizer_open(&tokenizer, ".") == CS_OK, "%s", cs_error());
    ce_encoder *encoder = ce_encoder_open(tokenizer);
    const ce_encoded *made = ce_encoder_text(encoder, text, sizeof text - 1);
    ck_assert_int_eq(made->count, 7);
    for (int i = 0; i < 7; i++)
        ck_assert_msg(made->starts[i] == wanted[i], "token %d begins at %jd", i, (intmax_t)made->starts[i]);
    ce_encoder_close(encoder);
    ce_tokenizer_close(tokenizer);
    shell_leave();
}
END_TEST

/* The text of the tokens, concatenated, is the whole text; `starts` has the position of each token in it. */
START_TEST(pieces_are_the_text)
{
    static const char text[] = "Hello  wor\nld 12 \xe5\xad\x97\xf0\x9f\x98\x80, it's<|endoftext|>a";
    shell_enter();
    for (int bytes = 0; bytes < 2; bytes++) {
        ce_tokenizer *tokenizer = NULL;
        if (bytes)
            ck_assert_int_eq(ce_tokenizer_open(&tokenizer, NULL), CS_OK);
        else
            tokenizer = open_named("gpt2");
        ce_encoder *encoder = ce_encoder_open(tokenizer);
        const ce_encoded *made = ce_encoder_text(encoder, text, sizeof text - 1);
        size_t place = 0, size;
        for (int64_t i = 0; i < made->count; i++) {
            const char *piece = ce_tokenizer_piece(tokenizer, made->ids[i], &size);
            ck_assert_int_eq(made->starts[i], (int64_t)place);
            ck_assert_uint_le(place + size, sizeof text - 1);
            ck_assert_int_eq(memcmp(piece, text + place, size), 0);
            place += size;
        }
        ck_assert_uint_eq(place, sizeof text - 1);
        ck_assert_int_eq(ce_tokenizer_end(tokenizer), bytes ? -1 : 0);
        ck_assert_int_eq(ce_tokenizer_is_special(tokenizer, 0), !bytes);
        ck_assert_int_eq(ce_tokenizer_find(tokenizer, "<|endoftext|>"), bytes ? -1 : 0);
        ce_tokenizer_piece(tokenizer, 1 << 20, &size);
        ck_assert_uint_eq(size, 0);
        ce_encoder_close(encoder);
        ce_tokenizer_close(tokenizer);
    }
    shell_leave();
}
END_TEST

/* Each maximal invalid part of a character becomes one U+FFFD, as Unicode recommends. */
START_TEST(broken_text_is_repaired)
{
    static const struct {
        const char *text, *repaired;
        int64_t count;
    } cases[] = {
        { "a\x80"
          "b",
          "a\xef\xbf\xbd"
          "b",
          1 },
        { "\xf0\x9f\x98", "\xef\xbf\xbd", 1 },
        { "\xf0\x9f(", "\xef\xbf\xbd(", 1 },
        { "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 3 },
        { "\xc0\xaf\xfe", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 3 },
        { "\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 4 },
        { "\xe5\xad\x97", "\xe5\xad\x97", 0 },
    };
    shell_enter();
    ce_tokenizer *tokenizer = open_named("qwen2");
    ce_encoder *encoder = ce_encoder_open(tokenizer);
    int64_t before = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ce_encoded *made = ce_encoder_text(encoder, cases[i].text, strlen(cases[i].text));
        int64_t count = made->count;
        int32_t ids[64];
        memcpy(ids, made->ids, (size_t)count * sizeof *ids);
        ck_assert_int_eq(made->repaired - before, cases[i].count);
        before = made->repaired;
        made = ce_encoder_text(encoder, cases[i].repaired, strlen(cases[i].repaired));
        ck_assert_int_eq(made->count, count);
        ck_assert_int_eq(memcmp(made->ids, ids, (size_t)count * sizeof *ids), 0);
    }
    ce_encoder_close(encoder);
    ce_tokenizer_close(tokenizer);
    shell_leave();
}
END_TEST

#define MODEL "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]}"
#define BYTES "\"pre_tokenizer\": {\"type\": \"ByteLevel\"}"
#define BPE(option)                                                                                                    \
    "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]" option "}, "
#define PART(section, text) "{" MODEL ", \"" section "\": " text "}"
#define AROUND "{\"type\": \"RobertaProcessing\", \"sep\": [\"a\", 0], \"cls\": [\"b\", 1]}"
#define SPLIT(text)                                                                                                    \
    "{" MODEL ", \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"Split\", "               \
    "\"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"" text "\"}}, {\"type\": \"ByteLevel\"}]}}"

START_TEST(what_is_not_known_is_refused)
{
    static const struct {
        const char *file;
        cs_status status;
        const char *word;
    } cases[] = {
        { "{" MODEL ", " BYTES "}", CS_OK, "" },
        { SPLIT("\\\\p{L}+|\\\\s|[^\\\\s\\\\p{N}]"), CS_OK, "" },
        { SPLIT("^a|b$"), CS_OK, "" },
        { SPLIT("(a"), CS_BAD_FILE, "pre_tokenizer.pretokenizers[0]: the pattern (a is wrong at character 2" },
        { "{\"model\": {\"type\": \"Unigram\"}, " BYTES "}", CS_UNSUPPORTED, "Unigram" },
        { "{\"model\": {\"type\": \"WordPiece\"}, " BYTES "}", CS_UNSUPPORTED, "WordPiece" },
        { BPE(", \"byte_fallback\": true") BYTES "}", CS_UNSUPPORTED, "model.byte_fallback" },
        { BPE(", \"dropout\": 0.1") BYTES "}", CS_UNSUPPORTED, "model.dropout" },
        { BPE(", \"dropout\": 0.0") BYTES "}", CS_OK, "" },
        { BPE(", \"end_of_word_suffix\": \"x\"") BYTES "}", CS_UNSUPPORTED, "model.end_of_word_suffix" },
        { "{" MODEL "}", CS_OK, "" },
        { PART("normalizer", "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {\"type\": \"Own\"}]}"),
          CS_UNSUPPORTED, "normalizer.normalizers[1] is Own" },
        { PART("normalizer", "{\"type\": \"Replace\", \"pattern\": {\"String\": \"\"}, \"content\": \"a\"}"),
          CS_UNSUPPORTED, "normalizer.pattern is empty" },
        { PART("normalizer", "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"AAAA\"}"), CS_BAD_FILE,
          "damaged" },
        { PART("pre_tokenizer", "{\"type\": \"UnicodeScripts\"}"), CS_UNSUPPORTED, "pre_tokenizer is UnicodeScripts" },
        { PART("pre_tokenizer",
               "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\"}, {\"type\": \"Metaspace\"}]}"),
          CS_UNSUPPORTED, "pre_tokenizer.pretokenizers[1] is Metaspace: a ByteLevel comes before it" },
        { PART("pre_tokenizer", "{\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"No\"}"),
          CS_BAD_FILE, "pre_tokenizer.behavior is No" },
        { PART("pre_tokenizer", "{\"type\": \"Metaspace\", \"replacement\": \"ab\"}"), CS_BAD_FILE, "replacement" },
        { PART("pre_tokenizer", "{\"type\": \"Metaspace\", \"prepend_scheme\": \"last\"}"), CS_BAD_FILE,
          "prepend_scheme is last" },
        { PART("decoder", "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Own\"}]}"), CS_UNSUPPORTED,
          "decoder.decoders[0] is Own" },
        { PART("decoder", "{\"type\": \"BPEDecoder\", \"suffix\": \"\"}"), CS_UNSUPPORTED, "decoder.suffix" },
        { PART("post_processor", "{\"type\": \"Own\"}"), CS_UNSUPPORTED, "post_processor is Own" },
        { PART("post_processor", "{\"type\": \"BertProcessing\", \"sep\": [\"a\", 0], \"cls\": [\"z\", 9]}"),
          CS_BAD_FILE, "post_processor adds a token" },
        { PART("post_processor", "{\"type\": \"TemplateProcessing\", \"single\": [{\"Sequence\": {\"id\": \"B\"}}]}"),
          CS_UNSUPPORTED, "post_processor.single[0]" },
        { PART("post_processor", "{\"type\": \"Sequence\", \"processors\": [" AROUND ", " AROUND "]}"), CS_UNSUPPORTED,
          "post_processor.processors[1]" },
        { "{\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [\"a b\"]}, " BYTES "}", CS_BAD_FILE, "merges: entry 0" },
        { "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}, " BYTES "}", CS_BAD_FILE, "id 0" },
        { "{\"model\": {\"vocab\": {\"a\": 99999999}, \"merges\": []}, " BYTES "}", CS_BAD_FILE, "99999999" },
        { "{\"model\": {\"vocab\": {\"a\": -1}, \"merges\": []}, " BYTES "}", CS_BAD_FILE, "-1" },
        { "{\"model\": {\"vocab\": [], \"merges\": []}, " BYTES "}", CS_BAD_FILE, "vocab" },
        { "{\"a\": ", CS_BAD_FILE, "tokenizer.json: line 1" },
    };
    shell_enter();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ce_tokenizer *tokenizer;
        shell_write("tokenizer.json", cases[i].file);
        cs_status status = ce_tokenizer_open(&tokenizer, ".");
        ck_assert_msg(status == cases[i].status && (status == CS_OK || strstr(cs_error(), cases[i].word)),
                      "%s: status %d: %s", cases[i].file, (int)status, cs_error());
        ce_tokenizer_close(tokenizer);
    }
    ce_tokenizer *none;
    ck_assert_int_eq(shell_run("mkdir empty"), 0);
    ck_assert_int_eq(ce_tokenizer_open(&none, "empty"), CS_NOT_FOUND);
    ck_assert_int_eq(ce_tokenizer_open(&none, "nowhere"), CS_NOT_FOUND);
    shell_leave();
}
END_TEST

/* Sections about batches of texts have no effect; a warning says so. */
START_TEST(batches_of_texts_are_not_made)
{
    static const struct {
        const char *section, *words;
    } cases[] = {
        { "\"truncation\": null, \"padding\": null", NULL },
        { "\"truncation\": {\"max_length\": 2, \"strategy\": \"LongestFirst\", \"stride\": 0}",
          "its truncation is not done" },
        { "\"padding\": {\"strategy\": {\"Fixed\": 64}, \"pad_id\": 0}", "its padding is not done" },
    };
    shell_enter();
    shell_write("text.txt", "abababab");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char file[512];
        snprintf(file, sizeof file, "{%s, " MODEL ", " BYTES "}", cases[i].section);
        shell_write("tokenizer.json", file);
        ck_assert_int_eq(shell_run("%s/pack --tokenizer . --valid 0 --output data%d text.txt", CS_BIN, (int)i), 0);
        char *said = shell_read("out.txt", NULL);
        ck_assert_msg((strstr(said, "is not done") != NULL) == (cases[i].words != NULL), "%s", said);
        ck_assert_msg(!cases[i].words || strstr(said, cases[i].words), "%s", said);
        free(said);
        ck_assert_int_eq(shell_run("cmp data0/train-00000.bin data%d/train-00000.bin", (int)i), 0);
    }
    shell_leave();
}
END_TEST

/* A folder with vocab.json and merges.txt, without tokenizer.json, is a tokenizer too. */
START_TEST(vocab_and_merges_are_read)
{
    ce_tokenizer *tokenizer;
    shell_enter();
    shell_write("vocab.json", "{\"a\": 0, \"b\": 1, \"ab\": 2, \"\\u0120\": 3, \"<|endoftext|>\": 4, \"1\": 5}");
    ck_assert_int_eq(ce_tokenizer_open(&tokenizer, "."), CS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(cs_error(), "merges.txt"));
    shell_write("merges.txt", "#version: 0.2\na b\n");
    ck_assert_msg(ce_tokenizer_open(&tokenizer, ".") == CS_OK, "%s", cs_error());
    ce_encoder *encoder = ce_encoder_open(tokenizer);
    static const char text[] = "ab aba<|endoftext|>11";
    static const int32_t wanted[] = { 2, 3, 2, 0, 4, 5, 5 };
    const ce_encoded *made = ce_encoder_text(encoder, text, sizeof text - 1);
    ck_assert_int_eq(made->count, 7);
    ck_assert_int_eq(memcmp(made->ids, wanted, sizeof wanted), 0);
    ck_assert_int_eq(ce_tokenizer_end(tokenizer), 4);
    ce_encoder_close(encoder);
    ce_tokenizer_close(tokenizer);
    shell_write("tokenizer_config.json", "{\"tokenizer_class\": \"LlamaTokenizer\"}");
    ck_assert_int_eq(ce_tokenizer_open(&tokenizer, "."), CS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(cs_error(), "LlamaTokenizer"));
    shell_leave();
}
END_TEST

SUITE_MAIN("tokenizer", ids_are_those_of_tokenizers, constructs_are_those_of_the_libraries,
           parts_have_the_tokens_of_the_whole, starts_are_places_of_the_text, pieces_are_the_text,
           broken_text_is_repaired, what_is_not_known_is_refused, batches_of_texts_are_not_made,
           vocab_and_merges_are_read)
