/* memory_fit.c - checks before allocation that a run fits into device memory. The error message lists the sizes. */
#include "setup/setup.h"
#include "base/plural.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define MB 1e-6

static size_t add_line(char *text, size_t capacity, size_t used, const char *what, size_t bytes)
{
    if (bytes == 0 || used >= capacity)
        return used;
    return used + (size_t)snprintf(text + used, capacity - used, "\n  %-32s %12.1f MB", what, (double)bytes * MB);
}

/* Lists settings that would reduce memory and that this run does not use. */
static void advise(const cs_engine *engine, char *text, size_t capacity)
{
    const ce_settings *settings = engine->settings;
    const char *stage = engine->world.size == 1 ? "more ranks with zero_optimization.stage 3, "
                        : settings->stage < 3   ? "a higher zero_optimization.stage, "
                                                : "more ranks, ";
    const ce_zero *zero = &engine->zero;
    bool can_offload = ce_device_has_own_memory(engine->device) && !zero->across;
    bool optimizer = can_offload && zero->stage.optim == CE_SHARDED && !zero->offload_optimizer;
    bool params = can_offload && zero->stage.params == CE_SHARDED && !zero->offload_params;
    snprintf(text, capacity, "%s%s%s%s%s%sor a shorter cspeed.data.seq_len", stage,
             optimizer ? "zero_optimization.offload_optimizer, " : "",
             params ? "zero_optimization.offload_param, " : "",
             settings->micro_batch > 1 ? "a smaller train_micro_batch_size_per_gpu, " : "",
             settings->recompute == CE_RECOMPUTE_UNIT ? "" : "cspeed.recompute \"unit\", ",
             settings->precision.values == CS_F32 ? "bf16.enabled, " : "");
}

/* Returns CS_NO_MEMORY if the host's free memory is too small for the offloaded state of its ranks, and for the copies
 * for saving. All ranks of the host read the free size before any of them allocates. */
static cs_status check_host(const cs_engine *engine)
{
    const cs_memory *m = &engine->memory;
    int sharers = engine->world.local_size;
    size_t needed = m->offloaded + m->pinned + m->copy, available = ce_host_free_bytes("", true) / (size_t)sharers;
    cs_comm_barrier(engine->comm);
    if (available == 0 || needed <= available)
        return CS_OK;
    return ce_fail(
        CS_NO_MEMORY,
        "rank %d needs %.1f MB of the host's memory for offloaded state and for saving, but %.1f MB are free for "
        "each of the %d rank%s of its host\nwhat helps: fewer ranks on a host, or training without "
        "zero_optimization.offload_param or offload_optimizer",
        engine->world.rank, (double)needed * MB, (double)available * MB, sharers, ce_plural(sharers));
}

/* Returns the bytes of device memory that this rank may allocate, or 0 if the number is not known. The CPU ranks of one
 * host share the host's memory; a barrier ensures that all these ranks read the free size before any rank allocates. */
static size_t find_free_memory(const cs_engine *engine, int *sharers)
{
    bool cpu = strcmp(ce_device_kind(engine->device), "cpu") == 0;
    size_t available = ce_device_free_bytes(engine->device);
    *sharers = cpu && engine->world.local_size > 1 ? engine->world.local_size : 1;
    if (cpu)
        cs_comm_barrier(engine->comm);
    size_t share = available / (size_t)*sharers;
    return available > 0 && share == 0 ? 1 : share; /* 0 would mean that the number is not known */
}

cs_status ce_memory_fit_address_space(void)
{
    enum { RESERVE_MB = 64 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return CS_OK;
    void *reserve = mmap(NULL, (size_t)RESERVE_MB << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserve == MAP_FAILED)
        return ce_fail(
            CS_NO_MEMORY,
            "no memory: the limit of the address space (ulimit -v) is %.1f MB, and less than %d MB of it are "
            "left for the libraries that compute; raise the limit",
            (double)limit.rlim_cur * MB, RESERVE_MB);
    munmap(reserve, (size_t)RESERVE_MB << 20);
    return CS_OK;
}

cs_status ce_memory_fit_check(const cs_engine *engine)
{
    const cs_memory *m = &engine->memory;
    const struct {
        const char *what;
        size_t bytes;
    } parts[] = {
        { "parameters", m->values },
        { "gradients", m->gradients },
        { "fp32 masters", m->masters },
        { "optimizer states", m->slots },
        { "gathered parameters in flight", m->value_rows },
        { "unreduced gradients in flight", m->gradient_rows },
        { "activations of a micro-batch", m->activations },
    };
    int sharers;
    size_t total = 0, used = 0, available = find_free_memory(engine, &sharers);
    char table[1024] = "", advice[512], share[64] = "";
    if (engine->zero.offload_optimizer || engine->zero.offload_params)
        CE_TRY(check_host(engine));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        total += parts[i].bytes;
        used = add_line(table, sizeof table, used, parts[i].what, parts[i].bytes);
    }
    total -= m->offloaded;
    used = add_line(table, sizeof table, used, "parts of these in host memory", m->offloaded);
    if (available == 0 || total <= available)
        return CS_OK;
    advise(engine, advice, sizeof advice);
    if (sharers > 1)
        snprintf(share, sizeof share, " for each of the %d ranks of its host", sharers);
    return ce_fail(CS_NO_MEMORY, "rank %d needs %.1f MB on its device, %s, but %.1f MB are free%s:%s\nwhat helps: %s",
                   engine->world.rank, (double)total * MB, ce_device_describe(engine->device), (double)available * MB,
                   share, table, advice);
}
