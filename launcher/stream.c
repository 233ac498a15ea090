/* stream.c - one output of one rank: bytes into lines and states. */
#include "stream.h"

#include <string.h>

#define SECOND INT64_C(1000000000)
#define PARTIAL_WAIT (SECOND / 5)

void cs_stream_open(cs_stream *stream, cs_console *console)
{
    stream->console = console;
    stream->pipe = stream->log = -1;
    stream->show_at = stream->state_at = INT64_MAX;
}

static void end_line(cs_stream *stream, cs_console_end end)
{
    if (!stream->line_printed)
        cs_console_print(stream->console, stream, stream->prefix, stream->line, stream->length, end);
    stream->length       = 0;
    stream->line_printed = false;
    stream->show_at      = INT64_MAX;
    if (end == CS_CONSOLE_WHOLE) {
        stream->returned = stream->redraws = false;
        stream->state_at = INT64_MAX; /* the line has taken its place */
    }
}

/* The text so far is a state. */
static void show_state(cs_stream *stream, int64_t now)
{
    stream->show_at = INT64_MAX;
    if (stream->length == 0)
        return;
    if (stream->console->terminal) {
        cs_console_redraw(stream->console, stream, stream->prefix, stream->line, stream->length);
        return;
    }
    stream->state_length = stream->length < sizeof stream->state ? stream->length : sizeof stream->state;
    memcpy(stream->state, stream->line, stream->state_length);
    if (stream->state_at == INT64_MAX)
        stream->state_at = stream->state_printed ? stream->state_printed + SECOND : now;
}

static void print_state(cs_stream *stream, int64_t now)
{
    cs_console_print(stream->console, stream, stream->prefix, stream->state, stream->state_length, CS_CONSOLE_WHOLE);
    stream->state_at      = INT64_MAX;
    stream->state_printed = now;
    stream->line_printed  = stream->length <= sizeof stream->state && stream->show_at == INT64_MAX;
}

static void show_unfinished(cs_stream *stream, int64_t now)
{
    if (stream->console->terminal || stream->redraws)
        show_state(stream, now);
    else
        end_line(stream, CS_CONSOLE_OPEN);
}

static void take_end(cs_stream *stream, char end, int64_t now)
{
    if (end == '\n') {
        end_line(stream, CS_CONSOLE_WHOLE);
        return;
    }
    if (stream->console->open_owner == stream) /* what was shown is a line by now */
        end_line(stream, CS_CONSOLE_WHOLE);
    show_state(stream, now);
    stream->returned = stream->redraws = true;
}

static void take_text(cs_stream *stream, const char *text, size_t count, int64_t now)
{
    if (stream->returned)
        stream->length = 0;
    stream->returned = stream->line_printed = false;
    for (size_t part; count; text += part, count -= part) {
        part = count < CS_STREAM_LINE_BYTES - stream->length ? count : CS_STREAM_LINE_BYTES - stream->length;
        memcpy(stream->line + stream->length, text, part);
        stream->length += part;
        if (stream->length == CS_STREAM_LINE_BYTES)
            end_line(stream, CS_CONSOLE_BROKEN);
    }
    if (stream->length && stream->show_at == INT64_MAX)
        stream->show_at = now + (stream->redraws ? 0 : PARTIAL_WAIT);
}

static void keep_tail(cs_stream *stream, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        stream->tail[stream->tail_count++ % CS_STREAM_TAIL_BYTES] = bytes[i];
}

void cs_stream_feed(cs_stream *stream, const char *bytes, size_t count, int64_t now)
{
    keep_tail(stream, bytes, count);
    while (count) {
        size_t run = 0;
        while (run < count && bytes[run] != '\n' && bytes[run] != '\r')
            run++;
        if (run)
            take_text(stream, bytes, run, now);
        if (run < count)
            take_end(stream, bytes[run++], now);
        bytes += run;
        count -= run;
    }
}

void cs_stream_tick(cs_stream *stream, int64_t now)
{
    if (stream->show_at <= now)
        show_unfinished(stream, now);
    if (stream->state_at <= now)
        print_state(stream, now);
}

void cs_stream_end(cs_stream *stream, int64_t now)
{
    if (stream->length || stream->console->open_owner == stream)
        end_line(stream, CS_CONSOLE_WHOLE);
    if (stream->state_at != INT64_MAX)
        print_state(stream, now);
    stream->show_at = INT64_MAX;
}

size_t cs_stream_tail(const cs_stream *stream, int most, char text[CS_STREAM_TAIL_BYTES + 1])
{
    size_t length = stream->tail_count < CS_STREAM_TAIL_BYTES ? (size_t)stream->tail_count : CS_STREAM_TAIL_BYTES;
    for (size_t i = 0; i < length; i++)
        text[i] = stream->tail[(stream->tail_count - length + i) % CS_STREAM_TAIL_BYTES];
    while (length && text[length - 1] == '\n')
        length--;
    size_t from = length;
    for (int lines = 0; from > 0; from--)
        if (text[from - 1] == '\n' && ++lines == most)
            break;
    memmove(text, text + from, length - from);
    text[length - from] = '\0';
    return length - from;
}
