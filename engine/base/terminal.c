/* terminal.c - the terminal that shows a stream: whether a line can be redrawn in place there, and its size. */
#include "base/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool ce_terminal_is(int fd)
{
    const char *kind = getenv("TERM");
    return isatty(fd) && kind && *kind && strcmp(kind, "dumb") != 0;
}

bool ce_terminal_shows(int fd)
{
    const char *shown = getenv("CSPEED_TERMINAL");
    return shown ? strchr(shown, '0' + fd) != NULL : ce_terminal_is(fd);
}

static int size_of(const char *variable, int terminal, int fallback)
{
    const char *given = getenv(variable);
    int number = given ? atoi(given) : 0;
    return number > 1 ? number : terminal > 1 ? terminal : fallback;
}

static struct winsize window_of(int fd)
{
    struct winsize window = { 0 };
    return ioctl(fd, TIOCGWINSZ, &window) == 0 ? window : (struct winsize){ 0 };
}

int ce_terminal_columns(int fd)
{
    return size_of("COLUMNS", window_of(fd).ws_col, 80);
}

int ce_terminal_lines(int fd)
{
    return size_of("LINES", window_of(fd).ws_row, 24);
}
