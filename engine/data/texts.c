/* texts.c - finds the files that the name of a text refers to. */
#include "base/must.h"
#include "data/texts.h"
#include "base/names.h"
#include "json/json.h"
#include "base/log.h"
#include "base/files.h"
#include "data/folder.h"
#include "formats/plain.h"

#include <ctype.h>
#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { NAME_BYTES = 8192, STATE_BYTES = 1 << 24 };

bool ce_texts_is_text(const char *name)
{
    return ce_plain_is_text(name) || ce_files_is_folder(name);
}

static cs_status look(glob_t *paths, const char *pattern)
{
    int outcome = glob(pattern, GLOB_APPEND, NULL, paths);
    if (outcome == 0 || outcome == GLOB_NOMATCH)
        return CS_OK;
    return ce_fail(outcome == GLOB_NOSPACE ? CS_NO_MEMORY : CS_IO_ERROR,
                   "%s: the files of this pattern cannot be searched", pattern);
}

/* ---- folders that `datasets` saved ---- */

/* Reads FOLDER/NAME, a JSON file of the library `datasets`. *root is NULL if there is no such file. */
static cs_status read_description(json_t **root, const char *folder, const char *name)
{
    CE_FREED char *path = ce_files_join(folder, name);
    CE_FREED char *text = NULL;
    size_t length;
    cs_status status = ce_files_read(&text, &length, path, STATE_BYTES);
    *root = status == CS_OK ? ce_json_strict(text, length) : NULL;
    if (status == CS_OK && !*root)
        return ce_fail(CS_BAD_FILE, "%s: %s", path, cs_error());
    return status == CS_NOT_FOUND ? CS_OK : status;
}

/* Appends the files that state.json lists, in the order of that list. */
static cs_status list_saved(glob_t *paths, const char *folder, const json_t *state)
{
    char quoted[NAME_BYTES / 2], pattern[NAME_BYTES];
    size_t index;
    json_t *entry, *files = json_object_get(state, "_data_files");
    if (json_array_size(files) == 0)
        return ce_fail(CS_BAD_FILE, "%s/state.json: it lists no \"_data_files\"", folder);
    if (json_array_size(json_object_get(state, "_indices_data_files")) > 0)
        return ce_fail(
            CS_UNSUPPORTED,
            "not supported: %s/state.json: \"_indices_data_files\", which select and order the rows; save the data "
            "set after its flatten_indices()",
            folder);
    json_array_foreach (files, index, entry) {
        const char *name = json_string_value(json_object_get(entry, "filename"));
        size_t before = paths->gl_pathc;
        if (!name)
            return ce_fail(CS_BAD_FILE, "%s/state.json: _data_files[%zu] has no \"filename\"", folder, index);
        ce_folder_quote(quoted, sizeof quoted, folder);
        size_t at = (size_t)snprintf(pattern, sizeof pattern, "%s/", quoted);
        ce_folder_quote(pattern + at, sizeof pattern - at, name);
        CE_TRY(look(paths, pattern));
        if (paths->gl_pathc == before)
            return ce_fail(CS_NOT_FOUND, "%s/%s: no such file; state.json lists it", folder, name);
    }
    return CS_OK;
}

static cs_status name_splits(const char *folder, const json_t *dictionary)
{
    ce_names list = { 0 };
    size_t index;
    json_t *split;
    json_array_foreach (json_object_get(dictionary, "splits"), index, split)
        ce_names_add(&list, "%s/%s", folder, json_string_value(split) ? json_string_value(split) : "?");
    return ce_fail(CS_BAD_FILE, "%s: a data set with several splits; give the path of one of them: %s", folder,
                   ce_names_text(&list));
}

/* ---- other folders ---- */

/* Returns the length of the split's name at the beginning of a file's name, or 0 if the file's name contains no split.
 * Files of the Hugging Face Hub are named SPLIT-00000-of-00002.parquet; older files of the Hub are named
 * SPLIT-00000-of-00002-HASH.parquet. Other files may be named SPLIT.parquet. */
static size_t split_width(const char *name)
{
    static const char *const splits[] = { "train", "validation", "valid", "val", "dev", "test" };
    int number, count, end = 0;
    for (const char *dash = strchr(name, '-'); dash; dash = strchr(dash + 1, '-'))
        if (sscanf(dash, "-%5d-of-%5d%n", &number, &count, &end) == 2 && dash[end] && strchr(".-", dash[end]))
            return (size_t)(dash - name);
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++)
        if (strcspn(name, ".") == strlen(splits[i]) && strncmp(name, splits[i], strlen(splits[i])) == 0)
            return strlen(splits[i]);
    return 0;
}

/* Refuses a folder with files of several splits, because training would also read the data for validation and tests. */
static cs_status check_splits(const char *folder, const glob_t *paths, size_t first)
{
    const char *split = NULL;
    size_t known = 0;
    for (size_t i = first; i < paths->gl_pathc; i++) {
        const char *name = basename(paths->gl_pathv[i]);
        size_t width = split_width(name);
        if (width > 0 && split && (width != known || strncmp(split, name, width) != 0))
            return ce_fail(CS_BAD_FILE,
                           "%s: it has files of several splits, %s and %s; select those of one with %s/%.*s%c*", folder,
                           split, name, folder, (int)known, split, split[known]);
        if (width > 0)
            split = name;
        known = width > 0 ? width : known;
    }
    return CS_OK;
}

/* Refuses a folder in which one text has two files, because this text would be read twice. The two files are an
 * uncompressed and a compressed copy (`gzip -k` leaves both), or two compressed copies. */
static cs_status check_twins(const glob_t *paths, size_t first)
{
    char plain[NAME_BYTES];
    for (size_t i = first; i < paths->gl_pathc; i++) {
        const char *path = paths->gl_pathv[i], *dot = strrchr(path, '.');
        snprintf(plain, sizeof plain, "%.*s", (int)(dot - path), path);
        if (strcasecmp(dot, ".gz") != 0 && strcasecmp(dot, ".zst") != 0)
            continue;
        /* If there is no uncompressed copy, looks for the other compressed copy: .zst for a .gz file, .gz for a .zst
         * file. */
        if (access(plain, F_OK) != 0)
            snprintf(plain, sizeof plain, "%.*s%s", (int)(dot - path), path, (dot[1] | 32) == 'g' ? ".zst" : ".gz");
        if (access(plain, F_OK) == 0)
            return ce_fail(CS_BAD_FILE, "%s: the same text as %s in the same folder; remove one of them", path, plain);
    }
    return CS_OK;
}

static bool is_listed(const glob_t *paths, size_t first, const char *name)
{
    for (size_t i = first; i < paths->gl_pathc; i++)
        if (strcmp(basename(paths->gl_pathv[i]), name) == 0)
            return true;
    return false;
}

/* Warns of the files of a folder that are not read, except descriptions of the data set. */
static void warn_of_others(const char *folder, const glob_t *paths, size_t first)
{
    static const char *const known[] = { "README*", "LICENSE*", "*.md", "dataset_info*.json", ".*" };
    ce_names list = { 0 };
    DIR *open = opendir(folder);
    for (struct dirent *entry; open && (entry = readdir(open));) {
        bool other = entry->d_type != DT_DIR && !is_listed(paths, first, entry->d_name);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            other = other && fnmatch(known[i], entry->d_name, 0) != 0;
        if (other)
            ce_names_add(&list, "%s", entry->d_name);
    }
    if (open)
        closedir(open);
    if (list.count > 0)
        ce_log(CE_LOG_WARNING, "%s: %ld other file%s not read: %s", folder, list.count,
               list.count == 1 ? " is" : "s are", ce_names_text(&list));
}

static cs_status list_texts(glob_t *paths, const char *folder)
{
    char quoted[NAME_BYTES / 2], pattern[NAME_BYTES];
    size_t first = paths->gl_pathc;
    ce_folder_quote(quoted, sizeof quoted, folder);
    for (int i = 0; i < ce_plain_ending_count; i++) {
        size_t at = (size_t)snprintf(pattern, sizeof pattern, "%s/*", quoted);
        for (const char *c = ce_plain_endings[i]; *c; c++) /* Letters of either case match. */
            at += (size_t)snprintf(pattern + at, sizeof pattern - at, "[%c%c]", *c, toupper((unsigned char)*c));
        CE_TRY(look(paths, pattern));
    }
    if (paths->gl_pathc == first)
        return ce_fail(
            CS_NOT_FOUND,
            "%s: no text, .jsonl or .txt (also .gz, .zst), .parquet or .arrow, in this folder (a .json is read if it is named itself)",
            folder);
    warn_of_others(folder, paths, first);
    CE_TRY(check_twins(paths, first));
    return check_splits(folder, paths, first);
}

static cs_status list_folder(glob_t *paths, const char *folder)
{
    json_t *state, *dictionary;
    CE_TRY(read_description(&dictionary, folder, "dataset_dict.json"));
    if (dictionary) {
        cs_status status = name_splits(folder, dictionary);
        json_decref(dictionary);
        return status;
    }
    CE_TRY(read_description(&state, folder, "state.json"));
    cs_status status = state ? list_saved(paths, folder, state) : list_texts(paths, folder);
    json_decref(state);
    return status;
}

cs_status ce_texts_list(glob_t *paths, const char *name)
{
    char quoted[NAME_BYTES];
    size_t before = paths->gl_pathc;
    if (ce_files_is_folder(name))
        return list_folder(paths, name);
    ce_folder_quote(quoted, sizeof quoted, name);
    CE_TRY(look(paths, access(name, F_OK) == 0 ? quoted : name));
    return paths->gl_pathc > before ? CS_OK : ce_fail(CS_NOT_FOUND, "%s: no such file", name);
}
