/* test_json.c - relaxed JSON, positions of errors, overrides, key tables, strict JSON. */
#include "json/json.h"
#include "json/keys.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cs_status parse(const char *text, ce_json **doc)
{
    return ce_json_parse(doc, text, strlen(text), "file");
}

static ce_json *must_parse(const char *text)
{
    ce_json *doc;
    ck_assert_msg(parse(text, &doc) == CS_OK, "%s: %s", text, cs_error());
    return doc;
}

START_TEST(test_dialect)
{
    ce_json *doc = must_parse(
        "\xef\xbb\xbf// one\n{ # two\n \"a\": [1, 2,], /* three\n */ \"b\": {\"c\": Infinity, \"d\": -Infinity,},\n"
        " \"url\": \"http://x/*y*/#z\", \"\xc3\xa9\": 5e8, \"e\": [], \"f\": {}, }\n# end");
    ck_assert_int_eq((int)json_array_size(ce_json_find(doc, "a")), 2);
    ck_assert(json_number_value(ce_json_find(doc, "b.c")) >= 1.7e308);
    ck_assert(json_number_value(ce_json_find(doc, "b.d")) <= -1.7e308);
    ck_assert_str_eq(json_string_value(ce_json_find(doc, "url")), "http://x/*y*/#z");
    ck_assert(json_number_value(ce_json_find(doc, "\xc3\xa9")) == 5e8);
    ck_assert_ptr_null(ce_json_find(doc, "a.b.c"));
    ce_json_close(doc);
}
END_TEST

START_TEST(test_syntax)
{
    static const struct {
        const char *text, *sentence;
    } bad[] = {
        { "", "file:1:1: the text is empty" },
        { " // only a comment", "the text is empty" },
        { "[1]", "file:1:1: a configuration is one object" },
        { "{\"a\": adam}", "file:1:7: a string must be quoted: write \"adam\"" },
        { "{\"a\": /data/x y, \"b\": 1}", "a string must be quoted: write \"/data/x y\"" },
        { "{stage: 2}", "file:1:2: a key must be quoted: write \"stage\"" },
        { "{\"a\": 1\n \"b\": 2}", "file:2:2: a comma is missing before this" },
        { "{\"a\" 1}", "a colon is missing behind the key \"a\"" },
        { "{\"a\": 1, \"b\": {}, \"a\": 2}",
          "file:1:19: the key \"a\" stands here a second time; the first is in line 1" },
        { "{\"a\": 1, \"\\u0061\": 2}", "duplicate" },
        { "{\"a\": [1, 2}", "'}' closes what '[' opened in line 1" },
        { "{\"a\": {", "file:1:7: the object opened here is never closed" },
        { "{\"a\": 1} x", "nothing may follow the value" },
        { "{\"a\": 1}\n```", "nothing may follow the value" },
        { "{\"a\": 'x'}", "double quotes" },
        { "{\"a\": \"x\n\"}", "no closing quote on its line" },
        { "{\"a\": True, \"b\": None, \"c\": NaN}", "write true, not True" },
        { "{\"a\": 01}", "01 is not a number in JSON" },
        { "{\"a\": 1.}", "1. is not a number in JSON" },
        { "{\"a\": +1}", "+1 is not a number in JSON" },
        { "{\"a\": }", "a value is missing here" },
        { "{\"a\": 1,, \"b\": 2}", "a value is missing between two commas" },
        { "{\"a\": 1 /* never", "never closed with */" },
        { "{\"a\": \"\xff\"}", "UTF-8" },
        { "{\"a\": \"\\q\"}", "escape" },
        { "{\"a\": 99999999999999999999}", "too big" },
        { "{\"a\": 1e999}", "overflow" },
        { "{\"a\": {{ x }}, \"b\": 1}",
          "file:1:7: the placeholder {{ x }} was never filled in: this file is a template" },
        { "{\"a\": ${X},\n \"b\": ${Y}}", "\nfile:2:7: the placeholder ${Y} was never filled in" },
        { "{\"a\": <the size>}", "file:1:7: the placeholder <the size> was never" },
        { "{\"a\": %(x)s}", "file:1:7: the placeholder %(x)s was never" },
        { "{\n {% if a %}\n \"a\": 1\n}", "file:2:2: the placeholder {% if a %} was never" },
        { "{{ all }}", "file:1:1: the placeholder {{ all }} was never" },
        { "{\"a\": CONFIG_SIZE, \"b\": 1}",
          "file:1:7: CONFIG_SIZE is not a value: fill it in if this file is a template" },
        { "{\"a\": {{ x }", "a key" }, /* a placeholder without its closing braces is not recognised as one */
        { "{\"a\": <x}", "a string must be quoted" },
        { "train_batch_size: 8\nfp16:\n  enabled: true\n", "file:1:1: this is YAML, or Hjson without braces" },
        { "# a remark\n---\na: 1\n", "file:2:1: this is YAML" },
        { "- a\n- b\n", "file:1:1: this is YAML" },
        { "compute_environment: LOCAL_MACHINE\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n",
          "of Accelerate's own YAML, give the file that deepspeed_config_file names" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ce_json *doc;
        ck_assert_msg(parse(bad[i].text, &doc) == CS_BAD_CONFIG, "%s was accepted", bad[i].text);
        ck_assert_ptr_null(doc);
        ck_assert_msg(strstr(cs_error(), bad[i].sentence) != NULL, "%s: %s", bad[i].text, cs_error());
    }
}
END_TEST

START_TEST(test_all_syntax_faults)
{
    ce_json *doc;
    ck_assert_int_eq(parse("{\n \"a\": adam,\n \"b\": 1\n \"c\": 01,\n d: [1 2]\n}", &doc), CS_BAD_CONFIG);
    const char *at = cs_error();
    for (const char *const *place =
             (const char *const[]){ "file:2:7:", "file:4:2:", "file:4:7:", "file:5:2:", "file:5:8:", NULL };
         *place; place++) {
        at = strstr(at, *place);
        ck_assert_msg(at != NULL, "%s is missing or out of order: %s", *place, cs_error());
    }
}
END_TEST

START_TEST(test_depth)
{
    char text[1024];
    ce_json *doc;
    for (int depth = 63; depth <= 65; depth++) { /* the outer object adds one level */
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        text[2 * depth] = 0;
        char whole[1100];
        snprintf(whole, sizeof whole, "{\"a\": %s}", text);
        ck_assert_int_eq(parse(whole, &doc), depth <= 63 ? CS_OK : CS_BAD_CONFIG);
        ce_json_close(doc);
        json_t *strict = ce_json_strict(text, strlen(text));
        ck_assert((strict != NULL) == (depth <= 64));
        json_decref(strict);
    }
}
END_TEST

START_TEST(test_faults)
{
    ce_json *doc = must_parse("{\n  \"zero\": {\n    \"stage\": 7\n  },\n  \"b\": 1\n}");
    ck_assert_int_eq(ce_json_verdict(doc), CS_OK);
    ck_assert_int_eq(ce_json_set(doc, "b", "2"), CS_OK);
    ck_assert_int_eq(ce_json_set(doc, "new.key", "2"), CS_OK);
    ck_assert_int_eq(ce_json_set(doc, "zero.key", "2"), CS_OK);
    ce_json_fault(doc, "zero.stage", "first %d", 1);
    ce_json_fault_key(doc, "zero.stage", "second");
    ce_json_fault(doc, "zero.missing", "third");
    ce_json_fault(doc, "b", "fourth");
    ce_json_fault_key(doc, "new", "fifth");
    ce_json_fault_key(doc, "zero", "sixth");
    ck_assert_int_eq(ce_json_verdict(doc), CS_BAD_CONFIG);
    ck_assert_str_eq(cs_error(), "command line at b: fourth\n"
                                 "command line at new: fifth\n"
                                 "file:2:3 at zero: sixth\n"
                                 "file:2:11 at zero.missing: third\n"
                                 "file:3:5 at zero.stage: second\n"
                                 "file:3:14 at zero.stage: first 1");
    ce_json_close(doc);
}
END_TEST

START_TEST(test_set)
{
    ce_json *doc = must_parse("{\"a\": {\"b\": 1}, \"n\": null, \"c\": 3}");
    ck_assert_int_eq(ce_json_set(doc, "a.b", "[1, 2,]"), CS_OK);
    ck_assert_int_eq(ce_json_set(doc, "x.y.z", "true"), CS_OK);
    ck_assert_int_eq(ce_json_set(doc, "n.m", "5"), CS_OK);
    ck_assert_int_eq(ce_json_set(doc, "s", "runs/one two"), CS_OK);
    ck_assert_int_eq(ce_json_set(doc, "empty", ""), CS_OK);
    ck_assert_int_eq((int)json_array_size(ce_json_find(doc, "a.b")), 2);
    ck_assert(json_is_true(ce_json_find(doc, "x.y.z")));
    ck_assert_int_eq((int)json_integer_value(ce_json_find(doc, "n.m")), 5);
    ck_assert_str_eq(json_string_value(ce_json_find(doc, "s")), "runs/one two");
    ck_assert_str_eq(json_string_value(ce_json_find(doc, "empty")), "");
    ck_assert_int_eq(ce_json_set(doc, "c.d", "1"), CS_BAD_CONFIG);
    ck_assert_ptr_nonnull(strstr(cs_error(), "c is a value in the file, not a section"));
    ck_assert_int_eq(ce_json_set(doc, "a.b", "{broken"), CS_BAD_CONFIG);
    ck_assert_int_eq(ce_json_set(doc, "", "1"), CS_BAD_CONFIG);
    ck_assert_int_eq(ce_json_set(doc, "a..b", "1"), CS_BAD_CONFIG);
    ck_assert_int_eq(ce_json_set(doc, "\xff.b", "1"), CS_BAD_CONFIG);
    ce_json_close(doc);
}
END_TEST

START_TEST(test_open)
{
    ce_json *doc;
    const char *folder = getenv("TMPDIR");
    char path[512], text[1 << 10];
    snprintf(path, sizeof path, "%s/test_json.XXXXXX", folder ? folder : "/tmp");
    ck_assert_int_eq(ce_json_open(&doc, "/nowhere/at/all.json"), CS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(cs_error(), "/nowhere/at/all.json"));
    ck_assert_int_eq(ce_json_open(&doc, "/"), CS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(cs_error(), "directory"));
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    memset(text, ' ', sizeof text);
    ck_assert_int_eq(ce_json_open(&doc, path), CS_BAD_CONFIG);
    for (int i = 0; i < 1025; i++)
        ck_assert_int_eq(write(file, text, sizeof text), sizeof text);
    ck_assert_int_eq(ce_json_open(&doc, path), CS_BAD_CONFIG);
    ck_assert_ptr_nonnull(strstr(cs_error(), "larger than"));
    close(file);
    unlink(path);
}
END_TEST

START_TEST(test_strict)
{
    static const char *const bad[] = { "",         "{\"a\": 1,}",       "{\"a\": 1, \"a\": 2}",
                                       "// x\n{}", "{\"a\": Infinity}", "{} {}",
                                       "3" };
    json_t *good = ce_json_strict("{\"a\": [1, \"[[\"]}", 16);
    ck_assert_ptr_nonnull(good);
    json_decref(good);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(ce_json_strict(bad[i], strlen(bad[i])) == NULL, "%s was accepted", bad[i]);
}
END_TEST

/* ---- key tables ---- */

typedef struct {
    bool flag;
    int64_t count, max;
    double number, pair[2];
    const char *text;
    int choice;
    json_t *any;
} thing;

#define AT(field) offsetof(thing, field)
static const ce_key keys[] = {
    { "flag", CE_KEY_BOOL, AT(flag), "true", 0, 0, "auto", "" },
    { "count", CE_KEY_INT, AT(count), "7", 1, 2e18, NULL, "" },
    { "most", CE_KEY_INT, AT(max), "1", 0, INFINITY, NULL, "" },
    { "number", CE_KEY_NUMBER, AT(number), "0.5", 0, 0, NULL, "" },
    { "pair", CE_KEY_PAIR, AT(pair), "[1, 2]", 0, 0, NULL, "" },
    { "text", CE_KEY_STRING, AT(text), "usual", 0, 0, NULL, "" },
    { "choice", CE_KEY_CHOICE, AT(choice), "\"two\"", 0, 0, "one|two|three", "" },
    { "any", CE_KEY_JSON, AT(any), "null", 0, 0, NULL, "" },
    { "inert", CE_KEY_INERT, 0, "5e8", 0, 1e9, NULL, "" },
    { "refused", CE_KEY_REFUSED, 0, "false", 0, 0, "0|\"off\"", "it is a test" },
    { "switched", CE_KEY_REFUSED, 0, "{\"enabled\": false}", 0, 0, NULL, "it is a test" },
    { "section", CE_KEY_SECTION, 0, "{}", 0, 0, NULL, "" },
};

static cs_status fill(const char *text, thing *to, ce_json **doc)
{
    *doc = must_parse(text);
    ce_keys_fill(*doc, ce_json_root(*doc), "", to, CE_KEYS(keys));
    return ce_json_verdict(*doc);
}

START_TEST(test_fill)
{
    thing t;
    ce_json *doc;
    ck_assert_int_eq(fill("{}", &t, &doc), CS_OK);
    ck_assert(t.flag && t.count == 7 && t.number == 0.5 && t.pair[1] == 2 && t.choice == 1 && !t.any);
    ck_assert_str_eq(t.text, "usual");
    ce_json_close(doc);
    ck_assert_int_eq(
        fill("{\"flag\": 0, \"count\": 1e12, \"most\": Infinity, \"number\": 3, \"pair\": [4, 5.5], \"text\": null,"
             "\"choice\": \"THREE\", \"any\": {}, \"inert\": 6, \"refused\": 0.0, \"switched\": {\"path\": \"x\"},"
             "\"section\": {}, \"_note\": 1}",
             &t, &doc),
        CS_OK);
    ck_assert(!t.flag && t.count == 1000000000000 && t.max == INT64_MAX && t.number == 3 && t.pair[1] == 5.5 &&
              !t.text && t.choice == 2 && t.any);
    ck_assert_int_eq(ce_json_note_count(doc), 1); /* the key `inert` has a value other than its default */
    ck_assert_ptr_nonnull(strstr(ce_json_note_text(doc, 0), "inert"));
    ce_json_close(doc);
    ck_assert_int_eq(
        fill("{\"count\": 1234567890123456789, \"refused\": \"off\", \"inert\": \"auto\", \"flag\": \"auto\"}", &t,
             &doc),
        CS_OK);
    ck_assert(t.count == 1234567890123456789 && t.flag);
    ce_keys_settle(doc, ce_json_root(doc), "", &t, CE_KEYS(keys));
    ck_assert(json_is_true(ce_json_find(doc, "flag")));
    ck_assert(json_number_value(ce_json_find(doc, "inert")) == 5e8);
    ce_json_close(doc);
}
END_TEST

START_TEST(test_fill_faults)
{
    static const struct {
        const char *text, *sentence;
    } bad[] = {
        { "{\"flag\": 2}", "true or false is needed, not 2" },
        { "{\"flag\": \"true\"}", "true or false is needed" },
        { "{\"count\": 0}", "at least 1 is needed, not 0" },
        { "{\"count\": 0.5}", "a whole number is needed, not 0.5" },
        { "{\"count\": 1e19}", "a whole number is needed" },
        { "{\"count\": 3e18}", "at most 2e+18 is possible" },
        { "{\"count\": Infinity}", "a whole number is needed" },
        { "{\"count\": \"5\"}", "a whole number is needed, not \"5\"" },
        { "{\"count\": \"auto\"}", "\"auto\" cannot be resolved here" },
        { "{\"number\": Infinity}", "a number is needed" },
        { "{\"number\": [1]}", "a number is needed, not [1]" },
        { "{\"pair\": [1, \"2\"]}", "a list of two numbers is needed" },
        { "{\"text\": 5}", "a string in double quotes is needed" },
        { "{\"choice\": \"four\"}", "one of one|two|three is needed, not \"four\"" },
        { "{\"inert\": true}", "a number is needed, not true" },
        { "{\"inert\": 2e9}", "at most 1000000000 is possible" },
        { "{\"refused\": true}", "not supported: refused, because it is a test" },
        { "{\"switched\": {\"enabled\": true}}", "not supported: switched, because it is a test" },
        { "{\"section\": true}", "an object is needed ({\"enabled\": true}, if the section has this key), not true" },
        { "{\"cuont\": 1}", "file:1:2 at cuont: unknown key; the nearest known one is \"count\"" },
        { "{\"Count\": 1}", "the nearest known one is \"count\"" },
        { "{\"\\u001b[2J\": 1}", "unknown key, and no known key has a similar name;" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        thing t;
        ce_json *doc;
        ck_assert_msg(fill(bad[i].text, &t, &doc) == CS_BAD_CONFIG, "%s was accepted", bad[i].text);
        ck_assert_msg(strstr(cs_error(), bad[i].sentence) != NULL, "%s: %s", bad[i].text, cs_error());
        ck_assert_ptr_null(strchr(cs_error(), 0x1b));
        ce_json_close(doc);
    }
}
END_TEST

START_TEST(test_many_faults)
{
    char text[8192] = "{", *end = text + 1;
    thing t;
    ce_json *doc;
    for (int i = 0; i < 100; i++)
        end += sprintf(end, "\"unknown%d\": %d,", i, i);
    strcpy(end, "}");
    ck_assert_int_eq(fill(text, &t, &doc), CS_BAD_CONFIG);
    ck_assert_ptr_nonnull(strstr(cs_error(), "\nand 60 more"));
    ce_json_close(doc);
    char path[20000];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    ck_assert_int_eq(ce_json_parse(&doc, "{}", 2, "file"), CS_OK);
    for (int i = 0; i < 2; i++) /* a message that is longer than the buffer is truncated, not dropped */
        ce_json_fault(doc, path, "wrong");
    ck_assert_int_eq(ce_json_verdict(doc), CS_BAD_CONFIG);
    ck_assert_ptr_nonnull(strstr(cs_error(), "file:1:1 at xxx"));
    ck_assert_ptr_nonnull(strstr(cs_error(), "\nand 1 more"));
    ce_json_close(doc);
}
END_TEST

START_TEST(test_lenient)
{
    thing t;
    ce_json *doc = must_parse("{\"cuont\": 1, \"count\": 2}");
    ce_json_lenient(doc);
    ce_keys_fill(doc, ce_json_root(doc), "", &t, CE_KEYS(keys));
    ck_assert_int_eq(ce_json_verdict(doc), CS_OK);
    ck_assert_int_eq((int)t.count, 2);
    ck_assert_int_eq(ce_json_note_count(doc), 1);
    ck_assert_ptr_nonnull(strstr(ce_json_note_text(doc, 0), "cuont: ignored: unknown key"));
    ce_json_close(doc);
}
END_TEST

SUITE_MAIN("json", test_dialect, test_syntax, test_all_syntax_faults, test_depth, test_faults, test_set, test_open,
           test_strict, test_fill, test_fill_faults, test_many_faults, test_lenient)
