/* bench_comm.c - collectives on one host with 1 KB to 256 MB of fp32 on each rank, in place and staged, compared with a
 * copy and with other libraries.
 *
 *     bench_comm [--kind shm|tcp|nccl] [--device cuda] [--ranks 2|4] [--rounds N] [--smallest BYTES] [--largest BYTES]
 *                [--peers]
 *
 * The time of a collective is the time of the slowest rank: the median over the repetitions of a round, and then the
 * median over rounds. Before each call, each rank writes its vector on its own core. The columns:
 *
 * - "in place" and "staged": the time of the collective, and GB/s: the bytes of the vector divided by this time.
 * - "host us": the time until a call in place returns, in microseconds. With a transport of host memory, the collective
 *   is then complete; with NCCL, the collective is then queued in the GPU's stream.
 * - "of copy": the time in which every rank copies a vector of the same length, divided by the time in place.
 *
 * Ranks are pinned, in turn, to the cores that this process may use. Gloo's ranks are not pinned, because Gloo is
 * faster without pinning. --peers also runs, alternately, tests/peers/comm_mpi.c (if mpicc and mpirun exist) and
 * tests/peers/comm_gloo.py (if CSPEED_PEER_PYTHON names a Python with torch) on the same vectors. With --device, the
 * vectors of the calls in place and of the copies are in the device's memory, and the times of these calls and copies
 * include the wait for the device's stream; the vectors of the staged calls are in host memory. A ratio is a peer's
 * time divided by cspeed's time in the same round; the median and the range over the rounds are printed. */
#include "bench.h"
#include "base/clock.h"
#include "base/log.h"
#include "device/device.h"
#include "cspeed/comm.h"
#include "cspeed/ops.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    BROADCAST,
    REDUCE,
    SCATTER,
    GATHER,
    ALL_TO_ALL,
    OPERATION_COUNT,
    COPY = OPERATION_COUNT,
    ROW_COUNT
};
enum { IN_PLACE, STAGED, HOST, MPI, GLOO, WAY_COUNT }; /* HOST: time until a call of IN_PLACE returns */
enum { SIZE_COUNT = 10, MAX_ROUNDS = 15, MAX_REPETITIONS = 400, MAX_RANKS = 16 };

static const char *const row_names[] = { "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                                         "scatter",    "gather",         "all_to_all", "copy" };

typedef struct {
    size_t smallest, largest;
    const char *kind, *device; /* `device` NULL: the vectors are in host memory */
    char description[160];
    double seconds[WAY_COUNT][ROW_COUNT][SIZE_COUNT]; /* 0: not measured */
} results;

static size_t size_at(int index)
{
    return (size_t)1024 << (2 * index);
}

static bool wanted(const results *all, int index)
{
    return size_at(index) >= all->smallest && size_at(index) <= all->largest;
}

static double median(double *values, int count)
{
    bench_sort(values, count);
    return values[count / 2];
}

static int repetitions(size_t bytes)
{
    size_t wanted = ((size_t)256 << 20) / bytes;
    return wanted < 5 ? 5 : wanted > MAX_REPETITIONS ? MAX_REPETITIONS : (int)wanted;
}

/* Writes zeros to the whole vector, because in a training each rank has just written its own vector. */
static void write_vector(cs_device *gpu, float *a, size_t bytes)
{
    if (!gpu) {
        memset(a, 0, bytes);
        return;
    }
    cs_op_fill(ce_device_stream(gpu, CE_COMPUTE), cs_vector(a, CS_F32, (int64_t)(bytes / sizeof(float))), 0);
    ce_stream_sync(ce_device_stream(gpu, CE_COMPUTE));
}

static void copy_vector(cs_device *gpu, float *b, const float *a, size_t bytes)
{
    if (gpu)
        ce_stream_copy(ce_device_stream(gpu, CE_COMM), b, a, bytes);
    else
        memcpy(b, a, bytes);
}

/* Runs one collective or copy, and waits until it is complete. `gpu` is the device whose memory has the vectors; NULL:
 * they are in host memory. Returns the seconds until the call returned; with a device, the work may complete later. */
static double run_once(cs_comm *comm, cs_device *gpu, int row, float *a, float *b, size_t bytes)
{
    int64_t count = (int64_t)(bytes / sizeof(float)), part = count / cs_comm_size(comm);
    double begun = ce_clock_seconds();
    switch (row) {
    case ALL_REDUCE:
        cs_comm_all_reduce(comm, a, count, CS_F32, CS_SUM);
        break;
    case REDUCE_SCATTER:
        cs_comm_reduce_scatter(comm, b, a, part, CS_F32, CS_SUM);
        break;
    case ALL_GATHER:
        cs_comm_all_gather(comm, b, a, part, CS_F32);
        break;
    case BROADCAST:
        cs_comm_broadcast(comm, a, count, CS_F32, 0);
        break;
    case REDUCE:
        cs_comm_reduce(comm, a, count, CS_F32, CS_SUM, 0);
        break;
    case SCATTER:
        cs_comm_scatter(comm, b, a, part, CS_F32, 0);
        break;
    case GATHER:
        cs_comm_gather(comm, b, a, part, CS_F32, 0);
        break;
    case ALL_TO_ALL:
        cs_comm_all_to_all(comm, b, a, part, CS_F32);
        break;
    default:
        copy_vector(gpu, b, a, bytes);
    }
    double took = ce_clock_seconds() - begun;
    if (gpu)
        ce_stream_sync(ce_device_stream(gpu, CE_COMM));
    return took;
}

static double slowest(cs_comm *comm, double seconds)
{
    double all[MAX_RANKS];
    cs_comm_all_gather(comm, all, &seconds, 1, CS_I64); /* the eight bytes of a double are gathered as one CS_I64 */
    for (int r = 0; r < cs_comm_size(comm); r++)
        seconds = all[r] > seconds ? all[r] : seconds;
    return seconds;
}

/* Returns the seconds of a collective or copy; *host becomes the seconds until the call returned. */
static double measure(cs_comm *comm, cs_device *gpu, int row, float *a, float *b, size_t bytes, double *host)
{
    double times[MAX_REPETITIONS], calls[MAX_REPETITIONS];
    int count = repetitions(bytes);
    for (int i = -2; i < count; i++) {
        write_vector(gpu, a, bytes);
        cs_comm_barrier(comm);
        double begun = ce_clock_seconds();
        double call = run_once(comm, gpu, row, a, b, bytes);
        double took = ce_clock_seconds() - begun;
        call = slowest(comm, call);
        took = slowest(comm, took);
        if (i >= 0) {
            times[i] = took;
            calls[i] = call;
        }
    }
    *host = median(calls, count);
    return median(times, count);
}

static void pin(int rank)
{
    cpu_set_t allowed, own;
    CPU_ZERO(&own);
    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        return;
    int turn = rank % CPU_COUNT(&allowed);
    for (size_t core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &allowed) && turn-- == 0)
            CPU_SET(core, &own);
    sched_setaffinity(0, sizeof own, &own);
}

static void measure_all(results *into, cs_comm *comm, cs_device *device)
{
    size_t max = into->largest;
    float *ways[2][2] = { { cs_comm_alloc(comm, max), cs_comm_alloc(comm, max) }, { malloc(max), malloc(max) } };
    for (int way = IN_PLACE; way <= STAGED; way++)
        for (int i = 0; i < 2; i++)
            write_vector(way == IN_PLACE ? device : NULL, ways[way][i], max);
    for (int i = 0; i < SIZE_COUNT; i++)
        for (int row = 0; row < ROW_COUNT && wanted(into, i); row++)
            for (int way = IN_PLACE; way <= STAGED; way++) {
                cs_device *gpu = way == IN_PLACE ? device : NULL;
                if (gpu && row >= REDUCE && row < OPERATION_COUNT)
                    continue; /* these collectives accept only host memory */
                double host = 0, seconds = measure(comm, gpu, row, ways[way][0], ways[way][1], size_at(i), &host);
                if (cs_comm_rank(comm) == 0)
                    into->seconds[way][row][i] = seconds;
                if (cs_comm_rank(comm) == 0 && way == IN_PLACE)
                    into->seconds[HOST][row][i] = host;
            }
    free(ways[STAGED][0]);
    free(ways[STAGED][1]);
}

static int run(void *argument)
{
    results *wish = argument;
    cs_world world;
    cs_comm *comm = NULL;
    cs_device *device = NULL;
    if (cs_world_read(&world) != CS_OK)
        return 1;
    pin(world.rank);
    ce_device_settings place = { .kind = wish->device, .local_rank = world.local_rank };
    if (wish->device && ce_device_open(&device, &place) != CS_OK)
        return 1;
    if (cs_comm_open(&comm, &world, &(cs_comm_settings){ .kind = wish->kind, .device = device }) != CS_OK)
        return 1;
    if (device && world.rank == 0)
        snprintf(wish->description, sizeof wish->description, "%s", ce_device_describe(device));
    measure_all(wish, comm, device && ce_device_has_own_memory(device) ? device : NULL);
    cs_comm_close(comm);
    ce_device_close(device);
    return 0;
}

/* Reads a peer's lines "OPERATION BYTES SECONDS" and ignores other lines. */
static void read_peer(results *into, int way, const char *command)
{
    FILE *pipe = popen(command, "r");
    char line[256], name[32];
    while (pipe && fgets(line, sizeof line, pipe)) {
        size_t bytes;
        double seconds;
        if (sscanf(line, "%31s %zu %lf", name, &bytes, &seconds) != 3)
            continue;
        for (int row = 0; row < OPERATION_COUNT; row++)
            for (int i = 0; i < SIZE_COUNT; i++)
                if (size_at(i) == bytes && strcmp(row_names[row], name) == 0)
                    into->seconds[way][row][i] = seconds;
    }
    if (pipe)
        pclose(pipe);
}

static bool build_mpi(char *program)
{
    char command[1024];
    if (system("command -v mpicc mpirun >/dev/null 2>&1") != 0 || !mkdtemp(program))
        return false;
    snprintf(command, sizeof command, "mpicc -O3 -o %s/comm_mpi %s/peers/comm_mpi.c", program, CS_TESTS);
    return system(command) == 0;
}

static void run_peers(results *into, int ranks, const char *mpi_folder, int round)
{
    char command[1024];
    const char *python = getenv("CSPEED_PEER_PYTHON");
    if (mpi_folder) {
        snprintf(command, sizeof command,
                 "mpirun --allow-run-as-root --oversubscribe --bind-to none -np %d %s/comm_mpi %zu %zu", ranks,
                 mpi_folder, into->smallest, into->largest);
        read_peer(into, MPI, command);
    }
    if (python && python[0]) {
        snprintf(
            command, sizeof command,
            "for r in $(seq 0 %d); do RANK=$r WORLD_SIZE=%d MASTER_ADDR=127.0.0.1 MASTER_PORT=%d OMP_NUM_THREADS=1 "
            "%s %s/peers/comm_gloo.py %zu %zu & done; wait",
            ranks - 1, ranks, 29600 + (getpid() + round) % 1000, python, CS_TESTS, into->smallest, into->largest);
        read_peer(into, GLOO, command);
    }
}

static void cell(double seconds, size_t bytes)
{
    if (seconds > 0)
        printf(" %10.1f %7.2f", seconds * 1e6, (double)bytes / seconds * 1e-9);
    else
        printf(" %10s %7s", "-", "-");
}

/* Returns true if the transport is TCP. Open MPI is then no peer, because on one host it uses shared memory; ratios are
 * printed for Gloo only. */
static bool is_tcp(const results *all)
{
    return strcmp(all->kind, "tcp") == 0;
}

static void print_head(const results *all, int ranks)
{
    printf("\n%s%s%s, %d ranks, median; us and GB/s of vector\n", all->kind, all->device ? " on " : "",
           all->description, ranks);
    if (strstr(all->description, "Emulated"))
        printf("the GPU is emulated: all times, those of the host too, are the emulator's\n");
    printf("%-14s %10s %18s %10s %18s %8s %18s %18s %22s %22s\n", "", "bytes", "in place", "host us", "staged",
           "of copy", "OpenMPI", "Gloo", is_tcp(all) ? "in place, Gloo" : "in place, best peer",
           is_tcp(all) ? "staged, Gloo" : "staged, OpenMPI");
}

/* Returns the seconds that the peer `way` took. If `way` is WAY_COUNT, returns the seconds of the faster peer. 0: not
 * measured. */
static double peer_seconds(const results *round, int way, int row, int i)
{
    double mpi = round->seconds[MPI][row][i], gloo = round->seconds[GLOO][row][i];
    if (way < WAY_COUNT)
        return round->seconds[way][row][i];
    return mpi > 0 && (gloo <= 0 || mpi < gloo) ? mpi : gloo;
}

/* Prints the ratio of a peer's time to cspeed's time: the median and the range over the rounds. */
static void print_ratio(const results *kept, int rounds, int own_way, int way, int row, int i)
{
    double ratios[MAX_ROUNDS];
    int count = 0;
    for (int round = 0; round < rounds; round++) {
        double peer = peer_seconds(&kept[round], way, row, i), own = kept[round].seconds[own_way][row][i];
        if (peer > 0 && own > 0)
            ratios[count++] = peer / own;
    }
    if (count == 0)
        return;
    double middle = median(ratios, count);
    printf(" %7.2fx (%5.2f-%5.2f)", middle, ratios[0], ratios[count - 1]);
}

static void print_row(const results *all, const results *kept, int rounds, int row, int i)
{
    double own = all->seconds[IN_PLACE][row][i];
    if (own <= 0)
        return;
    printf("%-14s %10zu", row_names[row], size_at(i));
    cell(own, size_at(i));
    printf(" %10.1f", all->seconds[HOST][row][i] * 1e6);
    cell(all->seconds[STAGED][row][i], size_at(i));
    printf(" %7.0f%%", 100 * all->seconds[IN_PLACE][COPY][i] / own);
    for (int way = MPI; way <= GLOO; way++)
        cell(all->seconds[way][row][i], size_at(i));
    print_ratio(kept, rounds, IN_PLACE, is_tcp(all) ? GLOO : WAY_COUNT, row, i);
    print_ratio(kept, rounds, STAGED, is_tcp(all) ? GLOO : MPI, row, i);
    printf("\n");
}

static void print(const results *all, const results *kept, int rounds, int ranks)
{
    print_head(all, ranks);
    for (int row = 0; row < ROW_COUNT; row++)
        for (int i = 0; i < SIZE_COUNT; i++)
            if (wanted(all, i))
                print_row(all, kept, rounds, row, i);
}

static void bench(results *page, int ranks, int rounds, bool peers, const char *mpi_folder)
{
    results *kept = calloc((size_t)rounds, sizeof *kept);
    double *cells = (double *)page->seconds;
    size_t count = sizeof page->seconds / sizeof(double);
    for (int round = 0; kept && round < rounds; round++) {
        memset(page->seconds, 0, sizeof page->seconds);
        CS_MUST(cs_spawn(ranks, run, page));
        if (peers)
            run_peers(page, ranks, mpi_folder, round);
        kept[round] = *page;
    }
    for (size_t i = 0; kept && i < count; i++) {
        double values[MAX_ROUNDS];
        for (int round = 0; round < rounds; round++)
            values[round] = ((double *)kept[round].seconds)[i];
        cells[i] = median(values, rounds);
    }
    if (kept)
        print(page, kept, rounds, ranks);
    free(kept);
}

static void remove_mpi(const char *folder)
{
    char path[64];
    snprintf(path, sizeof path, "%s/comm_mpi", folder);
    unlink(path);
    rmdir(folder);
}

int main(int count, char **words)
{
    int ranks = 0, rounds = 3, smallest = 1, largest = (int)size_at(SIZE_COUNT - 1);
    bool peers = false;
    char folder[] = "/tmp/cspeed-bench-XXXXXX";
    results *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return 1;
    page->kind = "shm";
    bench_arguments(count, words,
                    (const bench_option[]){ { "--kind", .word = &page->kind, .choices = "shm|tcp|nccl" },
                                            { "--device", .word = &page->device, .choices = "cuda" },
                                            { "--ranks", .number = &ranks, .min = 1, .max = MAX_RANKS },
                                            { "--rounds", .number = &rounds, .min = 1, .max = MAX_ROUNDS },
                                            { "--smallest", .number = &smallest, .min = 1, .max = INT_MAX },
                                            { "--largest", .number = &largest, .min = 1, .max = INT_MAX },
                                            { "--peers", .given = &peers },
                                            { .name = NULL } });
    page->smallest = (size_t)smallest;
    page->largest = (size_t)largest;
    bool any = false;
    for (int i = 0; i < SIZE_COUNT; i++)
        any |= wanted(page, i);
    bench_must_measure(any, "the sizes between --smallest and --largest");
    bool mpi = peers && build_mpi(folder);
    for (int n = ranks ? ranks : 2; n <= (ranks ? ranks : 4); n += 2)
        bench(page, n, rounds, peers, mpi ? folder : NULL);
    if (mpi)
        remove_mpi(folder);
    return 0;
}
