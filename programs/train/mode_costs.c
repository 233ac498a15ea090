/* mode_costs.c - prints at the end of a training what cspeed.mode "ps" or "dp" has cost: the traffic between ranks, how
 * far workers were ahead of each other, and how long the replicas waited for the master. */
#include "train.h"

#include <inttypes.h>
#include <stdlib.h>

enum { SHOWN = 16 }; /* the greatest number of ranks that a table shows */

static char *name_of(int workers, int rank)
{
    return rank < workers ? text("worker %d", rank) : text("server %d", rank - workers);
}

static void print_traffic(const cs_mode_costs *costs, int workers)
{
    uint64_t among = 0;
    for (int from = 0; from < workers; from++)
        for (int to = 0; to < workers; to++)
            among += costs->sent[from * costs->ranks + to];
    say("\nbytes sent between ranks; %" PRIu64 " among workers:", among);
    for (int from = -1; from < costs->ranks && costs->ranks <= SHOWN; from++) {
        char *name = from < 0 ? text("%s", "from \\ to") : name_of(workers, from), *line = text("  %-12s", name);
        for (int to = 0; to < costs->ranks; to++) {
            char *column = from < 0 ? name_of(workers, to) : text("%" PRIu64, costs->sent[from * costs->ranks + to]);
            char *longer = text("%s %14s", line, column);
            free(column);
            free(line);
            line = longer;
        }
        say("%s", line);
        free(line);
        free(name);
    }
}

static void print_staleness(const cs_mode_costs *costs)
{
    say("steps of workers, by how many steps they began ahead of the slowest worker:");
    for (int64_t i = 0; i < costs->levels; i++)
        if (costs->ahead[i] > 0)
            say("  %4" PRId64 " %14" PRId64, i, costs->ahead[i]);
}

static void print_master(const cs_mode_costs *costs)
{
    say("\nthe master handed out %.1f MB of parameters and gathered %.1f MB of gradients; for %.1f of %.1f s "
        "(%.0f%%) the other replicas waited for it",
        1e-6 * (double)costs->handed_out, 1e-6 * (double)costs->gathered, costs->master_seconds, costs->seconds,
        costs->seconds > 0 ? 100 * costs->master_seconds / costs->seconds : 0);
}

void mode_costs_print(cs_engine *engine)
{
    cs_mode_costs costs = cs_mode_costs_of(engine);
    if (costs.sent)
        print_traffic(&costs, cs_workers(engine));
    if (costs.ahead)
        print_staleness(&costs);
    if (costs.handed_out > 0)
        print_master(&costs);
    cs_mode_costs_free(&costs);
}
