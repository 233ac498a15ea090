/* stream.c - divides the stdout or stderr of one rank into lines and progress lines (states). */
#include "show/stream.h"

#include <stdlib.h>
#include <string.h>

#define SECOND INT64_C(1000000000)
#define PARTIAL_WAIT (SECOND / 5)
#define PATIENCE (5 * SECOND)

enum { FIRST_BYTES = 256 };

void cl_stream_open(cl_text_stream *stream, cl_collapse *collapse, cl_speaker *speaker, int which)
{
    *stream = (cl_text_stream){ .collapse = collapse, .speaker = speaker, .which = which, .show_at = INT64_MAX };
}

void cl_stream_close(cl_text_stream *stream)
{
    free(stream->line);
    stream->line = NULL;
}

static bool redraws_in_place(const cl_text_stream *stream)
{
    return stream->collapse->console->terminal && !stream->collapse->style->json;
}

static void end_line(cl_text_stream *stream, cl_console_end end, int64_t now)
{
    cl_collapse_print(stream->collapse, stream->speaker, stream->which, stream, stream->line ? stream->line : "",
                      stream->length, end, now);
    stream->length = 0;
    stream->show_at = INT64_MAX;
    if (end == CL_CONSOLE_WHOLE)
        stream->returned = stream->redraws = false;
}

/* Shows the unfinished text as a progress line. */
static void show_state(cl_text_stream *stream, int64_t now)
{
    stream->show_at = INT64_MAX;
    if (stream->length)
        cl_collapse_redraw(stream->collapse, stream->speaker, stream->which, stream, stream->line, stream->length, now);
}

static void show_unfinished(cl_text_stream *stream, int64_t now)
{
    bool json = stream->collapse->style->json;
    if (redraws_in_place(stream))
        show_state(stream, now);
    else if (json && !memchr(stream->line, '\r', stream->length))
        stream->show_at = INT64_MAX; /* the object waits for the end of the line */
    else
        end_line(stream, json ? CL_CONSOLE_BROKEN : CL_CONSOLE_OPEN, now);
}

static void take_end(cl_text_stream *stream, char end, int64_t now)
{
    if (end == '\n') {
        end_line(stream, CL_CONSOLE_WHOLE, now);
        return;
    }
    show_state(stream, now);
    stream->returned = stream->redraws = true;
}

static bool make_room(cl_text_stream *stream)
{
    if (stream->length < stream->capacity)
        return true;
    size_t capacity = stream->capacity ? 4 * stream->capacity : FIRST_BYTES;
    char *larger = realloc(stream->line, capacity);
    if (!larger)
        return false;
    stream->line = larger;
    stream->capacity = capacity;
    return true;
}

static void take_text(cl_text_stream *stream, const char *text, size_t count, int64_t now)
{
    if (stream->returned)
        stream->length = 0;
    stream->returned = false;
    for (size_t part; count && make_room(stream); text += part, count -= part) {
        part = count < stream->capacity - stream->length ? count : stream->capacity - stream->length;
        memcpy(stream->line + stream->length, text, part);
        stream->length += part;
        if (stream->length == CL_STREAM_LINE_BYTES)
            end_line(stream, CL_CONSOLE_BROKEN, now);
    }
    if (stream->length && stream->show_at == INT64_MAX) {
        stream->show_at = now + (stream->redraws ? 0 : PARTIAL_WAIT);
        stream->patience = now + PATIENCE;
    }
}

void cl_stream_feed(cl_text_stream *stream, const char *bytes, size_t count, int64_t now)
{
    while (count && stream->collapse) {
        size_t run = 0;
        while (run < count && bytes[run] != '\n' && (bytes[run] != '\r' || !redraws_in_place(stream)))
            run++;
        if (run)
            take_text(stream, bytes, run, now);
        if (run < count)
            take_end(stream, bytes[run++], now);
        bytes += run;
        count -= run;
    }
}

/* Returns true if other ranks print so often that one of their lines would soon interrupt an unfinished line. */
static bool is_busy(const cl_text_stream *stream, int64_t now)
{
    const cl_collapse *collapse = stream->collapse;
    return !redraws_in_place(stream) && now < stream->patience &&
           (cl_console_waits(collapse->console) || now < collapse->printed + PARTIAL_WAIT);
}

void cl_stream_tick(cl_text_stream *stream, int64_t now)
{
    if (stream->show_at <= now && is_busy(stream, now))
        stream->show_at = now + PARTIAL_WAIT / 4;
    else if (stream->show_at <= now)
        show_unfinished(stream, now);
}

int64_t cl_stream_due(const cl_text_stream *stream)
{
    return stream->show_at;
}

void cl_stream_end(cl_text_stream *stream, int64_t now)
{
    if (!stream->collapse)
        return;
    if (stream->length || stream->collapse->console->open_owner == stream)
        end_line(stream, CL_CONSOLE_WHOLE, now);
    stream->show_at = INT64_MAX;
}
