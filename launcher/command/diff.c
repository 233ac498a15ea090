/* diff.c - `cspeed diff`: compares two checkpoints. */
#include "base/status.h"
#include "base/progress.h"
#include "checkpoint/scan.h"
#include "checkpoint/safetensors.h"
#include "ground/codes.h"
#include "ground/command.h"
#include "saved/open_checkpoint.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *path[2], *glob;
    bool json;
    json_t *rows; /* a JSON array with one object for each tensor that differs */
    int64_t tensors, same;
} request;

static int read_arguments(request *r, char **at)
{
    static const cs_option table[] = {
        { CL_COMMAND_OPTION(SWITCH, "json", json, NULL) },
        { CL_COMMAND_OPTION(TEXT, "tensors", glob, "GLOB") },
    };
    static const cs_options_form form = { CL_COMMAND_FORM("diff", 2, 2, "name two checkpoints"),
                                          CS_OPTIONS_TABLE(table) };
    int code = cs_options_read(&form, r, &at);
    if (code == 0)
        memcpy(r->path, at, sizeof r->path);
    return code;
}

static void add(request *r, json_t *row)
{
    json_array_append_new(r->rows, row);
}

/* Returns the position of an element in a tensor: one index for each dimension. */
static json_t *place_of(const ce_manifest_tensor *tensor, int64_t element)
{
    json_t *place = json_array();
    for (int i = tensor->dims - 1; i >= 0; element /= tensor->shape[i--])
        json_array_insert_new(place, 0, json_integer(element % tensor->shape[i]));
    return place;
}

static bool same_shape(const ce_manifest_tensor *a, const ce_manifest_tensor *b)
{
    return a->dims == b->dims && memcmp(a->shape, b->shape, (size_t)a->dims * sizeof *a->shape) == 0;
}

/* Returns a number as JSON. A value that JSON cannot represent (NaN, infinity) becomes a string. */
static json_t *number(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%g", value);
    json_t *real = json_real(value);
    return real ? real : json_string(text);
}

static cs_status compare_tensor(request *r, cl_open_checkpoint checkpoint[2], const ce_manifest_tensor *a,
                                const ce_manifest_tensor *b)
{
    ce_scan_difference d;
    if (!same_shape(a, b)) {
        add(r,
            json_pack("{sssssoso}", "tensor", a->name, "what", "shape", "one",
                      ce_safetensors_numbers(a->shape, a->dims), "other", ce_safetensors_numbers(b->shape, b->dims)));
        return CS_OK;
    }
    if (a->dtype != b->dtype)
        add(r, json_pack("{ssssssss}", "tensor", a->name, "what", "type", "one", ce_safetensors_name(a->dtype), "other",
                         ce_safetensors_name(b->dtype)));
    CE_TRY(ce_scan_compare(&d, checkpoint[0].reader, checkpoint[1].reader, checkpoint[0].self, a->name));
    if (d.differing)
        add(r, json_pack("{sssssIsosososo}", "tensor", a->name, "what", "values", "differing", (json_int_t)d.differing,
                         "most", number(d.max), "first", place_of(a, d.first), "one", number(d.one), "other",
                         number(d.other)));
    else if (a->dtype == b->dtype)
        r->same++;
    return CS_OK;
}

static bool is_chosen(const request *r, const ce_manifest_tensor *tensor)
{
    return !r->glob || fnmatch(r->glob, tensor->name, 0) == 0;
}

static int64_t elements_of(const ce_manifest_tensor *tensor)
{
    int64_t count = 1;
    for (int i = 0; i < tensor->dims; i++)
        count *= tensor->shape[i];
    return count;
}

static void begin_progress(ce_progress *progress, const request *r, const ce_manifest *manifest)
{
    int64_t elements = 0;
    for (int64_t i = 0; i < manifest->tensor_count; i++)
        elements += is_chosen(r, &manifest->tensors[i]) ? elements_of(&manifest->tensors[i]) : 0;
    ce_progress_begin(progress, "comparing", "elements", elements);
}

static cs_status compare(request *r, cl_open_checkpoint checkpoint[2], ce_progress *progress)
{
    for (int side = 0; side < 2; side++) {
        const ce_manifest *mine = &checkpoint[side].reader->manifest, *others = &checkpoint[!side].reader->manifest;
        for (int64_t i = 0; i < mine->tensor_count; i++) {
            const ce_manifest_tensor *tensor = &mine->tensors[i], *twin = ce_manifest_find(others, tensor->name);
            if (!is_chosen(r, tensor))
                continue;
            r->tensors += side == 0 || !twin;
            if (!twin)
                add(r, json_pack("{sssssi}", "tensor", tensor->name, "what", "missing", "only_in", side + 1));
            else if (side == 0)
                CE_TRY(compare_tensor(r, checkpoint, tensor, twin));
            if (side == 0)
                ce_progress_add(progress, elements_of(tensor));
        }
    }
    return CS_OK;
}

static void print_row(const request *r, const json_t *row)
{
    const char *what = json_string_value(json_object_get(row, "what"));
    char *one = json_dumps(json_object_get(row, "one"), JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)),
         *other = json_dumps(json_object_get(row, "other"), JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)),
         *first = json_dumps(json_object_get(row, "first"), JSON_COMPACT),
         *max = json_dumps(json_object_get(row, "most"), JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    printf("%s: ", json_string_value(json_object_get(row, "tensor")));
    if (strcmp(what, "missing") == 0)
        printf("only in %s\n", r->path[json_integer_value(json_object_get(row, "only_in")) - 1]);
    else if (strcmp(what, "values") == 0)
        printf("%lld elements differ, by at most %s; the first at %s: %s and %s\n",
               (long long)json_integer_value(json_object_get(row, "differing")), max, first, one, other);
    else
        printf("%s %s and %s\n", what, one, other);
    free(one);
    free(other);
    free(first);
    free(max);
}

static void print(const request *r)
{
    size_t i;
    json_t *row;
    if (r->json) {
        json_t *all = json_pack("{sIsIsO}", "tensors", (json_int_t)r->tensors, "same", (json_int_t)r->same,
                                "differences", r->rows);
        json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(all);
        return;
    }
    json_array_foreach (r->rows, i, row)
        print_row(r, row);
    printf("%lld of %lld tensors are the same\n", (long long)r->same, (long long)r->tensors);
}

static int run(const cl_options *options, char **arguments)
{
    request r = { 0 };
    cl_open_checkpoint checkpoint[2] = { { 0 }, { 0 } };
    int code = read_arguments(&r, arguments);
    (void)options;
    for (int side = 0; side < 2 && code == 0; side++)
        code = cl_open_checkpoint_open(&checkpoint[side], r.path[side], NULL);
    if (code == 0) {
        ce_progress progress;
        r.rows = json_array();
        begin_progress(&progress, &r, &checkpoint[0].reader->manifest);
        cs_status status = compare(&r, checkpoint, &progress);
        ce_progress_end(&progress);
        code = cs_exit_code(status);
        if (status == CS_OK)
            print(&r);
        if (status == CS_OK)
            ce_clear_error();
        if (status == CS_OK && json_array_size(r.rows) > 0)
            code = cl_codes_fail(1, "%s and %s differ", r.path[0], r.path[1]);
        json_decref(r.rows);
    }
    cl_open_checkpoint_close(&checkpoint[0]);
    cl_open_checkpoint_close(&checkpoint[1]);
    return code;
}

const cl_command cl_command_diff = {
    .name = "diff",
    .group = "Files",
    .summary = "compare the tensors of two checkpoints",
    .usage = "cspeed diff A B [--tensors GLOB] [--json]",
    .text = "Compares names, shapes, types and values of all tensors, or of those whose names match GLOB. For\n"
            "each tensor that differs, prints the number of different elements, the largest difference, and the\n"
            "first different element. A and B are checkpoints, or folders of checkpoints, of which the one that\n"
            "the file latest names is compared. The numbers of ranks and the ZeRO stages of the two trainings may\n"
            "differ. The exit code is 0 if the checkpoints are equal and 1 if they differ.\n",
    .example = "cspeed diff runs/a/global_step100 runs/b/global_step100",
    .run = run,
};
