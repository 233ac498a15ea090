/* meeting.c - cs_comm_open_at: rendezvous of ranks by an address, like PyTorch's init_method. The ranks connect to the
 * key-value store, publish in the store on which hosts they run, and then open the comm. */
#include "base/clock.h"
#include "base/misuse.h"
#include "base/plural.h"
#include "comm/tcp/mesh.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DEFAULT_SECONDS = 600, HOST_BYTES = 64, NAME_BYTES = 32, LINE_BYTES = 384 };

static double seconds_of(const cs_comm_settings *settings)
{
    return settings->timeout_seconds > 0 ? settings->timeout_seconds : DEFAULT_SECONDS;
}

/* ---- env:// ---- */

static cs_status open_by_environment(cs_comm **comm, int rank, int size, const cs_comm_settings *settings)
{
    cs_world world;
    CE_TRY(cs_world_read(&world));
    if ((rank != -1 && rank != world.rank) || (size != -1 && size != world.size))
        return ce_fail(CS_BAD_CONFIG, "env://: the call says rank %d of %d, but the environment says rank %d of %d",
                       rank, size, world.rank, world.size);
    return cs_comm_open(comm, &world, settings);
}

/* ---- tcp:// ---- */

static cs_status read_address(cs_world *world, const char *init_method)
{
    const char *text = init_method + strlen("tcp://"), *colon = strrchr(text, ':');
    char *end = NULL;
    long port = colon ? strtol(colon + 1, &end, 10) : 0;
    size_t length = colon ? (size_t)(colon - text) : 0;
    if (!colon || end == colon + 1 || *end || port < 1 || port > 65535 || length < 1 || length >= sizeof world->address)
        return ce_fail(CS_BAD_CONFIG, "\"%s\": tcp://HOST:PORT is needed, with a port from 1 to 65535", init_method);
    if (text[0] == '[' && text[length - 1] == ']') { /* IPv6 */
        text++;
        length -= 2;
    }
    memcpy(world->address, text, length);
    world->address[length] = 0;
    world->port = (int)port;
    return CS_OK;
}

/* ---- file:// ---- */

/* Called on rank 0. Opens the listening socket, and sets the address, the port and the job name of `world`; the system
 * chooses the port. With a key (CSPEED_SECRET) rank 0 listens on all addresses of this host. Without a key it listens
 * on the loopback address, so that only processes on this host can connect. */
static cs_status choose_address(cs_world *world, int *listener)
{
    unsigned long long nonce = 0;
    cs_world anywhere = *world;
    bool keyed = getenv("CSPEED_SECRET") != NULL;
    if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce)
        return ce_fail_errno(CS_IO_ERROR, errno, "the system provides no random number for the name of the rendezvous");
    snprintf(world->job, sizeof world->job, "file %016llx", nonce);
    snprintf(world->address, sizeof world->address, "127.0.0.1");
    if (keyed && gethostname(world->address, sizeof world->address - 1) < 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "this host has no name");
    snprintf(anywhere.address, sizeof anywhere.address, keyed ? "::" : "127.0.0.1");
    return ce_store_listen(&anywhere, listener, &world->port);
}

/* Creates the file in one step, so that other ranks never see an incomplete text. An existing file is never
 * replaced. */
static cs_status write_file(const cs_world *world, const char *path)
{
    char whole[LINE_BYTES], temporary[4096];
    int length = snprintf(whole, sizeof whole, "%s %d %s\n", world->address, world->port, world->job);
    if (snprintf(temporary, sizeof temporary, "%s.%d", path, (int)getpid()) >= (int)sizeof temporary)
        return ce_fail(CS_BAD_CONFIG, "file://%s: the path is too long", path);
    int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return ce_fail_errno(CS_BAD_CONFIG, errno, "file://%s: rank 0 cannot write there", path);
    bool written = write(file, whole, (size_t)length) == length;
    written = close(file) == 0 && written;
    int error = written && link(temporary, path) == 0 ? 0 : errno;
    unlink(temporary);
    if (written && error == EEXIST)
        return ce_fail(CS_BAD_CONFIG,
                       "file://%s exists: another job uses it for its rendezvous, or a job that was killed has left "
                       "it; choose another file, or remove it",
                       path);
    return error || !written ? ce_fail_errno(CS_IO_ERROR, error, "file://%s: rank 0 cannot write it", path) : CS_OK;
}

static cs_status read_file(cs_world *world, const char *path, double seconds)
{
    double end = ce_clock_seconds() + seconds;
    char whole[LINE_BYTES] = "";
    do {
        int file = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t got = file >= 0 ? read(file, whole, sizeof whole - 1) : 0;
        if (file >= 0)
            close(file);
        whole[got > 0 ? got : 0] = 0;
        if (sscanf(whole, "%255s %d %63[^\n]", world->address, &world->port, world->job) == 3)
            return CS_OK;
        nanosleep(&(struct timespec){ .tv_nsec = 10 * 1000 * 1000 }, NULL);
    } while (ce_clock_seconds() < end);
    return ce_fail(CS_NO_PEER,
                   "rank 0 did not join within %.3g seconds: file://%s was not written; all ranks need the same file",
                   seconds, path);
}

/* ---- hosts ---- */

/* Writes a text that describes this process's host. The text is the same for two processes if they can share memory and
 * Unix sockets. */
static void describe_host(char text[HOST_BYTES])
{
    struct stat network = { 0 };
    char boot[40] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file && !fgets(boot, 37, file))
        boot[0] = 0;
    if (file)
        fclose(file);
    stat("/proc/self/ns/net", &network);
    memset(text, 0, HOST_BYTES);
    snprintf(text, HOST_BYTES, "%s %llx %x", boot, (unsigned long long)network.st_ino, (unsigned)getuid());
}

static cs_status find_local_ranks(cs_world *world, ce_store *store, double seconds)
{
    char own_host[HOST_BYTES], its[HOST_BYTES], name[NAME_BYTES];
    size_t bytes;
    describe_host(own_host);
    snprintf(name, sizeof name, "host/%d", world->rank);
    CE_TRY(ce_store_set(store, name, own_host, sizeof own_host));
    for (int i = 0; i < world->size; i++) {
        snprintf(name, sizeof name, "host/%d", i);
        CE_TRY(ce_store_get(store, name, its, sizeof its, &bytes, seconds));
        if (bytes != sizeof its || memcmp(its, own_host, sizeof its) != 0)
            continue;
        if (i == world->rank)
            world->local_rank = world->local_size;
        world->local_size++;
    }
    return CS_OK;
}

/* ---- meeting ---- */

static cs_status meet(cs_comm **comm, cs_world *world, int listener, const char *path, const cs_comm_settings *settings)
{
    ce_store *store = NULL;
    double seconds = seconds_of(settings);
    cs_status status = ce_store_open_on(&store, world, listener, seconds);
    if (path && world->rank == 0)
        unlink(path); /* all ranks are connected, so all of them have read the file */
    if (status == CS_OK)
        status = find_local_ranks(world, store, seconds);
    ce_meeting meeting = { .store = store };
    if (status == CS_OK)
        status = ce_comm_open(comm, world, settings, NULL, &meeting);
    ce_store_close(store);
    return status;
}

cs_status cs_comm_open_at(cs_comm **comm, const char *init_method, int rank, int size, const cs_comm_settings *settings)
{
    CE_GIVEN(comm);
    cs_world world = { .rank = rank, .size = size };
    const char *path = NULL;
    int listener = -1;
    *comm = NULL;
    if (strcmp(init_method, "env://") == 0)
        return open_by_environment(comm, rank, size, settings);
    if (size < 1 || rank < 0 || rank >= size)
        return ce_fail(CS_BAD_CONFIG, "\"%s\": rank %d of %d rank%s: a rank is from 0 to the number of ranks - 1",
                       init_method, rank, size, ce_plural(size));
    if (strncmp(init_method, "tcp://", 6) == 0) {
        CE_TRY(read_address(&world, init_method));
        if (rank == 0)
            CE_TRY(ce_store_listen(&world, &listener, &world.port));
    } else if (strncmp(init_method, "file://", 7) == 0 && init_method[7]) {
        path = init_method + 7;
        if (rank == 0)
            CE_TRY(choose_address(&world, &listener));
        cs_status status = rank == 0 ? write_file(&world, path) : read_file(&world, path, seconds_of(settings));
        if (status != CS_OK && listener >= 0)
            close(listener);
        CE_TRY(status);
    } else {
        return ce_fail(CS_BAD_CONFIG,
                       "\"%s\" is not a method of rendezvous: possible are \"env://\", \"tcp://HOST:PORT\" and "
                       "\"file://PATH\"",
                       init_method);
    }
    return meet(comm, &world, listener, path, settings);
}
