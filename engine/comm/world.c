/* world.c - who am I: torchrun's variables, or those of Open MPI's mpirun.
 *
 * A launcher's dialect is a row of names; the first whose rank or size is set is spoken. torchrun's names must all be
 * there, but for the local pair, which must be whole or absent (then every rank is on this host). mpirun has no master:
 * its job's name stands for it. */
#include "comm/world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *rank, *size, *local_rank, *local_size, *job;
    bool        master; /* MASTER_ADDR and MASTER_PORT must be there */
} dialect;

static const dialect dialects[] = {
    { "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "CSPEED_JOB_ID", true },
    { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
      "PMIX_NAMESPACE", false },
};

enum { DIALECT_COUNT = sizeof dialects / sizeof *dialects, MOST_RANKS = 1 << 20, DEFAULT_PORT = 29500 };

static const char *shown(const char *name)
{
    const char *text = getenv(name);
    return text ? text : "(unset)";
}

static cs_status read_number(int *value, const char *name, int least, int most)
{
    const char *text = getenv(name);
    char       *end  = NULL;
    errno            = 0;
    long number      = strtol(text, &end, 10);
    if (errno || end == text || *end || text[0] < '0' || text[0] > '9' || number < least || number > most)
        return cs_fail(CS_BAD_CONFIG, "environment variable %s: a whole number from %d to %d, not \"%s\"", name, least,
                       most, text);
    *value = (int)number;
    return CS_OK;
}

static cs_status read_text(char *value, size_t bytes, const char *name)
{
    const char *text = getenv(name);
    if (strlen(text) >= bytes)
        return cs_fail(CS_BAD_CONFIG, "environment variable %s: at most %zu characters, not %zu", name, bytes - 1,
                       strlen(text));
    memcpy(value, text, strlen(text) + 1);
    return CS_OK;
}

static cs_status read_local(cs_world *world, const dialect *names)
{
    bool has_rank = getenv(names->local_rank), has_size = getenv(names->local_size);
    world->local_rank = world->rank;
    world->local_size = world->size;
    if (has_rank != has_size)
        return cs_fail(CS_BAD_CONFIG, "environment: %s and %s belong together, seen %s=%s %s=%s", names->local_rank,
                       names->local_size, names->local_rank, shown(names->local_rank), names->local_size,
                       shown(names->local_size));
    if (!has_rank)
        return CS_OK;
    CS_TRY(read_number(&world->local_rank, names->local_rank, 0, MOST_RANKS));
    CS_TRY(read_number(&world->local_size, names->local_size, 1, MOST_RANKS));
    if (world->local_rank >= world->local_size || world->local_size > world->size)
        return cs_fail(CS_BAD_CONFIG, "environment: these contradict each other: %s=%d %s=%d %s=%d", names->local_rank,
                       world->local_rank, names->local_size, world->local_size, names->size, world->size);
    return CS_OK;
}

static cs_status read_master(cs_world *world, const dialect *names)
{
    const char *address = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    if (names->master && (!address || !address[0] || !port))
        return cs_fail(CS_BAD_CONFIG,
                       "environment: %s=%d needs MASTER_ADDR and MASTER_PORT, seen MASTER_ADDR=%s "
                       "MASTER_PORT=%s",
                       names->rank, world->rank, shown("MASTER_ADDR"), shown("MASTER_PORT"));
    if (address)
        CS_TRY(read_text(world->address, sizeof world->address, "MASTER_ADDR"));
    world->port = DEFAULT_PORT;
    if (port)
        CS_TRY(read_number(&world->port, "MASTER_PORT", 1, 65535));
    if (getenv(names->job))
        CS_TRY(read_text(world->job, sizeof world->job, names->job));
    return CS_OK;
}

static cs_status read_dialect(cs_world *world, const dialect *names)
{
    if (!getenv(names->rank) || !getenv(names->size))
        return cs_fail(CS_BAD_CONFIG, "environment: %s and %s belong together, seen %s=%s %s=%s", names->rank,
                       names->size, names->rank, shown(names->rank), names->size, shown(names->size));
    CS_TRY(read_number(&world->size, names->size, 1, MOST_RANKS));
    CS_TRY(read_number(&world->rank, names->rank, 0, MOST_RANKS));
    if (world->rank >= world->size)
        return cs_fail(CS_BAD_CONFIG, "environment: %s=%d is not below %s=%d", names->rank, world->rank, names->size,
                       world->size);
    CS_TRY(read_local(world, names));
    return read_master(world, names);
}

cs_status cs_world_read(cs_world *world)
{
    static const char *const lonely[] = { "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT" };
    *world                            = (cs_world){ .size = 1, .local_size = 1, .bound = getenv("CSPEED_BOUND") != NULL };
    for (int i = 0; i < DIALECT_COUNT; i++)
        if (getenv(dialects[i].rank) || getenv(dialects[i].size))
            return read_dialect(world, &dialects[i]);
    for (size_t i = 0; i < sizeof lonely / sizeof *lonely; i++)
        if (getenv(lonely[i]))
            return cs_fail(CS_BAD_CONFIG,
                           "environment: %s=%s is set, but RANK and WORLD_SIZE are not; set them too, or "
                           "unset it to run alone",
                           lonely[i], getenv(lonely[i]));
    return CS_OK;
}
