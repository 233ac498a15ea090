/* console.h - a queue of output in front of a terminal, a pipe or a file.
 *
 * Lines enter the queue whole and are written in order. A reader that reads slowly slows the ranks, as a pipe would. A
 * reader that reads nothing for five seconds counts as blocked and no longer slows the ranks: lines that do not fit
 * into the queue are dropped and counted, and the count is printed when the reader reads again. A terminal shows the
 * latest progress line (a state) below all other lines and redraws it in place. If several ranks have a progress line,
 * that of the lowest rank is shown. */
#ifndef CL_CONSOLE_H
#define CL_CONSOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CL_CONSOLE_STATE_BYTES = 1024 };

typedef enum {
    CL_CONSOLE_WHOLE,  /* the line ends after the text */
    CL_CONSOLE_BROKEN, /* the line ends with a '\', and the rest of the text follows in a new line */
    CL_CONSOLE_OPEN    /* the line stays open, and more text of the same owner may follow */
} cl_console_end;

typedef struct {
    int fd;
    bool blocks;   /* true: the descriptor cannot be made non-blocking, so poll is called before each write */
    bool terminal; /* true: the descriptor is a terminal that can redraw a line */
    bool colored;
    bool gone;   /* true: the reader has closed the pipe or the terminal */
    char *queue; /* the bytes [from, to) of the queue are not written yet */
    size_t from, to, capacity;
    int64_t moved; /* the latest time when the reader accepted bytes or the queue was empty */
    bool stalled;
    int64_t dropped;     /* number of lines dropped since the reader has counted as blocked */
    const char *log_dir; /* the folder of the log files with all lines; NULL: there are no log files */
    const void *open_owner;
    const void *state_owner;
    int state_rank;
    int64_t state_shown; /* time when the progress line last changed */
    char state[CL_CONSOLE_STATE_BYTES];
    size_t state_length;
    bool state_drawn, state_changed;
} cl_console;

/* `color` is the value of --color: auto (colours on a terminal, unless NO_COLOR is set), always or never; NULL means
 * auto. Returns 0, or CL_CODE_SYSTEM. */
int cl_console_open(cl_console *console, int fd, const char *color, int64_t now);
void cl_console_close(cl_console *console);

/* Returns true if the queue is short, or if the reader counts as blocked. If it returns false, lines that are printed
 * are still added to the queue. */
bool cl_console_has_room(const cl_console *console);
bool cl_console_waits(const cl_console *console);

/* Appends a line, or a part of a line, to the queue; `end` says which. A new line begins with the prefix. */
void cl_console_print(cl_console *console, const void *owner, const char *prefix, const char *text, size_t length,
                      cl_console_end end);

/* Shows `text` as the progress line. Does nothing if the present progress line belongs to a lower rank and changed less
 * than 10 seconds ago. */
void cl_console_redraw(cl_console *console, const void *owner, int rank, const char *prefix, const char *text,
                       size_t length, int64_t now);
/* Removes the progress line if it belongs to `owner`. */
void cl_console_forget(cl_console *console, const void *owner);

/* Writes as much of the queue as the descriptor accepts, without blocking. */
void cl_console_flush(cl_console *console, int64_t now);
/* ends an unfinished line; a progress line that is shown becomes an ordinary line */
void cl_console_settle(cl_console *console);

#endif
