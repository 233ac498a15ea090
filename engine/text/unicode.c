/* unicode.c - UTF-8 repair, normalization forms and character classes. This is the only file that calls utf8proc. */
#include "text/unicode.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

void ce_unicode_append(ce_text *text, const char *bytes, size_t size)
{
    CE_MUST_HOLD(text->bytes, text->capacity, text->size + size);
    if (size > 0)
        memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
}

void ce_unicode_free(ce_text *text)
{
    free(text->bytes);
    *text = (ce_text){ 0 };
}

/* ---- repair ---- */

/* Returns the size of the character at `text` and sets *whole to true. If the character is not valid, sets *whole to
 * false and returns the size of its longest valid prefix, but at least 1. */
static size_t step(const unsigned char *text, size_t size, bool *whole)
{
    unsigned char first = text[0], low = 0x80, high = 0xbf;
    size_t width = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    *whole = width == 1;
    if (width <= 1)
        return 1;
    if (first == 0xe0)
        low = 0xa0; /* This bound of the second byte excludes overlong encodings. */
    else if (first == 0xed)
        high = 0x9f; /* This bound of the second byte excludes surrogates. */
    else if (first == 0xf0)
        low = 0x90;
    else if (first == 0xf4)
        high = 0x8f; /* This bound of the second byte excludes code points above U+10FFFF. */
    for (size_t i = 1; i < width; i++, low = 0x80, high = 0xbf)
        if (i == size || text[i] < low || text[i] > high)
            return i;
    *whole = true;
    return width;
}

size_t ce_unicode_valid(const char *text, size_t size)
{
    size_t place = 0;
    bool whole = true;
    while (place < size) {
        uint64_t eight;
        if (size - place >= sizeof eight) { /* ASCII is skipped eight bytes at a time. */
            memcpy(&eight, text + place, sizeof eight);
            if (!(eight & 0x8080808080808080u)) {
                place += sizeof eight;
                continue;
            }
        }
        size_t width = step((const unsigned char *)text + place, size - place, &whole);
        if (!whole)
            break;
        place += width;
    }
    return place;
}

int64_t ce_unicode_repair(ce_text *to, const char *text, size_t size)
{
    int64_t repaired = 0;
    for (size_t from = 0; from < size;) {
        size_t valid = ce_unicode_valid(text + from, size - from);
        bool whole;
        ce_unicode_append(to, text + from, valid);
        from += valid;
        if (from == size)
            break;
        ce_unicode_append(to, "\xef\xbf\xbd", 3);
        from += step((const unsigned char *)text + from, size - from, &whole);
        repaired++;
    }
    return repaired;
}

/* ---- normalization forms ---- */

/* True only for characters with NFC_Quick_Check=Yes and combining class 0. A text of only such characters is in NFC.
 * False for some of these characters too, because the table does not contain all of them. */
static bool is_composed(utf8proc_int32_t point)
{
    static const utf8proc_int32_t ranges[][2] = {
        { 0, 0x2ff },       { 0x391, 0x3a9 },   { 0x3b1, 0x3ce },   { 0x400, 0x482 },
        { 0x48a, 0x52f },   { 0x2010, 0x2027 }, { 0x2030, 0x205e }, { 0x2190, 0x21ff },
        { 0x2500, 0x27bf }, { 0x3001, 0x3029 }, { 0x3041, 0x3096 }, { 0x30a1, 0x30fa },
        { 0x4e00, 0x9fff }, { 0xac00, 0xd7a3 }, { 0xff01, 0xff5e }, { 0x1f300, 0x1faff },
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges && point >= ranges[i][0]; i++)
        if (point <= ranges[i][1])
            return true;
    return false;
}

bool ce_unicode_is_normal(ce_unicode_form form, const char *text, size_t size)
{
    for (size_t place = 0; place < size;) {
        utf8proc_int32_t point = (unsigned char)text[place];
        if (point < 0x80) {
            place++;
            continue;
        }
        place +=
            (size_t)utf8proc_iterate((const utf8proc_uint8_t *)text + place, (utf8proc_ssize_t)(size - place), &point);
        if (form != CE_FORM_NFC || !is_composed(point))
            return false;
    }
    return true;
}

void ce_unicode_normalize(ce_text *to, ce_unicode_form form, const char *text, size_t size)
{
    static const utf8proc_option_t options[] = {
        [CE_FORM_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
        [CE_FORM_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
        [CE_FORM_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
        [CE_FORM_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
    };
    CE_FREED utf8proc_uint8_t *made = NULL;
    utf8proc_ssize_t width = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)size, &made, options[form]);
    CE_ASSERT(width >= 0); /* The text is valid UTF-8, so the only possible failure is a lack of memory. */
    ce_unicode_append(to, (const char *)made, (size_t)width);
}

/* ---- classes ---- */

static utf8proc_int32_t point_at(const char *text, size_t size, size_t place, size_t *width)
{
    utf8proc_int32_t point;
    utf8proc_ssize_t read =
        utf8proc_iterate((const utf8proc_uint8_t *)text + place, (utf8proc_ssize_t)(size - place), &point);
    *width = read > 0 ? (size_t)read : 1;
    return read > 0 ? point : 0xfffd;
}

static utf8proc_int32_t point_before(const char *text, size_t place, size_t *width)
{
    size_t from = place - 1;
    while (from > 0 && ((unsigned char)text[from] & 0xc0) == 0x80)
        from--;
    utf8proc_int32_t point = point_at(text, place, from, width);
    *width = place - from;
    return point;
}

/* True for the characters of words: letters, marks, digits, connector punctuation such as "_", U+200C and U+200D, and
 * the letters in circles (the last range). */
static bool is_word(utf8proc_int32_t point)
{
    utf8proc_category_t category = utf8proc_category(point);
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) || category == UTF8PROC_CATEGORY_PC ||
           point == 0x200c || point == 0x200d || (point >= 0x24b6 && point <= 0x24e9);
}

static bool is_space(utf8proc_int32_t point)
{
    utf8proc_category_t category = utf8proc_category(point);
    return (point >= '\t' && point <= '\r') || point == 0x85 ||
           (category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP);
}

bool ce_unicode_word_before(const char *text, size_t place)
{
    size_t width;
    return place > 0 && is_word(point_before(text, place, &width));
}

bool ce_unicode_word_at(const char *text, size_t size, size_t place)
{
    size_t width;
    return place < size && is_word(point_at(text, size, place, &width));
}

size_t ce_unicode_space_before(const char *text, size_t place)
{
    for (size_t width; place > 0 && is_space(point_before(text, place, &width));)
        place -= width;
    return place;
}

size_t ce_unicode_space_after(const char *text, size_t size, size_t place)
{
    for (size_t width; place < size && is_space(point_at(text, size, place, &width));)
        place += width;
    return place;
}

/* True for Unicode white space and for the four control characters that are white space only in Python. */
static bool is_stripped(utf8proc_int32_t point)
{
    return is_space(point) || (point >= 0x1c && point <= 0x1f);
}

const char *ce_unicode_strip(const char *text, size_t size, size_t *left)
{
    size_t from = 0;
    for (size_t width; from < size && is_stripped(point_at(text, size, from, &width));)
        from += width;
    for (size_t width; size > from && is_stripped(point_before(text, size, &width));)
        size -= width;
    *left = size - from;
    return text + from;
}

/* ---- code points ---- */

int32_t ce_unicode_point(const char *text, size_t size, size_t place, size_t *width)
{
    return point_at(text, size, place, width);
}

void ce_unicode_append_point(ce_text *to, int32_t point)
{
    utf8proc_uint8_t bytes[4];
    utf8proc_ssize_t width = utf8proc_encode_char(point, bytes);
    if (width > 0)
        ce_unicode_append(to, (const char *)bytes, (size_t)width);
    else
        ce_unicode_append(to, "\xef\xbf\xbd", 3); /* A surrogate has no form in UTF-8. */
}

size_t ce_unicode_length(const char *text, size_t size)
{
    size_t length = 0;
    for (size_t i = 0; i < size; i++)
        length += ((unsigned char)text[i] & 0xc0) != 0x80;
    return length;
}

bool ce_unicode_is_white(int32_t point)
{
    return is_space(point);
}

bool ce_unicode_is_mark(int32_t point, bool only_nonspacing)
{
    utf8proc_category_t category = utf8proc_category(point);
    return category == UTF8PROC_CATEGORY_MN ||
           (!only_nonspacing && (category == UTF8PROC_CATEGORY_MC || category == UTF8PROC_CATEGORY_ME));
}

bool ce_unicode_is_control(int32_t point)
{
    utf8proc_category_t category = utf8proc_category(point);
    return category >= UTF8PROC_CATEGORY_CC && category <= UTF8PROC_CATEGORY_CO;
}

void ce_unicode_append_lower(ce_text *to, int32_t point)
{
    if (point == 0x130)
        ce_unicode_append(to, "i\xcc\x87", 3);
    else
        ce_unicode_append_point(to, utf8proc_tolower(point));
}

size_t ce_unicode_grapheme(const char *text, size_t size, size_t place)
{
    utf8proc_int32_t state = 0;
    size_t width;
    for (int32_t before = point_at(text, size, place, &width), point; (place += width) < size; before = point) {
        point = point_at(text, size, place, &width);
        if (utf8proc_grapheme_break_stateful(before, point, &state))
            break;
    }
    return place;
}

bool ce_unicode_is_space(int32_t point)
{
    return is_stripped(point);
}

bool ce_unicode_is_printable(int32_t point)
{
    utf8proc_category_t category = utf8proc_category(point);
    return point == ' ' || (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_SO);
}

bool ce_unicode_is_cased(int32_t point)
{
    utf8proc_category_t category = utf8proc_category(point);
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LT;
}

void ce_unicode_change_case(ce_text *to, const char *text, size_t size, ce_unicode_case which)
{
    bool inside = false; /* True if the previous character is a cased letter. */
    for (size_t at = 0, width; at < size; at += width) {
        int32_t point = point_at(text, size, at, &width);
        bool upper = which == CE_CASE_UPPER || (which == CE_CASE_TITLE && !inside);
        inside = ce_unicode_is_cased(point);
        if (point == 0xdf && upper)
            ce_unicode_append(to, which == CE_CASE_TITLE ? "Ss" : "SS", 2);
        else if (!upper)
            ce_unicode_append_lower(to, point);
        else
            ce_unicode_append_point(to, which == CE_CASE_UPPER ? utf8proc_toupper(point) : utf8proc_totitle(point));
    }
}
