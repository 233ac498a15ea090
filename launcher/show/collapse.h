/* collapse.h - labels lines for a console, and merges identical lines of several ranks into one (--console dedup).
 *
 * A line waits up to 100 ms for other ranks to print the same text. If all ranks have printed the text, the line is
 * shown without further delay. A line that several ranks printed ends with the number of these ranks: "(x8 identical)".
 *
 * The lines of each rank keep their order. For this, a new line of a rank is merged only with a waiting line that comes
 * after all other waiting lines of that rank.
 *
 * No line is lost, except a repeated error message: if several ranks end with the same error message (a sentence,
 * show/sentences.h), every value of --console shows the message once, without a number. */
#ifndef CL_COLLAPSE_H
#define CL_COLLAPSE_H

#include "show/console.h"
#include "show/label.h"
#include "show/sentences.h"

enum { CL_COLLAPSE_LINES = 256, CL_COLLAPSE_WORD = 12 };

/* A rank that prints. `rank_word`, `local_word` and `node_word` are its rank, local rank and node number as text, for
 * the labels of its lines. */
typedef struct {
    const char *host;
    int rank, node;
    char rank_word[CL_COLLAPSE_WORD], local_word[CL_COLLAPSE_WORD], node_word[CL_COLLAPSE_WORD];
    bool in_sentence; /* true: the rank has begun to print its final error message (show/sentences.h) */
    /* for each console: 1 plus the number of this rank's last waiting line; 0: the rank has no such line */
    uint64_t last[2];
} cl_speaker;

/* A waiting line and the ranks that printed it. */
typedef struct {
    char *text;
    size_t length;
    int which, count;
    const cl_speaker *first;
    bool several_hosts, several_nodes;
    bool *ranks; /* [rank_count]: true for each rank that has printed the line */
    int64_t due;
} cl_same;

typedef struct {
    cl_console *console;
    const cl_label_style *style;
    int index, rank_count; /* rank_count: number of ranks that may print the same line; 1: no line waits */
    int64_t printed;       /* time when a line, or a part of a line, last arrived from any rank */
    cl_sentences sentences;
    /* the lines with numbers in [first, next) are waiting; a line is stored at its number modulo CL_COLLAPSE_LINES */
    uint64_t first, next;
    cl_same lines[CL_COLLAPSE_LINES];
} cl_collapse;

/* Identical lines of `rank_count` ranks are merged; if it is 1, no line waits. `index` is the index of the console in
 * the array cl_speaker.last. */
void cl_collapse_open(cl_collapse *collapse, cl_console *console, int index, const cl_label_style *style,
                      int rank_count);
void cl_collapse_close(cl_collapse *collapse); /* shows the waiting lines, and frees the memory of `sentences` */

/* Accepts a whole line of a rank, or a part of a line, as `end` says. `which` is 0 for stdout and 1 for stderr. `owner`
 * identifies the stream. */
void cl_collapse_print(cl_collapse *collapse, cl_speaker *speaker, int which, const void *owner, const char *text,
                       size_t length, cl_console_end end, int64_t now);

/* Shows a progress line of a rank (a state), which a terminal redraws in place. */
void cl_collapse_redraw(cl_collapse *collapse, cl_speaker *speaker, int which, const void *owner, const char *text,
                        size_t length, int64_t now);

/* shows the lines whose waiting time is over; `now` INT64_MAX: shows all lines */
void cl_collapse_tick(cl_collapse *collapse, int64_t now);
int64_t cl_collapse_due(const cl_collapse *collapse);

#endif
