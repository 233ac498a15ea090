/* vocabulary.c - answers questions about the tokens of an open tokenizer. */
#include "base/must.h"
#include "text/parts.h"

#include <stdlib.h>
#include <string.h>

int64_t ce_tokenizer_size(const ce_tokenizer *tokenizer)
{
    return tokenizer->lexicon.size;
}

static const ce_special *find_text(const ce_specials *specials, const char *text)
{
    for (int64_t i = 0; i < specials->count; i++) {
        const ce_special *token = &specials->tokens[i];
        if (strcmp(token->content ? token->content : token->text, text) == 0)
            return token;
    }
    return NULL;
}

bool ce_tokenizer_has_added(const ce_tokenizer *tokenizer, const char *text)
{
    return find_text(&tokenizer->raw, text) || find_text(&tokenizer->normal, text);
}

int32_t ce_tokenizer_find(const ce_tokenizer *tokenizer, const char *token)
{
    const ce_special *found = find_text(&tokenizer->raw, token);
    if (!found)
        found = find_text(&tokenizer->normal, token);
    return found ? found->id : ce_lexicon_find(&tokenizer->lexicon, token, strlen(token));
}

int32_t ce_tokenizer_end(const ce_tokenizer *tokenizer)
{
    return tokenizer->end;
}

static bool has_special(const ce_specials *specials, int32_t id)
{
    for (int64_t i = 0; i < specials->count; i++)
        if (specials->tokens[i].id == id && specials->tokens[i].special)
            return true;
    return false;
}

bool ce_tokenizer_is_special(const ce_tokenizer *tokenizer, int32_t id)
{
    return has_special(&tokenizer->raw, id) || has_special(&tokenizer->normal, id);
}

const char *ce_tokenizer_template(const ce_tokenizer *tokenizer, const char *name)
{
    return json_string_value(json_object_get(tokenizer->templates, name));
}

void ce_tokenizer_templates(const ce_tokenizer *tokenizer, ce_names *names)
{
    const char *name;
    json_t *text;
    json_object_foreach (tokenizer->templates, name, text)
        ce_names_add(names, "\"%s\"", name);
}

const char *ce_tokenizer_begin_text(const ce_tokenizer *tokenizer)
{
    return tokenizer->begin_text;
}

const char *ce_tokenizer_end_text(const ce_tokenizer *tokenizer)
{
    return tokenizer->end_text;
}

/* ---- text of tokens ---- */

static void add_piece(const ce_tokenizer *tokenizer, ce_pieces *pieces, int32_t id)
{
    size_t size;
    const char *name = ce_lexicon_name(&tokenizer->lexicon, id, &size);
    if (size == 0)
        return;
    if (id < tokenizer->piece_count && tokenizer->has_no_text[id])
        return;
    if (tokenizer->unknown_text && id == tokenizer->lexicon.unknown)
        ce_pieces_add(pieces, tokenizer->unknown_text, strlen(tokenizer->unknown_text));
    else
        ce_pieces_add(pieces, name, size);
}

void ce_tokenizer_decode(const ce_tokenizer *tokenizer, const int32_t *ids, int64_t count, bool with_specials,
                         ce_text *to)
{
    CE_CLOSED(ce_pieces_free) ce_pieces pieces = { .count = 0 };
    for (int64_t i = 0; i < count; i++)
        if (with_specials || !ce_tokenizer_is_special(tokenizer, ids[i]))
            add_piece(tokenizer, &pieces, ids[i]);
    ce_decoder_text(&tokenizer->decoder, &pieces, false, to);
}

const char *ce_tokenizer_piece(const ce_tokenizer *tokenizer, int32_t id, size_t *size)
{
    *size = id < 0 || id >= tokenizer->lexicon.size ? 0 : tokenizer->shown[id].size;
    return *size > 0 ? tokenizer->shown_text.bytes + tokenizer->shown[id].from : "";
}

static void make_shown(ce_tokenizer *tokenizer)
{
    size_t count = (size_t)tokenizer->lexicon.size;
    CE_CLOSED(ce_pieces_free) ce_pieces piece = { .count = 0 };
    tokenizer->shown = ce_must_alloc((count + 1) * sizeof *tokenizer->shown);
    for (size_t id = 0; id < count; id++) {
        size_t size, from = tokenizer->shown_text.size;
        const char *name = ce_lexicon_name(&tokenizer->lexicon, (int64_t)id, &size);
        piece.count = piece.text.size = 0;
        if (size > 0)
            ce_pieces_add(&piece, name, size);
        ce_decoder_text(&tokenizer->decoder, &piece, true, &tokenizer->shown_text);
        tokenizer->shown[id] = (ce_lexicon_piece){ (uint32_t)from, (uint32_t)(tokenizer->shown_text.size - from) };
    }
}

/* ---- cutting ---- */

static bool is_letter(char c)
{
    return (c | 32) >= 'a' && (c | 32) <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* True if a special token may cover a line break that stands between a letter or digit and a letter. */
static bool spans_lines(const ce_specials *specials)
{
    for (int64_t i = 0; i < specials->count; i++) {
        const ce_special *token = &specials->tokens[i];
        char last = token->size > 0 ? token->text[token->size - 1] : 0;
        if (token->strip_left || memchr(token->text, '\n', token->size) ||
            (token->strip_right && (is_letter(last) || is_digit(last))))
            return true;
    }
    return false;
}

size_t ce_tokenizer_cut(const ce_tokenizer *tokenizer, const char *text, size_t size)
{
    if (tokenizer->is_bytes)
        return size;
    if (!tokenizer->has_cuts)
        return 0;
    /* `place` is the offset of the first byte of the part that would follow the cut. */
    for (size_t place = size - 1; size > 0 && place >= 2; place--)
        if (text[place - 1] == '\n' && is_letter(text[place]) &&
            (is_letter(text[place - 2]) || is_digit(text[place - 2])))
            return place;
    return 0;
}

void ce_tokenizer_finish(ce_tokenizer *tokenizer)
{
    make_shown(tokenizer);
    if (tokenizer->is_bytes)
        return;
    ce_special_sort(&tokenizer->raw);
    ce_special_sort(&tokenizer->normal);
    tokenizer->seams = ce_seams_find(&tokenizer->lexicon);
    ce_words_lines lines = ce_words_lines_part(tokenizer->words);
    bool parts = lines == CE_WORDS_CUTS ||
                 (lines == CE_WORDS_CUTS_IF_TOKENS_DO && tokenizer->seams.lines && !tokenizer->lexicon.whole_words);
    tokenizer->has_cuts = parts && ce_normalizer_lines_part(&tokenizer->normalizer) && !spans_lines(&tokenizer->raw) &&
                          !spans_lines(&tokenizer->normal);
}
