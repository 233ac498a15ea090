/* words.c - the rules by which text is divided into words before BPE. */
#include "gguf/words.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

#define LETTERS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
#define OTHERS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
    const char *name;   /* the one that is written */
    const char *split;  /* NULL: GPT-2's pattern, which ByteLevel has */
    bool digits;        /* each digit is a word */
    bool whole;         /* words that are tokens are not divided (ignore_merges) */
    bool composed;      /* the tokenizer has NFC */
    const char *others; /* other names of the same rule */
} rules[] = {
    { "llama-bpe", LETTERS "{1,3}" OTHERS, false, true, false, " llama3 llama-v3 falcon3 pixtral " },
    { "dbrx", LETTERS "{1,3}" OTHERS, false, false, false, " smaug-bpe " },
    { "qwen2", LETTERS OTHERS, false, false, true, " deepseek-r1-qwen stablelm2 " },
    { "smollm", NULL, true, false, false, " refact starcoder command-r codeshell exaone minerva-7b " },
    { "gpt-2", NULL, false, false, false, " phi-2 olmo mpt jais trillion granite-docling " },
};
enum { RULES = sizeof rules / sizeof *rules };

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

const json_t *ce_gguf_words_part(const json_t *all, const char *list, const char *type)
{
    const json_t *inner, *members = json_object_get(all, list);
    size_t i;
    if (strcmp(text_at(all, "type"), type) == 0)
        return all;
    json_array_foreach ((json_t *)members, i, inner)
        if (strcmp(text_at(inner, "type"), type) == 0)
            return inner;
    return NULL;
}

/* Returns true if the pre-tokenizer has a part that none of the rules has, or divides text in another way. */
static bool has_more(const json_t *all, const json_t *split, const json_t *bytes, const json_t *digits)
{
    const json_t *part;
    size_t i;
    json_array_foreach (json_object_get(all, "pretokenizers"), i, part)
        if (part != split && part != bytes && part != digits)
            return true;
    return split &&
           (strcmp(text_at(split, "behavior"), "Isolated") != 0 || json_is_true(json_object_get(split, "invert")));
}

const char *ce_gguf_words_name(const json_t *tokenizer)
{
    const json_t *all = json_object_get(tokenizer, "pre_tokenizer"), *normal = json_object_get(tokenizer, "normalizer");
    const json_t *split = ce_gguf_words_part(all, "pretokenizers", "Split");
    const json_t *bytes = ce_gguf_words_part(all, "pretokenizers", "ByteLevel");
    const json_t *digits = ce_gguf_words_part(all, "pretokenizers", "Digits");
    const char *regex = text_at(json_object_get(split, "pattern"), "Regex");
    bool whole = json_is_true(json_object_get(json_object_get(tokenizer, "model"), "ignore_merges"));
    bool changed = json_is_object(normal) && strcmp(text_at(normal, "type"), "NFC") != 0;
    bool single = json_is_true(json_object_get(digits, "individual_digits"));
    if (changed || json_is_true(json_object_get(bytes, "add_prefix_space")) || (digits && !single) ||
        has_more(all, split, bytes, digits))
        return NULL;
    if (!split && (!bytes || json_is_false(json_object_get(bytes, "use_regex"))))
        return NULL;
    for (int i = 0; i < RULES; i++)
        if (rules[i].whole == whole && rules[i].digits == single && !rules[i].split == !split &&
            (!split || strcmp(rules[i].split, regex) == 0))
            return rules[i].name;
    return NULL;
}

static int find(const char *name)
{
    CE_FREED char *spaced = ce_must_print(" %s ", name);
    for (int i = 0; i < RULES; i++)
        if (strcmp(rules[i].name, name) == 0 || (!strchr(name, ' ') && strstr(rules[i].others, spaced)))
            return i;
    return -1;
}

static cs_status refuse(const char *name, const char *path)
{
    CE_FREED char *known = ce_must_copy("");
    for (int i = 0; i < RULES; i++) {
        char *longer = ce_must_print("%s%s%s", known, i ? ", " : "", rules[i].name);
        free(known);
        known = longer;
    }
    return ce_fail(
        CS_UNSUPPORTED,
        "not supported: %s: text is divided into words by the rule \"%s\" (tokenizer.ggml.pre); known are %s", path,
        name, known);
}

bool ce_gguf_words_begin(const char *name)
{
    int rule = find(name);
    return rule >= 0 && strncmp(rules[rule].name, "llama", 5) == 0;
}

cs_status ce_gguf_words_set(json_t *tokenizer, const char *name, const char *path)
{
    int rule = find(name);
    if (rule < 0)
        return refuse(name, path);
    json_t *parts = json_array();
    if (rules[rule].split)
        json_array_append_new(parts, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex",
                                               rules[rule].split, "behavior", "Isolated", "invert", 0));
    if (rules[rule].digits)
        json_array_append_new(parts, json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1));
    json_array_append_new(parts, json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                                           "trim_offsets", 1, "use_regex", !rules[rule].split));
    json_object_set_new(tokenizer, "pre_tokenizer",
                        json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", parts));
    json_object_set_new(tokenizer, "normalizer",
                        rules[rule].composed ? json_pack("{s:s}", "type", "NFC") : json_null());
    json_object_set_new(json_object_get(tokenizer, "model"), "ignore_merges", json_boolean(rules[rule].whole));
    return CS_OK;
}
