/* world.c - rank and world size from the environment: variables of torchrun, of several mpiruns, or of srun.
 *
 * Each row of a table has the names of one launcher's variables; the first row whose variables are set is used. All
 * variables of torchrun must be set, except LOCAL_RANK and LOCAL_WORLD_SIZE, of which either both or none must be set.
 * If neither LOCAL_RANK nor LOCAL_WORLD_SIZE is set, all ranks are on this host. The other launchers give no
 * MASTER_ADDR and MASTER_PORT; on a single host the id of the job replaces them.
 *
 * One launcher may have started another: srun may start mpirun, and both may start cspeed. The rows are therefore
 * ordered from the innermost launcher to the outermost. Rank and size of the row in use must equal those of all later
 * rows of the same kind of launcher (`level`) whose variables are set. If the variables of torchrun were set by hand,
 * they must equal those of all later rows. */
#include "base/status.h"
#include "base/misuse.h"
#include "cspeed/comm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *rank, *size, *local_rank, *local_size, *job;
    enum { TORCHRUN, MPIRUN, SRUN } level;
} dialect;

static const dialect dialects[] = {
    { "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "CSPEED_JOB_ID", TORCHRUN },
    { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
      "PMIX_NAMESPACE", MPIRUN },
    { "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_SIZE",
      "CSPEED_JOB_ID", MPIRUN },
    { "PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PMI_LOCAL_SIZE", "PALS_APID", MPIRUN },
    { "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_TASKS_PER_NODE", "SLURM_JOB_ID", SRUN },
    { "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "CSPEED_JOB_ID", MPIRUN },
};

enum { DIALECT_COUNT = sizeof dialects / sizeof *dialects, MAX_RANKS = 1 << 20, DEFAULT_PORT = 29500 };

static const char *shown(const char *name)
{
    const char *text = getenv(name);
    return text ? text : "(unset)";
}

static cs_status read_number(int *value, const char *name, int min, int max)
{
    const char *text = getenv(name);
    char *end = NULL;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno || end == text || *end || text[0] < '0' || text[0] > '9' || number < min || number > max)
        return ce_fail(CS_BAD_CONFIG, "environment variable %s: a whole number from %d to %d, not \"%s\"", name, min,
                       max, text);
    *value = (int)number;
    return CS_OK;
}

static cs_status read_text(char *value, size_t bytes, const char *name)
{
    const char *text = getenv(name);
    if (strlen(text) >= bytes)
        return ce_fail(CS_BAD_CONFIG, "environment variable %s: at most %zu characters, not %zu", name, bytes - 1,
                       strlen(text));
    memcpy(value, text, strlen(text) + 1);
    return CS_OK;
}

/* Returns the number of tasks of a node, from Slurm's list for all nodes in their order, for example "2(x3),1". Returns
 * 0 if the list does not contain this node. */
static int tasks_of_node(const char *list, int node)
{
    int tasks, times, used;
    for (; sscanf(list, "%d%n", &tasks, &used) == 1 && tasks > 0; list += *list == ',') {
        list += used;
        times = 1;
        if (sscanf(list, "(x%d)%n", &times, &used) == 1 && times > 0)
            list += used;
        if (node < times)
            return tasks;
        node -= times;
    }
    return 0;
}

static cs_status read_local_by_srun(cs_world *world, const dialect *names)
{
    const char *step = getenv("SLURM_STEP_TASKS_PER_NODE"), *list = step ? step : getenv(names->local_size);
    int node = 0;
    if (!getenv(names->local_rank) || !getenv("SLURM_NODEID") || !list)
        return ce_fail(
            CS_BAD_CONFIG,
            "environment: %s=%d, but SLURM_LOCALID=%s, SLURM_NODEID=%s, %s=%s: srun sets all of them; set the "
            "missing ones or unset the others of them; set the missing ones or unset the others of them; set the "
            "missing ones or unset the others of them; set the missing ones or unset the others",
            names->rank, world->rank, shown("SLURM_LOCALID"), shown("SLURM_NODEID"), names->local_size,
            shown(names->local_size));
    CE_TRY(read_number(&world->local_rank, names->local_rank, 0, MAX_RANKS));
    CE_TRY(read_number(&node, "SLURM_NODEID", 0, MAX_RANKS));
    world->local_size = tasks_of_node(list, node);
    if (world->local_rank >= world->local_size || world->local_size > world->size)
        return ce_fail(CS_BAD_CONFIG, "environment: these contradict each other: %s=%d %s=%s SLURM_NODEID=%d %s=%d",
                       names->local_rank, world->local_rank, names->local_size, list, node, names->size, world->size);
    return CS_OK;
}

static cs_status read_local(cs_world *world, const dialect *names)
{
    if (names->level == SRUN)
        return read_local_by_srun(world, names);
    bool has_rank = getenv(names->local_rank), has_size = getenv(names->local_size);
    world->local_rank = world->rank;
    world->local_size = world->size;
    if (has_rank != has_size)
        return ce_fail(CS_BAD_CONFIG, "environment: %s and %s must both be set; found %s=%s %s=%s", names->local_rank,
                       names->local_size, names->local_rank, shown(names->local_rank), names->local_size,
                       shown(names->local_size));
    if (!has_rank && names->level == MPIRUN && world->size > 1)
        return ce_fail(CS_BAD_CONFIG,
                       "environment: %s=%d, but %s is not set, so which ranks share a host is not known: set RANK, "
                       "WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT instead",
                       names->rank, world->rank, names->local_rank);
    if (!has_rank)
        return CS_OK;
    CE_TRY(read_number(&world->local_rank, names->local_rank, 0, MAX_RANKS));
    CE_TRY(read_number(&world->local_size, names->local_size, 1, MAX_RANKS));
    if (world->local_rank >= world->local_size || world->local_size > world->size)
        return ce_fail(CS_BAD_CONFIG, "environment: these contradict each other: %s=%d %s=%d %s=%d", names->local_rank,
                       world->local_rank, names->local_size, world->local_size, names->size, world->size);
    return CS_OK;
}

static cs_status read_master(cs_world *world, const dialect *names)
{
    const char *address = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    if (names->level == TORCHRUN && (!address || !address[0] || !port))
        return ce_fail(CS_BAD_CONFIG,
                       "environment: %s=%d needs MASTER_ADDR and MASTER_PORT; found MASTER_ADDR=%s MASTER_PORT=%s",
                       names->rank, world->rank, shown("MASTER_ADDR"), shown("MASTER_PORT"));
    if (address)
        CE_TRY(read_text(world->address, sizeof world->address, "MASTER_ADDR"));
    size_t length = strlen(world->address);
    if (length > 2 && world->address[0] == '[' && world->address[length - 1] == ']') { /* [IPv6] */
        memmove(world->address, world->address + 1, length - 2);
        world->address[length - 2] = 0;
    }
    world->port = DEFAULT_PORT;
    if (port)
        CE_TRY(read_number(&world->port, "MASTER_PORT", 1, 65535));
    if (getenv("CSPEED_ATTEMPT"))
        CE_TRY(read_number(&world->attempt, "CSPEED_ATTEMPT", 0, 1 << 20));
    if (getenv(names->job))
        CE_TRY(read_text(world->job, sizeof world->job, names->job));
    return CS_OK;
}

/* Returns true if the variables of this row are set and apply. The shell of a batch script has srun's variables too,
 * but the shell is not a task of a job step: in the shell the variables do not apply. */
static bool is_spoken(const dialect *names)
{
    if (names->level == SRUN)
        return getenv(names->rank) && getenv(names->size) && (getenv("SLURM_STEP_ID") || !getenv("SLURM_JOB_ID"));
    if (names->level == MPIRUN)
        return getenv(names->rank) != NULL;
    return getenv(names->rank) || getenv(names->size);
}

static cs_status compare_others(const cs_world *world, const dialect *names)
{
    bool by_hand = names->level == TORCHRUN && !getenv("CSPEED_JOB_ID") && !getenv("TORCHELASTIC_RUN_ID");
    for (const dialect *other = names + 1; other < dialects + DIALECT_COUNT; other++) {
        int rank, size;
        if (!is_spoken(other) || !getenv(other->size) || !(by_hand || other->level == names->level))
            continue;
        CE_TRY(read_number(&rank, other->rank, 0, MAX_RANKS));
        CE_TRY(read_number(&size, other->size, 1, MAX_RANKS));
        if (rank != world->rank || size != world->size)
            return ce_fail(CS_BAD_CONFIG,
                           "environment: two launchers have set different values: %s=%d %s=%d, but %s=%d %s=%d; "
                           "unset the wrong ones",
                           names->rank, world->rank, names->size, world->size, other->rank, rank, other->size, size);
    }
    return CS_OK;
}

static cs_status read_dialect(cs_world *world, const dialect *names)
{
    if (!getenv(names->rank) || !getenv(names->size))
        return ce_fail(CS_BAD_CONFIG, "environment: %s and %s must both be set; found %s=%s %s=%s", names->rank,
                       names->size, names->rank, shown(names->rank), names->size, shown(names->size));
    CE_TRY(read_number(&world->size, names->size, 1, MAX_RANKS));
    CE_TRY(read_number(&world->rank, names->rank, 0, MAX_RANKS));
    if (world->rank >= world->size)
        return ce_fail(CS_BAD_CONFIG, "environment: %s=%d is not below %s=%d", names->rank, world->rank, names->size,
                       world->size);
    CE_TRY(compare_others(world, names));
    CE_TRY(read_local(world, names));
    return read_master(world, names);
}

cs_status cs_world_read(cs_world *world)
{
    CE_GIVEN(world);
    static const char *const lonely[] = { "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT" };
    *world = (cs_world){ .size = 1, .local_size = 1, .bound = getenv("CSPEED_BOUND") != NULL };
    for (int i = 0; i < DIALECT_COUNT; i++)
        if (is_spoken(&dialects[i]))
            return read_dialect(world, &dialects[i]);
    for (size_t i = 0; i < sizeof lonely / sizeof *lonely; i++)
        if (getenv(lonely[i]))
            return ce_fail(CS_BAD_CONFIG,
                           "environment: %s=%s is set, but RANK and WORLD_SIZE are not; set them too, or "
                           "unset it to run alone",
                           lonely[i], getenv(lonely[i]));
    return CS_OK;
}
