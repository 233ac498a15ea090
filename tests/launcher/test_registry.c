/* test_registry.c - the registry of running jobs: finding a job by a prefix of its id, stale entries, and queries. */
#include "suite.h"

#include "front/registry.h"
#include "front/registry_read.h"
#include "node/proc.h"
#include "shell.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static cl_options options;
static int slots[2] = { 0, 1 };
static cl_host host = { .name = "w0", .slot_count = 2, .slots = slots };
static cl_plan_node node = { .host = &host };
static cl_plan plan = { .options = &options, .nodes = &node, .node_count = 1, .rank_count = 2 };
static char here[4096];

/* Enters a temporary folder that is also the registry of running jobs. */
static void enter(void)
{
    shell_enter();
    ck_assert_ptr_nonnull(getcwd(here, sizeof here));
    setenv("XDG_RUNTIME_DIR", here, 1);
}

static cl_registry open_as(const char *id)
{
    cl_registry registry;
    strcpy(plan.id, id);
    ck_assert_msg(cl_registry_open(&registry, &plan, ".") == 0, "%s", cs_error());
    ck_assert_int_ge(registry.fd, 0);
    return registry;
}

static int count_jobs(void)
{
    cl_registry_job *jobs;
    int count;
    ck_assert_int_eq(cl_registry_read_list(&jobs, &count, NULL), 0);
    free(jobs);
    return count;
}

START_TEST(an_entry_has_what_commands_show)
{
    char *arguments[] = { "train",
                          "--data",
                          "a b",
                          "--api_key",
                          "hush",
                          "HF_TOKEN=hush",
                          "--secret=hush",
                          "--lr",
                          "A=1 HF_TOKEN=hush B=2",
                          NULL };
    enter();
    plan.arguments = arguments;
    cl_registry alpha = open_as("alpha");
    cl_registry_job job;
    ck_assert_int_eq(cl_registry_read_find(&job, "alpha"), 0);
    ck_assert_int_eq(job.pid, getpid());
    ck_assert_int_eq(job.ranks, 2);
    ck_assert_str_eq(job.hosts, "w0");
    ck_assert_str_eq(job.run_dir, here);
    ck_assert_str_eq(job.command, "train --data a b --api_key (secret) HF_TOKEN=(secret) --secret=(secret) "
                                  "--lr A=1 HF_TOKEN=(secret)");
    ck_assert(cl_registry_read_is_running(&job));
    plan.arguments = NULL;
    cl_registry_close(&alpha);
    ck_assert_int_eq(count_jobs(), 0);
    ck_assert_int_eq(shell_run("ls -A cspeed"), 0);
    char *left = shell_read("out.txt", NULL);
    ck_assert_str_eq(left, "");
    free(left);
    shell_leave();
}
END_TEST

START_TEST(ids_are_distinguished)
{
    static const struct {
        const char *id, *found, *says;
    } cases[] = {
        { "al", NULL, "several running jobs begin with \"al\": alpha, alpine" },
        { "alp", NULL, "several" },
        { "alph", "alpha", "" },
        { "alpha", "alpha", "" },
        { "be", NULL, "several" },
        { "beta", "beta", "" }, /* an exact id is found, although beta-2 has the same beginning */
        { "beta-", "beta-2", "" },
        { "gamma", NULL, "no job \"gamma\" runs on this machine; these do: " },
        { "", NULL, "no job" },
        { "a/../b", "a/../b", "" },
        { "..", "..", "" },
    };
    static const char *const ids[] = { "alpha", "alpine", "beta", "beta-2", "a/../b", ".." };
    cl_registry all[6];
    enter();
    ck_assert_int_eq(shell_run("mkdir -p -m 700 cspeed; mkfifo cspeed/x.json"), 0); /* must not block */
    for (int i = 0; i < 6; i++)
        all[i] = open_as(ids[i]);
    ck_assert_int_eq(count_jobs(), 6);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cl_registry_job job;
        int code = cl_registry_read_find(&job, cases[i].id);
        if (cases[i].found) {
            ck_assert_msg(code == 0, "case %zu: %s", i, cs_error());
            ck_assert_str_eq(job.job, cases[i].found);
        } else {
            ck_assert_msg(code == 66, "case %zu: %d", i, code);
            ck_assert_msg(strstr(cs_error(), cases[i].says) != NULL, "case %zu: %s", i, cs_error());
        }
    }
    for (int i = 0; i < 6; i++)
        cl_registry_close(&all[i]);
    shell_leave();
}
END_TEST

START_TEST(an_id_runs_once)
{
    cl_registry second;
    char pid[32];
    enter();
    cl_registry first = open_as("same");
    ck_assert_int_eq(cl_registry_open(&second, &plan, "."), 64);
    snprintf(pid, sizeof pid, "(pid %d)", getpid());
    ck_assert_ptr_nonnull(strstr(cs_error(), pid));
    cl_registry_close(&second); /* the second job was refused, and must not remove the first job's entry */
    ck_assert_int_eq(count_jobs(), 1);
    cl_registry_close(&first);
    first = open_as("same");
    cl_registry_close(&first);
    shell_leave();
}
END_TEST

START_TEST(what_is_gone_is_swept)
{
    char entry[256];
    int swept;
    enter();
    cl_registry live = open_as("live");
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    waitpid(child, NULL, 0);
    snprintf(entry, sizeof entry, "{\"job\": \"dead\", \"pid\": %d, \"start\": 5}", child);
    shell_write("cspeed/dead.json", entry);
    /* The entry of a process that had this pid before. */
    snprintf(entry, sizeof entry, "{\"job\": \"reused\", \"pid\": %d, \"start\": 5}", getpid());
    shell_write("cspeed/reused.json", entry);
    shell_write("cspeed/broken.json", "{\"job\":");
    snprintf(entry, sizeof entry, "cspeed/%d.sock", child);
    shell_write(entry, "");
    cl_registry_job *jobs;
    int count;
    ck_assert_int_eq(cl_registry_read_list(&jobs, &count, &swept), 0);
    ck_assert_int_eq(count, 1);
    ck_assert_str_eq(jobs[0].job, "live");
    ck_assert_int_eq(swept, 4);
    free(jobs);
    /* a stale entry does not prevent a job with the same id */
    shell_write("cspeed/next.json", "{\"job\": \"next\", \"pid\": 1, \"start\": 5}");
    cl_registry next = open_as("next");
    cl_registry_close(&next);
    cl_registry_close(&live);
    shell_leave();
}
END_TEST

/* A zombie does not count as running. */
START_TEST(a_zombie_is_gone)
{
    pid_t child = fork();
    if (child == 0)
        pause();
    ck_assert(cl_proc_start(child) != 0);
    ck_assert(cl_proc_start(getpid()) != 0);
    kill(child, SIGKILL);
    siginfo_t news;
    ck_assert_int_eq(waitid(P_PID, (id_t)child, &news, WEXITED | WNOWAIT), 0);
    ck_assert(cl_proc_start(child) == 0);
    waitpid(child, NULL, 0);
    ck_assert(cl_proc_start(child) == 0);
}
END_TEST

START_TEST(only_a_folder_of_our_own)
{
    static const char *const spoilers[] = { "mkdir -m 777 cspeed", "mkdir -m 750 cspeed", "touch cspeed",
                                            "mkdir -m 700 real && ln -s real cspeed" };
    for (size_t i = 0; i < sizeof spoilers / sizeof *spoilers; i++) {
        cl_registry registry;
        enter();
        ck_assert_int_eq(shell_run("%s", spoilers[i]), 0);
        ck_assert_msg(cl_registry_open(&registry, &plan, ".") == 71, "case %zu", i);
        ck_assert_int_eq(registry.fd, -1);
        ck_assert_ptr_nonnull(strstr(cs_error(), "does not belong to this user"));
        cl_registry_close(&registry);
        shell_leave();
    }
    if (geteuid() == 0) {
        cl_registry registry;
        enter();
        ck_assert_int_eq(shell_run("mkdir -m 700 cspeed && chown 1 cspeed"), 0);
        ck_assert_int_eq(cl_registry_open(&registry, &plan, "."), 71);
        shell_leave();
    }
}
END_TEST

START_TEST(a_caller_gets_the_state)
{
    enum { LONG = 150000 };
    char *state = malloc(LONG + 1);
    memset(state, 'x', LONG);
    state[LONG] = '\0';
    enter();
    cl_registry registry = open_as("asked");
    pid_t child = fork();
    if (child == 0) {
        cl_registry_job job;
        char *text = cl_registry_read_find(&job, "asked") == 0 ? cl_registry_read_ask(&job) : NULL;
        _exit(text && strcmp(text, state) == 0 ? 0 : 1);
    }
    int status;
    while (waitpid(child, &status, WNOHANG) == 0) {
        cl_registry_answer(&registry, state); /* returns at once if no process has connected */
        usleep(1000);
    }
    ck_assert_int_eq(status, 0);
    free(state);
    cl_registry_close(&registry);
    shell_leave();
}
END_TEST

SUITE_MAIN("registry", an_entry_has_what_commands_show, ids_are_distinguished, an_id_runs_once, what_is_gone_is_swept,
           a_zombie_is_gone, only_a_folder_of_our_own, a_caller_gets_the_state)
