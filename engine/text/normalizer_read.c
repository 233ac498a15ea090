/* normalizer_read.c - reads the section "normalizer" of a tokenizer.json. */
#include "base/must.h"
#include "base/base64.h"
#include "text/jsonpart.h"
#include "text/normalizer.h"

#include <stdlib.h>
#include <string.h>

cs_status ce_normalizer_add(ce_normalizer *normalizer, ce_normal_kind kind, ce_normal_step **step)
{
    if (normalizer->count == CE_NORMAL_MAX)
        return ce_fail(CS_UNSUPPORTED, "not supported: more than %d steps of a normalizer", CE_NORMAL_MAX);
    *step = &normalizer->steps[normalizer->count++];
    **step = (ce_normal_step){ .kind = kind };
    return CS_OK;
}

static cs_status read_replace(ce_normal_step *step, const json_t *part, const char *path)
{
    CE_TRY(ce_jsonpart_pattern(&step->pattern, part, path));
    return ce_jsonpart_text(&step->content, part, "content", path);
}

static cs_status read_precompiled(ce_normal_step *step, const json_t *part, const char *path)
{
    const char *text = json_string_value(json_object_get(part, "precompiled_charsmap"));
    size_t size;
    CE_FREED char *blob = text ? ce_base64_decode(text, &size) : NULL;
    if (!blob)
        return ce_fail(CS_BAD_FILE, "%s.precompiled_charsmap is not base64", path);
    cs_status status = ce_charsmap_open(&step->map, blob, size);
    return status == CS_OK ? CS_OK : ce_fail(status, "%s: %s", path, cs_error());
}

/* Adds BERT's normalizer, which is a sequence of other steps. */
static cs_status read_bert(ce_normalizer *normalizer, const json_t *part)
{
    ce_normal_step *step;
    const json_t *accents = json_object_get(part, "strip_accents");
    bool lower = ce_jsonpart_flag(part, "lowercase", true);
    if (ce_jsonpart_flag(part, "clean_text", true))
        CE_TRY(ce_normalizer_add(normalizer, CE_NORMAL_CLEAN, &step));
    if (ce_jsonpart_flag(part, "handle_chinese_chars", true))
        CE_TRY(ce_normalizer_add(normalizer, CE_NORMAL_CHINESE, &step));
    if (json_is_boolean(accents) ? json_is_true(accents) : lower) {
        CE_TRY(ce_normalizer_add(normalizer, CE_NORMAL_FORM, &step));
        step->form = CE_FORM_NFD;
        CE_TRY(ce_normalizer_add(normalizer, CE_NORMAL_DROP_MARKS, &step));
        step->nonspacing = true;
    }
    return lower ? ce_normalizer_add(normalizer, CE_NORMAL_LOWERCASE, &step) : CS_OK;
}

static cs_status read_parts(ce_normal_step *step, const json_t *part, const char *path)
{
    switch (step->kind) {
    case CE_NORMAL_PREPEND:
        return ce_jsonpart_text(&step->content, part, "prepend", path);
    case CE_NORMAL_REPLACE:
        return read_replace(step, part, path);
    case CE_NORMAL_PRECOMPILED:
        return read_precompiled(step, part, path);
    default:
        break;
    }
    step->left = ce_jsonpart_flag(part, "strip_left", false);
    step->right = ce_jsonpart_flag(part, "strip_right", false);
    return CS_OK;
}

static cs_status read_sequence(ce_normalizer *normalizer, const json_t *part, const char *path)
{
    size_t index;
    json_t *member;
    char inner[CE_JSONPART_PATH];
    json_array_foreach (json_object_get(part, "normalizers"), index, member)
        CE_TRY(ce_normalizer_read(normalizer, member, ce_jsonpart_member(inner, path, "normalizers", index)));
    return CS_OK;
}

cs_status ce_normalizer_read(ce_normalizer *normalizer, const json_t *part, const char *path)
{
    static const struct {
        const char *name;
        ce_normal_kind kind;
        ce_unicode_form form;
    } known[] = {
        { "Prepend", CE_NORMAL_PREPEND, 0 },         { "Replace", CE_NORMAL_REPLACE, 0 },
        { "NFC", CE_NORMAL_FORM, CE_FORM_NFC },      { "NFD", CE_NORMAL_FORM, CE_FORM_NFD },
        { "NFKC", CE_NORMAL_FORM, CE_FORM_NFKC },    { "NFKD", CE_NORMAL_FORM, CE_FORM_NFKD },
        { "Lowercase", CE_NORMAL_LOWERCASE, 0 },     { "Strip", CE_NORMAL_STRIP, 0 },
        { "StripAccents", CE_NORMAL_DROP_MARKS, 0 }, { "Nmt", CE_NORMAL_NMT, 0 },
        { "ByteLevel", CE_NORMAL_BYTES, 0 },         { "Precompiled", CE_NORMAL_PRECOMPILED, 0 },
    };
    const char *type = ce_jsonpart_type(part);
    ce_normal_step *step;
    if (!part || json_is_null(part))
        return CS_OK;
    if (strcmp(type, "Sequence") == 0)
        return read_sequence(normalizer, part, path);
    if (strcmp(type, "BertNormalizer") == 0)
        return read_bert(normalizer, part);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(type, known[i].name) == 0) {
            CE_TRY(ce_normalizer_add(normalizer, known[i].kind, &step));
            step->form = known[i].form;
            return read_parts(step, part, path);
        }
    return ce_jsonpart_refuse(path, type, "it is not a normalizer of tokenizers 0.23");
}
