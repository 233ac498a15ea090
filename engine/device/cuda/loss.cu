/* loss.cu - loss functions: cross entropy (softmax) over a large vocabulary, hits (argmax accuracy), and losses of
 * elements.
 *
 * One block computes one row. In training the cross entropy reads a row of logits and overwrites it with the row's
 * gradient. Between reading and writing, shared memory holds the row. If the row does not fit in shared memory, the
 * rest of the row is read from global memory a second time. Runs (run.cuh) are aligned with the tensor and not with the
 * row, so that rows are read in accesses of 16 bytes even if the number of columns is odd; elements of a run that
 * belong to the neighbouring row are not changed. Columns after the classes are padding: they are not read, and their
 * gradient is zero. The kernels are bound by memory bandwidth, but the exponentials take almost as long: nine
 * instructions for the two bytes of a 16-bit element. */
#include "device/cuda/run.cuh"

#include <math.h>

#define LOG2_E 1.44269504f

enum { THREADS = 512, WARPS = THREADS / CE_WARP };

/* A matrix whose rows are `stride` elements apart. Only the first `columns` elements of a row are used. */
struct extent {
    int64_t rows, columns, stride;
};

static inline extent extent_of(cs_tensor x, int64_t columns)
{
    return extent{ cs_rows(x), columns, cs_columns(x) };
}

/* Returns the range of the elements of one row, as indices into the tensor. Runs (run.cuh) begin at multiples of 8
 * elements of the tensor. */
static __device__ ce_range row_of(int64_t row, extent all)
{
    return ce_range{ row * all.stride, row * all.stride + all.columns };
}

static __device__ int64_t first_run(ce_range row)
{
    return row.from / CE_RUN * CE_RUN + (int64_t)threadIdx.x * CE_RUN;
}

static __device__ int64_t run_step()
{
    return (int64_t)blockDim.x * CE_RUN;
}

static __device__ float element_of(ce_view x, int64_t at)
{
    float run[CE_RUN];
    ce_run_read(run, x, at, ce_range{ at, at + 1 });
    return run[0];
}

/* Returns the index in the tensor of the target's logit, or -1 if the target is masked. A target outside the vocabulary
 * is a fatal error, as on the CPU. */
static __device__ int64_t target_index(const int32_t *targets, int64_t row, extent all)
{
    int32_t target = targets[row];
    CE_KERNEL_ASSERT(target < all.columns);
    return target < 0 ? -1 : row * all.stride + target;
}

static inline ce_shape rows_shape(extent all)
{
    int64_t runs = all.columns / CE_RUN + 2, threads = ce_round_up(runs, CE_WARP);
    return ce_shape{ dim3(ce_bounded_grid(all.rows)),
                     dim3((unsigned)(threads < THREADS ? threads : (int64_t)THREADS)) };
}

/* ---- cross entropy ---- */

enum { TOGETHER = 4 };

/* The arguments of the kernels of the cross entropy. Shared memory holds `held` elements of a row: the row's first held
 * / 8 runs. */
struct loss_job {
    ce_view x; /* the logits; if dloss is not NULL, the kernel replaces them by their gradient */
    float *loss;
    const float *dloss;
    const int32_t *targets;
    extent all;
    int64_t held;
    /* Where the columns are divided over ranks: */
    int64_t first, ranks; /* `first`: the number of the first column among the columns of all ranks */
    float *facts, *hits;  /* `hits` may be NULL */
    int64_t each;         /* number of facts of a row */
    cs_entropy_terms terms;
};

/* The state of online softmax: the maximum so far, and the sum of e^(x - max). */
struct softmax_sum {
    float max, sum;
};

/* Returns the gradient of the logit x. `own` is true for the target's logit. */
static __device__ float grad_of(const loss_job &job, float x, float lse, float scale, bool own)
{
    float grad = expf(x - lse) * (job.terms.z_loss > 0 ? scale * (1 + 2 * job.terms.z_loss * lse) : scale);
    if (job.terms.smoothing > 0)
        grad -= scale * job.terms.smoothing / (float)job.terms.classes;
    return own ? grad - scale * (1 - job.terms.smoothing) : grad;
}

/* Returns max, or 0 if max is infinite or NaN. The exponents of the softmax are x - finite(max), so infinity is never
 * subtracted from infinity. With 0, the sum of exponentials becomes 0, infinite or NaN. */
static __device__ float finite(float max)
{
    return isfinite(max) ? max : 0;
}

/* Rescales a sum from the maximum `from` to the maximum `to`, which is at least `from`. */
static __device__ float rescale(float sum, float from, float to)
{
    return from == to ? sum : sum * exp2f((from - to) * LOG2_E);
}

/* Adds to the softmax state those elements of a run that belong to the row. */
static __device__ void add_run(softmax_sum *partial, ce_run stored, cs_dtype dtype, int64_t at, ce_range row)
{
    float run[CE_RUN], max = partial->max;
    ce_run_widen(run, stored, dtype);
    for (int i = 0; i < CE_RUN; i++) {
        run[i] = ce_run_has(at + i, row) ? run[i] : -INFINITY;
        max = fmaxf(max, run[i]);
    }
    partial->sum = rescale(partial->sum, partial->max, max);
    partial->max = max;
    for (int i = 0; i < CE_RUN; i++)
        partial->sum += exp2f((run[i] - finite(max)) * LOG2_E);
}

/* Returns the index in shared memory of the run that begins at index `at` of the tensor. If the result is not less than
 * job.held, the run is not in shared memory. */
static __device__ int64_t held_index(int64_t at, ce_range row)
{
    return at - row.from / CE_RUN * CE_RUN;
}

static __device__ ce_view held_of(const loss_job &job)
{
    return ce_view{ ce_shared_memory(), job.x.dtype };
}

/* Computes the softmax state over this thread's runs of a row, and copies these runs to shared memory. */
static __device__ softmax_sum row_softmax_sum(const loss_job &job, ce_range row)
{
    softmax_sum partial = { -INFINITY, 0 };
    for (int64_t first = first_run(row); first < row.to; first += TOGETHER * run_step()) {
        ce_run run[TOGETHER];
#pragma unroll
        for (int k = 0; k < TOGETHER; k++)
            run[k] = ce_run_load(job.x, first + k * run_step(), row);
#pragma unroll
        for (int k = 0; k < TOGETHER; k++) {
            int64_t at = first + k * run_step();
            if (at >= row.to)
                continue;
            if (held_index(at, row) < job.held)
                ce_run_put(held_of(job), held_index(at, row), ce_range{ 0, job.held }, run[k]);
            add_run(&partial, run[k], job.x.dtype, at, row);
        }
    }
    return partial;
}

/* Replaces the row's logits by their gradient, (softmax - one-hot target) * dloss, or by zeros if the target is masked.
 * A thread reads only the runs that it copied to shared memory itself, so no barrier is needed. */
static __device__ void write_grad(const loss_job &job, int64_t row, int64_t target, float lse)
{
    ce_range real = row_of(row, job.all), all = { real.from, real.from + job.all.stride };
    float scale = job.dloss[row];
    for (int64_t at = first_run(all); at < all.to; at += run_step()) {
        float run[CE_RUN] = {};
        if (target >= 0 && at < real.to) {
            bool held = held_index(at, all) < job.held;
            ce_run_widen(run,
                         held ? ce_run_load(held_of(job), held_index(at, all), ce_range{ 0, job.held })
                              : ce_run_load(job.x, at, real),
                         job.x.dtype);
            for (int i = 0; i < CE_RUN; i++) {
                run[i] = ce_run_has(at + i, real) ? grad_of(job, run[i], lse, scale, at + i == target) : 0;
            }
        }
        ce_run_store(job.x, at, all, run);
    }
}

static __global__ void __launch_bounds__(THREADS) cross_entropy_rows(loss_job job)
{
    CE_SHARED float scratch[WARPS];
    for (int64_t row = blockIdx.x; row < job.all.rows; row += gridDim.x) {
        int64_t target = target_index(job.targets, row, job.all);
        /* the logit is read here, before the gradient overwrites it */
        float target_logit = target < 0 || threadIdx.x > 0 ? 0 : element_of(job.x, target);
        softmax_sum partial = row_softmax_sum(job, target < 0 ? ce_range{} : row_of(row, job.all));
        float max = ce_block_max(partial.max, scratch);
        float sum = ce_block_sum(rescale(partial.sum, partial.max, max), scratch);
        float lse = target < 0 ? 0 : finite(max) + logf(sum);
        if (threadIdx.x == 0)
            job.loss[row] = lse - target_logit;
        if (job.dloss)
            write_grad(job, row, target, lse);
    }
}

static loss_job make_job(cs_tensor logits, cs_tensor targets, int64_t classes)
{
    loss_job job = {};
    job.x = ce_run_view(logits);
    job.targets = (const int32_t *)targets.data;
    job.all = extent_of(logits, classes);
    return job;
}

/* Returns how many elements of a row shared memory holds, a multiple of 8. Shared memory holds all runs of the row or,
 * if there is too little of it, as many runs as fit. Without a gradient the result is 0. */
static int64_t held_elements(cs_device *device, const loss_job &job)
{
    enum { OTHER = 2048 }; /* OTHER: bytes of the kernel's static shared memory, rounded up */
    int64_t runs = job.all.columns / CE_RUN + 2, capacity = ce_cuda_facts_of(device)->shared - OTHER;
    int64_t max = capacity / (CE_RUN * (int64_t)cs_dtype_bytes(job.x.dtype));
    return job.dloss ? (runs < max ? runs : max) * CE_RUN : 0;
}

extern "C" void ce_cuda_cross_entropy(cs_device *device, cs_tensor loss, cs_tensor logits, cs_tensor targets,
                                      int64_t classes, cs_tensor dloss)
{
    loss_job job = make_job(logits, targets, classes);
    job.loss = (float *)loss.data;
    job.dloss = (const float *)dloss.data;
    ce_shape shape = rows_shape(job.all);
    job.held = held_elements(device, job);
    shape.shared = (size_t)job.held * cs_dtype_bytes(logits.dtype);
    ce_launch(ce_cuda_compute(device), shape, cross_entropy_rows, job);
}

/* ---- hits: whether the target is the first maximum of its row, as torch.argmax; a row with a NaN is no hit ---- */

struct best {
    float max;
    int64_t first; /* index of the first element that equals max; -1 if no element was read yet */
    int unknown;
};

/* Searches this thread's runs of a row. Returns their maximum, the index of the first element that equals the maximum,
 * and the number of NaNs. */
static __device__ best find_max(ce_view x, ce_range row)
{
    best thread_best = { -INFINITY, -1, 0 };
    for (int64_t at = first_run(row); at < row.to; at += run_step()) {
        float run[CE_RUN];
        ce_run_read(run, x, at, row);
        for (int i = 0; i < CE_RUN; i++) {
            if (!ce_run_has(at + i, row))
                continue;
            thread_best.unknown += isnan(run[i]) ? 1 : 0;
            if (thread_best.first < 0 || run[i] > thread_best.max) {
                thread_best.max = run[i];
                thread_best.first = at + i;
            }
        }
    }
    return thread_best;
}

/* The target is a hit if its logit equals the row's maximum and no logit before it equals the maximum. */
static __global__ void __launch_bounds__(THREADS) hit_rows(float *hits, ce_view x, const int32_t *targets, extent all)
{
    CE_SHARED float scratch[WARPS];
    CE_SHARED int counts[WARPS];
    for (int64_t row = blockIdx.x; row < all.rows; row += gridDim.x) {
        int64_t target = target_index(targets, row, all);
        best thread_best = find_max(x, target < 0 ? ce_range{} : row_of(row, all));
        float max = ce_block_max(thread_best.max, scratch);
        bool before = thread_best.first >= 0 && thread_best.max == max && thread_best.first < target;
        int against = ce_block_sum(thread_best.unknown + (before ? 1 : 0), counts);
        if (threadIdx.x == 0)
            hits[row] = target >= 0 && against == 0 && element_of(x, target) == max ? 1 : 0;
    }
}

extern "C" void ce_cuda_hits(cs_device *device, cs_tensor hits, cs_tensor logits, cs_tensor targets, int64_t classes)
{
    extent all = extent_of(logits, classes);
    ce_launch(ce_cuda_compute(device), rows_shape(all), hit_rows, (float *)hits.data, ce_run_view(logits),
              (const int32_t *)targets.data, all);
}

/* ---- cross entropy of logits whose columns are divided over ranks ---- */

enum { GREATEST, SUM, TARGET, IS_FIRST, TOTAL }; /* the facts of cs_op_entropy_facts */

/* Returns the index in the tensor of the target's logit, -1 if the target is masked, or INT64_MAX if another rank has
 * the target's column. */
static __device__ int64_t own_index(const loss_job &job, int64_t row)
{
    int64_t target = job.targets[row], own = target - job.first;
    bool here = own >= 0 && own < job.all.columns;
    return target < 0 ? -1 : here ? row * job.all.stride + own : INT64_MAX;
}

/* Returns the number of logits equal to `max` that this thread's runs have before the element `end`. */
static __device__ int count_equal(ce_view x, ce_range row, int64_t end, float max)
{
    int equal = 0;
    for (int64_t at = first_run(row); at < end; at += run_step()) {
        float run[CE_RUN];
        ce_run_read(run, x, at, row);
        for (int i = 0; i < CE_RUN; i++)
            equal += ce_run_has(at + i, ce_range{ row.from, end }) && run[i] == max;
    }
    return equal;
}

/* Returns the sum of the logits of this thread's runs. */
static __device__ float row_total(ce_view x, ce_range row)
{
    float total = 0;
    for (int64_t at = first_run(row); at < row.to; at += run_step()) {
        float run[CE_RUN];
        ce_run_read(run, x, at, row);
        for (int i = 0; i < CE_RUN; i++)
            total += ce_run_has(at + i, row) ? run[i] : 0;
    }
    return total;
}

static __global__ void __launch_bounds__(THREADS) entropy_facts_rows(loss_job job)
{
    CE_SHARED float scratch[WARPS];
    CE_SHARED int counts[WARPS];
    for (int64_t row = blockIdx.x; row < job.all.rows; row += gridDim.x) {
        int64_t target = own_index(job, row);
        ce_range range = target < 0 ? ce_range{} : row_of(row, job.all);
        softmax_sum partial = row_softmax_sum(job, range);
        float max = ce_block_max(partial.max, scratch);
        float sum = ce_block_sum(rescale(partial.sum, partial.max, max), scratch);
        bool here = target >= 0 && target < INT64_MAX;
        float logit = here ? element_of(job.x, target) : -INFINITY;
        bool greatest = here && logit == max;
        int before = ce_block_sum(greatest ? count_equal(job.x, range, target, max) : 0, counts);
        float total = job.each > TOTAL ? ce_block_sum(row_total(job.x, range), scratch) : 0;
        if (threadIdx.x > 0)
            continue;
        float *facts = job.facts + row * job.each;
        facts[GREATEST] = target < 0 ? 0 : max;
        facts[SUM] = target < 0 ? 0 : sum;
        facts[TARGET] = target < 0 ? 0 : logit;
        facts[IS_FIRST] = greatest && before == 0 ? 1 : 0;
        if (job.each > TOTAL)
            facts[TOTAL] = target < 0 ? 0 : total;
    }
}

extern "C" void ce_cuda_entropy_facts(cs_device *device, cs_tensor facts, cs_tensor logits, cs_tensor targets,
                                      int64_t first, int64_t classes)
{
    loss_job job = make_job(logits, targets, classes);
    job.first = first;
    job.facts = (float *)facts.data;
    job.each = cs_columns(facts);
    ce_launch(ce_cuda_compute(device), rows_shape(job.all), entropy_facts_rows, job);
}

/* What the facts of all ranks say about a row. */
struct row_loss {
    float lse, loss;
    bool hit;
};

/* The sum is NaN only if a logit is NaN. */
static __device__ row_loss combine_facts(const loss_job &job, int64_t row)
{
    float max = -INFINITY, sum = 0, target = -INFINITY, total = 0, smoothing = job.terms.smoothing;
    row_loss result = {};
    for (int64_t rank = job.ranks - 1; rank >= 0; rank--) {
        const float *facts = job.facts + (rank * job.all.rows + row) * job.each;
        result.hit = facts[GREATEST] >= max ? facts[IS_FIRST] > 0 : result.hit;
        target = facts[TARGET] == -INFINITY ? target : facts[TARGET];
        max = fmaxf(max, facts[GREATEST]);
    }
    for (int64_t rank = 0; rank < job.ranks; rank++) {
        const float *facts = job.facts + (rank * job.all.rows + row) * job.each;
        sum += rescale(facts[SUM], facts[GREATEST], max);
        total += job.each > TOTAL ? facts[TOTAL] : 0;
    }
    result.lse = finite(max) + logf(sum);
    result.loss = result.lse - target;
    if (smoothing > 0)
        result.loss += smoothing * (target - total / (float)job.terms.classes);
    if (job.terms.z_loss > 0)
        result.loss += job.terms.z_loss * result.lse * result.lse;
    result.hit = result.hit && !isnan(sum);
    return result;
}

static __global__ void __launch_bounds__(THREADS) entropy_finish_rows(loss_job job)
{
    for (int64_t row = blockIdx.x; row < job.all.rows; row += gridDim.x) {
        int64_t target = own_index(job, row);
        row_loss result = target < 0 ? row_loss{} : combine_facts(job, row);
        if (threadIdx.x == 0) {
            job.loss[row] = result.loss;
            if (job.hits)
                job.hits[row] = result.hit ? 1 : 0;
        }
        if (job.dloss)
            write_grad(job, row, target, result.lse);
    }
}

extern "C" void ce_cuda_entropy_finish(cs_device *device, cs_tensor loss, cs_tensor hits, cs_tensor logits,
                                       cs_tensor targets, int64_t first, int64_t classes, cs_tensor dloss,
                                       cs_tensor facts, cs_entropy_terms terms)
{
    loss_job job = make_job(logits, targets, classes);
    job.loss = (float *)loss.data;
    job.dloss = (const float *)dloss.data;
    job.first = first;
    job.ranks = cs_rows(logits) > 0 ? cs_rows(facts) / cs_rows(logits) : 0;
    job.facts = (float *)facts.data;
    job.each = cs_columns(facts);
    job.hits = (float *)hits.data;
    job.terms = terms;
    ce_launch(ce_cuda_compute(device), rows_shape(extent_of(logits, cs_columns(logits))), entropy_finish_rows, job);
}

/* ---- the means over columns of the losses of elements ---- */

/* Returns the loss of an element. */
template <ce_error kind> static __device__ float error_of(float y, float target)
{
    float apart = y - target;
    if constexpr (kind == CE_SQUARED)
        return apart * apart;
    else if constexpr (kind == CE_ABSOLUTE)
        return fabsf(apart);
    else /* log(1 + e^y) - target y, without a large power */
        return (y < 0 ? 0 : y) - target * y + log1pf(expf(-fabsf(y)));
}

/* Returns the derivative of the loss, divided by 2 for the squared error. */
template <ce_error kind> static __device__ float slope_of(float y, float target)
{
    float apart = y - target;
    if constexpr (kind == CE_SQUARED)
        return apart;
    else if constexpr (kind == CE_ABSOLUTE)
        return apart > 0 ? 1.0f : apart < 0 ? -1.0f : apart;
    else
        return 1 / (1 + expf(-y)) - target;
}

template <ce_error kind>
static __global__ void __launch_bounds__(THREADS) error_rows(float *loss, ce_view y, ce_view target, extent all)
{
    CE_SHARED float scratch[WARPS];
    for (int64_t row = blockIdx.x; row < all.rows; row += gridDim.x) {
        ce_range row_range = row_of(row, all);
        float sum = 0;
        for (int64_t at = first_run(row_range); at < row_range.to; at += run_step()) {
            float from[CE_RUN], wanted[CE_RUN];
            ce_run_read(from, y, at, row_range);
            ce_run_read(wanted, target, at, row_range);
            for (int i = 0; i < CE_RUN; i++)
                sum += ce_run_has(at + i, row_range) ? error_of<kind>(from[i], wanted[i]) : 0;
        }
        sum = ce_block_sum(sum, scratch);
        if (threadIdx.x == 0)
            loss[row] = sum / (float)all.columns;
    }
}

template <ce_error kind>
static __global__ void __launch_bounds__(THREADS)
    error_grad_rows(ce_view dy, const float *dloss, ce_view y, ce_view target, extent all)
{
    for (int64_t row = blockIdx.x; row < all.rows; row += gridDim.x) {
        ce_range row_range = row_of(row, all);
        float scale = (kind == CE_SQUARED ? 2 : 1) * dloss[row] / (float)all.columns;
        for (int64_t at = first_run(row_range); at < row_range.to; at += run_step()) {
            float slope[CE_RUN], wanted[CE_RUN];
            ce_run_read(slope, y, at, row_range);
            ce_run_read(wanted, target, at, row_range);
            for (int i = 0; i < CE_RUN; i++)
                slope[i] = slope_of<kind>(slope[i], wanted[i]) * scale;
            ce_run_store(dy, at, row_range, slope);
        }
    }
}

/* Calls body(k), where the integral constant k is `kind`. */
template <typename Body> static void by_kind(ce_error kind, Body body)
{
    if (kind == CE_SQUARED)
        body(std::integral_constant<ce_error, CE_SQUARED>{});
    else if (kind == CE_ABSOLUTE)
        body(std::integral_constant<ce_error, CE_ABSOLUTE>{});
    else
        body(std::integral_constant<ce_error, CE_LOGISTIC>{});
}

extern "C" void ce_cuda_error(cs_device *device, cs_tensor loss, cs_tensor y, cs_tensor target, ce_error kind)
{
    extent all = extent_of(y, cs_columns(y));
    by_kind(kind, [&](auto k) {
        ce_launch(ce_cuda_compute(device), rows_shape(all), error_rows<decltype(k)::value>, (float *)loss.data,
                  ce_run_view(y), ce_run_view(target), all);
    });
}

extern "C" void ce_cuda_error_grad(cs_device *device, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target,
                                   ce_error kind)
{
    extent all = extent_of(y, cs_columns(y));
    by_kind(kind, [&](auto k) {
        ce_launch(ce_cuda_compute(device), rows_shape(all), error_grad_rows<decltype(k)::value>, ce_run_view(dy),
                  (const float *)dloss.data, ce_run_view(y), ce_run_view(target), all);
    });
}
