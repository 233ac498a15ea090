/* test_device_staging.c - collectives on device memory through the host's transports. The device is simulated by this
 * file: its memory cannot be read by the host, and a copy is only carried out when the program waits for it. */
#include "base/must.h"
#include "device/table.h"
#include "suite.h"
#include "sums.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- a simulated device with memory of its own ---- */

enum { BLOCKS = 64, COPIES = 4096 };

typedef struct {
    /* `seen`: the address that callers get; the host cannot access it. `real`: the address at which the simulated
     * device accesses the same memory. */
    char *seen, *real;
    size_t bytes;
} distant_block;

typedef struct {
    distant_block blocks[BLOCKS];
    struct {
        void *to;
        const void *from;
        size_t bytes;
    } copies[COPIES]; /* copies that were queued and not carried out yet */
    int copy_count;
} fake_gpu;

static void *fake_gpu_alloc(cs_device *device, size_t bytes)
{
    fake_gpu *fake = device->private_data;
    int fd = memfd_create("distant", MFD_CLOEXEC);
    distant_block *block = fake->blocks;
    while (block->seen)
        block++;
    CE_ASSERT(block < fake->blocks + BLOCKS && fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    block->real = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    block->seen = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, fd, 0);
    block->bytes = bytes;
    CE_ASSERT(block->real != MAP_FAILED && block->seen != MAP_FAILED);
    close(fd);
    return block->seen;
}

static void distant_free(cs_device *device, void *memory, size_t bytes)
{
    fake_gpu *fake = device->private_data;
    CE_ASSERT(fake->copy_count == 0);
    for (distant_block *block = fake->blocks; block < fake->blocks + BLOCKS; block++) {
        if (block->seen != memory)
            continue;
        munmap(block->real, bytes);
        munmap(block->seen, bytes);
        *block = (distant_block){ 0 };
    }
}

static void *fake_gpu_alloc_pinned(cs_device *device, size_t bytes)
{
    (void)device;
    return calloc(1, bytes);
}

static void distant_free_pinned(cs_device *device, void *memory, size_t bytes)
{
    (void)device, (void)bytes;
    free(memory);
}

static void distant_copy(cs_stream *stream, void *to, const void *from, size_t bytes)
{
    fake_gpu *fake = stream->device->private_data;
    CE_ASSERT(fake->copy_count < COPIES);
    fake->copies[fake->copy_count].to = to;
    fake->copies[fake->copy_count].from = from;
    fake->copies[fake->copy_count++].bytes = bytes;
}

static void distant_call(cs_stream *stream, void (*call)(void *argument), void *argument)
{
    (void)stream;
    call(argument);
}

static uint64_t distant_record(cs_stream *stream)
{
    (void)stream;
    return 1;
}

static char *reach(const fake_gpu *fake, const void *address, size_t bytes)
{
    uintptr_t at = (uintptr_t)address;
    for (const distant_block *block = fake->blocks; block < fake->blocks + BLOCKS; block++) {
        uintptr_t from = (uintptr_t)block->seen;
        if (at < from || at >= from + block->bytes)
            continue;
        CE_ASSERT(at + bytes <= from + block->bytes);
        return block->real + (at - from);
    }
    return (char *)at;
}

static void distant_wait(cs_stream *stream, ce_event event)
{
    fake_gpu *fake = event.stream->device->private_data;
    for (int i = 0; !stream && i < fake->copy_count; i++)
        memmove(reach(fake, fake->copies[i].to, fake->copies[i].bytes),
                reach(fake, fake->copies[i].from, fake->copies[i].bytes), fake->copies[i].bytes);
    fake->copy_count = stream ? fake->copy_count : 0;
}

static cs_device *distant_open(void)
{
    static const ce_device_table table = { .kind = "distant",
                                           .alloc = fake_gpu_alloc,
                                           .free = distant_free,
                                           .alloc_pinned = fake_gpu_alloc_pinned,
                                           .free_pinned = distant_free_pinned,
                                           .copy = distant_copy,
                                           .call = distant_call,
                                           .record = distant_record,
                                           .wait = distant_wait };
    cs_device *device = calloc(1, sizeof *device);
    CE_ASSERT(device);
    device->table = &table;
    device->private_data = calloc(1, sizeof(fake_gpu));
    CE_ASSERT(device->private_data);
    pthread_mutex_init(&device->lock, NULL);
    for (int role = 0; role < 2; role++)
        device->streams[role] = (cs_stream){ .device = device, .role = (ce_stream_role)role };
    return device;
}

static void distant_close(cs_device *device)
{
    void *fake = device->private_data;
    ce_device_close(device);
    free(fake);
}

/* ---- ranks ------------------------------------------------------------------------------------ */

typedef struct {
    const char *kind;
    int each; /* number of ranks on each simulated host; 0: all ranks are on one host */
} place;

static cs_status open_world(cs_comm **comm, const place *where, cs_device *device)
{
    cs_world world;
    CE_TRY(cs_world_read(&world));
    if (where->each) {
        world.local_rank = world.rank % where->each;
        world.local_size = where->each;
    }
    return cs_comm_open(comm, &world,
                        &(cs_comm_settings){ .kind = where->kind, .timeout_seconds = 60, .device = device });
}

static int each_collective(void *argument)
{
    cs_device *device = distant_open();
    cs_comm *comm = NULL;
    SHOULD(open_world(&comm, argument, device));
    sums_far(device);
    int failed = sums_try_each(comm, cs_comm_size(comm) <= 3 ? 257 : 31);
    cs_comm_close(comm);
    distant_close(device);
    return failed;
}

static const struct {
    int ranks;
    place where;
} worlds[] = {
    { 1, { "auto", 0 } }, { 2, { "auto", 0 } }, { 3, { "shm", 0 } }, { 4, { "auto", 0 } },
    { 5, { "shm", 0 } },  { 2, { "tcp", 0 } },  { 3, { "tcp", 1 } }, { 4, { "auto", 2 } },
};
enum { WORLDS = sizeof worlds / sizeof *worlds };

START_TEST(collectives_are_the_tree)
{
    for (int i = 0; i < WORLDS; i++) {
        place where = worlds[i].where;
        ck_assert_msg(cs_spawn(worlds[i].ranks, each_collective, &where) == CS_OK, "world %d: %s", i, cs_error());
    }
}
END_TEST

/* A vector of several pieces, whose length is not a multiple of a piece. */
static int large_collectives(void *argument)
{
    enum { LARGE = (5 << 18) + 5, BYTES = (9 << 20) + 7 };
    cs_device *device = distant_open();
    cs_comm *comm = NULL;
    SHOULD(open_world(&comm, argument, device));
    int size = cs_comm_size(comm);
    int64_t count = LARGE / size;
    cs_stream *stream = ce_device_stream(device, CE_COMM);
    char *lone = malloc(BYTES);
    EXPECT(lone, "no memory");
    sums_far(device);
    sums_place where = { "device_staging", cs_comm_alloc(comm, BYTES), cs_comm_alloc(comm, BYTES) };
    int failed = sums_try(comm, where, count, 11, CS_F32, CS_SUM) || sums_try_copies(comm, where, count, 17, CS_I32);
    memset(lone, 1, BYTES);
    ce_stream_copy(stream, where.big, lone, BYTES);
    cs_comm_all_reduce(comm, where.big, BYTES, CS_U8, CS_SUM);
    ce_stream_fetch(stream, lone, where.big, BYTES);
    for (int i = 0; i < BYTES; i++)
        EXPECT(lone[i] == size, "byte %d is %d", i, lone[i]);
    free(lone);
    cs_comm_close(comm);
    distant_close(device);
    return failed;
}

START_TEST(large_vectors_are_the_tree)
{
    place shm = { "shm", 0 }, hosts = { "tcp", 2 };
    ck_assert_msg(cs_spawn(3, large_collectives, &shm) == CS_OK, "%s", cs_error());
    ck_assert_msg(cs_spawn(4, large_collectives, &hosts) == CS_OK, "%s", cs_error());
}
END_TEST

static int pass_messages(void *argument)
{
    static const size_t lengths[] = { 0, 1, 7, 65537, (4 << 20) + 1 };
    cs_device *device = distant_open();
    cs_comm *comm = NULL;
    SHOULD(open_world(&comm, argument, device));
    int rank = cs_comm_rank(comm);
    size_t max = (4 << 20) + 1;
    cs_stream *stream = ce_device_stream(device, CE_COMM);
    char *lone = malloc(max), *data = cs_comm_alloc(comm, max);
    EXPECT(lone, "no memory");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t bytes = lengths[i];
        sums_fill(lone, (int64_t)bytes, 0, rank, (int)i, CS_U8);
        ce_stream_copy(stream, data, lone, bytes);
        if (rank == 0)
            cs_comm_send(comm, data, bytes, 1);
        else
            cs_comm_receive(comm, data, bytes, 0);
        ce_stream_fetch(stream, lone, data, bytes);
        if (sums_expect_values(lone, (int64_t)bytes, 0, 0, (int)i, CS_U8, "message"))
            return 1;
    }
    free(lone);
    cs_comm_close(comm);
    distant_close(device);
    return 0;
}

START_TEST(messages_arrive)
{
    place where[] = { { "shm", 0 }, { "tcp", 0 } };
    for (int i = 0; i < 2; i++)
        ck_assert_msg(cs_spawn(2, pass_messages, &where[i]) == CS_OK, "%s: %s", where[i].kind, cs_error());
}
END_TEST

static int allocate(void *argument)
{
    cs_device *device = distant_open();
    cs_comm *comm = NULL;
    SHOULD(open_world(&comm, argument, device));
    char *big = cs_comm_alloc(comm, 5000), *none = cs_comm_alloc(comm, 0), held[5000];
    EXPECT(ce_device_holds(device, big) && ce_device_holds(device, big + 4999), "not the device's memory");
    EXPECT(none && !ce_device_holds(device, held), "the host's memory is taken for the device's");
    EXPECT(ce_device_allocated(device) >= 5000, "%zu bytes are counted", ce_device_allocated(device));
    ce_stream_fetch(ce_device_stream(device, CE_COMM), held, big, sizeof held);
    for (size_t i = 0; i < sizeof held; i++)
        EXPECT(held[i] == 0, "not zeroed");
    EXPECT(strcmp(cs_comm_kind(comm), cs_comm_size(comm) == 1 ? "self" : "shm") == 0, "kind %s", cs_comm_kind(comm));
    cs_comm_close(comm);
    EXPECT(ce_device_allocated(device) == 0, "%zu bytes are left", ce_device_allocated(device));
    distant_close(device);
    return 0;
}

START_TEST(heap_is_the_devices)
{
    place where = { "auto", 0 };
    ck_assert_msg(cs_spawn(1, allocate, &where) == CS_OK, "%s", cs_error());
    ck_assert_msg(cs_spawn(2, allocate, &where) == CS_OK, "%s", cs_error());
}
END_TEST

static int want_nccl(void *argument)
{
    cs_device *device = argument ? distant_open() : NULL;
    cs_comm *comm = NULL;
    place where = { "nccl", 0 };
    cs_status status = open_world(&comm, &where, device);
    EXPECT(status != CS_OK, "it was opened");
    EXPECT(strstr(cs_error(), argument ? argument : "needs a CUDA device,"), "\"%s\"", cs_error());
    if (device)
        distant_close(device);
    return 0;
}

START_TEST(nccl_needs_a_module_that_has_it)
{
    char without[] = "the libcspeed_cuda.so of rank 0 was built without NCCL; use communication \"shm\"";
    ck_assert_msg(cs_spawn(2, want_nccl, NULL) == CS_OK, "%s", cs_error());
    ck_assert_msg(cs_spawn(2, want_nccl, without) == CS_OK, "%s", cs_error());
}
END_TEST

/* Rank 1 uses the CPU's memory, rank 0 a device's. */
static int mix_devices(void *argument)
{
    const char *rank = getenv("RANK");
    bool near = rank && strcmp(rank, "1") == 0;
    cs_device *device = near ? NULL : distant_open();
    cs_comm *comm = NULL;
    if (near)
        SHOULD(ce_device_open(&device, &(ce_device_settings){ .kind = "cpu", .threads = 1, .local_ranks = 1 }));
    cs_status status = open_world(&comm, argument, device);
    EXPECT(status == CS_DISAGREE, "status %d", (int)status);
    EXPECT(strstr(cs_error(), "rank 0 computes on a GPU and rank 1 on a CPU"), "\"%s\"", cs_error());
    if (near)
        ce_device_close(device);
    else
        distant_close(device);
    return 0;
}

START_TEST(ranks_on_cpus_and_gpus_do_not_mix)
{
    place where[] = { { "auto", 0 }, { "shm", 0 }, { "tcp", 0 }, { "auto", 1 } };
    for (int i = 0; i < 4; i++)
        ck_assert_msg(cs_spawn(2, mix_devices, &where[i]) == CS_OK, "%s: %s", where[i].kind, cs_error());
}
END_TEST

static int lose_one(void *argument)
{
    cs_device *device = distant_open();
    cs_comm *comm = NULL;
    SHOULD(open_world(&comm, argument, device));
    float *data = cs_comm_alloc(comm, 4000);
    for (int i = 0; i < 1000; i++) {
        if (cs_comm_rank(comm) == 1 && i == 20)
            raise(SIGKILL);
        cs_comm_all_reduce(comm, data, 1000, CS_F32, CS_SUM);
    }
    return 0;
}

START_TEST(a_lost_rank_ends_the_others)
{
    place where = { "shm", 0 };
    ck_assert_int_ne(cs_spawn(3, lose_one, &where), CS_OK);
    ck_assert_msg(strstr(cs_error(), "rank 1") != NULL, "%s", cs_error());
}
END_TEST

SUITE_MAIN("device_staging", collectives_are_the_tree, large_vectors_are_the_tree, messages_arrive, heap_is_the_devices,
           nccl_needs_a_module_that_has_it, ranks_on_cpus_and_gpus_do_not_mix, a_lost_rank_ends_the_others)
