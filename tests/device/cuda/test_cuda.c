/* test_cuda.c - unit tests of the CUDA device: error messages without a GPU; on the emulator, memory, streams,
 * events, sums, matrix products, their workspace, and running out of memory. */
#include "near.h"
#include "shell.h"
#include "suite.h"

#include "base/exact.h"
#include "device/device.h"
#include "device/module.h"
#include "cspeed/ops.h"
#include "device/state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SAID = 64 * 1024 }; /* more than a failed assertion of a warp prints: one line for each thread */

static cs_device *open_cuda(void)
{
    cs_device *device;
    CS_MUST(ce_device_open(&device, &(ce_device_settings){ .kind = "cuda" }));
    return device;
}

/* Runs part() in a child process, and stores in `said` what the child writes to stderr. Returns the child's exit code,
 * or -S if signal S ended the child. */
static int run_in_child(void (*part)(void), char said[SAID])
{
    int ends[2], status;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        part();
        _exit(0);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got; (got = read(ends[0], said + used, SAID - 1 - used)) > 0;)
        used += (size_t)got;
    said[used] = '\0';
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

START_TEST(a_missing_driver_is_reported)
{
    const char *module = CS_BIN "/libcspeed_cuda.so", *before = getenv("CSPEED_CUDA_MODULE");
    char *kept = before ? strdup(before) : NULL;
    if (access(module, R_OK) != 0 || access("/dev/nvidiactl", F_OK) == 0) {
        printf("no driver: skipped, the CUDA module is not built, or there is a driver\n");
        free(kept);
        return;
    }
    setenv("CSPEED_CUDA_MODULE", module, 1);
    cs_device *device;
    const ce_module *opened;
    ck_assert_int_eq(ce_device_open(&device, &(ce_device_settings){ .kind = "cuda" }), CS_NO_DEVICE);
    ck_assert_ptr_nonnull(strstr(cs_error(), "no NVIDIA driver"));
    ck_assert_ptr_nonnull(strstr(cs_error(), "use \"cpu\""));
    CS_MUST(ce_device_open(&device, &(ce_device_settings){ .kind = "auto", .threads = 1 }));
    ck_assert_str_eq(ce_device_kind(device), "cpu");
    ce_device_close(device);
    CS_MUST(ce_module_open(&opened));
    char *report = opened->report();
    ck_assert_ptr_nonnull(strstr(report, "devices\tnone: "));
    ck_assert_ptr_nonnull(strstr(report, "\nCUDA driver\tabsent\n"));
    free(report);
    unsetenv("CSPEED_CUDA_MODULE");
    if (kept)
        setenv("CSPEED_CUDA_MODULE", kept, 1);
    free(kept);
}
END_TEST

START_TEST(hidden_gpus_are_reported)
{
    cs_device *device;
    if (!near_emulated("hidden"))
        return;
    setenv("CSPEED_EMULATOR_DEVICES", "0", 1);
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    ck_assert_int_eq(ce_device_open(&device, &(ce_device_settings){ .kind = "cuda" }), CS_NO_DEVICE);
    ck_assert_ptr_nonnull(strstr(cs_error(), "CUDA_VISIBLE_DEVICES=\"\" excludes all"));
    unsetenv("CUDA_VISIBLE_DEVICES");
    if (near_counts()) { /* only the emulated module can be without GPUs on every machine */
        ck_assert_int_eq(ce_device_open(&device, &(ce_device_settings){ .kind = "cuda" }), CS_NO_DEVICE);
        ck_assert_ptr_nonnull(strstr(cs_error(), "no GPU"));
    }
    unsetenv("CSPEED_EMULATOR_DEVICES");
}
END_TEST

static void open_again(void)
{
    open_cuda();
}

START_TEST(a_device_opened_before_a_fork_is_reported)
{
    static char said[SAID];
    if (!near_emulated("fork"))
        return;
    cs_device *device = open_cuda();
    ck_assert_int_eq(run_in_child(open_again, said), cs_exit_code(CS_NO_DEVICE));
    ck_assert_msg(strstr(said, "CUDA cannot be used in this process: it was forked from one that had used CUDA"), "%s",
                  said);
    ce_device_close(device);
}
END_TEST

/* ---- opening and memory ---- */

START_TEST(it_opens_and_describes_itself)
{
    if (!near_emulated("opens"))
        return;
    cs_device *device = open_cuda();
    ck_assert_str_eq(ce_device_kind(device), "cuda");
    ck_assert_int_eq(strncmp(ce_device_describe(device), "cuda: ", 6), 0);
    ck_assert_ptr_nonnull(strstr(ce_device_describe(device), "(sm_"));
    ck_assert_ptr_nonnull(strstr(ce_device_describe(device), "GiB; CUDA "));
    ck_assert(ce_device_has_own_memory(device));
    ck_assert(ce_device_roof(device, CS_BF16) > 0);
    ce_device_close(device);
    CS_MUST(ce_device_open(&device, &(ce_device_settings){ .kind = "cuda", .local_rank = 5 }));
    ce_device_close(device);
    const ce_module *module;
    CS_MUST(ce_module_open(&module));
    char *report = module->report();
    ck_assert_ptr_nonnull(strstr(report, "\ndevice 0\t"));
    ck_assert_ptr_nonnull(strstr(report, "\ncuBLASLt\t"));
    free(report);
}
END_TEST

START_TEST(memory_is_zeroed_aligned_and_counted)
{
    static const size_t sizes[] = { 0, 1, 255, 4096, 100000 };
    enum { SIZES = sizeof sizes / sizeof *sizes };
    void *memory[SIZES];
    if (!near_emulated("memory"))
        return;
    cs_device *device = open_cuda();
    cs_stream *stream = ce_device_stream(device, CE_COMPUTE);
    size_t before = ce_device_allocated(device), whole = 0;
    char *host = ce_device_alloc_pinned(device, 100000);
    for (size_t i = 0; i < 100000; i++)
        ck_assert_int_eq(host[i], 0);
    for (int i = 0; i < SIZES; i++) {
        memory[i] = ce_device_alloc(device, sizes[i]);
        whole += sizes[i];
        ck_assert_uint_eq((uintptr_t)memory[i] % 64, 0);
        memset(host, 1, 100000);
        ce_stream_fetch(stream, host, memory[i], sizes[i]);
        for (size_t at = 0; at < sizes[i]; at++)
            ck_assert_int_eq(host[at], 0);
    }
    ck_assert_uint_eq(ce_device_allocated(device), before + whole);
    ck_assert_uint_gt(ce_device_free_bytes(device), 0);
    for (int i = 0; i < SIZES; i++)
        ce_device_free(device, memory[i]);
    ce_device_free(device, host);
    ck_assert_uint_eq(ce_device_allocated(device), before);
    ce_device_close(device);
}
END_TEST

static void ask_too_much(void)
{
    setenv("CSPEED_EMULATOR_MEMORY", "100000000", 1);
    ce_device_alloc(open_cuda(), (size_t)1 << 40);
}

START_TEST(out_of_memory_is_a_fatal_error)
{
    static char said[SAID];
    if (!near_emulated("too much"))
        return;
    ck_assert_int_eq(run_in_child(ask_too_much, said), cs_exit_code(CS_NO_MEMORY));
    ck_assert_msg(strstr(said, "out of memory: 1099511627776 bytes are needed") != NULL, "it said: %s", said);
}
END_TEST

/* The vocabulary has 4 tokens. All threads of the kernel's only block, a warp, read the token 4. */
static void embed_a_wrong_token(void)
{
    int32_t token = 4;
    cs_device *device = open_cuda();
    cs_stream *stream = ce_device_stream(device, CE_COMPUTE);
    float *memory = ce_device_alloc(device, 64 * sizeof *memory);
    cs_tensor table = cs_matrix(memory, CS_F32, 4, 8), y = cs_matrix(memory + 32, CS_F32, 1, 8);
    cs_tensor tokens = cs_matrix(memory + 48, CS_I32, 1, 1);
    ce_stream_copy(stream, tokens.data, &token, sizeof token);
    cs_op_embed(stream, y, tokens, table, CS_WHOLE_TABLE, (cs_tensor){ 0 }, (cs_tensor){ 0 });
    ce_stream_sync(stream);
}

START_TEST(a_wrong_token_is_reported_with_file_and_line)
{
    static char said[SAID];
    int lines = 0;
    if (!near_emulated("a wrong token"))
        return;
    ck_assert_int_eq(run_in_child(embed_a_wrong_token, said), cs_exit_code(CS_NO_DEVICE));
    for (const char *at = said; (at = strstr(at, "embed.cu:")); at++)
        lines++;
    ck_assert_msg(lines == 32 && strstr(said, "token < job.vocabulary"), "it said: %s", said);
    ck_assert_msg(strstr(said, "device-side assert triggered (cudaErrorAssert)"), "it said: %s", said);
}
END_TEST

/* ---- streams, sums ---- */

/* The compute stream waits for an event behind a copy in the comm stream. Later events have already overwritten this
 * event in the comm stream's ring of events. */
START_TEST(an_overwritten_event_is_still_waited_for)
{
    enum { COUNT = 1000, LATER = 5000 };
    int32_t host[COUNT], back[COUNT];
    if (!near_emulated("events"))
        return;
    cs_device *device = open_cuda();
    cs_stream *compute = ce_device_stream(device, CE_COMPUTE), *comm = ce_device_stream(device, CE_COMM);
    int32_t *first = ce_device_alloc(device, sizeof host), *second = ce_device_alloc(device, sizeof host);
    for (int i = 0; i < COUNT; i++)
        host[i] = i * 3 + 1;
    ce_stream_copy(comm, first, host, sizeof host);
    ce_event done = ce_stream_record(comm);
    for (int i = 0; i < LATER; i++)
        ce_stream_record(comm);
    ce_stream_wait(compute, done);
    ce_stream_copy(compute, second, first, sizeof host);
    ce_stream_fetch(compute, back, second, sizeof host);
    ck_assert_mem_eq(back, host, sizeof host);
    ce_stream_wait(compute, (ce_event){ 0, comm }); /* an event that was never recorded */
    ce_stream_sync(comm);
    ce_device_close(device);
}
END_TEST

static void note(void *argument)
{
    ++*(int *)argument;
}

START_TEST(calls_and_tasks_run_at_once)
{
    int called = 0;
    if (!near_emulated("calls"))
        return;
    cs_device *device = open_cuda();
    ce_stream_call(ce_device_stream(device, CE_COMM), note, &called);
    ck_assert_int_eq(called, 1);
    ce_device_enter(device, "a range");
    ce_device_leave(device);
    ce_device_close(device);
}
END_TEST

/* Each stream adds a sum to the same result. The kernels of the two streams may run concurrently. */
START_TEST(concurrent_sums_are_added)
{
    enum { SUMS = 3, COUNT = 100 };
    float host[COUNT];
    ce_exact sums[SUMS], want = { 0 };
    if (!near_emulated("sums"))
        return;
    cs_device *device = open_cuda();
    float *values = ce_device_alloc(device, sizeof host);
    ce_exact *there = ce_device_alloc(device, sizeof sums);
    for (int i = 0; i < COUNT; i++) {
        host[i] = (float)(i - 20) * 0.37f;
        ce_exact_add(&want, host[i]);
        ce_exact_add(&want, host[i]);
    }
    ce_stream_copy(ce_device_stream(device, CE_COMPUTE), values, host, sizeof host);
    ce_stream_sync(ce_device_stream(device, CE_COMPUTE));
    for (int role = 0; role < 2; role++)
        for (int i = 0; i < SUMS; i++)
            ce_state_sum(ce_device_stream(device, (ce_stream_role)role), &there[i], values, COUNT);
    ce_stream_sync(ce_device_stream(device, CE_COMM));
    ce_stream_fetch(ce_device_stream(device, CE_COMPUTE), sums, there, sizeof sums);
    for (int i = 0; i < SUMS; i++)
        ck_assert_double_eq(ce_exact_value(&sums[i]), ce_exact_value(&want));
    ce_device_close(device);
}
END_TEST

/* ---- products ---- */

static cs_tensor on_device(cs_device *device, cs_tensor host)
{
    size_t bytes = (size_t)cs_count(host) * cs_dtype_bytes(host.dtype);
    cs_tensor there = host;
    there.data = ce_device_alloc(device, bytes);
    ce_stream_copy(ce_device_stream(device, CE_COMPUTE), there.data, host.data, bytes);
    ce_stream_sync(ce_device_stream(device, CE_COMPUTE));
    return there;
}

static void bring_back(cs_device *device, cs_tensor host, cs_tensor there)
{
    ce_stream_fetch(ce_device_stream(device, CE_COMPUTE), host.data, there.data,
                    (size_t)cs_count(host) * cs_dtype_bytes(host.dtype));
    ce_device_free(device, there.data);
}

/* The device tries several algorithms when a shape is used for the first time. Nevertheless the product must be added
 * to the gradient only once. The emulator's third algorithm gives different bits and must never be chosen. */
START_TEST(tuning_adds_gradients_once_with_the_same_bits)
{
    enum { N = 24, K = 80, M = 64 }; /* a result large enough that algorithms are tried */
    if (!near_emulated("gradients"))
        return;
    cs_device *device = open_cuda(), *cpu;
    CS_MUST(ce_device_open(&cpu, &(ce_device_settings){ .kind = "cpu", .threads = 1 }));
    cs_tensor x = near_random(CS_BF16, N, K, 1, 1), dy = near_random(CS_BF16, N, M, 2, 1);
    cs_tensor dw = near_random(CS_F32, K, M, 3, 1), want = near_copy(dw), first = near_copy(dw), again = near_copy(dw);
    cs_op_matmul_grad_weight(ce_device_stream(cpu, CE_COMPUTE), want, (cs_tensor){ 0 }, x, dy, CS_IN_OUT);
    cs_tensor there_x = on_device(device, x), there_dy = on_device(device, dy);
    for (int round = 0; round < 2; round++) {
        cs_tensor into = on_device(device, dw);
        cs_op_matmul_grad_weight(ce_device_stream(device, CE_COMPUTE), into, (cs_tensor){ 0 }, there_x, there_dy,
                                 CS_IN_OUT);
        bring_back(device, round ? again : first, into);
    }
    ck_assert(near_tensors("dw", first, want, 1e-6));
    ck_assert(near_same_bits("dw again", again, first));
    near_free(x), near_free(dy), near_free(dw), near_free(want), near_free(first), near_free(again);
    ce_device_close(cpu);
    ce_device_close(device);
}
END_TEST

/* No algorithms are tried for a small result of 16-bit elements. A small number of rounded elements may be equal
 * although two algorithms add in different orders. */
START_TEST(small_narrow_results_run_by_the_first_algorithm)
{
    enum { N = 64, K = 32, M = 128 };
    if (!near_emulated("small products"))
        return;
    cs_device *device = open_cuda();
    cs_stream *stream = ce_device_stream(device, CE_COMPUTE);
    cs_tensor x = near_random(CS_BF16, N, K, 1, 1), w = near_random(CS_BF16, K, M, 2, 1);
    cs_tensor wide = near_new(CS_F32, K, M);
    cs_tensor there_x = on_device(device, x), there_w = on_device(device, w);
    cs_tensor zeros = near_new(CS_BF16, N, M), y = on_device(device, zeros);
    near_launches before = near_launched();
    cs_op_matmul(stream, y, there_x, there_w, (cs_tensor){ 0 }, CS_IN_OUT);
    ck_assert_uint_eq(near_since(before).kernels, 0);
    cs_op_matmul_grad_weight(stream, on_device(device, wide), (cs_tensor){ 0 }, there_x, y, CS_IN_OUT);
    ck_assert(!near_counts() || near_since(before).kernels > 0); /* algorithms of an fp32 result are tried */
    near_free(x), near_free(w), near_free(wide), near_free(zeros);
    ce_device_close(device);
}
END_TEST

typedef struct {
    cs_dtype dtype;
    int64_t columns; /* GELU can be fused only if `columns` is a multiple of 8 */
    bool bias;
} gelu_case;
static const gelu_case gelu_cases[] = {
    { CS_F32, 32, true },   { CS_BF16, 32, true }, { CS_F16, 32, true },
    { CS_BF16, 32, false }, { CS_BF16, 21, true }, { CS_F32, 5, false },
};

/* Compares the CUDA device's matrix product and GELU, fused where possible, with those of the CPU, forward and
 * backward. */
static void check_gelu(cs_device *cpu, cs_device *device, const gelu_case *c)
{
    enum { N = 12, K = 20 };
    cs_device *devices[2] = { cpu, device };
    cs_tensor x = near_random(c->dtype, N, K, 1, 1), w = near_random(c->dtype, K, c->columns, 2, 1);
    cs_tensor b = near_random(c->dtype, 1, c->columns, 3, 1), dy = near_random(c->dtype, N, K, 4, 1), out[2][3];
    for (int i = 0; i < 2; i++) {
        cs_stream *stream = ce_device_stream(devices[i], CE_COMPUTE);
        cs_tensor there[4] = { on_device(devices[i], x), on_device(devices[i], w), on_device(devices[i], b),
                               on_device(devices[i], dy) },
                  made[3];
        for (int t = 0; t < 3; t++) {
            out[i][t] = near_new(c->dtype, N, c->columns);
            made[t] = on_device(devices[i], out[i][t]);
        }
        cs_tensor bias = cs_vector(there[2].data, c->dtype, c->columns);
        cs_op_matmul_gelu(stream, made[0], made[1], there[0], there[1], c->bias ? bias : (cs_tensor){ 0 }, CS_IN_OUT);
        cs_op_matmul_grad_input_gelu(stream, made[2], there[3], there[1], made[1], CS_OUT_IN);
        for (int t = 0; t < 3; t++)
            bring_back(devices[i], out[i][t], made[t]);
        for (int t = 0; t < 4; t++)
            ce_device_free(devices[i], there[t].data);
    }
    /* one device may apply GELU to the rounded product, the other to the product before rounding */
    double tolerance = c->dtype == CS_F32 ? 2e-6 : c->dtype == CS_F16 ? 2e-3 : 1e-2;
    ck_assert(near_tensors("gelu", out[1][0], out[0][0], tolerance));
    ck_assert(near_tensors("pre", out[1][1], out[0][1], tolerance));
    ck_assert(near_tensors("dpre", out[1][2], out[0][2], tolerance));
    near_free(x), near_free(w), near_free(b), near_free(dy);
    for (int t = 0; t < 3; t++)
        near_free(out[0][t]), near_free(out[1][t]);
}

START_TEST(gelu_is_fused_with_its_product)
{
    if (!near_emulated("gelu"))
        return;
    cs_device *device = open_cuda(), *cpu;
    CS_MUST(ce_device_open(&cpu, &(ce_device_settings){ .kind = "cpu", .threads = 1 }));
    for (size_t i = 0; i < sizeof gelu_cases / sizeof *gelu_cases; i++)
        check_gelu(cpu, device, &gelu_cases[i]);
    ce_device_close(cpu);
    ce_device_close(device);
}
END_TEST

START_TEST(workspace_settles_after_the_first_use)
{
    if (!near_emulated("workspace"))
        return;
    cs_device *device = open_cuda();
    cs_stream *stream = ce_device_stream(device, CE_COMPUTE);
    cs_tensor host = near_random(CS_F32, 16, 16, 1, 1), bias = near_random(CS_BF16, 1, 16, 2, 1);
    cs_tensor a = on_device(device, host), c = on_device(device, host), narrow = on_device(device, host);
    narrow.dtype = CS_BF16;
    cs_tensor wide_bias = on_device(device, bias);
    size_t opened = ce_device_workspace(device);
    cs_op_matmul(stream, c, a, a, (cs_tensor){ 0 }, CS_IN_OUT);
    size_t once = ce_device_workspace(device);
    ck_assert_uint_gt(once, opened);
    cs_op_matmul(stream, c, narrow, narrow, cs_vector(wide_bias.data, CS_BF16, 16),
                 CS_IN_OUT); /* the workspace grows */
    size_t twice = ce_device_workspace(device);
    ck_assert_uint_gt(twice, once);
    cs_op_matmul(stream, c, narrow, narrow, cs_vector(wide_bias.data, CS_BF16, 16), CS_IN_OUT);
    cs_op_matmul(stream, c, a, a, (cs_tensor){ 0 }, CS_IN_OUT);
    ck_assert_uint_eq(ce_device_workspace(device), twice);
    ck_assert_uint_le(twice, ce_device_allocated(device));
    near_free(host), near_free(bias);
    ce_device_close(device);
}
END_TEST

/* TF32 keeps 10 bits of the factors' mantissas. Without TF32 the product uses all bits. */
START_TEST(tf32_is_used_if_requested)
{
    enum { N = 256 }; /* for a small product cuBLASLt may choose a kernel without tensor cores */
    if (!near_emulated("tf32"))
        return;
    for (int asked = 0; asked < 2; asked++) {
        cs_device *device, *cpu;
        CS_MUST(ce_device_open(&device, &(ce_device_settings){ .kind = "cuda", .tf32 = asked }));
        CS_MUST(ce_device_open(&cpu, &(ce_device_settings){ .kind = "cpu", .threads = 1 }));
        cs_tensor a = near_random(CS_F32, N, N, 1, 1), want = near_copy(a), got = near_copy(a);
        cs_op_matmul(ce_device_stream(cpu, CE_COMPUTE), want, a, a, (cs_tensor){ 0 }, CS_IN_OUT);
        cs_tensor there = on_device(device, a), into = on_device(device, a);
        cs_op_matmul(ce_device_stream(device, CE_COMPUTE), into, there, there, (cs_tensor){ 0 }, CS_IN_OUT);
        bring_back(device, got, into);
        ck_assert(near_tensors("product", got, want, asked ? 2e-3 : 2e-6));
        double max = 0, apart = 0;
        for (int64_t i = 0; i < cs_count(want); i++) {
            max = fmax(max, fabs((double)cs_element(want, i)));
            apart = fmax(apart, fabs((double)cs_element(want, i) - (double)cs_element(got, i)));
        }
        ck_assert(!asked || apart > 1e-5 * max);
        near_free(a), near_free(want), near_free(got);
        ce_device_close(cpu);
        ce_device_close(device);
    }
}
END_TEST

/* The model has 200 billion parameters. The message comes before any allocation; it lists what needs how much memory,
 * and what would help. */
START_TEST(a_run_that_does_not_fit_is_explained)
{
    static const char *const config =
        "{ \"train_micro_batch_size_per_gpu\": 4, \"cspeed\": { \"device\": \"cuda\", \"steps\": 1, \"data\": { \"train\": "
        "\"none\", \"seq_len\": 64 }, \"model\": { \"model_type\": \"gpt2\", \"vocab_size\": 64, \"n_embd\": 65536, \"n_layer\": "
        "4, \"n_head\": 512, \"n_positions\": 64 } } }";
    static const char *const wanted[] = { "optimizer states", "activations of a micro-batch",
                                          "are free",         "what helps: more ranks",
                                          "cspeed.recompute", "bf16.enabled" };
    if (!near_emulated("a run that does not fit"))
        return;
    size_t size;
    shell_enter();
    shell_write("config.json", config);
    ck_assert_int_eq(shell_run("%s/train --config config.json 2>&1", CS_BIN), 1);
    char *said = shell_read("out.txt", &size);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        ck_assert_msg(strstr(said, wanted[i]) != NULL, "no \"%s\" in: %s", wanted[i], said);
    free(said);
    shell_leave();
}
END_TEST

SUITE_MAIN_APART("cuda", a_missing_driver_is_reported, hidden_gpus_are_reported,
                 a_device_opened_before_a_fork_is_reported, it_opens_and_describes_itself,
                 memory_is_zeroed_aligned_and_counted, out_of_memory_is_a_fatal_error,
                 a_wrong_token_is_reported_with_file_and_line, an_overwritten_event_is_still_waited_for,
                 calls_and_tasks_run_at_once, concurrent_sums_are_added, tuning_adds_gradients_once_with_the_same_bits,
                 small_narrow_results_run_by_the_first_algorithm, gelu_is_fused_with_its_product,
                 workspace_settles_after_the_first_use, tf32_is_used_if_requested, a_run_that_does_not_fit_is_explained)
