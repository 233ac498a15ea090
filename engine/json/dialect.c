/* dialect.c - turns relaxed JSON into strict JSON: a recursive-descent scanner that goes on after errors. */
#include "json/dialect.h"
#include "base/must.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FAULTS = 20, /* maximum number of errors that are reported for one text */
    SHOWN = 40,  /* maximum number of bytes of a word that a message shows */
    /* To find a duplicate, a key is compared with the keys of the same object among the last SIBLINGS nodes before it.
     * jansson finds duplicates that are further apart. */
    SIBLINGS = 4096
};

typedef struct {
    ce_dialect *out;
    const char *text;
    size_t length, at;
    ce_dialect_report *report;
    void *to;
    int depth, faults;
} scanner;

static void scan_value(scanner *s, int parent, size_t key, size_t key_length, size_t key_place);

static __attribute__((format(printf, 3, 4))) void complain(scanner *s, size_t offset, const char *format, ...)
{
    if (s->faults++ >= FAULTS)
        return;
    char sentence[320];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    s->report(s->to, offset, sentence);
}

static int peek(const scanner *s)
{
    return s->at < s->length ? (unsigned char)s->text[s->at] : -1;
}

static bool starts(const scanner *s, const char *word)
{
    size_t count = strlen(word);
    return s->length - s->at >= count && memcmp(s->text + s->at, word, count) == 0;
}

static void blank(scanner *s, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (s->text[i] != '\n')
            s->out->text[i] = ' ';
}

static void skip_block_comment(scanner *s)
{
    size_t from = s->at;
    for (s->at += 2; s->at < s->length && !starts(s, "*/"); s->at++)
        ;
    if (s->at >= s->length)
        complain(s, from, "this comment is never closed with */");
    else
        s->at += 2;
    blank(s, from, s->at);
}

/* Skips white space and comments. */
static void skip_space(scanner *s)
{
    for (;;) {
        int c = peek(s);
        if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
            s->at++;
        } else if (c == '#' || starts(s, "//")) {
            size_t from = s->at;
            while (s->at < s->length && s->text[s->at] != '\n')
                s->at++;
            blank(s, from, s->at);
        } else if (starts(s, "/*")) { /* a block comment */
            skip_block_comment(s);
        } else {
            return;
        }
    }
}

/* Skips a string with its quotes. The closing quote must be on the same line as the opening quote. */
static bool skip_string(scanner *s)
{
    size_t from = s->at;
    char quote = s->text[s->at++];
    while (s->at < s->length && s->text[s->at] != quote) {
        if (s->text[s->at] == '\n')
            break;
        s->at += s->text[s->at] == '\\' && s->at + 1 < s->length && s->text[s->at + 1] != '\n' ? 2 : 1;
    }
    if (s->at >= s->length || s->text[s->at] != quote) {
        complain(s, from, "this string has no closing quote on its line");
        return false;
    }
    s->at++;
    if (quote == '\'')
        complain(s, from, "strings stand in double quotes, not single ones");
    return true;
}

/* ---- texts that are not JSON: templates and YAML ---- */

/* If `text` begins with `open`, any characters that are not in `never`, and `close`, returns the length of all three
 * together, otherwise 0. */
static size_t span(const char *text, size_t length, const char *open, const char *close, const char *never)
{
    size_t at = strlen(open), end = strlen(close);
    if (length < at || memcmp(text, open, at) != 0)
        return 0;
    for (; at + end <= length && text[at] != '\n'; at++) {
        if (memcmp(text + at, close, end) == 0)
            return at > strlen(open) ? at + end : 0;
        if (strchr(never, text[at]))
            return 0;
    }
    return 0;
}

size_t ce_dialect_placeholder(const char *text, size_t length)
{
    static const char *const forms[][3] = {
        { "{{", "}}", "\"" },       { "{%", "%}", "" },    { "${", "}", "{\"" },
        { "<", ">", "<\"{}[],:=" }, { "%(", ")s", "(\"" },
    };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        size_t found = span(text, length, forms[i][0], forms[i][1], forms[i][2]);
        if (found > 0)
            return found;
    }
    return 0;
}

/* If a template placeholder begins at the current position, reports it as an error, skips it with the rest of its word,
 * and returns true. */
static bool skip_placeholder(scanner *s)
{
    size_t from = s->at, found = ce_dialect_placeholder(s->text + from, s->length - from);
    if (found == 0)
        return false;
    complain(s, from, CE_DIALECT_UNFILLED, (int)(found < SHOWN ? found : SHOWN), s->text + from);
    for (s->at += found; s->at < s->length && !strchr(" \t\r\n,]}:", s->text[s->at]);)
        s->at++;
    return true;
}

/* Returns true if the text begins like YAML: "key: value" without braces, "- item", "---" or "%YAML". */
static bool is_yaml(const scanner *s)
{
    size_t at = s->at;
    if (starts(s, "---") || starts(s, "- ") || starts(s, "%YAML"))
        return true;
    while (at < s->length && (isalnum((unsigned char)s->text[at]) || strchr("_-.", s->text[at])) && s->text[at])
        at++;
    return at > s->at && at < s->length && s->text[at] == ':' &&
           (at + 1 == s->length || isspace((unsigned char)s->text[at + 1]));
}

static void complain_of_yaml(scanner *s)
{
    static const char accelerate[] = "deepspeed_config_file";
    bool named = memmem(s->text, s->length, accelerate, strlen(accelerate)) != NULL;
    complain(s, s->at,
             "this is YAML, or Hjson without braces, and a configuration is JSON: one object, { \"key\": value, "
             "... }%s",
             named ? "; of Accelerate's own YAML, give the file that deepspeed_config_file names" : "");
}

/* ---- words, strings, numbers ---- */

/* Skips a value that is not a string, an object or a list, and returns the offset of its end. The value ends at a
 * comma, a bracket, a comment or the end of the line. */
static size_t skip_word(scanner *s)
{
    size_t from = s->at;
    while (s->at < s->length && !strchr(",]}[{\"#\n", s->text[s->at]) && !starts(s, "//") && !starts(s, "/*"))
        s->at++;
    size_t end = s->at;
    while (end > from && strchr(" \t\r", s->text[end - 1]))
        end--;
    return end;
}

static size_t digits(const char *word, size_t at, size_t length)
{
    while (at < length && word[at] >= '0' && word[at] <= '9')
        at++;
    return at;
}

/* Returns true if the word is a JSON number: -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)? */
static bool is_number(const char *word, size_t length)
{
    size_t at = length > 0 && word[0] == '-' ? 1 : 0;
    size_t next = digits(word, at, length);
    if (next == at || (word[at] == '0' && next > at + 1))
        return false;
    at = next;
    if (at < length && word[at] == '.') {
        next = digits(word, at + 1, length);
        if (next == at + 1)
            return false;
        at = next;
    }
    if (at < length && (word[at] == 'e' || word[at] == 'E')) {
        at += at + 1 < length && (word[at + 1] == '+' || word[at + 1] == '-') ? 2 : 1;
        next = digits(word, at, length);
        if (next == at)
            return false;
        at = next;
    }
    return at == length;
}

static bool same(const char *word, size_t length, const char *literal)
{
    return strlen(literal) == length && memcmp(word, literal, length) == 0;
}

static bool is_plain(const char *word, size_t length)
{
    return same(word, length, "true") || same(word, length, "false") || same(word, length, "null") ||
           is_number(word, length);
}

static void complain_of_word(scanner *s, const char *word, size_t length)
{
    size_t from = (size_t)(word - s->text);
    int shown = (int)(length < SHOWN ? length : SHOWN);
    if (length == 0)
        complain(s, from, "a value is missing here");
    else if (same(word, length, "True") || same(word, length, "False"))
        complain(s, from, "write %s, not %.*s", *word == 'T' ? "true" : "false", shown, word);
    else if (same(word, length, "None"))
        complain(s, from, "write null, not None");
    else if (same(word, length, "NaN"))
        complain(s, from, "NaN is not a value that any key takes");
    else if (length > 1 && *word >= 'A' && strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") >= length)
        complain(s, from, "%.*s is not a value: fill it in if this file is a template, or quote it", shown, word);
    else if (strchr("+-.0123456789", *word))
        complain(s, from, "%.*s is not a number in JSON", shown, word);
    else
        complain(s, from, "a string must be quoted: write \"%.*s\"", shown, word);
}

static void scan_word(scanner *s)
{
    size_t from = s->at, length = skip_word(s) - from, first = 0;
    const char *word = s->text + from, *infinity = "1.7e308 ";
    while (first < length && !strchr(" \t\r", word[first]))
        first++;
    if (is_plain(word, first)) /* only the valid word is skipped; the caller handles the rest of the line */
        s->at = from + first;
    else if (same(word, length, "Infinity"))
        memcpy(s->out->text + from, infinity, strlen(infinity));
    else if (same(word, length, "-Infinity"))
        memcpy(s->out->text + from + 1, infinity, strlen(infinity));
    else
        complain_of_word(s, word, length);
    if (s->at == from)
        s->at++; /* every call must advance by at least one byte, or the scan would not end */
}

static int add_node(scanner *s, ce_dialect_node node)
{
    ce_dialect *out = s->out;
    CE_MUST_HOLD(out->nodes, out->capacity, out->count + 1);
    out->nodes[out->count] = node;
    return out->count++;
}

static void check_duplicate(scanner *s, int parent, size_t key, size_t key_length, size_t key_place)
{
    int from = s->out->count - 1;
    for (int i = from; i > parent && from - i < SIBLINGS; i--) {
        const ce_dialect_node *other = &s->out->nodes[i];
        if (other->parent != parent || other->key_length != key_length ||
            memcmp(s->text + other->key, s->text + key, key_length) != 0)
            continue;
        int line, column;
        ce_dialect_place(s->text, s->length, other->key_place, &line, &column);
        complain(s, key_place, "the key \"%.*s\" stands here a second time; the first is in line %d",
                 (int)(key_length < SHOWN ? key_length : SHOWN), s->text + key, line);
        return;
    }
}

/* Reads the key of a member and the colon after it. Returns false if either is wrong: the error is reported, and the
 * caller continues at the present position. */
static bool scan_key(scanner *s, size_t *key, size_t *length)
{
    size_t from = s->at;
    if (peek(s) == '"' || peek(s) == '\'') {
        if (!skip_string(s))
            return false;
        *key = from + 1;
        *length = s->at - from - 2;
    } else {
        while (s->at < s->length && !strchr(":,]}[{\"'# \t\r\n/", s->text[s->at]))
            s->at++;
        *key = from;
        *length = s->at - from;
        if (*length == 0) {
            complain(s, from, "a key in double quotes is needed here");
            s->at++;
            return false;
        }
        complain(s, from, "a key must be quoted: write \"%.*s\"", (int)(*length < SHOWN ? *length : SHOWN),
                 s->text + from);
    }
    skip_space(s);
    if (peek(s) == ':') {
        s->at++;
        skip_space(s);
        return true;
    }
    complain(s, s->at < s->length ? s->at : from, "a colon is missing behind the key \"%.*s\"",
             (int)(*length < SHOWN ? *length : SHOWN), s->text + *key);
    return peek(s) == '=' ? s->at++, skip_space(s), true : false;
}

/* Reads the comma after a member of an object or a list. Reports an error if something else than a comma or a closing
 * bracket stands there. */
static void scan_comma(scanner *s, char close)
{
    skip_space(s);
    int c = peek(s);
    if (c == ',') {
        size_t comma = s->at++;
        skip_space(s);
        if (peek(s) == close)
            blank(s, comma, comma + 1);
        else if (peek(s) == ',')
            complain(s, s->at, "a value is missing between two commas");
        while (peek(s) == ',') {
            s->at++;
            skip_space(s);
        }
    } else if (c >= 0 && c != '}' && c != ']') {
        complain(s, s->at, "a comma is missing before this");
    }
}

static void scan_members(scanner *s, int self, char close)
{
    size_t open = s->out->nodes[self].place;
    int line, column;
    for (;;) {
        skip_space(s);
        int c = peek(s);
        if (c == '}' || c == ']' || c < 0) {
            ce_dialect_place(s->text, s->length, open, &line, &column);
            if (c < 0)
                complain(s, open, "the %s opened here is never closed", close == '}' ? "object" : "list");
            else if (c != close)
                complain(s, s->at, "'%c' closes what '%c' opened in line %d", c, s->text[open], line);
            s->at += c >= 0;
            return;
        }
        size_t key = 0, length = 0, place = s->at;
        if (close == '}' && skip_placeholder(s))
            continue;
        if (close == '}') {
            if (!scan_key(s, &key, &length))
                continue;
            check_duplicate(s, self, key, length, place);
        }
        scan_value(s, self, key, length, place);
        scan_comma(s, close);
    }
}

static void scan_value(scanner *s, int parent, size_t key, size_t key_length, size_t key_place)
{
    int self = add_node(s, (ce_dialect_node){ parent, key, key_length, key_place, s->at });
    int c = peek(s);
    if (skip_placeholder(s))
        return;
    if (c == '{' || c == '[') {
        if (s->depth == CE_DIALECT_DEPTH) {
            complain(s, s->at, "objects and lists are nested more than %d levels deep here", CE_DIALECT_DEPTH);
            s->at = s->length;
            return;
        }
        s->depth++;
        s->at++;
        scan_members(s, self, c == '{' ? '}' : ']');
        s->depth--;
    } else if (c == '"' || c == '\'') {
        skip_string(s);
    } else if (c < 0) {
        complain(s, key_place, "the value is missing: the file ends here");
    } else if (c == '}' || c == ']' || c == ',') {
        complain(s, s->at, "a value is missing here");
    } else {
        scan_word(s);
    }
}

void ce_dialect_scan(ce_dialect *dialect, const char *text, size_t length, ce_dialect_report *report, void *to)
{
    *dialect = (ce_dialect){ .text = ce_must_alloc(length + 1), .length = length };
    memcpy(dialect->text, text, length);
    scanner s = { .out = dialect, .text = text, .length = length, .report = report, .to = to };
    if (starts(&s, "\xef\xbb\xbf")) { /* the text begins with a byte order mark, which some editors write */
        blank(&s, 0, 3);
        s.at = 3;
    }
    skip_space(&s);
    if (s.at == length) {
        complain(&s, 0, "the text is empty: an object in braces is needed");
        return;
    }
    if (is_yaml(&s)) {
        complain_of_yaml(&s);
        return;
    }
    scan_value(&s, -1, 0, 0, s.at);
    skip_space(&s);
    if (s.at < length)
        complain(&s, s.at, "nothing may follow the value that ends before this");
}

void ce_dialect_free(ce_dialect *dialect)
{
    free(dialect->text);
    free(dialect->nodes);
    *dialect = (ce_dialect){ 0 };
}

int ce_dialect_find(const ce_dialect *dialect, const char *original, const char *path, int *exact)
{
    int here = dialect->count > 0 ? 0 : -1;
    *exact = here == 0;
    while (here >= 0 && *path) {
        size_t length = strcspn(path, ".");
        int child = here + 1;
        while (child < dialect->count &&
               !(dialect->nodes[child].parent == here && dialect->nodes[child].key_length == length &&
                 memcmp(original + dialect->nodes[child].key, path, length) == 0))
            child++;
        if (child == dialect->count) {
            *exact = 0;
            return here;
        }
        here = child;
        path += length + (path[length] == '.');
    }
    return here;
}

void ce_dialect_place(const char *text, size_t length, size_t offset, int *line, int *column)
{
    *line = *column = 1;
    for (size_t i = 0; i < offset && i < length; i++) {
        if (text[i] == '\n') {
            ++*line;
            *column = 1;
        } else if ((text[i] & 0xc0) != 0x80) {
            ++*column;
        }
    }
}
