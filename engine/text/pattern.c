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

bool ce_pattern_compiles(const char *pattern)
{
    ce_pattern made = { .code = NULL };
    bool compiled = compile(&made, pattern) == CS_OK;
    pcre2_code_free(made.code);
    return compiled;
}

cs_status ce_pattern_open(ce_pattern **pattern, const char *text, ce_pattern_kind kind)
{
    ce_pattern *made = *pattern = ce_must_alloc(sizeof *made);
    if (kind == CE_PATTERN_LITERAL) {
        made->literal = ce_must_copy(text);
        made->literal_size = strlen(text);
        return CS_OK;
    }
    CE_CLOSED(ce_unicode_free) ce_text translated = { 0 };
    cs_status status = kind == CE_PATTERN_OWN ? CS_OK : ce_onig_translate(&translated, text);
    if (status == CS_OK)
        status = compile(made, kind == CE_PATTERN_OWN ? text : translated.bytes);
    if (status != CS_OK) {
        ce_pattern_close(made);
        *pattern = NULL;
    }
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
    ce_matcher *matcher = ce_must_alloc(sizeof *matcher);
    matcher->data = pcre2_match_data_create(1, NULL);
    matcher->context = pcre2_match_context_create(NULL);
    matcher->stack = pcre2_jit_stack_create(STACK_BYTES / 16, STACK_BYTES, NULL);
    CE_ASSERT(matcher->data && matcher->context);
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
        ce_fatal(CS_BAD_FILE, "a pattern could not be matched with a text of %zu bytes: %s", size,
                 (const char *)reason);
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
