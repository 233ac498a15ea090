/* test_mutants.c - breaks each exchange and each count of tensor parallelism in turn (shim/mutants.c), and demands that
 * test_tensor_parallel notices it: at least 98 of 100 mutants. CSPEED_MUTANTS=N tries the first N mutants only. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { MUTANTS = 512, PERCENT = 98 };

static const char program[] = CS_BIN "/test_tensor_parallel";

/* The function whose numbers of lanes only stand in a line of the log. */
static const char logs[] = "ce_mesh_groups_open";

/* Returns true if test_tensor_parallel passes with these variables in its environment. */
static bool passes(const char *variables)
{
    char command[1024];
    snprintf(command, sizeof command, "env %s timeout 900 %s >/dev/null 2>&1", variables, program);
    return system(command) == 0;
}

START_TEST(every_mutant_is_noticed)
{
    char list[] = "/tmp/cspeed-mutants-XXXXXX", variables[128], place[32], kinds[32], name[128];
    const char *most = getenv("CSPEED_MUTANTS");
    int tried = 0, noticed = 0, last = most ? atoi(most) : MUTANTS;
    ck_assert_int_ge(mkstemp(list), 0);
    snprintf(variables, sizeof variables, "CSPEED_MUTANTS_LIST=%s", list);
    ck_assert_msg(passes(variables), "%s fails without a mutant", program);
    FILE *file = fopen(list, "r");
    ck_assert_ptr_nonnull(file);
    while (fscanf(file, "%31s %31s %127[^\n]", place, kinds, name) == 3)
        for (char *next, *kind = strtok_r(kinds, ",", &next); kind && tried < last && strcmp(name, logs) != 0;
             kind = strtok_r(NULL, ",", &next)) {
            snprintf(variables, sizeof variables, "CSPEED_MUTANT=%s:%s", place, kind);
            bool survives = passes(variables);
            printf("%s: %s in %s (%s)\n", survives ? "survives" : "noticed", kind, name, place);
            fflush(stdout);
            tried++;
            noticed += !survives;
        }
    fclose(file);
    unlink(list);
    ck_assert_int_gt(tried, 0);
    ck_assert_msg(100 * noticed >= PERCENT * tried, "%d of %d mutants are noticed", noticed, tried);
}
END_TEST

SUITE_MAIN("mutants", every_mutant_is_noticed)
