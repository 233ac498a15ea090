/* bench.h - the command line of a benchmark: its options and positional numbers. The syntax is the same as in all
 * programs of cspeed (cspeed/options.h). An argument that the table does not allow is refused. */
#ifndef CS_TESTS_BENCH_H
#define CS_TESTS_BENCH_H

#include <stdbool.h>

/* One option or positional number. Exactly one of the pointers `number`, `word` and `given` is set; it points to the
 * variable that receives the value. If the command line does not give the option, the variable keeps its value. */
typedef struct {
    const char *name; /* "--rounds" takes a value; "ROUNDS" is a positional number. NULL ends a table */
    int *number;      /* a whole number from min to max */
    int min, max;
    const char **word; /* one of the words in `choices` ("fp32|bf16"); any text if `choices` is NULL */
    const char *choices;
    bool *given; /* a switch, without a value */
} bench_option;

/* Reads argv[1] and all arguments after it. If the table does not allow an argument, prints the error to stderr and
 * ends the process with exit code 64. --help prints the options and ends the process with 0. */
void bench_arguments(int argc, char **argv, const bench_option *options);

/* Ends a benchmark whose options select nothing to measure with exit code 64. `what` says what they select from. */
void bench_must_measure(bool any, const char *what);

/* Sorts `count` values from the least to the greatest. */
void bench_sort(double *values, int count);

#endif
