/* allocation.c - reads Slurm's lists of nodes ("a[1-3,05]") and its lists of counts for each node ("2(x3),1"). */
#include "plan/allocation.h"

#include "ground/codes.h"
#include "ground/ranges.h"

#include "base/must.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 256, MAX_NODES = 65536, MAX_NUMBER = 1000000000 };

typedef struct {
    void (*each)(const char *name, void *argument);
    void *argument;
    int count;
} expansion;

static bool expand_name(expansion *names, const char *head, const char *rest, const char *end);

/* Expands one item in brackets, "3" or "01-03". `head` is the text before the brackets, [rest, end) the text after
 * them. */
static bool expand_span(expansion *names, const char *head, const char *span, size_t length, const char *rest,
                        const char *end)
{
    char name[NAME_BYTES];
    const char *after = span;
    long from, to;
    int width = (int)strspn(span, "0123456789");
    if (!cl_ranges_read(&after, &from, &to))
        return false;
    if (after != span + length || to < from || to - from >= MAX_NODES || to > MAX_NUMBER)
        return false;
    for (long number = from; number <= to; number++) {
        int size = snprintf(name, sizeof name, "%s%0*ld", head, width, number);
        if (size >= NAME_BYTES || !expand_name(names, name, rest, end))
            return false;
    }
    return true;
}

/* Expands one name of the list. `head` has been expanded already; [rest, end) may still contain brackets. */
static bool expand_name(expansion *names, const char *head, const char *rest, const char *end)
{
    char name[NAME_BYTES];
    const char *bracket = memchr(rest, '[', (size_t)(end - rest));
    int size = snprintf(name, sizeof name, "%s%.*s", head, (int)((bracket ? bracket : end) - rest), rest);
    if (size >= NAME_BYTES || names->count >= MAX_NODES)
        return false;
    if (!bracket) {
        if (strchr(name, ']'))
            return false;
        if (*name)
            names->each(name, names->argument);
        names->count++;
        return *name != '\0';
    }
    const char *close = memchr(bracket, ']', (size_t)(end - bracket));
    for (const char *span = bracket + 1; close && span <= close; span++) {
        size_t length = strcspn(span, ",]");
        if (!expand_span(names, name, span, length, close + 1, end))
            return false;
        span += length;
    }
    return close != NULL;
}

bool cl_allocation_expand(const char *list, void (*each)(const char *name, void *argument), void *argument)
{
    expansion names = { each, argument, 0 };
    int depth = 0;
    const char *from = list;
    for (const char *place = list;; place++) {
        depth += (*place == '[') - (*place == ']');
        if (*place && (*place != ',' || depth > 0))
            continue;
        if (!expand_name(&names, "", from, place))
            return false;
        from = place + 1;
        if (!*place)
            return true;
    }
}

/* Returns the count of node `index` in a list such as "2(x3),1"; 0: there is no such node. */
static int count_of(const char *counts, int index)
{
    for (const char *place = counts ? counts : ""; isdigit((unsigned char)*place);) {
        char *after;
        long count = strtol(place, &after, 10), times = 1;
        if (strncmp(after, "(x", 2) == 0)
            times = strtol(after + 2, &after, 10), after += *after == ')';
        if (index < times)
            return count > 0 && count <= MAX_NODES ? (int)count : 0;
        index -= (int)(times > 0 ? times : 1);
        place = after + (*after == ',');
    }
    return 0;
}

/* Returns the number of GPUs of a node from a text such as "4" or "a100:4". */
static int gpus_of_node(void)
{
    const char *text = getenv("SLURM_GPUS_ON_NODE");
    if (!text)
        text = getenv("SLURM_GPUS_PER_NODE");
    const char *colon = text ? strrchr(text, ':') : NULL;
    int count = text ? atoi(colon ? colon + 1 : text) : 0;
    return count > 0 && count < MAX_NODES ? count : 0;
}

static int slots_of(int index, const char *ranks)
{
    int slots = gpus_of_node(), wanted = ranks ? atoi(ranks) : 0;
    if (slots)
        return slots;
    slots = count_of(getenv("SLURM_TASKS_PER_NODE"), index);
    if (wanted > slots && wanted <= count_of(getenv("SLURM_JOB_CPUS_PER_NODE"), index))
        slots = wanted;
    return slots ? slots : 1;
}

typedef struct {
    char *list; /* the list of hosts, in the format that cl_hosts_parse reads */
    size_t length;
    FILE *out;
    const char *ranks;
    int count;
} listing;

static void list_host(const char *name, void *argument)
{
    listing *here = argument;
    fprintf(here->out, "%s slots=%d\n", name, slots_of(here->count++, here->ranks));
}

bool cl_allocation_here(void)
{
    const char *list = getenv("SLURM_JOB_NODELIST");
    return list && *list;
}

int cl_allocation_hosts(cl_hosts *hosts, const char *ranks)
{
    const char *list = getenv("SLURM_JOB_NODELIST");
    listing here = { .ranks = ranks };
    here.out = ce_must_stream(&here.list, &here.length);
    bool good = cl_allocation_expand(list, list_host, &here);
    ce_must_finish(here.out);
    int code = good ? cl_hosts_parse(hosts, "SLURM_JOB_NODELIST", here.list, here.length)
                    : cl_codes_fail(CL_CODE_FILE, "SLURM_JOB_NODELIST: \"%s\" is not a list of nodes", list);
    free(here.list);
    return code;
}
