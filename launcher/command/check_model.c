/* check_model.c - `cspeed check MODEL`: names everything in a model's files that is not understood. */
#include "base/ends_with.h"
#include "base/files.h"
#include "base/plural.h"
#include "command/check.h"
#include "ground/codes.h"
#include "ground/command.h"
#include "interchange/model_check.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    bool json;
    const char *name;
} request;

bool cl_check_model_is(char **arguments)
{
    const char *name = arguments[0] && strcmp(arguments[0], "--json") == 0 ? arguments[1] : arguments[0];
    if (!name || *name == '-')
        return false;
    if (ce_files_is_folder(name))
        return true;
    const char *slash = strchr(name, '/');
    bool hub = slash && slash > name && !strchr(slash + 1, '/') && *name != '.' && !ce_files_exists(name);
    return hub || ce_ends_with(name, ".gguf");
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static void print_text(const json_t *report)
{
    const json_t *problems = json_object_get(report, "problems"), *one;
    size_t i, count = json_array_size(problems);
    printf("%s: model_type %s", text_at(report, "model"),
           *text_at(report, "model_type") ? text_at(report, "model_type") : "unknown");
    if (*text_at(report, "architecture"))
        printf(" (%s)", text_at(report, "architecture"));
    if (json_object_get(report, "tensors"))
        printf(", %lld tensors, %lld parameters", (long long)json_integer_value(json_object_get(report, "tensors")),
               (long long)json_integer_value(json_object_get(report, "parameters")));
    putchar('\n');
    json_array_foreach ((json_t *)problems, i, one)
        printf("%-9s  %s: %s\n", text_at(one, "what"), text_at(one, "name"), text_at(one, "why"));
    if (json_object_get(report, "weights"))
        printf("weights: %s\n", text_at(report, "weights"));
    if (json_object_get(report, "tokenizer"))
        printf("tokenizer: %s\n", text_at(report, "tokenizer"));
    if (count)
        printf("not understood: %zu thing%s\n", count, ce_plural((int64_t)count));
    else
        puts("all is understood");
}

int cl_check_model(char **arguments)
{
    static const cs_option table[] = { { CL_COMMAND_OPTION(SWITCH, "json", json, NULL) } };
    static const cs_options_form form = { CL_COMMAND_FORM("check", 1, 1, "name a model"), CS_OPTIONS_TABLE(table) };
    request r = { .json = false };
    json_t *report;
    int code = cs_options_read(&form, &r, &arguments);
    if (code)
        return code;
    cs_status status = ce_model_check(&report, arguments[0]);
    if (status != CS_OK)
        return cs_exit_code(status);
    if (r.json) {
        json_dumpf(report, stdout, JSON_INDENT(2));
        putchar('\n');
    } else {
        print_text(report);
    }
    bool understood = json_array_size(json_object_get(report, "problems")) == 0;
    json_decref(report);
    return understood ? 0 : cl_codes_fail(cs_exit_code(CS_UNSUPPORTED), "%s: not supported as it is", arguments[0]);
}
