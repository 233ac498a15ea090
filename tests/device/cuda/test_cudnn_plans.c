/* test_cudnn_plans.c - checks, without a GPU, that NVIDIA's cuDNN supports the graphs of attention on several GPUs.
 * cuDNN gets descriptions of the GPUs, returns engines, and compiles the engines' kernels. A driver library that needs
 * no GPU accepts the compiled kernels. No kernel is executed. */
#include "suite.h"

#include "base/range.h"
#include "base/status.h"
#include "device/cuda/cudnn.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ce_cudnn_library library;

/* Opens cuDNN. Returns false if the test is skipped. */
static bool enter(void)
{
    if (!dlopen(CS_DRIVER, RTLD_NOW | RTLD_GLOBAL))
        ck_abort_msg("%s", dlerror());
    if (ce_cudnn_library_open(&library) == CS_OK && library.version() >= 91100)
        return true;
    printf("cudnn_plans: skipped, there is no cuDNN of 9.11 or newer: %s\n", cs_error());
    return false;
}

/* ---- GPUs ---- */

typedef struct {
    const char *name;
    int capability, processors, shared; /* `shared`: bytes of shared memory that a block may use */
} gpu;

static const gpu a100 = { "NVIDIA A100", 800, 108, 166912 }, h200 = { "NVIDIA H200", 900, 132, 232448 },
                 b200 = { "NVIDIA B200", 1000, 148, 232448 };

#define FACTS                                                                                                          \
    "{\"cudaDeviceId\":0,\"deviceName\":\"%s\",\"deviceVer\":%d,\"driverVer\":13000,\"multiProcessorCount\":%d,"       \
    "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"maxThreadsPerBlock\":1024,"            \
    "\"maxThreadsPerSM\":2048,\"maxCtasPerSM\":32,\"warpSize\":32,\"regsPerBlock\":65536,"                             \
    "\"maxRegistersPerSM\":65536,\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":%d,"               \
    "\"reservedSharedMemoryPerBlock\":1024,\"totalGlobalMem\":80000000000,\"l2CacheSize\":52428800,"                   \
    "\"smClockRateKHz\":1400000,\"memClockRateKHz\":2600000,\"pciDeviceId\":0,\"isTccDriver\":0,"                      \
    "\"supportCoopLaunch\":1}"

static ce_cudnn_target describe(const gpu *given)
{
    char text[1024];
    ce_cudnn_target target = { 0 };
    int length = snprintf(text, sizeof text, FACTS, given->name, given->capability, given->processors, given->shared);
    ck_assert_int_eq(library.create(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &target.device), CUDNN_STATUS_SUCCESS);
    ck_assert_int_eq(library.set(target.device, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, length + 1,
                                 text),
                     CUDNN_STATUS_SUCCESS);
    ck_assert_int_eq(library.finalize(target.device), CUDNN_STATUS_SUCCESS);
    return target;
}

/* ---- plans ---- */

/* Returns the bytes of workspace of backward on an H200. The emulator's fake cuDNN computes the same number. */
static int64_t workspace_of(const ce_cudnn_shape *shape)
{
    int64_t tiles = ce_round_up(shape->length, 64) * ce_round_up(shape->length, 128);
    int64_t apart = shape->keys < shape->queries ? 2 * shape->length * shape->width : 0;
    return shape->samples * shape->queries * (tiles + apart) * 2 + 256;
}

static void show(const gpu *of, const ce_cudnn_plan *plan)
{
    const ce_cudnn_shape *shape = &plan->shape;
    printf("%s, (%" PRId64 ", %" PRId64 "), %" PRId64 " heads over %" PRId64 " of %" PRId64 ", %s: workspace %" PRId64
           "\n",
           of->name, shape->samples, shape->length, shape->queries, shape->keys, shape->width,
           shape->grad ? "backward" : "forward", plan->workspace);
    fflush(stdout);
}

static void check_plan(const gpu *of, ce_cudnn_shape shape)
{
    ce_cudnn_plan plan;
    ce_cudnn_target target = describe(of);
    cs_status status = ce_cudnn_plan_open(&plan, &library, &target, &shape, INT64_MAX);
    ck_assert_msg(status == CS_OK, "%s, heads of %" PRId64 ", %s: %s", of->name, shape.width,
                  shape.grad ? "backward" : "forward", cs_error());
    show(of, &plan);
    if (!shape.grad)
        ck_assert_int_lt(plan.workspace, 1 << 20);
    ce_cudnn_plan_close(&plan);
    library.destroy(target.device);
}

START_TEST(attention_has_plans)
{
    static const struct {
        const gpu *of;
        ce_cudnn_shape shape;
    } cases[] = {
        { &h200, { 2, 130, 4, 1, 64, CS_BF16, 0, 4, 1 } },      { &h200, { 2, 130, 4, 1, 64, CS_BF16, 1, 4, 1 } },
        { &h200, { 1, 1024, 4, 4, 80, CS_F16, 1, 4, 4 } },      { &h200, { 1, 1024, 4, 4, 96, CS_BF16, 0, 4, 4 } },
        { &h200, { 2, 1024, 8, 2, 128, CS_BF16, 1, 8, 2 } },    { &a100, { 2, 1024, 8, 2, 128, CS_BF16, 0, 8, 2 } },
        { &a100, { 2, 130, 8, 2, 128, CS_F16, 1, 8, 2 } },      { &b200, { 2, 1024, 8, 2, 128, CS_BF16, 0, 8, 2 } },
        { &b200, { 2, 1024, 12, 12, 64, CS_BF16, 1, 12, 12 } },
    };
    if (!enter())
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_plan(cases[i].of, cases[i].shape);
}
END_TEST

/* The engine of a plan, and the configuration of this engine. */
typedef struct {
    int64_t engine, count, choice;
} kernel;

static void get(cudnnBackendDescriptor_t from, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                int64_t capacity, int64_t *count, void *values)
{
    ck_assert_int_eq(library.get(from, name, type, capacity, count, values), CUDNN_STATUS_SUCCESS);
}

static kernel kernel_of(const ce_cudnn_plan *plan)
{
    cudnnBackendDescriptor_t config, engine, choice;
    kernel made = { 0 };
    int64_t one;
    library.create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config);
    library.create(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine);
    library.create(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &choice);
    get(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &one, &config);
    get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &one, &engine);
    get(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &one, &made.engine);
    get(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &made.count, &choice);
    ck_assert_int_eq(made.count, 1);
    get(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &one, &made.choice);
    library.destroy(choice);
    library.destroy(engine);
    library.destroy(config);
    return made;
}

/* Checks the size of pieces whose workspace is at most 2 GiB. Also checks that a piece uses the same kernel as the
 * whole attention; therefore a piece computes the same bits. */
START_TEST(large_attentions_are_planned_in_pieces)
{
    static const struct {
        ce_cudnn_shape whole;
        int64_t samples, keys; /* samples and key heads of a piece */
    } cases[] = {
        { { 64, 1024, 12, 12, 64, CS_BF16, 1, 12, 12 }, 64, 12 }, /* GPT-2 124M */
        { { 128, 1024, 12, 12, 64, CS_BF16, 1, 12, 12 }, 64, 12 },
        { { 16, 2048, 32, 8, 64, CS_BF16, 1, 32, 8 }, 4, 8 }, /* Llama 3.2 1B */
        { { 2, 8192, 32, 8, 128, CS_BF16, 1, 32, 8 }, 1, 2 }, /* Llama 3 8B   */
        { { 1, 32768, 32, 8, 128, CS_BF16, 1, 32, 8 }, 1, 1 },
        { { 2, 12289, 16, 16, 128, CS_F16, 1, 16, 16 }, 1, 4 },
    };
    if (!enter())
        return;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const ce_cudnn_shape *whole = &cases[i].whole;
        ce_cudnn_bound bound = { .max = (int64_t)2 << 30, .max_smallest = (int64_t)16 << 30 };
        ce_cudnn_plan plan, all;
        ce_cudnn_target target = describe(&h200);
        ck_assert_msg(ce_cudnn_pieces_open(&plan, &library, &target, whole, bound) == CS_OK, "%s", cs_error());
        show(&h200, &plan);
        ck_assert_int_eq(plan.shape.samples, cases[i].samples);
        ck_assert_int_eq(plan.shape.keys, cases[i].keys);
        ck_assert_int_eq(plan.shape.queries, whole->queries / whole->keys * cases[i].keys);
        ck_assert_int_eq(plan.workspace, workspace_of(&plan.shape));
        ck_assert_int_eq(ce_cudnn_plan_open(&all, &library, &target, whole, INT64_MAX), CS_OK);
        kernel of_piece = kernel_of(&plan), of_all = kernel_of(&all);
        ck_assert_mem_eq(&of_piece, &of_all, sizeof of_all);
        ce_cudnn_plan_close(&all);
        ce_cudnn_plan_close(&plan);
        library.destroy(target.device);
    }
}
END_TEST

/* The workspace of deterministic backward grows with the square of the sequence length. */
START_TEST(workspace_is_limited)
{
    ce_cudnn_shape shape = { 1, 4096, 8, 8, 64, CS_BF16, 1, 8, 8 };
    ce_cudnn_plan plan;
    if (!enter())
        return;
    ce_cudnn_target target = describe(&h200);
    ck_assert_int_eq(ce_cudnn_plan_open(&plan, &library, &target, &shape, 1 << 20), CS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(cs_error(), "within 1048576 bytes of workspace"));
    ck_assert_int_gt(plan.workspace, 1 << 20); /* the workspace that the plan needs, in bytes */
    library.destroy(target.device);
}
END_TEST

SUITE_MAIN("cudnn_plans", attention_has_plans, large_attentions_are_planned_in_pieces, workspace_is_limited)
