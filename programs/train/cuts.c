/* cuts.c - `--plan=cuts`: which rows or columns of each parameter each rank of a tensor-parallel group holds. */
#include "train.h"

#include "base/must.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CE_CELL = 96, CE_SHOWN_RANKS = 4, CE_PATTERN = 192 };

/* A row of the table. Parameters of several layers that are divided in the same way share a row: `pattern` is their name
 * without the number of the layer, which stands at `at`, and the numbers are first to last. */
typedef struct {
    char pattern[CE_PATTERN];
    int at;
    int64_t first, last;
    char shape[48], cell[CE_SHOWN_RANKS][CE_CELL];
    const char *gradient;
} row;

/* Writes what a rank holds, such as "rows 0-15, 32-47". */
static void print_cell(char text[CE_CELL], const cs_param_cut *cut, int64_t ranks)
{
    int used = 0;
    if (cut->parts == 1 && cut->part[0].copies == ranks &&
        cut->part[0].to - cut->part[0].from == cut->shape[cut->dimension]) {
        snprintf(text, CE_CELL, "all");
        return;
    }
    for (int i = 0; i < cut->parts && used < CE_CELL; i++) {
        used += snprintf(text + used, (size_t)(CE_CELL - used), "%s%" PRId64 "-%" PRId64,
                         i > 0            ? ", "
                         : cut->dimension ? "columns "
                                          : "rows ",
                         cut->part[i].from, cut->part[i].to - 1);
        if (cut->part[i].copies > 1 && used < CE_CELL)
            used += snprintf(text + used, (size_t)(CE_CELL - used), " (%d copies)", cut->part[i].copies);
    }
}

/* Says how the gradients of copies are formed; "" if no rank has a copy. */
static const char *gradient_of(const cs_param_cut *cut)
{
    bool copies = false;
    for (int i = 0; i < cut->parts; i++)
        copies |= cut->part[i].copies > 1;
    return !copies ? "" : cut->partial ? "summed" : "equal";
}

/* Splits a name at the number of its layer: "model.layers.11.mlp.up" becomes "model.layers..mlp.up" and 11. A name without
 * a number gets the number -1. */
static void split_name(row *made, const char *name)
{
    const char *digits = name;
    while (*digits && !(isdigit((unsigned char)*digits) && digits > name && digits[-1] == '.'))
        digits++;
    char *rest = NULL;
    made->first = made->last = *digits ? strtoll(digits, &rest, 10) : -1;
    made->at = (int)(digits - name);
    snprintf(made->pattern, sizeof made->pattern, "%.*s%s", made->at, name, rest ? rest : "");
}

static row row_of(const cs_param_cut *cuts, int64_t count, int64_t i, int64_t ranks)
{
    row made = { .gradient = gradient_of(&cuts[i]) };
    split_name(&made, cuts[i].name);
    if (cuts[i].shape[1] > 0)
        snprintf(made.shape, sizeof made.shape, "%" PRId64 " x %" PRId64, cuts[i].shape[0], cuts[i].shape[1]);
    else
        snprintf(made.shape, sizeof made.shape, "%" PRId64, cuts[i].shape[0]);
    for (int64_t rank = 0; rank < ranks && rank < CE_SHOWN_RANKS; rank++)
        print_cell(made.cell[rank], &cuts[rank * count + i], ranks);
    return made;
}

static bool joins(const row *table, const row *next)
{
    return next->first == table->last + 1 && table->first >= 0 && strcmp(table->pattern, next->pattern) == 0 &&
           strcmp(table->shape, next->shape) == 0 && memcmp(table->cell, next->cell, sizeof table->cell) == 0;
}

static void print_name(char text[CE_PATTERN + 48], const row *of)
{
    if (of->first < 0)
        snprintf(text, CE_PATTERN + 48, "%s", of->pattern);
    else if (of->first == of->last)
        snprintf(text, CE_PATTERN + 48, "%.*s%" PRId64 "%s", of->at, of->pattern, of->first, of->pattern + of->at);
    else
        snprintf(text, CE_PATTERN + 48, "%.*s%" PRId64 "-%" PRId64 "%s", of->at, of->pattern, of->first, of->last,
                 of->pattern + of->at);
}

static void wider(int *width, const char *text)
{
    int length = (int)strlen(text);
    *width = length > *width ? length : *width;
}

static void print_table(const row *table, int64_t rows, int ranks)
{
    char name[CE_PATTERN + 48];
    int width[CE_SHOWN_RANKS + 2] = { 9, 5, 6, 6, 6, 6 };
    for (int64_t i = 0; i < rows; i++) {
        print_name(name, &table[i]);
        wider(&width[0], name);
        wider(&width[1], table[i].shape);
        for (int rank = 0; rank < ranks; rank++)
            wider(&width[2 + rank], table[i].cell[rank]);
    }
    printf("%-*s  %-*s", width[0], "parameter", width[1], "shape");
    for (int rank = 0; rank < ranks; rank++)
        printf("  rank %-*d", width[2 + rank] - 5, rank);
    puts("  gradient of copies");
    for (int64_t i = 0; i < rows; i++) {
        print_name(name, &table[i]);
        printf("%-*s  %-*s", width[0], name, width[1], table[i].shape);
        for (int rank = 0; rank < ranks; rank++)
            printf("  %-*s", width[2 + rank], table[i].cell[rank]);
        printf("%s%s\n", *table[i].gradient ? "  " : "", table[i].gradient);
    }
}

void plan_show_cuts(cs_config *config)
{
    cs_param_cut *cuts;
    int64_t count, ranks, rows = 0;
    CS_MUST(cs_estimate_cuts(config, &cuts, &count, &ranks));
    CE_FREED row *table = ce_must_alloc((size_t)(count + 1) * sizeof *table);
    for (int64_t i = 0; i < count; i++) {
        row next = row_of(cuts, count, i, ranks);
        int64_t at = 0;
        while (at < rows && !joins(&table[at], &next))
            at++;
        if (at == rows)
            table[rows++] = next;
        table[at].last = next.last;
    }
    if (is_rank_zero())
        print_table(table, rows, ranks < CE_SHOWN_RANKS ? (int)ranks : CE_SHOWN_RANKS);
    if (ranks > CE_SHOWN_RANKS)
        say("the ranks from %d to %" PRId64 " continue in the same way", CE_SHOWN_RANKS, ranks - 1);
    free(cuts);
}
