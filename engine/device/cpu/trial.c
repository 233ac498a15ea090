/* trial.c - measures how fast this CPU multiplies matrices by each method, on parts of the products of a model.
 *
 * For each class, one thread takes a part of the panel that a thread would have in a step, and computes this part
 * several times with each method in turn. The time of a method is the thread's CPU time in the fastest round: other
 * work on the machine, or more ranks than cores, hardly changes that time. The measured parts have the leading
 * dimensions of the product, because these decide which rows compete for the same cache sets; long leading dimensions
 * are reduced by a multiple of a page. */
#include "device/cpu/cpu.h"

#include "base/thread.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* MAX_M, MAX_N, MAX_K: the greatest sizes of a measured part of a product. SQUARE: the size of the square product
 * that measures the peak rate. */
enum {
    MAX_M = 256,
    MAX_N = 256,
    MAX_K = 384,
    SQUARE = 384,

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

static int64_t leading(int64_t columns)
{
    return columns <= 2 * WRAP ? columns : 2 * WRAP + columns % WRAP;
}

/* Returns the panel of a product that one thread computes. */
static ce_panel share_of(const cs_device *device, const ce_product_use *use)
{
    ce_product_size size = ce_product_size_of(&use->of, use->tokens);
    ce_panel panel = { use->of.transpose_a,
                       use->of.transpose_b,
                       size.m,
                       size.n,
                       size.k,
                       leading(use->of.transpose_a ? size.m : size.k),
                       leading(use->of.transpose_b ? size.k : size.n),
                       leading(size.n),
                       use->add ? 1.0f : 0.0f };
    int64_t *wide = size.n > size.m ? &panel.n : &panel.m;
    *wide = ce_divide_up(*wide, device->threads);
    return panel;
}

static ce_panel part_of(const cs_device *device, const ce_product_use *use)
{
    ce_panel panel = share_of(device, use);
    panel.m = min(panel.m, MAX_M);
    panel.n = min(panel.n, MAX_N);
    panel.k = min(panel.k, MAX_K);
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

/* Multiplies a panel once and returns the CPU time in seconds. SGEMM copies whole tensors if they are 16-bit, so 16-bit
 * tensors for SGEMM are made without columns outside the panel. */
static double multiply(const measurement *all, const ce_product_use *use, ce_panel panel, ce_method method)
{
    if (method == CE_METHOD_SGEMM && use->dtype != CS_F32) {
        panel.lda = panel.transpose_a ? panel.m : panel.k;
        panel.ldb = panel.transpose_b ? panel.k : panel.n;
    }
    ce_product product = { .c = cs_matrix(all->c.data, use->to, panel.m, panel.n),
                           .a = cs_matrix(all->a.data, use->dtype, rows_of_a(&panel), panel.lda),
                           .b = cs_matrix(all->b.data, use->dtype, rows_of_b(&panel), panel.ldb),
                           .transpose_a = panel.transpose_a,
                           .transpose_b = panel.transpose_b,
                           .add = use->add };
    if (use->bias)
        product.bias = cs_vector(all->b.data, use->dtype, panel.n);
    double from = cpu_seconds();
    ce_cpu_product_panel(all->device, &product, &panel, method);
    return cpu_seconds() - from;
}

static double flops_of(const ce_panel *panel)
{
    return 2.0 * (double)panel->m * (double)panel->n * (double)panel->k;
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
            if (!(trial->methods & 1u << method) || (round > 2 && speed[method] < far_behind * best))
                continue;
            double rate = flops_of(&panel) / multiply(all, use, panel, (ce_method)method);
            speed[method] = round > 0 ? fmax(speed[method], rate) : 0;
            best = fmax(best, speed[method]);
        }
    trial->roof = fmax(trial->roof, best);
}

/* Multiplies square matrices `rounds` times and returns the best rate in FLOP/s. */
static double square(const measurement *all, ce_method method, int rounds)
{
    cs_dtype dtype = all->trial->list->use[0].dtype;
    ce_product_use use = { .dtype = dtype, .to = dtype };
    ce_panel panel = { false, false, SQUARE, SQUARE, SQUARE, SQUARE, SQUARE, SQUARE, 0 };
    double best = 0;
    for (int round = 0; round < rounds; round++)
        best = fmax(best, flops_of(&panel) / multiply(all, &use, panel, method));
    return best;
}

/* Multiplies without measuring. The first product of a method is slow, because oneDNN compiles its kernels then, and
 * because wide arithmetic is slow in its first milliseconds. */
static void warm_up(const measurement *all)
{
    for (int method = CE_METHOD_NATIVE; method < CE_METHODS; method++)
        if (all->trial->methods & 1u << method)
            square(all, (ce_method)method, 2);
}

static void measure_roof(const measurement *all)
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

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void prepare(measurement *all)
{
    ce_product_trial *trial = all->trial;
    int64_t a = SQUARE * SQUARE, b = a, c = a;
    for (int i = 0; i < trial->list->count; i++) {
        const ce_product_use *use = &trial->list->use[i];
        ce_panel whole = share_of(all->device, use), panel = part_of(all->device, use);
        ce_method fixed = ce_cpu_fixed_method(&whole, use->dtype);
        trial->fixed[i] = trial->methods & 1u << fixed ? fixed : CE_METHOD_SGEMM;
        a = max(a, rows_of_a(&panel) * panel.lda);
        b = max(b, rows_of_b(&panel) * panel.ldb);
        c = max(c, panel.m * panel.ldc);
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

/* Measures the classes of products, and then the peak rate (trial->roof). This function runs in a thread of its own,
 * which is not one of the device's threads, so every product uses this thread only. At least half of trial->seconds is
 * spent on the classes. Each class gets a part of the time that is left for the classes, in proportion to the class's
 * work. If the time that is left is shorter than the previous class took, a class is skipped; but the first class of
 * each combination of transposes is always measured. */
static void *measure(void *argument)
{
    measurement *all = argument;
    ce_product_trial *trial = all->trial;
    double work = 0, took = 0;
    ce_matmul_quiet();
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
    return NULL;
}

/* If the thread cannot be started, nothing is measured. */
void ce_cpu_try_products(cs_device *device, ce_product_trial *trial)
{
    measurement all = { .device = device, .trial = trial };
    pthread_t thread;
    memset(trial->speed, 0, sizeof trial->speed);
    trial->roof = 0;
    if (ce_thread_start(&thread, measure, &all) == 0)
        pthread_join(thread, NULL);
    ce_device_free(device, all.a.data);
    ce_device_free(device, all.b.data);
    ce_device_free(device, all.c.data);
    ce_cpu_drop_workspaces(device);
}
