/* words_read.c - reads the section "pre_tokenizer" of a tokenizer.json. */
#include "text/parts.h"
#include "text/jsonpart.h"

#include <string.h>

/* The punctuation of tokenizers is that of Unicode 8: without the characters that came later, and with two that have
 * become symbols. */
#define LATER                                                                                                          \
    "\\x{61d}\\x{9fd}\\x{a76}\\x{c77}\\x{c84}\\x{1b7d}-\\x{1b7e}\\x{2e43}-\\x{2e4f}\\x{2e52}-\\x{2e5d}"                \
    "\\x{10ead}\\x{10f55}-\\x{10f59}\\x{10f86}-\\x{10f89}\\x{1144b}-\\x{1144f}\\x{1145a}-\\x{1145b}"                   \
    "\\x{1145d}\\x{11660}-\\x{1166c}\\x{116b9}\\x{1183b}\\x{11944}-\\x{11946}\\x{119e2}"                               \
    "\\x{11a3f}-\\x{11a46}\\x{11a9a}-\\x{11a9c}\\x{11a9e}-\\x{11aa2}\\x{11c41}-\\x{11c45}"                             \
    "\\x{11c70}-\\x{11c71}\\x{11ef7}-\\x{11ef8}\\x{11fff}\\x{12ff1}-\\x{12ff2}\\x{16e97}-\\x{16e9a}"                   \
    "\\x{16fe2}\\x{1e95e}-\\x{1e95f}"
#define PUNCTUATION "(?:(?![" LATER "])[!-/:-@\\[-`{-~\\p{P}]|[\\x{166d}\\x{111c9}])"
#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}"

static const char *text_of(const json_t *part, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(part, key));
    return text ? text : otherwise;
}

static cs_status read_behavior(ce_words_behavior *behavior, const json_t *part, const char *path)
{
    static const char *const names[] = { [CE_WORDS_ISOLATED] = "Isolated",
                                         [CE_WORDS_REMOVED] = "Removed",
                                         [CE_WORDS_CONTIGUOUS] = "Contiguous",
                                         [CE_WORDS_WITH_PREVIOUS] = "MergedWithPrevious",
                                         [CE_WORDS_WITH_NEXT] = "MergedWithNext" };
    const char *name = text_of(part, "behavior", "Isolated");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0) {
            *behavior = (ce_words_behavior)i;
            return CS_OK;
        }
    return ce_fail(CS_BAD_FILE,
                   "%s.behavior is %.40s, and not Isolated, Removed, Contiguous, MergedWithPrevious or "
                   "MergedWithNext",
                   path, name);
}

static cs_status read_split(ce_words *words, const json_t *part, const char *path)
{
    ce_words_behavior behavior = CE_WORDS_ISOLATED;
    ce_pattern *pattern;
    const char *regex = text_of(json_object_get(part, "pattern"), "Regex", "");
    bool invert = ce_jsonpart_flag(part, "invert", false);
    CE_TRY(read_behavior(&behavior, part, path));
    if (*regex && behavior == CE_WORDS_ISOLATED && !invert) {
        cs_status status = ce_words_add_regex(words, regex);
        return status == CS_OK ? CS_OK : ce_fail(status, "%s: %s", path, cs_error());
    }
    cs_status status = ce_jsonpart_pattern(&pattern, part, path);
    return status == CS_OK ? ce_words_add_split(words, pattern, behavior, invert) : status;
}

static cs_status read_punctuation(ce_words *words, const json_t *part, const char *path)
{
    ce_words_behavior behavior = CE_WORDS_ISOLATED;
    CE_TRY(read_behavior(&behavior, part, path));
    return ce_words_add_own(words, PUNCTUATION, behavior, false);
}

static cs_status read_bytes(ce_words *words, const json_t *part)
{
    if (ce_jsonpart_flag(part, "add_prefix_space", false))
        CE_TRY(ce_words_add_replaced(words, " ", CE_WORDS_PREFIX_ALWAYS));
    return ce_jsonpart_flag(part, "use_regex", true) ? ce_words_add_regex(words, ce_words_gpt2) : CS_OK;
}

static cs_status read_metaspace(ce_words *words, const json_t *part, const char *path)
{
    const char *mark = text_of(part, "replacement", "\xe2\x96\x81"),
               *scheme = text_of(part, "prepend_scheme", "always");
    bool prefix = ce_jsonpart_flag(part, "add_prefix_space", true);
    ce_words_prefix known = !prefix || strcmp(scheme, "never") == 0 ? CE_WORDS_PREFIX_NEVER
                            : strcmp(scheme, "first") == 0          ? CE_WORDS_PREFIX_FIRST
                                                                    : CE_WORDS_PREFIX_ALWAYS;
    if (ce_unicode_length(mark, strlen(mark)) != 1)
        return ce_fail(CS_BAD_FILE, "%s.replacement is not one character", path);
    if (known == CE_WORDS_PREFIX_ALWAYS && strcmp(scheme, "always") != 0)
        return ce_fail(CS_BAD_FILE, "%s.prepend_scheme is %.40s, and not always, first or never", path, scheme);
    CE_TRY(ce_words_add_replaced(words, mark, known));
    if (!ce_jsonpart_flag(part, "split", true))
        return CS_OK;
    ce_pattern *pattern;
    CE_TRY(ce_pattern_open(&pattern, mark, CE_PATTERN_LITERAL));
    return ce_words_add_split(words, pattern, CE_WORDS_WITH_NEXT, false);
}

static cs_status read_delimiter(ce_words *words, const json_t *part, const char *path)
{
    const char *delimiter = text_of(part, "delimiter", "");
    ce_pattern *pattern;
    if (ce_unicode_length(delimiter, strlen(delimiter)) != 1)
        return ce_fail(CS_BAD_FILE, "%s.delimiter is not one character", path);
    CE_TRY(ce_pattern_open(&pattern, delimiter, CE_PATTERN_LITERAL));
    return ce_words_add_split(words, pattern, CE_WORDS_REMOVED, false);
}

static cs_status read_bert(ce_words *words)
{
    CE_TRY(ce_words_add_own(words, "\\p{White_Space}", CE_WORDS_REMOVED, false));
    return ce_words_add_own(words, PUNCTUATION, CE_WORDS_ISOLATED, false);
}

static cs_status read_fixed(ce_words *words, const json_t *part, const char *path)
{
    const json_t *length = json_object_get(part, "length");
    json_int_t points = length ? json_integer_value(length) : 5;
    if (points < 1)
        return ce_fail(CS_BAD_FILE, "%s.length is not a number from 1 on", path);
    return ce_words_add_fixed(words, (size_t)points);
}

static cs_status read_one(ce_words *words, const json_t *part, const char *path)
{
    const char *type = ce_jsonpart_type(part);
    if (strcmp(type, "ByteLevel") == 0)
        return read_bytes(words, part);
    if (strcmp(type, "Split") == 0)
        return read_split(words, part, path);
    if (strcmp(type, "Digits") == 0)
        return ce_words_add_own(words, ce_jsonpart_flag(part, "individual_digits", false) ? "\\p{N}" : "\\p{N}+",
                                CE_WORDS_ISOLATED, false);
    if (strcmp(type, "Metaspace") == 0)
        return read_metaspace(words, part, path);
    if (strcmp(type, "Punctuation") == 0)
        return read_punctuation(words, part, path);
    if (strcmp(type, "Whitespace") == 0)
        return ce_words_add_own(words, "[" WORD "]+|[^" WORD "\\p{White_Space}]+", CE_WORDS_REMOVED, true);
    if (strcmp(type, "WhitespaceSplit") == 0)
        return ce_words_add_own(words, "\\p{White_Space}", CE_WORDS_REMOVED, false);
    if (strcmp(type, "CharDelimiterSplit") == 0)
        return read_delimiter(words, part, path);
    if (strcmp(type, "BertPreTokenizer") == 0)
        return read_bert(words);
    if (strcmp(type, "FixedLength") == 0)
        return read_fixed(words, part, path);
    if (strcmp(type, "UnicodeScripts") == 0)
        return ce_jsonpart_refuse(path, type, "its table of scripts belongs to an old version of Unicode");
    return ce_jsonpart_refuse(path, type, "it is not a pre-tokenizer of tokenizers 0.23");
}

static bool is_of_type(const json_t *part, const char *type)
{
    return strcmp(ce_jsonpart_type(part), type) == 0;
}

bool ce_words_reads_bytes(const json_t *part)
{
    size_t index;
    json_t *member;
    json_array_foreach (is_of_type(part, "Sequence") ? json_object_get(part, "pretokenizers") : NULL, index, member)
        if (ce_words_reads_bytes(member))
            return true;
    return is_of_type(part, "ByteLevel");
}

/* What comes before and behind a pre-tokenizer. */
typedef struct {
    bool bytes; /* True if a ByteLevel comes before it. */
    bool last;  /* True if no other pre-tokenizer follows. */
} surrounding;

/* Reads a pre-tokenizer of any type. Behind a ByteLevel the text is the characters of the alphabet of bytes, to which a
 * Metaspace or another ByteLevel would add characters. */
static cs_status read_any(ce_words *words, const json_t *part, const char *path, surrounding *around)
{
    size_t index;
    bool last = around->last;
    json_t *member, *list = json_object_get(part, "pretokenizers");
    char inner[CE_JSONPART_PATH];
    if (!part || json_is_null(part))
        return CS_OK;
    if (is_of_type(part, "Sequence")) {
        json_array_foreach (list, index, member) {
            around->last = last && index + 1 == json_array_size(list);
            CE_TRY(read_any(words, member, ce_jsonpart_member(inner, path, "pretokenizers", index), around));
        }
        return CS_OK;
    }
    bool is_bytes = is_of_type(part, "ByteLevel");
    if (around->bytes && (is_bytes || is_of_type(part, "Metaspace")))
        return ce_jsonpart_refuse(path, ce_jsonpart_type(part), "a ByteLevel comes before it");
    CE_TRY(read_one(words, part, path));
    around->bytes |= is_bytes;
    return is_bytes && !last ? ce_words_add_bytes(words) : CS_OK;
}

cs_status ce_words_read(ce_words *words, const json_t *part)
{
    return read_any(words, part, "pre_tokenizer", &(surrounding){ .last = true });
}
