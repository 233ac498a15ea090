/* output.c - the pumps from the ranks' pipes to consoles and files. */
#include "output.h"

#include "codes.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { READ_BYTES = 16 << 10, PREFIX_BYTES = CS_STREAM_PREFIX_BYTES };

/* Replaces {rank}, {local_rank}, {node}, {host} and {stream}. */
static void expand_prefix(const char *text, int rank, int which, char prefix[PREFIX_BYTES])
{
    char host[65] = "localhost", number[16];
    gethostname(host, sizeof host - 1);
    snprintf(number, sizeof number, "%d", rank);
    const struct {
        const char *name, *value;
    } fields[]  = { { "{rank}", number }, { "{local_rank}", number }, { "{node}", "0" }, { "{host}", host },
                    { "{stream}", which ? "err" : "out" } };
    size_t used = 0;
    while (*text && used < PREFIX_BYTES - 1) {
        size_t i = 0;
        while (i < 5 && strncmp(text, fields[i].name, strlen(fields[i].name)) != 0)
            i++;
        if (i < 5) {
            used += (size_t)snprintf(prefix + used, PREFIX_BYTES - used, "%s", fields[i].value);
            text += strlen(fields[i].name);
        } else {
            prefix[used++] = *text++;
        }
    }
    prefix[used < PREFIX_BYTES ? used : PREFIX_BYTES - 1] = '\0';
}

static void choose_prefix(const cs_options *options, int rank, int which, char prefix[PREFIX_BYTES])
{
    if (options->no_prefix || (!options->prefix && rank == 0))
        prefix[0] = '\0';
    else
        expand_prefix(options->prefix ? options->prefix : "{rank}| ", rank, which, prefix);
}

/* mkdir -p */
static bool make_folders(char *path)
{
    for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        mkdir(path, 0777);
    }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

static int open_logs(cs_output *output, const char *log_dir)
{
    char path[PATH_MAX + 32];
    if (!log_dir)
        return 0;
    if (snprintf(output->log_dir, sizeof output->log_dir, "%s/attempt_0", log_dir) >= (int)sizeof output->log_dir)
        return cs_codes_fail(CS_CODE_LOG, "--log_dir: the path is too long");
    if (!make_folders(output->log_dir))
        return cs_codes_fail(CS_CODE_LOG, "--log_dir: %s cannot be made: %s", output->log_dir, strerror(errno));
    for (int i = 0; i < output->stream_count; i++) {
        snprintf(path, sizeof path, "%s/%d.%s", output->log_dir, i / 2, i % 2 ? "err" : "out");
        output->streams[i].log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (output->streams[i].log < 0)
            return cs_codes_fail(CS_CODE_LOG, "--log_dir: %s cannot be written: %s", path, strerror(errno));
    }
    return 0;
}

static int open_consoles(cs_output *output, int64_t now)
{
    struct stat files[2];
    bool        same = fstat(1, &files[0]) == 0 && fstat(2, &files[1]) == 0 && files[0].st_dev == files[1].st_dev &&
                files[0].st_ino == files[1].st_ino;
    for (int i = 0; i < 2; i++) {
        output->console_of[i] = same ? &output->consoles[0] : &output->consoles[i];
        if (i == output->console_count && !(same && i)) {
            int code = cs_console_open(&output->consoles[i], i + 1, now);
            if (code)
                return code;
            output->console_count++;
        }
    }
    return 0;
}

int cs_output_open(cs_output *output, const cs_job *job, int64_t now)
{
    *output              = (cs_output){ .stream_count = 2 * job->rank_count };
    output->streams      = calloc((size_t)output->stream_count, sizeof *output->streams);
    if (!output->streams)
        return cs_codes_fail(CS_CODE_SYSTEM, "no memory for the output of %d ranks", job->rank_count);
    int code = open_consoles(output, now);
    for (int i = 0; i < output->stream_count; i++) {
        cs_stream_open(&output->streams[i], output->console_of[i % 2]);
        choose_prefix(job->options, i / 2, i % 2, output->streams[i].prefix);
    }
    return code ? code : open_logs(output, job->options->log_dir);
}

void cs_output_close(cs_output *output)
{
    for (int i = 0; output->streams && i < output->stream_count; i++) {
        if (output->streams[i].pipe >= 0)
            close(output->streams[i].pipe);
        if (output->streams[i].log >= 0)
            close(output->streams[i].log);
    }
    for (int i = 0; i < output->console_count; i++)
        cs_console_close(&output->consoles[i]);
    free(output->streams);
    output->streams = NULL;
}

void cs_output_attach(cs_output *output, int rank, const int pipes[2])
{
    output->streams[2 * rank].pipe     = pipes[0];
    output->streams[2 * rank + 1].pipe = pipes[1];
}

void cs_output_say(cs_output *output, const char *format, ...)
{
    char    text[4096];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > (int)sizeof text - 1)
        length = (int)sizeof text - 1;
    cs_console_print(output->console_of[1], output, "", text, (size_t)length, CS_CONSOLE_WHOLE);
}

static void write_log(cs_output *output, cs_stream *stream, const char *bytes, size_t count)
{
    while (count && stream->log >= 0) {
        ssize_t taken = write(stream->log, bytes, count);
        if (taken < 0 && errno != EINTR) {
            cs_output_say(output, "cspeed: a file in %s takes no more: %s", output->log_dir, strerror(errno));
            close(stream->log);
            stream->log = -1;
        }
        bytes += taken > 0 ? taken : 0;
        count -= taken > 0 ? (size_t)taken : 0;
    }
}

static void close_stream(cs_stream *stream, int64_t now)
{
    cs_stream_end(stream, now);
    if (stream->pipe >= 0)
        close(stream->pipe);
    stream->pipe = -1;
}

static bool pump(cs_output *output, cs_stream *stream, int64_t now)
{
    char bytes[READ_BYTES];
    if (stream->pipe < 0 || !cs_console_has_room(stream->console))
        return false;
    ssize_t count = read(stream->pipe, bytes, sizeof bytes);
    if (count > 0) {
        write_log(output, stream, bytes, (size_t)count);
        cs_stream_feed(stream, bytes, (size_t)count, now);
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
        close_stream(stream, now);
    }
    return count > 0;
}

bool cs_output_serve(cs_output *output, int64_t now)
{
    bool any = false;
    for (int i = 0; i < output->stream_count; i++) {
        cs_stream *stream = &output->streams[i];
        any |= pump(output, stream, now);
        cs_stream_tick(stream, now);
    }
    for (int i = 0; i < output->console_count; i++)
        cs_console_flush(&output->consoles[i], now);
    return any;
}

int cs_output_poll(const cs_output *output, struct pollfd *polled)
{
    int count = 0;
    for (int i = 0; i < output->stream_count; i++) {
        const cs_stream *stream = &output->streams[i];
        if (stream->pipe >= 0 && cs_console_has_room(stream->console))
            polled[count++] = (struct pollfd){ .fd = stream->pipe, .events = POLLIN };
    }
    for (int i = 0; i < output->console_count; i++)
        if (cs_console_waits(&output->consoles[i]))
            polled[count++] = (struct pollfd){ .fd = output->consoles[i].fd, .events = POLLOUT };
    return count;
}

int64_t cs_output_due(const cs_output *output)
{
    int64_t due = INT64_MAX;
    for (int i = 0; i < output->stream_count; i++) {
        const cs_stream *stream = &output->streams[i];
        due = stream->show_at < due ? stream->show_at : due;
        due = stream->state_at < due ? stream->state_at : due;
    }
    return due;
}

bool cs_output_waits(const cs_output *output)
{
    bool waits = false;
    for (int i = 0; i < output->console_count; i++)
        waits |= cs_console_waits(&output->consoles[i]);
    return waits;
}

void cs_output_finish(cs_output *output)
{
    for (int i = 0; i < output->stream_count; i++)
        close_stream(&output->streams[i], 0);
    for (int i = 0; i < output->console_count; i++)
        cs_console_settle(&output->consoles[i]);
}

int cs_output_say_tail(cs_output *output, int rank, const char *prefix, int most)
{
    char text[CS_STREAM_TAIL_BYTES + 1];
    int  count = 0;
    cs_stream_tail(&output->streams[2 * rank + 1], most, text);
    for (char *end, *line = text; *line; line = end + (*end == '\n'), count++) {
        end = line + strcspn(line, "\n");
        cs_output_say(output, "%s%.*s", prefix, (int)(end - line), line);
    }
    return count;
}
