/* onig.c - translates the regular expressions of tokenizer.json, which are written for Oniguruma, to PCRE2. */
#include "base/must.h"
#include "text/pattern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
/* Outside a class, \w and \b take the six numbers of Latin-1 that are no digits as parts of a word too. */
#define WIDE WORD "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}"
#define HEX "0-9a-fA-F"

enum { DEEPEST = 64, LONGEST_NAME = 64 };

/* `atom` is the offset in `to` of the last thing that a quantifier can stand behind. `groups` has for each open group
 * the offset where it begins, and how many groups were opened within it for options such as (?i), which count up to its
 * end. groups[0] is the whole pattern. */
typedef struct {
    const char *at, *pattern;
    ce_text *to;
    size_t atom;
    struct {
        size_t begin;
        int inner;
        bool folds; /* True if (?i) counts in the group. */
    } groups[DEEPEST];
    int depth;
} reader;

static cs_status refuse(const reader *r, const char *what)
{
    return ce_fail(CS_UNSUPPORTED,
                   "not supported: %s in the pattern %s, because regular-expression engines interpret it differently",
                   what, r->pattern);
}

static void put(ce_text *to, const char *text)
{
    ce_unicode_append(to, text, strlen(text));
}

static void put_text(ce_text *to, const ce_text *text)
{
    ce_unicode_append(to, text->bytes, text->size);
}

/* ---- escapes ---- */

/* Copies \p{NAME}. Oniguruma's name of a script means the characters of this script alone, PCRE2's means the characters
 * that are used in it. */
static cs_status translate_property(reader *r, ce_text *to)
{
    char name[LONGEST_NAME], script[LONGEST_NAME + 16];
    const char *end = strchr(r->at, '}');
    bool other = r->at[1] == 'P';
    if (r->at[2] != '{' || !end || end - r->at - 3 >= LONGEST_NAME)
        return refuse(r, "\\p without a name in braces");
    snprintf(name, sizeof name, "%.*s", (int)(end - r->at - 3), r->at + 3);
    char *plain = *name == '^' ? name + 1 : name;
    other ^= plain > name;
    snprintf(script, sizeof script, "\\%c{sc:%s}", other ? 'P' : 'p', plain);
    if (!ce_pattern_compiles(script))
        snprintf(script, sizeof script, "\\%c{%s}", other ? 'P' : 'p', plain);
    put(to, script);
    r->at = end + 1;
    return CS_OK;
}

/* Translates \uHHHH, \x{H…} and \xHH to \x{…}. */
static cs_status translate_number(reader *r, ce_text *to)
{
    char digits[16], escape[24];
    const char *from = r->at + 2;
    bool braces = r->at[1] == 'x' && *from == '{';
    size_t count = strspn(from += braces, "0123456789abcdefABCDEF"), wanted = r->at[1] == 'u' ? 4 : 2;
    count = !braces && count > wanted ? wanted : count;
    if (count == 0 || count > 8 || (r->at[1] == 'u' && count < 4) || (braces && from[count] != '}'))
        return refuse(r, (const char[]){ '\\', r->at[1], 0 });
    snprintf(digits, sizeof digits, "%.*s", (int)count, from);
    if (!braces && r->at[1] == 'x' && strtol(digits, NULL, 16) >= 0x80)
        return refuse(r, "\\x of a byte that is not a character");
    snprintf(escape, sizeof escape, "\\x{%s}", digits);
    put(to, escape);
    r->at = from + count + braces;
    return CS_OK;
}

/* Escape sequences whose meaning differs. `inside`: the list that stands for it in a class; `beside`: the expression that
 * a class has as an alternative, because it is no list; `outside`: what stands for it outside a class. */
static const struct {
    char letter;
    const char *inside, *beside, *outside;
} escapes[] = {
    { 's', "\\p{White_Space}", NULL, "\\p{White_Space}" },
    { 'S', "\\P{White_Space}", NULL, "\\P{White_Space}" },
    { 'w', WORD, NULL, "[" WIDE "]" },
    { 'W', NULL, "[^" WORD "]", "[^" WIDE "]" },
    { 'h', HEX, NULL, "[" HEX "]" },
    { 'H', NULL, "[^" HEX "]", "[^" HEX "]" },
    { 'b', "\\x08", NULL, "(?:(?<=[" WIDE "])(?![" WIDE "])|(?<![" WIDE "])(?=[" WIDE "]))" },
    { 'B', NULL, NULL, "(?:(?<=[" WIDE "])(?=[" WIDE "])|(?<![" WIDE "])(?![" WIDE "]))" },
    { 'v', "\\x0b", NULL, "\\x0b" },
    { 'a', "\\x07", NULL, "\\x07" },
    { 'e', "\\x1b", NULL, "\\x1b" },
    { 'A', NULL, NULL, "\\A" },
    { 'z', NULL, NULL, "\\z" },
    { 'Z', NULL, NULL, "\\Z" },
};

/* Translates the escape sequence at r->at. `others` receives what a class cannot hold; it is NULL outside a class. */
static cs_status translate_escape(reader *r, ce_text *to, ce_text *others)
{
    char letter = r->at[1];
    if (letter == 'p' || letter == 'P')
        return translate_property(r, to);
    if (letter == 'x' || letter == 'u')
        return translate_number(r, to);
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        const char *list = others ? escapes[i].inside : escapes[i].outside;
        if (escapes[i].letter != letter || !(list || escapes[i].beside))
            continue;
        if (!list)
            put(others, others->size > 0 ? "|" : "");
        put(list ? to : others, list ? list : escapes[i].beside);
        r->at += 2;
        return CS_OK;
    }
    bool letter_or_digit = (letter >= '0' && letter <= '9') || ((letter | 32) >= 'a' && (letter | 32) <= 'z');
    if (!letter || (letter_or_digit && !strchr("dDrntf", letter)))
        return refuse(r, (const char[]){ '\\', letter, 0 });
    ce_unicode_append(to, r->at, 2);
    r->at += 2;
    return CS_OK;
}

/* ---- classes ---- */

/* A class is the union of a list of characters, as in [a-z], and of alternatives that no list can hold. */
typedef struct {
    ce_text list, others, before; /* `before`: the operands of && that come before, as lookaheads */
} class;

/* Appends an expression that matches one character of the union. Returns false if the union is empty. */
static bool put_union(ce_text *to, const class *c)
{
    bool both = c->list.size > 0 && c->others.size > 0;
    put(to, both || c->others.size > 0 ? "(?:" : "");
    if (c->list.size > 0) {
        put(to, "[");
        put_text(to, &c->list);
        put(to, "]");
    }
    put(to, both ? "|" : "");
    put_text(to, &c->others);
    put(to, both || c->others.size > 0 ? ")" : "");
    return c->list.size + c->others.size > 0;
}

static void put_class(ce_text *to, const class *c, bool negated)
{
    if (c->others.size + c->before.size == 0) {
        put(to, negated ? "[^" : "[");
        put_text(to, &c->list);
        put(to, "]");
        return;
    }
    put(to, negated ? "(?:(?!" : "");
    put(to, c->before.size > 0 ? "(?:" : "");
    put_text(to, &c->before);
    put_union(to, c);
    put(to, c->before.size > 0 ? ")" : "");
    put(to, negated ? ")(?s:.))" : "");
}

/* Translates [:NAME:] at r->at. Sets *found to false if it is no such name. */
static cs_status translate_posix(reader *r, class *c, bool *found)
{
    static const char *const names[][2] = {
        { "alpha", "\\p{Alphabetic}" },
        { "digit", "\\p{Nd}" },
        { "alnum", "\\p{Alphabetic}\\p{Nd}" },
        { "upper", "\\p{Uppercase}" },
        { "lower", "\\p{Lowercase}" },
        { "space", "\\p{White_Space}" },
        { "word", WORD },
        { "xdigit", HEX },
        { "cntrl", "\\p{Cc}" },
        { "blank", "\\p{Zs}\\t" },
        { "ascii", "\\x00-\\x7f" },
        { "punct", "\\p{P}\\p{S}" },
    };
    const char *name = r->at + 2 + (r->at[2] == '^'), *end = strstr(name, ":]");
    *found = end && end - name < 20 && strspn(name, "abcdefghijklmnopqrstuvwxyz") == (size_t)(end - name);
    if (!*found)
        return CS_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i][0]) != (size_t)(end - name) || strncmp(names[i][0], name, strlen(names[i][0])) != 0)
            continue;
        ce_text *to = name > r->at + 2 ? &c->others : &c->list;
        put(to, to == &c->others ? to->size > 0 ? "|[^" : "[^" : "");
        put(to, names[i][1]);
        put(to, to == &c->others ? "]" : "");
        r->at = end + 2;
        return CS_OK;
    }
    return refuse(r, "a class [:NAME:] that is not known");
}

static cs_status translate_class(reader *r, ce_text *to, int depth);

/* Translates a set of characters at r->at within a class: an escape sequence, [:NAME:] or a class. */
static cs_status translate_set(reader *r, class *c, int depth)
{
    bool found = false;
    if (*r->at == '\\')
        return translate_escape(r, &c->list, &c->others);
    if (r->at[1] == ':')
        CE_TRY(translate_posix(r, c, &found));
    if (found)
        return CS_OK;
    put(&c->others, c->others.size > 0 ? "|" : "");
    return translate_class(r, &c->others, depth + 1);
}

/* Translates what stands at r->at within a class. */
static cs_status translate_member(reader *r, class *c, int depth)
{
    bool is_set = *r->at == '[' || (*r->at == '\\' && r->at[1] && strchr("sSwWdDhHpP", r->at[1]));
    if (*r->at == '\\' || *r->at == '[') {
        CE_TRY(translate_set(r, c, depth));
        if (is_set && *r->at == '-' && r->at[1] != ']') { /* No range begins with a set. */
            put(&c->list, "\\-");
            r->at++;
        }
        return CS_OK;
    }
    if (r->at[0] == '&' && r->at[1] == '&') {
        put(&c->before, "(?=");
        if (!put_union(&c->before, c))
            return refuse(r, "an && without a left side");
        put(&c->before, ")");
        c->list.size = c->others.size = 0;
        r->at += 2;
        return CS_OK;
    }
    put(&c->list, strchr(".:=", *r->at) ? "\\" : ""); /* PCRE2 reads [.x.] as one thing. */
    ce_unicode_append(&c->list, r->at++, 1);
    return CS_OK;
}

static void free_class(class *c)
{
    ce_unicode_free(&c->list);
    ce_unicode_free(&c->others);
    ce_unicode_free(&c->before);
}

/* Translates the class that begins at r->at to an expression that matches one character. */
static cs_status translate_class(reader *r, ce_text *to, int depth)
{
    CE_CLOSED(free_class) class c = { .list = { 0 } };
    bool negated = r->at[1] == '^';
    if (depth == DEEPEST)
        return refuse(r, "a class in so many others");
    r->at += 1 + negated;
    if (*r->at == ']')
        return refuse(r, "[]");
    if (depth > 0 && negated && r->groups[r->depth].folds)
        return refuse(r, "a negated class within a class under (?i)");
    while (*r->at != ']')
        CE_TRY(*r->at ? translate_member(r, &c, depth)
                      : ce_fail(CS_BAD_FILE, "the pattern %s has a class without end", r->pattern));
    if (c.list.size + c.others.size == 0)
        return refuse(r, "an && without a right side");
    put_class(to, &c, negated);
    r->at++;
    return CS_OK;
}

/* ---- groups and quantifiers ---- */

/* In Ruby's syntax, (?m) is what (?s) is in PCRE2. Options without a colon count up to the end of the group around them,
 * and become a group of their own. */
static cs_status translate_options(reader *r)
{
    size_t count = strspn(r->at + 2, "im-");
    char end = r->at[2 + count];
    if (count == 0 || (end != ':' && end != ')'))
        return refuse(r, "a group that begins with (? and is not known");
    put(r->to, "(?");
    for (size_t i = 0; i < count; i++)
        put(r->to, r->at[2 + i] == 'm' ? "s" : r->at[2 + i] == 'i' ? "i" : "-");
    put(r->to, ":");
    const char *i = memchr(r->at + 2, 'i', count), *minus = memchr(r->at + 2, '-', count);
    if (i)
        r->groups[r->depth].folds = !minus || i < minus;
    r->at += 3 + count;
    if (end == ')')
        r->groups[r->depth].inner++;
    return CS_OK;
}

static cs_status open_group(reader *r)
{
    static const char *const known[] = { "(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!" };
    size_t begin = r->to->size;
    const char *end;
    bool isolated = r->at[1] == '?' && r->at[2 + strspn(r->at + 2, "im-")] == ')';
    if (isolated)
        return translate_options(r);
    if (r->depth + 1 == DEEPEST)
        return refuse(r, "a group in so many others");
    r->groups[++r->depth].begin = begin;
    r->groups[r->depth].inner = 0;
    r->groups[r->depth].folds = r->groups[r->depth - 1].folds;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(r->at, known[i], strlen(known[i])) == 0) {
            put(r->to, known[i]);
            r->at += strlen(known[i]);
            return CS_OK;
        }
    if (strncmp(r->at, "(?<", 3) == 0 && (end = strchr(r->at, '>'))) { /* The name of a group has no effect. */
        put(r->to, "(");
        r->at = end + 1;
        return CS_OK;
    }
    if (r->at[1] == '?')
        return translate_options(r);
    put(r->to, "(");
    r->at++;
    return CS_OK;
}

static void close_inner(reader *r)
{
    for (; r->groups[r->depth].inner > 0; r->groups[r->depth].inner--)
        put(r->to, ")");
}

static cs_status close_group(reader *r)
{
    if (r->depth == 0)
        return ce_fail(CS_BAD_FILE, "the pattern %s is wrong at character %td: a ) without its (", r->pattern,
                       r->at - r->pattern);
    close_inner(r);
    put(r->to, ")");
    r->atom = r->groups[r->depth--].begin;
    r->at++;
    return CS_OK;
}

/* Makes a group of the text from the atom on. */
static void wrap(reader *r)
{
    CE_CLOSED(ce_unicode_free) ce_text tail = { 0 };
    ce_unicode_append(&tail, r->to->bytes + r->atom, r->to->size - r->atom);
    r->to->size = r->atom;
    put(r->to, "(?:");
    put_text(r->to, &tail);
    put(r->to, ")");
}

/* Translates {n,m}. In Ruby's syntax, + behind it repeats the whole, and {n}? means {0} or {n}. Sets *found to false if
 * the brace is a character. */
static cs_status translate_interval(reader *r, bool *found)
{
    const char *from = r->at + 1, *at = from + strspn(from, "0123456789");
    bool comma = *at == ',';
    const char *end = at + comma + (comma ? strspn(at + 1, "0123456789") : 0);
    *found = *end == '}' && end - from > comma;
    if (!*found)
        return CS_OK;
    put(r->to, at == from ? "{0" : "{");
    ce_unicode_append(r->to, from, (size_t)(end + 1 - from));
    r->at = end + 1;
    if (*r->at == '+' || (*r->at == '?' && !comma)) {
        wrap(r);
        ce_unicode_append(r->to, r->at++, 1);
        if (*r->at && strchr("+*?{", *r->at))
            return refuse(r, "}+ with another quantifier behind it");
    } else if (*r->at == '?') {
        ce_unicode_append(r->to, r->at++, 1);
    }
    return CS_OK;
}

/* In Oniguruma, ^ and $ match at the beginning and the end of each line. No line begins at the end of the text. */
static void translate_anchor(reader *r)
{
    put(r->to, *r->at++ == '^' ? "(?:\\A|(?<=\\n)(?!\\z))" : "(?=\\n|\\z)");
}

static cs_status translate_next(reader *r)
{
    bool found = false;
    if (*r->at == '{')
        CE_TRY(translate_interval(r, &found));
    if (found)
        return CS_OK;
    if (strchr("*+?", *r->at)) {
        ce_unicode_append(r->to, r->at++, 1);
        return CS_OK;
    }
    const char *end = strncmp(r->at, "(?#", 3) == 0 ? strchr(r->at, ')') : NULL;
    if (end) { /* a comment */
        r->at = end + 1;
        return CS_OK;
    }
    if (*r->at == ')')
        return close_group(r);
    r->atom = r->to->size;
    if (*r->at == '(')
        return open_group(r);
    if (*r->at == '[')
        return translate_class(r, r->to, 0);
    if (*r->at == '\\')
        return translate_escape(r, r->to, NULL);
    if (*r->at == '^' || *r->at == '$') {
        translate_anchor(r);
        return CS_OK;
    }
    do /* A character may have several bytes. */
        ce_unicode_append(r->to, r->at++, 1);
    while (((unsigned char)*r->at & 0xc0) == 0x80);
    return CS_OK;
}

cs_status ce_onig_translate(ce_text *to, const char *pattern)
{
    reader r = { .at = pattern, .pattern = pattern, .to = to };
    while (*r.at)
        CE_TRY(translate_next(&r));
    if (r.depth > 0)
        return ce_fail(CS_BAD_FILE, "the pattern %s is wrong at character %zu: a ( without its )", pattern,
                       strlen(pattern));
    close_inner(&r);
    ce_unicode_append(to, "", 1);
    return CS_OK;
}
