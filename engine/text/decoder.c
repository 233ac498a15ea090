/* decoder.c - makes text from tokens. A decoder is a sequence of steps; each step turns a list of texts into another
 * list of texts. */
#include "text/decoder.h"
#include "base/must.h"
#include "text/alphabet.h"

#include <stdlib.h>
#include <string.h>

#define SPACE_MARK "\xe2\x96\x81"
#define REPLACEMENT "\xef\xbf\xbd"

typedef struct {
    const char *bytes;
    size_t size;
} part;

typedef struct {
    const ce_decode_step *step;
    const ce_pieces *from;
    ce_pieces *to;
    bool middle;
} work;

/* ---- lists ---- */

static void end_piece(ce_pieces *pieces)
{
    CE_MUST_HOLD(pieces->ends, pieces->capacity, pieces->count + 1);
    pieces->ends[pieces->count++] = pieces->text.size;
}

void ce_pieces_add(ce_pieces *pieces, const char *text, size_t size)
{
    ce_unicode_append(&pieces->text, text, size);
    end_piece(pieces);
}

void ce_pieces_free(ce_pieces *pieces)
{
    ce_unicode_free(&pieces->text);
    free(pieces->ends);
    *pieces = (ce_pieces){ 0 };
}

static part piece_of(const ce_pieces *pieces, size_t index)
{
    size_t from = index > 0 ? pieces->ends[index - 1] : 0;
    return (part){ pieces->text.bytes ? pieces->text.bytes + from : "", pieces->ends[index] - from };
}

static bool begins_with(part text, const char *with)
{
    return text.size >= strlen(with) && memcmp(text.bytes, with, strlen(with)) == 0;
}

/* Appends `text`, in which each occurrence of `what` is replaced by `with`. */
static void append_replaced(ce_text *to, part text, const char *what, const char *with)
{
    size_t size = strlen(what);
    for (const char *found; size > 0 && (found = memmem(text.bytes, text.size, what, size)) != NULL;) {
        size_t before = (size_t)(found - text.bytes);
        ce_unicode_append(to, text.bytes, before);
        ce_unicode_append(to, with, strlen(with));
        text = (part){ found + size, text.size - before - size };
    }
    ce_unicode_append(to, text.bytes, text.size);
}

/* ---- bytes ---- */

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

/* Returns the byte that a token such as <0x0A> stands for, or -1 if the token is of another form. */
static int byte_of(part token)
{
    if (token.size != 6 || !begins_with(token, "<0x") || token.bytes[5] != '>')
        return -1;
    int high = digit(token.bytes[3]), low = digit(token.bytes[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

/* Appends a run of bytes as Hugging Face's library tokenizers does: as one text if the run is valid UTF-8, otherwise as
 * one U+FFFD for each byte. */
static void end_run(const work *w, ce_text *run)
{
    bool valid = ce_unicode_valid(run->bytes ? run->bytes : "", run->size) == run->size;
    if (run->size > 0 && (valid || w->middle))
        ce_pieces_add(w->to, run->bytes, run->size);
    for (size_t i = 0; i < run->size && !valid && !w->middle; i++)
        ce_pieces_add(w->to, REPLACEMENT, strlen(REPLACEMENT));
    run->size = 0;
}

static void fall_back(const work *w)
{
    CE_CLOSED(ce_unicode_free) ce_text run = { 0 };
    for (size_t i = 0; i < w->from->count; i++) {
        part token = piece_of(w->from, i);
        int byte = byte_of(token);
        if (byte >= 0) {
            ce_unicode_append(&run, (const char[]){ (char)byte }, 1);
            continue;
        }
        end_run(w, &run);
        ce_pieces_add(w->to, token.bytes, token.size);
    }
    end_run(w, &run);
}

static void read_alphabet(const work *w)
{
    CE_CLOSED(ce_unicode_free) ce_text bytes = { 0 };
    for (size_t i = 0; i < w->from->count; i++) {
        part token = piece_of(w->from, i);
        CE_FREED char *raw = ce_must_alloc(token.size + 1);
        int64_t count = ce_alphabet_read(token.bytes, token.size, raw);
        ce_unicode_append(&bytes, count >= 0 ? raw : token.bytes, count >= 0 ? (size_t)count : token.size);
    }
    if (w->middle)
        ce_unicode_append(&w->to->text, bytes.bytes, bytes.size);
    else
        ce_unicode_repair(&w->to->text, bytes.bytes ? bytes.bytes : "", bytes.size);
    end_piece(w->to);
}

/* ---- each token for itself ---- */

static void replace(const work *w, part token, ce_matcher *matcher)
{
    ce_text *to = &w->to->text;
    size_t done = 0;
    for (ce_match match = { 0 }; ce_pattern_next(w->step->pattern, matcher, token.bytes, token.size, &match);) {
        ce_unicode_append(to, token.bytes + done, match.from - done);
        ce_unicode_append(to, w->step->other, strlen(w->step->other));
        done = match.to;
    }
    ce_unicode_append(to, token.bytes + done, token.size - done);
}

static void strip(const work *w, part token)
{
    size_t size = strlen(w->step->text);
    for (int64_t i = 0; i < w->step->start && begins_with(token, w->step->text); i++)
        token = (part){ token.bytes + size, token.size - size };
    for (int64_t i = 0; i < w->step->stop && token.size >= size; i++) {
        if (memcmp(token.bytes + token.size - size, w->step->text, size) != 0)
            break;
        token.size -= size;
    }
    ce_unicode_append(&w->to->text, token.bytes, token.size);
}

/* Removes the spaces in front of punctuation and of English endings such as "n't". */
static void clean_up(ce_text *text)
{
    static const char *const pairs[][2] = {
        { " .", "." },   { " ?", "?" },     { " !", "!" },     { " ,", "," },
        { " ' ", "'" },  { " n't", "n't" }, { " 'm", "'m" },   { " do not", " don't" },
        { " 's", "'s" }, { " 've", "'ve" }, { " 're", "'re" },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        ce_text next = { 0 };
        append_replaced(&next, (part){ text->bytes ? text->bytes : "", text->size }, pairs[i][0], pairs[i][1]);
        ce_unicode_free(text);
        *text = next;
    }
}

static void join_word(const work *w, part token, bool first)
{
    CE_CLOSED(ce_unicode_free) ce_text made = { 0 };
    const char *prefix = w->step->text;
    if (first)
        ce_unicode_append(&made, token.bytes, token.size);
    else if (begins_with(token, prefix))
        ce_unicode_append(&made, token.bytes + strlen(prefix), token.size - strlen(prefix));
    else {
        ce_unicode_append(&made, " ", 1);
        ce_unicode_append(&made, token.bytes, token.size);
    }
    if (w->step->cleanup)
        clean_up(&made);
    ce_unicode_append(&w->to->text, made.bytes, made.size);
}

static void decode_each(const work *w)
{
    const ce_decode_step *step = w->step;
    ce_matcher *matcher =
        step->kind == CE_DECODE_REPLACE && !ce_pattern_literal(step->pattern) ? ce_matcher_open() : NULL;
    for (size_t i = 0; i < w->from->count; i++) {
        part token = piece_of(w->from, i);
        bool first = i == 0 && !w->middle, last = i + 1 == w->from->count && !w->middle;
        switch (step->kind) {
        case CE_DECODE_REPLACE:
            replace(w, token, matcher);
            break;
        case CE_DECODE_STRIP:
            strip(w, token);
            break;
        case CE_DECODE_METASPACE:
            append_replaced(&w->to->text, token, step->text, first && step->prefixed ? "" : " ");
            break;
        case CE_DECODE_SUFFIX:
            append_replaced(&w->to->text, token, step->text, last ? "" : " ");
            break;
        default:
            join_word(w, token, first);
            break;
        }
        end_piece(w->to);
    }
    ce_matcher_close(matcher);
}

/* ---- CTC ---- */

/* Writes one token for each run of equal tokens. Equal tokens with a padding token between them are separate runs. */
static void decode_ctc(const work *w)
{
    part before = { NULL, 0 };
    for (size_t i = 0; i < w->from->count; i++) {
        part token = piece_of(w->from, i);
        bool repeated = before.bytes && before.size == token.size && memcmp(before.bytes, token.bytes, token.size) == 0;
        before = token;
        if (repeated)
            continue;
        CE_CLOSED(ce_unicode_free) ce_text made = { 0 };
        size_t begin = w->to->text.size;
        append_replaced(&made, token, w->step->text, "");
        if (w->step->cleanup)
            clean_up(&made);
        part cleaned = { made.bytes ? made.bytes : "", made.size };
        append_replaced(&w->to->text, cleaned, w->step->cleanup ? w->step->other : "", " ");
        if (w->to->text.size > begin)
            end_piece(w->to);
    }
}

/* ---- SentencePiece ---- */

/* Appends a run of bytes. If `middle` is true, the bytes are not changed. Otherwise each byte that is not part of a
 * valid character becomes U+FFFD. */
static void append_valid(ce_text *to, ce_text *run, bool middle)
{
    for (size_t place = 0; place < run->size;) {
        size_t valid = middle ? run->size : ce_unicode_valid(run->bytes + place, run->size - place);
        ce_unicode_append(to, run->bytes + place, valid);
        if ((place += valid) < run->size) {
            ce_unicode_append(to, REPLACEMENT, strlen(REPLACEMENT));
            place++;
        }
    }
    run->size = 0;
}

static void decode_sentence(const work *w)
{
    ce_text run = { 0 }, *to = &w->to->text;
    bool begins = !w->middle, stripped = false;
    for (size_t i = 0; i < w->from->count; i++) {
        part token = piece_of(w->from, i);
        int byte = byte_of(token);
        if (byte >= 0) {
            ce_unicode_append(&run, (const char[]){ (char)byte }, 1);
            continue;
        }
        append_valid(to, &run, w->middle);
        if (stripped || to->size > 0)
            begins = false;
        stripped = false;
        if (begins && w->step->prefixed && begins_with(token, SPACE_MARK)) {
            token = (part){ token.bytes + strlen(SPACE_MARK), token.size - strlen(SPACE_MARK) };
            stripped = !w->step->all;
        }
        append_replaced(to, token, SPACE_MARK, " ");
    }
    append_valid(to, &run, w->middle);
    ce_unicode_free(&run);
    end_piece(w->to);
}

/* ---- the sequence of steps ---- */

static void run_step(const work *w)
{
    switch (w->step->kind) {
    case CE_DECODE_BYTE_FALLBACK:
        fall_back(w);
        break;
    case CE_DECODE_FUSE:
        ce_pieces_add(w->to, w->from->text.bytes, w->from->text.size);
        break;
    case CE_DECODE_BYTES:
        read_alphabet(w);
        break;
    case CE_DECODE_CTC:
        decode_ctc(w);
        break;
    case CE_DECODE_SENTENCE:
        decode_sentence(w);
        break;
    default:
        decode_each(w);
        break;
    }
}

/* True if a step must not be applied in the middle of a text. This is a strip step that follows the joining of all
 * tokens, because it removes characters only at the two ends of the whole text. */
static bool is_left_out(const ce_decoder *decoder, int number)
{
    for (int i = 0; i < number && decoder->steps[number].kind == CE_DECODE_STRIP; i++)
        if (decoder->steps[i].kind == CE_DECODE_FUSE || decoder->steps[i].kind == CE_DECODE_BYTES)
            return true;
    return false;
}

void ce_decoder_text(const ce_decoder *decoder, const ce_pieces *tokens, bool middle, ce_text *to)
{
    ce_pieces made[2] = { { .count = 0 }, { .count = 0 } };
    const ce_pieces *from = tokens;
    for (int i = 0; i < decoder->count && tokens->count > 0; i++) {
        if (middle && is_left_out(decoder, i))
            continue;
        ce_pieces *next = &made[from == &made[0]];
        next->count = next->text.size = 0;
        run_step(&(work){ &decoder->steps[i], from, next, middle });
        from = next;
    }
    for (size_t i = 0; i < from->count; i++) {
        part piece = piece_of(from, i);
        if (decoder->spaced && (i > 0 || middle))
            ce_unicode_append(to, " ", 1);
        ce_unicode_append(to, piece.bytes, piece.size);
    }
    ce_pieces_free(&made[0]);
    ce_pieces_free(&made[1]);
}

void ce_decoder_free(ce_decoder *decoder)
{
    for (int i = 0; i < decoder->count; i++) {
        ce_pattern_close(decoder->steps[i].pattern);
        free(decoder->steps[i].text);
        free(decoder->steps[i].other);
    }
    decoder->count = 0;
}
