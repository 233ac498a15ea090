/* owner.c - the owner file .cspeed-owner: it ensures that only one run at a time writes to an output folder.
 *
 * Rank 0 writes the file before it touches anything else in the folder, and removes the file at the end of the run. A
 * run that was killed leaves its file behind. A run that finds the file of another run decides by that file whether the
 * folder is free:
 *
 * - The file belongs to an earlier attempt of the same job: the folder is free, on whatever host that attempt ran.
 * - The file belongs to a process of this host (same boot, same PID namespace): the folder is free if that process no
 *   longer exists. The start time distinguishes that process from a later process with the same process id.
 * - The file belongs to another host: the folder is free if the file does not change for 60 s. A running owner updates
 *   the file's modification time every 10 s, from a separate thread, since a step or a save may take longer. Only the
 *   fact that the file changed is used, and this host's clock measures the 60 s. The clocks of two hosts, or of a host
 *   and its file server, are never compared.
 *
 * Two runs that start at the same moment decide one after the other, under flock() on the file. On a file system
 * without such locks, both runs may take the folder. The file then names only one of the two runs. The run that is not
 * named finds this out before its first save, and ends. */
#include "base/must.h"
#include "train.h"

#include "base/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { REFRESH = 10, PATIENCE = 60, LOCK_TRIES = 100, TEXT_BYTES = 1024, ANY_FAILURE = 1, TAKEN = 69 };

/* The content of the owner file, which identifies a run. */
typedef struct {
    char job[256], host[256], boot[64], space[64]; /* job is "-" if the launcher did not start the run */
    long attempt, process;
    unsigned long long began; /* start time of the process, in clock ticks since the boot */
} owner;

/* The owner file as it was read at one moment. */
typedef struct {
    char text[TEXT_BYTES];
    struct timespec changed;
} sight;

static struct {
    /* path: the path of the owner file; text: the content that this run writes into the file */
    char *output, *path, *text;
    owner who;
    pid_t process;
    bool made, refreshes; /* made: this run created the folder */
    bool ends;            /* set when the thread has to end; protected by the mutex */
    pthread_mutex_t mutex;
    pthread_cond_t ending;
    pthread_t thread;
} this_run = { .mutex = PTHREAD_MUTEX_INITIALIZER, .ending = PTHREAD_COND_INITIALIZER };

/* ---- identifying a run ---- */

/* Sets `name` to the target of the symbolic link `path`, or to the first line of the system file `path`. If there is
 * neither, `name` becomes "-". */
static void read_name(char *name, size_t capacity, const char *path)
{
    ssize_t length = readlink(path, name, capacity - 1);
    int file = length < 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file >= 0) {
        length = read(file, name, capacity - 1);
        close(file);
    }
    name[length > 0 ? length : 0] = 0;
    name[strcspn(name, "\n")] = 0;
    if (!name[0])
        strcpy(name, "-");
}

/* Reads the state and the start time of a process. Returns false if there is no such process or it may not be
 * inspected. */
static bool read_process(long process, char *state, unsigned long long *began)
{
    /* field numbers of /proc/PID/stat, from 1; field 2 ends at the last ')' of the line */
    enum { STATE = 3, BEGAN = 22 };
    char *path = ce_must_print("/proc/%ld/stat", process), line[TEXT_BYTES];
    FILE *file = fopen(path, "r");
    size_t read = file ? fread(line, 1, sizeof line - 1, file) : 0;
    free(path);
    if (file)
        fclose(file);
    line[read] = 0;
    const char *at = strrchr(line, ')');
    *state = at && at[1] ? at[2] : 0;
    for (int field = STATE; at && field <= BEGAN; field++)
        at = strchr(at + 1, ' ');
    return at && sscanf(at, "%llu", began) == 1;
}

static void read_own(owner *who)
{
    const char *job = getenv("CSPEED_JOB_ID"), *attempt = getenv("CSPEED_ATTEMPT");
    char state;
    snprintf(who->job, sizeof who->job, "%s", job && *job ? job : "-");
    who->attempt = attempt ? atol(attempt) : 0;
    read_name(who->host, sizeof who->host, "/proc/sys/kernel/hostname");
    read_name(who->boot, sizeof who->boot, "/proc/sys/kernel/random/boot_id");
    read_name(who->space, sizeof who->space, "/proc/self/ns/pid");
    who->process = (long)getpid();
    if (!read_process(who->process, &state, &who->began))
        who->began = 0;
}

static char *write_text(const owner *who)
{
    return ce_must_print("job %s\nattempt %ld\nhost %s\nboot %s\nprocess_space %s\nprocess %ld\nbegan %llu\n", who->job,
                         who->attempt, who->host, who->boot, who->space, who->process, who->began);
}

/* Returns false if the text is not a valid owner file, for example after a crash of the machine. */
static bool read_text(owner *who, const char *written)
{
    return sscanf(written,
                  "job %255[^\n]\nattempt %ld\nhost %255[^\n]\nboot %63[^\n]\nprocess_space %63[^\n]\nprocess %ld\n"
                  "began %llu\n",
                  who->job, &who->attempt, who->host, who->boot, who->space, &who->process, &who->began) == 7;
}

/* Returns a description such as "process 71 on host1, of job 7f3a91c2, attempt 0", malloc'ed. */
static char *describe(const char *written)
{
    owner who;
    if (!read_text(&who, written))
        return ce_must_print("an unknown process");
    if (strcmp(who.job, "-") == 0)
        return ce_must_print("process %ld on %s", who.process, who.host);
    return ce_must_print("process %ld on %s, of job %s, attempt %ld", who.process, who.host, who.job, who.attempt);
}

/* ---- the owner file ---- */

static void look(sight *seen, int file)
{
    struct stat facts;
    ssize_t length = pread(file, seen->text, sizeof seen->text - 1, 0);
    seen->text[length > 0 ? length : 0] = 0;
    seen->changed = fstat(file, &facts) == 0 ? facts.st_mtim : (struct timespec){ 0 };
}

static bool same(const sight *one, const sight *other)
{
    return strcmp(one->text, other->text) == 0 && one->changed.tv_sec == other->changed.tv_sec &&
           one->changed.tv_nsec == other->changed.tv_nsec;
}

/* Returns true if the path still refers to the open file. */
static bool is_there(int file)
{
    struct stat open_one, named;
    return fstat(file, &open_one) == 0 && stat(this_run.path, &named) == 0 && open_one.st_dev == named.st_dev &&
           open_one.st_ino == named.st_ino;
}

static bool lock(int file)
{
    return flock(file, LOCK_EX | LOCK_NB) == 0 || errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOLCK;
}

/* Opens and locks the file; other processes hold the lock only for a short time. If `make` is true, creates the file if
 * it does not exist. Returns the descriptor, or -1 after an error. The error is printed, unless `make` is false and the
 * file could not be opened. */
static int open_locked(bool make)
{
    for (int tries = 0;; tries++) {
        int file = open(this_run.path, O_RDWR | (make ? O_CREAT : 0) | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (file >= 0 && lock(file) && is_there(file))
            return file;
        int why = errno;
        if (file >= 0)
            close(file);
        if (file < 0 && !make)
            return -1;
        if (file < 0 || tries == LOCK_TRIES) {
            complain(
                "cannot %s %s: %s; this file names the training that writes the folder; --output DIR names another "
                "folder",
                file < 0 ? "open" : "lock", this_run.path, strerror(why));
            return -1;
        }
        nanosleep(&(struct timespec){ 0, 100000000 }, NULL);
    }
}

static bool write_record(int file)
{
    size_t length = strlen(this_run.text);
    if (pwrite(file, this_run.text, length, 0) == (ssize_t)length && ftruncate(file, (off_t)length) == 0 &&
        fsync(file) == 0)
        return true;
    complain("cannot write %s: %s; --output DIR names another folder", this_run.path, strerror(errno));
    return false;
}

/* Returns true if the file names this run, and stores the content of the file in *found. Also returns true if the file
 * cannot be read now, since it may be readable later. If `renew` is true, updates the file's modification time, which
 * shows that this run is alive. */
static bool names_us(sight *found, bool renew)
{
    int file = open(this_run.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    found->text[0] = 0;
    if (file < 0)
        return errno != ENOENT && errno != ENOTDIR;
    look(found, file);
    bool ours = strcmp(found->text, this_run.text) == 0;
    if (ours && renew)
        futimens(file, NULL);
    close(file);
    return ours;
}

/* ---- deciding whether the folder is free ---- */

typedef enum { FREE, HELD, FAR } verdict;

/* Returns true if the process may still write to the folder. A zombie process does not write any more. A process that
 * may not be inspected counts as alive if a signal can be sent to it. */
static bool lives(const owner *who)
{
    char state;
    unsigned long long began;
    if (read_process(who->process, &state, &began))
        return began == who->began && state != 'Z' && state != 'X';
    return kill((pid_t)who->process, 0) == 0 || errno == EPERM;
}

/* Decides whether this run may take the folder. `seen` is the present state of the file. `still` is the state of the
 * file that did not change while this run waited for the required time; still->text is empty if this run has not waited
 * yet. */
static verdict judge(const sight *seen, const sight *still)
{
    owner who;
    if (!read_text(&who, seen->text) || strcmp(seen->text, this_run.text) == 0 || same(seen, still))
        return FREE;
    bool ours = strcmp(who.job, "-") != 0 && strcmp(who.job, this_run.who.job) == 0;
    bool here = strcmp(who.boot, "-") != 0 && strcmp(who.boot, this_run.who.boot) == 0 &&
                strcmp(who.space, this_run.who.space) == 0;
    if (ours && who.attempt < this_run.who.attempt)
        return FREE;
    if (!here)
        return FAR;
    return lives(&who) ? HELD : FREE;
}

/* Waits for the required time, and checks the file every second.
 *
 * Returns false as soon as the file has changed, because the other run is then alive, or if the file cannot be read.
 * Returns true if the file has disappeared, or if it has not changed for the required time. After true, the caller must
 * decide again whether the folder is free.
 *
 * A check that takes long shows that the file server did not answer. The other run could not update the file during
 * that time either, so the required time starts again. */
static bool stands_still(const sight *seen)
{
    CE_FREED char *holder = describe(seen->text);
    say("%s is in use by %s; checking for %d s whether that training is still running", this_run.output, holder,
        PATIENCE);
    for (double began = ce_clock_seconds(); ce_clock_seconds() - began < PATIENCE;) {
        double before = ce_clock_seconds();
        sight again;
        nanosleep(&(struct timespec){ 1, 0 }, NULL);
        if (names_us(&again, false)) /* names_us returns true if the file cannot be read now */
            return false;
        if (!again.text[0])
            return true;
        if (!same(&again, seen))
            return false;
        if (ce_clock_seconds() - before > REFRESH)
            began = ce_clock_seconds();
    }
    return true;
}

/* Returns advice for stopping the other run, malloc'ed. A job can be stopped only on the host where cspeed started the
 * job, which may be another host. */
static char *way_to_stop(const char *written, bool here)
{
    owner who;
    if (!read_text(&who, written))
        return ce_must_print("stop it");
    if (strcmp(who.job, "-") != 0)
        return ce_must_print("stop it with `cspeed stop %s` on %sthe host where it was started", who.job,
                             here ? "this host, or " : "");
    return here ? ce_must_print("stop it with `kill %ld`", who.process) : ce_must_print("stop it there");
}

static int refuse(const char *written, bool here)
{
    CE_FREED char *holder = describe(written);
    CE_FREED char *way = way_to_stop(written, here);
    complain("another training writes the output folder %s: %s. Wait until it has ended, or %s; or choose another "
             "folder with --output DIR. With --force_output this training takes the folder, and the other one ends "
             "before its next checkpoint",
             this_run.output, holder, way);
    return TAKEN;
}

/* Writes this run's content into the file, which must be open and locked. Returns 0 or an exit code. */
static int take(int file, const sight *seen, bool force)
{
    owner who;
    if (!write_record(file))
        return ANY_FAILURE;
    if (force && read_text(&who, seen->text) && strcmp(seen->text, this_run.text) != 0) {
        CE_FREED char *holder = describe(seen->text);
        say("--force_output: %s is taken from %s; if that training is still running, it ends before its next "
            "checkpoint",
            this_run.output, holder);
    }
    return 0;
}

static int contend(bool force)
{
    sight seen, still = { .text = "" };
    for (;;) {
        int file = open_locked(true);
        if (file < 0)
            return ANY_FAILURE;
        look(&seen, file);
        verdict found = force ? FREE : judge(&seen, &still);
        int code = found == FREE ? take(file, &seen, force) : 0;
        close(file);
        if (found == FREE)
            return code;
        if (found == HELD || !stands_still(&seen))
            return refuse(seen.text, found == HELD);
        still = seen;
    }
}

/* ---- renewing and releasing the file ---- */

static void *refresh(void *unused)
{
    sight found;
    struct timespec next;
    pthread_mutex_lock(&this_run.mutex);
    while (!this_run.ends) {
        clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_sec += REFRESH;
        if (pthread_cond_clockwait(&this_run.ending, &this_run.mutex, CLOCK_MONOTONIC, &next) == ETIMEDOUT)
            names_us(&found, true);
    }
    pthread_mutex_unlock(&this_run.mutex);
    return unused;
}

/* Releases the file; exit() calls this function. In a process that was forked from the run it does nothing, because
 * only the run itself releases the file. */
static void release(void)
{
    sight found;
    if (getpid() != this_run.process)
        return;
    pthread_mutex_lock(&this_run.mutex);
    this_run.ends = true;
    pthread_cond_signal(&this_run.ending);
    pthread_mutex_unlock(&this_run.mutex);
    if (this_run.refreshes)
        pthread_join(this_run.thread, NULL);
    int file = open_locked(false);
    if (file >= 0) {
        look(&found, file);
        if (strcmp(found.text, this_run.text) == 0 && unlink(this_run.path) == 0 && this_run.made)
            rmdir(this_run.output); /* rmdir fails, as intended, if the run has left any file in the folder */
        close(file);
    }
    free(this_run.output);
    free(this_run.path);
    free(this_run.text);
}

/* Starts the thread that renews the file. */
static void begin(void)
{
    this_run.refreshes = ce_thread_start(&this_run.thread, refresh, NULL) == 0;
    if (!this_run.refreshes)
        complain("no thread can be started to refresh %s: trainings on other hosts will take this one for ended after "
                 "%d s",
                 this_run.path, PATIENCE);
}

int owner_take(const char *output, bool made, bool force)
{
    if (!this_run.path) {
        read_own(&this_run.who);
        this_run.output = ce_must_copy(output);
        this_run.path = ce_must_print("%s/%s", output, OWNER_FILE);
        this_run.text = write_text(&this_run.who);
        this_run.process = getpid();
        this_run.made = made;
        atexit(release);
    }
    int code = contend(force);
    if (code == 0 && !this_run.refreshes)
        begin();
    return code;
}

void owner_check(cs_engine *engine)
{
    sight found;
    bool lost = is_rank_zero() && !names_us(&found, true);
    if (lost) {
        CE_FREED char *holder = found.text[0] ? describe(found.text) : ce_must_print("%s is gone", OWNER_FILE);
        complain("another training has taken the output folder %s: %s%s. This training ends without its next "
                 "checkpoint",
                 this_run.output, found.text[0] ? "it was taken by " : "", holder);
    }
    if (cs_agree(engine, lost))
        exit(TAKEN);
}
