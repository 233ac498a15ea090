/* team.c - a thread pool: threads that wait between kernels, pinned to cores if the caller names the cores.
 *
 * In a round, the caller writes the work and increments `round`. Then all threads, the caller too, run tasks until no
 * task is left; a counter gives each thread the number of its next task. A thread waits for a change of a 32-bit word,
 * `round` or `busy`: the thread reads the word in a loop for some microseconds, and then sleeps until the word changes
 * (futex). */
#include "device/cpu/cpu.h"

#include "base/thread.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

/* LOOKS: number of times that a thread reads a word before it sleeps. These reads take longer than the caller needs
 * between two kernels. */
enum { LOOKS = 60000 };

typedef struct {
    ce_team *team;
    pthread_t thread;
    int index;
} member;

struct ce_team {
    int threads, looks;
    bool pinned;
    cpu_set_t before; /* the cores that the caller could use before this team pinned it */

    ce_team_task *task;
    void *argument;
    int tasks;
    bool closing;
    _Atomic int next; /* number of the next task */

    _Alignas(64) _Atomic uint32_t round;
    _Atomic uint32_t sleepers; /* number of the team's threads that sleep until `round` changes */
    _Alignas(64) _Atomic uint32_t busy;
    _Atomic uint32_t caller_sleeps; /* true while the caller sleeps until `busy` changes */
    pthread_t owner;                /* the thread that opened the team; only this thread may start rounds */
    /* true while a round is running: if a task then calls ce_team_run, it runs the new tasks itself */
    bool running;
    int started; /* number of threads that were started */
    member members[];
};

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Waits until *word differs from `value`: reads it up to `looks` times, and then sleeps. */
static void await_change(_Atomic uint32_t *word, uint32_t value, int looks, _Atomic uint32_t *sleepers)
{
    for (int look = 0; look < looks; look++)
        if (atomic_load_explicit(word, memory_order_acquire) != value)
            return;
    atomic_fetch_add(sleepers, 1);
    while (atomic_load(word) == value)
        futex_wait(word, value);
    atomic_fetch_sub(sleepers, 1);
}

static void draw(ce_team *team, int thread)
{
    for (;;) {
        int index = atomic_fetch_add_explicit(&team->next, 1, memory_order_relaxed);
        if (index >= team->tasks)
            return;
        team->task(team->argument, index, thread);
    }
}

static void *run_member(void *argument)
{
    member *self = argument;
    ce_team *team = self->team;
    ce_matmul_quiet();
    for (uint32_t round = 0;; round++) {
        await_change(&team->round, round, team->looks, &team->sleepers);
        if (team->closing)
            return NULL;
        draw(team, self->index);
        if (atomic_fetch_sub(&team->busy, 1) == 1 && atomic_load(&team->caller_sleeps))
            futex_wake(&team->busy);
    }
}

static void start_round(ce_team *team)
{
    atomic_store(&team->busy, (uint32_t)team->started);
    atomic_fetch_add(&team->round, 1);
    if (atomic_load(&team->sleepers))
        futex_wake(&team->round);
}

static void end_round(ce_team *team)
{
    uint32_t left;
    while ((left = atomic_load_explicit(&team->busy, memory_order_acquire)))
        await_change(&team->busy, left, team->looks, &team->caller_sleeps);
}

void ce_team_run(ce_team *team, int tasks, ce_team_task *task, void *argument)
{
    bool team_mine = pthread_equal(pthread_self(), team->owner) && !team->running;
    if (tasks == 1 || team->started == 0 || !team_mine) {
        for (int index = 0; index < tasks; index++)
            task(argument, index, 0);
        return;
    }
    team->running = true;
    team->task = task;
    team->argument = argument;
    team->tasks = tasks;
    atomic_store_explicit(&team->next, 0, memory_order_relaxed);
    start_round(team);
    draw(team, 0);
    end_round(team);
    team->running = false;
}

/* Pins the thread to core number `index` of the set `cores`. */
static void pin(pthread_t thread, const cpu_set_t *cores, int index)
{
    size_t core = 0;
    for (int seen = -1; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, cores) && ++seen == index)
            break;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    /* An error is ignored, because threads that are not pinned compute the same results. */
    pthread_setaffinity_np(thread, sizeof one, &one);
}

static cs_status build(ce_team *team, const ce_team_shape *shape)
{
    for (int i = 0; i < shape->threads - 1; i++) {
        team->members[i] = (member){ .team = team, .index = i + 1 };
        int error = ce_thread_start(&team->members[i].thread, run_member, &team->members[i]);
        if (error)
            return ce_fail_errno(CS_NO_MEMORY, error, "cannot start thread %d of %d", i + 2, shape->threads);
        team->started++;
        if (shape->cores)
            pin(team->members[i].thread, shape->cores, i + 1);
    }
    if (shape->cores && pthread_getaffinity_np(pthread_self(), sizeof team->before, &team->before) == 0) {
        team->pinned = true;
        pin(pthread_self(), shape->cores, 0);
    }
    return CS_OK;
}

cs_status ce_team_open(ce_team **team, const ce_team_shape *shape)
{
    size_t bytes = sizeof **team + (size_t)shape->threads * sizeof(member);
    *team = aligned_alloc(64, (size_t)ce_round_up((int64_t)bytes, 64));
    if (!*team)
        return ce_fail(CS_NO_MEMORY, "no memory for %d threads", shape->threads);
    **team = (ce_team){ .threads = shape->threads, .looks = shape->spin ? LOOKS : 0, .owner = pthread_self() };
    cs_status status = build(*team, shape);
    if (status != CS_OK) {
        ce_team_close(*team);
        *team = NULL;
    }
    return status;
}

void ce_team_close(ce_team *team)
{
    if (!team)
        return;
    team->closing = true;
    start_round(team);
    for (int i = 0; i < team->started; i++)
        pthread_join(team->members[i].thread, NULL);
    if (team->pinned)
        pthread_setaffinity_np(pthread_self(), sizeof team->before, &team->before);
    free(team);
}
