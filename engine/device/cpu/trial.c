/* trial.c - measures how much faster this CPU multiplies bf16 matrices natively than as fp32 copies.
 *
 * One thread runs the three products of a linear layer (forward, gradient of the input, gradient of the weight)
 * alternately in both ways, and its own CPU time is compared: other work on the machine, or more ranks than cores,
 * hardly changes it. The best of several rounds counts. */
#include "device/cpu/cpu.h"

#include <math.h>
#include <time.h>

enum { ROWS = 128, WIDTH = 512, ROUNDS = 8, FP32 = 0, BF16 = 1 };

typedef struct {
    cs_device *device;
    cs_tensor x, y, weight, bias, gradient; /* tensors of a linear layer from WIDTH to WIDTH */
    double seconds[2];                      /* the best times of FP32 and of BF16 */
} trial;

static double cpu_seconds(void)
{
    struct timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static void multiply(const trial *all)
{
    cs_cpu_product(all->device, &(cs_product){ .c = all->y, .a = all->x, .b = all->weight, .bias = all->bias });
    cs_cpu_product(all->device, &(cs_product){ .c = all->x, .a = all->y, .b = all->weight, .transpose_b = true });
    cs_cpu_product(all->device,
                   &(cs_product){ .c = all->gradient, .a = all->x, .b = all->y, .transpose_a = true, .add = true });
}

/* Runs in a separate thread, so that the device's other threads take no part. */
static void *measure(void *argument)
{
    trial *all = argument;
    cs_matmul_quiet();
    for (int round = 0; round <= ROUNDS; round++) /* the first round warms up and does not count */
        for (int how = FP32; how <= BF16; how++) {
            cs_matmul_set_native(cs_cpu_of(all->device)->matmul, how == BF16);
            double from = cpu_seconds();
            multiply(all);
            if (round > 0)
                all->seconds[how] = fmin(all->seconds[how], cpu_seconds() - from);
        }
    return NULL;
}

static cs_tensor matrix(cs_device *device, cs_dtype dtype, int64_t rows)
{
    size_t bytes = (size_t)(rows * WIDTH) * cs_dtype_bytes(dtype);
    return cs_matrix(cs_device_alloc(device, bytes), dtype, rows, WIDTH);
}

/* Returns 0 if the thread cannot be started, because then nothing is known. */
static double run(cs_device *device)
{
    cs_tensor memory[] = { matrix(device, CS_BF16, ROWS), matrix(device, CS_BF16, ROWS), matrix(device, CS_BF16, WIDTH),
                           matrix(device, CS_BF16, 1), matrix(device, CS_F32, WIDTH) };
    trial all = { device, memory[0], memory[1], memory[2], memory[3], memory[4], { INFINITY, INFINITY } };
    cs_matmul *matmul = cs_cpu_of(device)->matmul;
    bool before = cs_matmul_native(matmul, CS_BF16);
    pthread_t thread;
    all.bias = cs_vector(memory[3].data, CS_BF16, WIDTH);
    if (pthread_create(&thread, NULL, measure, &all) == 0)
        pthread_join(thread, NULL);
    cs_matmul_set_native(matmul, before);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        cs_device_free(device, memory[i].data);
    cs_cpu_drop_workspaces(device);
    return isinf(all.seconds[BF16]) ? 0 : all.seconds[FP32] / all.seconds[BF16];
}

/* One trial is enough for each process, because all its devices have the same CPU. */
double cs_cpu_native_gain(cs_device *device)
{
    static double known = -1;
    if (known < 0)
        known = cs_cpu_has_native(device) ? run(device) : 0;
    return known;
}
