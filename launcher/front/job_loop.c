/* job_loop.c - the event loop of a job: setup, one loop that polls all connections, and the final report. */
#include "front/front.h"

#include "ground/codes.h"
#include "front/failure.h"
#include "node/logs.h"
#include "node/port.h"
#include "node/sweep.h"
#include "wire/starter.h"
#include "front/stall.h"

#include "base/must.h"
#include "base/status.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TICK (CE_SECOND / 20)

enum { MAX_RENDEZVOUS = 256, MAX_OTHER = 8, LAST_SECONDS = 2 };

/* ---- setup ---- */

/* Creates the folder cspeed_runs/<date>_<job>. If the working directory cannot be written to, the job runs without log
 * files. */
static void open_default_folder(cl_front *front)
{
    char name[128], day[32];
    time_t now = time(NULL);
    struct tm date;
    const cl_plan *plan = front->plan;
    strftime(day, sizeof day, "%Y-%m-%d_%H%M%S", localtime_r(&now, &date));
    snprintf(name, sizeof name, "%s_%s", day, plan->id);
    int length = snprintf(front->run_dir, sizeof front->run_dir, "%s/cspeed_runs/%s", plan->workdir, name);
    if (length >= (int)sizeof front->run_dir || access(plan->workdir, X_OK) < 0 ||
        cl_logs_folder(front->run_dir) != 0) {
        cl_output_say(&front->output,
                      "cspeed: no log files of this job are written, because %s/cspeed_runs cannot be created; "
                      "--log_dir names another folder",
                      plan->workdir);
        front->run_dir[0] = '\0';
        ce_clear_error();
    }
}

/* Makes the link `latest` in cspeed_runs point to the job's folder. */
static void link_latest(cl_front *front)
{
    char link[PATH_MAX + 32];
    if (front->options->log_dir || !*front->run_dir)
        return;
    snprintf(link, sizeof link, "%s/cspeed_runs/latest", front->plan->workdir);
    if ((unlink(link) == 0 || errno == ENOENT) && symlink(strrchr(front->run_dir, '/') + 1, link) < 0 &&
        front->options->verbose)
        cl_output_say(&front->output, "cspeed: %s: %s", link, strerror(errno));
}

/* Opens the log folder. Its path is made absolute, so that every agent uses the same folder. */
static int open_folder(cl_front *front)
{
    const char *wanted = front->options->log_dir;
    if (!wanted) {
        open_default_folder(front);
        return 0;
    }
    int length = snprintf(front->run_dir, sizeof front->run_dir, "%s%s%s", *wanted == '/' ? "" : front->plan->workdir,
                          *wanted == '/' ? "" : "/", wanted);
    if (length >= (int)sizeof front->run_dir)
        return cl_codes_fail(CL_CODE_LOG, "--log_dir: the path is too long");
    return cl_logs_folder(front->run_dir);
}

/* Adds the job to the registry. If this fails, the job still runs, but `cspeed ps` does not list it. */
static int open_registry(cl_front *front)
{
    int code = cl_registry_open(&front->registry, front->plan, front->run_dir);
    if (code != CL_CODE_SYSTEM)
        return code;
    cl_output_say(&front->output, "cspeed: %s; the job runs, but `cspeed ps`, `status` and `stop` will not find it",
                  cs_error());
    ce_clear_error();
    return 0;
}

static int open_rendezvous(cl_front *front)
{
    int port = cl_hostplan_ranks_port(front->plan), code = 0;
    if (front->plan->launcher >= CL_BY_OPENMPI)
        cl_starter_secret();
    if (port && cl_hostplan_nodes_come(front->plan) && cl_port_is_held(port))
        code =
            cl_codes_fail(CL_CODE_SLOTS,
                          "--master_port (or MASTER_PORT) %d: the ranks of another job on this machine use this port "
                          "(`cspeed ps` lists it); choose another port, the same on all nodes",
                          port);
    if (code == 0 && cl_hostplan_nodes_come(front->plan))
        code = cl_rendezvous_open(&front->rendezvous, front->plan);
    if (code == 0 && cl_join_agents_is_elastic(front))
        code = cl_world_sizes_read(&front->world_sizes, front->plan->arguments);
    return code;
}

static int open_front(cl_front *front)
{
    int64_t now = ce_clock_now();
    front->began = front->heartbeat_at = now;
    ce_mac_random(front->key, sizeof front->key);
    signal(SIGPIPE, SIG_IGN); /* a write to a console that its reader has closed must not end the job */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    int code = cl_output_open(&front->output, front->plan, now);
    if (code == 0 && (code = open_folder(front)) != 0)
        front->run_dir[0] = '\0';
    front->output.log_dir = *front->run_dir ? front->run_dir : NULL;
    if (code == 0)
        code = open_registry(front);
    if (code == 0)
        code = open_rendezvous(front);
    if (code)
        return code;
    link_latest(front);
    cl_join_agents_open(front);
    return cl_front_begin(front, now);
}

/* Records why a job has not begun: in result.json, or, if the command line is wrong, by leaving no folder. */
static void give_up(cl_front *front, int code)
{
    front->code = code;
    front->first = front->first_node = -1;
    snprintf(front->why, sizeof front->why, "%s", cs_error());
    if (code != CL_CODE_USAGE)
        cl_result_write(front);
    else if (*front->run_dir && !front->options->log_dir)
        rmdir(front->run_dir);
}

/* ---- the loop ---- */

static int64_t next_due(const cl_front *front, int64_t now)
{
    int64_t due = cl_output_due(&front->output);
    due = front->deadline < due ? front->deadline : due;
    due = front->heartbeat_at < due ? front->heartbeat_at : due;
    if (front->rendezvous && cl_rendezvous_due(front->rendezvous) < due)
        due = cl_rendezvous_due(front->rendezvous);
    /* poll returns after a short time, so that a console that accepts no output is noticed */
    bool waits = cl_output_waits(&front->output);
    int64_t max = now + (waits ? TICK : CE_SECOND);
    return due < max ? due : max;
}

static int list_polled(const cl_front *front, struct pollfd *polled, int signal_fd)
{
    int count = 0;
    polled[count++] = (struct pollfd){ .fd = signal_fd, .events = POLLIN };
    bool rests = ce_clock_now() < front->registry.rests_until;
    polled[count++] = (struct pollfd){ .fd = rests ? -1 : front->registry.fd, .events = POLLIN };
    count += cl_output_poll(&front->output, polled + count);
    for (int i = 0; i < front->node_total; i++)
        if (cl_link_is_open(&front->nodes[i].link))
            polled[count++] =
                (struct pollfd){ .fd = front->nodes[i].link.in_fd,
                                 .events = cl_link_waits(&front->nodes[i].link) ? POLLIN | POLLOUT : POLLIN };
    return count + (front->rendezvous ? cl_rendezvous_poll(front->rendezvous, polled + count, MAX_RENDEZVOUS) : 0);
}

static void sleep_on(cl_front *front, int signal_fd, struct pollfd *polled)
{
    int64_t now = ce_clock_now(), due = next_due(front, now);
    for (int i = 0; i < front->node_total; i++)
        cl_link_flush(&front->nodes[i].link);
    int count = list_polled(front, polled, signal_fd);
    int64_t wait = due <= now ? 0 : (due - now) / 1000000 + 1;
    poll(polled, (nfds_t)count, (int)wait);
    if (polled[1].revents & POLLIN) {
        CE_FREED char *state = cl_result_state(front);
        cl_registry_answer(&front->registry, state);
    }
    /* If poll returned much too late, this process was suspended, so the silence of its agents in that time does not
     * count. */
    if (ce_clock_now() - due > 2 * CE_SECOND)
        for (int i = 0; i < front->node_total; i++)
            front->nodes[i].link.heard = ce_clock_now();
}

/* Reaps child processes that have ended: mpirun or srun, and the process that carried the connection to a lost node. A
 * local agent, and the process of a node that is not yet marked as lost, are reaped elsewhere, because their exit
 * status is part of the reason for the loss. */
static void reap(cl_front *front)
{
    for (int i = 0; i < front->node_total; i++)
        if (front->nodes[i].pid > 0 && front->nodes[i].state == CL_NODE_LOST &&
            waitpid(front->nodes[i].pid, NULL, WNOHANG) > 0)
            front->nodes[i].pid = 0;
    int status;
    if (front->starter > 0 && waitpid(front->starter, &status, WNOHANG) > 0) {
        front->starter = 0;
        if (front->phase == CL_JOINING)
            cl_front_fail(front, -1, CL_CODE_HOST,
                          "the program that starts the agents (mpirun, srun) has ended; its messages are above");
    }
}

static void take_signals(cl_front *front, int signal_fd, int64_t now)
{
    struct signalfd_siginfo received;
    while (read(signal_fd, &received, sizeof received) == (ssize_t)sizeof received)
        cl_front_take_signal(front, (int)received.ssi_signo, now);
}

static void run(cl_front *front, int signal_fd, struct pollfd *polled)
{
    cl_stall_timer timer = { 0 };
    while (front->phase != CL_OVER || !front->over) {
        sleep_on(front, signal_fd, polled);
        int64_t now = ce_clock_now();
        /* Messages are handled before signals: if a rank has failed and a signal has arrived, the failure is the cause,
         * and the signal may be its effect. */
        cl_nodes_listen(front, now);
        take_signals(front, signal_fd, now);
        reap(front);
        /* accepts a limited number of connections, because any program may connect to the port */
        cl_join_agents_admit(front, now);
        cl_front_take_time(front, now);
        cl_stall_check(&timer, front, now);
        cl_output_serve(&front->output, now);
    }
}

/* ---- the end ---- */

/* Sends the final report to the agents and the nodes, and gives them a short time to close their connections. */
static void send_result(cl_front *front, int code, const char *text)
{
    int64_t deadline = ce_clock_now() + LAST_SECONDS * CE_SECOND;
    for (int i = 0; i < front->node_total; i++)
        cl_link_send(&front->nodes[i].link, CL_LINK_FINISH, (uint32_t)code, text, strlen(text));
    for (bool any = true; any && ce_clock_now() < deadline;) {
        any = false;
        for (int i = 0; i < front->node_total; i++) {
            cl_message message;
            cl_link *link = &front->nodes[i].link;
            cl_link_flush(link);
            cl_link_fill(link, 0);
            while (cl_link_next(link, &message))
                ;
            any |= cl_link_is_open(link) && !link->broken;
        }
        if (any)
            nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    }
}

/* Waits until a child process ends. The child has no more work. If it does not end in time, for example because it is
 * suspended, it is killed. */
static void end_child(pid_t pid)
{
    if (pid > 0 && !cl_sweep_await(pid, LAST_SECONDS, NULL)) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

static void close_front(cl_front *front)
{
    for (int i = 0; front->nodes && i < front->node_total; i++) {
        cl_link_close(&front->nodes[i].link);
        if (front->nodes[i].pid > 0 && !front->nodes[i].here)
            kill(front->nodes[i].pid, SIGTERM);
    }
    for (int i = 0; front->nodes && i < front->node_total; i++)
        end_child(front->nodes[i].pid);
    end_child(front->starter);
    cl_rendezvous_close(front->rendezvous);
    cl_registry_close(&front->registry);
    cl_output_close(&front->output);
}

/* Runs the loop of a job whose setup has succeeded, until the job ends. */
static int run_to_end(cl_front *front, int signal_fd)
{
    CE_FREED struct pollfd *polled =
        ce_must_alloc((size_t)(front->node_total + MAX_RENDEZVOUS + MAX_OTHER) * sizeof *polled);
    run(front, signal_fd, polled);
    cl_output_finish(&front->output);
    CE_FREED char *text = cl_failure_text(front);
    int code = cl_front_code(front);
    if (*text)
        cl_output_say(&front->output, "%s", text);
    cl_result_write(front);
    send_result(front, code, text);
    cl_output_drain(&front->output, signal_fd);
    return code;
}

int cl_job_loop_run(cl_plan *plan, const cl_guard *guard)
{
    static cl_front front; /* static, because the structure is large; a process runs only one job */
    front =
        (cl_front){ .options = plan->options, .guard = guard, .plan = plan, .registry.fd = -1, .deadline = INT64_MAX };
    int signal_fd = signalfd(-1, &guard->signals, SFD_NONBLOCK | SFD_CLOEXEC);
    int code = signal_fd < 0 ? cl_codes_fail(CL_CODE_SYSTEM, "no signalfd: %s", strerror(errno)) : open_front(&front);
    bool refused = code == CL_CODE_USAGE; /* the command line is wrong, and there was no job */
    if (code == 0)
        code = run_to_end(&front, signal_fd);
    else
        give_up(&front, code);
    close_front(&front);
    if (!refused)
        cl_on_end_run(&front, code, signal_fd);
    cl_workers_free(&front);
    cl_world_sizes_free(&front.world_sizes);
    free(front.nodes);
    close(signal_fd);
    return code;
}
