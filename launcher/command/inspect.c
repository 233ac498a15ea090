/* inspect.c - `cspeed inspect`: lists the checkpoints of a folder, or the contents of one checkpoint. */
#include "checkpoint/not_found.h"
#include "base/files.h"
#include "checkpoint/other_formats.h"
#include "checkpoint/staging.h"
#include "ground/codes.h"
#include "ground/command.h"
#include "saved/contents.h"
#include "base/status.h"
#include "base/faults.h"
#include "base/plural.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *path, *tag, *glob, *stats;
    bool json;
} request;

static int read_arguments(request *r, char **at)
{
    static const cs_option table[] = {
        { CL_COMMAND_OPTION(SWITCH, "json", json, NULL) },
        { CL_COMMAND_OPTION(TEXT, "tag", tag, "TAG") },
        { CL_COMMAND_OPTION(TEXT, "tensors", glob, "GLOB") },
        { CL_COMMAND_OPTION(TEXT, "stats", stats, "NAME") },
    };
    static const cs_options_form form = { CL_COMMAND_FORM("inspect", 1, 1, "name a folder of checkpoints"),
                                          CS_OPTIONS_TABLE(table) };
    int code = cs_options_read(&form, r, &at);
    r->path = *at;
    return code;
}

/* ---- listing the checkpoints ---- */

static void add_text(json_t *row, const char *key, const char *text)
{
    json_object_set_new(row, key, text ? json_string(text) : json_null());
}

static void describe_manifest(json_t *row, const ce_manifest *manifest)
{
    const json_t *saver = json_object_get(manifest->root, "provenance");
    add_text(row, "tag", manifest->tag);
    json_object_set_new(row, "step", json_integer(manifest->step));
    json_object_set_new(row, "bytes", json_integer(manifest->bytes));
    json_object_set_new(row, "files", json_integer(manifest->file_count));
    json_object_set_new(row, "tensors", json_integer(manifest->tensor_count));
    add_text(row, "created", json_string_value(json_object_get(manifest->root, "created")));
    json_object_set(row, "world_size", json_object_get(saver, "world_size"));
    json_object_set(row, "mesh", json_object_get(saver, "mesh"));
    json_object_set(row, "zero_stage", json_object_get(saver, "zero_stage"));
    json_object_set(row, "train_dtype", json_object_get(saver, "train_dtype"));
}

/* Describes the file or folder `name` of `dir` as a row of the list; returns NULL if it belongs to no checkpoint. */
static json_t *describe(const char *dir, const char *name, const char *latest)
{
    ce_manifest manifest;
    char *path = ce_files_join(dir, name), foreign[CE_OTHER_FORMATS_BYTES];
    json_t *row = json_pack("{sssbsn}", "name", name, "latest", strcmp(name, latest) == 0, "why");
    cs_status status = ce_manifest_load(&manifest, path);
    if (status == CS_OK) {
        describe_manifest(row, &manifest);
        status = ce_manifest_check_files(&manifest, path);
        if (status == CS_OK && ce_staging_is_aside(dir, name))
            status = ce_fail(CS_BAD_FILE,
                             "%s: found damaged by a training, which renamed it: `cspeed verify %s` names the "
                             "damage; copy it again, or remove it",
                             path, path);
        add_text(row, "status", status == CS_OK ? "whole" : status == CS_IO_ERROR ? "UNREADABLE" : "DAMAGED");
        add_text(row, "why", status == CS_OK ? NULL : cs_error());
    } else if (status != CS_NOT_FOUND) {
        add_text(row, "status", status == CS_IO_ERROR ? "UNREADABLE" : "DAMAGED");
        add_text(row, "why", cs_error());
    } else if (ce_other_formats_recognise(foreign, path)) {
        add_text(row, "status", "foreign");
        add_text(row, "why", foreign);
    } else if (ce_files_holds(path, "weights")) {
        add_text(row, "status", "INCOMPLETE");
        json_object_set_new(row, "why",
                            json_sprintf("%s: no manifest: its saving was interrupted; it can be deleted", path));
    } else {
        json_decref(row);
        row = NULL;
    }
    ce_manifest_close(&manifest);
    free(path);
    return row;
}

static json_int_t step_of(const json_t *row)
{
    const json_t *step = json_object_get(row, "step");
    return step ? json_integer_value(step) : -1;
}

static bool stands_before(const json_t *one, const json_t *other)
{
    const char *a = json_string_value(json_object_get(one, "name")),
               *b = json_string_value(json_object_get(other, "name"));
    return step_of(one) != step_of(other) ? step_of(one) > step_of(other) : strcmp(a, b) < 0;
}

/* Inserts a row into the rows, which are sorted by step, the highest step first. */
static void insert(json_t *rows, json_t *row)
{
    size_t at = 0;
    while (at < json_array_size(rows) && stands_before(json_array_get(rows, at), row))
        at++;
    json_array_insert_new(rows, at, row);
}

static cs_status list(json_t **rows, const char *dir)
{
    char latest[CE_TAG_BYTES];
    *rows = json_array();
    DIR *listing = opendir(dir);
    if (!listing)
        return ce_not_found_folder(dir);
    if (ce_catalog_latest(latest, dir) != CS_OK)
        latest[0] = 0;
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
        bool dots = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        bool file = entry->d_type == DT_REG;
        json_t *row = dots || file ? NULL : describe(dir, entry->d_name, latest);
        if (row)
            insert(*rows, row);
    }
    closedir(listing);
    return CS_OK;
}

/* Writes with how many ranks the checkpoint was saved, and their stage, for example "4 ranks, tp 2, ZeRO-1". */
static void describe_saver(char *text, size_t bytes, const json_t *row)
{
    json_int_t ranks = json_integer_value(json_object_get(row, "world_size"));
    json_int_t stage = json_integer_value(json_object_get(row, "zero_stage"));
    json_int_t tp = json_integer_value(json_object_get(json_object_get(row, "mesh"), "tp"));
    char mesh[32] = "";
    if (tp > 0)
        snprintf(mesh, sizeof mesh, " tp %lld,", (long long)tp);
    if (ranks > 0)
        snprintf(text, bytes, "%lld rank%s,%s ZeRO-%lld", (long long)ranks, ce_plural(ranks), mesh, (long long)stage);
}

/* Prints the table. With tags of 13 characters (global_step40) and without tensor parallelism, the row of a whole
 * checkpoint has at most 80 columns. */
static void print_rows(const json_t *rows)
{
    size_t i;
    const json_t *row;
    int width = (int)strlen("TAG");
    json_array_foreach (rows, i, row) {
        int length = (int)strlen(json_string_value(json_object_get(row, "name")));
        width = length > width ? length : width;
    }
    printf("%-*s %8s  %-17s %7s %5s  %-15s  %s\n", width, "TAG", "STEP", "DATE", "MB", "FILES", "SAVED BY", "STATUS");
    json_array_foreach (rows, i, row) {
        char name[NAME_MAX + 1];
        const char *status = json_string_value(json_object_get(row, "status"));
        const char *date = json_string_value(json_object_get(row, "created"));
        char saver[64] = "-", step[32] = "-", minute[32] = "-";
        if (date && strlen(date) > 16) /* the date has the form 2026-11-23T08:34:25Z */
            snprintf(minute, sizeof minute, "%.10s %.5sZ", date, date + 11);
        if (step_of(row) >= 0)
            snprintf(step, sizeof step, "%lld", (long long)step_of(row));
        describe_saver(saver, sizeof saver, row);
        snprintf(name, sizeof name, "%s", json_string_value(json_object_get(row, "name")));
        ce_faults_make_printable(name, "");
        printf("%-*s %c%7s  %-17s %7.1f %5lld  %-15s  %s\n", width, name,
               json_is_true(json_object_get(row, "latest")) ? '*' : ' ', step, minute,
               1e-6 * (double)json_integer_value(json_object_get(row, "bytes")),
               (long long)json_integer_value(json_object_get(row, "files")), saver, status);
    }
    puts("* = latest; whole: every file is there in its full size, and `cspeed verify`\n"
         "reads what is in them");
    json_array_foreach (rows, i, row)
        if (json_is_string(json_object_get(row, "why")))
            printf("\n%s\n", json_string_value(json_object_get(row, "why")));
}

static void print_json(json_t *value)
{
    json_dumpf(value, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    putchar('\n');
}

static int show_tags(const request *r, const char *dir)
{
    json_t *rows;
    cs_status status = list(&rows, dir);
    if (status == CS_OK && json_array_size(rows) == 0)
        status = ce_not_found_all(&(ce_catalog){ 0 }, dir);
    if (status == CS_OK)
        (r->json ? print_json(rows) : print_rows(rows));
    json_decref(rows);
    if (status != CS_OK)
        return cs_exit_code(status);
    ce_clear_error();
    return 0;
}

/* ---- one checkpoint ---- */

static void show_head(const ce_checkpoint_reader *reader)
{
    char *engine = json_dumps(json_object_get(reader->manifest.root, "engine"), JSON_INDENT(1)),
         *saver = json_dumps(json_object_get(reader->manifest.root, "provenance"), 0);
    printf("%s\ntag %s, step %lld, %lld tensor%s in %lld file%s\nsaved by %s\nengine %s\nclient state %s\n",
           reader->path, reader->manifest.tag, (long long)reader->manifest.step,
           (long long)reader->manifest.tensor_count, ce_plural(reader->manifest.tensor_count),
           (long long)reader->manifest.file_count, ce_plural(reader->manifest.file_count), saver, engine,
           reader->client_state ? reader->client_state : "none");
    free(engine);
    free(saver);
}

static cs_status show(const request *r, const ce_checkpoint_reader *reader)
{
    cs_status status = CS_OK;
    json_t *found = r->stats  ? cl_contents_stats(reader, r->stats, &status)
                    : r->glob ? cl_contents_tensors(reader, r->glob)
                              : json_incref(reader->manifest.root);
    if (status == CS_OK && r->json)
        print_json(found);
    else if (status == CS_OK && r->stats)
        cl_contents_print_stats(found);
    else if (status == CS_OK && r->glob)
        cl_contents_print(found);
    else if (status == CS_OK)
        show_head(reader);
    json_decref(found);
    return status;
}

static int run(const cl_options *options, char **arguments)
{
    request r = { 0 };
    cl_open_checkpoint checkpoint = { 0 };
    char *path_tag, *dir;
    int code = read_arguments(&r, arguments);
    (void)options;
    if (code)
        return code;
    dir = cl_open_checkpoint_locate(r.path, &path_tag);
    if (!r.tag && !path_tag && !r.glob && !r.stats) {
        code = show_tags(&r, dir);
    } else {
        code = cl_open_checkpoint_open(&checkpoint, dir, r.tag ? r.tag : path_tag);
        if (code == 0)
            code = cs_exit_code(show(&r, checkpoint.reader));
        if (code == 0)
            ce_clear_error();
        cl_open_checkpoint_close(&checkpoint);
    }
    free(path_tag);
    free(dir);
    return code;
}

const cl_command cl_command_inspect = {
    .name = "inspect",
    .group = "Files",
    .summary = "list the checkpoints of a folder, or the contents of one",
    .usage = "cspeed inspect DIR [--json]\n"
             "       cspeed inspect DIR [--tag TAG] --tensors GLOB [--json]\n"
             "       cspeed inspect DIR [--tag TAG] --stats NAME [--json]",
    .text = "Lists the checkpoints of DIR: tag, step, size, number of ranks and ZeRO stage of the training, and\n"
            "whether every file exists and has the right length (`cspeed verify` reads the contents too). Below\n"
            "the list, it says why a checkpoint is incomplete, or which command converts a checkpoint of another\n"
            "program. DIR may also be a single checkpoint.\n"
            "\n"
            "  --tag TAG       show the properties of one checkpoint\n"
            "  --tensors GLOB  list the tensors whose names match GLOB: shape, type, and\n"
            "                  which rows are in which file\n"
            "  --stats NAME    print minimum, maximum, mean, standard deviation, number of\n"
            "                  NaNs and a histogram of one tensor\n"
            "  --json          print one JSON object\n",
    .example = "cspeed inspect runs/quickstart --tensors 'transformer.h.0.*'",
    .run = run,
};
