/* decoder_read.c - reads the section "decoder" of a tokenizer.json. */
#include "text/decoder.h"
#include "text/jsonpart.h"

#include <string.h>

cs_status ce_decoder_add(ce_decoder *decoder, ce_decode_kind kind, ce_decode_step **step)
{
    if (decoder->count == CE_DECODE_MAX)
        return ce_fail(CS_UNSUPPORTED, "not supported: more than %d steps of a decoder", CE_DECODE_MAX);
    *step = &decoder->steps[decoder->count++];
    **step = (ce_decode_step){ .kind = kind };
    return CS_OK;
}

static cs_status refuse_empty(const char *text, const char *path, const char *key)
{
    return *text ? CS_OK
                 : ce_fail(CS_UNSUPPORTED, "not supported: %s.%s is empty, and would match everywhere", path, key);
}

static cs_status read_strip(ce_decode_step *step, const json_t *part, const char *path)
{
    CE_TRY(ce_jsonpart_text(&step->text, part, "content", path));
    step->start = json_integer_value(json_object_get(part, "start"));
    step->stop = json_integer_value(json_object_get(part, "stop"));
    return refuse_empty(step->text, path, "content");
}

static cs_status read_metaspace(ce_decode_step *step, const json_t *part, const char *path)
{
    const char *scheme = json_string_value(json_object_get(part, "prepend_scheme"));
    step->prefixed = ce_jsonpart_flag(part, "add_prefix_space", true) && !(scheme && strcmp(scheme, "never") == 0);
    CE_TRY(ce_jsonpart_text(&step->text, part, "replacement", path));
    return refuse_empty(step->text, path, "replacement");
}

static cs_status read_parts(ce_decode_step *step, const json_t *part, const char *path)
{
    step->cleanup = ce_jsonpart_flag(part, "cleanup", true);
    switch (step->kind) {
    case CE_DECODE_REPLACE:
        CE_TRY(ce_jsonpart_pattern(&step->pattern, part, path));
        return ce_jsonpart_text(&step->other, part, "content", path);
    case CE_DECODE_STRIP:
        return read_strip(step, part, path);
    case CE_DECODE_METASPACE:
        return read_metaspace(step, part, path);
    case CE_DECODE_SUFFIX:
        CE_TRY(ce_jsonpart_text(&step->text, part, "suffix", path));
        return refuse_empty(step->text, path, "suffix");
    case CE_DECODE_CTC:
        CE_TRY(ce_jsonpart_text(&step->text, part, "pad_token", path));
        CE_TRY(ce_jsonpart_text(&step->other, part, "word_delimiter_token", path));
        CE_TRY(refuse_empty(step->text, path, "pad_token"));
        return refuse_empty(step->other, path, "word_delimiter_token");
    case CE_DECODE_WORDPIECE:
        return ce_jsonpart_text(&step->text, part, "prefix", path);
    default:
        return CS_OK;
    }
}

static cs_status read_sequence(ce_decoder *decoder, const json_t *part, const char *path)
{
    size_t index;
    json_t *member;
    char inner[CE_JSONPART_PATH];
    json_array_foreach (json_object_get(part, "decoders"), index, member)
        CE_TRY(ce_decoder_read(decoder, member, ce_jsonpart_member(inner, path, "decoders", index)));
    return CS_OK;
}

cs_status ce_decoder_read(ce_decoder *decoder, const json_t *part, const char *path)
{
    static const struct {
        const char *name;
        ce_decode_kind kind;
    } known[] = {
        { "Replace", CE_DECODE_REPLACE },     { "ByteFallback", CE_DECODE_BYTE_FALLBACK },
        { "Fuse", CE_DECODE_FUSE },           { "Strip", CE_DECODE_STRIP },
        { "Metaspace", CE_DECODE_METASPACE }, { "ByteLevel", CE_DECODE_BYTES },
        { "BPEDecoder", CE_DECODE_SUFFIX },   { "CTC", CE_DECODE_CTC },
        { "WordPiece", CE_DECODE_WORDPIECE },
    };
    const char *type = ce_jsonpart_type(part);
    ce_decode_step *step;
    if (!part || json_is_null(part)) {
        decoder->spaced = true;
        return CS_OK;
    }
    if (strcmp(type, "Sequence") == 0)
        return read_sequence(decoder, part, path);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(type, known[i].name) == 0) {
            CE_TRY(ce_decoder_add(decoder, known[i].kind, &step));
            return read_parts(step, part, path);
        }
    return ce_jsonpart_refuse(path, type, "it is not a decoder of tokenizers 0.23");
}
