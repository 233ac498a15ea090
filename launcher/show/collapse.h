/* collapse.h - lines on their way to a console: labelled, and with --console dedup the same line of several ranks once.
 *
 * A line waits up to 100 ms for others to say the same, or until all have. It joins an earlier one only where no line
 * of its own rank stands behind that, so the lines of a rank keep their order. Nothing is lost: a line that more than
 * one rank said ends with "(x8 identical)". */
#ifndef CS_LAUNCHER_COLLAPSE_H
#define CS_LAUNCHER_COLLAPSE_H

#include "show/console.h"
#include "show/label.h"

enum { CS_COLLAPSE_LINES = 256, CS_COLLAPSE_WORD = 12 };

/* A rank, as lines are labelled with it. */
typedef struct {
    const char *host;
    int         rank, node;
    char        rank_word[CS_COLLAPSE_WORD], local_word[CS_COLLAPSE_WORD], node_word[CS_COLLAPSE_WORD];
    uint64_t    last[2]; /* one behind the last waiting line it is in, for each console */
} cs_speaker;

/* A line that waits, and who said it. */
typedef struct {
    char             *text;
    size_t            length;
    int               which, count;
    const cs_speaker *first;
    bool              several_hosts, several_nodes;
    bool             *ranks; /* [rank_count] */
    int64_t           due;
} cs_same;

typedef struct {
    cs_console           *console;
    const cs_label_style *style;
    int                   index, rank_count; /* rank_count: how many may say the same; 1: nothing waits */
    int64_t               printed;           /* when a rank's line last came */
    uint64_t              first, next;       /* lines [first, next) wait, each at its number modulo CS_COLLAPSE_LINES */
    cs_same               lines[CS_COLLAPSE_LINES];
} cs_collapse;

void cs_collapse_open(cs_collapse *collapse, cs_console *console, int index, const cs_label_style *style,
                      int rank_count);
void cs_collapse_close(cs_collapse *collapse); /* what waits is shown */

void cs_collapse_print(cs_collapse *collapse, cs_speaker *speaker, int which, const void *owner, const char *text,
                       size_t length, cs_console_end end, int64_t now);
void cs_collapse_redraw(cs_collapse *collapse, cs_speaker *speaker, int which, const void *owner, const char *text,
                        size_t length, int64_t now);

void    cs_collapse_tick(cs_collapse *collapse, int64_t now); /* INT64_MAX: shows all that waits */
int64_t cs_collapse_due(const cs_collapse *collapse);

#endif
