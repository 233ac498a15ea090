/* bench.c - measures this machine: `bench comm` prints times and bandwidths of collectives, as nccl-tests does.
 *
 * The columns of the table:
 * - size: the number of bytes of the longest buffer of a call.
 * - algbw: the size divided by the time of the collective.
 * - busbw: algbw multiplied by the share of the vector that every rank must at least send or receive. It can be
 *   compared with the bandwidth of memory or of a link, for any number of ranks.
 * - of copy: the time in which every rank copies a buffer of this size, divided by the time of the collective. */
#include "base/ends_with.h"
#include "cspeed/options.h"
#include "cspeed/plot.h"
#include "bench/bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* MAX_TUNED: the longest vector that --tune measures, in bytes. All switches between algorithms are at shorter
 * vectors. */
enum { SHORTEST = 1024, SIZES = 48, MAX_TUNED = 4 << 20 };

typedef struct {
    const char *comm, *algorithms, *collectives, *plot;
    int64_t min_bytes, max_bytes;
    bool ordinary, tune;
} options;

static const cs_option table[] = {
    { CS_OPTION(TEXT, "collectives", options, collectives, "NAME,...",
                "which: all_reduce, reduce_scatter, all_gather, broadcast, reduce, scatter, gather, all_to_all; the "
                "first three otherwise") },
    { CS_OPTION(WHOLE, "min_bytes b", options, min_bytes, "N", "the shortest vector (1024)"), .min = 256, .max = 1e12 },
    { CS_OPTION(WHOLE, "max_bytes e", options, max_bytes, "N", "the longest; each is twice the one before (67108864)"),
      .min = 256, .max = 1e12 },
    { CS_OPTION(TEXT, "comm", options, comm, "auto|shm|tcp|mpi", "the transport, as cspeed.comm (auto)") },
    { CS_OPTION(TEXT, "algorithms", options, algorithms, "LIST", "as cspeed.comm_algorithms: all_reduce=ring,...") },
    { CS_OPTION(SWITCH, "ordinary", options, ordinary, NULL,
                "ordinary memory of the ranks, instead of memory that they share") },
    { CS_OPTION(TEXT, "plot", options, plot, "FILE", "draw the bus bandwidths into FILE.svg or FILE.html") },
    { CS_OPTION(SWITCH, "tune", options, tune, NULL,
                "measure at which sizes algorithms should change, and print the key for it") },
    { .names = "help h", .kind = CS_OPTION_HELP, .text = "these options" },
};

static const char usage[] = "usage: bench comm [OPTIONS]\n\n";

typedef struct {
    cs_plot_curve curves[BENCH_COLLECTIVES];
    cs_plot_point points[BENCH_COLLECTIVES][SIZES];
    int count;
} picture;

static void fail(int rank, int code)
{
    if (rank <= 0)
        fprintf(stderr, "bench: %s\n", cs_error());
    exit(code);
}

static void refuse(const char *what, const char *value)
{
    if (cs_launched_rank() <= 0)
        fprintf(stderr, "bench: %s \"%s\"; --help lists what there is\n", what, value);
    exit(CS_OPTIONS_WRONG);
}

/* Returns the share of the vector that a rank must at least send or receive. nccl-tests computes busbw with the same
 * factor. */
static double bus_factor(int collective, int ranks)
{
    double n = ranks;
    if (collective == BENCH_ALL_REDUCE)
        return 2 * (n - 1) / n;
    return collective == BENCH_BROADCAST || collective == BENCH_REDUCE ? 1 : (n - 1) / n;
}

static void print_line(bench_ranks *ranks, picture *drawn, int collective, size_t bytes)
{
    double copy = bench_measure(ranks, BENCH_COPY, bytes), seconds = bench_measure(ranks, collective, bytes);
    double algbw = 1e-9 * (double)bytes / seconds, busbw = algbw * bus_factor(collective, ranks->world.size);
    cs_plot_curve *curve = &drawn->curves[drawn->count];
    drawn->points[drawn->count][curve->count++] = (cs_plot_point){ log2((double)bytes), busbw };
    if (ranks->world.rank == 0)
        printf("%-15s %12zu %-13s %12.1f %10.2f %10.2f %9.0f%%\n", bench_names[collective], bytes, ranks->algorithm,
               seconds * 1e6, algbw, busbw, 100 * copy / seconds);
    fflush(stdout);
}

static int64_t shortest(const options *given)
{
    return given->min_bytes ? given->min_bytes : SHORTEST;
}

static void print_collective(bench_ranks *ranks, picture *drawn, int collective, const options *given)
{
    int sizes = 0;
    drawn->curves[drawn->count] = (cs_plot_curve){ bench_names[collective], drawn->points[drawn->count], 0 };
    for (int64_t bytes = shortest(given); bytes <= given->max_bytes && sizes < SIZES; bytes *= 2, sizes++)
        print_line(ranks, drawn, collective, (size_t)bytes);
    drawn->count++;
}

static void read_collectives(bool wanted[BENCH_COLLECTIVES], const char *list)
{
    char *copy = strdup(list), *rest;
    for (char *word = copy ? strtok_r(copy, ",", &rest) : NULL; word; word = strtok_r(NULL, ",", &rest)) {
        int i = 0;
        while (i < BENCH_COLLECTIVES && strcmp(bench_names[i], word) != 0)
            i++;
        if (i == BENCH_COLLECTIVES)
            refuse("no collective", word);
        wanted[i] = true;
    }
    free(copy);
}

static void draw(const picture *drawn, const char *name)
{
    static const char title[] = "bus bandwidth in GB/s, by log2 of the bytes";
    cs_plot plot = { title, drawn->curves, drawn->count };
    FILE *file = fopen(name, "w");
    if (file && ce_ends_with(name, ".html"))
        cs_plot_html(file, title, &plot, 1);
    else if (file)
        cs_plot_svg(file, &plot, 1);
    bool good = file && !ferror(file);
    if (!file || fclose(file) != 0 || !good) {
        fprintf(stderr, "bench: %s cannot be written\n", name);
        exit(CS_OPTIONS_WRONG);
    }
}

static void run(const options *given)
{
    bool wanted[BENCH_COLLECTIVES] = { false };
    bench_ranks ranks;
    if (shortest(given) > given->max_bytes)
        refuse("--max_bytes must be at least", "--min_bytes");
    picture *drawn = calloc(1, sizeof *drawn);
    read_collectives(wanted, given->collectives ? given->collectives : "all_reduce,reduce_scatter,all_gather");
    cs_status status = bench_open(&ranks, given->comm, given->algorithms, (size_t)given->max_bytes, given->ordinary);
    if (status != CS_OK || !drawn)
        fail(cs_launched_rank(), cs_exit_code(status));
    if (ranks.world.rank == 0)
        printf("%d ranks over %s, %s memory, fp32; the slowest rank, the median of repetitions\n"
               "%-15s %12s %-13s %12s %10s %10s %10s\n",
               ranks.world.size, cs_comm_kind(ranks.comm), given->ordinary ? "ordinary" : "shared", "collective",
               "size", "algorithm", "us", "algbw GB/s", "busbw GB/s", "of copy");
    for (int i = 0; i < BENCH_COLLECTIVES; i++)
        if (wanted[i])
            print_collective(&ranks, drawn, i, given);
    if (given->plot && ranks.world.rank == 0)
        draw(drawn, given->plot);
    bench_close(&ranks);
    free(drawn);
}

/* --tune measures all lengths and all switches between algorithms of the transport, so flags that choose lengths or
 * algorithms have no meaning. */
static void tune(const options *given)
{
    if (given->collectives || given->algorithms || given->plot || given->ordinary || given->min_bytes)
        refuse("with --tune only --comm and --max_bytes have a meaning, not", given->collectives  ? "--collectives"
                                                                              : given->algorithms ? "--algorithms"
                                                                              : given->plot       ? "--plot"
                                                                              : given->ordinary   ? "--ordinary"
                                                                                                  : "--min_bytes");
    cs_status status = bench_tune(given->comm, (size_t)(given->max_bytes < MAX_TUNED ? given->max_bytes : MAX_TUNED));
    if (status != CS_OK)
        fail(cs_launched_rank(), cs_exit_code(status));
}

/* Refuses a world of one rank, because collectives need at least two ranks. */
static void check_world(void)
{
    cs_world world;
    cs_status status = cs_world_read(&world);
    if (status != CS_OK)
        fail(cs_launched_rank(), cs_exit_code(status));
    if (world.size > 1)
        return;
    fprintf(stderr, "bench: a single rank has no other one to communicate with; start at least two: "
                    "cspeed --num_gpus 2 bench comm\n");
    exit(CS_OPTIONS_WRONG);
}

int main(int argc, char **argv)
{
    options given = { .comm = "auto", .max_bytes = 64 << 20 };
    cs_options_form form = { .usage = usage,
                             .what = "flag",
                             .hint = "see cspeed bench comm --help",
                             CS_OPTIONS_TABLE(table),
                             .min = 1,
                             .max = 1,
                             .needs = "say what to measure: comm" };
    (void)argc;
    char **words = cs_options_main(&form, &given, argv);
    if (strcmp(words[0], "comm") != 0)
        refuse("nothing to measure is called", words[0]);
    if (given.plot && !ce_ends_with(given.plot, ".svg") && !ce_ends_with(given.plot, ".html"))
        refuse("--plot needs a file .svg or .html, not", given.plot);
    check_world();
    if (given.tune)
        tune(&given);
    else
        run(&given);
    return 0;
}
