/* console.h - where output is shown: a terminal, a pipe or a file, behind a queue.
 *
 * Lines enter the queue whole and leave in order. A slow reader slows the ranks as a pipe would; one that takes nothing
 * for five seconds does not: what the queue then cannot hold is dropped, counted, and the count is said once the reader
 * moves. On a terminal the last state of a progress line stands below all lines and is redrawn in place; of several
 * ranks that show one it is the lowest's. */
#ifndef CL_CONSOLE_H
#define CL_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CL_CONSOLE_STATE_BYTES = 1024 };

typedef enum {
    CL_CONSOLE_WHOLE,  /* ends its line                                       */
    CL_CONSOLE_BROKEN, /* ends it with a '\': the rest follows in a new line  */
    CL_CONSOLE_OPEN    /* leaves it open for more of the same owner           */
} cl_console_end;

typedef struct {
    int fd;
    bool blocks;   /* has no non-blocking description: ask before each write */
    bool terminal; /* that can redraw */
    bool colored;
    bool gone;   /* its reader has closed it */
    char *queue; /* [from, to) waits */
    size_t from, to, capacity;
    int64_t moved; /* when it last took something, or had nothing to take */
    bool stalled;
    int64_t dropped;     /* lines, since it stalled */
    const char *log_dir; /* where they are all the same; NULL: nowhere */
    const void *open_owner;
    const void *state_owner;
    int state_rank;
    int64_t state_shown; /* when its owner last changed it */
    char state[CL_CONSOLE_STATE_BYTES];
    size_t state_length;
    bool state_drawn, state_changed;
} cl_console;

/* `color` is that of --color: auto (on a terminal, unless NO_COLOR is set), always, never; NULL: auto.
 * 0, or CL_CODE_SYSTEM. */
int cl_console_open(cl_console *console, int fd, const char *color, int64_t now);
void cl_console_close(cl_console *console);

/* Whether its reader keeps up, or has been given up. What is printed all the same is kept, until it is given up. */
bool cl_console_has_room(const cl_console *console);
bool cl_console_waits(const cl_console *console);

void cl_console_print(cl_console *console, const void *owner, const char *prefix, const char *text, size_t length,
                      cl_console_end end);
void cl_console_redraw(cl_console *console, const void *owner, int rank, const char *prefix, const char *text,
                       size_t length, int64_t now);
void cl_console_forget(cl_console *console, const void *owner); /* its state, if it is the one that is shown */
void cl_console_flush(cl_console *console, int64_t now);
void cl_console_settle(cl_console *console); /* ends an open line; a drawn state stays as a line */

#endif
