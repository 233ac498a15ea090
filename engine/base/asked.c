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

static ce_beat *record; /* the handlers must not call ce_beat_own, which opens the record */
static bool listens;
static bool watched; /* true: a launcher watches this process, and kills it when the grace period is over */
static _Atomic int end_signal;
static _Atomic int64_t end_asked_at;

static void take_save(int number)
{
    (void)number;
    atomic_fetch_or(&record->save_asked, CS_ASKED_SAVE);
}

static void take_end(int number)
{
    int64_t now = ce_clock_now();
    int none = 0;
    if (atomic_compare_exchange_strong(&end_signal, &none, number)) {
        atomic_store(&end_asked_at, now);
        atomic_fetch_or(&record->save_asked, CS_ASKED_END);
    } else if (!watched && now - atomic_load(&end_asked_at) >= AGAIN) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

/* SA_NODEFER: while a handler runs, the same signal goes to the main thread again, and not to a thread that has no stack
 * for signals. */
static void listen_to(int number, void (*handler)(int), bool though_ignored)
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART | SA_ONSTACK | SA_NODEFER }, before;
    if (sigaction(number, NULL, &before) == 0 &&
        (before.sa_handler == SIG_DFL || (though_ignored && before.sa_handler == SIG_IGN)))
        sigaction(number, &action, NULL);
}

void ce_asked_listen(void)
{
    if (listens)
        return;
    listens = true;
    record = ce_beat_own();
    ce_beat_use_signal_stack();
    watched = getenv("CSPEED_BEAT_FD") != NULL;
    for (int i = 0; i < SAVES; i++)
        listen_to(saves[i], take_save, true);
    for (int i = 0; i < ENDS; i++)
        listen_to(ends[i], take_end, false);
}

int ce_asked_take(void)
{
    return atomic_exchange(&ce_beat_own()->save_asked, 0);
}

void ce_asked_release(void)
{
    struct sigaction now;
    listens = false;
    for (int i = 0; i < ENDS; i++)
        if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler == take_end)
            signal(ends[i], SIG_DFL);
    if (atomic_load(&end_signal)) {
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
