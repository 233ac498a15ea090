/* csv.c - writes one CSV file for each tag, named as DeepSpeed names it: the tag Train/Samples/lr has the file
 * Train_Samples_lr.csv with the header "step,lr". */
#include "monitor/writer.h"
#include "base/must.h"
#include "base/say.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
    char *tag;
    FILE *file;
} column;

typedef struct {
    char *folder;
    column *columns;
    int count;
} csv;

static void *open_csv(const char *folder, int64_t at)
{
    (void)at; /* Each file is trimmed later, when the first number of its tag is written. */
    csv *files = ce_must_alloc(sizeof *files);
    files->folder = ce_must_copy(folder);
    return files;
}

static char *path_of(const csv *files, const char *tag)
{
    char *path = ce_must_print("%s/%s.csv", files->folder, tag);
    for (char *letter = path + strlen(files->folder) + 1; *letter; letter++)
        if (*letter == '/')
            *letter = '_';
    return path;
}

/* Copies the header and the rows before the position `at`. Returns the number of copied rows without the header, or -1
 * after an error. */
static int64_t copy_rows(FILE *from, FILE *to, int64_t at)
{
    CE_FREED char *line = NULL;
    size_t capacity = 0;
    int64_t kept = 0, step;
    bool good = true;
    while (good && getline(&line, &capacity, from) > 0) {
        bool row = sscanf(line, "%" SCNd64 ",", &step) == 1;
        if ((row && step >= at) || !strchr(line, '\n'))
            continue;
        good = fputs(line, to) >= 0;
        kept += row;
    }
    return good && !ferror(from) ? kept : -1;
}

/* Removes the rows of an earlier run from the position `at` on. If no row remains, the old file is renamed to
 * NAME.old. */
static bool trim(const char *path, int64_t at)
{
    CE_FREED char *part = ce_must_print("%s.part", path);
    CE_FREED char *old = ce_must_print("%s.old", path);
    int64_t kept = -1;
    struct stat info;
    if (stat(path, &info) != 0)
        return errno == ENOENT;
    if (!S_ISREG(info.st_mode)) /* A pipe or a device has no rows to trim. */
        return true;
    FILE *from = fopen(path, "r"), *to = NULL;
    if (!from)
        return false;
    to = fopen(part, "w");
    if (to) {
        kept = copy_rows(from, to, at);
        if (fclose(to) != 0)
            kept = -1;
    }
    fclose(from);
    bool good = kept > 0 ? rename(part, path) == 0 : kept == 0 && rename(path, old) == 0;
    int why = errno;
    if (to && kept <= 0)
        remove(part);
    errno = why;
    return good;
}

static FILE *open_column(const csv *files, const char *tag, int64_t at)
{
    CE_FREED char *path = path_of(files, tag);
    FILE *file = trim(path, at) ? fopen(path, "a") : NULL;
    if (file && fseeko(file, 0, SEEK_END) == 0 && ftello(file) > 0)
        return file;
    if (file)
        fprintf(file, "step,%s\n", basename(tag));
    return file;
}

static FILE *file_of(csv *files, const char *tag, int64_t at)
{
    for (int i = 0; i < files->count; i++)
        if (strcmp(files->columns[i].tag, tag) == 0)
            return files->columns[i].file;
    FILE *file = open_column(files, tag, at);
    if (!file)
        return NULL;
    files->columns = ce_must_resize(files->columns, (size_t)(files->count + 1) * sizeof *files->columns);
    files->columns[files->count++] = (column){ ce_must_copy(tag), file };
    return file;
}

static bool write_csv(void *writer, const char *tag, double value, int64_t at)
{
    FILE *file = file_of(writer, tag, at);
    return file && fprintf(file, "%" PRId64 ",%s\n", at, ce_say_number(value).text) > 0;
}

static bool flush_csv(void *writer)
{
    csv *files = writer;
    bool good = true;
    for (int i = 0; i < files->count && good; i++)
        good = fflush(files->columns[i].file) == 0;
    return good;
}

static void close_csv(void *writer)
{
    CE_FREED csv *files = writer;
    for (int i = 0; i < files->count; i++) {
        fclose(files->columns[i].file);
        free(files->columns[i].tag);
    }
    free(files->columns);
    free(files->folder);
}

const ce_writer ce_writer_csv = { "csv_monitor", open_csv, write_csv, flush_csv, close_csv };
