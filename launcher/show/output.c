/* output.c - the output of all ranks, from the bytes that were received to the consoles. */
#include "show/output.h"

#include "ground/codes.h"
#include "ground/ranges.h"
#include "ground/spellings.h"

#include "base/clock.h"
#include "base/terminal.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- which ranks are shown: --console ---- */

/* Returns 1 if a list such as "0,4-7" contains the rank, 0 if it does not, and -1 if the text is not such a list. */
static int list_has(const char *list, long rank)
{
    int found = 0;
    for (; *list; list += *list == ',') {
        long from, to;
        if (!cl_ranges_read(&list, &from, &to) || (*list && (*list != ',' || !list[1])) || to < from)
            return -1;
        found |= rank >= from && rank <= to;
    }
    return found;
}

static bool is_word(const char *text, const char *a, const char *b)
{
    return !text || strcmp(text, a) == 0 || strcmp(text, b) == 0;
}

static bool shows(const cl_options *options, int rank)
{
    const char *which = options->console;
    if (is_word(which, "all", "dedup"))
        return true;
    return strcmp(which, "first") == 0 ? rank == 0 : strcmp(which, "none") != 0 && list_has(which, rank) > 0;
}

/* torchrun writes a stream of --redirects to its file only, unless --tee names the stream too. */
static bool is_redirected(const cl_plan *plan, int node, int rank, int which)
{
    int local = rank - plan->nodes[node].first_rank;
    unsigned streams =
        cl_spellings_streams_of(plan->options->redirects, local) & ~cl_spellings_streams_of(plan->options->tee, local);
    return streams >> which & 1;
}

static int check_console(const cl_plan *plan)
{
    const char *which = plan->options->console;
    int shown = 0;
    if (is_word(which, "all", "dedup") || is_word(which, "first", "none"))
        return 0;
    for (int rank = 0; rank < plan->rank_count; rank++)
        shown += shows(plan->options, rank);
    if (!*which || list_has(which, 0) < 0)
        return cl_codes_fail(CL_CODE_USAGE, "--console: all, dedup, first, none, or ranks like 0,4-7; not \"%s\"",
                             which);
    return shown ? 0
                 : cl_codes_fail(CL_CODE_USAGE, "--console %s: the job has none of these ranks, only 0 to %d", which,
                                 plan->rank_count - 1);
}

static bool collapses(const cl_output *output, const cl_console *console)
{
    const cl_options *options = output->plan->options;
    if (options->log_json)
        return false;
    return options->console ? strcmp(options->console, "dedup") == 0 : console->terminal;
}

/* ---- opening ---- */

static int open_consoles(cl_output *output, int64_t now)
{
    struct stat files[2];
    bool same = fstat(1, &files[0]) == 0 && fstat(2, &files[1]) == 0 && files[0].st_dev == files[1].st_dev &&
                files[0].st_ino == files[1].st_ino;
    for (int i = 0; i < (same ? 1 : 2); i++) {
        int code = cl_console_open(&output->consoles[i], i + 1, output->plan->options->color, now);
        if (code)
            return code;
        output->console_count++;
    }
    output->console_of[0] = &output->consoles[0];
    output->console_of[1] = &output->consoles[same ? 0 : 1];
    output->collapses = calloc((size_t)output->console_count, sizeof *output->collapses);
    return output->collapses ? 0 : cl_codes_fail(CL_CODE_SYSTEM, "no memory for output");
}

static void name_speaker(cl_speaker *speaker, const cl_plan *plan, int node, int rank)
{
    const cl_plan_node *place = &plan->nodes[node];
    *speaker = (cl_speaker){ .host = place->host->name, .rank = rank, .node = node };
    snprintf(speaker->rank_word, sizeof speaker->rank_word, "%d", rank);
    snprintf(speaker->local_word, sizeof speaker->local_word, "%d", rank - place->first_rank);
    snprintf(speaker->node_word, sizeof speaker->node_word, "%d", node);
}

static int open_streams(cl_output *output)
{
    const cl_plan *plan = output->plan;
    output->speakers = calloc((size_t)plan->rank_count + 1, sizeof *output->speakers);
    output->streams = calloc((size_t)plan->rank_count * 2 + 1, sizeof *output->streams);
    if (!output->speakers || !output->streams)
        return cl_codes_fail(CL_CODE_SYSTEM, "no memory for the output of %d ranks", plan->rank_count);
    output->stream_count = 2 * plan->rank_count;
    for (int i = 0; i < output->console_count; i++) {
        cl_console *console = &output->consoles[i];
        cl_collapse_open(&output->collapses[i], console, i, &output->style,
                         collapses(output, console) ? plan->rank_count : 1);
    }
    for (int node = 0; node < plan->node_count; node++)
        for (int i = 0; i < plan->nodes[node].host->slot_count; i++)
            name_speaker(&output->speakers[plan->nodes[node].first_rank + i], plan, node,
                         plan->nodes[node].first_rank + i);
    for (int i = 0; i < output->stream_count; i++) {
        ptrdiff_t console = output->console_of[i % 2] - output->consoles;
        bool shown = shows(plan->options, i / 2) && !is_redirected(plan, output->speakers[i / 2].node, i / 2, i % 2);
        cl_stream_open(&output->streams[i], shown ? &output->collapses[console] : NULL, &output->speakers[i / 2],
                       i % 2);
    }
    return 0;
}

static void close_streams(cl_output *output)
{
    for (int i = 0; i < output->stream_count; i++)
        cl_stream_close(&output->streams[i]);
    for (int i = 0; output->collapses && i < output->console_count; i++)
        cl_collapse_close(&output->collapses[i]);
    free(output->streams);
    free(output->speakers);
    output->streams = NULL;
    output->speakers = NULL;
    output->stream_count = 0;
}

int cl_output_open(cl_output *output, const cl_plan *plan, int64_t now)
{
    *output = (cl_output){ .plan = plan };
    int code = cl_label_choose(&output->style, plan);
    if (code == 0)
        code = check_console(plan);
    if (code == 0)
        code = open_consoles(output, now);
    return code ? code : open_streams(output);
}

int cl_output_rank(cl_output *output)
{
    cl_output_finish(output);
    close_streams(output);
    output->style.several_hosts = output->plan->node_count > 1;
    return open_streams(output);
}

void cl_output_close(cl_output *output)
{
    close_streams(output);
    for (int i = 0; i < output->console_count; i++)
        cl_console_close(&output->consoles[i]);
    free(output->collapses);
    output->collapses = NULL;
    output->console_count = 0;
}

/* ---- lines ---- */

void cl_output_feed(cl_output *output, int rank, int which, const char *bytes, size_t count, int64_t now)
{
    cl_stream_feed(&output->streams[2 * rank + which], bytes, count, now);
}

bool cl_output_has_room(const cl_output *output)
{
    bool has_room = true;
    for (int i = 0; i < output->console_count; i++)
        has_room &= cl_console_has_room(&output->consoles[i]);
    return has_room;
}

/* Returns true for a line that says that a job has failed. */
static bool is_alarm(const char *line, size_t length)
{
    return (strncmp(line, "cspeed: job ", 12) == 0 && memmem(line, length, " failed: ", 9)) ||
           (strncmp(line, "====", 4) == 0 && memmem(line, length, " FAILED (", 9));
}

static void say_line(cl_output *output, const char *line, size_t length)
{
    cl_console *console = output->console_of[1];
    size_t bytes;
    char *object = output->style.json ? cl_label_json(NULL, line, length, false, &bytes) : NULL;
    if (object) {
        cl_console_print(console, output, "", object, bytes, CL_CONSOLE_WHOLE);
    } else if (console->colored && is_alarm(line, length)) {
        cl_console_print(console, output, "\033[31m", line, length, CL_CONSOLE_OPEN);
        cl_console_print(console, output, "", "\033[0m", 4, CL_CONSOLE_WHOLE);
    } else {
        cl_console_print(console, output, "", line, length, CL_CONSOLE_WHOLE);
    }
    free(object);
}

void cl_output_say(cl_output *output, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    for (int i = 0; length >= 0 && i < output->console_count; i++)
        cl_collapse_tick(&output->collapses[i], INT64_MAX);
    for (char *end, *line = text; length >= 0 && line; line = *end && end[1] ? end + 1 : NULL) {
        end = line + strcspn(line, "\n");
        say_line(output, line, (size_t)(end - line));
    }
    free(length < 0 ? NULL : text);
}

int cl_output_poll(const cl_output *output, struct pollfd *polled)
{
    int count = 0;
    for (int i = 0; i < output->console_count; i++)
        if (cl_console_waits(&output->consoles[i]))
            polled[count++] = (struct pollfd){ .fd = output->consoles[i].fd, .events = POLLOUT };
    return count;
}

void cl_output_serve(cl_output *output, int64_t now)
{
    for (int i = 0; i < output->stream_count; i++)
        cl_stream_tick(&output->streams[i], now);
    for (int i = 0; i < output->console_count; i++) {
        output->consoles[i].log_dir = output->log_dir;
        cl_collapse_tick(&output->collapses[i], now);
        cl_console_flush(&output->consoles[i], now);
    }
}

int64_t cl_output_due(const cl_output *output)
{
    int64_t due = INT64_MAX;
    for (int i = 0; i < output->stream_count + output->console_count; i++) {
        int64_t next = i < output->stream_count ? cl_stream_due(&output->streams[i])
                                                : cl_collapse_due(&output->collapses[i - output->stream_count]);
        due = next < due ? next : due;
    }
    return due;
}

bool cl_output_waits(const cl_output *output)
{
    bool waits = false;
    for (int i = 0; i < output->console_count; i++)
        waits |= cl_console_waits(&output->consoles[i]);
    return waits;
}

void cl_output_drain(cl_output *output, int signal_fd)
{
    bool asked = false;
    while (!asked && cl_output_waits(output)) {
        struct pollfd polled[4] = { { .fd = signal_fd, .events = POLLIN } };
        int count = 1 + cl_output_poll(output, polled + 1);
        poll(polled, (nfds_t)count, 1000);
        cl_output_serve(output, ce_clock_now());
        struct signalfd_siginfo received;
        while (read(signal_fd, &received, sizeof received) == (ssize_t)sizeof received)
            asked |= received.ssi_signo != SIGCHLD;
    }
}

void cl_output_finish(cl_output *output)
{
    for (int i = 0; i < output->stream_count; i++)
        cl_stream_end(&output->streams[i], 0);
    for (int i = 0; i < output->console_count; i++) {
        cl_collapse_tick(&output->collapses[i], INT64_MAX);
        cl_console_settle(&output->consoles[i]);
    }
}

int cl_output_columns(const cl_output *output, char streams[CL_OUTPUT_STREAMS])
{
    int columns = 0;
    *streams = '\0';
    for (int i = 1; i >= 0; i--)
        if (output->console_of[i]->terminal) {
            columns = ce_terminal_columns(i + 1);
            snprintf(streams, CL_OUTPUT_STREAMS, "%s", i == 1 ? "2" : *streams ? "12" : "1");
        }
    return columns;
}
