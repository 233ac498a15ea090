/* cpu.c - the CPU device: its table of functions, its threads, memory and streams. */
#include "device/cpu/cpu.h"
#include "device/cpu/gemm.h"
#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { HUGE = 2 << 20 };

/* ---- opening ---- */

static int wanted_threads(const cs_device_settings *settings, int cores)
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

bool cs_cpu_computes_bf16(const cs_device *device)
{
    const cs_product_choice *choice = &((const cs_cpu *)device->own)->choice;
    return choice->dtype == CS_BF16 && cs_products_methods(choice) & 1u << CS_METHOD_NATIVE;
}

static void describe(cs_device *device)
{
    snprintf(device->description, sizeof device->description, "cpu: %d thread%s, %s; %s", device->threads,
             device->threads > 1 ? "s" : "", cs_isa_name(device->isa),
             cs_cpu_computes_bf16(device) ? "bf16 matrices are multiplied as bf16; fp16 is stored, fp32 computed"
                                          : "bf16 and fp16 are stored, fp32 computed");
}

static cs_status cpu_open(cs_device *device, const cs_device_settings *settings)
{
    cs_cpu *cpu = device->own = calloc(1, sizeof *cpu);
    if (!cpu)
        return cs_fail(CS_NO_MEMORY, "no memory for the CPU device");
    cpu_set_t allowed;
    /* An error means that there are more cores than a cpu_set_t can hold: threads are not pinned. */
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        CPU_ZERO(&allowed);
        CPU_SET(0, &allowed);
    }
    int cores = CPU_COUNT(&allowed);
    int ranks = settings->local_ranks > 1 ? settings->local_ranks : 1;
    device->threads = wanted_threads(settings, cores);
    cs_matmul_quiet();
    if (device->isa < cs_isa_highest(cs_isa_available()))
        CS_TRY(cs_matmul_limit(device->isa));
    CS_TRY(cs_matmul_open(&cpu->matmul, device));
    if (cores / ranks > 1) /* opened before the team, so that the worker may run on any of the cores */
        CS_TRY(cs_worker_open(&cpu->worker));
    bool own = device->threads * ranks <= cores;
    cs_team_shape shape = { .threads = device->threads, .cores = own && ranks == 1 ? &allowed : NULL, .spin = own };
    CS_TRY(cs_team_open(&cpu->team, &shape));
    describe(device);
    return CS_OK;
}

static void cpu_close(cs_device *device)
{
    cs_cpu *cpu = device->own;
    if (!cpu)
        return;
    cs_worker_close(cpu->worker);
    cs_team_close(cpu->team);
    cs_matmul_close(cpu->matmul);
    free(cpu);
    device->own = NULL;
}

/* ---- memory ---- */

/* Returns memory that begins on a huge page and asks the system for huge pages, because page faults make a step much
 * slower. */
static void *map_huge(size_t bytes)
{
    size_t whole = (size_t)cs_round_up((int64_t)bytes, HUGE);
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
    size_t whole = (size_t)cs_round_up((int64_t)bytes + (bytes == 0), 64);
    void *memory = aligned_alloc(64, whole);
    return memory ? memset(memory, 0, whole) : NULL;
}

static void cpu_free(cs_device *device, void *memory, size_t bytes)
{
    (void)device;
    if (bytes >= HUGE)
        munmap(memory, (size_t)cs_round_up((int64_t)bytes, HUGE));
    else
        free(memory);
}

void *cs_cpu_workspace(cs_device *device, cs_cpu_use use, size_t bytes)
{
    cs_cpu *cpu = cs_cpu_of(device);
    if (cpu->bytes[use] < bytes) {
        cs_device_free(device, cpu->memory[use]);
        device->workspace += bytes - cpu->bytes[use];
        cpu->memory[use] = cs_device_alloc(device, bytes);
        cpu->bytes[use] = bytes;
    }
    return cpu->memory[use];
}

void cs_cpu_drop_workspaces(cs_device *device)
{
    cs_cpu *cpu = cs_cpu_of(device);
    for (int use = 0; use < CS_CPU_WORKSPACES; use++) {
        cs_device_free(device, cpu->memory[use]);
        device->workspace -= cpu->bytes[use];
        cpu->memory[use] = NULL;
        cpu->bytes[use] = 0;
    }
}

/* ---- instructions ---- */

static cs_status cpu_lower(cs_device *device, cs_isa isa)
{
    CS_TRY(cs_matmul_limit(isa));
    device->isa = isa;
    describe(device);
    return CS_OK;
}

/* ---- methods of products ---- */

unsigned cs_cpu_methods(cs_device *device, cs_dtype dtype, bool slow)
{
    cs_matmul_grade grade = cs_matmul_grade_of(cs_cpu_of(device)->matmul, dtype);
    unsigned methods = 1u << CS_METHOD_FIXED | 1u << CS_METHOD_SGEMM;
    if (cs_gemm_fits())
        methods |= 1u << CS_METHOD_PACKED;
    if (grade == CS_MATMUL_FAST || (slow && grade == CS_MATMUL_PLAIN))
        methods |= 1u << CS_METHOD_NATIVE;
    return methods;
}

static void cpu_use_products(cs_device *device, const cs_product_choice *choice)
{
    cs_cpu_of(device)->choice = *choice;
    describe(device);
}

static const cs_product_choice *cpu_products(const cs_device *device)
{
    return &((const cs_cpu *)device->own)->choice;
}

/* The processor's name in /proc/cpuinfo; aarch64 has none there, but a number. */
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
    char *text = cs_cpu_of(device)->products_on, processor[64], version[32];
    if (!*text) {
        read_processor(processor);
        cs_matmul_version(version);
        snprintf(text, sizeof cs_cpu_of(device)->products_on, "%s, %s, %s, %d thread%s", processor,
                 cs_isa_name(device->isa), version, device->threads, device->threads > 1 ? "s" : "");
    }
    return text;
}

/* ---- threads ---- */

typedef struct {
    int64_t count, unit;
    int parts;
    cs_cpu_part *part;
    void *argument;
} walk;

int cs_cpu_parts(const cs_device *device, int64_t count, int64_t min)
{
    int64_t parts = count / min;
    return parts < 1 ? 1 : parts > device->threads ? device->threads : (int)parts;
}

static void run_part(void *argument, int index, int thread)
{
    (void)thread;
    const walk *all = argument;
    int64_t units = (all->count + all->unit - 1) / all->unit;
    cs_range range = cs_range_part(units, index, all->parts);
    range = (cs_range){ range.from * all->unit, range.to * all->unit };
    if (range.to > all->count)
        range.to = all->count;
    all->part(all->argument, range, index);
}

void cs_cpu_walk(cs_device *device, int64_t count, int64_t min, cs_cpu_part *part, void *argument)
{
    walk all = { count, min % 64 ? 1 : 64, cs_cpu_parts(device, count, min), part, argument };
    if (count > 0)
        cs_team_run(cs_cpu_of(device)->team, all.parts, run_part, &all);
}

/* ---- streams ---- */

static cs_worker *worker_of(cs_stream *stream)
{
    return stream->role == CS_COMM ? cs_cpu_of(stream->device)->worker : NULL;
}

static void cpu_call(cs_stream *stream, void (*call)(void *argument), void *argument)
{
    if (worker_of(stream))
        cs_worker_give(worker_of(stream), call, argument);
    else
        call(argument);
}

static uint64_t cpu_record(cs_stream *stream)
{
    return worker_of(stream) ? cs_worker_given(worker_of(stream)) : 0;
}

/* The caller waits, whichever stream the argument is: calls in the worker never wait for the compute stream. */
static void cpu_wait(cs_stream *stream, cs_event event)
{
    if (stream != event.stream && worker_of(event.stream))
        cs_worker_await(worker_of(event.stream), event.sequence);
}

static void cpu_copy(cs_stream *stream, void *to, const void *from, size_t bytes)
{
    (void)stream;
    memcpy(to, from, bytes);
}

static size_t cpu_room(cs_device *device)
{
    (void)device;
    return cs_cpu_room("");
}

const cs_device_table cs_device_cpu = {
    .kind = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .room = cpu_room,
    .roof = cs_cpu_roof,
    .lower = cpu_lower,
    .methods = cs_cpu_methods,
    .try_products = cs_cpu_try_products,
    .use_products = cpu_use_products,
    .products = cpu_products,
    .products_on = cpu_products_on,
    .call = cpu_call,
    .record = cpu_record,
    .wait = cpu_wait,
    .copy = cpu_copy,
#define OPERATION(name, parameters) .name = cs_cpu_##name,
#define FUSED(name, parameters)
#include "device/ops_list.h"
};
