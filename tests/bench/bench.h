/* bench.h - the command line of a benchmark: options and positional numbers that it knows; anything else is refused. */
#ifndef CS_TESTS_BENCH_H
#define CS_TESTS_BENCH_H

#include <stdbool.h>

/* Exactly one of number, word and given is set. What is not on the command line keeps its value. */
typedef struct {
    const char *name; /* "--rounds", followed by its value; "ROUNDS": a positional number. NULL ends a table */
    int *number;      /* a whole number from min to max                                                     */
    int min, max;
    const char **word; /* one of the words in choices ("fp32|bf16")                                          */
    const char *choices;
    bool *given; /* a switch, without a value                                                          */
} bench_option;

/* Reads argv[1] and all that follow it. At the first argument that the table does not allow, prints what is wrong
 * and the usage to stderr, and ends the process with exit code 64. --help prints the usage and ends it with 0. */
void bench_arguments(int argc, char **argv, const bench_option *options);

#endif
