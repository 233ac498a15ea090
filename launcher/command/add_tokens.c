/* add_tokens.c - `cspeed add-tokens`: writes a Hugging Face folder whose tokenizer and model have more tokens. */
#include "hub/hub.h"
#include "interchange/vocabulary.h"
#include "ground/codes.h"
#include "ground/command.h"

#include <stdio.h>

enum { MAX_SHARD = 5 }; /* maximum size in GB of one file of weights, as transformers writes them */

typedef struct {
    cs_option_list tokens, specials;
    const char *named[4]; /* in the order of `names` */
    int64_t multiple;
} request;

static const char *const names[] = { "bos_token", "eos_token", "pad_token", "unk_token" };

static int read_arguments(request *r, char **at)
{
    static const cs_option table[] = {
        { CL_COMMAND_OPTION(LIST, "token", tokens, "TEXT") },
        { CL_COMMAND_OPTION(LIST, "special_token", specials, "TEXT") },
        { CL_COMMAND_OPTION(TEXT, "bos_token", named[0], "TEXT") },
        { CL_COMMAND_OPTION(TEXT, "eos_token", named[1], "TEXT") },
        { CL_COMMAND_OPTION(TEXT, "pad_token", named[2], "TEXT") },
        { CL_COMMAND_OPTION(TEXT, "unk_token", named[3], "TEXT") },
        { CL_COMMAND_OPTION(WHOLE, "multiple", multiple, "N"), .min = 1, .max = 1 << 20 },
    };
    static const cs_options_form form = {
        CL_COMMAND_FORM("add-tokens", 2, 2, "name the model's folder and the folder to write"), CS_OPTIONS_TABLE(table)
    };
    return cs_options_read(&form, r, &at);
}

static json_t *list_of(const cs_option_list *texts)
{
    json_t *list = json_array();
    for (int i = 0; i < texts->count; i++)
        json_array_append_new(list, json_string(texts->list[i]));
    return list;
}

/* Returns true if all texts of the command line are UTF-8: jansson takes no other text. */
static bool are_texts(const request *r, const json_t *tokens, const json_t *specials, const json_t *named)
{
    size_t given = 0;
    for (int i = 0; i < 4; i++)
        given += r->named[i] != NULL;
    return json_array_size(tokens) == (size_t)r->tokens.count &&
           json_array_size(specials) == (size_t)r->specials.count && json_object_size(named) == given;
}

static int run(const cl_options *options, char **arguments)
{
    request r = { .multiple = 1 };
    char cached[CE_HUB_PATH];
    bool found;
    int code = read_arguments(&r, arguments);
    (void)options;
    if (code)
        return code;
    json_auto_t *tokens = list_of(&r.tokens), *specials = list_of(&r.specials), *named = json_object();
    for (int i = 0; i < 4; i++)
        if (r.named[i])
            json_object_set_new(named, names[i], json_string(r.named[i]));
    if (!are_texts(&r, tokens, specials, named))
        return cl_codes_fail(CL_CODE_USAGE, "add-tokens: a token is no UTF-8");
    ce_vocabulary vocabulary = { .from = arguments[0],
                                 .to = arguments[1],
                                 .tokens = tokens,
                                 .specials = specials,
                                 .named = named,
                                 .multiple = r.multiple,
                                 .max_shard = MAX_SHARD * INT64_C(1000000000) };
    cs_status status = ce_hub_find(&found, cached, arguments[0]);
    if (status == CS_OK && found)
        vocabulary.from = cached;
    if (status == CS_OK)
        status = ce_vocabulary_extend(&vocabulary);
    if (status == CS_OK)
        printf("wrote %s: %lld new tokens; the token table has %lld rows, and had %lld\n", arguments[1],
               (long long)vocabulary.added, (long long)vocabulary.after, (long long)vocabulary.before);
    return cs_exit_code(status);
}

const cl_command cl_command_add_tokens = {
    .name = "add-tokens",
    .group = "Files",
    .summary = "write a Hugging Face folder with more tokens",
    .usage = "cspeed add-tokens MODEL OUT [--token TEXT ...] [--special_token TEXT ...]\n"
             "                         [--bos_token TEXT] [--eos_token TEXT]\n"
             "                         [--pad_token TEXT] [--unk_token TEXT] [--multiple N]",
    .text = "Writes the folder OUT, a copy of the model in the folder MODEL (or of its name on the Hub) whose\n"
            "tokenizer has the given tokens, for a training that needs them. The token table and the head get a\n"
            "row for each new token, with the mean of the rows that are there. A token that the tokenizer has\n"
            "already keeps its id.\n"
            "\n"
            "  --token          a token of text; may be repeated\n"
            "  --special_token  a special token, which decoded texts leave out; may be\n"
            "                   repeated\n"
            "  --bos_token, --eos_token, --pad_token, --unk_token\n"
            "                   a special token, and its name in tokenizer_config.json.\n"
            "                   What the tokenizer adds around each text stays\n"
            "  --multiple N     a number of rows that has to grow becomes a multiple of N,\n"
            "                   such as 32\n",
    .example = "cspeed add-tokens Qwen/Qwen3-0.6B model --special_token '<|tool|>'",
    .run = run,
};
