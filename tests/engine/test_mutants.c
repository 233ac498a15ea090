/* test_mutants.c - breaks each exchange and each count of tensor parallelism in turn (shim/mutants.c), and demands that
 * test_tensor_parallel notices it: at least 98 of 100 mutants. CSPEED_MUTANTS=N tries the first N mutants only. */
#include "shell.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MUTANTS = 512, PERCENT = 98 };

static const char program[] = CS_BIN "/test_tensor_parallel";

/* Functions where a broken call changes nothing that a training computes. These mutants are not tried. */
static const struct {
    const char *function, *why;
} equivalent[] = {
    { "ce_mesh_groups_open", "the number of lanes only stands in a line of the log" },
};

static const char *reason_of(const char *function)
{
    for (size_t i = 0; i < sizeof equivalent / sizeof *equivalent; i++)
        if (strcmp(function, equivalent[i].function) == 0)
            return equivalent[i].why;
    return NULL;
}

/* Returns true if test_tensor_parallel passes with this variable in its environment. A mutant may hang. */
static bool passes(const char *name, const char *value)
{
    return shell_run("env TMPDIR=$PWD %s=%s timeout 600 %s", name, value, program) == 0;
}

/* Tries the mutant "SITE:KIND", and returns whether it is noticed. */
static bool try_mutant(const char *mutant, const char *function)
{
    bool survives = passes("CSPEED_MUTANT", mutant);
    printf("%s: %s in %s\n", survives ? "survives" : "noticed", mutant, function);
    fflush(stdout);
    return !survives;
}

START_TEST(every_mutant_is_noticed)
{
    char place[32], kinds[32], function[128], mutant[80];
    const char *most = getenv("CSPEED_MUTANTS");
    int tried = 0, noticed = 0, same = 0, last = most ? atoi(most) : MUTANTS;
    shell_enter();
    ck_assert_msg(passes("CSPEED_MUTANTS_LIST", "sites.txt"), "%s fails without a mutant", program);
    FILE *file = fopen("sites.txt", "r");
    ck_assert_ptr_nonnull(file);
    while (fscanf(file, "%31s %31s %127[^\n]", place, kinds, function) == 3)
        for (char *next, *kind = strtok_r(kinds, ",", &next); kind && tried < last; kind = strtok_r(NULL, ",", &next)) {
            snprintf(mutant, sizeof mutant, "%s:%s", place, kind);
            if (reason_of(function)) {
                printf("equivalent: %s in %s: %s\n", mutant, function, reason_of(function));
                same++;
                continue;
            }
            tried++;
            noticed += try_mutant(mutant, function);
        }
    fclose(file);
    shell_leave();
    printf("%d of %d mutants are noticed, and %d are equivalent\n", noticed, tried, same);
    ck_assert_int_gt(tried, 0);
    ck_assert_msg(100 * noticed >= PERCENT * tried, "%d of %d mutants are noticed", noticed, tried);
}
END_TEST

SUITE_MAIN("mutants", every_mutant_is_noticed)
