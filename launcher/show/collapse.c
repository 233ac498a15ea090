/* collapse.c - labels lines, and merges identical lines of several ranks into one. */
#include "show/collapse.h"

#include "ground/ranges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT INT64_C(100000000)

enum { LONGEST = 8 << 10 };

void cl_collapse_open(cl_collapse *collapse, cl_console *console, int index, const cl_label_style *style,
                      int rank_count)
{
    *collapse = (cl_collapse){ .console = console, .index = index, .style = style, .rank_count = rank_count };
}

static cl_label label_of(const cl_speaker *speaker, int which)
{
    return (cl_label){ .host = speaker->host,
                       .rank = speaker->rank_word,
                       .local_rank = speaker->local_word,
                       .node = speaker->node_word,
                       .which = which };
}

static void show(cl_collapse *collapse, const cl_label *label, const void *owner, const char *text, size_t length,
                 cl_console_end end)
{
    if (collapse->style->json) {
        size_t bytes = 0;
        char *line = cl_label_json(label, text, length, end != CL_CONSOLE_WHOLE, &bytes);
        if (line)
            cl_console_print(collapse->console, owner, "", line, bytes, CL_CONSOLE_WHOLE);
        free(line);
        return;
    }
    char prefix[CL_LABEL_BYTES];
    cl_label_print(collapse->style, label, collapse->console->colored, prefix);
    cl_console_print(collapse->console, owner, prefix, text, length, end);
}

static void show_same(cl_collapse *collapse, const cl_same *line)
{
    char list[CL_RANGES_BYTES + 2] = "[", text[LONGEST + 48];
    cl_label label = label_of(line->first, line->which);
    int length = (int)line->length;
    memcpy(text, line->text, line->length);
    if (line->count > 1) {
        cl_ranges_print(line->ranks, collapse->rank_count, list + 1);
        label.rank = strcat(list, "]");
        label.local_rank = "*";
        label.host = line->several_hosts ? "*" : label.host;
        label.node = line->several_nodes ? "*" : label.node;
        length += sprintf(text + length, "  (x%d identical)", line->count);
    }
    show(collapse, &label, collapse, text, (size_t)length, CL_CONSOLE_WHOLE);
}

static void show_first(cl_collapse *collapse)
{
    cl_same *line = &collapse->lines[collapse->first++ % CL_COLLAPSE_LINES];
    show_same(collapse, line);
    free(line->text);
    free(line->ranks);
}

/* Shows the waiting lines whose numbers are below `number`. A caller that is about to show a line of a rank first calls
 * this function with the rank's cl_speaker.last, so that the rank's waiting lines are shown before its new line. */
static void show_until(cl_collapse *collapse, uint64_t number)
{
    while (collapse->first < number)
        show_first(collapse);
}

static void join(cl_same *line, const cl_speaker *speaker)
{
    line->ranks[speaker->rank] = true;
    line->several_hosts |= strcmp(line->first->host, speaker->host) != 0;
    line->several_nodes |= line->first->node != speaker->node;
    line->count++;
}

/* Returns 1 plus the number of the first waiting line that has this text and comes after the rank's last waiting line;
 * 0: there is none. */
static uint64_t find(const cl_collapse *collapse, const cl_speaker *speaker, int which, const char *text, size_t length)
{
    uint64_t behind = speaker->last[collapse->index];
    for (uint64_t i = behind > collapse->first ? behind : collapse->first; i < collapse->next; i++) {
        const cl_same *line = &collapse->lines[i % CL_COLLAPSE_LINES];
        if (line->which == which && line->length == length && memcmp(line->text, text, length) == 0)
            return i + 1;
    }
    return 0;
}

/* Adds a waiting line. Returns 1 plus the number of the line, or 0 if memory is short. */
static uint64_t add(cl_collapse *collapse, const cl_speaker *speaker, int which, const char *text, size_t length,
                    int64_t now)
{
    if (collapse->next - collapse->first == CL_COLLAPSE_LINES)
        show_first(collapse);
    cl_same line = { .text = malloc(length + 1),
                     .length = length,
                     .which = which,
                     .first = speaker,
                     .ranks = calloc((size_t)collapse->rank_count, sizeof(bool)),
                     .due = now + WAIT };
    if (!line.text || !line.ranks) {
        free(line.text);
        free(line.ranks);
        return 0;
    }
    memcpy(line.text, text, length);
    collapse->lines[collapse->next++ % CL_COLLAPSE_LINES] = line;
    return collapse->next;
}

/* Lets the line wait, or merges it with a waiting line. Returns false if memory is short. */
static bool wait_for_others(cl_collapse *collapse, cl_speaker *speaker, int which, const char *text, size_t length,
                            int64_t now)
{
    uint64_t behind = find(collapse, speaker, which, text, length);
    if (!behind)
        behind = add(collapse, speaker, which, text, length, now);
    if (!behind)
        return false;
    join(&collapse->lines[(behind - 1) % CL_COLLAPSE_LINES], speaker);
    speaker->last[collapse->index] = behind;
    while (collapse->first < collapse->next &&
           collapse->lines[collapse->first % CL_COLLAPSE_LINES].count == collapse->rank_count)
        show_first(collapse);
    return true;
}

void cl_collapse_print(cl_collapse *collapse, cl_speaker *speaker, int which, const void *owner, const char *text,
                       size_t length, cl_console_end end, int64_t now)
{
    bool may_wait = collapse->rank_count > 1 && end == CL_CONSOLE_WHOLE && length <= LONGEST &&
                    collapse->console->open_owner != owner;
    collapse->printed = now;
    if (which == 1 && end == CL_CONSOLE_WHOLE &&
        cl_sentences_repeats(&collapse->sentences, speaker->rank, &speaker->in_sentence, text, length))
        return;
    if (may_wait && wait_for_others(collapse, speaker, which, text, length, now)) {
        cl_console_forget(collapse->console, owner);
        return;
    }
    cl_label label = label_of(speaker, which);
    show_until(collapse, speaker->last[collapse->index]);
    show(collapse, &label, owner, text, length, end);
}

void cl_collapse_redraw(cl_collapse *collapse, cl_speaker *speaker, int which, const void *owner, const char *text,
                        size_t length, int64_t now)
{
    char prefix[CL_LABEL_BYTES];
    cl_label label = label_of(speaker, which);
    show_until(collapse, speaker->last[collapse->index]);
    cl_label_print(collapse->style, &label, false, prefix);
    cl_console_redraw(collapse->console, owner, speaker->rank, prefix, text, length, now);
}

void cl_collapse_tick(cl_collapse *collapse, int64_t now)
{
    while (collapse->first < collapse->next && collapse->lines[collapse->first % CL_COLLAPSE_LINES].due <= now)
        show_first(collapse);
}

int64_t cl_collapse_due(const cl_collapse *collapse)
{
    return collapse->first < collapse->next ? collapse->lines[collapse->first % CL_COLLAPSE_LINES].due : INT64_MAX;
}

void cl_collapse_close(cl_collapse *collapse)
{
    cl_collapse_tick(collapse, INT64_MAX);
    cl_sentences_free(&collapse->sentences);
}
