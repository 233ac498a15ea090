/* asked.c - signals that ask this rank for a checkpoint, or for a checkpoint and the end of the process. */
#include "base/asked.h"

#include "base/beat.h"
#include "base/clock.h"
#include "base/must.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define AGAIN INT64_C(1000000000) /* a signal that comes again within this many nanoseconds is the same request */

static const int saves[] = { SIGUSR1, SIGUSR2 }, ends[] = { SIGTERM, SIGINT, SIGHUP };
enum { SAVES = sizeof saves / sizeof *saves, ENDS = sizeof ends / sizeof *ends };

static _Atomic int asked; /* what signals have asked for since the last ce_asked_take: CE_ASKED_* */
static bool listens;
static pid_t agent; /* the launcher's process on this host, or 0: it kills this process when the grace period is over */
static bool agreed; /* all ranks know that a signal asks for the end */
static _Atomic int end_signal;
static _Atomic int64_t end_asked_at;

static void take_save(int number, siginfo_t *from, void *context)
{
    (void)number;
    (void)from;
    (void)context;
    atomic_fetch_or(&asked, CE_ASKED_SAVE);
}

/* A launcher asks once, and may do so when this process was asked already: its request is never a second one. */
static void take_end(int number, siginfo_t *from, void *context)
{
    (void)context;
    int64_t now = ce_clock_now();
    int none = 0;
    if (atomic_compare_exchange_strong(&end_signal, &none, number)) {
        atomic_store(&end_asked_at, now);
        atomic_fetch_or(&asked, CE_ASKED_END);
    } else if ((!agent || from->si_pid != agent) && now - atomic_load(&end_asked_at) >= AGAIN) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

/* No other signal interrupts a handler, so that the stack for signals has room for it however many signals come. */
static void listen_to(int number, void (*handler)(int, siginfo_t *, void *), bool though_ignored)
{
    struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_RESTART | SA_ONSTACK | SA_SIGINFO }, before;
    sigfillset(&action.sa_mask);
    if (sigaction(number, NULL, &before) == 0 &&
        (before.sa_handler == SIG_DFL || (though_ignored && before.sa_handler == SIG_IGN)))
        sigaction(number, &action, NULL);
}

void ce_asked_listen(void)
{
    if (listens)
        return;
    listens = true;
    ce_beat_use_signal_stack();
    const char *launcher = getenv("CSPEED_AGENT"); /* PID:START:NAMESPACES */
    agent = launcher ? atoi(launcher) : 0;
    for (int i = 0; i < SAVES; i++)
        listen_to(saves[i], take_save, true);
    for (int i = 0; i < ENDS; i++)
        listen_to(ends[i], take_end, false);
}

int ce_asked_take(void)
{
    return atomic_exchange(&asked, 0);
}

void ce_asked_agree_to_end(void)
{
    agreed = true;
}

bool ce_asked_ends(void)
{
    return agreed;
}

bool ce_asked_restore(void)
{
    struct sigaction now;
    listens = agreed = false;
    for (int i = 0; i < ENDS; i++)
        if (sigaction(ends[i], NULL, &now) == 0 && now.sa_sigaction == take_end)
            signal(ends[i], SIG_DFL);
    return atomic_load(&end_signal) != 0;
}

void ce_asked_release(void)
{
    if (ce_asked_restore()) {
        fflush(NULL);
        raise(atomic_load(&end_signal));
    }
}

void ce_asked_end(void)
{
    ce_asked_release();
    ce_fatal(CS_NO_PEER, "a signal has asked another rank to end; this rank ends too, after the same step");
}

void ce_asked_ignore_saves(void)
{
    for (int i = 0; i < SAVES; i++)
        signal(saves[i], SIG_IGN);
}
