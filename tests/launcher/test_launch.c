/* test_launch.c - starting ranks with the cspeed command: arguments, environment, programs, flags, cores and ports.
 *
 * Ranks report their progress through files, so that nothing depends on time; waits are only upper limits. This program
 * is also one of the ranks: with CSPEED_TEST_ROLE it plays that role. */
#include "jobs.h"
#include "shell.h"
#include "ports.h"
#include "suite.h"

#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- this program as a rank ---- */

static int play(const char *role, int count, char **arguments)
{
    if (strcmp(role, "arguments") == 0) { /* each rank writes each argument's length, and the argument, to a file */
        FILE *file = fopen(strcmp(getenv("RANK"), "0") == 0 ? "zero" : "one", "w");
        for (int i = 1; i < count; i++)
            fprintf(file, "%zu:%s;", strlen(arguments[i]), arguments[i]);
        fclose(file);
    } else if (strcmp(role, "port") == 0) { /* rank 0 can listen on the port, although the launcher still holds it */
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

START_TEST(the_exit_code_is_that_of_the_first_failure)
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

/* The --local_rank argument is added after the program's own arguments, in every way of starting the program. */
START_TEST(the_local_rank_argument_comes_last)
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
START_TEST(a_plan_shows_the_local_rank_argument)
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
    jobs_check_has(nothing.err, "no PROGRAM is given after `launch`");
    jobs_end(&nothing);
}
END_TEST

START_TEST(ranks_get_their_environment)
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
    ck_assert_int_eq(shell_count_of(here.out, wanted), 3);
    jobs_end(&here);
}
END_TEST

/* Every variable that a rank has and the caller does not is documented in ds_env.example. */
START_TEST(every_variable_of_a_rank_is_documented)
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

START_TEST(arguments_reach_ranks_byte_for_byte)
{
    jobs_begin();
    job here = ROLE("arguments", TWO, jobs_self(), "a b", "", "'\"", "$HOME `id`", "two\nlines", "--num_gpus", "\\n",
                    "*", "\xff\x01");
    jobs_check_code(&here, 0);
    for (int rank = 0; rank < 2; rank++) {
        char *text = jobs_slurp(rank ? "one" : "zero");
        ck_assert_str_eq(text, "3:a b;0:;2:'\";10:$HOME `id`;9:two\nlines;10:--num_gpus;2:\\n;1:*;2:\xff\x01;");
        free(text);
    }
    jobs_end(&here);
}
END_TEST

START_TEST(programs_are_found_or_a_remedy_is_named)
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
        const char *command; /* the command before the program, or NULL */
    } cases[] = {
        { "cs-test-tool", 0, "from path", "run" },
        { "cs-test-tool", 64, "`cspeed run cs-test-tool` starts /", NULL },
        { "cs-test-tool", 64, "`cspeed run cs-test-tool` starts /", "plan" },
        { "stat", 64, "is status meant?", NULL },          /* stat is a program of coreutils */
        { "join", 64, "`cspeed run join` starts ", NULL }, /* join is a program of coreutils too */
        { "train.py", 64, "`cspeed run python3 train.py`", NULL },
        { "train.py", 127, "`cspeed run python3 train.py`", "run" },
        { "./plain.py", 126, "`cspeed run python3 ./plain.py`", NULL },
        { "./bin/cs-test-tool", 0, "from path", NULL },
        { "HF_TOKEN=hush", 127, "HF_TOKEN=(secret): there is no such program; `cspeed --env ", NULL },
        { "nosuchtool", 127, "for a program in this folder, write ./nosuchtool", NULL },
        { "trian", 127, "trian: cspeed has no such command or program, and there is none in PATH; did you mean train?",
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
    /* The program `cspeed` is found in the folder of the running cspeed. */
    RUN(nested, "-q", "--num_gpus", "1", "cspeed", "version");
    jobs_check_code(&nested, 0);
    setenv("PATH", before, 1);
    free(before);
    jobs_end(&nested);
}
END_TEST

START_TEST(flags_are_honoured_or_refused_by_name)
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
    job here = ROLE("cores", "--bind", "core", "--num_gpus", "2", "--prefix", "", jobs_self());
    jobs_check_code(&here, 0);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        char line[32];
        snprintf(line, sizeof line, "core %zu\n", cpu);
        ck_assert_int_eq(shell_count_of(here.out, line), CPU_ISSET(cpu, &allowed) != 0);
    }
    jobs_end(&here);
    jobs_begin();
    RUN(told, "-q", "--bind", "core", "--num_gpus", "2", "--no_prefix", SHELL, "echo threads=$OMP_NUM_THREADS");
    ck_assert_int_eq(shell_count_of(told.out, "threads="), 2);
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
START_TEST(a_given_port_is_used)
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
    job here = ROLE("port", TWO, "--prefix", "", "/bin/sh", "-c", "test $RANK = 1 || exec $0", jobs_self());
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
    /* the port is given by the flag or the variable, to a job of one node or of several */
    for (int i = 0; i < 4; i++) {
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

START_TEST(ranks_read_an_empty_input)
{
    jobs_begin();
    RUN(here, "-q", TWO, "--no_prefix", SHELL, "wc -c");
    jobs_check_code(&here, 0);
    ck_assert_str_eq(here.out, "0\n0\n");
    jobs_end(&here);
    /* cspeed itself is started with its standard descriptors closed. */
    jobs_begin();
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

int main(int count, char **arguments)
{
    const char *role = getenv("CSPEED_TEST_ROLE");
    if (role)
        return play(role, count, arguments);
    const TTest *const tests[] = {
        the_exit_code_is_that_of_the_first_failure,
        the_local_rank_argument_comes_last,
        a_plan_shows_the_local_rank_argument,
        ranks_get_their_environment,
        every_variable_of_a_rank_is_documented,
        arguments_reach_ranks_byte_for_byte,
        programs_are_found_or_a_remedy_is_named,
        flags_are_honoured_or_refused_by_name,
        ranks_have_cores_of_their_own,
        a_given_port_is_used,
        ports_do_not_clash,
        ranks_read_an_empty_input,
    };
    return suite_run("launch", tests, (int)(sizeof tests / sizeof *tests));
}
