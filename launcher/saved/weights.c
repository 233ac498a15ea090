/* weights.c - the common command line of `cspeed export` and `cspeed import`. */
#include "saved/weights.h"

#include "argument.h"
#include "checkpoint/files.h"
#include "codes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define USUAL_SHARD 5000000000

static int read_dtype(cl_weights_request *r, const char *value)
{
    static const char *const names[] = { [CS_F32] = "fp32", [CS_BF16] = "bf16", [CS_F16] = "fp16" };
    for (int i = 0; i <= CS_F16; i++) {
        if (strcmp(names[i], value) == 0) {
            r->dtype = (cs_dtype)i;
            r->typed = true;
            return 0;
        }
    }
    return cl_codes_fail(CL_CODE_USAGE, "--dtype is fp32, bf16 or fp16, not %s", value);
}

/* "5GB" is 5e9 bytes, as in transformers; "5GiB" is 5 times 2^30. */
static int read_bytes(int64_t *bytes, const char *value)
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
            *bytes = (int64_t)(number * units[i].factor);
            return 0;
        }
    }
    return cl_codes_fail(CL_CODE_USAGE, "--max_shard is a number of bytes such as 5GB or 500MiB, not %s", value);
}

int cl_weights_read(cl_weights_request *r, char **at)
{
    const char *dtype = NULL, *shard = NULL, *places[2] = { NULL, NULL };
    const cl_argument_row rows[] = { { "--dtype", &dtype, NULL },
                                     { "--max_shard", &shard, NULL },
                                     { r->takes_tag ? "--tag" : NULL, &r->tag, NULL },
                                     { NULL, NULL, NULL } };
    r->max_shard = USUAL_SHARD;
    int code =
        cl_argument_read(&(cl_argument_form){ r->command, "what to read and the folder to write", rows, places, 2 },
                         at);
    r->from = places[0];
    r->to = places[1];
    if (code == 0 && dtype)
        code = read_dtype(r, dtype);
    if (code == 0 && shard)
        code = read_bytes(&r->max_shard, shard);
    if (code == 0 && cs_files_exists(r->to))
        code = cl_codes_fail(CL_CODE_USAGE, "%s is there already: name a new folder", r->to);
    return code;
}

void cl_weights_report(const cl_weights_request *r, const cs_source *source)
{
    int64_t elements = 0;
    for (int64_t i = 0; i < source->count; i++) {
        int64_t count = 1;
        for (int d = 0; d < source->tensors[i].dims; d++)
            count *= source->tensors[i].shape[d];
        elements += count;
    }
    printf("%s: %lld tensors, %lld parameters\n", r->to, (long long)source->count, (long long)elements);
}
