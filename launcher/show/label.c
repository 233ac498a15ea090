/* label.c - writes the prefix of an output line. */
#include "show/label.h"

#include "ground/codes.h"
#include "show/quote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { FIELD_COUNT = 6, TIME_BYTES = 32 };

static const char *const fields[FIELD_COUNT] = { "{host}", "{rank}", "{local_rank}", "{node}", "{stream}", "{time}" };

static int find_field(const char *text)
{
    for (int i = 0; i < FIELD_COUNT; i++)
        if (strncmp(text, fields[i], strlen(fields[i])) == 0)
            return i;
    return -1;
}

int cl_label_choose(cl_label_style *style, const cl_plan *plan)
{
    const cl_options *options = plan->options;
    *style = (cl_label_style){ .template = options->no_prefix ? "" : options->prefix,
                               .several_hosts = plan->node_count > 1,
                               .timestamps = options->timestamps,
                               .json = options->log_json };
    const char *text = style->template ? style->template : "";
    if (strlen(text) >= CL_LABEL_TEMPLATE_BYTES)
        return cl_codes_fail(CL_CODE_USAGE, "--prefix: at most %d bytes, not %zu", CL_LABEL_TEMPLATE_BYTES - 1,
                             strlen(text));
    for (; (text = strchr(text, '{')); text++) {
        size_t name = strspn(text + 1, "abcdefghijklmnopqrstuvwxyz_");
        if (name && text[1 + name] == '}' && find_field(text) < 0)
            return cl_codes_fail(CL_CODE_USAGE,
                                 "--prefix: %.*s is not known; {host}, {rank}, {local_rank}, {node}, {stream} and "
                                 "{time} are",
                                 (int)name + 2, text);
    }
    return 0;
}

static void print_time(char text[TIME_BYTES])
{
    struct timespec now;
    struct tm day;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &day);
    size_t used = strftime(text, TIME_BYTES, "%H:%M:%S", &day);
    snprintf(text + used, TIME_BYTES - used, ".%03ld", now.tv_nsec / 1000000);
}

static void append(char text[CL_LABEL_BYTES], const char *part)
{
    size_t used = strlen(text);
    snprintf(text + used, CL_LABEL_BYTES - used, "%s", part);
}

static void expand(const char *template, const cl_label *label, char text[CL_LABEL_BYTES])
{
    char moment[TIME_BYTES] = "";
    const char *values[FIELD_COUNT] = {
        label->host, label->rank, label->local_rank, label->node, label->which ? "err" : "out", moment
    };
    if (strstr(template, "{time}"))
        print_time(moment);
    while (*template) {
        int field = find_field(template);
        append(text, field < 0 ? (char[]){ *template, '\0' } : values[field]);
        template += field < 0 ? 1 : strlen(fields[field]);
    }
}

void cl_label_print(const cl_label_style *style, const cl_label *label, bool dimmed, char text[CL_LABEL_BYTES])
{
    bool bare = !style->several_hosts && strcmp(label->rank, "0") == 0;
    const char *template = style->template        ? style->template
                           : style->several_hosts ? "{host}:{rank}| "
                           : bare                 ? ""
                                                  : "{rank}| ";
    text[0] = '\0';
    if (!*template && !style->timestamps)
        return;
    if (dimmed)
        append(text, "\033[2m");
    if (style->timestamps)
        expand("{time} ", label, text);
    expand(template, label, text);
    if (dimmed)
        append(text, "\033[0m");
}

char *cl_label_json(const cl_label *label, const char *text, size_t length, bool broken, size_t *bytes)
{
    char *line = NULL, moment[TIME_BYTES];
    struct timespec now;
    struct tm day;
    FILE *out = open_memstream(&line, bytes);
    if (!out)
        return NULL;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &day);
    strftime(moment, sizeof moment, "%Y-%m-%dT%H:%M:%S", &day);
    fprintf(out, "{\"time\": \"%s.%03ldZ\", \"host\": ", moment, now.tv_nsec / 1000000);
    if (label)
        cl_quote(out, label->host);
    else
        fputs("null", out);
    fprintf(out, ", \"rank\": %s, \"stream\": \"%s\", \"text\": ", label ? label->rank : "null",
            !label         ? "launcher"
            : label->which ? "stderr"
                           : "stdout");
    cl_quote_bytes(out, text, length);
    fputs(broken ? ", \"broken\": true}" : "}", out);
    return fclose(out) == 0 ? line : (free(line), NULL);
}
