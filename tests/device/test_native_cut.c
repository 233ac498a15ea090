/* test_native_cut.c - how bf16 products by oneDNN's primitives are cut on a CPU with AMX: by rows, at multiples of 16,
 * so that oneDNN runs its fast implementation. ONEDNN_VERBOSE says which implementation ran. The process claims to have
 * AMX; oneDNN has the same rule for AVX512_BF16, so a CPU with that is enough. */
#include "near.h"
#include "suite.h"

#include "device/cpu/cpu.h"

#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 272, INPUTS = 96, OUTPUTS = 416, THREADS = 2, NO_PRODUCTS = 2 };

static int multiply(const char *log, ce_isa isa)
{
    cs_device *device;
    setenv("ONEDNN_VERBOSE", "1", 1);
    CS_MUST(ce_device_open(&device, &(ce_device_settings){ .kind = "cpu", .threads = THREADS, .local_ranks = 1 }));
    if (ce_device_isa(device) < CE_ISA_AVX512_BF16 ||
        !(ce_device_methods(device, CS_BF16, false) & 1u << CE_METHOD_NATIVE))
        return NO_PRODUCTS;
    ce_device_use_products(device, &(ce_product_choice){ .dtype = CS_BF16, .others = CE_METHOD_NATIVE });
    device->isa = isa;
    if (!freopen(log, "w", stdout))
        return 1;
    for (int layout = CS_IN_OUT; layout <= CS_OUT_IN; layout++) {
        bool in_out = layout == CS_IN_OUT;
        cs_tensor x = near_random(CS_BF16, ROWS, INPUTS, 1, 1), y = near_random(CS_BF16, ROWS, OUTPUTS, 2, 1);
        cs_tensor w = near_random(CS_BF16, in_out ? INPUTS : OUTPUTS, in_out ? OUTPUTS : INPUTS, 3, 1), none = { 0 };
        cs_op_matmul(ce_device_stream(device, CE_COMPUTE), y, x, w, none, (cs_layout)layout);
        cs_op_matmul_grad_input(ce_device_stream(device, CE_COMPUTE), x, y, w, (cs_layout)layout);
        near_free(x), near_free(y), near_free(w);
    }
    fflush(stdout);
    return 0;
}

/* Counts the products in the log, and those that a slow implementation computed. Checks that panels end at multiples of
 * 16 rows. */
static void count(const char *log, int *products, int *slow)
{
    char line[1024];
    FILE *file = fopen(log, "r");
    *products = *slow = 0;
    while (file && fgets(line, sizeof line, file)) {
        const char *at = strstr(line, ",exec,cpu,matmul,"), *size = strrchr(line, ':');
        if (!at)
            continue;
        ++*products;
        *slow += strncmp(strstr(at, "matmul,") + strlen("matmul,"), "brg", 3) != 0;
        ck_assert_msg(atoi(size + 1) % 16 == 0, "%s", line);
    }
    if (file)
        fclose(file);
}

/* Returns the number of slow products of a process that claims to have the set `isa`; -1: nothing was logged. */
static int slow_products(ce_isa isa)
{
    char log[] = "/tmp/cspeed-native-XXXXXX";
    int file = mkstemp(log), status, products, slow;
    ck_assert_int_ge(file, 0);
    close(file);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(multiply(log, isa));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) % NO_PRODUCTS == 0);
    count(log, &products, &slow);
    unlink(log);
    return products ? slow : -1;
}

START_TEST(a_cut_by_rows_is_fast)
{
    int slow = slow_products(CE_ISA_AMX);
    if (slow < 0) {
        printf("skipped: oneDNN has no fast bf16 products for this CPU, or was built without ONEDNN_VERBOSE\n");
        return;
    }
    ck_assert_int_eq(slow, 0);
}
END_TEST

SUITE_MAIN("native cut", a_cut_by_rows_is_fast)
