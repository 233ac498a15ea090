/* collapse.h - labelling lines for a console and, with --console dedup, merging identical lines of several ranks.
 *
 * A line waits up to 100 ms for other ranks to print the same text, or until all of them have. A line is merged with an
 * earlier one only if no other line of its own rank comes after that one, so the lines of each rank keep their order.
 * No line is lost: a line that more than one rank printed ends with "(x8 identical)". Only of the sentences with which
 * ranks end, each is shown once with every --console (show/sentences.h). */
#ifndef CL_COLLAPSE_H
#define CL_COLLAPSE_H

#include "show/console.h"
#include "show/label.h"
#include "show/sentences.h"

enum { CL_COLLAPSE_LINES = 256, CL_COLLAPSE_WORD = 12 };

/* A rank, and the words that label its lines. */
typedef struct {
    const char *host;
    int rank, node;
    char rank_word[CL_COLLAPSE_WORD], local_word[CL_COLLAPSE_WORD], node_word[CL_COLLAPSE_WORD];
    bool in_sentence; /* of show/sentences.h */
    uint64_t last[2]; /* for each console: the number plus 1 of the last waiting line that this rank has printed */
} cl_speaker;

/* A waiting line and the ranks that printed it. */
typedef struct {
    char *text;
    size_t length;
    int which, count;
    const cl_speaker *first;
    bool several_hosts, several_nodes;
    bool *ranks; /* [rank_count]: which ranks have printed the line */
    int64_t due;
} cl_same;

typedef struct {
    cl_console *console;
    const cl_label_style *style;
    int index, rank_count; /* rank_count: number of ranks that may print the same line; 1: no line waits */
    int64_t printed;       /* time when a rank's line last arrived */
    cl_sentences sentences;
    uint64_t first, next; /* lines [first, next) are waiting; each is stored at its number modulo CL_COLLAPSE_LINES */
    cl_same lines[CL_COLLAPSE_LINES];
} cl_collapse;

/* `rank_count`: number of ranks that may print the same line; `index`: number of the console in cl_speaker.last. */
void cl_collapse_open(cl_collapse *collapse, cl_console *console, int index, const cl_label_style *style,
                      int rank_count);
void cl_collapse_close(cl_collapse *collapse); /* shows the lines that wait, and forgets the sentences */

/* Accepts a line, or a part of one (`end`), of a rank. `which`: 0 stdout, 1 stderr; `owner` identifies the stream. */
void cl_collapse_print(cl_collapse *collapse, cl_speaker *speaker, int which, const void *owner, const char *text,
                       size_t length, cl_console_end end, int64_t now);

/* Shows a state of a rank, which a terminal redraws in place. */
void cl_collapse_redraw(cl_collapse *collapse, cl_speaker *speaker, int which, const void *owner, const char *text,
                        size_t length, int64_t now);

void cl_collapse_tick(cl_collapse *collapse, int64_t now); /* shows the lines that are due; INT64_MAX: all of them */
int64_t cl_collapse_due(const cl_collapse *collapse);

#endif
