/* sentencepiece.c - reads SentencePiece's tokenizer.model: a message of Protocol Buffers with the pieces, their scores,
 * and the rules of the normalizer.
 *
 * SentencePiece's BPE always merges the two neighbours that together form the piece with the highest score. A table of
 * merges has the same effect: it has one merge for each way to divide a piece into two other pieces, and the rank of
 * the merge is the rank of the whole piece's score. */
#include "base/must.h"
#include "text/parts.h"
#include "text/protobuf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

typedef struct {
    const char *text;
    size_t size;
    float score;
    int kind, rank;
} piece;

typedef struct {
    int32_t left, right, rank, id;
} pair;

typedef struct {
    piece *pieces;
    size_t count, capacity;
    pair *pairs;
    size_t pair_count, pair_capacity;
    int model, begin, end;
    bool byte_fallback, at_end, changes_output;
    const char *unknown_text;
    size_t unknown_size;
    bool add_prefix, remove_extra, escape;
    bool legacy, once, by_id, drops_unknown; /* rules of the class, see choose_rules */
    const char *map;
    size_t map_size;
} model;

/* ---- the messages ---- */

static cs_status end_of(const ce_protobuf *message, const char *what)
{
    return message->damaged ? ce_fail(CS_BAD_FILE, "%s is damaged: it is not a message of Protocol Buffers", what)
                            : CS_OK;
}

static cs_status read_piece(model *m, ce_protobuf message)
{
    ce_protobuf_field field;
    piece read = { .kind = NORMAL };
    while (ce_protobuf_next(&message, &field)) {
        if (field.number == 1 && field.bytes) {
            read.text = field.bytes;
            read.size = field.size;
        } else if (field.number == 2) {
            read.score = ce_protobuf_float(&field);
        } else if (field.number == 3) {
            read.kind = (int)field.value;
        }
    }
    CE_TRY(end_of(&message, "a piece"));
    if (read.size == 0 || ce_unicode_valid(read.text, read.size) < read.size || !isfinite(read.score))
        return ce_fail(CS_BAD_FILE, "piece %zu has no text, a text that is not UTF-8, or no score", m->count);
    if (read.kind < NORMAL || read.kind > BYTE || read.kind == UNUSED)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: piece %zu is of type %d; supported are the types 1 to 4 and 6 (5 is unused)",
                       m->count, read.kind);
    CE_MUST_HOLD(m->pieces, m->capacity, m->count + 1);
    m->pieces[m->count++] = read;
    return CS_OK;
}

static cs_status read_trainer(model *m, ce_protobuf message)
{
    ce_protobuf_field field;
    while (ce_protobuf_next(&message, &field)) {
        switch (field.number) {
        case 3:
            m->model = (int)field.value;
            break;
        case 24:
            m->at_end = field.value != 0;
            break;
        case 35:
            m->byte_fallback = field.value != 0;
            break;
        case 41:
            m->begin = (int)(int64_t)field.value;
            break;
        case 42:
            m->end = (int)(int64_t)field.value;
            break;
        case 44:
            m->unknown_text = field.bytes;
            m->unknown_size = field.size;
            break;
        default:
            break;
        }
    }
    return end_of(&message, "trainer_spec");
}

static cs_status read_normalizer(model *m, ce_protobuf message)
{
    ce_protobuf_field field;
    while (ce_protobuf_next(&message, &field)) {
        switch (field.number) {
        case 2:
            m->map = field.bytes;
            m->map_size = field.size;
            break;
        case 3:
            m->add_prefix = field.value != 0;
            break;
        case 4:
            m->remove_extra = field.value != 0;
            break;
        case 5:
            m->escape = field.value != 0;
            break;
        default:
            break;
        }
    }
    return end_of(&message, "normalizer_spec");
}

static cs_status read_denormalizer(model *m, ce_protobuf message)
{
    ce_protobuf_field field;
    while (ce_protobuf_next(&message, &field))
        m->changes_output |= field.number == 2 && field.size > 0;
    return end_of(&message, "denormalizer_spec");
}

static cs_status read_messages(model *m, ce_protobuf message)
{
    ce_protobuf_field field;
    while (ce_protobuf_next(&message, &field)) {
        ce_protobuf inside = ce_protobuf_inside(&field);
        switch (field.number) {
        case 1:
            CE_TRY(read_piece(m, inside));
            break;
        case 2:
            CE_TRY(read_trainer(m, inside));
            break;
        case 3:
            CE_TRY(read_normalizer(m, inside));
            break;
        case 5:
            CE_TRY(read_denormalizer(m, inside));
            break;
        default:
            break;
        }
    }
    return end_of(&message, "tokenizer.model");
}

static cs_status check(const model *m)
{
    static const char *const names[] = { "of no type", "Unigram", "BPE", "Word", "Char" };
    if (m->count == 0 || m->count > INT32_MAX / 2)
        return ce_fail(CS_BAD_FILE, "it has no pieces, so it is not a model of SentencePiece");
    if (m->model != 2)
        return ce_fail(CS_UNSUPPORTED, "not supported: a %s model, because only BPE is supported",
                       m->model >= 0 && m->model <= 4 ? names[m->model] : "newer");
    if (m->changes_output)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: denormalizer_spec, because the text must follow from the tokens alone");
    return CS_OK;
}

/* ---- tokens ---- */

static cs_status add_special(ce_tokenizer *tokenizer, const piece *p, size_t id)
{
    bool user = p->kind == USER_DEFINED;
    ce_special token = {
        .text = ce_must_copy_part(p->text, p->size), .id = (int32_t)id, .special = !user, .normalized = user
    };
    token.size = strlen(token.text);
    ce_special_add(user ? &tokenizer->normal : &tokenizer->raw, token);
    return token.size == p->size ? CS_OK : ce_fail(CS_UNSUPPORTED, "not supported: piece %zu has a NUL byte", id);
}

static cs_status add_pieces(ce_tokenizer *tokenizer, const model *m)
{
    ce_lexicon *lexicon = &tokenizer->lexicon;
    lexicon->unknown = -1;
    ce_lexicon_reserve_tokens(lexicon, m->count);
    tokenizer->has_no_text = ce_must_alloc(m->count * sizeof *tokenizer->has_no_text);
    tokenizer->piece_count = (int64_t)m->count;
    for (size_t i = 0; i < m->count; i++) {
        const piece *p = &m->pieces[i];
        if (ce_lexicon_find(lexicon, p->text, p->size) >= 0)
            return ce_fail(CS_BAD_FILE, "piece %zu, %.*s, exists twice", i, (int)(p->size < 60 ? p->size : 60),
                           p->text);
        CE_TRY(ce_lexicon_add(lexicon, (int64_t)i, p->text, p->size));
        if (p->kind != NORMAL && p->kind != BYTE)
            CE_TRY(add_special(tokenizer, p, i));
        if (p->kind == UNKNOWN)
            lexicon->unknown = (int32_t)i;
        tokenizer->has_no_text[i] = p->kind == CONTROL;
    }
    ce_lexicon_find_bytes(lexicon);
    for (int byte = 0; m->byte_fallback && byte < 256; byte++)
        if (lexicon->bytes[byte] < 0)
            return ce_fail(CS_BAD_FILE, "byte_fallback is set, but there is no piece <0x%02X>", (unsigned)byte);
    if (lexicon->unknown < 0)
        return ce_fail(CS_BAD_FILE, "there is no piece of the type unknown");
    lexicon->unknown = m->drops_unknown ? -1 : lexicon->unknown;
    return CS_OK;
}

/* ---- merges ---- */

static int by_score(const void *one, const void *other, void *pieces)
{
    float a = ((const piece *)pieces)[*(const int32_t *)one].score;
    float b = ((const piece *)pieces)[*(const int32_t *)other].score;
    return (a < b) - (a > b);
}

/* Sets the ranks of the pieces by score. Pieces with equal scores have equal ranks; the one that is leftmost in the
 * text is merged first. */
static void rank_pieces(model *m)
{
    CE_FREED int32_t *order = ce_must_alloc(m->count * sizeof *order);
    for (size_t i = 0; i < m->count; i++)
        order[i] = (int32_t)i;
    qsort_r(order, m->count, sizeof *order, by_score, m->pieces);
    for (size_t i = 0; i < m->count; i++) {
        piece *p = &m->pieces[order[i]], *before = i > 0 ? &m->pieces[order[i - 1]] : NULL;
        p->rank = m->by_id ? order[i] : before && before->score == p->score ? before->rank : (int)i;
    }
}

static size_t width_at(const piece *p, size_t place)
{
    size_t width = 1;
    while (place + width < p->size && ((unsigned char)p->text[place + width] & 0xc0) == 0x80)
        width++;
    return width;
}

/* `text` is one half of a merge. Sets *id to the id of the piece with this text, or to -1 if words cannot contain such
 * a piece. */
static cs_status find_half(const ce_lexicon *lexicon, const model *m, const char *text, size_t size, int32_t *id)
{
    const piece half = { .text = text, .size = size };
    *id = ce_lexicon_find(lexicon, text, size);
    if (*id >= 0 && m->pieces[*id].kind != NORMAL)
        *id = -1;
    else if (*id < 0 && width_at(&half, 0) == size)
        return ce_fail(CS_UNSUPPORTED, "not supported: pieces with the character '%.*s', which is not a piece itself",
                       (int)size, text);
    return CS_OK;
}

static cs_status divide(const ce_lexicon *lexicon, model *m, int32_t id)
{
    const piece *p = &m->pieces[id];
    for (size_t place = width_at(p, 0); place < p->size; place += width_at(p, place)) {
        pair found = { .rank = p->rank, .id = id };
        CE_TRY(find_half(lexicon, m, p->text, place, &found.left));
        CE_TRY(find_half(lexicon, m, p->text + place, p->size - place, &found.right));
        if (found.left < 0 || found.right < 0)
            continue;
        CE_MUST_HOLD(m->pairs, m->pair_capacity, m->pair_count + 1);
        m->pairs[m->pair_count++] = found;
    }
    return CS_OK;
}

static cs_status add_merges(ce_lexicon *lexicon, model *m)
{
    rank_pieces(m);
    for (size_t i = 0; i < m->count; i++)
        if (m->pieces[i].kind == NORMAL)
            CE_TRY(divide(lexicon, m, (int32_t)i));
    ce_lexicon_reserve_merges(lexicon, m->pair_count, m->count);
    for (size_t i = 0; i < m->pair_count; i++) {
        const pair *p = &m->pairs[i];
        ce_lexicon_add_merge(lexicon, p->left, p->right, p->rank, p->id);
    }
    return CS_OK;
}

/* ---- the rest ---- */

/* The class of transformers decides which rules of the file count. LlamaTokenizer and GemmaTokenizer have their own
 * rules for spaces, use the byte pieces always, and rank pieces by their ids. TokenizersBackend has the rules of the
 * file. Without `legacy`, the space before the text is added once, and not where the text begins with one. */
static cs_status choose_rules(model *m, const char *class, const json_t *config)
{
    bool llama = strcmp(class, "LlamaTokenizer") == 0, gemma = strcmp(class, "GemmaTokenizer") == 0;
    const json_t *legacy = json_object_get(config, "legacy");
    if (!llama && !gemma && strcmp(class, "TokenizersBackend") != 0)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: tokenizer.model of a %s (those of TokenizersBackend, LlamaTokenizer and "
                       "GemmaTokenizer are): save the tokenizer with save_pretrained of transformers 5, which writes a "
                       "tokenizer.json",
                       class);
    m->legacy = legacy ? json_is_true(legacy) : !llama;
    m->once = llama || !m->legacy;
    m->escape |= m->add_prefix;
    m->drops_unknown = llama;
    if (!llama && !gemma)
        return CS_OK;
    m->add_prefix = llama && !json_is_false(json_object_get(config, "add_prefix_space"));
    m->remove_extra = m->at_end = false;
    m->escape = m->by_id = true;
    m->map_size = 0;
    return CS_OK;
}

static cs_status add_rules(ce_tokenizer *tokenizer, const model *m)
{
    ce_normal_step *step;
    ce_decode_step *decode;
    CE_TRY(ce_normalizer_add(&tokenizer->normalizer, CE_NORMAL_SENTENCE, &step));
    step->sentence = (ce_sentence_rules){ .add_prefix = m->add_prefix,
                                          .only_first = !m->legacy,
                                          .once = m->once,
                                          .at_end = m->at_end,
                                          .remove_extra = m->remove_extra,
                                          .escape = m->escape,
                                          .kept = tokenizer->normal.count > 0 ? &tokenizer->normal : NULL };
    if (m->map_size > 0)
        CE_TRY(ce_charsmap_open(&step->map, m->map, m->map_size));
    CE_TRY(ce_decoder_add(&tokenizer->decoder, CE_DECODE_SENTENCE, &decode));
    decode->prefixed = m->add_prefix || m->remove_extra;
    decode->all = m->remove_extra;
    return CS_OK;
}

static char *copy_piece(const model *m, int id)
{
    return id >= 0 && (size_t)id < m->count ? ce_must_copy_part(m->pieces[id].text, m->pieces[id].size) : NULL;
}

static cs_status fill(ce_tokenizer *tokenizer, model *m)
{
    CE_TRY(add_pieces(tokenizer, m));
    CE_TRY(add_merges(&tokenizer->lexicon, m));
    CE_TRY(add_rules(tokenizer, m));
    tokenizer->lexicon.byte_fallback = m->byte_fallback || m->by_id;
    tokenizer->lexicon.fuse_unknown = true;
    tokenizer->words = ce_words_open();
    tokenizer->unknown_text = ce_must_copy_part(m->unknown_text, m->unknown_size);
    tokenizer->begin_text = copy_piece(m, m->begin);
    tokenizer->end_text = copy_piece(m, m->end);
    return CS_OK;
}

static void free_model(model *m)
{
    free(m->pieces);
    free(m->pairs);
}

cs_status ce_sentencepiece_read(ce_tokenizer *tokenizer, const char *bytes, size_t size, const char *class,
                                const json_t *config)
{
    static const char unknown[] = " \xe2\x81\x87 ";
    CE_CLOSED(free_model)
    model m = { .model = 1,
                .begin = 1,
                .end = 2,
                .unknown_text = unknown,
                .unknown_size = sizeof unknown - 1,
                .add_prefix = true,
                .remove_extra = true,
                .escape = true };
    CE_TRY(read_messages(&m, (ce_protobuf){ .bytes = bytes, .size = size }));
    CE_TRY(check(&m));
    CE_TRY(choose_rules(&m, class, config));
    return fill(tokenizer, &m);
}
