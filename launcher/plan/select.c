/* select.c - the filters --include and --exclude (cl_select_hosts of hosts.h).
 *
 * A filter marks slots. The remaining hosts keep their order, which does not depend on the order in the filter. */
#include "ground/codes.h"
#include "base/faults.h"
#include "plan/hostline.h"
#include "plan/hosts.h"
#include "ground/ranges.h"

#include "base/must.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODE_BYTES = 4096, MAX_SLOTS = 65536 };

typedef struct {
    const char *flag, *text; /* flag: "--include" or "--exclude"; text: the value of the flag */
    cl_hosts *hosts;
    bool **marks; /* marks[host][slot]: true if the slot remains */
    bool mark;    /* the mark that a slot gets if the filter names it */
    ce_faults faults;
} slot_filter;

#define FAULT(filter, ...) ce_faults_add(&(filter)->faults, (filter)->flag, 0, 0, "", __VA_ARGS__)

/* Writes "slots 0-3" or "slot 5" of a host, for a message. */
static const char *known_slots(const cl_host *host, char text[128])
{
    int used = 0, from = 0;
    for (int i = 0; i < host->slot_count && used < 100; i++) {
        if (i + 1 < host->slot_count && host->slots[i + 1] == host->slots[i] + 1)
            continue;
        used += snprintf(text + used, 128 - (size_t)used, used ? ",%d" : "%d", host->slots[from]);
        if (i > from)
            used += snprintf(text + used, 128 - (size_t)used, "-%d", host->slots[i]);
        from = i + 1;
    }
    return text;
}

static void mark_slot(slot_filter *filter, int index, long slot)
{
    const cl_host *host = &filter->hosts->list[index];
    char text[128];
    for (int i = 0; i < host->slot_count; i++)
        if (host->slots[i] == slot) {
            filter->marks[index][i] = filter->mark;
            return;
        }
    FAULT(filter, "%s has no slot %ld; it has %s", host->name, slot, known_slots(host, text));
}

/* Marks the slots of one host that a list such as "0,2-3" names; the list may contain blanks. */
static void mark_slots(slot_filter *filter, int index, const char *name, const char *slots)
{
    const char *place = slots;
    for (;; place++) {
        long from, to;
        place += strspn(place, " \t");
        const char *end = place;
        if (!cl_ranges_read(&end, &from, &to))
            break;
        if (to < from || to > MAX_SLOTS)
            break;
        for (long slot = from; slot <= to && filter->faults.count < 16; slot++)
            mark_slot(filter, index, slot);
        place = end + strspn(end, " \t");
        if (!*place)
            return;
        if (*place != ',')
            break;
    }
    FAULT(filter, "%s:%s: slots are numbers and ranges, such as 0,2-3, not \"%s\"", name, slots, place);
}

static bool matches(const char *pattern, const char *name)
{
    if (strpbrk(pattern, "*?["))
        return fnmatch(pattern, name, FNM_CASEFOLD) == 0;
    return cl_hostline_same(pattern, name);
}

static void unknown(slot_filter *filter, const char *name)
{
    CE_FREED const char **names = ce_must_alloc(((size_t)filter->hosts->count + 1) * sizeof *names);
    for (int i = 0; i < filter->hosts->count; i++)
        names[i] = filter->hosts->list[i].name;
    const char *nearest = cs_nearest(name, names);
    FAULT(filter, "%s is not among the hosts of %s%s%s", *name ? name : "\"\"", filter->hosts->origin,
          nearest ? "; the nearest is " : "", nearest ? nearest : "");
}

/* Applies one item of the filter, NAME or NAME:SLOTS. IPv6 addresses are in brackets. */
static void apply_node(slot_filter *filter, char *node)
{
    bool bracket = *node == '[' && strchr(node, ']') && memchr(node, ':', (size_t)(strchr(node, ']') - node));
    char *colon = strchr(bracket ? strchr(node, ']') : node, ':'), *name = node;
    bool found = false;
    if (colon)
        *colon = '\0';
    if (bracket) {
        *strchr(node, ']') = '\0';
        name++;
    }
    for (int i = 0; i < filter->hosts->count; i++) {
        const cl_host *host = &filter->hosts->list[i];
        if (!matches(name, host->name))
            continue;
        found = true;
        for (int slot = 0; !colon && slot < host->slot_count; slot++)
            filter->marks[i][slot] = filter->mark;
        if (colon)
            mark_slots(filter, i, name, colon + 1);
    }
    if (!found)
        unknown(filter, name);
}

static void apply(slot_filter *filter)
{
    char node[NODE_BYTES];
    for (const char *place = filter->text;; place++) {
        size_t blank = strspn(place, " \t"), length = strcspn(place, "@");
        size_t size = length - (blank < length ? blank : length);
        while (size && strchr(" \t", place[blank + size - 1]))
            size--;
        if (size >= sizeof node)
            FAULT(filter, "a part of it is longer than %d bytes", NODE_BYTES - 1);
        else {
            snprintf(node, sizeof node, "%.*s", (int)size, place + blank);
            apply_node(filter, node);
        }
        place += length;
        if (!*place)
            return;
    }
}

/* Removes the slots whose mark is false, and the hosts without slots. */
static void keep_marked(cl_hosts *hosts, bool **marks)
{
    int left = 0;
    for (int i = 0; i < hosts->count; i++) {
        cl_host *host = &hosts->list[i];
        int slots = 0;
        for (int slot = 0; slot < host->slot_count; slot++)
            if (marks[i][slot])
                host->slots[slots++] = host->slots[slot];
        host->slot_count = slots;
        if (slots)
            hosts->list[left++] = *host;
        else
            cl_hostline_free(host);
    }
    hosts->count = left;
}

static int select_marked(cl_hosts *hosts, const char *include, const char *exclude, bool **marks)
{
    const struct {
        const char *flag, *text;
        bool mark;
    } steps[] = { { "--include", include, true }, { "--exclude", exclude, false } };
    for (int i = 0; i < 2; i++) {
        slot_filter filter = {
            .flag = steps[i].flag, .text = steps[i].text, .hosts = hosts, .marks = marks, .mark = steps[i].mark
        };
        if (filter.text)
            apply(&filter);
        int code = ce_faults_verdict(&filter.faults, CL_CODE_FILE);
        if (code)
            return code;
    }
    keep_marked(hosts, marks);
    if (hosts->count == 0)
        return cl_codes_fail(CL_CODE_FILE, "--include %s, --exclude %s: no slot of %s is selected",
                             include ? include : "(all)", exclude ? exclude : "(none)", hosts->origin);
    return 0;
}

int cl_select_hosts(cl_hosts *hosts, const char *include, const char *exclude)
{
    int count = hosts->count;
    CE_FREED bool **marks = ce_must_alloc((size_t)count * sizeof *marks);
    for (int i = 0; i < count; i++) {
        marks[i] = ce_must_alloc((size_t)hosts->list[i].slot_count);
        memset(marks[i], !include, (size_t)hosts->list[i].slot_count);
    }
    int code = select_marked(hosts, include, exclude, marks);
    for (int i = 0; i < count; i++)
        free(marks[i]);
    return code;
}
