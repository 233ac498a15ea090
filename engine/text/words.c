/* words.c - pre-tokenization: cuts text into words with a tokenizer's regular expressions. The only file that calls
 * PCRE2. */
#include "text/words.h"
#include "base/must.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 16, STACK_BYTES = 1 << 20 };

typedef struct {
    pcre2_code *code;
    bool drop_between;
} cut_round;

struct ce_words {
    cut_round rounds[MOST_ROUNDS];
    int count;
    bool strange; /* some pattern is not in the table of known patterns */
};

struct ce_cutters {
    const ce_words *words;
    pcre2_match_data *match[MOST_ROUNDS];
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    ce_words_visit visit;
    void *visit_argument;
};

const char ce_words_gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
#define QWEN2_LIKE(digits)                                                                                             \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                                               \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
const char ce_words_qwen2[] = QWEN2_LIKE("\\p{N}");

static bool is_known(const char *pattern)
{
    static const char *const known[] = { ce_words_gpt2, ce_words_qwen2, QWEN2_LIKE("\\p{N}{1,3}"),
                                         "\\p{N}",      "\\p{N}+",      "\\p{N}{1,3}" };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], pattern) == 0)
            return true;
    return false;
}

/* ---- translating patterns from Oniguruma to PCRE2 ---- */

static cs_status refuse(const char *what, const char *pattern)
{
    return ce_fail(CS_UNSUPPORTED,
                   "not supported: %s in the pre_tokenizer's pattern %s, because engines read it differently", what,
                   pattern);
}

/* Translates the escape sequence at `from` and appends it to `to`; returns its last character, or NULL if it is not
 * supported. */
static const char *translate_escape(char **to, const char *from)
{
    static const char same[] = "dDpPrntfv";
    char letter = from[1];
    if (letter == 's' || letter == 'S') {
        /* PCRE2's \s includes U+180E, the pattern's engine does not */
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
        if (!in_class && (*c == '^' || *c == '$'))
            return refuse("^ or $", pattern);
        if (!in_class && c[0] == '}' && c[1] == '+')
            return refuse("}+", pattern);
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

static cs_status compile(cut_round *added, const char *pattern, uint32_t options)
{
    int error;
    size_t place;
    PCRE2_UCHAR reason[256];
    added->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, options, &error, &place, NULL);
    if (!added->code) {
        pcre2_get_error_message(error, reason, sizeof reason);
        return ce_fail(CS_BAD_FILE, "the pre_tokenizer's pattern %s is wrong at character %zu: %s", pattern, place,
                       (const char *)reason);
    }
    pcre2_jit_compile(added->code, PCRE2_JIT_COMPLETE); /* without JIT, matching is slower and gives the same result */
    return CS_OK;
}

ce_words *ce_words_open(void)
{
    ce_words *words = calloc(1, sizeof *words);
    CS_ASSERT(words);
    return words;
}

void ce_words_close(ce_words *words)
{
    for (int i = 0; words && i < words->count; i++)
        pcre2_code_free(words->rounds[i].code);
    free(words);
}

cs_status ce_words_add(ce_words *words, const char *pattern, ce_words_kind kind)
{
    cut_round *added = &words->rounds[words->count];
    if (words->count == MOST_ROUNDS)
        return ce_fail(CS_UNSUPPORTED, "not supported: more than %d steps of a pre_tokenizer", MOST_ROUNDS);
    char *translated = malloc(16 * strlen(pattern) + 1);
    CS_ASSERT(translated);
    cs_status status = CS_OK;
    if (kind == CS_WORDS_LITERAL)
        strcpy(translated, pattern);
    else
        status = translate(translated, pattern);
    if (status == CS_OK)
        status =
            compile(added, translated, kind == CS_WORDS_LITERAL ? PCRE2_UTF | PCRE2_LITERAL : PCRE2_UTF | PCRE2_UCP);
    free(translated);
    CS_TRY(status);
    added->drop_between = kind == CS_WORDS_REGEX_DROPPING;
    words->strange |= kind == CS_WORDS_LITERAL || !is_known(pattern);
    words->count++;
    return CS_OK;
}

bool ce_words_lines_part(const ce_words *words)
{
    return !words->strange;
}

/* ---- cutting ---- */

ce_cutters *ce_words_cutters(const ce_words *words)
{
    ce_cutters *cutters = calloc(1, sizeof *cutters);
    CS_ASSERT(cutters);
    cutters->words = words;
    cutters->context = pcre2_match_context_create(NULL);
    cutters->stack = pcre2_jit_stack_create(STACK_BYTES / 16, STACK_BYTES, NULL);
    CS_ASSERT(cutters->context);
    pcre2_jit_stack_assign(cutters->context, NULL, cutters->stack); /* NULL: uses the machine stack */
    for (int i = 0; i < words->count; i++) {
        cutters->match[i] = pcre2_match_data_create(1, NULL);
        CS_ASSERT(cutters->match[i]);
    }
    return cutters;
}

void ce_words_release(ce_cutters *cutters)
{
    if (!cutters)
        return;
    for (int i = 0; i < cutters->words->count; i++)
        pcre2_match_data_free(cutters->match[i]);
    pcre2_match_context_free(cutters->context);
    pcre2_jit_stack_free(cutters->stack);
    free(cutters);
}

/* Finds the next non-empty match from `from` on; false: there is none. */
static bool find_match(ce_cutters *cutters, int number, const char *text, size_t size, size_t *from, size_t *to)
{
    pcre2_match_data *match = cutters->match[number];
    int outcome = pcre2_match(cutters->words->rounds[number].code, (PCRE2_SPTR)text, size, *from,
                              PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match, cutters->context);
    if (outcome == PCRE2_ERROR_NOMATCH)
        return false;
    if (outcome < 0) {
        PCRE2_UCHAR reason[256];
        pcre2_get_error_message(outcome, reason, sizeof reason);
        ce_fatal(CS_BAD_FILE, "the tokenizer's pattern gave up on a text of %zu bytes: %s", size, (const char *)reason);
    }
    const PCRE2_SIZE *place = pcre2_get_ovector_pointer(match);
    *from = place[0];
    *to = place[1];
    return true;
}

static void cut(ce_cutters *cutters, int number, const char *text, size_t size)
{
    if (number == cutters->words->count) {
        cutters->visit(cutters->visit_argument, text, size);
        return;
    }
    bool drop = cutters->words->rounds[number].drop_between;
    size_t done = 0, from = 0, to = 0;
    for (; done < size && find_match(cutters, number, text, size, &from, &to); done = from = to) {
        if (from > done && !drop)
            cut(cutters, number + 1, text + done, from - done);
        cut(cutters, number + 1, text + from, to - from);
    }
    if (done < size && !drop)
        cut(cutters, number + 1, text + done, size - done);
}

void ce_words_each(ce_cutters *cutters, const char *text, size_t size, ce_words_visit visit, void *context)
{
    cutters->visit = visit;
    cutters->visit_argument = context;
    if (size > 0)
        cut(cutters, 0, text, size);
}
