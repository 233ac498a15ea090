/* cpu.h - inside the CPU device: threads, workspace, oneDNN's door, and the kernels of the row.
 *
 * Kernels split their work into parts that shapes and the number of threads decide, so that the bits of a result do
 * not depend on which thread came first. Workspace grows to what the largest call needs and stays. */
#ifndef CS_DEVICE_CPU_CPU_H
#define CS_DEVICE_CPU_CPU_H

#include <sched.h>

#include "base/range.h"
#include "device/table.h"

/* ---- team.c: the pinned threads; the caller is thread 0 ---- */
typedef struct cs_team cs_team;
typedef struct {
    int threads;
    const cpu_set_t *cores; /* one a thread, in order; NULL: not pinned   */
    bool spin;              /* before sleeping; only where each thread has a core */
} cs_team_shape;
typedef void cs_team_task(void *argument, int index, int thread);

cs_status cs_team_open(cs_team **team, const cs_team_shape *shape);
void cs_team_close(cs_team *team); /* accepts NULL */
/* Runs all tasks, each once. The thread that opened the team has it; any other, and a task of a round, runs its
 * tasks itself, as thread 0. */
void cs_team_run(cs_team *team, int tasks, cs_team_task *task, void *argument);

/* ---- stream.c: the comm stream's worker ---- */
typedef struct cs_worker cs_worker;
cs_status cs_worker_open(cs_worker **worker);
void cs_worker_close(cs_worker *worker); /* accepts NULL; what was given is done first */
void cs_worker_give(cs_worker *worker, void (*call)(void *argument), void *argument);
uint64_t cs_worker_given(cs_worker *worker);
void cs_worker_await(cs_worker *worker, uint64_t sequence);

/* ---- matmul.c: oneDNN's one door ---- */
typedef struct cs_matmul cs_matmul;

/* c (m, n) = beta c + op(a) op(b), row-major with leading dimensions. */
typedef struct {
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    float beta;
} cs_panel;

cs_status cs_matmul_open(cs_matmul **matmul, cs_device *device);
void cs_matmul_close(cs_matmul *matmul); /* accepts NULL */
void cs_matmul_quiet(void);              /* this thread's OpenMP regions have one thread from now on */
const char *cs_matmul_isa(void);
/* Whether products of this type go to oneDNN's primitives, without fp32 copies. No, when it is opened. */
bool cs_matmul_native(const cs_matmul *matmul, cs_dtype dtype);
void cs_matmul_set_native(cs_matmul *matmul, bool native); /* of bf16 */
/* What oneDNN has for products of this type on this CPU: nothing, its reference loops, or code for the CPU. */
typedef enum { CS_MATMUL_NONE, CS_MATMUL_PLAIN, CS_MATMUL_FAST } cs_matmul_grade;
cs_matmul_grade cs_matmul_grade_of(cs_matmul *matmul, cs_dtype dtype);
void cs_matmul_sgemm(const cs_panel *panel, const float *a, const float *b, float *c);

/* A panel and its types, for which oneDNN makes a primitive. */
typedef struct {
    cs_panel panel;     /* beta 0 or 1        */
    cs_dtype dtype, to; /* of a, b and bias; of c */
    bool bias;
} cs_matmul_shape;
typedef struct {
    const void *a, *b, *bias; /* bias (n), or NULL */
    void *c, *scratch;        /* scratch: the thread's own */
} cs_matmul_operands;

/* One thread prepares all panels of a product, then its threads run them. Returns the bytes of scratch that a thread
 * which runs this shape needs. */
size_t cs_matmul_prepare(cs_matmul *matmul, const cs_matmul_shape *shape);
void cs_matmul_run(cs_matmul *matmul, const cs_matmul_shape *shape, const cs_matmul_operands *with, int thread);

/* ---- cpu.c ---- */
typedef enum { CS_CPU_LEFT, CS_CPU_RIGHT, CS_CPU_RESULT, CS_CPU_SCRATCH, CS_CPU_WORKSPACES } cs_cpu_use;

typedef struct {
    cs_team *team;
    cs_worker *worker; /* NULL: the comm stream runs in the caller */
    cs_matmul *matmul;
    void *memory[CS_CPU_WORKSPACES];
    size_t bytes[CS_CPU_WORKSPACES];
} cs_cpu;

static inline cs_cpu *cs_cpu_of(cs_device *device)
{
    return device->own;
}

/* At least `bytes`, 64-aligned, undefined content; valid until the next request for the same use. */
void *cs_cpu_workspace(cs_device *device, cs_cpu_use use, size_t bytes);
void cs_cpu_drop_workspaces(cs_device *device);

/* ---- how bf16 matrices are multiplied: device.h's cs_device_native and its neighbours ---- */
bool cs_cpu_native(const cs_device *device);
bool cs_cpu_has_native(cs_device *device);
double cs_cpu_native_gain(cs_device *device); /* trial.c */
bool cs_cpu_set_native(cs_device *device, bool native);

/* Cuts [0, count) into at most `threads` parts of at least `least` and walks them in parallel; part borders are
 * multiples of 64 when least is. */
typedef void cs_cpu_part(void *argument, cs_range range, int part);
int cs_cpu_parts(const cs_device *device, int64_t count, int64_t min);
void cs_cpu_walk(cs_device *device, int64_t count, int64_t min, cs_cpu_part *part, void *argument);

/* ---- the kernels ---- */
#define OPERATION(name, parameters) void cs_cpu_##name parameters;
#define FUSED(name, parameters) /* ops.c composes these on the CPU */
#include "device/ops_list.h"

double cs_cpu_roof(cs_device *device, cs_dtype dtype);
/* room.c: bytes of the host's memory that this process may still take, which is also that of the host's other
 * processes; 0: not known. `root` is put in front of the paths of /proc and /sys: "". */
size_t cs_cpu_room(const char *root);

#endif
