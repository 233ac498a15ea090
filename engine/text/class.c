/* class.c - the tokenizer class that transformers 5.24 uses for a folder. */
#include "text/parts.h"
#include "base/log.h"

#include <stdio.h>
#include <string.h>

/* The class of each type of model, from TOKENIZER_MAPPING_NAMES of transformers. `always`: the class is used whatever
 * class the files name. */
static const struct {
    const char *type, *class;
    bool always;
} types[] = {
    { "gpt2", "GPT2Tokenizer", false },
    { "phi", "GPT2Tokenizer", false },
    { "starcoder2", "GPT2Tokenizer", false },
    { "gpt_neox", "GPTNeoXTokenizer", false },
    { "qwen2", "Qwen2Tokenizer", true },
    { "qwen2_moe", "Qwen2Tokenizer", false },
    { "qwen3", "Qwen2Tokenizer", false },
    { "qwen3_moe", "Qwen2Tokenizer", false },
    { "gemma", "GemmaTokenizer", false },
    { "gemma2", "GemmaTokenizer", false },
    { "gemma3", "GemmaTokenizer", false },
    { "gemma3_text", "GemmaTokenizer", false },
    { "code_llama", "CodeLlamaTokenizer", false },
    { "mistral", "TokenizersBackend", true },
    { "mixtral", "TokenizersBackend", true },
    { "phi3", "TokenizersBackend", true },
    { "olmo2", "TokenizersBackend", true },
    { "granite", "TokenizersBackend", true },
};

/* Other classes of transformers whose tokenizer.json says all. */
static const char *const others[] = { "PreTrainedTokenizer", "LlamaTokenizer",  "CodeGenTokenizer",
                                      "BloomTokenizer",      "CohereTokenizer", "RobertaTokenizer" };

static const char *text_at(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

const char *ce_class_name(char name[CE_CLASS_NAME], const json_t *config, const json_t *model, const char *otherwise)
{
    const char *type = text_at(model, "model_type"), *class = otherwise;
    const char *named =
        text_at(config, "tokenizer_class") ? text_at(config, "tokenizer_class") : text_at(model, "tokenizer_class");
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].type, type) == 0) {
            class = types[i].class;
            named = types[i].always ? NULL : named;
        }
    snprintf(name, CE_CLASS_NAME, "%s", named ? named : class);
    size_t length = strlen(name);
    if (length > 4 && strcmp(name + length - 4, "Fast") == 0)
        name[length - 4] = 0;
    if (strcmp(name, "PreTrainedTokenizer") == 0)
        snprintf(name, CE_CLASS_NAME, "TokenizersBackend");
    return name;
}

static bool is_known(const char *class)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].class, class) == 0)
            return true;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i], class) == 0)
            return true;
    return false;
}

/* Transformers reads the file of the greatest version up to its own, tokenizer.VERSION.json, instead of tokenizer.json. */
static cs_status check_versions(const json_t *files)
{
    size_t index;
    json_t *file;
    json_array_foreach (files, index, file) {
        int major, minor = 0;
        const char *name = json_string_value(file);
        if (name && sscanf(name, "tokenizer.%d.%d", &major, &minor) >= 1 && (major < 5 || (major == 5 && minor <= 24)))
            return ce_fail(CS_UNSUPPORTED,
                           "not supported: tokenizer_config.json: fast_tokenizer_files has %.60s, which transformers "
                           "5.24 reads instead of tokenizer.json: give it this name, and remove the key",
                           name);
    }
    return CS_OK;
}

cs_status ce_class_check(const json_t *config)
{
    char class[CE_CLASS_NAME];
    const json_t *code = json_object_get(config, "auto_map");
    CE_TRY(check_versions(json_object_get(config, "fast_tokenizer_files")));
    ce_class_name(class, config, NULL, "TokenizersBackend");
    if (!code || json_is_null(code))
        return CS_OK;
    if (!is_known(class))
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: tokenizer_config.json: the class %s is code of its own (auto_map), which is not "
                       "run: save the tokenizer as a tokenizer.json of a class of transformers, without auto_map",
                       class);
    ce_log(
        CE_LOG_WARNING,
        "tokenizer_config.json: auto_map names code, which is not run: the tokenizer is read as a %s of transformers",
        class);
    return CS_OK;
}
