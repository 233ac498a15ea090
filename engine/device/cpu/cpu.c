/* cpu.c - the CPU device: its table of functions, its threads, its memory and its streams. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"
#include "device/cpu/gemm.h"
#include "base/plural.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE = 2 << 20 };

/* ---- opening ---- */

static int wanted_threads(const ce_device_settings *settings, int cores)
{
    if (settings->threads > 0)
        return settings->threads;
    const char *variable = getenv("OMP_NUM_THREADS");
    long given = variable ? strtol(variable, NULL, 10) : 0;
    if (given > 0 && given < 4096)
        return (int)given;
    int share = settings->local_ranks > 1 ? cores / settings->local_ranks : cores;
    return share > 1 ? share : 1;
}

bool ce_cpu_computes_bf16(const cs_device *device)
{
    const ce_product_choice *choice = &((const ce_cpu *)device->private_data)->choice;
    return choice->dtype == CS_BF16 && ce_products_methods(choice) & (1u << CE_METHOD_NATIVE | 1u << CE_METHOD_TILES);
}

static void describe(cs_device *device)
{
    snprintf(device->description, sizeof device->description, "cpu: %d thread%s, %s; %s", device->threads,
             ce_plural(device->threads), ce_isa_name(device->isa),
             ce_cpu_computes_bf16(device)
                 ? "bf16 matrices are multiplied in bf16; fp16 is only stored, and computed in fp32"
                 : "bf16 and fp16 are only stored, and computed in fp32");
}

static cs_status cpu_open(cs_device *device, const ce_device_settings *settings)
{
    ce_cpu *cpu = device->private_data = calloc(1, sizeof *cpu);
    if (!cpu)
        return ce_fail(CS_NO_MEMORY, "no memory for the CPU device");
    cpu_set_t allowed;
    /* An error means that there are more cores than a cpu_set_t can hold. Then the device counts one core only, the
     * core with the number 0. */
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        CPU_ZERO(&allowed);
        CPU_SET(0, &allowed);
    }
    int cores = CPU_COUNT(&allowed);
    int ranks = settings->local_ranks > 1 ? settings->local_ranks : 1;
    device->threads = wanted_threads(settings, cores);
    ce_matmul_quiet();
    if (device->isa < ce_isa_highest(ce_isa_available()))
        CE_TRY(ce_matmul_limit(device->isa));
    CE_TRY(ce_matmul_open(&cpu->matmul, device));
    /* the worker is opened before the team pins threads, so that it may run on any of the cores */
    if (cores / ranks > 1)
        CE_TRY(ce_worker_open(&cpu->worker));
    bool enough = device->threads * ranks <= cores;
    ce_team_shape shape = { .threads = device->threads,
                            .cores = enough && ranks == 1 ? &allowed : NULL,
                            .spin = enough };
    CE_TRY(ce_team_open(&cpu->team, &shape));
    describe(device);
    return CS_OK;
}

static void cpu_close(cs_device *device)
{
    ce_cpu *cpu = device->private_data;
    if (!cpu)
        return;
    ce_worker_close(cpu->worker);
    ce_team_close(cpu->team);
    ce_matmul_close(cpu->matmul);
    free(cpu);
    device->private_data = NULL;
}

/* ---- memory ---- */

/* Returns memory that begins on a huge page, and asks the system to use huge pages, because page faults make a step
 * much slower. */
static void *map_huge(size_t bytes)
{
    size_t whole = (size_t)ce_round_up((int64_t)bytes, HUGE);
    char *mapped = mmap(NULL, whole + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED)
        return NULL;
    char *start = (char *)(((uintptr_t)mapped + HUGE - 1) / HUGE * HUGE);
    size_t front = (size_t)(start - mapped);
    if (front)
        munmap(mapped, front);
    if (HUGE - front)
        munmap(start + whole, HUGE - front);
    madvise(start, whole, MADV_HUGEPAGE);
    return start;
}

static void *cpu_alloc(cs_device *device, size_t bytes)
{
    (void)device;
    if (bytes >= HUGE)
        return map_huge(bytes);
    size_t whole = (size_t)ce_round_up((int64_t)bytes + (bytes == 0), 64);
    void *memory = aligned_alloc(64, whole);
    return memory ? memset(memory, 0, whole) : NULL;
}

static void cpu_free(cs_device *device, void *memory, size_t bytes)
{
    (void)device;
    if (bytes >= HUGE)
        munmap(memory, (size_t)ce_round_up((int64_t)bytes, HUGE));
    else
        free(memory);
}

void *ce_cpu_workspace(cs_device *device, ce_cpu_use use, size_t bytes)
{
    ce_cpu *cpu = ce_cpu_of(device);
    if (cpu->bytes[use] < bytes) {
        ce_device_free(device, cpu->memory[use]);
        device->workspace += bytes - cpu->bytes[use];
        cpu->memory[use] = ce_device_alloc(device, bytes);
        cpu->bytes[use] = bytes;
    }
    return cpu->memory[use];
}

void ce_cpu_drop_workspaces(cs_device *device)
{
    ce_cpu *cpu = ce_cpu_of(device);
    for (int use = 0; use < CE_CPU_WORKSPACES; use++) {
        ce_device_free(device, cpu->memory[use]);
        device->workspace -= cpu->bytes[use];
        cpu->memory[use] = NULL;
        cpu->bytes[use] = 0;
    }
}

/* ---- instructions ---- */

static cs_status cpu_lower(cs_device *device, ce_isa isa)
{
    CE_TRY(ce_matmul_limit(isa));
    device->isa = isa;
    describe(device);
    return CS_OK;
}

/* ---- methods of products ---- */

unsigned ce_cpu_methods(cs_device *device, cs_dtype dtype, bool asked)
{
    ce_matmul_grade grade = ce_matmul_grade_of(ce_cpu_of(device)->matmul, dtype);
    unsigned methods = 1u << CE_METHOD_FIXED | 1u << CE_METHOD_SGEMM;
    if (ce_gemm_fits())
        methods |= 1u << CE_METHOD_PACKED;
    if (grade == CE_MATMUL_FAST || (asked && grade == CE_MATMUL_PLAIN))
        methods |= 1u << CE_METHOD_NATIVE;
    if (asked || device->isa == CE_ISA_AMX)
        methods |= dtype == CS_BF16 ? 1u << CE_METHOD_TILES : dtype == CS_F32 ? 1u << CE_METHOD_X6 : 0;
    if (asked && dtype == CS_F32)
        methods |= 1u << CE_METHOD_X3;
    return methods;
}

static void cpu_use_products(cs_device *device, const ce_product_choice *choice)
{
    ce_cpu_of(device)->choice = *choice;
    describe(device);
}

static const ce_product_choice *cpu_products(const cs_device *device)
{
    return &((const ce_cpu *)device->private_data)->choice;
}

/* Reads the processor's name from /proc/cpuinfo. On aarch64, /proc/cpuinfo does not contain the name; then the part
 * number is read instead. */
static void read_processor(char name[64])
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "re");
    strcpy(name, "unknown CPU");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "model name : %63[^\n]", name) == 1 || sscanf(line, "CPU part : %63[^\n]", name) == 1)
            break;
    if (file)
        fclose(file);
}

static const char *cpu_products_on(cs_device *device)
{
    char *text = ce_cpu_of(device)->products_on, processor[64], version[32];
    if (!*text) {
        read_processor(processor);
        ce_matmul_version(version);
        snprintf(text, sizeof ce_cpu_of(device)->products_on, "%s, %s, %s, %d thread%s", processor,
                 ce_isa_name(device->isa), version, device->threads, ce_plural(device->threads));
    }
    return text;
}

/* ---- threads ---- */

typedef struct {
    int64_t count, unit;
    int parts;
    ce_cpu_part *part;
    void *argument;
} walk;

int ce_cpu_parts(const cs_device *device, int64_t count, int64_t min)
{
    int64_t parts = count / min;
    return parts < 1 ? 1 : parts > device->threads ? device->threads : (int)parts;
}

static void run_part(void *argument, int index, int thread)
{
    (void)thread;
    const walk *all = argument;
    int64_t units = ce_divide_up(all->count, all->unit);
    ce_range range = ce_range_part(units, index, all->parts);
    range = (ce_range){ range.from * all->unit, range.to * all->unit };
    if (range.to > all->count)
        range.to = all->count;
    all->part(all->argument, range, index);
}

void ce_cpu_walk(cs_device *device, int64_t count, int64_t min, ce_cpu_part *part, void *argument)
{
    walk all = { count, min % 64 ? 1 : 64, ce_cpu_parts(device, count, min), part, argument };
    if (count > 0)
        ce_team_run(ce_cpu_of(device)->team, all.parts, run_part, &all);
}

typedef struct {
    int64_t columns;
    ce_cpu_chunk *chunk;
    ce_cpu_row_chunk *row_chunk;
    const void *argument;
} chunk_walk;

static void run_chunks(void *argument, ce_range range, int part)
{
    (void)part;
    const chunk_walk *all = argument;
    for (int64_t at = range.from; at < range.to; at += CE_CHUNK)
        all->chunk(all->argument, at, ce_elements_chunk(at, range.to));
}

static void run_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const chunk_walk *all = argument;
    for (int64_t row = range.from; row < range.to; row++)
        for (int64_t at = 0; at < all->columns; at += CE_CHUNK)
            all->row_chunk(all->argument, row, at, ce_elements_chunk(at, all->columns));
}

void ce_cpu_walk_chunks(cs_device *device, int64_t count, int64_t min, ce_cpu_chunk *chunk, const void *argument)
{
    ce_cpu_walk(device, count, min, run_chunks, &(chunk_walk){ .chunk = chunk, .argument = argument });
}

void ce_cpu_walk_rows(cs_device *device, int64_t rows, int64_t columns, int64_t min, ce_cpu_row_chunk *chunk,
                      const void *argument)
{
    ce_cpu_walk(device, rows, min, run_rows, &(chunk_walk){ columns, NULL, chunk, argument });
}

/* ---- streams ---- */

static ce_worker *worker_of(cs_stream *stream)
{
    return stream->role == CE_COMM ? ce_cpu_of(stream->device)->worker : NULL;
}

static void cpu_call(cs_stream *stream, void (*call)(void *argument), void *argument)
{
    if (worker_of(stream))
        ce_worker_give(worker_of(stream), call, argument);
    else
        call(argument);
}

static uint64_t cpu_record(cs_stream *stream)
{
    return worker_of(stream) ? ce_worker_given(worker_of(stream)) : 0;
}

/* Makes the calling thread wait for the event, whichever stream is given. Only the worker's calls can be incomplete:
 * the work of other streams is done by the thread that queues it, before the event is recorded. */
static void cpu_wait(cs_stream *stream, ce_event event)
{
    if (stream != event.stream && worker_of(event.stream))
        ce_worker_await(worker_of(event.stream), event.sequence);
}

static void cpu_copy(cs_stream *stream, void *to, const void *from, size_t bytes)
{
    (void)stream;
    memcpy(to, from, bytes);
}

static size_t cpu_free_bytes(cs_device *device)
{
    (void)device;
    return ce_host_free_bytes("", false);
}

const ce_device_table ce_device_cpu = {
    .kind = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .free_bytes = cpu_free_bytes,
    .roof = ce_cpu_roof,
    .lower = cpu_lower,
    .methods = ce_cpu_methods,
    .try_products = ce_cpu_try_products,
    .use_products = cpu_use_products,
    .products = cpu_products,
    .products_on = cpu_products_on,
    .call = cpu_call,
    .record = cpu_record,
    .wait = cpu_wait,
    .copy = cpu_copy,
#define OPERATION(name, parameters) .name = ce_cpu_##name,
#define FUSED(name, parameters)
#include "device/ops_list.h"
};
