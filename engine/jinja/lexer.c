/* lexer.c - splits a template's source into tokens. */
#include "lexer.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    ce_jrun *run;
    const char *source;
    size_t size, at;
    ce_jtoken *tokens;
    size_t count, capacity;
    char open[CE_JINJA_DEPTH]; /* the opening brackets of an expression that are not closed yet */
    int depth;
} lexer;

static bool sees(const lexer *l, size_t at, const char *text)
{
    size_t length = strlen(text);
    return l->size - at >= length && memcmp(l->source + at, text, length) == 0;
}

static char byte(const lexer *l, size_t at)
{
    return at < l->size ? l->source[at] : '\0';
}

static void push(lexer *l, ce_jtoken_kind kind, ce_jvalue value)
{
    if (l->count == l->capacity) {
        l->capacity = 2 * l->capacity + 64;
        l->tokens = ce_jrun_longer(l->run, l->tokens, l->count * sizeof *l->tokens, l->capacity * sizeof *l->tokens);
    }
    l->tokens[l->count++] = (ce_jtoken){ kind, l->run->line, value };
}

/* Advances to the offset `to`, and counts the lines in between. */
static void advance(lexer *l, size_t to)
{
    for (; l->at < to; l->at++)
        l->run->line += l->source[l->at] == '\n';
}

static void skip_space(lexer *l)
{
    size_t width;
    while (l->at < l->size && ce_unicode_is_space(ce_unicode_point(l->source, l->size, l->at, &width)))
        advance(l, l->at + width);
}

/* ---- text between tags ---- */

/* Returns the end of the text [from, to) before a tag, after white space is removed. The sign '-' in the tag removes
 * all white space before the tag, and '+' removes none. If the tag has no sign, blanks between the beginning of the
 * line and a block or comment are removed. */
static size_t strip_before(const lexer *l, size_t from, size_t to, char sign, bool is_print)
{
    size_t left, line = to;
    if (sign == '-') {
        while (to > from) {
            size_t last = to - 1, width;
            while (last > from && ((unsigned char)l->source[last] & 0xc0) == 0x80)
                last--;
            if (!ce_unicode_is_space(ce_unicode_point(l->source, to, last, &width)))
                break;
            to = last;
        }
        return to;
    }
    if (sign == '+' || is_print)
        return to;
    while (line > from && l->source[line - 1] != '\n')
        line--;
    bool at_start = line > from || from == 0 || l->source[from - 1] == '\n';
    ce_unicode_strip(l->source + line, to - line, &left);
    return at_start && left == 0 ? line : to;
}

static char sign_at(const lexer *l, size_t at)
{
    char sign = byte(l, at);
    return sign == '-' || sign == '+' ? sign : '\0';
}

/* Adds a token of the text from l->at up to the tag at `tag`. Advances behind the tag's opening characters and sign. */
static void push_data(lexer *l, size_t tag)
{
    char sign = tag < l->size ? sign_at(l, tag + 2) : '+';
    size_t end = strip_before(l, l->at, tag, sign, byte(l, tag + 1) == '{');
    if (end > l->at)
        push(l, CE_T_DATA, ce_jvalue_text(l->source + l->at, end - l->at));
    advance(l, tag < l->size ? tag + 2 + (sign != '\0') : tag);
}

static size_t find_tag(const lexer *l)
{
    size_t at = l->at;
    for (; at + 1 < l->size; at++)
        if (l->source[at] == '{' && l->source[at + 1] && strchr("{%#", l->source[at + 1]))
            return at;
    return l->size;
}

/* Advances behind the end of a block or comment, which is at `end`. `sign` is the sign before this end, or 0. */
static void end_tag(lexer *l, size_t end, char sign)
{
    advance(l, end + 2);
    if (sign == '-')
        skip_space(l);
    else if (sign != '+' && byte(l, l->at) == '\n')
        advance(l, l->at + 1);
}

static void skip_comment(lexer *l)
{
    size_t from = l->at, end = from;
    while (end < l->size && !sees(l, end, "#}"))
        end++;
    if (end == l->size)
        ce_jrun_fail(l->run, "a comment has no end, #}");
    end_tag(l, end, end > from ? sign_at(l, end - 1) : '\0');
}

static size_t skip_blanks(const lexer *l, size_t at)
{
    size_t width;
    while (at < l->size && ce_unicode_is_space(ce_unicode_point(l->source, l->size, at, &width)))
        at += width;
    return at;
}

/* If a tag that contains only `word` begins at `tag`, returns the offset of its "%}" and sets *sign to the sign before
 * "%}". Otherwise returns 0. */
static size_t lone_tag(const lexer *l, size_t tag, const char *word, char *sign)
{
    size_t at = skip_blanks(l, tag + 2 + (sign_at(l, tag + 2) != '\0'));
    if (!sees(l, tag, "{%") || !sees(l, at, word))
        return 0;
    at = skip_blanks(l, at + strlen(word));
    *sign = sign_at(l, at);
    at += *sign != '\0';
    return sees(l, at, "%}") ? at : 0;
}

/* If {% raw %}...{% endraw %} begins at `tag`, reads it and returns true; otherwise returns false. */
static bool read_raw(lexer *l, size_t tag)
{
    char sign;
    size_t end = lone_tag(l, tag, "raw", &sign);
    if (!end || sign == '+')
        return false;
    push_data(l, tag);
    advance(l, end + 2);
    if (sign == '-')
        skip_space(l);
    for (size_t at = l->at; at < l->size; at++)
        if ((end = lone_tag(l, at, "endraw", &sign)) > 0) {
            push_data(l, at);
            end_tag(l, end, sign);
            return true;
        }
    ce_jrun_fail(l->run, "{%% raw %%} has no {%% endraw %%}");
}

/* ---- expressions ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name(char c)
{
    return is_digit(c) || c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

static int digit_of(char c)
{
    return is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : 99;
}

static void read_whole(lexer *l, int base)
{
    int64_t whole = 0;
    for (; digit_of(byte(l, l->at)) < base || byte(l, l->at) == '_'; l->at++)
        if (byte(l, l->at) != '_' && (__builtin_mul_overflow(whole, base, &whole) ||
                                      __builtin_add_overflow(whole, digit_of(byte(l, l->at)), &whole)))
            ce_jrun_unsupported(l->run, "not supported: an integer above 2^63");
    push(l, CE_T_NUMBER, ce_jvalue_int(whole));
}

static size_t skip_digits(const lexer *l, size_t at)
{
    while (is_digit(byte(l, at)) || (byte(l, at) == '_' && is_digit(byte(l, at + 1))))
        at++;
    return at;
}

/* Returns the end of a number. A fraction or an exponent belongs to the number only if the fraction or exponent has
 * digits. After a point, as in "m.0.role", only digits belong to the number, because the number is an index. */
static size_t end_of_float(const lexer *l)
{
    size_t at = skip_digits(l, l->at);
    if (l->at > 0 && l->source[l->at - 1] == '.')
        return at;
    if (byte(l, at) == '.' && is_digit(byte(l, at + 1)))
        at = skip_digits(l, at + 1);
    if ((byte(l, at) | 0x20) == 'e') {
        size_t digits = at + 1 + (sign_at(l, at + 1) != '\0');
        at = is_digit(byte(l, digits)) ? skip_digits(l, digits) : at;
    }
    return at;
}

static void read_number(lexer *l)
{
    char letter = (char)(byte(l, l->at + 1) | 0x20), text[64];
    int base = byte(l, l->at) != '0' ? 10 : letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    size_t end = end_of_float(l), used = 0;
    if (base != 10 || end == skip_digits(l, l->at)) {
        l->at += base != 10 ? 2 : 0;
        read_whole(l, base);
        return;
    }
    for (; l->at < end && used + 1 < sizeof text; l->at++)
        if (byte(l, l->at) != '_')
            text[used++] = byte(l, l->at);
    text[used] = '\0';
    if (l->at < end)
        ce_jrun_unsupported(l->run, "not supported: a number of more than %zu characters", sizeof text - 1);
    push(l, CE_T_NUMBER, ce_jvalue_float(strtod(text, NULL)));
}

/* Reads up to `max` digits of an escape sequence. Returns false if there are fewer than `min`. */
static bool read_digits(lexer *l, size_t end, int base, int min, int max, int32_t *point)
{
    int count = 0;
    size_t at = l->at;
    for (*point = 0; count < max && at < end && digit_of(l->source[at]) < base; count++, at++)
        *point = *point * base + digit_of(l->source[at]);
    if (count >= min)
        l->at = at;
    return count >= min;
}

/* Appends the character that an escape sequence means in Python. An unknown sequence is appended with its backslash. */
static void read_escape(lexer *l, size_t end, ce_text *to)
{
    static const char letters[] = "\\'\"abfnrtv", bytes[] = "\\'\"\a\b\f\n\r\t\v";
    char letter = l->source[l->at++];
    const char *found = strchr(letters, letter);
    int32_t point;
    int digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (letter == '\n') {
        l->run->line++;
    } else if (found && letter) {
        ce_unicode_append(to, &bytes[found - letters], 1);
    } else if (digits > 0) {
        if (!read_digits(l, end, 16, digits, digits, &point) || point < 0 || point > 0x10ffff)
            ce_jrun_fail(l->run, "\\%c needs %d hexadecimal digits of a character", letter, digits);
        ce_unicode_append_point(to, point);
    } else if (letter >= '0' && letter <= '7') {
        l->at--;
        read_digits(l, end, 8, 1, 3, &point);
        ce_unicode_append_point(to, point);
    } else {
        ce_unicode_append(to, "\\", 1);
        ce_unicode_append(to, &letter, 1);
    }
}

static void read_text(lexer *l)
{
    char quote = l->source[l->at];
    size_t from = l->at + 1, end = from;
    while (end < l->size && l->source[end] != quote)
        end += l->source[end] == '\\' ? 2 : 1;
    if (end >= l->size)
        ce_jrun_fail(l->run, "a text literal has no end, %c", quote);
    ce_text *text = ce_jrun_capture(l->run);
    l->at = from;
    while (l->at < end) {
        size_t plain = l->at;
        while (plain < end && l->source[plain] != '\\')
            plain++;
        ce_unicode_append(text, l->source + l->at, plain - l->at);
        advance(l, plain);
        if (plain < end) {
            l->at++;
            read_escape(l, end, text);
        }
    }
    l->at = end + 1;
    push(l, CE_T_TEXT, ce_jrun_captured(l->run));
}

static void count_brackets(lexer *l, char c)
{
    static const char openings[] = "([{", closings[] = ")]}";
    const char *closing = strchr(closings, c);
    if (c && strchr(openings, c)) {
        if (l->depth == CE_JINJA_DEPTH)
            ce_jrun_fail(l->run, "brackets are nested more than %d levels deep", CE_JINJA_DEPTH);
        l->open[l->depth++] = c;
    } else if (c && closing && (l->depth == 0 || l->open[--l->depth] != openings[closing - closings]))
        ce_jrun_fail(l->run, "unexpected '%c'", c);
}

static void read_operator(lexer *l)
{
    static const char *const operators[] = { "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                             "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";" };
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (sees(l, l->at, operators[i])) {
            if (!operators[i][1])
                count_brackets(l, operators[i][0]);
            push(l, CE_T_OPERATOR, ce_jvalue_literal(operators[i]));
            l->at += strlen(operators[i]);
            return;
        }
    ce_jrun_fail(l->run, "unexpected character '%.1s'", l->source + l->at);
}

static bool read_end(lexer *l, bool is_print)
{
    const char *end = is_print ? "}}" : "%}";
    char sign = sign_at(l, l->at);
    if (l->depth > 0 || (is_print && sign == '+'))
        return false;
    if (!sees(l, l->at + (sign != '\0'), end))
        return false;
    push(l, is_print ? CE_T_PRINT_END : CE_T_BLOCK_END, ce_jvalue_literal(end));
    end_tag(l, l->at + (sign != '\0'), is_print && sign != '-' ? '+' : sign);
    return true;
}

static void read_expression(lexer *l, bool is_print)
{
    push(l, is_print ? CE_T_PRINT : CE_T_BLOCK, ce_jvalue_literal(is_print ? "{{" : "{%"));
    for (l->depth = 0;;) {
        skip_space(l);
        if (l->at >= l->size)
            ce_jrun_fail(l->run, "a tag has no end, %s", is_print ? "}}" : "%}");
        char c = l->source[l->at];
        if (read_end(l, is_print))
            return;
        if (is_digit(c))
            read_number(l);
        else if (c == '\'' || c == '"')
            read_text(l);
        else if (is_name(c)) {
            size_t from = l->at;
            while (is_name(byte(l, l->at)))
                l->at++;
            push(l, CE_T_NAME, ce_jvalue_copy(l->run, l->source + from, l->at - from));
        } else
            read_operator(l);
    }
}

/* Copies the source. CR LF and CR become LF, and one line break at the end is dropped. */
static char *normalize(ce_jrun *run, const char *source, size_t *size)
{
    char *copy = ce_jrun_alloc(run, *size + 1);
    size_t used = 0;
    for (size_t i = 0; i < *size; i++) {
        bool pair = source[i] == '\r' && i + 1 < *size && source[i + 1] == '\n';
        copy[used++] = source[i] == '\r' ? '\n' : source[i];
        i += pair;
    }
    *size = used - (used > 0 && copy[used - 1] == '\n');
    return copy;
}

ce_jtoken *ce_jlexer_split(ce_jrun *run, const char *source, size_t size)
{
    lexer l = { .run = run };
    run->line = 1;
    if (ce_unicode_valid(source, size) < size)
        ce_jrun_fail(run, "the template is not UTF-8");
    l.source = normalize(run, source, &size);
    l.size = size;
    while (l.at < l.size) {
        size_t tag = find_tag(&l);
        char kind = byte(&l, tag + 1);
        if (tag < l.size && kind == '%' && read_raw(&l, tag))
            continue;
        push_data(&l, tag);
        if (tag == l.size)
            break;
        if (kind == '#')
            skip_comment(&l);
        else
            read_expression(&l, kind == '{');
    }
    push(&l, CE_T_END, ce_jvalue_literal("the end of the template"));
    return l.tokens;
}
