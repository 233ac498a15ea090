/* test_damage.c - checkpoints that are damaged, truncated, mixed or incomplete; saves that fail or are killed. */
#include "checkpoint/audit.h"
#include "saved.h"
#include "shell.h"
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const shards[] = {
    "weights/shard-00001-of-00004.safetensors",
    "weights/shard-00003-of-00004.safetensors",
    "optim/shard-00001-of-00001.safetensors",
};
enum { SHARDS = sizeof shards / sizeof *shards };

static void save_two_ranks(void)
{
    saved_save_ranks(2, SAVED_FLAT, "out", "t", 1);
}

static long size_of(const char *path)
{
    struct stat about;
    ck_assert_msg(stat(path, &about) == 0, "no %s", path);
    return (long)about.st_size;
}

static void path_of(char path[200], const char *file)
{
    snprintf(path, 200, "out/t/%s", file);
}

/* If true, madvise behaves as in kernels before Linux 5.14, which lack MADV_POPULATE_READ. */
static bool old_kernel;
static int refusals;

int madvise(void *address, size_t length, int advice)
{
    if (old_kernel && advice == MADV_POPULATE_READ) {
        refusals++;
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_madvise, address, length, advice);
}

static void keep_fault(void *to, const char *sentence)
{
    snprintf(to, 4096, "%s", sentence);
}

static int64_t audit(char fault[4096])
{
    ce_audit done = { .fault = keep_fault, .to = fault };
    ce_audit_directory(&done, "out/t");
    return done.faults;
}

/* If blocks cannot be mapped, they are read, with the same result. */
START_TEST(blocks_are_read_where_mapping_fails)
{
    char fault[4096] = "", path[200];
    shell_enter();
    save_two_ranks();
    path_of(path, shards[1]);
    for (int old = 0; old < 2; old++) {
        old_kernel = old;
        ck_assert_msg(audit(fault) == 0, "%s", fault);
        shell_flip(path, size_of(path) - 1);
        ck_assert_int_eq(audit(fault), 1);
        ck_assert_msg(strstr(fault, shards[1]) && strstr(fault, "block 0 of tensor ") && strstr(fault, "CRC32C"), "%s",
                      fault);
        shell_flip(path, size_of(path) - 1);
        ck_assert_int_eq(refusals > 0, old);
    }
    old_kernel = false;
    shell_leave();
}
END_TEST

/* Changes single bytes of each shard: checksums cover the header, the padding and the data. */
START_TEST(flipped_bits_are_reported)
{
    char path[200];
    shell_enter();
    save_two_ranks();
    for (int i = 0; i < SHARDS; i++) {
        path_of(path, shards[i]);
        long size = size_of(path);
        for (long at = 0; at < size; at += at < 16 ? 1 : 37) {
            shell_flip(path, at);
            SHOULD_SAY(saved_load("out", "t", NULL), CS_BAD_FILE, shards[i]);
            ck_assert_msg(at < 4096 || (strstr(cs_error(), "block 0 of tensor ") && strstr(cs_error(), "CRC32C")), "%s",
                          cs_error());
            shell_flip(path, at);
        }
    }
    SHOULD(saved_load("out", "t", NULL));
    shell_flip("out/t/client_state.json", 3);
    SHOULD_SAY(saved_load("out", "t", NULL), CS_BAD_FILE, "client_state.json");
    shell_leave();
}
END_TEST

START_TEST(cut_and_missing_files)
{
    char path[200];
    shell_enter();
    for (int i = 0; i < SHARDS; i++) {
        path_of(path, shards[i]);
        save_two_ranks();
        long size = size_of(path);
        const long sizes[] = { size + 1, size - 1, 4096, 4095, 100, 8, 7, 0 };
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            ck_assert_int_eq(truncate(path, sizes[s]), 0);
            SHOULD_SAY(saved_load("out", "t", NULL), CS_BAD_FILE, shards[i]);
        }
        unlink(path);
        SHOULD_SAY(saved_load("out", "t", NULL), CS_BAD_FILE, shards[i]);
        ck_assert_int_eq(mkdir(path, 0777), 0);
        SHOULD_SAY(saved_load("out", "t", NULL), CS_BAD_FILE, "not a regular file");
    }
    save_two_ranks();
    unlink("out/t/client_state.json");
    SHOULD_SAY(saved_load("out", "t", NULL), CS_BAD_FILE, "client_state.json is missing");
    shell_leave();
}
END_TEST

/* Replaces a shard by the shard of the same name and length from another save of the same state. */
START_TEST(mixed_saves)
{
    shell_enter();
    saved_save_ranks(2, SAVED_FLAT, "out", "t", 1);
    saved_save_ranks(2, SAVED_FLAT, "out", "u", 1);
    ck_assert_int_eq(shell_run("cp out/u/%s out/t/%s", shards[0], shards[0]), 0);
    SHOULD_SAY(saved_load("out", "t", NULL), CS_BAD_FILE, shards[0]);
    SHOULD(saved_load("out", "u", NULL));
    shell_leave();
}
END_TEST

static void expect_step(int64_t wanted)
{
    int64_t step = -1;
    SHOULD(saved_load("out", NULL, &step));
    ck_assert_int_eq(step, wanted);
}

START_TEST(latest_that_names_nothing)
{
    shell_enter();
    SHOULD_SAY(saved_load("out", NULL, NULL), CS_NOT_FOUND, "out");
    ck_assert_int_eq(mkdir("out", 0777), 0);
    SHOULD_SAY(saved_load("out", NULL, NULL), CS_NOT_FOUND, "contains no checkpoint");
    SHOULD(saved_save("out", "a", 1));
    SHOULD(saved_save("out", "b", 12));
    SHOULD(saved_save("out", "c", 3));
    expect_step(3);
    static const char *const texts[] = { "", "\n", "gone", "\x01\x02", "../out/a", "a\nb" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        shell_write("out/latest", texts[i]);
        expect_step(12);
    }
    shell_write("out/latest", "a\n"); /* an editor may add a newline */
    expect_step(1);
    unlink("out/latest");
    expect_step(12);
    ck_assert_int_eq(truncate("out/b/weights/shard-00001-of-00001.safetensors", 5000), 0);
    expect_step(3);
    shell_write("out/latest", "b"); /* `latest` names a damaged checkpoint */
    expect_step(3);
    shell_flip("out/c/weights/shard-00001-of-00001.safetensors", 2000);
    expect_step(1);
    shell_flip("out/a/manifest.json", 100);
    SHOULD_SAY(saved_load("out", NULL, NULL), CS_BAD_FILE, "no other complete checkpoint:");
    unlink("out/latest");
    SHOULD_SAY(saved_load("out", NULL, NULL), CS_BAD_FILE, "out/c/weights/shard-00001-of-00001.safetensors");
    shell_leave();
}
END_TEST

/* A crash can leave a directory in these states: it has only the staging directory; it has files but no manifest; it
 * has a complete checkpoint that `latest` does not name yet. */
START_TEST(crash_states)
{
    shell_enter();
    SHOULD(saved_save("out", "a", 1));
    ck_assert_int_eq(shell_run("mkdir new && mv out/a new/.cspeed-tmp-a-01234567"), 0);
    SHOULD_SAY(saved_load("new", NULL, NULL), CS_NOT_FOUND, "contains no checkpoint");
    SHOULD(saved_save("new", "b", 2));
    ck_assert_int_eq(shell_run("[ \"$(ls -A new | tr '\\n' ' ')\" = 'b latest ' ]"), 0);

    ck_assert_int_eq(shell_run("rm -rf out && cp -r new out && rm out/b/manifest.json && rm out/latest"), 0);
    SHOULD_SAY(saved_load("out", NULL, NULL), CS_NOT_FOUND, "contains no checkpoint");
    SHOULD_SAY(saved_load("out", "b", NULL), CS_BAD_FILE, "manifest.json");

    ck_assert_int_eq(shell_run("rm -rf out && cp -r new out"), 0);
    SHOULD(saved_save("out", "c", 3));
    shell_write("out/latest", "b");
    expect_step(2);
    SHOULD(saved_load("out", "c", NULL));

    ck_assert_int_eq(
        shell_run("mkdir out/.cspeed-trash-c-00000001 out/.cspeed-tmp-x-00000002 && touch out/.cspeed-tmp-latest-3"),
        0);
    int living = open("out/.cspeed-tmp-x-00000002", O_RDONLY);
    ck_assert_int_eq(flock(living, LOCK_EX | LOCK_NB), 0);
    SHOULD(saved_save("out", "d", 4));
    ck_assert_int_eq(shell_run("[ \"$(ls -A out | tr '\\n' ' ')\" = '.cspeed-tmp-x-00000002 b c d latest ' ]"), 0);
    close(living);
    shell_leave();
}
END_TEST

START_TEST(places_that_are_taken)
{
    shell_enter();
    ck_assert_int_eq(shell_run("mkdir -p out/mine out/empty && echo precious > out/mine/thesis && echo x > out/file"),
                     0);
    SHOULD_SAY(saved_save("out", "mine", 1), CS_IO_ERROR, "out/mine exists and is not a checkpoint");
    SHOULD_SAY(saved_save("out", "file", 1), CS_IO_ERROR, "out/file exists and is not a checkpoint");
    SHOULD_SAY(saved_save("out/file", "t", 1), CS_IO_ERROR, "out/file");
    ck_assert_int_eq(shell_run("[ $(cat out/mine/thesis) = precious ]"), 0);
    SHOULD(saved_save("out", "empty", 1));
    SHOULD(saved_save("out", "t", 2));
    unlink("out/latest");
    ck_assert_int_eq(mkdir("out/latest", 0777), 0);
    SHOULD_SAY(saved_save("out", "t", 3), CS_IO_ERROR, "out/latest");
    SHOULD_SAY(saved_save("out", "u", 3), CS_IO_ERROR, "out/latest");
    int64_t step;
    SHOULD(saved_load("out", "t", &step)); /* the old checkpoint has its name again */
    ck_assert_int_eq(step, 2);
    ck_assert_int_eq(shell_run("[ \"$(ls -A out | tr '\\n' ' ')\" = 'empty file latest mine t ' ]"), 0);
    if (geteuid() != 0) {
        rmdir("out/latest");
        chmod("out", 0555);
        SHOULD_SAY(saved_save("out", "v", 4), CS_IO_ERROR, "Permission denied");
        chmod("out", 0755);
    } else {
        printf("skipped: a directory without write permission (this user is root)\n");
    }
    shell_leave();
}
END_TEST

static int save_with_limit(void *argument)
{
    struct rlimit limit = { 5000, 5000 };
    cs_comm *comm = saved_world();
    int rank = cs_comm_rank(comm);
    saved_pieces pieces;
    (void)argument;
    signal(SIGXFSZ, SIG_IGN);
    if (rank == 1)
        setrlimit(RLIMIT_FSIZE, &limit);
    saved_open(&pieces, rank, 3, SAVED_FLAT, 2);
    ce_checkpoint_content content = {
        .tag = "t", .step = 2, .config_text = "{}", .pieces = pieces.piece, .piece_count = pieces.count
    };
    cs_status status = ce_checkpoint_save(comm, "out", &content);
    saved_close(&pieces);
    cs_comm_close(comm);
    if (status == CS_IO_ERROR && strstr(cs_error(), "File too large") && strstr(cs_error(), "/weights/shard-"))
        return 0;
    return 1;
}

/* One rank cannot write: all ranks fail with its message, and the checkpoint of that tag is unchanged. */
START_TEST(a_rank_that_cannot_write)
{
    shell_enter();
    SHOULD(saved_save("out", "t", 1));
    SHOULD(cs_spawn(3, save_with_limit, NULL));
    expect_step(1);
    ck_assert_int_eq(shell_run("[ \"$(ls -A out | tr '\\n' ' ')\" = 'latest t ' ]"), 0);
    shell_leave();
}
END_TEST

/* Saves to a file system that has too few bytes for the checkpoint, and to a file system that has enough bytes but too
 * few inodes. */
START_TEST(full_disks)
{
    enum { COUNT = 1 << 20 };
    float *data = calloc(COUNT, sizeof *data);
    cs_comm *comm = saved_world();
    ce_piece piece = { .name = "w",
                       .folder = "weights",
                       .dtype = CS_F32,
                       .dims = 1,
                       .shape = { COUNT },
                       .range = { 0, COUNT },
                       .data = data };
    ce_checkpoint_content content = {
        .tag = "big", .config_text = "{}", .step = 9, .pieces = &piece, .piece_count = 1
    };
    shell_enter();
    ck_assert_int_eq(mkdir("out", 0777), 0);
    /* The mount disappears with this process. */
    bool own = unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
    if (!own || mount("none", "out", "tmpfs", 0, "size=2m") != 0) {
        printf("skipped: a full file system (mounting one: %s)\n", strerror(errno));
    } else {
        SHOULD(saved_save("out", "t", 1));
        SHOULD_SAY(ce_checkpoint_save(comm, "out", &content), CS_IO_ERROR, "free some space");
        expect_step(1);
        ck_assert_int_eq(shell_run("[ \"$(ls -A out | tr '\\n' ' ')\" = 'latest t ' ]"), 0);
        ck_assert_int_eq(umount("out"), 0);
        char small[] =
            "size=2m,nr_inodes=13"; /* enough bytes but too few inodes: the second save fails in the middle */
        ck_assert_int_eq(mount("none", "out", "tmpfs", 0, small), 0);
        SHOULD(saved_save("out", "t", 1));
        SHOULD_SAY(saved_save("out", "u", 2), CS_IO_ERROR, "No space left");
        expect_step(1);
        ck_assert_int_eq(shell_run("[ \"$(ls -A out | tr '\\n' ' ')\" = 'latest t ' ]"), 0);
        ck_assert_int_eq(umount("out"), 0);
    }
    shell_leave();
    cs_comm_close(comm);
    free(data);
}
END_TEST

/* Saves in an endless loop under several tags in turn, so that checkpoints are created, replaced and pruned. */
static _Noreturn void save_until_killed(void)
{
    for (int64_t step = 1;; step++) {
        char tag[16];
        snprintf(tag, sizeof tag, "t%d", (int)(step % 3));
        if (saved_save("out", tag, step) != CS_OK) {
            fprintf(stderr, "%s\n", cs_error());
            _exit(1);
        }
    }
}

START_TEST(killed_at_any_moment)
{
    enum { ROUNDS = 20 };
    unsigned short random[3] = { 1, 2, 3 };
    int64_t max = 0;
    shell_enter();
    SHOULD(saved_save("out", "t0", 0));
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0)
            save_until_killed();
        usleep((useconds_t)(1000 + nrand48(random) % 250000));
        int64_t step = -1;
        int status;
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        ck_assert_msg(WIFSIGNALED(status), "a save failed");
        SHOULD(saved_load("out", NULL, &step)); /* compares the values too */
        max = step > max ? step : max;
    }
    SHOULD(saved_save("out", "end", 1));
    /* The last save removed the files that the killed processes had left. */
    ck_assert_int_eq(shell_run("ls -A out | grep -c cspeed"), 1);
    printf("killed %d times; the longest run saved %lld times\n", ROUNDS, (long long)max);
    shell_leave();
}
END_TEST

SUITE_MAIN("damage", flipped_bits_are_reported, blocks_are_read_where_mapping_fails, cut_and_missing_files, mixed_saves,
           latest_that_names_nothing, crash_states, places_that_are_taken, a_rank_that_cannot_write, full_disks,
           killed_at_any_moment)
