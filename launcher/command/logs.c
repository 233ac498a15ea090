/* logs.c - `cspeed logs`: shows the log files of a job, and follows them while they grow. */
#include "ground/codes.h"
#include "ground/command.h"
#include "front/logdir.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PAUSE_NANOSECONDS = 100000000, OLDEST = 2, LINE_BYTES = 64 << 10, PATH_BYTES = PATH_MAX + 512 };

/* One log file of an attempt, and its last line if that line is incomplete. */
typedef struct {
    int rank, which, fd;
    char line[LINE_BYTES]; /* the beginning of a line whose end has not been written yet */
    size_t length;
} shown;

typedef struct {
    const cl_registry_job *job; /* the running job; NULL: the job no longer runs */
    char folder[PATH_MAX], attempt_folder[PATH_MAX + 32];
    int attempt, rank; /* rank: the rank whose log is shown; -1: all ranks */
    shown **files;
    int count;
} reader;

/* ---- finding the files ---- */

static int by_rank(const void *a, const void *b)
{
    const shown *one = *(shown *const *)a, *other = *(shown *const *)b;
    return one->rank != other->rank ? one->rank - other->rank : one->which - other->which;
}

static bool has_file(const reader *all, int rank, int which)
{
    for (int i = 0; i < all->count; i++)
        if (all->files[i]->rank == rank && all->files[i]->which == which)
            return true;
    return false;
}

static void add_file(reader *all, const char *name)
{
    int rank, used = 0;
    char end[4] = "";
    if (sscanf(name, "%d.%3[a-z]%n", &rank, end, &used) != 2 || name[used] ||
        (strcmp(end, "out") != 0 && strcmp(end, "err") != 0) || (all->rank >= 0 && rank != all->rank))
        return;
    int which = strcmp(end, "err") == 0;
    if (has_file(all, rank, which))
        return;
    shown **larger = realloc(all->files, ((size_t)all->count + 1) * sizeof *larger);
    shown *file = calloc(1, sizeof *file);
    all->files = larger ? larger : all->files;
    if (!larger || !file) {
        free(file);
        return;
    }
    *file = (shown){ .rank = rank, .which = which, .fd = -1 };
    all->files[all->count++] = file;
}

static void add_files(reader *all)
{
    DIR *folder = opendir(all->attempt_folder);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        add_file(all, entry->d_name);
    if (folder)
        closedir(folder);
    if (all->count)
        qsort(all->files, (size_t)all->count, sizeof(shown *), by_rank);
}

static void forget_files(reader *all)
{
    for (int i = 0; i < all->count; i++) {
        if (all->files[i]->fd >= 0)
            close(all->files[i]->fd);
        free(all->files[i]);
    }
    free(all->files);
    all->files = NULL;
    all->count = 0;
}

/* Switches to the newest attempt. Returns true if the attempt has changed since the previous call. */
static bool find_attempt(reader *all)
{
    char next[PATH_MAX + 32];
    struct stat found;
    int attempt = all->attempt;
    for (;; attempt++) {
        snprintf(next, sizeof next, "%s/attempt_%d", all->folder, attempt + 1);
        if (stat(next, &found) < 0)
            break;
    }
    bool changed = attempt != all->attempt || !*all->attempt_folder;
    all->attempt = attempt;
    snprintf(all->attempt_folder, sizeof all->attempt_folder, "%s/attempt_%d", all->folder, attempt);
    return changed;
}

/* ---- showing the files ---- */

static void show_line(const reader *all, shown *file, const char *end)
{
    FILE *out = file->which ? stderr : stdout;
    if (all->rank < 0)
        fprintf(out, "%d| ", file->rank);
    fwrite(file->line, 1, file->length, out);
    fputs(end, out);
    file->length = 0;
}

static void show_bytes(const reader *all, shown *file, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] != '\n')
            file->line[file->length++] = bytes[i];
        if (bytes[i] == '\n' || file->length == LINE_BYTES)
            show_line(all, file, bytes[i] == '\n' ? "\n" : "\\\n");
    }
}

static bool show_rest(const reader *all, shown *file)
{
    char bytes[16 << 10];
    ssize_t count;
    bool any = false;
    while (file->fd >= 0 && (count = read(file->fd, bytes, sizeof bytes)) > 0) {
        show_bytes(all, file, bytes, (size_t)count);
        any = true;
    }
    return any;
}

static void path_of(const reader *all, const shown *file, int age, char path[PATH_BYTES])
{
    int used = snprintf(path, PATH_BYTES, "%s/%d.%s", all->attempt_folder, file->rank, file->which ? "err" : "out");
    if (age)
        snprintf(path + used, (size_t)(PATH_BYTES - used), ".%d", age);
}

/* Returns true if the log file was rotated: the file that is open here is now called NAME.1, and a new file is called
 * NAME. */
static bool has_moved(const reader *all, const shown *file)
{
    char path[PATH_BYTES];
    struct stat shown_one, there;
    path_of(all, file, 0, path);
    return fstat(file->fd, &shown_one) == 0 && stat(path, &there) == 0 &&
           (shown_one.st_ino != there.st_ino || shown_one.st_dev != there.st_dev);
}

static bool show_file(const reader *all, shown *file)
{
    char path[PATH_BYTES];
    bool any = false;
    for (int age = file->fd < 0 ? OLDEST : 0; age >= 0; age--) {
        if (file->fd >= 0 && age == 0 && !has_moved(all, file))
            break;
        any |= show_rest(all, file);
        if (file->fd >= 0)
            close(file->fd);
        path_of(all, file, age, path);
        file->fd = open(path, O_RDONLY | O_CLOEXEC);
        any |= show_rest(all, file);
    }
    return show_rest(all, file) || any;
}

static bool show_all(const reader *all)
{
    bool any = false;
    for (int i = 0; i < all->count; i++)
        any |= show_file(all, all->files[i]);
    fflush(stdout);
    return any;
}

static void end_lines(const reader *all)
{
    for (int i = 0; i < all->count; i++)
        if (all->files[i]->length)
            show_line(all, all->files[i], "\n");
}

static void follow(reader *all)
{
    for (bool runs = true; runs;) {
        /* The state of the job is read before the files; otherwise the last lines of the job could be missed. */
        runs = cl_registry_read_is_running(all->job);
        if (find_attempt(all)) {
            end_lines(all);
            forget_files(all);
        }
        add_files(all);
        if (!show_all(all) && runs)
            nanosleep(&(struct timespec){ 0, PAUSE_NANOSECONDS }, NULL);
    }
}

static int show(reader *all, bool follows)
{
    find_attempt(all);
    add_files(all);
    if (!all->count && all->rank >= 0)
        return cl_codes_fail(CL_CODE_NO_FILE,
                             "rank %d has no log file in %s; if it ran on another host that does not share this "
                             "folder, the file is on that host",
                             all->rank, all->attempt_folder);
    show_all(all);
    if (follows && all->job)
        follow(all);
    end_lines(all);
    return 0;
}

typedef struct {
    bool follows;
    int64_t rank; /* -1: all ranks */
} request;

static int run(const cl_options *options, char **at)
{
    static const cs_option table[] = {
        { CL_COMMAND_OPTION(SWITCH, "f", follows, NULL) },
        { CL_COMMAND_OPTION(WHOLE, "rank", rank, "R"), .max = INT32_MAX },
    };
    static const cs_options_form form = { CL_COMMAND_FORM("logs", 1, 1, "which JOB? An id, a folder, or \"latest\""),
                                          CS_OPTIONS_TABLE(table) };
    request r = { .rank = -1 };
    bool runs = false;
    cl_registry_job job;
    (void)options;
    int code = cs_options_read(&form, &r, &at);
    reader all = { .rank = (int)r.rank };
    if (code == 0)
        code = cl_logdir_find(*at, &job, &runs, all.folder);
    all.job = runs ? &job : NULL;
    if (code == 0)
        code = show(&all, r.follows);
    forget_files(&all);
    return code;
}

const cl_command cl_command_logs = {
    .name = "logs",
    .group = "Look",
    .summary = "show the output of the ranks of a job",
    .usage = "cspeed logs [-f] JOB [--rank R]",
    .text = "Prints the log files of the job's newest attempt, those of stdout to stdout and those of stderr to\n"
            "stderr. Each line begins with the number of its rank. --rank R prints only the lines of rank R,\n"
            "without the number. -f also prints new lines as they are written, until the job has ended. JOB is\n"
            "the id of a job (or the first characters of the id) that is running or whose logs are in\n"
            "./cspeed_runs, the path of a log folder, or \"latest\".\n",
    .example = "cspeed logs -f latest --rank 0",
    .run = run,
};
