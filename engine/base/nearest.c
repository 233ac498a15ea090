/* nearest.c - finds the known name that is most similar to a misspelt one. */
#include "base/nearest.h"
#include "cspeed/cspeed.h"

#include <string.h>
#include <strings.h>

enum { LONGEST = 64 };

static int min_of(int a, int b)
{
    return a < b ? a : b;
}

int ce_nearest_distance(const char *a, const char *b)
{
    int row[3][LONGEST + 1];
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > LONGEST || b_length > LONGEST)
        return LONGEST;
    for (size_t j = 0; j <= b_length; j++)
        row[0][j] = (int)j;
    for (size_t i = 1; i <= a_length; i++) {
        int *here = row[i % 3], *above = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        here[0] = (int)i;
        for (size_t j = 1; j <= b_length; j++) {
            int differ = strncasecmp(a + i - 1, b + j - 1, 1) != 0;
            here[j] = min_of(min_of(above[j], here[j - 1]) + 1, above[j - 1] + differ);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                here[j] = min_of(here[j], before[j - 2] + 1);
        }
    }
    return row[a_length % 3][b_length];
}

const char *cs_nearest(const char *wanted, const char *const *names)
{
    const char *nearest = NULL;
    size_t length = strlen(wanted);
    int best = 2 + min_of((int)length, LONGEST - 3) / 3;
    for (; *names; names++) {
        /* `begins` is true if `wanted` is the beginning of this name. */
        bool begins = length > 2 && strncmp(*names, wanted, length) == 0;
        int far = begins ? 1 : ce_nearest_distance(wanted, *names);
        /* Of two names that begin with `wanted` the shorter one is nearer: for "mod", "mode" rather than "model". */
        bool shorter = far == best && begins && nearest && strlen(*names) < strlen(nearest);
        if (far < best || shorter) {
            best = far;
            nearest = *names;
        }
    }
    return nearest;
}
