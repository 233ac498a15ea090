/* normalizer.c - changes a text before it is cut into words. */
#include "text/normalizer.h"
#include "text/alphabet.h"

#include <stdlib.h>
#include <string.h>

#define SPACE_MARK "\xe2\x96\x81" /* U+2581, which SentencePiece writes for a space */

void ce_normalizer_free(ce_normalizer *normalizer)
{
    for (int i = 0; i < normalizer->count; i++) {
        ce_pattern_close(normalizer->steps[i].pattern);
        ce_charsmap_close(&normalizer->steps[i].map);
        free(normalizer->steps[i].content);
    }
    normalizer->count = 0;
}

void ce_normal_work_free(ce_normal_work *work)
{
    ce_made_free(&work->made[0]);
    ce_made_free(&work->made[1]);
    ce_unicode_free(&work->scratch);
    ce_matcher_close(work->matcher);
    *work = (ce_normal_work){ 0 };
}

static bool lines_part(const ce_normal_step *step)
{
    const char *literal = step->kind == CE_NORMAL_REPLACE ? ce_pattern_literal(step->pattern) : NULL;
    if (step->kind == CE_NORMAL_SENTENCE)
        return step->map.count == 0 && !step->sentence.remove_extra && !step->sentence.at_end;
    return step->kind == CE_NORMAL_PREPEND || step->kind == CE_NORMAL_BYTES ||
           (step->kind == CE_NORMAL_FORM && step->form == CE_FORM_NFC) || (literal && strcmp(literal, " ") == 0);
}

bool ce_normalizer_lines_part(const ce_normalizer *normalizer)
{
    for (int i = 0; i < normalizer->count; i++)
        if (!lines_part(&normalizer->steps[i]))
            return false;
    return true;
}

/* ---- steps that see the whole text ---- */

/* True if the text continues a document whose beginning has already got the prefix. */
static bool is_continuation(const ce_normal_work *work, ce_span text)
{
    return work->continued && ce_span_origin(text, 0) == 0;
}

static void replace(const ce_normal_step *step, ce_normal_work *work, ce_span text, ce_made *to)
{
    size_t done = 0, size = strlen(step->content);
    for (ce_match match = { 0 }; ce_pattern_next(step->pattern, work->matcher, text.bytes, text.size, &match);) {
        ce_made_keep(to, text, done, match.from - done);
        ce_made_put(to, text, match.from, step->content, size);
        done = match.to;
    }
    ce_made_keep(to, text, done, text.size - done);
}

/* Returns the end of the run that begins at `from`. A run is ASCII alone, or one ASCII character and the characters
 * beyond ASCII that follow it. No normalization form joins characters across the end of a run, because ASCII characters
 * do not combine with the character before them. */
static size_t run_end(ce_span text, size_t from, bool *ascii)
{
    size_t to = from;
    while (to < text.size && !(text.bytes[to] & 0x80))
        to++;
    *ascii = to > from + 1 || to == text.size;
    if (*ascii)
        return to == text.size ? to : to - 1;
    while (to < text.size && text.bytes[to] & 0x80)
        to++;
    return to;
}

static void bring_to_form(const ce_normal_step *step, ce_normal_work *work, ce_span text, ce_made *to)
{
    for (size_t from = 0, end; from < text.size; from = end) {
        bool ascii;
        end = run_end(text, from, &ascii);
        if (ascii || ce_unicode_is_normal(step->form, text.bytes + from, end - from)) {
            ce_made_keep(to, text, from, end - from);
            continue;
        }
        work->scratch.size = 0;
        ce_unicode_normalize(&work->scratch, step->form, text.bytes + from, end - from);
        ce_made_put(to, text, from, work->scratch.bytes, work->scratch.size);
    }
}

static void strip(const ce_normal_step *step, ce_span text, ce_made *to)
{
    size_t from = step->left ? ce_unicode_space_after(text.bytes, text.size, 0) : 0;
    size_t end = step->right ? ce_unicode_space_before(text.bytes, text.size) : text.size;
    if (from < end)
        ce_made_keep(to, text, from, end - from);
}

/* Looks up the replacement of each grapheme cluster; if there is no rule for a cluster, looks up each of its
 * characters. As in Hugging Face's library, the shortest rule that matches the beginning of the cluster or character is
 * used, and its replacement stands for the whole cluster or character. */
static void apply_precompiled(const ce_normal_step *step, ce_span text, ce_made *to)
{
    enum { LONGEST_CLUSTER = 5 };
    for (size_t from = 0, end, length, width; from < text.size; from = end) {
        end = ce_unicode_grapheme(text.bytes, text.size, from);
        const char *made = end - from <= LONGEST_CLUSTER
                               ? ce_charsmap_find(&step->map, text.bytes + from, end - from, false, &length)
                               : NULL;
        if (made) {
            ce_made_put(to, text, from, made, strlen(made));
            continue;
        }
        for (size_t place = from; place < end; place += width) {
            ce_unicode_point(text.bytes, text.size, place, &width);
            made = ce_charsmap_find(&step->map, text.bytes + place, width, false, &length);
            if (made)
                ce_made_put(to, text, place, made, strlen(made));
            else
                ce_made_keep(to, text, place, width);
        }
    }
}

/* ---- steps that see one character after the other ---- */

/* Returns the character that replaces `point` by SentencePiece's rules "nmt", which change white space and control
 * characters: 0 if `point` is dropped, -1 if it is unchanged. */
static int nmt(int32_t point)
{
    if ((point >= 1 && point <= 8) || point == 0xb || (point >= 0xe && point <= 0x1f) || point == 0x7f ||
        point == 0x8f || point == 0x9f)
        return 0;
    bool space = point == 9 || point == 0xa || point == 0xc || point == 0xd || point == 0x1680 ||
                 (point >= 0x200b && point <= 0x200f) || point == 0x2028 || point == 0x2029 || point == 0x2581 ||
                 point == 0xfeff || point == 0xfffd;
    return space ? ' ' : -1;
}

static int clean(int32_t point)
{
    if (point == '\t' || point == '\n' || point == '\r')
        return ' ';
    if (point == 0 || point == 0xfffd || ce_unicode_is_control(point))
        return 0;
    return ce_unicode_is_white(point) ? ' ' : -1;
}

static bool is_chinese(int32_t point)
{
    static const int32_t ranges[][2] = {
        { 0x3400, 0x4dbf },   { 0x4e00, 0x9fff },   { 0xf900, 0xfaff },   { 0x20000, 0x2a6df },
        { 0x2a700, 0x2b73f }, { 0x2b740, 0x2b81f }, { 0x2b920, 0x2ceaf }, { 0x2f800, 0x2fa1f },
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (point >= ranges[i][0] && point <= ranges[i][1])
            return true;
    return false;
}

/* Returns the character that replaces `point`: 0 if `point` is dropped, -1 if it is unchanged. */
static int replacement(const ce_normal_step *step, int32_t point)
{
    switch (step->kind) {
    case CE_NORMAL_NMT:
        return nmt(point);
    case CE_NORMAL_CLEAN:
        return clean(point);
    default:
        return ce_unicode_is_mark(point, step->nonspacing) ? 0 : -1;
    }
}

static void change_one(const ce_normal_step *step, ce_normal_work *work, ce_span text, size_t place, size_t width,
                       ce_made *to)
{
    int32_t point = ce_unicode_point(text.bytes, text.size, place, &(size_t){ 0 });
    work->scratch.size = 0;
    if (step->kind == CE_NORMAL_LOWERCASE) {
        ce_unicode_append_lower(&work->scratch, point);
    } else if (step->kind == CE_NORMAL_BYTES) {
        for (size_t i = 0; i < width; i++)
            ce_unicode_append_point(&work->scratch, ce_alphabet_point((unsigned char)text.bytes[place + i]));
    } else if (step->kind == CE_NORMAL_CHINESE && is_chinese(point)) {
        ce_unicode_append(&work->scratch, " ", 1);
        ce_unicode_append(&work->scratch, text.bytes + place, width);
        ce_unicode_append(&work->scratch, " ", 1);
    } else {
        int other = step->kind == CE_NORMAL_CHINESE ? -1 : replacement(step, point);
        if (other < 0)
            ce_made_keep(to, text, place, width);
        else if (other > 0)
            ce_made_put(to, text, place, (const char[]){ (char)other }, 1);
        return;
    }
    ce_made_put(to, text, place, work->scratch.bytes, work->scratch.size);
}

static void change_each(const ce_normal_step *step, ce_normal_work *work, ce_span text, ce_made *to)
{
    for (size_t place = 0, width; place < text.size; place += width) {
        ce_unicode_point(text.bytes, text.size, place, &width);
        change_one(step, work, text, place, width, to);
    }
}

/* ---- SentencePiece's ---- */

/* Sets *made and *size to the replacement of the bytes that begin at `place`. Returns the number of replaced bytes. */
static size_t next_piece(const ce_normal_step *step, ce_span text, size_t place, const char **made, size_t *size)
{
    size_t length = 0;
    const ce_specials *kept = step->sentence.kept;
    /* If there is no table of replacements (`map`) and no space is removed, only spaces are replaced. So the text up to
     * the next space is copied at once. */
    if (step->map.count == 0 && !step->sentence.remove_extra) {
        const char *from = text.bytes + place, *space = memchr(from, ' ', text.size - place);
        *made = from;
        return *size = !space ? text.size - place : space == from ? 1 : (size_t)(space - from);
    }
    const ce_special *symbol = kept ? ce_special_at(kept, text.bytes + place, text.size - place) : NULL;
    const char *rule =
        symbol ? NULL : ce_charsmap_find(&step->map, text.bytes + place, text.size - place, true, &length);
    if (rule) {
        *made = rule;
        *size = strlen(rule);
        return length;
    }
    if (symbol)
        length = symbol->size;
    else
        ce_unicode_point(text.bytes, text.size, place, &length);
    *made = text.bytes + place;
    return *size = length;
}

static void put_space(const ce_normal_step *step, ce_span text, size_t place, ce_made *to)
{
    if (step->sentence.escape)
        ce_made_put(to, text, place, SPACE_MARK, strlen(SPACE_MARK));
    else
        ce_made_put(to, text, place, " ", 1);
}

static void put_piece(const ce_normal_step *step, ce_span text, size_t place, const char *made, size_t size,
                      ce_made *to)
{
    if (made == text.bytes + place && !memchr(made, ' ', size)) {
        ce_made_keep(to, text, place, size);
        return;
    }
    for (size_t i = 0; i < size; i++)
        if (made[i] == ' ')
            put_space(step, text, place, to);
        else
            ce_made_put(to, text, place, made + i, 1);
}

static void drop_end(const ce_normal_step *step, ce_made *to)
{
    const char *space = step->sentence.escape ? SPACE_MARK : " ";
    size_t size = strlen(space), left = to->text.size;
    while (left >= size && memcmp(to->text.bytes + left - size, space, size) == 0)
        left -= size;
    ce_made_shorten(to, left);
}

static void apply_sentence(const ce_normal_step *step, ce_normal_work *work, ce_span text, ce_made *to)
{
    const ce_sentence_rules *rules = &step->sentence;
    const char *made;
    size_t place = 0, size, length;
    while (rules->remove_extra && place < text.size) {
        length = next_piece(step, text, place, &made, &size);
        if (size != 1 || *made != ' ')
            break;
        place += length;
    }
    if (place == text.size)
        return;
    bool prefix =
        rules->add_prefix && !is_continuation(work, text) && (!rules->only_first || ce_span_origin(text, 0) == 0);
    next_piece(step, text, place, &made, &size);
    if (rules->once && (*made == ' ' || (size >= 3 && memcmp(made, SPACE_MARK, 3) == 0)))
        prefix = false;
    if (prefix && !rules->at_end)
        put_space(step, text, place, to);
    for (bool after_space = rules->remove_extra; place < text.size; place += length) {
        length = next_piece(step, text, place, &made, &size);
        for (; after_space && size > 0 && *made == ' '; size--)
            made++;
        if (size == 0)
            continue;
        put_piece(step, text, place, made, size, to);
        after_space = rules->remove_extra && made[size - 1] == ' ';
    }
    if (rules->remove_extra)
        drop_end(step, to);
    if (prefix && rules->at_end)
        put_space(step, text, text.size - 1, to);
}

/* ---- applying ---- */

static void apply_step(const ce_normal_step *step, ce_normal_work *work, ce_span text, ce_made *to)
{
    switch (step->kind) {
    case CE_NORMAL_PREPEND:
        if (text.size > 0 && !is_continuation(work, text))
            ce_made_put(to, text, 0, step->content, strlen(step->content));
        ce_made_keep(to, text, 0, text.size);
        break;
    case CE_NORMAL_REPLACE:
        replace(step, work, text, to);
        break;
    case CE_NORMAL_FORM:
        bring_to_form(step, work, text, to);
        break;
    case CE_NORMAL_STRIP:
        strip(step, text, to);
        break;
    case CE_NORMAL_PRECOMPILED:
        apply_precompiled(step, text, to);
        break;
    case CE_NORMAL_SENTENCE:
        apply_sentence(step, work, text, to);
        break;
    default:
        change_each(step, work, text, to);
        break;
    }
}

ce_span ce_normalizer_apply(const ce_normalizer *normalizer, ce_normal_work *work, ce_span text)
{
    if (normalizer->count > 0 && !work->matcher)
        work->matcher = ce_matcher_open();
    for (int i = 0; i < normalizer->count; i++) {
        ce_made *to = &work->made[i & 1];
        ce_made_begin(to);
        apply_step(&normalizer->steps[i], work, text, to);
        text = ce_made_span(to);
    }
    return text;
}
