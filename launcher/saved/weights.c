/* weights.c - reads the command line that `cspeed export` and `cspeed import` have in common. */
#include "saved/weights.h"

#include "base/files.h"
#include "ground/codes.h"
#include "ground/command.h"
#include "base/asked.h"
#include "base/plural.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define USUAL_SHARD 5000000000

static int read_dtype(void *request, const char *flag, const char *value)
{
    cl_weights_request *r = request;
    static const char *const names[] = { [CS_F32] = "fp32", [CS_BF16] = "bf16", [CS_F16] = "fp16" };
    for (int i = 0; i <= CS_F16; i++) {
        if (strcmp(names[i], value) == 0) {
            r->dtype = (cs_dtype)i;
            r->typed = true;
            return 0;
        }
    }
    return cl_codes_fail(CL_CODE_USAGE, "%s is fp32, bf16 or fp16, not %s", flag, value);
}

/* Reads a size: "5GB" means 5e9 bytes, as in transformers; "5GiB" means 5 times 2^30. */
static int read_bytes(void *bytes, const char *flag, const char *value)
{
    static const struct {
        const char *unit;
        double factor;
    } units[] = { { "", 1 },     { "B", 1 },        { "KB", 1e3 },     { "MB", 1e6 },
                  { "GB", 1e9 }, { "KiB", 0x1p10 }, { "MiB", 0x1p20 }, { "GiB", 0x1p30 } };
    char *end;
    double number = strtod(value, &end);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (end != value && strcasecmp(end, units[i].unit) == 0 && number * units[i].factor >= 1 && number < 1e12) {
            *(int64_t *)bytes = (int64_t)(number * units[i].factor);
            return 0;
        }
    }
    return cl_codes_fail(CL_CODE_USAGE, "%s is a number of bytes such as 5GB or 500MiB, not %s", flag, value);
}

int cl_weights_read(cl_weights_request *r, char **arguments)
{
    static const cs_option table[] = {
        /* only `cspeed import` has the option config */
        { CS_OPTION(TEXT, "config", cl_weights_request, config, "FILE", NULL) },
        { .names = "dtype", .kind = CS_OPTION_TAKE, .value = "fp32|bf16|fp16", .take = read_dtype },
        { CS_OPTION(SWITCH, "lenient", cl_weights_request, lenient, NULL, NULL) },
        { CS_OPTION(TAKE, "max_shard", cl_weights_request, max_shard, "5GB", NULL), .take = read_bytes },
        /* only `cspeed export` has the options tag, merge, ema and gguf */
        { CS_OPTION(TEXT, "gguf", cl_weights_request, gguf, "TYPE", NULL) },
        { CS_OPTION(TEXT, "tag", cl_weights_request, tag, "TAG", NULL) },
        { CS_OPTION(SWITCH, "merge", cl_weights_request, merge, NULL, NULL) },
        { CS_OPTION(SWITCH, "ema", cl_weights_request, ema, NULL, NULL) },
    };
    static const char needs[] = "name what to read and the folder to write";
    static const cs_options_form import = { CL_COMMAND_FORM("import", 2, 2, needs), .options = table, .count = 4 };
    static const cs_options_form export = { CL_COMMAND_FORM("export", 2, 2, needs), .options = table + 1, .count = 7 };
    ce_asked_ignore_saves();
    int code = cs_options_read(r->takes_tag ? &export : &import, r, &arguments);
    r->formed = r->typed || r->max_shard > 0;
    r->max_shard = r->max_shard > 0 ? r->max_shard : USUAL_SHARD;
    if (code == 0 && r->gguf && r->formed)
        code = cl_codes_fail(CL_CODE_USAGE,
                             "--gguf: its TYPE takes the place of --dtype, and --max_shard has no effect on "
                             "one file: leave them out");
    if (code == 0) {
        r->from = arguments[0];
        r->to = arguments[1];
        if (ce_files_exists(r->to))
            code = cl_codes_fail(CL_CODE_USAGE, "%s exists already: name a new %s", r->to, r->gguf ? "file" : "folder");
    }
    return code;
}

void cl_weights_report(const cl_weights_request *r, const ce_source *source)
{
    int64_t elements = 0;
    for (int64_t i = 0; i < source->count; i++)
        elements += ce_source_elements(&source->tensors[i]);
    printf("%s: %lld tensor%s, %lld parameters\n", r->to, (long long)source->count, ce_plural(source->count),
           (long long)elements);
}
