/* test_limits.c - the check of kernels' resources, .ci/kernels.awk, accepts a kernel within the limits and reports each
 * limit that a kernel exceeds. The test test_resources makes this check of all kernels, and needs nvcc. */
#include "shell.h"
#include "suite.h"

/* compiled: architecture, name, file, threads, registers, static shared memory, stack, spills. launched: name, threads,
 * dynamic and static shared memory. says: what is reported; "": nothing. */
static const struct {
    const char *compiled, *launched, *says;
} kernels[] = {
    { "90\tgood\tfile.cu\t256\t128\t1024\t0\t0", "good\t256\t0\t1024", "" },
    { "90\tgood\tfile.cu\t256\t255\t0\t0\t0", "good\t128\t200000\t0", "" },
    { "90\tknown\tfile.cu\t256\t255\t0\t24\t64", "known\t256\t0\t0", "" },
    { "80\tknown\tfile.cu\t256\t255\t0\t32\t64", "known\t256\t0\t0",
      "a stack frame of 32 bytes, where 24 are allowed" },
    { "90\tbad\tfile.cu\t256\t255\t0\t0\t8", "bad\t256\t0\t0", "8 bytes of spills, where 0 are allowed" },
    { "90\tbad\tfile.cu\t512\t136\t0\t0\t0", "bad\t512\t0\t0", "more than the 65,536 registers of a block" },
    { "90\tbad\tfile.cu\t0\t32\t0\t0\t0", "bad\t0\t0\t0", "has no __launch_bounds__" },
    { "90\tbad\tfile.cu\t128\t32\t0\t0\t0", "bad\t256\t0\t0", "is launched with 256 threads" },
    { "90\tbad\tfile.cu\t128\t32\t0\t0\t0", "good\t128\t0\t0", "is not launched by the tests" },
    { "80\tbad\tfile.cu\t128\t32\t1024\t0\t0", "bad\t128\t101000\t1024", "where the maximum of a block is 101376" },
    { "90\tbad\tfile.cu\t128\t32\t4096\t0\t0", "bad\t128\t0\t1024", "but the emulator counts 1024" },
};

START_TEST(each_limit_is_checked)
{
    shell_enter();
    shell_write("known", "known\t24\t64\n");
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        shell_write("launched", kernels[i].launched);
        shell_write("compiled", kernels[i].compiled);
        int code = shell_run("awk -F '\\t' -v rows=rows -f %s/.ci/kernels.awk known launched compiled 2>&1", CS_SOURCE);
        shell_ended(kernels[i].says[0] != '\0', code, kernels[i].says);
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("limits", each_limit_is_checked)
