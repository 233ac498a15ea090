/* pattern.c - searches texts for literal texts and regular expressions. This is the only file that calls PCRE2. */
#include "text/pattern.h"
#include "base/must.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum { STACK_BYTES = 1 << 20 };

struct ce_pattern {
    pcre2_code *code; /* compiled expression; if NULL, `literal` is searched */
    char *literal;
    size_t literal_size;
};

struct ce_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/* ---- translating patterns from Oniguruma to PCRE2 ---- */

static cs_status refuse(const char *what, const char *pattern)
{
    return ce_fail(CS_UNSUPPORTED, "not supported: %s in the pattern %s, because engines read it differently", what,
                   pattern);
}

/* Translates the escape sequence at `from` and appends the result to `to`. Returns the last character of the sequence,
 * or NULL if the sequence is not supported. */
static const char *translate_escape(char **to, const char *from)
{
    static const char same[] = "dDpPrntfv";
    char letter = from[1];
    if (letter == 's' || letter == 'S') {
        /* PCRE2's \s matches U+180E, but \s of Oniguruma, for which the pattern was written, does not. */
        *to = stpcpy(*to, letter == 's' ? "\\p{White_Space}" : "\\P{White_Space}");
        return from + 1;
    }
    bool letter_or_digit = (letter >= '0' && letter <= '9') || ((letter | 32) >= 'a' && (letter | 32) <= 'z');
    if (!letter || (letter_or_digit && !strchr(same, letter)))
        return NULL;
    const char *last = (letter | 32) == 'p' && from[2] == '{' ? strchr(from, '}') : from + 1;
    if (last)
        *to = mempcpy(*to, from, (size_t)(last + 1 - from));
    return last;
}

/* In Oniguruma, ^ and $ match at the beginning and the end of each line. No line begins at the end of the text. */
static char *translate_anchor(char *to, char anchor)
{
    return stpcpy(to, anchor == '^' ? "(?:\\A|(?<=\\n)(?!\\z))" : "(?=\\n|\\z)");
}

static cs_status translate(char *to, const char *pattern)
{
    bool in_class = false;
    for (const char *c = pattern; *c; c++) {
        if (*c == '\\') {
            const char *last = translate_escape(&to, c);
            if (!last)
                return refuse((const char[]){ '\\', c[1], 0 }, pattern);
            c = last;
            continue;
        }
        if (in_class && (*c == '[' || (c[0] == '&' && c[1] == '&')))
            return refuse("a class within a class", pattern);
        if (!in_class && c[0] == '}' && c[1] == '+')
            return refuse("}+", pattern);
        if (!in_class && (*c == '^' || *c == '$')) {
            to = translate_anchor(to, *c);
            continue;
        }
        *to++ = *c;
        if (!in_class && *c == '[') {
            in_class = true;
            if (c[1] == '^')
                *to++ = *++c;
            if (c[1] == ']')
                return refuse("[]", pattern);
        } else if (in_class && *c == ']') {
            in_class = false;
        }
    }
    *to = 0;
    return CS_OK;
}

static cs_status compile(ce_pattern *made, const char *pattern)
{
    int error;
    size_t place;
    PCRE2_UCHAR reason[256];
    made->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP, &error, &place, NULL);
    if (!made->code) {
        pcre2_get_error_message(error, reason, sizeof reason);
        return ce_fail(CS_BAD_FILE, "the pattern %s is wrong at character %zu: %s", pattern, place,
                       (const char *)reason);
    }
    /* Where JIT is not available, matching is slower and gives the same result. */
    pcre2_jit_compile(made->code, PCRE2_JIT_COMPLETE);
    return CS_OK;
}

cs_status ce_pattern_open(ce_pattern **pattern, const char *text, ce_pattern_kind kind)
{
    ce_pattern *made = *pattern = calloc(1, sizeof *made);
    CS_ASSERT(made);
    if (kind == CS_PATTERN_LITERAL) {
        made->literal = strdup(text);
        CS_ASSERT(made->literal);
        made->literal_size = strlen(text);
        return CS_OK;
    }
    if (kind == CS_PATTERN_OWN)
        return compile(made, text);
    char *translated = malloc(24 * strlen(text) + 1);
    CS_ASSERT(translated);
    cs_status status = translate(translated, text);
    if (status == CS_OK)
        status = compile(made, translated);
    free(translated);
    return status;
}

void ce_pattern_close(ce_pattern *pattern)
{
    if (!pattern)
        return;
    pcre2_code_free(pattern->code);
    free(pattern->literal);
    free(pattern);
}

const char *ce_pattern_literal(const ce_pattern *pattern)
{
    return pattern->literal;
}

/* ---- searching ---- */

ce_matcher *ce_matcher_open(void)
{
    ce_matcher *matcher = calloc(1, sizeof *matcher);
    CS_ASSERT(matcher);
    matcher->data = pcre2_match_data_create(1, NULL);
    matcher->context = pcre2_match_context_create(NULL);
    matcher->stack = pcre2_jit_stack_create(STACK_BYTES / 16, STACK_BYTES, NULL);
    CS_ASSERT(matcher->data && matcher->context);
    /* If the stack is NULL, PCRE2 uses the machine stack. */
    pcre2_jit_stack_assign(matcher->context, NULL, matcher->stack);
    return matcher;
}

void ce_matcher_close(ce_matcher *matcher)
{
    if (!matcher)
        return;
    pcre2_match_data_free(matcher->data);
    pcre2_match_context_free(matcher->context);
    pcre2_jit_stack_free(matcher->stack);
    free(matcher);
}

static bool find_literal(const ce_pattern *pattern, const char *text, size_t size, ce_match *match)
{
    const char *found =
        pattern->literal_size == 1
            ? memchr(text + match->search, *pattern->literal, size - match->search)
            : memmem(text + match->search, size - match->search, pattern->literal, pattern->literal_size);
    if (!found)
        return false;
    match->from = (size_t)(found - text);
    match->search = match->to = match->from + pattern->literal_size;
    return true;
}

static bool find_regex(const ce_pattern *pattern, ce_matcher *matcher, const char *text, size_t size, ce_match *match)
{
    int outcome = pcre2_match(pattern->code, (PCRE2_SPTR)text, size, match->search, PCRE2_NO_UTF_CHECK, matcher->data,
                              matcher->context);
    if (outcome == PCRE2_ERROR_NOMATCH)
        return false;
    if (outcome < 0) {
        PCRE2_UCHAR reason[256];
        pcre2_get_error_message(outcome, reason, sizeof reason);
        ce_fatal(CS_BAD_FILE, "the tokenizer's pattern gave up on a text of %zu bytes: %s", size, (const char *)reason);
    }
    const PCRE2_SIZE *place = pcre2_get_ovector_pointer(matcher->data);
    match->from = place[0];
    match->to = place[1];
    return true;
}

/* Returns the offset of the character that follows the character at `place`. */
static size_t after(const char *text, size_t size, size_t place)
{
    for (place++; place < size && ((unsigned char)text[place] & 0xc0) == 0x80;)
        place++;
    return place;
}

bool ce_pattern_next(const ce_pattern *pattern, ce_matcher *matcher, const char *text, size_t size, ce_match *match)
{
    if (!pattern->code)
        return match->search < size && find_literal(pattern, text, size, match);
    for (size_t last = match->to; match->search <= size; match->search = after(text, size, match->search)) {
        if (!find_regex(pattern, matcher, text, size, match))
            return false;
        if (match->to == match->from && match->found && match->to == last)
            continue;
        match->found = true;
        match->search = match->to;
        return true;
    }
    return false;
}
