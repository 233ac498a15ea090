/* asked.h - what this rank is asked for, by its launcher or by a signal: a checkpoint, or a checkpoint and then the end.
 *
 * SIGUSR1 and SIGUSR2 ask for a checkpoint. SIGTERM, SIGINT and SIGHUP also ask the process to end when the checkpoint
 * is complete. The signals have these meanings only after ce_asked_listen, because before that no call would answer the
 * request; a process that does not listen is ended by the signals as usual. */
#ifndef CE_BASE_ASKED_H
#define CE_BASE_ASKED_H

#include <stdbool.h>

enum { CE_ASKED_SAVE = 1, CE_ASKED_END = 2 }; /* the bits of a request */

/* Installs the handlers of the signals, if they are not installed. A signal that is ignored, or for which the program has a
 * handler, stays as it is; SIGUSR1 and SIGUSR2 are also taken if they are ignored. A signal that asks for
 * the end ends the process at once when it comes again, but not within a second (some programs, timeout for example, send
 * a signal twice), and not from the launcher, which sends SIGKILL itself when the grace period is over. */
void ce_asked_listen(void);
int ce_asked_take(void); /* returns the bits of the request, and forgets it */
/* ce_asked_agree_to_end is called on every rank after the same step, when a signal has asked any rank for the end. From
 * then on ce_asked_ends returns true, and the process ends when the checkpoint of this step is complete. */
void ce_asked_agree_to_end(void);
bool ce_asked_ends(void);
/* ce_asked_restore restores the default actions, so that the next signal ends the process at once. Returns true if a
 * signal has asked for the end. ce_asked_release does the same; such a signal then ends the process now. */
bool ce_asked_restore(void);
void ce_asked_release(void);
/* Ends the process by the signal that has asked for it. If another rank got the signal and this rank did not, the exit
 * code is that of a lost peer (CS_NO_PEER). */
_Noreturn void ce_asked_end(void);
/* For a program that has nothing to save: SIGUSR1 and SIGUSR2 do not end it. */
void ce_asked_ignore_saves(void);

#endif
