/* shown.c - consoles of a plan whose output goes to a pipe or a terminal that the test reads. */
#include "shown.h"

#include "suite.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

cl_options shown_options;
static int slots[SHOWN_RANKS] = { 0, 1, 2, 3 };
static cl_host hosts[2] = { { .name = "w0", .slots = slots }, { .name = "w1", .slots = slots } };
static cl_plan_node nodes[2] = { { .host = &hosts[0] }, { .host = &hosts[1] } };
cl_plan shown_plan = { .options = &shown_options, .nodes = nodes };
cl_output shown_output;
/* own_outputs: this program's stdout and stderr; reader: the descriptor from which the consoles' output is read. */
static int own_outputs[2], reader;
char shown_text[SHOWN_BYTES];
int64_t shown_now;

void shown_make_plan(int node_count, int count)
{
    shown_plan.node_count = node_count;
    shown_plan.rank_count = count;
    hosts[0].slot_count = count / node_count;
    hosts[1].slot_count = count / node_count;
    nodes[1].first_rank = hosts[0].slot_count;
}

static void keep_outputs(void)
{
    fflush(NULL);
    own_outputs[0] = dup(1);
    own_outputs[1] = dup(2);
}

static void restore_outputs(void)
{
    dup2(own_outputs[0], 1);
    dup2(own_outputs[1], 2);
    close(own_outputs[0]);
    close(own_outputs[1]);
}

int shown_open(bool terminal)
{
    int ends[2];
    if (terminal) {
        struct winsize size = { .ws_row = 24, .ws_col = 40 };
        ends[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
        ck_assert_int_eq(grantpt(ends[0]) | unlockpt(ends[0]), 0);
        ends[1] = open(ptsname(ends[0]), O_RDWR | O_NOCTTY | O_CLOEXEC);
        struct termios raw;
        tcgetattr(ends[1], &raw);
        cfmakeraw(&raw); /* raw mode: '\n' is not changed */
        tcsetattr(ends[1], TCSANOW, &raw);
        ioctl(ends[1], TIOCSWINSZ, &size);
        setenv("TERM", "xterm", 1);
    } else {
        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    }
    reader = ends[0];
    fcntl(reader, F_SETFL, O_NONBLOCK);
    keep_outputs();
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    shown_now = SHOWN_SECOND;
    int code = cl_output_open(&shown_output, &shown_plan, shown_now);
    restore_outputs(); /* the consoles still write to the pipe or terminal: they have duplicates of the descriptors */
    close(ends[1]);
    return code;
}

const char *shown_since(void)
{
    size_t length = 0;
    ssize_t part;
    for (int i = 0; i < 2; i++) {
        cl_output_serve(&shown_output, shown_now);
        while ((part = read(reader, shown_text + length, SHOWN_BYTES - 1 - length)) > 0)
            length += (size_t)part;
    }
    shown_text[length] = '\0';
    return shown_text;
}

const char *shown_close(void)
{
    cl_output_finish(&shown_output);
    shown_since();
    cl_output_close(&shown_output);
    close(reader);
    return shown_text;
}

void shown_feed(int rank, int which, const char *bytes)
{
    cl_output_feed(&shown_output, rank, which, bytes, strlen(bytes), shown_now);
}

void shown_reset(void)
{
    memset(&shown_options, 0, sizeof shown_options);
    unsetenv("NO_COLOR");
    shown_make_plan(1, SHOWN_RANKS);
}
