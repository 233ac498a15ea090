/* trial.c - measures how fast this CPU multiplies matrices by each method, on parts of the products of a model.
 *
 * For each class, all threads of the device compute a part of the product several times with each method in turn, cut
 * into panels as in a step: some methods are slow for panels of columns, and threads share the bandwidth of the caches
 * and of memory. What a step reads from memory, weights, or adds to, their gradients, moves through more memory than
 * the second-level cache holds. The time of a method is the CPU time of the calling thread in the fastest round, which
 * includes its waiting for the other threads up to the moment when it sleeps: other work on the machine, or more ranks
 * than cores, hardly changes that time. The measured parts have the leading dimensions of the product, because these
 * decide which rows compete for the same cache sets; long leading dimensions are reduced by a multiple of a page. But c
 * and a transposed a have no columns beside the part, because for oneDNN it matters whether a panel is dense. */
#include "device/cpu/cpu.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* SIDE, DEPTH: the greatest numbers of rows, columns and inner indices of a thread's panel. MIN_ROWS: see product.c.
 * SQUARE: the size of the square product that measures the peak rate. ROTATION: the elements of the memory through
 * which weights move. X6_DEPTH: from this number of inner indices on, the error bound of X6 is below that of fp32. */
enum {
    SIDE = 256,
    DEPTH = 384,
    MIN_ROWS = 64,
    SQUARE = 384,
    ROTATION = 2 << 20,
    X6_DEPTH = 32,

    MAX_ROUNDS = 8,
    WRAP = 2048,
    FILLING = 0x3c
};

/* Limits of the ratio of two speeds. After the time limit, rounds are added only while the best method is faster than
 * the method of the rule FIXED by more than the factor close_to, but by less than the factor 1 / far_behind. A method
 * whose speed is less than far_behind times the best speed is not measured further. */
static const double close_to = 1.1, far_behind = 0.6;

typedef struct {
    cs_device *device;
    ce_product_trial *trial;
    int order[CE_PRODUCTS]; /* indices of the classes; classes with the most work come first */
    cs_tensor a, b, c;      /* matrices with room for the greatest operands; their shapes are set for each product */
    int turn;               /* number of the next product */
} measurement;

/* Returns the CPU time in seconds that this thread has used since it was started. */
static double cpu_seconds(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static int64_t min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t leading(int64_t columns)
{
    return columns <= 2 * WRAP ? columns : 2 * WRAP + columns % WRAP;
}

static ce_panel whole_of(const ce_product_use *use)
{
    ce_product_size size = ce_product_size_of(&use->of, use->tokens);
    return (ce_panel){ use->of.transpose_a,
                       use->of.transpose_b,
                       size.m,
                       size.n,
                       size.k,
                       leading(use->of.transpose_a ? size.m : size.k),
                       leading(use->of.transpose_b ? size.k : size.n),
                       leading(size.n),
                       use->add ? 1.0f : 0.0f };
}

/* Returns a part of a product that is cut among the threads in the same direction as the product. */
static ce_panel part_of(const cs_device *device, const ce_product_use *use)
{
    ce_panel panel = whole_of(use);
    int64_t *wide = panel.n > panel.m ? &panel.n : &panel.m, *narrow = panel.n > panel.m ? &panel.m : &panel.n;
    *wide = min(*wide, (int64_t)SIDE * device->threads);
    *narrow = min(min(*narrow, max(SIDE, MIN_ROWS * device->threads)), *wide - (wide == &panel.n));
    panel.k = min(panel.k, DEPTH);
    panel.lda = panel.transpose_a ? panel.m : panel.lda;
    panel.ldc = panel.n;
    return panel;
}

static int64_t rows_of_a(const ce_panel *panel)
{
    return panel->transpose_a ? panel->k : panel->m;
}

static int64_t rows_of_b(const ce_panel *panel)
{
    return panel->transpose_b ? panel->n : panel->k;
}

/* Returns the memory of an operand for the next product. It moves through the memory that was allocated, if there is
 * room for it more than once. */
static void *place_of(const measurement *all, cs_tensor memory, int64_t elements, cs_dtype dtype)
{
    size_t bytes = (size_t)ce_round_up(elements * (int64_t)cs_dtype_bytes(dtype), 4096);
    size_t places = (size_t)cs_count(memory) * sizeof(float) / bytes;
    return (char *)memory.data + (places > 1 ? (size_t)all->turn % places * bytes : 0);
}

/* Multiplies a part once and returns the CPU time in seconds. SGEMM copies whole tensors if they are 16-bit, so 16-bit
 * tensors for SGEMM are made without columns outside the part. */
static double multiply(measurement *all, const ce_product_use *use, ce_panel panel, ce_method method)
{
    if (method == CE_METHOD_SGEMM && use->dtype != CS_F32) {
        panel.lda = panel.transpose_a ? panel.m : panel.k;
        panel.ldb = panel.transpose_b ? panel.k : panel.n;
    }
    void *b = place_of(all, all->b, rows_of_b(&panel) * panel.ldb, use->dtype);
    ce_product product = { .c = cs_matrix(place_of(all, all->c, panel.m * panel.n, use->to), use->to, panel.m, panel.n),
                           .a = cs_matrix(all->a.data, use->dtype, rows_of_a(&panel), panel.lda),
                           .b = cs_matrix(b, use->dtype, rows_of_b(&panel), panel.ldb),
                           .transpose_a = panel.transpose_a,
                           .transpose_b = panel.transpose_b,
                           .add = use->add };
    if (use->bias)
        product.bias = cs_vector(b, use->dtype, panel.n);
    all->turn++;
    double from = cpu_seconds();
    ce_cpu_product_panel(all->device, &product, &panel, method);
    return cpu_seconds() - from;
}

/* Returns the floating-point operations of one thread. */
static double flops_of(const cs_device *device, const ce_panel *panel)
{
    return 2.0 * (double)panel->m * (double)panel->n * (double)panel->k / device->threads;
}

static bool unsure(double fixed, double best)
{
    return fixed < best / close_to && fixed > far_behind * best;
}

/* Measures one class of products until the CPU time `end`: one round that warms up and is not counted, and two to seven
 * counted rounds. If another method seems somewhat faster than the method that the rule FIXED gives, rounds are added
 * after `end`, because other work on the machine may be the reason. A method that is far slower than the best after two
 * counted rounds is not measured further. */
static void measure_class(measurement *all, int index, double end)
{
    ce_product_trial *trial = all->trial;
    const ce_product_use *use = &trial->list->use[index];
    ce_panel panel = part_of(all->device, use);
    double *speed = trial->speed[index], *fixed = &speed[trial->fixed[index]], best = 0;
    for (int round = 0; round < 3 || (round < MAX_ROUNDS && (cpu_seconds() < end || unsure(*fixed, best))); round++)
        for (int method = CE_METHOD_NATIVE; method < CE_METHODS; method++) {
            bool inexact = method == CE_METHOD_X6 && whole_of(use).k < X6_DEPTH;
            if (!(trial->methods & 1u << method) || inexact || (round > 2 && speed[method] < far_behind * best))
                continue;
            double rate = flops_of(all->device, &panel) / multiply(all, use, panel, (ce_method)method);
            speed[method] = round > 0 ? fmax(speed[method], rate) : 0;
            best = fmax(best, speed[method]);
        }
    trial->roof = fmax(trial->roof, best);
}

/* Multiplies square matrices `rounds` times and returns the best rate in FLOP/s. */
static double square(measurement *all, ce_method method, int rounds)
{
    cs_dtype dtype = all->trial->list->use[0].dtype;
    ce_product_use use = { .dtype = dtype, .to = dtype };
    ce_panel panel = { false, false, SQUARE, SQUARE, SQUARE, SQUARE, SQUARE, SQUARE, 0 };
    double best = 0;
    for (int round = 0; round < rounds; round++)
        best = fmax(best, flops_of(all->device, &panel) / multiply(all, &use, panel, method));
    return best;
}

/* Multiplies without measuring. The first product of a method is slow, because oneDNN compiles its kernels then, and
 * because wide arithmetic is slow in its first milliseconds. */
static void warm_up(measurement *all)
{
    for (int method = CE_METHOD_NATIVE; method < CE_METHODS; method++)
        if (all->trial->methods & 1u << method)
            square(all, (ce_method)method, 2);
}

static void measure_roof(measurement *all)
{
    const double *speed = all->trial->speed[all->order[0]];
    ce_method fastest = CE_METHOD_SGEMM;
    for (int method = CE_METHOD_NATIVE; method < CE_METHODS; method++)
        if (speed[method] > speed[fastest])
            fastest = (ce_method)method;
    all->trial->roof = fmax(all->trial->roof, square(all, fastest, 3));
}

static cs_tensor memory_of(cs_device *device, int64_t elements)
{
    cs_tensor memory = cs_vector(ce_device_alloc(device, (size_t)elements * sizeof(float)), CS_F32, elements);
    memset(memory.data, FILLING, (size_t)elements * sizeof(float));
    return memory;
}

/* Returns the method that FIXED means for the panel of one thread. */
static ce_method fixed_of(const cs_device *device, const ce_product_use *use)
{
    ce_panel panel = whole_of(use);
    int64_t *wide = panel.n > panel.m ? &panel.n : &panel.m;
    *wide = ce_divide_up(*wide, device->threads);
    return ce_cpu_fixed_method(&panel, use->dtype);
}

static void prepare(measurement *all)
{
    ce_product_trial *trial = all->trial;
    int64_t a = SQUARE * SQUARE, b = ROTATION, c = b;
    for (int i = 0; i < trial->list->count; i++) {
        const ce_product_use *use = &trial->list->use[i];
        ce_panel panel = part_of(all->device, use);
        ce_method fixed = fixed_of(all->device, use);
        trial->fixed[i] = trial->methods & 1u << fixed ? fixed : CE_METHOD_SGEMM;
        a = max(a, rows_of_a(&panel) * panel.lda);
        b = max(b, rows_of_b(&panel) * panel.ldb);
        c = max(c, panel.m * panel.n);
        int at = i;
        for (; at > 0 && trial->list->use[all->order[at - 1]].flops < use->flops; at--)
            all->order[at] = all->order[at - 1];
        all->order[at] = i;
    }
    all->a = memory_of(all->device, a);
    all->b = memory_of(all->device, b);
    all->c = memory_of(all->device, c);
}

static bool like_is_measured(const ce_product_trial *trial, const ce_product_class *of)
{
    for (int i = 0; i < trial->list->count; i++) {
        const ce_product_class *other = &trial->list->use[i].of;
        if (trial->speed[i][trial->fixed[i]] > 0 && other->transpose_a == of->transpose_a &&
            other->transpose_b == of->transpose_b)
            return true;
    }
    return false;
}

/* Measures the classes of products, and then the peak rate (trial->roof). At least half of trial->seconds is
 * spent on the classes. Each class gets a part of the time that is left for the classes, in proportion to the class's
 * work. If the time that is left is shorter than the previous class took, a class is skipped; but the first class of
 * each combination of transposes is always measured. */
static void measure(measurement *all)
{
    ce_product_trial *trial = all->trial;
    double work = 0, took = 0;
    prepare(all);
    warm_up(all);
    double limit = fmax(0.9 * trial->seconds, cpu_seconds() + 0.5 * trial->seconds);
    for (int i = 0; i < trial->list->count; i++)
        work += trial->list->use[i].flops;
    for (int i = 0; i < trial->list->count; i++) {
        int index = all->order[i];
        double now = cpu_seconds();
        if (now + took > limit && like_is_measured(trial, &trial->list->use[index].of))
            continue;
        measure_class(all, index, now + (limit - now) * trial->list->use[index].flops / work);
        work -= trial->list->use[index].flops;
        took = cpu_seconds() - now;
    }
    measure_roof(all);
}

void ce_cpu_try_products(cs_device *device, ce_product_trial *trial)
{
    measurement all = { .device = device, .trial = trial };
    memset(trial->speed, 0, sizeof trial->speed);
    trial->roof = 0;
    measure(&all);
    ce_device_free(device, all.a.data);
    ce_device_free(device, all.b.data);
    ce_device_free(device, all.c.data);
    ce_cpu_drop_workspaces(device);
}
