/* cpu.h - the CPU device, for the files of this folder: the device's threads, its workspace, its interface to oneDNN,
 * and the declarations of its kernels.
 *
 * A kernel splits its work into parts. The parts depend only on the shapes and the number of threads. So a kernel gives
 * the same bits in whatever order the threads run. A workspace grows to the size that the largest call needs, and does
 * not shrink. */
#ifndef CE_DEVICE_CPU_CPU_H
#define CE_DEVICE_CPU_CPU_H

#include <sched.h>

#include "base/range.h"
#include "device/table.h"

/* ---- team.c: a pool of pinned threads; the caller is thread 0 ---- */
typedef struct ce_team ce_team;
typedef struct {
    int threads;
    const cpu_set_t *cores; /* one core for each thread, in the order of threads; NULL: threads are not pinned */
    /* True if a waiting thread spins before it sleeps. This helps only if each thread has its own core. */
    bool spin;
} ce_team_shape;
typedef void ce_team_task(void *argument, int index, int thread);

cs_status ce_team_open(ce_team **team, const ce_team_shape *shape);
void ce_team_close(ce_team *team); /* accepts NULL */
/* Runs each task once and returns when all tasks are complete. Only the thread that opened the team uses the team's
 * threads. If another thread or a task calls this function, it runs the tasks itself, as thread 0. */
void ce_team_run(ce_team *team, int tasks, ce_team_task *task, void *argument);

/* ---- stream.c: the worker thread of the comm stream ---- */
typedef struct ce_worker ce_worker;
cs_status ce_worker_open(ce_worker **worker);
void ce_worker_close(ce_worker *worker); /* accepts NULL; first runs all queued calls */
void ce_worker_give(ce_worker *worker, void (*call)(void *argument), void *argument);
uint64_t ce_worker_given(ce_worker *worker);
void ce_worker_await(ce_worker *worker, uint64_t sequence);

/* ---- matmul.c: the only file that includes oneDNN's header ---- */
typedef struct ce_matmul ce_matmul;

/* Describes the product c (m, n) = beta c + op(a) op(b). All matrices are row-major with leading dimensions. */
typedef struct {
    bool transpose_a, transpose_b;
    int64_t m, n, k;
    int64_t lda, ldb, ldc;
    float beta;
} ce_panel;

cs_status ce_matmul_open(ce_matmul **matmul, cs_device *device);
void ce_matmul_close(ce_matmul *matmul); /* accepts NULL */
void ce_matmul_quiet(void);              /* makes OpenMP regions of the calling thread use one thread */
/* Limits oneDNN to the set of instructions `isa` and the lower sets (isa.h). Fails with CS_UNSUPPORTED if oneDNN
 * already uses instructions of a higher set. */
cs_status ce_matmul_limit(ce_isa isa);
void ce_matmul_version(char text[32]); /* writes the version, for example "oneDNN 2.6.3" */
/* What oneDNN offers for products of a type on this CPU: nothing, reference loops, or optimized code. */
typedef enum { CE_MATMUL_NONE, CE_MATMUL_PLAIN, CE_MATMUL_FAST } ce_matmul_grade;
ce_matmul_grade ce_matmul_grade_of(ce_matmul *matmul, cs_dtype dtype);
void ce_matmul_sgemm(const ce_panel *panel, const float *a, const float *b, float *c);

/* The shape and types of a panel. A panel is one thread's part of a product. oneDNN's primitives are stored in a table
 * whose key is a ce_matmul_shape. */
typedef struct {
    ce_panel panel;     /* beta is 0 or 1 */
    cs_dtype dtype, to; /* `dtype`: the type of a, b and the bias; `to`: the type of c */
    bool bias;
} ce_matmul_shape;
typedef struct {
    const void *a, *b, *bias; /* `bias`: n elements; NULL: no bias is added */
    void *c, *scratch;        /* `scratch`: scratch memory of this thread */
} ce_matmul_operands;

/* Prepares oneDNN's primitive for panels of this shape. One thread prepares all panels of a product, before the threads
 * compute the panels. Returns the bytes of scratch memory that each thread needs for this shape. */
size_t ce_matmul_prepare(ce_matmul *matmul, const ce_matmul_shape *shape);
void ce_matmul_run(ce_matmul *matmul, const ce_matmul_shape *shape, const ce_matmul_operands *with, int thread);

/* ---- cpu.c ---- */
typedef enum { CE_CPU_LEFT, CE_CPU_RIGHT, CE_CPU_RESULT, CE_CPU_SCRATCH, CE_CPU_WORKSPACES } ce_cpu_use;

typedef struct {
    ce_team *team;
    ce_worker *worker; /* the worker of the comm stream; NULL: the caller runs the calls of the comm stream itself */
    ce_matmul *matmul;
    /* the chosen methods; in a new device all members are zero, and each product uses FIXED */
    ce_product_choice choice;
    char products_on[160]; /* the result of ce_device_products_on; "" before the first call of that function */
    void *memory[CE_CPU_WORKSPACES];
    size_t bytes[CE_CPU_WORKSPACES];
} ce_cpu;

static inline ce_cpu *ce_cpu_of(cs_device *device)
{
    return device->private_data;
}

/* Returns at least `bytes` bytes of memory, aligned to 64, with undefined content. The memory is valid until the next
 * request for the same use. */
void *ce_cpu_workspace(cs_device *device, ce_cpu_use use, size_t bytes);
void ce_cpu_drop_workspaces(cs_device *device);

/* ---- methods of products, see device/products.h ---- */
/* Returns true if the device uses the method NATIVE or TILES for at least one class of products of bf16 matrices. Then
 * attention, too, multiplies bf16 matrices without fp32 copies. */
bool ce_cpu_computes_bf16(const cs_device *device);
unsigned ce_cpu_methods(cs_device *device, cs_dtype dtype, bool asked);
void ce_cpu_try_products(cs_device *device, ce_product_trial *trial); /* trial.c */
/* ce_cpu_steady_product computes a product in parts that depend only on its shape, by a method that does not depend on
 * the number of threads. So the number of threads does not change the bits of the result. */
void ce_cpu_steady_product(cs_device *device, const ce_product *product);
/* Requests the scratch memory of ce_cpu_steady_product on tiles for products that are at most as large as `most`. */
void ce_cpu_reserve_steady(cs_device *device, const ce_product *most);
ce_method ce_cpu_fixed_method(const ce_panel *panel, cs_dtype dtype); /* the method that FIXED means for this panel */
/* Computes the part `panel` of a product by the given method; the threads divide it as they divide a whole product. */
void ce_cpu_product_panel(cs_device *device, const ce_product *product, const ce_panel *panel, ce_method method);

/* Splits [0, count) into parts, at most one part for each thread. A part has about `min` elements or more, unless
 * `count` is smaller. If `min` is a multiple of 64, all parts begin at multiples of 64. ce_cpu_walk runs the parts in
 * parallel. */
typedef void ce_cpu_part(void *argument, ce_range range, int part);
int ce_cpu_parts(const cs_device *device, int64_t count, int64_t min);
void ce_cpu_walk(cs_device *device, int64_t count, int64_t min, ce_cpu_part *part, void *argument);
/* Splits the elements [0, count), or the rows [0, rows), in the same way. Calls `chunk` for each CE_CHUNK elements of a
 * part, or of a row of `columns` elements; the last chunk may be shorter. */
typedef void ce_cpu_chunk(const void *argument, int64_t at, int64_t count);
typedef void ce_cpu_row_chunk(const void *argument, int64_t row, int64_t at, int64_t count);
void ce_cpu_walk_chunks(cs_device *device, int64_t count, int64_t min, ce_cpu_chunk *chunk, const void *argument);
void ce_cpu_walk_rows(cs_device *device, int64_t rows, int64_t columns, int64_t min, ce_cpu_row_chunk *chunk,
                      const void *argument);

/* ---- the kernels ---- */
#define OPERATION(name, parameters) void ce_cpu_##name parameters;
#define FUSED(name, parameters) /* the CPU has no kernels for FUSED operations: ops.c composes them */
#include "device/ops_list.h"

double ce_cpu_roof(cs_device *device, cs_dtype dtype);

#endif
