/* verify.c - `cspeed verify`: compares every byte of a checkpoint with its checksums. */
#include "base/status.h"
#include "base/clock.h"
#include "base/plural.h"
#include "base/processors.h"
#include "checkpoint/not_found.h"
#include "checkpoint/audit.h"
#include "base/files.h"
#include "ground/codes.h"
#include "ground/command.h"
#include "saved/open_checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    const char *path, *tag;
    bool json;
    json_t *faults;
} request;

static int read_arguments(request *r, char **at)
{
    static const cs_option table[] = {
        { CL_COMMAND_OPTION(SWITCH, "json", json, NULL) },
        { CL_COMMAND_OPTION(TEXT, "tag", tag, "TAG") },
    };
    static const cs_options_form form = { CL_COMMAND_FORM("verify", 1, 1, "name a folder of checkpoints"),
                                          CS_OPTIONS_TABLE(table) };
    int code = cs_options_read(&form, r, &at);
    r->path = *at;
    return code;
}

/* Copies the name of the checkpoint that the file `latest` names. It is an error if this file does not exist: no other
 * checkpoint is chosen, because the user did not ask for one. */
static cs_status find_latest(char name[CE_TAG_BYTES], const char *dir)
{
    ce_catalog catalog;
    CE_TRY(ce_catalog_open(&catalog, dir));
    cs_status status = ce_catalog_latest(name, dir);
    if (status == CS_NOT_FOUND && catalog.count == 0)
        status = ce_not_found_all(&catalog, dir);
    else if (status == CS_NOT_FOUND)
        status = ce_fail(CS_NOT_FOUND,
                         "%s/latest is missing, so --tag must name the checkpoint; `cspeed inspect %s` lists them", dir,
                         dir);
    ce_catalog_close(&catalog);
    return status;
}

/* Sets *directory to the malloc'ed path of the checkpoint's folder. */
static cs_status find(char **directory, const request *r)
{
    char name[CE_TAG_BYTES];
    char *path_tag, *dir = cl_open_checkpoint_locate(r->path, &path_tag);
    const char *tag = r->tag ? r->tag : path_tag;
    cs_status status = tag ? ce_catalog_find(name, dir, tag) : find_latest(name, dir);
    *directory = status == CS_OK ? ce_files_join(dir, name) : NULL;
    char *manifest = *directory ? ce_files_join(*directory, CE_MANIFEST_FILE) : NULL;
    if (manifest && !ce_files_exists(*directory))
        status =
            ce_fail(CS_NOT_FOUND, "%s/latest names %s, which does not exist; `cspeed inspect %s` lists the checkpoints",
                    dir, name, dir);
    else if (manifest && access(manifest, F_OK) != 0 && errno == ENOENT)
        status = ce_not_found_manifest(*directory);
    free(manifest);
    free(path_tag);
    free(dir);
    return status;
}

static void keep(void *to, const char *sentence)
{
    request *r = to;
    json_array_append_new(r->faults, json_string(sentence));
}

static bool is_damaged(const ce_audit *audit)
{
    return audit->faults > audit->refused;
}

/* Returns true if the folder no longer exists, or if its path now names a different folder. A training that runs may
 * have removed the folder, or may have replaced it by a new checkpoint with the same tag. */
static bool is_gone(const char *directory, const struct stat *before)
{
    struct stat now;
    return stat(directory, &now) != 0 || now.st_dev != before->st_dev || now.st_ino != before->st_ino;
}

static void print(const request *r, const ce_audit *audit, const char *directory, double seconds)
{
    if (r->json) {
        json_t *all = json_pack("{sssIsIsIsfsO}", "directory", directory, "files", (json_int_t)audit->files, "blocks",
                                (json_int_t)audit->blocks, "bytes", (json_int_t)audit->bytes, "seconds", seconds,
                                "faults", r->faults);
        json_dumpf(all, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(all);
        return;
    }
    for (size_t i = 0; i < json_array_size(r->faults); i++)
        puts(json_string_value(json_array_get(r->faults, i)));
    printf("%s: %lld file%s, %lld block%s, %.1f MB in %.2f s: ", directory, (long long)audit->files,
           ce_plural(audit->files), (long long)audit->blocks, ce_plural(audit->blocks), 1e-6 * (double)audit->bytes,
           seconds);
    if (audit->faults)
        printf("%s, %lld fault%s\n", is_damaged(audit) ? "DAMAGED" : "UNREADABLE", (long long)audit->faults,
               ce_plural(audit->faults));
    else
        printf("whole\n");
}

static int verdict(const ce_audit *audit, const char *directory)
{
    if (is_damaged(audit))
        return cl_codes_fail(CL_CODE_FILE,
                             "%s is damaged: copy it again, or remove it; `train` continues from the newest complete "
                             "one",
                             directory);
    if (audit->faults)
        return cl_codes_fail(1, "%s could not be read completely, so the rest was not checked", directory);
    ce_clear_error();
    return 0;
}

static int run(const cl_options *options, char **arguments)
{
    request r = { 0 };
    struct stat before = { 0 };
    int code = read_arguments(&r, arguments);
    char *directory = NULL;
    (void)options;
    if (code)
        return code;
    cs_status status = find(&directory, &r);
    if (status == CS_OK) {
        double begun = ce_clock_seconds();
        r.faults = json_array();
        ce_audit audit = { .threads = ce_processors_allowed(), .fault = keep, .to = &r };
        stat(directory, &before);
        ce_audit_directory(&audit, directory);
        if (audit.faults && is_gone(directory, &before)) {
            status = ce_fail(CS_NOT_FOUND,
                             "%s was removed or replaced while it was read, as a training does when it saves in this "
                             "folder; it is not damaged: verify the checkpoints that exist now",
                             directory);
        } else {
            print(&r, &audit, directory, ce_clock_seconds() - begun);
            code = verdict(&audit, directory);
        }
        json_decref(r.faults);
    }
    free(directory);
    return status == CS_OK ? code : cs_exit_code(status);
}

const cl_command cl_command_verify = {
    .name = "verify",
    .group = "Files",
    .summary = "compare every byte of a checkpoint with its checksums",
    .usage = "cspeed verify DIR [--tag TAG] [--json]",
    .text = "Reads every file of a checkpoint, and names the file, the tensor and the block of each damage. DIR\n"
            "is a checkpoint, or a folder of checkpoints, of which the one that --tag or the file latest names is\n"
            "read. --json prints one JSON object. The exit code is 0 if the checkpoint is intact; 65 if it is\n"
            "damaged; 66 if it does not exist, or was removed or replaced while it was read; 1 if a file cannot\n"
            "be read.\n",
    .example = "cspeed verify runs/quickstart",
    .run = run,
};
