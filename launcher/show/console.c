/* console.c - a queue of output in front of a terminal, a pipe or a file. */
#include "show/console.h"

#include "base/plural.h"
#include "base/terminal.h"
#include "ground/codes.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FIRST_BYTES = 64 << 10,
    /* If the queue is longer than this number of bytes, cl_console_has_room returns false. The ranks then print only as
     * fast as the bytes are written. */
    ROOM_BYTES = 1 << 20,
    QUEUE_BYTES = 4 << 20, /* bytes that the queue keeps for a blocked reader that may read again later */
    NOTICE_BYTES = 256,
    SURE_BYTES = 4096, /* number of bytes that a pipe accepts without blocking if poll reports that it is writable */
    STALL_SECONDS = 5,
    STATE_SECONDS = 10 /* after so many seconds without a change, a higher rank may replace the progress line */
};

static bool wants_color(const cl_console *console, const char *color)
{
    const char *none = getenv("NO_COLOR");
    if (color && strcmp(color, "auto") != 0)
        return strcmp(color, "always") == 0;
    return console->terminal && !(none && *none);
}

/* Pipes and devices are opened again, because O_NONBLOCK belongs to the open file description, which other processes
 * share. */
int cl_console_open(cl_console *console, int fd, const char *color, int64_t now)
{
    struct stat file;
    char path[32];
    *console = (cl_console){ .fd = fd, .moved = now, .queue = malloc(FIRST_BYTES), .capacity = FIRST_BYTES };
    if (!console->queue)
        return cl_codes_fail(CL_CODE_SYSTEM, "no memory for output");
    console->terminal = ce_terminal_is(fd);
    console->colored = wants_color(console, color);
    if (fstat(fd, &file) < 0 || S_ISREG(file.st_mode))
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int reopened = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    console->blocks = reopened < 0;
    console->fd = reopened < 0 ? fd : reopened;
    return 0;
}

bool cl_console_has_room(const cl_console *console)
{
    return console->gone || console->stalled || console->to - console->from < ROOM_BYTES;
}

bool cl_console_waits(const cl_console *console)
{
    return !console->gone && (console->to > console->from || console->state_changed);
}

/* Makes room for `count` bytes at the end of the queue. Returns false if the reader counts as blocked and the queue is
 * full, or if memory is short. */
static bool make_room(cl_console *console, size_t count)
{
    size_t waiting = console->to - console->from;
    if (console->stalled && waiting + count > QUEUE_BYTES)
        return false;
    if (console->to + count <= console->capacity)
        return true;
    memmove(console->queue, console->queue + console->from, waiting);
    console->from = 0;
    console->to = waiting;
    size_t capacity = console->capacity;
    /* the capacity is doubled, so that the bytes need not be moved for each line */
    while (waiting + count > capacity / 2)
        capacity *= 2;
    char *larger = capacity > console->capacity ? realloc(console->queue, capacity) : console->queue;
    if (!larger)
        return false;
    console->queue = larger;
    console->capacity = capacity;
    return true;
}

/* Appends bytes to the queue. The caller must have called make_room. */
static void push(cl_console *console, const char *bytes, size_t count)
{
    memcpy(console->queue + console->to, bytes, count);
    console->to += count;
}

static void push_text(cl_console *console, const char *text)
{
    push(console, text, strlen(text));
}

static void say_dropped(cl_console *console)
{
    char notice[NOTICE_BYTES];
    int used = snprintf(notice, sizeof notice,
                        "cspeed: %ld line%s not shown here, because the output was not read fast enough",
                        console->dropped, ce_plural(console->dropped));
    if (console->log_dir && *console->log_dir)
        used += snprintf(notice + used, sizeof notice - (size_t)used, "; all are in %.150s", console->log_dir);
    snprintf(notice + used, sizeof notice - (size_t)used, "\n");
    push_text(console, notice);
    console->dropped = 0;
}

/* Prepares the console for text of `owner`: removes the progress line from the terminal, and ends an unfinished line of
 * another owner. Returns true if the text of `owner` will continue an unfinished line of the same owner. */
static bool make_way(cl_console *console, const void *owner)
{
    if (console->state_drawn) {
        push_text(console, "\r\033[K");
        console->state_drawn = false;
        console->state_changed = true;
    }
    if (console->state_owner == owner)
        console->state_length = 0;
    bool open = console->open_owner && console->open_owner == owner;
    if (console->open_owner && !open)
        push_text(console, "\\\n");
    console->open_owner = NULL;
    return open;
}

void cl_console_print(cl_console *console, const void *owner, const char *prefix, const char *text, size_t length,
                      cl_console_end end)
{
    if (console->gone)
        return;
    if (!make_room(console, length + strlen(prefix) + 2 * NOTICE_BYTES)) {
        console->dropped += end == CL_CONSOLE_WHOLE;
        return;
    }
    bool open = make_way(console, owner);
    if (console->dropped)
        say_dropped(console);
    if (!open)
        push_text(console, prefix);
    push(console, text, length);
    push_text(console, end == CL_CONSOLE_WHOLE ? "\n" : end == CL_CONSOLE_BROKEN ? "\\\n" : "");
    console->open_owner = end == CL_CONSOLE_OPEN ? owner : NULL;
}

static const char clear[] = "\033[K"; /* escape sequence that clears the rest of the row */
enum { CLEAR_BYTES = sizeof clear - 1 };

void cl_console_redraw(cl_console *console, const void *owner, int rank, const char *prefix, const char *text,
                       size_t length, int64_t now)
{
    if (console->state_length && rank > console->state_rank &&
        now - console->state_shown < STATE_SECONDS * INT64_C(1000000000))
        return;
    /* If the text ends with the escape sequence that clears the rest of the row, this sequence is dropped: draw_state
     * cuts the text to the width of the row, and then writes the sequence itself. */
    if (length >= CLEAR_BYTES && memcmp(text + length - CLEAR_BYTES, clear, CLEAR_BYTES) == 0)
        length -= CLEAR_BYTES;
    console->state_rank = rank;
    console->state_shown = now;
    int written = snprintf(console->state, sizeof console->state, "%s%.*s", prefix, (int)length, text);
    console->state_length = (size_t)written < sizeof console->state ? (size_t)written : sizeof console->state - 1;
    console->state_owner = owner;
    console->state_changed = true;
}

void cl_console_forget(cl_console *console, const void *owner)
{
    if (console->state_owner != owner || !console->state_length)
        return;
    console->state_length = 0;
    console->state_changed = true;
}

/* Returns the length in bytes of the escape sequence at the beginning of `text` (from ESC [ to the next letter); 0:
 * there is none. */
static size_t escape_bytes(const char *text, size_t length)
{
    size_t bytes = 2;
    if (length < 2 || text[0] != '\033' || text[1] != '[')
        return 0;
    while (bytes < length && (text[bytes] < '@' || text[bytes] > '~'))
        bytes++;
    return bytes < length ? bytes + 1 : bytes;
}

/* Returns how many bytes of the progress line fit into one row. An escape sequence takes no column. */
static size_t state_fitting(const cl_console *console)
{
    struct winsize size;
    size_t length = console->state_length, characters = 0;
    if (ioctl(console->fd, TIOCGWINSZ, &size) < 0 || size.ws_col < 2)
        return length;
    for (size_t i = 0, escape; i < length; i += escape ? escape : 1) {
        escape = escape_bytes(console->state + i, length - i);
        /* counts the first byte of each UTF-8 character only */
        characters += !escape && (console->state[i] & 0xc0) != 0x80;
        if (characters == size.ws_col)
            return i;
    }
    return length;
}

static void draw_state(cl_console *console)
{
    size_t fitting = state_fitting(console);
    if (console->state_length || console->state_drawn) {
        push_text(console, "\r");
        push(console, console->state, fitting);
        if (fitting < console->state_length && memchr(console->state, '\033', fitting))
            /* switches colours off, because the escape sequence that does so may have been cut */
            push_text(console, "\033[0m");
        push_text(console, clear);
    }
    console->state_drawn = console->state_length > 0;
    console->state_changed = false;
}

/* Writes bytes of the queue. Returns the number of bytes written; 0 if the descriptor accepts none now. */
static size_t write_some(cl_console *console)
{
    size_t count = console->to - console->from;
    if (console->blocks) {
        struct pollfd ready = { .fd = console->fd, .events = POLLOUT };
        if (poll(&ready, 1, 0) != 1)
            return 0;
        count = count < SURE_BYTES ? count : SURE_BYTES;
    }
    ssize_t taken = write(console->fd, console->queue + console->from, count);
    if (taken >= 0)
        return (size_t)taken;
    console->gone = errno != EAGAIN && errno != EINTR;
    return 0;
}

void cl_console_flush(cl_console *console, int64_t now)
{
    if (console->state_changed && console->to == console->from &&
        make_room(console, sizeof console->state + NOTICE_BYTES))
        draw_state(console);
    for (size_t taken; !console->gone && console->to > console->from && (taken = write_some(console)) > 0;) {
        console->from += taken;
        console->moved = now;
    }
    if (console->to == console->from) {
        console->from = console->to = 0;
        console->moved = now;
    }
    console->stalled = now - console->moved > STALL_SECONDS * INT64_C(1000000000);
}

void cl_console_settle(cl_console *console)
{
    /* make_room must find room for the message about dropped lines even if the reader is blocked */
    console->stalled = false;
    if (console->gone || !make_room(console, NOTICE_BYTES + 1))
        return;
    if (console->state_drawn || console->open_owner)
        push_text(console, "\n");
    if (console->dropped)
        say_dropped(console);
    console->state_drawn = console->state_changed = false;
    console->state_length = 0;
    console->open_owner = NULL;
}

void cl_console_close(cl_console *console)
{
    free(console->queue);
    console->queue = NULL;
}
