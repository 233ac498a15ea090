/* test_flood.c - a --no_ssh job continues although very many connections reach its join port while every core is busy.
 *
 * Two threads open connections as fast as they can. No node is lost, and the job still obeys signals and deadlines. */
#include "jobs.h"
#include "shell.h"
#include "ports.h"
#include "suite.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* OPEN: number of connections that one thread holds open; for each new one it closes the oldest. */
enum { THREADS = 2, OPEN = 200, SPINNERS_A_CORE = 3 };

static int port;

/* ---- the flood, a separate process -------------------------------------------------------------- */

static void *open_connections(void *unused)
{
    static const struct {
        const char *bytes;
        size_t count;
    } said[] = { { "", 0 },
                 { "GET / HTTP/1.0\r\n\r\n", 18 },
                 { "CSJN\3\1\0\177", 8 } }; /* the head of a hello message without its body */
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fds[OPEN];
    for (int i = 0; i < OPEN; i++)
        fds[i] = -1;
    for (unsigned turn = 0;; turn++) {
        int *fd = &fds[turn % OPEN];
        if (*fd >= 0)
            close(*fd);
        *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(*fd, (struct sockaddr *)&address, sizeof address) == 0 && said[turn % 3].count)
            send(*fd, said[turn % 3].bytes, said[turn % 3].count, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    return unused;
}

static void *spin(void *unused)
{
    for (volatile unsigned long turns = 0;; turns++)
        ;
    return unused;
}

static pid_t start_flood(void)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid > 0)
        return pid;
    long spinners = SPINNERS_A_CORE * sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t thread;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (long i = 0; i < spinners + THREADS; i++)
        if (pthread_create(&thread, NULL, i < THREADS ? open_connections : spin, NULL) != 0)
            _exit(1);
    for (;;)
        pause();
}

static void stop_flood(pid_t pid)
{
    int status;
    ck_assert_int_eq(waitpid(pid, &status, WNOHANG), 0); /* the flood was still running until now */
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
}

/* ---- the job ------------------------------------------------------------------------------------ */

static void begin(void)
{
    jobs_begin();
    setenv("CSPEED_SECRET", "a secret of 16 bytes or more", 1);
    port = ports_free("127.0.0.1");
}

static job start_node(const char *node_rank, const char *patience, const char *script)
{
    char master_port[32];
    snprintf(master_port, sizeof master_port, "--master_port=%d", port);
    return jobs_start_as(node_rank, (const char *const[]){ "--hosts=a:1,b:1", "--no_ssh", "--master_addr=127.0.0.1",
                                                           master_port, "--log_dir=logs", "--heartbeat=0.5",
                                                           "--dead_after=60", "--max_restarts=1", "--restart_delay=0.2",
                                                           "--oversubscribe", "--node_rank", node_rank,
                                                           "--rdzv_timeout", patience, "/bin/sh", "-c", script, NULL });
}

static void end(job *first, job *second)
{
    free(second->out);
    free(second->err);
    unsetenv("CSPEED_SECRET");
    jobs_end(first);
}

START_TEST(before_the_start_a_signal_is_obeyed)
{
    begin();
    pid_t flood = start_flood();
    job here = start_node("0", "1000", "true");
    jobs_await("logs"); /* from here on the job handles signals */
    sleep(1);
    kill(here.pid, SIGTERM);
    jobs_finish(&here);
    stop_flood(flood);
    jobs_check_code(&here, 143);
    jobs_end(&here);
}
END_TEST

START_TEST(before_the_start_the_deadline_is_kept)
{
    begin();
    pid_t flood = start_flood();
    job here = start_node("0", "2", "true");
    jobs_finish(&here);
    stop_flood(flood);
    jobs_check_code(&here, 75);
    jobs_check_has(here.err, "node 1 (b) did not join within 2 s");
    jobs_end(&here);
}
END_TEST

/* The second node joins during the flood. The first attempt fails, so a restart also happens during the flood. */
static const char fails_once[] = "touch up.$CSPEED_ATTEMPT.$RANK; sleep 3; test $CSPEED_ATTEMPT = 1 -o $RANK = 0";

START_TEST(no_node_is_lost)
{
    begin();
    pid_t flood = start_flood();
    job first = start_node("0", "1000", fails_once), second = start_node("1", "1000", fails_once);
    jobs_finish(&first);
    jobs_finish(&second);
    stop_flood(flood);
    jobs_check_code(&first, 0);
    jobs_check_code(&second, 0);
    ck_assert_int_eq(shell_count_of(first.err, "starts again"), 1);
    ck_assert_int_eq(shell_count_of(first.err, "was lost"), 0);
    ck_assert_int_eq(shell_count_of(second.err, "was lost"), 0);
    end(&first, &second);
}
END_TEST

/* A node is killed during the run and joins again, during the flood, for the second attempt. */
static const char waits[] = "touch up.$CSPEED_ATTEMPT.$RANK; while ! test -e done; do sleep 0.1; done";

START_TEST(a_lost_node_comes_again_and_a_running_job_obeys)
{
    begin();
    job first = start_node("0", "1000", waits), second = start_node("1", "1000", waits);
    jobs_await("up.0.0");
    jobs_await("up.0.1");
    pid_t flood = start_flood();
    sleep(2);
    jobs_kill(&second);
    second = start_node("1", "1000", waits);
    jobs_await("up.1.0");
    jobs_await("up.1.1");
    sleep(2);
    kill(first.pid, SIGTERM);
    jobs_finish(&first);
    jobs_finish(&second);
    stop_flood(flood);
    jobs_check_code(&first, 143);
    jobs_check_code(&second, 143);
    ck_assert_int_eq(shell_count_of(first.err, "starts again"), 1);
    end(&first, &second);
}
END_TEST

SUITE_MAIN("flood", before_the_start_a_signal_is_obeyed, before_the_start_the_deadline_is_kept, no_node_is_lost,
           a_lost_node_comes_again_and_a_running_job_obeys)
