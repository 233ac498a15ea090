/* console.h - an output queue in front of a terminal, a pipe or a file.
 *
 * Lines enter the queue whole and are written in order. A slow reader slows the ranks, as a pipe would. A reader that
 * reads nothing for five seconds is treated as blocked and no longer slows them: lines that do not fit into the queue
 * are dropped and counted, and the count is printed when the reader resumes. On a terminal, the last state of a
 * progress line is shown below all other lines and is redrawn in place. If several ranks show a progress line, that of
 * the lowest rank is shown. */
#ifndef CL_CONSOLE_H
#define CL_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CL_CONSOLE_STATE_BYTES = 1024 };

typedef enum {
    CL_CONSOLE_WHOLE,  /* the text ends its line */
    CL_CONSOLE_BROKEN, /* a '\' ends the line; the rest follows in a new line */
    CL_CONSOLE_OPEN    /* the line stays open for more text of the same owner */
} cl_console_end;

typedef struct {
    int fd;
    bool blocks;   /* the descriptor cannot be made non-blocking: poll before each write */
    bool terminal; /* a terminal that can redraw a line */
    bool colored;
    bool gone;   /* the reader has closed it */
    char *queue; /* bytes [from, to) wait */
    size_t from, to, capacity;
    int64_t moved; /* time when the reader last accepted bytes, or when no bytes were waiting */
    bool stalled;
    int64_t dropped;     /* number of lines dropped since it stalled */
    const char *log_dir; /* the folder that contains all lines; NULL: none */
    const void *open_owner;
    const void *state_owner;
    int state_rank;
    int64_t state_shown; /* time when its owner last changed the state */
    char state[CL_CONSOLE_STATE_BYTES];
    size_t state_length;
    bool state_drawn, state_changed;
} cl_console;

/* `color` is the value of --color: auto (colours on a terminal, unless NO_COLOR is set), always or never; NULL: auto.
 * Returns 0, or CL_CODE_SYSTEM. */
int cl_console_open(cl_console *console, int fd, const char *color, int64_t now);
void cl_console_close(cl_console *console);

/* Returns true if the queue is short, or if the reader is treated as blocked. Lines that are printed while this is
 * false are still queued, until the reader is treated as blocked. */
bool cl_console_has_room(const cl_console *console);
bool cl_console_waits(const cl_console *console);

/* Appends a line, or a part of one (`end`), to the queue. A new line begins with the prefix. */
void cl_console_print(cl_console *console, const void *owner, const char *prefix, const char *text, size_t length,
                      cl_console_end end);

/* Replaces the state, unless that of a lower rank is shown. */
void cl_console_redraw(cl_console *console, const void *owner, int rank, const char *prefix, const char *text,
                       size_t length, int64_t now);
/* removes the owner's state, if it is the one that is shown */
void cl_console_forget(cl_console *console, const void *owner);

/* Writes as much of the queue as the descriptor accepts, without blocking. */
void cl_console_flush(cl_console *console, int64_t now);
void cl_console_settle(cl_console *console); /* ends an open line; a state that is shown becomes a line */

#endif
