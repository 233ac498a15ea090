/* test_launch_output.c - the output of ranks with the cspeed command: lines, log files, a console that is not read, and
 * a terminal. */
#include "jobs.h"
#include "shell.h"
#include "suite.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

START_TEST(lines_of_ranks_are_not_mixed)
{
    jobs_begin();
    RUN(here, "--oversubscribe", "--num_gpus", "4", SHELL,
        "i=0; while [ $i -lt 2000 ]; do echo \"line $i of rank $RANK ends here\"; i=$((i+1)); done");
    jobs_check_code(&here, 0);
    int next[4] = { 0 };
    for (char *rest = here.out, *line; (line = strsep(&rest, "\n")) && *line;) {
        int rank = 0, number, end_at = 0;
        bool named = line[1] == '|';
        if (named)
            rank = line[0] - '0';
        ck_assert_int_eq(named, rank != 0);
        int said = -1;
        ck_assert_int_eq(sscanf(line + (named ? 3 : 0), "line %d of rank %d ends here%n", &number, &said, &end_at), 2);
        ck_assert_msg(end_at > 0 && line[(named ? 3 : 0) + end_at] == '\0', "torn: %s", line);
        ck_assert_int_eq(said, rank);
        ck_assert_int_eq(number, next[rank]++);
    }
    for (int rank = 0; rank < 4; rank++)
        ck_assert_int_eq(next[rank], 2000);
    jobs_end(&here);
}
END_TEST

START_TEST(a_file_gets_the_bytes_of_a_rank)
{
    static const struct {
        const char *script, *out;
    } cases[] = {
        { "printf 'no end'", "no end\n" },
        { "printf '\\n\\na\\n'", "\n\na\n" },
        { "printf 'a\\r\\nb\\r\\n'", "a\r\nb\r\n" },
        { "printf '\\r10%%\\r20%%\\r30%%\\ndone\\n'", "\r10%\r20%\r30%\ndone\n" },
        { "printf half; sleep 0.5; echo whole", "halfwhole\n" },
        { "printf '5%%\\r'; sleep 0.3; printf '\\nz\\n'", "5%\r\nz\n" },
        { "printf '\\r5%%'; sleep 0.3; printf '\\nz\\n'", "\r5%\nz\n" },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        jobs_begin();
        RUN(here, "-q", "--num_gpus", "1", SHELL, cases[i].script);
        jobs_check_code(&here, 0);
        ck_assert_str_eq(here.out, cases[i].out);
        ck_assert_str_eq(here.err, "");
        jobs_end(&here);
    }
}
END_TEST

START_TEST(long_lines_are_broken)
{
    jobs_begin();
    RUN(here, "-q", "--num_gpus", "1", "--prefix", "{rank}> ", SHELL,
        "head -c 100000 /dev/zero | tr '\\0' x; echo; echo end");
    jobs_check_code(&here, 0);
    ck_assert_int_eq(shell_count_of(here.out, "x"), 100000);
    ck_assert_int_eq(shell_count_of(here.out, "x\\\n0> x"), 1);
    jobs_check_has(here.out, "x\n0> end\n");
    jobs_end(&here);
}
END_TEST

START_TEST(log_files_have_every_byte)
{
    jobs_begin();
    RUN(here, TWO, "--log_dir", "logs/deep", SHELL, "printf 'a\\rb\\n\\001'; echo err $RANK >&2");
    jobs_check_code(&here, 0);
    char *out = jobs_slurp("logs/deep/attempt_0/1.out"), *err = jobs_slurp("logs/deep/attempt_0/0.err");
    ck_assert_str_eq(out, "a\rb\n\001");
    ck_assert_str_eq(err, "err 0\n");
    free(out);
    free(err);
    jobs_end(&here);
}
END_TEST

static void check_mode(const char *path, mode_t mode)
{
    struct stat facts;
    ck_assert_msg(stat(path, &facts) == 0 && (facts.st_mode & 0777) == mode, "%s: mode %o, not %o", path,
                  facts.st_mode & 0777, mode);
}

/* The permissions of log files follow umask, and only the user may write to them. */
START_TEST(log_files_follow_the_umask)
{
    static const struct {
        mode_t mask, file, folder;
    } rows[] = { { 0, 0644, 0755 }, { 002, 0644, 0755 }, { 027, 0640, 0750 }, { 077, 0600, 0700 } };
    mode_t before = umask(0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        jobs_begin();
        umask(rows[i].mask);
        RUN(here, "-q", TWO, "--log_max", "16", "--log_dir", "new/logs", SHELL,
            "for i in 1 2 3; do echo 0123456789; sleep 0.05; done");
        jobs_check_code(&here, 0);
        check_mode("new", rows[i].folder);
        check_mode("new/logs", rows[i].folder);
        check_mode("new/logs/attempt_0", rows[i].folder);
        check_mode("new/logs/attempt_0/1.out", rows[i].file);
        check_mode("new/logs/attempt_0/1.out.1", rows[i].file);
        check_mode("new/logs/attempt_0/0.err", rows[i].file);
        check_mode("new/logs/result.json", rows[i].file);
        jobs_end(&here);
    }
    umask(before);
}
END_TEST

/* `made` is a command that creates a file before the job begins; "kept" is a file of the user that must not change. */
static const struct {
    const char *made;
    int code;
    const char *says;
} link_cases[] = {
    { "ln -s ../../kept logs/attempt_0/0.out", 73, "logs/attempt_0/0.out is a symbolic link" },
    { "ln -s ../../none logs/attempt_0/1.err", 73, "logs/attempt_0/1.err is a symbolic link" },
    { "mkfifo logs/attempt_0/0.err", 73, "logs/attempt_0/0.err is not a regular file" },
    { "mkdir logs/attempt_0/0.err", 73, "logs/attempt_0/0.err cannot be written: Is a directory" },
    { "ln -s ../kept logs/result.json", 0, "result.json is a symbolic link" },
    { "mkdir far; rm -r logs; ln -s far logs", 0, "" },
    { "mkdir far; rmdir logs/attempt_0; ln -s ../far logs/attempt_0", 0, "" },
};

START_TEST(log_files_are_not_written_through_links)
{
    for (size_t i = 0; i < sizeof link_cases / sizeof *link_cases; i++) {
        char command[256];
        jobs_begin();
        snprintf(command, sizeof command, "mkdir -p logs/attempt_0; echo mine >kept; %s", link_cases[i].made);
        ck_assert_int_eq(system(command), 0);
        RUN(here, "-q", TWO, "--log_dir", "logs", SHELL, "echo printed; echo error >&2");
        jobs_check_code(&here, link_cases[i].code);
        jobs_check_has(here.err, link_cases[i].says);
        char *kept = jobs_slurp("kept");
        ck_assert_str_eq(kept, "mine\n");
        ck_assert_int_ne(access("none", F_OK), 0);
        if (strstr(link_cases[i].made, "far")) {
            char *out = jobs_slurp("logs/attempt_0/1.out");
            ck_assert_str_eq(out, "printed\n");
            free(out);
        }
        free(kept);
        jobs_end(&here);
    }
}
END_TEST

START_TEST(a_job_ends_although_its_output_is_not_read)
{
    jobs_begin();
    int pipes[2];
    ck_assert_int_eq(pipe2(pipes, O_CLOEXEC), 0);
    job here = jobs_start(pipes[1], (const char *const[]){ "--num_gpus", "1", "--log_dir", "logs", SHELL,
                                                           "seq 1 2000000; touch finished", NULL });
    close(pipes[1]);
    jobs_await("finished"); /* the job ends although its output is not read */
    char *text = malloc(64 << 20);
    size_t length = 0;
    ssize_t part;
    while ((part = read(pipes[0], text + length, (64 << 20) - length - 1)) > 0)
        length += (size_t)part;
    text[length] = '\0';
    close(pipes[0]);
    jobs_finish(&here);
    jobs_check_code(&here, 0);
    jobs_check_has(text, "not shown here, because the output was not read");
    free(text);
    struct stat log;
    ck_assert_int_eq(stat("logs/attempt_0/0.out", &log), 0);
    ck_assert_int_eq(log.st_size, 14888896); /* bytes of the numbers 1 to 2000000, each with a newline */
    jobs_end(&here);
}
END_TEST

START_TEST(lines_are_printed_above_the_progress_of_a_terminal)
{
    jobs_begin();
    int host = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    struct winsize size = { .ws_row = 24, .ws_col = 40 };
    ck_assert_int_ge(host, 0);
    ck_assert_int_eq(grantpt(host) | unlockpt(host), 0);
    int terminal = open(ptsname(host), O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(terminal, 0);
    ck_assert_int_eq(ioctl(terminal, TIOCSWINSZ, &size), 0);
    setenv("TERM", "xterm", 1);
    static const char script[] = "echo window $CSPEED_TERMINAL $COLUMNS; if test $RANK = 0; then "
                                 "printf '\\rstep 1'; touch drawn; while ! test -e said; do sleep 0.01; done; "
                                 "printf '\\rstep 2\\n'; else while ! test -e drawn; do :; done; sleep 0.5; "
                                 "echo between; touch said; fi";
    job here = jobs_start(terminal, (const char *const[]){ "-q", "--color", "never", "--console", "all", TWO, SHELL,
                                                           script, NULL });
    close(terminal);
    char text[16384] = "";
    size_t length = 0;
    ssize_t part;
    while ((part = read(host, text + length, sizeof text - length - 1)) > 0)
        length += (size_t)part; /* read ends with EIO when the last writer has closed the terminal */
    text[length] = '\0';
    close(host);
    jobs_finish(&here);
    jobs_check_code(&here, 0);
    jobs_check_has(text, "window 12 40\r\n");
    jobs_check_has(text, "1| window 12 40\r\n");
    jobs_check_has(text, "\rstep 1\033[K");
    /* Rank 1's line is printed in the row above rank 0's progress line. */
    jobs_check_has(text, "step 1\033[K\r\033[K1| between\r\n");
    jobs_check_has(text, "step 2\r\n");
    jobs_end(&here);
}
END_TEST

SUITE_MAIN("launch_output", lines_of_ranks_are_not_mixed, a_file_gets_the_bytes_of_a_rank, long_lines_are_broken,
           log_files_have_every_byte, log_files_follow_the_umask, log_files_are_not_written_through_links,
           a_job_ends_although_its_output_is_not_read, lines_are_printed_above_the_progress_of_a_terminal)
