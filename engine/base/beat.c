/* beat.c - the heartbeat record that a rank shares with its launcher, and the handlers that write the rank's C stack:
 * on the launcher's request, and before a fatal signal ends the rank. */
#include "base/beat.h"

#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NAME(constant, name, deepspeed) name,
const char *const ce_beat_names[CE_BEAT_COUNT] = { "", CE_BEATS(NAME) };
const char *const ce_beat_axes[CE_BEAT_AXES] = { "", "dp_replicate", "dp_shard", "tp" };
const char *const ce_beat_phases[CE_BEAT_PHASES] = { "", "evaluation", "forward", "backward", "optimizer step" };

/* CRASH_FRAMES is below 20, because the launcher shows the last 20 lines of stderr. */
enum { FRAMES = 64, CRASH_FRAMES = 16, SIGNAL_STACK = 64 << 10 };

static ce_beat private_beat;
static ce_beat *own_beat;
static int memory_fd;

/* The handler of the signal stack_signal: writes the rank's C stack into the memfd. It calls nothing that allocates
 * memory. */
static void write_stack(int number)
{
    void *frames[FRAMES];
    int before = errno;
    (void)number;
    lseek(memory_fd, CE_BEAT_STACK, SEEK_SET);
    backtrace_symbols_fd(frames, backtrace(frames, FRAMES), memory_fd);
    atomic_store(&own_beat->stack_bytes, (int32_t)(lseek(memory_fd, 0, SEEK_CUR) - CE_BEAT_STACK));
    atomic_fetch_add(&own_beat->stacks, 1);
    errno = before;
}

void ce_beat_use_signal_stack(void)
{
    static char stack[SIGNAL_STACK];
    static bool used;
    stack_t other;
    if (!used && sigaltstack(NULL, &other) == 0 && (other.ss_flags & SS_DISABLE))
        used = sigaltstack(&(stack_t){ .ss_sp = stack, .ss_size = sizeof stack }, NULL) == 0;
}

static void listen_for_stack(void)
{
    struct sigaction action = { .sa_handler = write_stack, .sa_flags = SA_RESTART | SA_ONSTACK };
    void *frame;
    backtrace(&frame, 1); /* the first call of backtrace loads a library, which a signal handler must not do */
    if (sigaction(SIGRTMAX - 1, &action, NULL) == 0)
        atomic_store(&own_beat->stack_signal, SIGRTMAX - 1);
}

/* ---- fatal signals ---- */

static const struct {
    int number;
    const char *line;
} fatal[] = { { SIGSEGV, "C stack at SIGSEGV:\n" },
              { SIGBUS, "C stack at SIGBUS:\n" },
              { SIGFPE, "C stack at SIGFPE:\n" },
              { SIGILL, "C stack at SIGILL:\n" },
              { SIGABRT, "C stack at SIGABRT:\n" } };
enum { FATAL = sizeof fatal / sizeof *fatal };

/* The handler of fatal signals: writes the C stack to stderr, where the launcher's report of the failure quotes it, and
 * ends the process by the same signal. SA_RESETHAND has restored the signal's default action. */
static void end_with_stack(int number)
{
    void *frames[CRASH_FRAMES];
    for (int i = 0; i < FATAL; i++)
        if (fatal[i].number == number && write(STDERR_FILENO, fatal[i].line, strlen(fatal[i].line)) < 0)
            break; /* stderr is closed; the call of backtrace_symbols_fd below then writes nothing */
    backtrace_symbols_fd(frames, backtrace(frames, CRASH_FRAMES), STDERR_FILENO);
    raise(number);
}

/* Installs the handlers of fatal signals, but only in ranks that the launcher started. A handler that the program or
 * a sanitizer has installed stays in place. */
__attribute__((constructor)) static void handle_fatal_signals(void)
{
    struct sigaction action = { .sa_handler = end_with_stack, .sa_flags = SA_ONSTACK | (int)SA_RESETHAND | SA_NODEFER };
    struct sigaction before;
    void *frame;
    if (!getenv("CSPEED_BEAT_FD"))
        return;
    backtrace(&frame, 1); /* the first call of backtrace loads a library, which a signal handler must not do */
    ce_beat_use_signal_stack();
    for (int i = 0; i < FATAL; i++)
        if (sigaction(fatal[i].number, NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(fatal[i].number, &action, NULL);
}

ce_beat *ce_beat_own(void)
{
    if (own_beat)
        return own_beat;
    const char *text = getenv("CSPEED_BEAT_FD");
    memory_fd = text ? atoi(text) : -1;
    void *page = text ? mmap(NULL, CE_BEAT_STACK, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0) : MAP_FAILED;
    own_beat = page == MAP_FAILED ? &private_beat : page;
    if (own_beat != &private_beat)
        listen_for_stack();
    return own_beat;
}

static void touch(ce_beat *beat)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    atomic_store_explicit(&beat->since, now.tv_sec * 1000000000 + now.tv_nsec, memory_order_relaxed);
}

void ce_beat_step(int64_t step)
{
    ce_beat *beat = ce_beat_own();
    atomic_store_explicit(&beat->step, step, memory_order_relaxed);
    touch(beat);
}

void ce_beat_touch(void)
{
    touch(ce_beat_own());
}

void ce_beat_keep(int64_t step)
{
    atomic_store_explicit(&ce_beat_own()->kept, step + 1, memory_order_relaxed);
}

void ce_beat_give_up(void)
{
    atomic_store(&ce_beat_own()->gave_up, 1);
}

void ce_beat_offer_saves(void)
{
    atomic_store_explicit(&ce_beat_own()->saves, 1, memory_order_relaxed);
}

void ce_beat_phase(int phase, int64_t micro)
{
    ce_beat *beat = ce_beat_own();
    atomic_store_explicit(&beat->micro, (int32_t)micro, memory_order_relaxed);
    atomic_store_explicit(&beat->phase, phase, memory_order_relaxed);
    touch(beat);
}

void ce_beat_unit(int unit, const char *name)
{
    ce_beat *beat = ce_beat_own();
    size_t length = strnlen(name, CE_BEAT_NAME - 1);
    memcpy(beat->name, name, length);
    beat->name[length] = '\0';
    atomic_store_explicit(&beat->unit, unit + 1, memory_order_relaxed);
    touch(beat);
}

void ce_beat_no_unit(void)
{
    atomic_store_explicit(&ce_beat_own()->unit, 0, memory_order_relaxed);
}

void ce_beat_enter(int axis, int collective)
{
    ce_beat *beat = ce_beat_own();
    atomic_store_explicit(&beat->collectives[axis], collective, memory_order_relaxed);
    touch(beat);
}

void ce_beat_leave(int axis)
{
    atomic_store_explicit(&ce_beat_own()->collectives[axis], CE_BEAT_NONE, memory_order_relaxed);
}
