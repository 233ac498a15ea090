/* collapse.c - lines on their way to a console. */
#include "show/collapse.h"

#include "plan/ranges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT INT64_C(100000000)

enum { LONGEST = 8 << 10 };

void cs_collapse_open(cs_collapse *collapse, cs_console *console, int index, const cs_label_style *style,
                      int rank_count)
{
    *collapse = (cs_collapse){ .console = console, .index = index, .style = style, .rank_count = rank_count };
}

static cs_label label_of(const cs_speaker *speaker, int which)
{
    return (cs_label){ .host       = speaker->host,
                       .rank       = speaker->rank_word,
                       .local_rank = speaker->local_word,
                       .node       = speaker->node_word,
                       .which      = which };
}

static void show(cs_collapse *collapse, const cs_label *label, const void *owner, const char *text, size_t length,
                 cs_console_end end)
{
    if (collapse->style->json) {
        size_t bytes = 0;
        char  *line  = cs_label_json(label, text, length, end != CS_CONSOLE_WHOLE, &bytes);
        if (line)
            cs_console_print(collapse->console, owner, "", line, bytes, CS_CONSOLE_WHOLE);
        free(line);
        return;
    }
    char prefix[CS_LABEL_BYTES];
    cs_label_print(collapse->style, label, collapse->console->colored, prefix);
    cs_console_print(collapse->console, owner, prefix, text, length, end);
}

static void show_same(cs_collapse *collapse, const cs_same *line)
{
    char     list[CS_RANGES_BYTES + 2] = "[", text[LONGEST + 48];
    cs_label label                     = label_of(line->first, line->which);
    int      length                    = (int)line->length;
    memcpy(text, line->text, line->length);
    if (line->count > 1) {
        cs_ranges_print(line->ranks, collapse->rank_count, list + 1);
        label.rank       = strcat(list, "]");
        label.local_rank = "*";
        label.host       = line->several_hosts ? "*" : label.host;
        label.node       = line->several_nodes ? "*" : label.node;
        length += sprintf(text + length, "  (x%d identical)", line->count);
    }
    show(collapse, &label, collapse, text, (size_t)length, CS_CONSOLE_WHOLE);
}

static void show_first(cs_collapse *collapse)
{
    cs_same *line = &collapse->lines[collapse->first++ % CS_COLLAPSE_LINES];
    show_same(collapse, line);
    free(line->text);
    free(line->ranks);
}

/* What this rank said before stands before what it says now. */
static void show_until(cs_collapse *collapse, uint64_t number)
{
    while (collapse->first < number)
        show_first(collapse);
}

static void join(cs_same *line, const cs_speaker *speaker)
{
    line->ranks[speaker->rank] = true;
    line->several_hosts |= strcmp(line->first->host, speaker->host) != 0;
    line->several_nodes |= line->first->node != speaker->node;
    line->count++;
}

/* One behind the first waiting line that it may join; 0: there is none. */
static uint64_t find(const cs_collapse *collapse, const cs_speaker *speaker, int which, const char *text, size_t length)
{
    uint64_t behind = speaker->last[collapse->index];
    for (uint64_t i = behind > collapse->first ? behind : collapse->first; i < collapse->next; i++) {
        const cs_same *line = &collapse->lines[i % CS_COLLAPSE_LINES];
        if (line->which == which && line->length == length && memcmp(line->text, text, length) == 0)
            return i + 1;
    }
    return 0;
}

/* Returns one behind its number; 0 without memory. */
static uint64_t add(cs_collapse *collapse, const cs_speaker *speaker, int which, const char *text, size_t length,
                    int64_t now)
{
    if (collapse->next - collapse->first == CS_COLLAPSE_LINES)
        show_first(collapse);
    cs_same line = { .text   = malloc(length + 1),
                     .length = length,
                     .which  = which,
                     .first  = speaker,
                     .ranks  = calloc((size_t)collapse->rank_count, sizeof(bool)),
                     .due    = now + WAIT };
    if (!line.text || !line.ranks) {
        free(line.text);
        free(line.ranks);
        return 0;
    }
    memcpy(line.text, text, length);
    collapse->lines[collapse->next++ % CS_COLLAPSE_LINES] = line;
    return collapse->next;
}

/* Whether the line waits now. */
static bool wait_for_others(cs_collapse *collapse, cs_speaker *speaker, int which, const char *text, size_t length,
                            int64_t now)
{
    uint64_t behind = find(collapse, speaker, which, text, length);
    if (!behind)
        behind = add(collapse, speaker, which, text, length, now);
    if (!behind)
        return false;
    join(&collapse->lines[(behind - 1) % CS_COLLAPSE_LINES], speaker);
    speaker->last[collapse->index] = behind;
    while (collapse->first < collapse->next &&
           collapse->lines[collapse->first % CS_COLLAPSE_LINES].count == collapse->rank_count)
        show_first(collapse);
    return true;
}

void cs_collapse_print(cs_collapse *collapse, cs_speaker *speaker, int which, const void *owner, const char *text,
                       size_t length, cs_console_end end, int64_t now)
{
    bool may_wait = collapse->rank_count > 1 && end == CS_CONSOLE_WHOLE && length <= LONGEST &&
                    collapse->console->open_owner != owner;
    collapse->printed = now;
    if (may_wait && wait_for_others(collapse, speaker, which, text, length, now)) {
        cs_console_forget(collapse->console, owner);
        return;
    }
    cs_label label = label_of(speaker, which);
    show_until(collapse, speaker->last[collapse->index]);
    show(collapse, &label, owner, text, length, end);
}

void cs_collapse_redraw(cs_collapse *collapse, cs_speaker *speaker, int which, const void *owner, const char *text,
                        size_t length, int64_t now)
{
    char     prefix[CS_LABEL_BYTES];
    cs_label label = label_of(speaker, which);
    show_until(collapse, speaker->last[collapse->index]);
    cs_label_print(collapse->style, &label, false, prefix);
    cs_console_redraw(collapse->console, owner, speaker->rank, prefix, text, length, now);
}

void cs_collapse_tick(cs_collapse *collapse, int64_t now)
{
    while (collapse->first < collapse->next && collapse->lines[collapse->first % CS_COLLAPSE_LINES].due <= now)
        show_first(collapse);
}

int64_t cs_collapse_due(const cs_collapse *collapse)
{
    return collapse->first < collapse->next ? collapse->lines[collapse->first % CS_COLLAPSE_LINES].due : INT64_MAX;
}

void cs_collapse_close(cs_collapse *collapse)
{
    cs_collapse_tick(collapse, INT64_MAX);
}
