/* mutants.c - breaks one call of tensor parallelism at a time, so that test_mutants sees whether test_tensor_parallel
 * notices it. Only test_tensor_parallel is linked with these functions (the linker's --wrap), so the product has no trace
 * of them.
 *
 * A site is the address behind a call of one of the wrapped functions, relative to this file's code. With
 * CSPEED_MUTANTS_LIST=FILE the program writes the sites that it has called to FILE. With CSPEED_MUTANT=SITE:KIND the calls
 * at this site are broken: "skip" leaves the exchange between ranks out, or a rank takes itself for the first one of its
 * lane, or a lane for a rank; "double" exchanges twice. */
#include "mesh/mesh.h"
#include "unit/pass.h"
#include "zero/part.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SITES = 256, NAME = 64 };
typedef struct {
    atomic_int lock;
    int count;
    pid_t owner;
    struct {
        long long place;
        char name[NAME];
        bool exchanges;
    } site[SITES];
} table;

typedef enum { WHOLE, SKIP, DOUBLE } fault;

static table *sites;
static long long broken;
static fault kind;
static _Thread_local fault now; /* how the exchanges of the call that runs are broken */

static void write_sites(void)
{
    FILE *file = getpid() == sites->owner ? fopen(getenv("CSPEED_MUTANTS_LIST"), "w") : NULL;
    for (int i = 0; file && i < sites->count; i++)
        fprintf(file, "%lld %s %s\n", sites->site[i].place, sites->site[i].exchanges ? "skip,double" : "skip",
                sites->site[i].name);
    if (file)
        fclose(file);
}

__attribute__((constructor)) static void begin(void)
{
    const char *given = getenv("CSPEED_MUTANT");
    if (given) {
        broken = strtoll(given, NULL, 10);
        kind = strstr(given, "double") ? DOUBLE : SKIP;
    }
    if (!getenv("CSPEED_MUTANTS_LIST"))
        return;
    sites = mmap(NULL, sizeof *sites, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    sites->owner = getpid();
    atexit(write_sites);
}

static void record(long long place, const void *caller, bool exchanges)
{
    Dl_info info;
    while (atomic_exchange(&sites->lock, 1))
        ;
    int at = 0;
    while (at < sites->count && sites->site[at].place != place)
        at++;
    if (at == sites->count && at < SITES) {
        bool named = dladdr(caller, &info) && info.dli_sname;
        sites->site[at].place = place;
        sites->site[at].exchanges = exchanges;
        snprintf(sites->site[at].name, NAME, "%s", named ? info.dli_sname : "?");
        sites->count++;
    }
    atomic_store(&sites->lock, 0);
}

/* Returns how the call that returns to `caller` is broken. */
static fault fault_at(const void *caller, bool exchanges)
{
    long long place = (const char *)caller - (const char *)(uintptr_t)begin;
    if (sites)
        record(place, caller, exchanges);
    return kind != WHOLE && place == broken ? kind : WHOLE;
}

#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

/* A broken program ends at its first failed assertion. */
void __real__ck_assert_failed(const char *file, int line, const char *expr, const char *msg, ...);
void __wrap__ck_assert_failed(const char *file, int line, const char *expr, const char *msg, ...);
void __wrap__ck_assert_failed(const char *file, int line, const char *expr, const char *msg, ...)
{
    char text[1024] = "";
    va_list list;
    va_start(list, msg);
    if (msg)
        vsnprintf(text, sizeof text, msg, list);
    va_end(list);
    if (kind != WHOLE) {
        printf("%s:%d: %s %s\n", file, line, expr, text);
        fflush(stdout);
        _exit(1);
    }
    __real__ck_assert_failed(file, line, expr, msg ? "%s" : NULL, text, NULL);
}

/* ---- collectives: broken while a call at the broken site runs ---- */

void __real_cs_comm_all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op);
void __wrap_cs_comm_all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op);
void __wrap_cs_comm_all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    for (int times = now == SKIP ? 0 : now == DOUBLE ? 2 : 1; times > 0; times--)
        __real_cs_comm_all_reduce(comm, data, count, dtype, op);
}

/* Without the exchange the parts of the other ranks are zero; exchanged twice, they are moved by one rank. */
void __real_cs_comm_all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
void __wrap_cs_comm_all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
void __wrap_cs_comm_all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype), ranks = (size_t)cs_comm_size(comm);
    __real_cs_comm_all_gather(comm, out, in, count, dtype);
    for (size_t rank = 0; now == SKIP && rank < ranks; rank++)
        if (rank != (size_t)cs_comm_rank(comm))
            memset((char *)out + rank * bytes, 0, bytes);
    if (now == DOUBLE)
        memmove((char *)out + bytes, out, (ranks - 1) * bytes);
}

void __real_cs_comm_reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype,
                                   cs_reduce_op op);
void __wrap_cs_comm_reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype,
                                   cs_reduce_op op);
void __wrap_cs_comm_reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype,
                                   cs_reduce_op op)
{
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype);
    if (now == SKIP)
        memmove(out, (const char *)in + (size_t)cs_comm_rank(comm) * bytes, bytes);
    else
        __real_cs_comm_reduce_scatter(comm, out, in, count, dtype, op);
    for (int64_t i = 0; now == DOUBLE && dtype == CS_F32 && i < count; i++)
        ((float *)out)[i] *= 2;
}

/* The same calls beside operations. A broken one is made at once; then a call of no elements is waited for. */
cs_work *__real_cs_comm_iall_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op);
cs_work *__wrap_cs_comm_iall_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op);
cs_work *__wrap_cs_comm_iall_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    if (now != WHOLE)
        __wrap_cs_comm_all_reduce(comm, data, count, dtype, op);
    return __real_cs_comm_iall_reduce(comm, data, now == WHOLE ? count : 0, dtype, op);
}

cs_work *__real_cs_comm_iall_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
cs_work *__wrap_cs_comm_iall_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
cs_work *__wrap_cs_comm_iall_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    if (now != WHOLE)
        __wrap_cs_comm_all_gather(comm, out, in, count, dtype);
    return __real_cs_comm_iall_gather(comm, out, in, now == WHOLE ? count : 0, dtype);
}

cs_work *__real_cs_comm_ireduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype,
                                        cs_reduce_op op);
cs_work *__wrap_cs_comm_ireduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype,
                                        cs_reduce_op op);
cs_work *__wrap_cs_comm_ireduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype,
                                        cs_reduce_op op)
{
    if (now != WHOLE)
        __wrap_cs_comm_reduce_scatter(comm, out, in, count, dtype, op);
    return __real_cs_comm_ireduce_scatter(comm, out, in, now == WHOLE ? count : 0, dtype, op);
}

/* ---- sites ---- */

#define EXCHANGE(result, name, parameters, arguments, ranks)                                                           \
    result __real_##name parameters;                                                                                   \
    result __wrap_##name parameters;                                                                                   \
    result __wrap_##name parameters                                                                                    \
    {                                                                                                                  \
        if ((ranks) < 2)                                                                                               \
            return __real_##name arguments;                                                                            \
        now = fault_at(CALLER, true);                                                                                  \
        result got = __real_##name arguments;                                                                          \
        now = WHOLE;                                                                                                   \
        return got;                                                                                                    \
    }
#define EXCHANGE_ONLY(name, parameters, arguments, ranks)                                                              \
    void __real_##name parameters;                                                                                     \
    void __wrap_##name parameters;                                                                                     \
    void __wrap_##name parameters                                                                                      \
    {                                                                                                                  \
        now = (ranks) < 2 ? WHOLE : fault_at(CALLER, true);                                                            \
        __real_##name arguments;                                                                                       \
        now = WHOLE;                                                                                                   \
    }
EXCHANGE_ONLY(ce_pass_sum, (cs_pass * pass, cs_tensor x), (pass, x), ce_pass_ranks(pass))
EXCHANGE_ONLY(ce_pass_gather, (cs_pass * pass, cs_tensor all, cs_tensor x), (pass, all, x), ce_pass_ranks(pass))
EXCHANGE_ONLY(ce_pass_sum_rows_into, (cs_pass * pass, cs_tensor own, cs_tensor y), (pass, own, y), ce_pass_ranks(pass))
EXCHANGE_ONLY(ce_copies_add, (const ce_shard *shard, float *row), (shard, row), 2)
EXCHANGE_ONLY(ce_copies_finish, (const ce_shard *shard), (shard), 2)
EXCHANGE(cs_tensor, ce_pass_gather_rows, (cs_pass * pass, cs_tensor x), (pass, x), ce_pass_ranks(pass))
EXCHANGE(cs_tensor, ce_pass_sum_rows, (cs_pass * pass, cs_tensor y), (pass, y), ce_pass_ranks(pass))
EXCHANGE(cs_tensor, ce_pass_begin_gather_rows, (cs_pass * pass, cs_tensor x), (pass, x), ce_pass_ranks(pass))
EXCHANGE(cs_tensor, ce_pass_begin_sum_rows, (cs_pass * pass, cs_tensor y), (pass, y), ce_pass_ranks(pass))

/* `wrong` is what a broken call returns. */
#define VALUE(result, name, parameters, arguments, ranks, wrong)                                                       \
    result __real_##name parameters;                                                                                   \
    result __wrap_##name parameters;                                                                                   \
    result __wrap_##name parameters                                                                                    \
    {                                                                                                                  \
        return (ranks) > 1 && fault_at(CALLER, false) ? (wrong) : __real_##name arguments;                             \
    }
VALUE(int, ce_pass_rank, (const cs_pass *pass), (pass), ce_pass_ranks(pass), 0)
VALUE(bool, ce_mesh_leads, (const ce_mesh *mesh), (mesh), mesh->size[CE_AXIS_TP], true)
VALUE(int, ce_mesh_lanes, (const ce_mesh *mesh), (mesh), mesh->size[CE_AXIS_TP],
      __real_ce_mesh_lanes(mesh) * mesh->size[CE_AXIS_TP])
VALUE(int, ce_mesh_lane, (const ce_mesh *mesh), (mesh), mesh->size[CE_AXIS_TP], ce_mesh_rank(mesh))

/* A call that is left out: a parameter whose gradient counts as whole, although this rank computes only some terms of it,
 * or an operation that does not wait for an exchange beside it. */
#define LEFT_OUT(name, parameters, arguments)                                                                          \
    void __real_##name parameters;                                                                                     \
    void __wrap_##name parameters;                                                                                     \
    void __wrap_##name parameters                                                                                      \
    {                                                                                                                  \
        if (fault_at(CALLER, false) == WHOLE)                                                                          \
            __real_##name arguments;                                                                                   \
    }
LEFT_OUT(ce_cut_partial, (cs_param * param), (param))
LEFT_OUT(ce_cut_rows, (cs_param * param, const cs_unit *unit), (param, unit))
LEFT_OUT(ce_pass_finish, (cs_pass * pass), (pass))
