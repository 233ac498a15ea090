/* comm.c - `cspeed comm`: traces the ring all-reduce step by step, and computes the cost of an all-reduce.
 *
 * The trace is a simulation: for each rank and each chunk, a list names the ranks whose values have been added to the
 * chunk. */
#include "ground/codes.h"
#include "ground/command.h"
#include "base/plural.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TRACED = 16, SUM_BYTES = 64, MAX_WORLDS = 32, FP32_BYTES = 4 };

/* ---- trace ---- */

/* sums[rank][chunk] names the ranks whose values have been added to that chunk, in the order of addition: "3+4+0". */
typedef char sums[MAX_TRACED][MAX_TRACED][SUM_BYTES];

typedef struct {
    int ranks, column; /* column: the width of one chunk's column in the table */
    sums *now, *before;
} ring;

static int modulo(int number, int ranks)
{
    return (number % ranks + ranks) % ranks;
}

static void print_cell(const ring *r, int chunk, const char *text)
{
    printf("  %-*s", chunk + 1 < r->ranks ? r->column : 0, text);
}

static void print_head(const ring *r)
{
    printf("  rank  sends    to rank  receives  from rank");
    for (int chunk = 0; chunk < r->ranks; chunk++) {
        char title[32];
        snprintf(title, sizeof title, "chunk %d", chunk);
        print_cell(r, chunk, title);
    }
    putchar('\n');
}

static void print_rank(const ring *r, int rank, int sent, int received)
{
    printf("  %-4d  chunk %-2d %-7d  chunk %-2d  %-9d", rank, sent, modulo(rank + 1, r->ranks), received,
           modulo(rank - 1, r->ranks));
    for (int chunk = 0; chunk < r->ranks; chunk++)
        print_cell(r, chunk, (*r->now)[rank][chunk]);
    putchar('\n');
}

/* All ranks send at the same time. A rank receives the chunk as its neighbour had it before the step. In the
 * scatter-reduce phase, the received chunk is added to the rank's own copy of the chunk; in the all-gather phase, the
 * received chunk replaces that copy. */
static void step(ring *r, int number, bool reduces)
{
    memcpy(r->before, r->now, sizeof *r->now);
    for (int rank = 0; rank < r->ranks; rank++) {
        int from = modulo(rank - 1, r->ranks), chunk = modulo(rank - number - reduces, r->ranks);
        char *to = (*r->now)[rank][chunk];
        if (reduces)
            snprintf(to, SUM_BYTES, "%s+%d", (*r->before)[from][chunk], rank);
        else
            snprintf(to, SUM_BYTES, "%s", (*r->before)[from][chunk]);
    }
}

static void print_step(const ring *r, int number, bool reduces)
{
    printf("\n%s, step %d of %d\n", reduces ? "scatter-reduce" : "all-gather", number + 1, r->ranks - 1);
    print_head(r);
    for (int rank = 0; rank < r->ranks; rank++) {
        int received = modulo(rank - number - reduces, r->ranks);
        print_rank(r, rank, modulo(received + 1, r->ranks), received);
    }
}

static void trace(ring *r)
{
    for (int rank = 0; rank < r->ranks; rank++)
        for (int chunk = 0; chunk < r->ranks; chunk++)
            snprintf((*r->now)[rank][chunk], SUM_BYTES, "%d", rank);
    printf("ring all-reduce over %d ranks: the data is %d chunks, a step sends one chunk from each rank to the next;\n"
           "%d step%s of scatter-reduce and %d of all-gather make %d. A chunk shows the ranks that were added.\n",
           r->ranks, r->ranks, r->ranks - 1, ce_plural(r->ranks - 1), r->ranks - 1, 2 * (r->ranks - 1));
    for (int reduces = 1; reduces >= 0; reduces--)
        for (int number = 0; number < r->ranks - 1; number++) {
            step(r, number, reduces);
            print_step(r, number, reduces);
        }
}

static int trace_ring(int64_t ranks)
{
    int width = 2 * (int)ranks - 1 + (ranks > 10 ? (int)ranks - 10 : 0);
    ring r = { .ranks = (int)ranks,
               .column = width > 8 ? width : 8,
               .now = calloc(1, sizeof(sums)),
               .before = calloc(1, sizeof(sums)) };
    int code = r.now && r.before ? 0 : cl_codes_fail(CL_CODE_SYSTEM, "no memory for the trace");
    if (code == 0)
        trace(&r);
    free(r.now);
    free(r.before);
    return code;
}

/* ---- cost ---- */

typedef struct {
    const char *worlds;
    int64_t params;
    double bandwidth;
} request;

/* Parses a list of world sizes such as "2,10". */
static int read_worlds(const char *list, int64_t worlds[MAX_WORLDS], int *count)
{
    char word[32];
    *count = 0;
    for (const char *place = list;; place++) {
        size_t length = strcspn(place, ",");
        snprintf(word, sizeof word, "%.*s", (int)length, place);
        if (*count == MAX_WORLDS)
            return cl_codes_fail(CL_CODE_USAGE, "--ranks %s: at most %d numbers", list, MAX_WORLDS);
        int code = cs_options_whole(&worlds[(*count)++], "--ranks", word, 2, 1e6);
        if (code)
            return code;
        place += length;
        if (!*place)
            return 0;
    }
}

static int cost(const request *r)
{
    int64_t worlds[MAX_WORLDS];
    int count, code = read_worlds(r->worlds, worlds, &count);
    double bytes = (double)r->params * FP32_BYTES, once = bytes / r->bandwidth;
    if (code)
        return code;
    printf("all-reduce of %" PRId64 " fp32 gradients, %.10g bytes, over links of %.10g bytes a second\n\n"
           "  ranks     naive      ring  steps  bytes that a rank sends in the ring\n",
           r->params, bytes, r->bandwidth);
    for (int i = 0; i < count; i++) {
        double ranks = (double)worlds[i], sent = 2 * (ranks - 1) / ranks * bytes;
        printf("  %5" PRId64 "  %6.4g s  %6.4g s  %5" PRId64 "  %.10g\n", worlds[i], (ranks - 1) * once,
               sent / r->bandwidth, 2 * (worlds[i] - 1), sent);
    }
    printf("  limit   no limit  %6.4g s\n\n"
           "naive: rank 0 receives the gradients of every other rank, one after the other: (N - 1) S / B.\n"
           "ring: 2 (N - 1) steps of S / N bytes on every link at the same time: 2 (N - 1) / N S / B.\n",
           2 * once);
    return 0;
}

/* ---- the command ---- */

static int check_trace(const request *r, char *const *words)
{
    int64_t ranks;
    if (!words[1] || strcmp(words[1], "ring") != 0 || words[2])
        return cl_codes_fail(CL_CODE_USAGE, "comm trace: ring is the one algorithm that is traced, not \"%s\"",
                             words[1] ? words[1] : "");
    if (r->params || r->bandwidth > 0)
        return cl_codes_fail(CL_CODE_USAGE, "comm trace: --params and --bw are for comm cost");
    int code = r->worlds ? cs_options_whole(&ranks, "--ranks", r->worlds, 2, MAX_TRACED)
                         : cl_codes_fail(CL_CODE_USAGE, "comm trace ring needs --ranks N");
    return code ? code : trace_ring(ranks);
}

static int check_cost(const request *r, char *const *words)
{
    if (words[1])
        return cl_codes_fail(CL_CODE_USAGE, "comm cost takes no %s", words[1]);
    if (!r->params || !r->worlds || !(r->bandwidth > 0))
        return cl_codes_fail(CL_CODE_USAGE, "comm cost needs --params N, --bw BYTES_PER_SECOND and --ranks N,N");
    return cost(r);
}

static int run(const cl_options *options, char **arguments)
{
    static const cs_option table[] = {
        { CL_COMMAND_OPTION(TEXT, "ranks", worlds, "N,N") },
        { CL_COMMAND_OPTION(WHOLE, "params", params, "N"), .min = 1, .max = 1e15 },
        { CL_COMMAND_OPTION(NUMBER, "bw", bandwidth, "BYTES_PER_SECOND"), .min = 1e-9 },
    };
    static const cs_options_form form = { CL_COMMAND_FORM("comm", 1, 2, "say what: trace ring, or cost"),
                                          CS_OPTIONS_TABLE(table) };
    request r = { 0 };
    int code = cs_options_read(&form, &r, &arguments);
    (void)options;
    if (code)
        return code;
    if (strcmp(arguments[0], "trace") == 0)
        return check_trace(&r, arguments);
    if (strcmp(arguments[0], "cost") == 0)
        return check_cost(&r, arguments);
    return cl_codes_fail(CL_CODE_USAGE, "comm: trace or cost, not \"%s\"", arguments[0]);
}

const cl_command cl_command_comm = {
    .name = "comm",
    .group = "Look",
    .summary = "show the steps of a ring all-reduce, or estimate its time",
    .usage = "cspeed comm trace ring --ranks N\n"
             "       cspeed comm cost --params N --bw BYTES_PER_SECOND --ranks N,N",
    .text = "trace prints, for each step of a ring all-reduce, which chunk each rank sends and receives, and what\n"
            "the chunk contains afterwards. cost estimates how long an all-reduce of fp32 gradients takes in two\n"
            "ways: if one rank gathers and returns all gradients, and in a ring. --params is the number of\n"
            "parameters, --bw the bandwidth of one link, and --ranks the numbers of ranks to compare. `cspeed\n"
            "bench comm` measures the collectives that cspeed really uses.\n",
    .example = "cspeed comm cost --params 300e6 --bw 1e9 --ranks 2,10",
    .run = run,
};
