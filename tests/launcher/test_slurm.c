/* test_slurm.c - a real Slurm: munged, slurmctld and two slurmd run on this machine, as two nodes with different names.
 *
 * The daemons run in the foreground, in the test's folder; they end with this process, and are stopped by their pids.
 * All daemons, jobs and ranks have the variable SLURM_CONF, which contains the path of the test's folder. The test
 * finds remaining processes by this path. The test is skipped where Slurm is not installed (Debian: slurm-wlm, munge),
 * and where the machine has loopback addresses only. */
#include "ports.h"
#include "shell.h"
#include "suite.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MUNGED, SLURMCTLD, FIRST, SECOND, DAEMONS };

static const char *const needed[] = { "munged", "slurmctld", "slurmd", "srun",     "salloc",  "sbatch",
                                      "squeue", "scancel",   "sinfo",  "scontrol", "setpriv", NULL };
static const char *const commands[DAEMONS] = { "munged -F --force --key-file=munge.key --socket=$PWD/munge.socket "
                                               "--pid-file=$PWD/munged.pid --log-file=$PWD/munged.log "
                                               "--seed-file=$PWD/munged.seed",
                                               "slurmctld -D -c", "slurmd -D -N node-a", "slurmd -D -N node-b" };
static pid_t daemons[DAEMONS];
static char folder[4096];

static const char configuration[] =
    "ClusterName=test\n"
    "SlurmctldHost=%s(127.0.0.1)\nSlurmctldPort=%d\n"
    "AuthType=auth/munge\nCredType=cred/munge\nAuthInfo=socket=%s/munge.socket,cred_expire=8\n"
    "SlurmUser=%s\nSlurmdUser=%s\n"
    "StateSaveLocation=%s/state\nSlurmdSpoolDir=%s/spool.%%n\n"
    "SlurmctldPidFile=%s/slurmctld.pid\nSlurmdPidFile=%s/slurmd.%%n.pid\n"
    "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\n"
    "SelectType=select/linear\nSchedulerType=sched/builtin\nSlurmdParameters=config_overrides\n"
    "JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n"
    "ReturnToService=2\nSlurmdTimeout=15\nKillWait=5\n"
    "NodeName=node-a NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=2\n"
    "NodeName=node-b NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=2\n"
    "PartitionName=all Nodes=node-a,node-b Default=YES MaxTime=INFINITE State=UP\n";

static const char training[] =
    "{ \"train_batch_size\": 4, \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 2e-3 } },\n"
    "  \"zero_optimization\": { \"stage\": 2 },\n"
    "  \"cspeed\": { \"steps\": 1000000, \"seed\": 5, \"output\": \"out\", \"save_interval\": 10, \"eval_interval\": 0,\n"
    "    \"data\": { \"train\": \"data/train-*.bin\", \"seq_len\": 32 },\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 32, \"n_positions\": 32, "
    "\"vocab_size\": 256 } } }\n";

/* ---- the Slurm cluster -------------------------------------------------------------------------- */

/* Waits until both nodes answer. The state of a node that does not answer is "idle*". */
static void await_nodes(void)
{
    shell_await("test \"$(sinfo -h -N -o %%t | sort -u)\" = idle");
}

static void start_daemon(int which)
{
    daemons[which] = shell_start("setpriv --pdeathsig TERM %s >%d.log 2>&1", commands[which], which);
}

static void write_configuration(void)
{
    char host[256], *dot;
    const char *user = getenv("USER");
    FILE *file = fopen("slurm.conf", "w");
    gethostname(host, sizeof host);
    dot = strchr(host, '.');
    if (dot)
        *dot = '\0';
    user = geteuid() == 0 || !user ? "root" : user;
    ck_assert_ptr_nonnull(file);
    fprintf(file, configuration, host, ports_free("127.0.0.1"), folder, user, user, folder, folder, folder, folder,
            host, ports_free("127.0.0.1"), host, ports_free("127.0.0.1"));
    ck_assert_int_eq(fclose(file), 0);
}

static void begin(void)
{
    shell_enter();
    ck_assert_ptr_nonnull(getcwd(folder, sizeof folder));
    write_configuration();
    char path[4200];
    snprintf(path, sizeof path, "%s/slurm.conf", folder);
    setenv("SLURM_CONF", path, 1);
    ck_assert_int_eq(shell_run("mkdir state && head -c 1024 /dev/urandom >munge.key && chmod 600 munge.key"), 0);
    start_daemon(MUNGED);
    shell_await("test -S munge.socket");
    for (int i = SLURMCTLD; i < DAEMONS; i++)
        start_daemon(i);
    await_nodes();
    shell_write("config.json", training);
    ck_assert_int_eq(shell_run("seq 4000 >text.txt; %s/pack --output data text.txt", CS_BIN), 0);
}

static void end(void)
{
    shell_run("scancel -p all");
    shell_await("test -z \"$(squeue -h)\"");
    for (int i = DAEMONS - 1; i >= 0; i--) {
        kill(daemons[i], SIGTERM);
        shell_wait(daemons[i]);
    }
    shell_await_left(folder, 0);
    unsetenv("SLURM_CONF");
    shell_leave();
}

static void check_has(const char *file, const char *words)
{
    char *text = shell_read(file, NULL);
    ck_assert_msg(strstr(text, words) != NULL, "\"%s\" is not in: %.3000s", words, text);
    free(text);
}

/* Submits a training that saves a checkpoint every 10 steps, and waits for the first one. */
static void submit(void)
{
    char text[4096];
    snprintf(text, sizeof text,
             "#!/bin/sh\n%s/cspeed --oversubscribe --master_addr 127.0.0.1 --grace 3 train --config config.json\n"
             "echo code $?\n",
             CS_BIN);
    shell_write("job.sh", text);
    ck_assert_int_eq(shell_run("sbatch -N2 --requeue --open-mode=append -o job.txt job.sh"), 0);
    shell_await("test -e out/latest");
}

/* Waits until the job is queued again, and then until Slurm has started it and the training has continued. Slurm starts
 * a requeued job only when the processes of the job's earlier run have ended and the credentials of the earlier run
 * have expired (cred_expire). */
static void await_again(void)
{
    shell_await("test -n \"$(squeue -h -t PD)\"");
    shell_await("grep 'continuing at step [1-9]' job.txt");
}

/* ---- the tests --------------------------------------------------------------------------------- */

START_TEST(the_launcher_starts_ranks_on_the_nodes_of_an_allocation)
{
    begin();
    int code = shell_run("salloc -N2 %s/cspeed --oversubscribe --master_addr 127.0.0.1 run sh -c "
                         "'echo rank $RANK of $WORLD_SIZE on $CSPEED_HOST and $SLURMD_NODENAME'",
                         CS_BIN);
    check_has("out.txt", "rank 0 of 4 on node-a and node-a\n");
    check_has("out.txt", "rank 1 of 4 on node-a and node-a\n");
    check_has("out.txt", "rank 2 of 4 on node-b and node-b\n");
    check_has("out.txt", "rank 3 of 4 on node-b and node-b\n");
    ck_assert_int_eq(code, 0);
    code = shell_run("salloc -N2 %s/cspeed --oversubscribe --master_addr 127.0.0.1 run sh -c 'exit $RANK'", CS_BIN);
    check_has("out.txt", "not ended: nothing");
    ck_assert_int_ge(code, 1);
    ck_assert_int_le(code, 3);
    end();
}
END_TEST

START_TEST(srun_starts_ranks_itself)
{
    begin();
    int code = shell_run("srun -N2 --ntasks-per-node=2 %s/cspeed train --config config.json --steps 5", CS_BIN);
    check_has("out.txt", "ranks on several hosts connect at MASTER_ADDR:MASTER_PORT:");
    ck_assert_int_eq(code, 78);
    code = shell_run("MASTER_ADDR=127.0.0.1 MASTER_PORT=%d CSPEED_SECRET=sixteen-bytes-or-more srun -N2 "
                     "--ntasks-per-node=2 %s/cspeed train --config config.json --steps 5",
                     ports_free("127.0.0.1"), CS_BIN);
    check_has("out.txt", "ZeRO-2, 4 ranks");
    check_has("out.txt", "saved out/global_step5");
    ck_assert_int_eq(code, 0);
    end();
}
END_TEST

START_TEST(scancel_ends_all_ranks)
{
    begin();
    submit();
    ck_assert_int_eq(shell_run("scancel -p all"), 0);
    shell_await("test -z \"$(squeue -h)\"");
    while (shell_find(folder, "train"))
        usleep(20000);
    check_has("job.txt", "not ended: nothing");
    ck_assert_int_eq(shell_run("%s/cspeed verify out", CS_BIN), 0);
    end();
}
END_TEST

START_TEST(a_requeued_job_continues)
{
    begin();
    submit();
    ck_assert_int_eq(shell_run("scontrol requeue $(squeue -h -o %%i)"), 0);
    await_again();
    end();
}
END_TEST

/* Slurm detects the lost node after SlurmdTimeout, ends the ranks of both nodes, and queues the job again. */
START_TEST(a_job_continues_after_the_loss_of_a_node)
{
    begin();
    submit();
    kill(daemons[SECOND], SIGKILL);
    shell_wait(daemons[SECOND]);
    shell_await("test -n \"$(squeue -h -t PD)\"");
    check_has("job.txt", "DUE TO NODE FAILURE");
    while (shell_find(folder, "train"))
        usleep(20000);
    start_daemon(SECOND);
    await_again();
    end();
}
END_TEST

/* slurmctld does not start on a machine whose only addresses are those of the loopback interface. */
static bool has_network(void)
{
    struct ifaddrs *list;
    bool found = false;
    if (getifaddrs(&list) != 0)
        return false;
    for (const struct ifaddrs *at = list; at; at = at->ifa_next)
        found |= at->ifa_addr && at->ifa_addr->sa_family == AF_INET && !(at->ifa_flags & IFF_LOOPBACK);
    freeifaddrs(list);
    return found;
}

int main(void)
{
    const TTest *const tests[] = { the_launcher_starts_ranks_on_the_nodes_of_an_allocation, srun_starts_ranks_itself,
                                   scancel_ends_all_ranks, a_requeued_job_continues,
                                   a_job_continues_after_the_loss_of_a_node };
    char path[8192];
    snprintf(path, sizeof path, "%s:/usr/sbin:/sbin", getenv("PATH"));
    setenv("PATH", path, 1);
    for (int i = 0; needed[i]; i++) {
        char command[64];
        snprintf(command, sizeof command, "command -v %s >/dev/null", needed[i]);
        if (system(command) != 0) {
            printf("slurm: skipped, there is no %s (Debian: slurm-wlm, munge)\n", needed[i]);
            return SUITE_SKIPPED;
        }
    }
    if (!has_network()) {
        puts("slurm: skipped, this machine has loopback addresses only, and slurmctld needs another one");
        return SUITE_SKIPPED;
    }
    return suite_run("slurm", tests, (int)(sizeof tests / sizeof *tests));
}
