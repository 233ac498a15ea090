/* test_launch.c - the cspeed command with real processes and real kills.
 *
 * Every job runs in its own folder. Its processes carry a mark in their environment, by which the tests search /proc
 * for processes that should have ended. Ranks report their progress through files, so that nothing depends on time;
 * waits are only upper limits. This program is also one of the ranks: with CSPEED_TEST_ROLE it plays that role. */
#include "jobs.h"
#include "ports.h"
#include "suite.h"

#include "base/beat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char self[512];

/* ---- this program as a rank ---- */

static int play(const char *role, int count, char **arguments)
{
    if (strcmp(role, "arguments") == 0) { /* each rank writes its arguments to a file, each preceded by its length */
        FILE *file = fopen(strcmp(getenv("RANK"), "0") == 0 ? "zero" : "one", "w");
        for (int i = 1; i < count; i++)
            fprintf(file, "%zu:%s;", strlen(arguments[i]), arguments[i]);
        fclose(file);
    } else if (strcmp(role, "beat") == 0) { /* rank 1 dies in step 7 while rank 0 waits for it */
        bool dies = strcmp(getenv("RANK"), "1") == 0;
        ce_beat_step(7);
        ce_beat_enter(dies ? CS_BEAT_NONE : CS_BEAT_REDUCE_SCATTER);
        fclose(fopen(dies ? "one" : "zero", "w"));
        while (access("zero", F_OK) < 0)
            jobs_pause();
        if (dies)
            raise(SIGKILL);
        pause();
    } else if (strcmp(role, "stall") == 0) { /* rank 1 is late for a collective in which rank 0 waits */
        bool late = strcmp(getenv("RANK"), "1") == 0;
        ce_beat_step(3);
        if (!late)
            ce_beat_enter(CS_BEAT_ALL_REDUCE);
        pause();
    } else if (strcmp(role, "port") == 0) { /* rank 0 may listen on the port that the launcher holds */
        struct sockaddr_in address = { .sin_family = AF_INET };
        int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
        address.sin_port = htons((uint16_t)atoi(getenv("MASTER_PORT")));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        return bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 4) < 0 ? 5 : 0;
    } else if (strcmp(role, "cores") == 0) {
        cpu_set_t set;
        sched_getaffinity(0, sizeof set, &set);
        for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &set))
                printf("core %zu\n", cpu);
    }
    return 0;
}

static job run_role(const char *role, const char *const *arguments)
{
    setenv("CSPEED_TEST_ROLE", role, 1);
    job here = jobs_start(-1, arguments);
    jobs_finish(&here);
    unsetenv("CSPEED_TEST_ROLE");
    return here;
}

#define ROLE(role, ...) run_role(role, (const char *const[]){ __VA_ARGS__, NULL })
#define TWO "--oversubscribe", "--num_gpus", "2"
#define SHELL "/bin/sh", "-c"

/* ---- the tests ---- */

START_TEST(exit_codes)
{
    static const struct {
        const char *script;
        int code;
    } cases[] = {
        { "exit 0", 0 },
        { "test $RANK = 1 || exit 0; exit 3", 3 },
        { "test $RANK = 0 && exit 41; sleep 1000", 41 },
        { "test $RANK = 1 && kill -SEGV $$; sleep 1000", 139 },
        { "test $RANK = 0 && kill -KILL $$; sleep 1000", 137 },
        { "test $RANK = 1 && kill -TERM $$; sleep 1000", 143 },
        { "test $RANK = 0 && exit 0; sleep 0.3; exit 0", 0 },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        jobs_begin();
        RUN(here, TWO, SHELL, cases[i].script);
        jobs_check_code(&here, cases[i].code);
        jobs_end(&here);
    }
}
END_TEST

/* The --local_rank argument that follows the program's own arguments, for each way of starting the program. */
START_TEST(the_local_rank_argument)
{
    static const struct {
        const char *flags[5], *wanted;
    } cases[] = {
        { { "launch" }, "a --local-rank=0\n" },
        { { "launch", "--use_env" }, "a\n" },
        { { "launch", "--use-env" }, "a\n" },
        { { "--use_env", "launch" }, "a\n" },
        { { "launch", "--num_gpus", "1", "--use_env" }, "a\n" },
        { { "--local_rank_arg", "launch" }, "a --local_rank=0\n" },
        { { "--local_rank_arg" }, "a --local_rank=0\n" },
        { { "--no_local_rank" }, "a\n" },
        { { "run" }, "a\n" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *line[12] = { "--no_prefix" };
        int count = 1;
        for (int word = 0; word < 5 && cases[i].flags[word]; word++)
            line[count++] = cases[i].flags[word];
        memcpy(line + count, (const char *[]){ "/bin/sh", "-c", "echo \"$@\"", "sh", "a" }, 5 * sizeof *line);
        jobs_begin();
        job here = jobs_start(-1, line);
        jobs_finish(&here);
        jobs_check_code(&here, 0);
        ck_assert_str_eq(here.out, cases[i].wanted);
        jobs_end(&here);
    }
}
END_TEST

/* `plan` shows the argument as every rank gets it. */
START_TEST(the_local_rank_argument_in_a_plan)
{
    static const struct {
        const char *flags[4], *wanted;
    } cases[] = {
        { { "plan", "launch" }, "command   /bin/echo a --local-rank=$LOCAL_RANK\n" },
        { { "plan", "launch", "--use_env" }, "command   /bin/echo a\n" },
        { { "--local_rank_arg", "plan", "launch" }, "command   /bin/echo a --local_rank=$LOCAL_RANK\n" },
        { { "--local_rank_arg", "plan" }, "command   /bin/echo a --local_rank=$LOCAL_RANK\n" },
        { { "plan", "run" }, "command   /bin/echo a\n" },
        { { "plan", "--json", "launch" }, "\"command\": [\"/bin/echo\", \"a\", \"--local-rank=$LOCAL_RANK\"]" },
        { { "plan", "--json", "run" }, "\"command\": [\"/bin/echo\", \"a\"]" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *line[8] = { NULL };
        int count = 0;
        for (int word = 0; word < 4 && cases[i].flags[word]; word++)
            line[count++] = cases[i].flags[word];
        line[count++] = "/bin/echo";
        line[count++] = "a";
        jobs_begin();
        job here = jobs_start(-1, line);
        jobs_finish(&here);
        jobs_check_code(&here, 0);
        jobs_check_has(here.out, cases[i].wanted);
        jobs_end(&here);
    }
    jobs_begin();
    RUN(nothing, "plan", "launch", "--use_env");
    jobs_check_code(&nothing, 64);
    jobs_check_has(nothing.err, "no PROGRAM is named behind `launch`");
    jobs_end(&nothing);
}
END_TEST

START_TEST(environment_of_ranks)
{
    jobs_begin();
    RUN(here, "--num_gpus=3", "--oversubscribe", "--prefix", "{rank}:{local_rank}:{node}:{stream}| ", SHELL,
        "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $LOCAL_SIZE $NODE_RANK $GROUP_RANK $MASTER_ADDR "
        "$CSPEED_ATTEMPT t$CSPEED_TERMINAL; echo $MASTER_PORT $CSPEED_JOB_ID; test -e /proc/self/fd/$CSPEED_BEAT_FD");
    jobs_check_code(&here, 0);
    jobs_check_has(here.out, "0:0:0:out| 0 0 3 3 3 0 0 127.0.0.1 0 t\n");
    jobs_check_has(here.out, "1:1:0:out| 1 1 3 3 3 0 0 127.0.0.1 0 t\n");
    jobs_check_has(here.out, "2:2:0:out| 2 2 3 3 3 0 0 127.0.0.1 0 t\n");
    char id[9] = "", port[16], wanted[64];
    sscanf(strstr(here.err, "job ") + 4, "%8[0-9a-f]", id);
    sscanf(strstr(here.err, "127.0.0.1:") + 10, "%15[0-9]", port);
    ck_assert_uint_eq(strlen(id), 8);
    snprintf(wanted, sizeof wanted, "| %s %s\n", port, id);
    ck_assert_int_eq(jobs_count_of(here.out, wanted), 3);
    jobs_end(&here);
}
END_TEST

/* Every variable that a rank has and the caller does not is documented in ds_env.example. */
START_TEST(environment_is_documented)
{
    jobs_begin();
    char *documented = jobs_slurp(CS_SOURCE "/ds_env.example");
    unsetenv("COLUMNS");
    RUN(here, "-q", TWO, "--bind", "auto", SHELL, "test $RANK = 1 || tr '\\0' '\\n' </proc/$$/environ");
    int told = 0;
    for (char *rest = here.out, *line; (line = strsep(&rest, "\n")) && *line;) {
        char name[256], entry[300];
        if (sscanf(line, "%255[A-Za-z0-9_]=", name) != 1 || getenv(name) || !strchr(line, '='))
            continue;
        snprintf(entry, sizeof entry, "\n%s=", name);
        ck_assert_msg(strstr(documented, entry) != NULL, "ds_env.example does not have %s", name);
        told++;
    }
    ck_assert_int_ge(told, 15);
    free(documented);
    jobs_end(&here);
}
END_TEST

START_TEST(arguments_are_bytes)
{
    jobs_begin();
    job here = ROLE("arguments", TWO, self, "a b", "", "'\"", "$HOME `id`", "two\nlines", "--num_gpus", "\\n", "*",
                    "\xff\x01");
    jobs_check_code(&here, 0);
    for (int rank = 0; rank < 2; rank++) {
        char *text = jobs_slurp(rank ? "one" : "zero");
        ck_assert_str_eq(text, "3:a b;0:;2:'\";10:$HOME `id`;9:two\nlines;10:--num_gpus;2:\\n;1:*;2:\xff\x01;");
        free(text);
    }
    jobs_end(&here);
}
END_TEST

START_TEST(lines_are_whole)
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

START_TEST(odd_lines)
{
    static const struct {
        const char *script, *out;
    } cases[] = {
        { "printf 'no end'", "no end\n" },
        { "printf '\\n\\na\\n'", "\n\na\n" },
        { "printf 'a\\r\\nb\\r\\n'", "a\nb\n" },
        { "printf '10%%\\r20%%\\r30%%\\ndone\\n'", "30%\ndone\n" },
        { "printf '\\r10%%\\r20%%\\r30%%\\ndone\\n'", "30%\ndone\n" },
        { "printf half; sleep 0.5; echo whole", "halfwhole\n" },
        { "printf 'x\\ry\\r'", "y\n" },
        { "printf '5%%\\r'; sleep 0.3; printf '\\nz\\n'", "5%\nz\n" },
        { "printf '\\r5%%'; sleep 0.3; printf '\\nz\\n'", "5%\nz\n" },
        { "printf '5%%\\r'; sleep 0.3; printf 'z\\n'", "5%\nz\n" },
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
    ck_assert_int_eq(jobs_count_of(here.out, "x"), 100000);
    ck_assert_int_eq(jobs_count_of(here.out, "x\\\n0> x"), 1);
    jobs_check_has(here.out, "x\n0> end\n");
    jobs_end(&here);
}
END_TEST

START_TEST(programs_are_found)
{
    jobs_begin();
    ck_assert_int_eq(system("mkdir bin; printf '#!/bin/sh\\necho from path' >bin/cs-test-tool;"
                            "chmod +x bin/cs-test-tool;"
                            "printf 'echo x' >plain; cp plain plain.py; printf 'echo x' >headless; chmod +x headless"),
                     0);
    char path[600], *before = strdup(getenv("PATH"));
    snprintf(path, sizeof path, "%s/bin:%s", jobs_folder, before);
    setenv("PATH", path, 1);
    static const struct {
        const char *program;
        int code;
        const char *says;
        const char *command; /* the word before the program; NULL: none */
    } cases[] = {
        { "cs-test-tool", 0, "from path", "run" },
        { "cs-test-tool", 64, "`cspeed run cs-test-tool` starts /", NULL },
        { "cs-test-tool", 64, "`cspeed run cs-test-tool` starts /", "plan" },
        { "stat", 64, "is status meant?", NULL },          /* coreutils has programs with both of these names, */
        { "comm", 64, "`cspeed run comm` starts ", NULL }, /* so the second message names the command that runs it */
        { "train.py", 64, "`cspeed run python3 train.py`", NULL },
        { "train.py", 127, "`cspeed run python3 train.py`", "run" },
        { "./plain.py", 126, "`cspeed run python3 ./plain.py`", NULL },
        { "./bin/cs-test-tool", 0, "from path", NULL },
        { "HF_TOKEN=hush", 127, "HF_TOKEN=(secret): there is no such program; `cspeed --env ", NULL },
        { "nosuchtool", 127, "for a file, write ./nosuchtool", NULL },
        { "trian", 127,
          "trian: there is no such command of cspeed, no such program beside it, and none in PATH; did "
          "you mean train?",
          NULL },
        { "inspct", 127, "did you mean inspect?", NULL },
        { "./nosuch", 127, "./nosuch", NULL },
        { "./plain", 126, "./plain", NULL },
        { "./bin", 126, "directory", NULL },
        { "./headless", 126, "#!/bin/sh", NULL },
        { "version", 0, "cspeed ", NULL },
        { "help", 0, "cspeed", NULL },
        { "--", 64, "no PROGRAM", NULL },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        const char *command = cases[i].command;
        RUN(here, "-q", "--num_gpus", "1", command ? command : cases[i].program, command ? cases[i].program : NULL);
        jobs_check_code(&here, cases[i].code);
        jobs_check_has(here.code ? here.err : here.out, cases[i].says);
        free(here.out);
        free(here.err);
    }
    RUN(nested, "-q", "--num_gpus", "1", "cspeed", "version"); /* the binary is found in the folder of cspeed */
    jobs_check_code(&nested, 0);
    setenv("PATH", before, 1);
    free(before);
    jobs_end(&nested);
}
END_TEST

START_TEST(flags)
{
    static const struct {
        const char *flags[4];
        int code;
        const char *says;
    } cases[] = {
        { { "--num-gpus=1", "/bin/true" }, 0, "" },
        { { "--nproc-per-node", "1", "/bin/true" }, 0, "" },
        { { "--num_accelerators", "auto", "/bin/true" }, 0, "" },
        { { "--nnodes=1", "--standalone", "/bin/true" }, 0, "" },
        { { "--grace", "1m", "/bin/true" }, 0, "" },
        { { "--num_gpu", "1", "/bin/true" }, 64, "--num_gpus" },
        { { "--quite", "/bin/true" }, 64, "--quiet" },
        { { "--nonsense", "/bin/true" }, 64, "--nonsense" },
        { { "-x", "/bin/true" }, 64, "-x" },
        { { "-quiet", "/bin/true" }, 64, "-quiet" },
        { { "--num_gpus" }, 64, "needs a value" },
        { { "--num_gpus", "0", "/bin/true" }, 64, "from 1" },
        { { "--num_gpus", "2x", "/bin/true" }, 64, "2x" },
        { { "--bind", "nonsense", "/bin/true" }, 64, "auto" },
        { { "--stop_signal", "FOO", "/bin/true" }, 64, "FOO" },
        { { "--quiet=1", "/bin/true" }, 64, "no value" },
        { { "--hostfile=hf", "/bin/true" }, 66, "hf" },
        { { "--include", "a", "/bin/true" }, 65, "a" },
        { { "--module", "/bin/true" }, 64, "not supported" },
        { { "--master_addr", "127.0.0.1", "/bin/true" }, 0, "" },
        { { "--num_gpus", "9999", "/bin/true" }, 69, "--oversubscribe" },
        { { "--log_dir", "/proc/nowhere", "/bin/true" }, 73, "--log_dir" },
        { { "--dry_run", "/bin/false" }, 0, "" },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        jobs_begin();
        job here = jobs_start(-1, cases[i].flags);
        jobs_finish(&here);
        jobs_check_code(&here, cases[i].code);
        jobs_check_has(here.err, cases[i].says);
        jobs_end(&here);
    }
}
END_TEST

START_TEST(ranks_have_cores_of_their_own)
{
    jobs_begin();
    cpu_set_t allowed;
    sched_getaffinity(0, sizeof allowed, &allowed);
    if (CPU_COUNT(&allowed) < 2) {
        printf("ranks_have_cores_of_their_own: skipped, this process may use one core\n");
        jobs_leave();
        return;
    }
    job here = ROLE("cores", "--bind", "core", "--num_gpus", "2", "--prefix", "", self);
    jobs_check_code(&here, 0);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char line[32];
        snprintf(line, sizeof line, "core %zu\n", cpu);
        ck_assert_int_eq(jobs_count_of(here.out, line), CPU_ISSET(cpu, &allowed) != 0);
    }
    jobs_end(&here);
    jobs_begin();
    RUN(told, "-q", "--bind", "core", "--num_gpus", "2", "--no_prefix", SHELL, "echo threads=$OMP_NUM_THREADS");
    ck_assert_int_eq(jobs_count_of(told.out, "threads="), 2);
    ck_assert_ptr_null(strstr(told.out, "threads=\n"));
    jobs_end(&told);
    jobs_begin();
    setenv("OMP_NUM_THREADS", "77", 1);
    RUN(kept, "-q", "--num_gpus", "1", SHELL, "echo threads=$OMP_NUM_THREADS");
    ck_assert_str_eq(kept.out, "threads=77\n");
    jobs_end(&kept);
}
END_TEST

/* The port that is used, for each way of giving one. */
START_TEST(the_port_that_is_given)
{
    static const char *const rows[][3] = { { "--num_gpus=1", "--standalone", "" },
                                           { "--no_ssh", "--nnodes=1", "--node_rank=0" } };
    for (int i = 0; i < 4; i++) {
        char port[16], flag[32], wanted[32];
        snprintf(port, sizeof port, "%d", ports_free("127.0.0.1"));
        snprintf(flag, sizeof flag, "--master_port=%s", port);
        snprintf(wanted, sizeof wanted, "port %s\n", port);
        setenv("MASTER_PORT", i % 2 ? port : "9", 1); /* the flag takes precedence */
        jobs_begin();
        RUN(here, "-q", "--prefix", "", "--master_addr=127.0.0.1", rows[i / 2][0], rows[i / 2][1],
            i / 2 ? rows[1][2] : "-q", i % 2 ? "-q" : flag, SHELL, "echo port $MASTER_PORT");
        unsetenv("MASTER_PORT");
        jobs_check_code(&here, 0);
        jobs_check_has(here.out, wanted);
        jobs_end(&here);
    }
}
END_TEST

START_TEST(ports_do_not_clash)
{
    jobs_begin();
    job here = ROLE("port", TWO, "--prefix", "", "/bin/sh", "-c", "test $RANK = 1 || exec $0", self);
    jobs_check_code(&here, 0);
    char port[16];
    sscanf(strstr(here.err, "127.0.0.1:") + 10, "%15[0-9]", port);
    jobs_end(&here);
    jobs_begin();
    job first = START("--num_gpus", "1", "--master_port", port, SHELL, "touch up; sleep 1000");
    jobs_await("up");
    char wanted[64], flag[32];
    snprintf(wanted, sizeof wanted, "--master_port (or MASTER_PORT) %s: ", port);
    snprintf(flag, sizeof flag, "--master_port=%s", port);
    for (int i = 0; i < 4; i++) { /* by the flag or the variable; alone or as one of several nodes */
        setenv("MASTER_PORT", port, i % 2);
        job second =
            jobs_start_as("second",
                          (const char *const[]){ i % 2 ? "-q" : flag, "--num_gpus=1", i / 2 ? "--no_ssh" : "-q",
                                                 i / 2 ? "--nnodes=2" : "-q", i / 2 ? "--node_rank=0" : "-q",
                                                 "--master_addr=127.0.0.1", "/bin/true", NULL });
        jobs_finish(&second);
        unsetenv("MASTER_PORT");
        jobs_check_code(&second, 69);
        jobs_check_has(second.err, wanted);
        free(second.out);
        free(second.err);
    }
    kill(first.pid, SIGTERM);
    jobs_finish(&first);
    jobs_check_code(&first, 143);
    jobs_end(&first);
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

/* The modes of log files follow umask, and only the user may write to them. */
START_TEST(modes_of_logs)
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

/* `made` exists before the job begins; "kept" is a file of the user that must not change. */
static const struct {
    const char *made;
    int code;
    const char *says;
} places[] = {
    { "ln -s ../../kept logs/attempt_0/0.out", 73, "logs/attempt_0/0.out is a symbolic link" },
    { "ln -s ../../none logs/attempt_0/1.err", 73, "logs/attempt_0/1.err is a symbolic link" },
    { "mkfifo logs/attempt_0/0.err", 73, "logs/attempt_0/0.err is not a regular file" },
    { "mkdir logs/attempt_0/0.err", 73, "logs/attempt_0/0.err cannot be written: Is a directory" },
    { "ln -s ../kept logs/result.json", 0, "result.json is a symbolic link" },
    { "mkdir far; rm -r logs; ln -s far logs", 0, "" },
    { "mkdir far; rmdir logs/attempt_0; ln -s ../far logs/attempt_0", 0, "" },
};

START_TEST(logs_are_written_to_no_other_place)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char command[256];
        jobs_begin();
        snprintf(command, sizeof command, "mkdir -p logs/attempt_0; echo mine >kept; %s", places[i].made);
        ck_assert_int_eq(system(command), 0);
        RUN(here, "-q", TWO, "--log_dir", "logs", SHELL, "echo printed; echo error >&2");
        jobs_check_code(&here, places[i].code);
        jobs_check_has(here.err, places[i].says);
        char *kept = jobs_slurp("kept");
        ck_assert_str_eq(kept, "mine\n");
        ck_assert_int_ne(access("none", F_OK), 0);
        if (strstr(places[i].made, "far")) {
            char *out = jobs_slurp("logs/attempt_0/1.out");
            ck_assert_str_eq(out, "printed\n");
            free(out);
        }
        free(kept);
        jobs_end(&here);
    }
}
END_TEST

START_TEST(failure_block)
{
    jobs_begin();
    job here = ROLE("beat", TWO, "--log_dir", "logs", self);
    jobs_check_code(&here, 137);
    jobs_check_has(here.err, "FAILED (exit 137)");
    jobs_check_has(here.err, "first failure   rank 1 (pid ");
    jobs_check_has(here.err, "SIGKILL (signal 9), not sent by cspeed");
    jobs_check_has(here.err, "rank 1: step 7\n");
    jobs_check_has(here.err, "rank 0: step 7, waiting in reduce_scatter\n");
    jobs_check_has(here.err, "logs/attempt_0/1.err");
    jobs_check_has(here.err, "left behind     nothing");
    jobs_end(&here);
    jobs_begin();
    RUN(tail, TWO, SHELL, "test $RANK = 1 && { seq 1 50 >&2; exit 9; }; sleep 1000");
    jobs_check_code(&tail, 9);
    jobs_check_has(tail.err, "stderr tail\n  | 31\n");
    jobs_check_has(tail.err, "  | 50\nfull log");
    jobs_end(&tail);
}
END_TEST

START_TEST(a_standstill_is_named)
{
    jobs_begin();
    double began = jobs_seconds();
    job here = ROLE("stall", TWO, "--grace", "1", "--stall_timeout", "2", "--stall_action", "kill", self);
    ck_assert_double_lt(jobs_seconds() - began, 2 + 5 + 3); /* time limit, allowance, grace period and start */
    jobs_check_code(&here, 125);
    jobs_check_has(here.err, "all_reduce");
    jobs_check_has(here.err, "C stack of rank 1");
    jobs_check_has(here.err, "pause"); /* the function in which rank 1 waits */
    jobs_end(&here);
}
END_TEST

START_TEST(cause_is_not_the_consequence)
{
    jobs_begin(); /* a rank that lost a peer is named after the rank that was lost */
    RUN(peer, TWO, SHELL, "test $RANK = 1 && { touch lost; exit 75; }; while ! test -e lost; do :; done; kill -9 $$");
    jobs_check_code(&peer, 137);
    jobs_check_has(peer.err, "first failure   rank 0");
    jobs_end(&peer);
    jobs_begin(); /* all ranks know the error; rank 0 reports it, although it may be the last to detect it */
    RUN(known, TWO, SHELL,
        "test $RANK = 1 && { touch one; exit 78; }; while ! test -e one; do :; done; sleep 0.5; "
        "echo 'stage: 0 to 3, not 9' >&2; exit 78");
    jobs_check_code(&known, 78);
    jobs_check_has(known.err, "stage: 0 to 3, not 9");
    jobs_check_has(known.err, "exited with code 78 (the configuration is wrong, or asks for what is not supported)");
    ck_assert_ptr_null(strstr(known.err, "======"));
    jobs_end(&known);
}
END_TEST

/* Both ranks start a child in another session that ignores every signal except SIGKILL. */
static const char stubborn[] = "(setsid sh -c 'trap \"\" TERM INT HUP; touch child.'$RANK'; "
                               "sleep 1000; sleep 1000' &)\n"
                               "while ! test -e child.$RANK; do sleep 0.01; done; touch ready.$RANK; sleep 1000";

static job start_stubborn(void)
{
    jobs_begin();
    job here = START(TWO, SHELL, stubborn);
    jobs_await("ready.0");
    jobs_await("ready.1");
    ck_assert_int_ge(jobs_count(), 6);
    return here;
}

START_TEST(signals_end_everything)
{
    static const struct {
        int number, code;
    } cases[] = { { SIGTERM, 143 }, { SIGINT, 130 }, { SIGHUP, 129 }, { SIGKILL, -SIGKILL } };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        job here = start_stubborn();
        kill(here.pid, cases[i].number);
        jobs_finish(&here);
        jobs_check_code(&here, cases[i].code);
        jobs_end(&here);
    }
}
END_TEST

START_TEST(the_agent_may_be_killed)
{
    job here = start_stubborn();
    kill(jobs_child_of(here.pid), SIGKILL);
    jobs_finish(&here);
    jobs_check_code(&here, 137);
    jobs_end(&here);
}
END_TEST

START_TEST(a_dead_rank_leaves_nothing)
{
    jobs_begin();
    RUN(here, TWO, SHELL,
        "(setsid sh -c 'trap \"\" TERM; touch child.'$RANK'; sleep 1000; sleep 1000' &)\n"
        "while ! test -e child.1; do :; done; test $RANK = 1 && kill -9 $$; sleep 1000");
    jobs_check_code(&here, 137);
    jobs_check_has(here.err, "left behind     nothing");
    jobs_end(&here);
}
END_TEST

START_TEST(grace_and_stop_signal)
{
    jobs_begin(); /* the ranks ignore the stop signal and are killed after the grace period */
    RUN(deaf, TWO, "--grace", "0.3", SHELL, "trap '' TERM; test $RANK = 1 && exit 5; while :; do sleep 0.05; done");
    jobs_check_code(&deaf, 5);
    jobs_check_has(deaf.err, "1 of them by SIGKILL");
    jobs_end(&deaf);
    jobs_begin(); /* the ranks handle the stop signal and have time to save */
    RUN(heard, TWO, "--stop_signal", "usr1", SHELL,
        "trap 'touch saved; exit 0' USR1; touch up.$RANK; while ! test -e up.0; do :; done; "
        "test $RANK = 1 && exit 6; while :; do sleep 0.05; done");
    jobs_check_code(&heard, 6);
    ck_assert_int_eq(access("saved", F_OK), 0);
    jobs_end(&heard);
    jobs_begin();
    RUN(late, TWO, "--timeout", "0.3s", SHELL, "sleep 1000");
    jobs_check_code(&late, 124);
    jobs_check_has(late.err, "--timeout");
    jobs_end(&late);
}
END_TEST

START_TEST(second_interrupt_kills)
{
    jobs_begin();
    job here = START(TWO, "--grace", "1000", SHELL,
                     "trap 'touch told.$RANK' TERM; touch up.$RANK; while :; do sleep 0.05; done");
    jobs_await("up.0");
    jobs_await("up.1");
    kill(here.pid, SIGINT);
    jobs_await("told.0");
    jobs_await("told.1");
    ck_assert_int_eq(waitpid(here.pid, NULL, WNOHANG), 0);
    kill(here.pid, SIGINT);
    jobs_finish(&here);
    jobs_check_code(&here, 130);
    jobs_end(&here);
}
END_TEST

START_TEST(a_frozen_rank_ends)
{
    jobs_begin();
    job here = START(TWO, SHELL, "touch up.$RANK; test $RANK = 1 && kill -STOP $$; sleep 1000");
    jobs_await("up.0");
    jobs_await("up.1");
    kill(here.pid, SIGTERM);
    jobs_finish(&here);
    jobs_check_code(&here, 143);
    jobs_end(&here);
}
END_TEST

START_TEST(input_is_empty)
{
    jobs_begin();
    RUN(here, "-q", TWO, "--no_prefix", SHELL, "wc -c");
    jobs_check_code(&here, 0);
    ck_assert_str_eq(here.out, "0\n0\n");
    jobs_end(&here);
    jobs_begin(); /* cspeed itself may be started without any of the three descriptors */
    job closed = { .pid = fork() };
    if (closed.pid == 0) {
        for (int fd = 0; fd < 3; fd++)
            close(fd);
        execl(CS_BIN "/cspeed", "cspeed", TWO, SHELL,
              "echo x; touch said.$RANK; while ! test -e said.0 -a -e said.1; do :; done; exit 4", (char *)NULL);
        _exit(99);
    }
    jobs_finish(&closed);
    jobs_check_code(&closed, 4);
    ck_assert_int_eq(access("said.0", F_OK) | access("said.1", F_OK), 0);
    jobs_end(&closed);
}
END_TEST

START_TEST(a_reader_that_stands_still)
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
    jobs_check_has(text, "dropped here while nothing was read");
    free(text);
    struct stat log;
    ck_assert_int_eq(stat("logs/attempt_0/0.out", &log), 0);
    ck_assert_int_eq(log.st_size, 14888896); /* all numbers with their newlines */
    jobs_end(&here);
}
END_TEST

START_TEST(progress_on_a_terminal)
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
    jobs_check_has(text, "step 1\033[K\r\033[K1| between\r\n"); /* the line is printed above the state */
    jobs_check_has(text, "step 2\r\n");
    jobs_end(&here);
}
END_TEST

int main(int count, char **arguments)
{
    const char *role = getenv("CSPEED_TEST_ROLE");
    if (role)
        return play(role, count, arguments);
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    const TTest *const tests[] = {
        exit_codes,
        the_local_rank_argument,
        the_local_rank_argument_in_a_plan,
        environment_of_ranks,
        environment_is_documented,
        arguments_are_bytes,
        lines_are_whole,
        odd_lines,
        long_lines_are_broken,
        programs_are_found,
        flags,
        ranks_have_cores_of_their_own,
        the_port_that_is_given,
        ports_do_not_clash,
        log_files_have_every_byte,
        modes_of_logs,
        logs_are_written_to_no_other_place,
        failure_block,
        a_standstill_is_named,
        cause_is_not_the_consequence,
        signals_end_everything,
        the_agent_may_be_killed,
        a_dead_rank_leaves_nothing,
        grace_and_stop_signal,
        second_interrupt_kills,
        a_frozen_rank_ends,
        input_is_empty,
        a_reader_that_stands_still,
        progress_on_a_terminal,
    };
    return suite_run("launch", tests, (int)(sizeof tests / sizeof *tests));
}
