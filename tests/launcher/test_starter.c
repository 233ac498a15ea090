/* test_starter.c - mpirun and srun start agents; arguments and environment arrive byte for byte with every launcher. */
#include "cluster.h"
#include "ports.h"
#include "shell.h"
#include "suite.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void write_script(const char *path, const char *text)
{
    shell_write(path, text);
    ck_assert_int_eq(chmod(path, 0755), 0);
}

/* Writes the script that mpirun calls instead of ssh, with the port and the key of the cluster's sshd. */
static void write_ssh(void)
{
    char text[4096];
    snprintf(
        text, sizeof text,
        "#!/bin/sh\nexec ssh -F none -p %d -i '%s/.ssh/id_ed25519' -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR "
        "-o StrictHostKeyChecking=no \"$@\"\n",
        cluster_port(), getenv("HOME"));
    write_script("far", text);
}

/* A replacement of srun that does what cspeed needs: it starts one process for each host of --nodelist, in another
 * order than the list's. */
static const char *const srun =
    "#!/bin/sh\n"
    "echo \"$@\" > srun.said\n"
    "for a; do case $a in --nodelist=*) hosts=${a#*=};; -*) ;; *) break;; esac; shift; done\n"
    "n=0; for h in $(echo $hosts | tr , '\\n' | sort -r); do\n"
    "SLURMD_NODENAME=$h SLURM_PROCID=$n \"$@\" & n=$((n + 1)); done; wait\n";

static const char *const rank =
    "#!/bin/sh\necho \"rank $RANK of $WORLD_SIZE on $CSPEED_HOST$CSPEED_SECRET$CSPEED_JOIN\"\n";

static const struct {
    const char *launcher, *program, *arguments;
} starters[] = {
    { "openmpi", "mpirun.openmpi", "--launcher_args \"--mca plm_rsh_agent $PWD/far\"" },
    { "mpich", "mpiexec.hydra", "--launcher_args \"-launcher-exec $PWD/far\"" },
    { "slurm", "./srun", "" }, /* the test sets SLURM_JOB_NODELIST, as in an allocation */
};

static bool has(const char *program)
{
    return shell_run("command -v %s", program) == 0;
}

/* With the transport mpi, mpirun starts the ranks directly, without agents. */
START_TEST(ranks_of_mpi_are_started)
{
    static const char *const script = "#!/bin/sh\necho \"rank $OMPI_COMM_WORLD_RANK$PMI_RANK of "
                                      "$OMPI_COMM_WORLD_SIZE$PMI_SIZE in $PLACE with $SENT $2$RANK$CSPEED_ATTEMPT\"\n";
    shell_enter();
    if (cluster_start(2, NULL)) {
        char hosts[256];
        snprintf(hosts, sizeof hosts, "%s slots=1 env.PLACE=first\n%s slots=2 env.PLACE=second\n", cluster_host(0),
                 cluster_host(1));
        write_ssh();
        write_script("rank", script);
        shell_write("hosts", hosts);
        shell_write("mpi.json", "{ \"cspeed\": { \"comm\": \"mpi\" } }");
        for (size_t i = 0; i < 2; i++) {
            if (!has(starters[i].program)) {
                printf("skipped: no %s on this machine\n", starters[i].program);
                continue;
            }
            for (int by_file = 0; by_file < 2; by_file++) {
                int code = shell_run("%s/cspeed --launcher %s %s --hostfile hosts --env 'SENT=two words' ./rank %s",
                                     CS_BIN, starters[i].launcher, starters[i].arguments,
                                     by_file ? "--config mpi.json" : "--backend mpi");
                char *out = shell_read("out.txt", NULL);
                ck_assert_msg(code == 0, "%s: %d\n%s", starters[i].launcher, code, out);
                for (int r = 0; r < 3; r++) {
                    char line[128];
                    snprintf(line, sizeof line, "rank %d of 3 in %s with two words %s\n", r, r > 0 ? "second" : "first",
                             by_file ? "mpi.json" : "mpi");
                    ck_assert_msg(strstr(out, line) != NULL, "%s: no \"%s\" in\n%s", starters[i].launcher, line, out);
                }
                free(out);
            }
        }
        cluster_stop();
    }
    shell_leave();
}
END_TEST

/* --verbose prints the command without the secrets that a hostfile gives to a node. */
START_TEST(secrets_are_not_printed)
{
    static const char *const launchers[][2] = { { "openmpi", "mpirun.openmpi" }, { "mpich", "mpiexec.hydra" } };
    shell_enter();
    shell_write("hosts", "localhost slots=1 env.HF_TOKEN=hush env.PLACE=here\n");
    for (size_t i = 0; i < 2; i++) {
        write_script(launchers[i][1], "#!/bin/sh\n");
        ck_assert_int_eq(shell_run("PATH=$PWD:$PATH %s/cspeed --launcher %s --verbose --hostfile hosts /bin/true "
                                   "--backend mpi",
                                   CS_BIN, launchers[i][0]),
                         0);
        char *out = shell_read("out.txt", NULL);
        ck_assert_msg(strstr(out, "HF_TOKEN") && strstr(out, "here") && !strstr(out, "hush"), "%s", out);
        free(out);
    }
    shell_leave();
}
END_TEST

START_TEST(agents_are_started)
{
    shell_enter();
    if (cluster_start(2, NULL)) {
        write_ssh();
        write_script("srun", srun);
        write_script("rank", rank);
        for (size_t i = 0; i < sizeof starters / sizeof *starters; i++) {
            if (!has(starters[i].program)) {
                printf("skipped: no %s on this machine\n", starters[i].program);
                continue;
            }
            int code = shell_run("PATH=$PWD:$PATH SLURM_JOB_NODELIST=unused %s/cspeed --launcher %s %s --hosts "
                                 "%s:1,%s:2 --oversubscribe --rdzv_timeout 30 "
                                 "./rank",
                                 CS_BIN, starters[i].launcher, starters[i].arguments, cluster_host(0), cluster_host(1));
            char *out = shell_read("out.txt", NULL);
            ck_assert_msg(code == 0, "%s: %d\n%s", starters[i].launcher, code, out);
            for (int r = 0; r < 3; r++) {
                char line[128];
                snprintf(line, sizeof line, "rank %d of 3 on %s\n", r, cluster_host(r > 0));
                ck_assert_msg(strstr(out, line) != NULL, "%s: no \"%s\" in\n%s", starters[i].launcher, line, out);
            }
            free(out);
        }
        ck_assert_int_eq(shell_run("grep -c -e --nodelist=%s,%s srun.said", cluster_host(0), cluster_host(1)), 0);
        cluster_stop();
    }
    shell_leave();
}
END_TEST

static const char *const drained =
    "#!/bin/sh\ntrap 'touch saved.$RANK; exit 0' TERM; trap 'touch user.$RANK' USR1\n"
    "echo $PPID >agent.part.$RANK; mv agent.part.$RANK agent.$RANK; while :; do sleep 0.02; done\n";

/* Runs a job on two hosts, passes it SIGUSR1, and ends it by SIGTERM to the launcher or to the agent of the second host.
 * Nothing can replace this host, so no other attempt follows. */
static void drain(size_t which, bool whole)
{
    unlink("agent.0");
    unlink("agent.1");
    pid_t job =
        shell_start("env \"PATH=$PWD:$PATH\" SLURM_JOB_NODELIST=unused %s/cspeed --launcher %s %s --hosts %s:1,%s:1 "
                    "--oversubscribe --max_restarts 1 --restart_delay 0 ./drained",
                    CS_BIN, starters[which].launcher, starters[which].arguments, cluster_host(0), cluster_host(1));
    shell_await("test -e agent.0 -a -e agent.1");
    kill(job, SIGUSR1);
    shell_await("test -e user.0 -a -e user.1");
    char *agent = shell_read("agent.1", NULL);
    kill(whole ? job : atoi(agent), SIGTERM);
    int code = shell_wait(job);
    char *out = shell_read("out.txt", NULL);
    ck_assert_msg(code == 143 && !strstr(out, "starts again") &&
                      strstr(out, whole ? "failed: ended by SIGTERM" : ") was asked to end by SIGTERM; exit code 143"),
                  "%s: %d\n%s", starters[which].launcher, code, out);
    ck_assert_int_eq(shell_run("rm saved.0 saved.1 user.0 user.1"), 0);
    free(agent);
    free(out);
}

START_TEST(signals_arrive_and_a_drained_host_ends_the_job)
{
    shell_enter();
    if (cluster_start(2, NULL)) {
        write_ssh();
        write_script("srun", srun);
        write_script("drained", drained);
        for (size_t i = 0; i < sizeof starters / sizeof *starters; i++)
            for (int whole = 0; whole < 2 && has(starters[i].program); whole++)
                drain(i, whole);
        cluster_stop();
    }
    shell_leave();
}
END_TEST

static const struct {
    const char *arguments;
    int code;
    const char *says;
} refusals[] = {
    { "--launcher slurm --hosts a:1,b:1 --master_addr 127.0.0.1 /bin/true", 64,
      "this is not inside a Slurm allocation" },
    { "--launcher slurm /bin/true", 64, "in `salloc` or `sbatch`," },
    { "--launcher slurm plan /bin/true", 64, "this is not inside a Slurm allocation" },
    { "--launcher openmpi --ssh_port 9 --hosts a:1,b:1 --master_addr 127.0.0.1 /bin/true", 64,
      "not supported: --ssh_port" },
    { "__agent --join", 64, "CSPEED_JOIN" },
    { "--launcher openmpi --max_restarts 1 --num_gpus 1 /bin/true --backend mpi", 64,
      "not supported: --max_restarts with the transport mpi" },
    { "--launcher mpich --grace 5 --num_gpus 1 /bin/true --backend gloo --set cspeed.comm=mpi", 64,
      "not supported: --grace with the transport mpi" },
    { "--launcher mpich --num_gpus 1 /bin/true --backend mpi :", 64, "not supported: the argument \":\"" },
    { "--launcher openmpi --num_gpus 1 /bin/true --backend=mpi", 127, "apt install openmpi-bin" },
    { "--launcher openmpi --num_gpus 1 /bin/true --backend mpi --backend gloo", 0, "1 rank on this machine" },
};

START_TEST(what_cannot_be_is_refused)
{
    shell_enter();
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        int code = shell_run("PATH=/nowhere %s/cspeed %s", CS_BIN, refusals[i].arguments);
        char *out = shell_read("out.txt", NULL);
        ck_assert_msg(code == refusals[i].code && strstr(out, refusals[i].says), "%s: %d\n%s", refusals[i].arguments,
                      code, out);
        free(out);
    }
    for (int i = 0; i < 2; i++) { /* in an allocation srun is the default launcher */
        int code = shell_run("PATH=/nowhere SLURM_JOB_NODELIST=a,b %s/cspeed %s --master_addr 127.0.0.1 /bin/true",
                             CS_BIN, i == 0 ? "--launcher slurm" : "");
        char *out = shell_read("out.txt", NULL);
        ck_assert_msg(code == 127 && strstr(out, "no srun in PATH"), "%d\n%s", code, out);
        free(out);
    }
    shell_leave();
}
END_TEST

/* ---- any byte arrives unchanged ----------------------------------------------------------------- */

enum { BLOBS = 6, BLOB_BYTES = 400 };

/* "CSPEED_TEST_N=bytes"; the bytes are also an argument */
static char blobs[BLOBS][BLOB_BYTES + 64];

static void make_blobs(unsigned seed)
{
    for (int i = 0; i < BLOBS; i++) {
        int at = sprintf(blobs[i], "CSPEED_TEST_%d=", i);
        for (int n = i == 0 ? 0 : BLOB_BYTES; n > 0; n--) {
            seed = seed * 1664525 + 1013904223;
            blobs[i][at++] = (char)(1 + (seed >> 16) % 255);
        }
        blobs[i][at] = '\0';
    }
}

/* Starts cspeed FLAGS --env NAME=BYTES ... /bin/sh -c SCRIPT sh BYTES ... with each element NAME=BYTES of `blobs`: the
 * whole element follows a --env, and BYTES is also an argument of the script. Returns the process id. */
static pid_t launch(const char *flags, int copy)
{
    static char script[] = "cat /proc/$$/cmdline > args.$COPY.$RANK; cat /proc/$$/environ > env.$COPY.$RANK";
    static char env[] = "--env", shell[] = "/bin/sh", dash[] = "-c", name[] = "sh";
    char text[4096], program[4096], number[32], *argv[128], *next;
    int count = 0;
    snprintf(program, sizeof program, "%s/cspeed", CS_BIN);
    snprintf(text, sizeof text, "%s", flags);
    snprintf(number, sizeof number, "COPY=%d", copy);
    argv[count++] = program;
    for (char *word = strtok_r(text, " ", &next); word; word = strtok_r(NULL, " ", &next))
        argv[count++] = word;
    for (int i = 0; i <= BLOBS; i++) {
        argv[count++] = env;
        argv[count++] = i < BLOBS ? blobs[i] : number;
    }
    for (int i = 0; i < 4; i++)
        argv[count++] = (char *[]){ shell, dash, script, name }[i];
    for (int i = 0; i < BLOBS; i++)
        argv[count++] = strchr(blobs[i], '=') + 1;
    argv[count] = NULL;
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("launch.txt", "a", stderr))
            _exit(99);
        execv(argv[0], argv);
        _exit(99);
    }
    return pid;
}

static void check_rank(const char *way, int copy, int number)
{
    char path[64], *bytes, *at;
    size_t count;
    snprintf(path, sizeof path, "args.%d.%d", copy, number);
    bytes = shell_read(path, &count);
    at = bytes;
    for (int skip = 0; skip < 4; skip++)
        at += strlen(at) + 1;
    for (int i = 0; i < BLOBS; i++) {
        ck_assert_msg(at < bytes + count && strcmp(at, strchr(blobs[i], '=') + 1) == 0, "%s: argument %d", way, i);
        at += strlen(at) + 1;
    }
    ck_assert_ptr_eq(at, bytes + count);
    free(bytes);
    snprintf(path, sizeof path, "env.%d.%d", copy, number);
    bytes = shell_read(path, &count);
    for (int i = 0; i < BLOBS; i++) {
        bool found = false;
        for (at = bytes; at < bytes + count && !found; at += strlen(at) + 1)
            found = strcmp(at, blobs[i]) == 0;
        ck_assert_msg(found, "%s: variable %d", way, i);
    }
    free(bytes);
}

static void expect_ranks(const char *way, int copy, pid_t one, pid_t other)
{
    int code = shell_wait(one);
    code += other ? shell_wait(other) : 0;
    if (code) {
        char *said = shell_read("launch.txt", NULL);
        ck_abort_msg("%s: %d\n%s", way, code, said);
    }
    for (int r = 0; r < 2; r++)
        check_rank(way, copy, r);
}

START_TEST(any_byte_arrives_as_it_left)
{
    char flags[2048];
    shell_enter();
    make_blobs((unsigned)getpid());
    expect_ranks("local", 0, launch("--num_gpus 2 --oversubscribe", 0), 0);
    if (cluster_start(2, NULL)) {
        write_ssh();
        snprintf(flags, sizeof flags, "--hosts %s:1,%s:1 --ssh_port %d", cluster_host(0), cluster_host(1),
                 cluster_port());
        expect_ranks("ssh", 1, launch(flags, 1), 0);
        snprintf(flags, sizeof flags, "--hosts %s:1,%s:1 --launcher openmpi", cluster_host(0), cluster_host(1));
        if (has("mpirun.openmpi")) {
            char far[4200], folder[4096];
            snprintf(far, sizeof far, "%s/far", getcwd(folder, sizeof folder));
            setenv("OMPI_MCA_plm_rsh_agent", far, 1);
            expect_ranks("openmpi", 2, launch(flags, 2), 0);
            unsetenv("OMPI_MCA_plm_rsh_agent");
        }
        setenv("CSPEED_SECRET", "sixteen bytes or more", 1);
        snprintf(flags, sizeof flags,
                 "--hosts %s:1,%s:1 --no_ssh --master_addr 127.0.0.1 --master_port %d --node_rank 0", cluster_host(0),
                 cluster_host(1), ports_free("127.0.0.1"));
        pid_t one = launch(flags, 3);
        flags[strlen(flags) - 1] = '1';
        expect_ranks("no_ssh", 3, one, launch(flags, 3));
        unsetenv("CSPEED_SECRET");
        cluster_stop();
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("starter", signals_arrive_and_a_drained_host_ends_the_job, ranks_of_mpi_are_started, secrets_are_not_printed,
           agents_are_started, what_cannot_be_is_refused, any_byte_arrives_as_it_left)
