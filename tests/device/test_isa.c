/* test_isa.c - the sets of CPU instructions: which set is chosen, what is refused, and that oneDNN does not use a
 * higher set than the device. */
#include "suite.h"

#include "cspeed/ops.h"
#include "device/products.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    AVX2 = 1u << CE_ISA_AVX2,
    AVX512 = AVX2 | 1u << CE_ISA_AVX512,
    BF16 = AVX512 | 1u << CE_ISA_AVX512_BF16,
};

START_TEST(the_highest_or_the_named_set_is_chosen)
{
    static const struct {
        unsigned available;
        const char *wanted;
        cs_status status;
        ce_isa isa;
        const char *says;
    } cases[] = {
        { AVX2, NULL, CS_OK, CE_ISA_AVX2, "" },
        { BF16, NULL, CS_OK, CE_ISA_AVX512_BF16, "" },
        { BF16, "", CS_OK, CE_ISA_AVX512_BF16, "" },
        { BF16, "avx2", CS_OK, CE_ISA_AVX2, "" },
        { BF16, "avx512", CS_OK, CE_ISA_AVX512, "" },
        { BF16, "avx512_bf16", CS_OK, CE_ISA_AVX512_BF16, "" },
        { BF16, "amx", CS_UNSUPPORTED, CE_ISA_NONE,
          "CSPEED_CPU_ISA=amx, because this CPU has only: avx2 avx512 avx512_bf16" },
        { AVX2, "avx512", CS_UNSUPPORTED, CE_ISA_NONE, "CSPEED_CPU_ISA=avx512, because this CPU has only: avx2" },
        { AVX512, "asimd", CS_UNSUPPORTED, CE_ISA_NONE,
          "CSPEED_CPU_ISA=asimd, because this CPU has only: avx2 avx512" },
        { AVX512, "AVX2", CS_BAD_CONFIG, CE_ISA_NONE,
          "CSPEED_CPU_ISA=AVX2: no set of CPU instructions has this name; this CPU has: avx2 avx512" },
        { AVX512, "none", CS_BAD_CONFIG, CE_ISA_NONE, "CSPEED_CPU_ISA=none: no set" },
        { 0, NULL, CS_UNSUPPORTED, CE_ISA_NONE, "not supported: this CPU lacks one of " },
        { 0, "avx2", CS_UNSUPPORTED, CE_ISA_NONE, "not supported: this CPU lacks one of " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ce_isa isa;
        ck_assert_int_eq(ce_isa_choose(&isa, cases[i].available, cases[i].wanted), cases[i].status);
        if (cases[i].status == CS_OK)
            ck_assert_int_eq(isa, cases[i].isa);
        else
            ck_assert_msg(strstr(cs_error(), cases[i].says) != NULL, "%s", cs_error());
    }
}
END_TEST

/* A CPU that has one set also has all lower sets of the same architecture. */
START_TEST(available_sets_have_no_gap)
{
    unsigned available = ce_isa_available(), lower = available ^ 1u << ce_isa_highest(available);
    ck_assert_uint_ne(available, 0);
    for (ce_isa other; (other = ce_isa_highest(lower)) != CE_ISA_NONE; lower ^= 1u << other)
        ck_assert_uint_eq(lower, available & ((1u << (other + 1)) - 1));
    ck_assert_uint_eq(available & 1u << CE_ISA_NONE, 0);
}
END_TEST

/* ---- devices: each in a process of its own, because oneDNN's set can be changed once in a process ---- */

static int in_child(int (*run)(ce_isa isa), ce_isa isa)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(run(isa));
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static cs_device *open_cpu(void)
{
    cs_device *device;
    CS_MUST(ce_device_open(&device, &(ce_device_settings){ .kind = "cpu", .threads = 1, .local_ranks = 1 }));
    return device;
}

/* Returns 0 if the device uses the set `isa`, its description names this set, an addition is right, and there are no
 * native bf16 products with a set below AVX-512. Closes the device if it returns 0. */
static int check_device(cs_device *device, ce_isa isa)
{
    char words[64];
    float memory[4] = { 1, 2, 3, 0 };
    snprintf(words, sizeof words, "cpu: 1 thread, %s;", ce_isa_name(isa));
    if (ce_device_isa(device) != isa || strncmp(ce_device_describe(device), words, strlen(words)) != 0)
        return 1;
    cs_op_add(ce_device_stream(device, CE_COMPUTE), cs_vector(memory, CS_F32, 2), cs_vector(memory, CS_F32, 2),
              cs_vector(memory + 2, CS_F32, 2));
    if (memory[0] != 4 || memory[1] != 2)
        return 2;
    if (isa < CE_ISA_AVX512 && ce_device_methods(device, CS_BF16, false) & 1u << CE_METHOD_NATIVE)
        return 3;
    ce_device_close(device);
    return 0;
}

static int run_named(ce_isa isa)
{
    setenv("CSPEED_CPU_ISA", ce_isa_name(isa), 1);
    int code = check_device(open_cpu(), isa);
    return code ? code : check_device(open_cpu(), isa); /* a second device of the process */
}

static int run_lowered(ce_isa isa)
{
    unsetenv("CSPEED_CPU_ISA");
    cs_device *device = open_cpu();
    CS_MUST(ce_device_lower_isa(device, isa));
    return check_device(device, isa);
}

/* Once oneDNN has been called, ce_device_lower_isa refuses a lower set. It accepts only the set in use. */
static int run_late(ce_isa isa)
{
    unsetenv("CSPEED_CPU_ISA");
    cs_device *device = open_cpu();
    ce_device_methods(device, CS_BF16, false); /* calls oneDNN */
    bool highest = isa == ce_device_isa(device);
    if (ce_device_lower_isa(device, isa) == CS_OK)
        return highest ? 0 : 4;
    return highest || !strstr(cs_error(), "for every rank") ? 5 : check_device(device, ce_device_isa(device));
}

START_TEST(every_set_of_this_cpu_runs)
{
    unsigned available = ce_isa_available();
    for (int isa = 0; isa < CE_ISA_COUNT; isa++) {
        if (!(available >> isa & 1))
            continue;
        ck_assert_int_eq(in_child(run_named, (ce_isa)isa), 0);
        ck_assert_int_eq(in_child(run_lowered, (ce_isa)isa), 0);
    }
}
END_TEST

START_TEST(a_set_is_not_lowered_late)
{
    unsigned available = ce_isa_available();
    ce_isa highest = ce_isa_highest(available);
    for (int isa = 0; isa < CE_ISA_COUNT; isa++)
        if (available >> isa & 1)
            ck_assert_int_eq(in_child(run_late, (ce_isa)isa), 0);
    cs_device *device;
    CS_MUST(ce_device_open(&device, &(ce_device_settings){ .kind = "dry", .threads = 1 }));
    ck_assert_int_eq(ce_device_isa(device), CE_ISA_NONE);
    ck_assert_int_eq(ce_device_lower_isa(device, highest), CS_UNSUPPORTED);
    ce_device_close(device);
}
END_TEST

SUITE_MAIN("isa", the_highest_or_the_named_set_is_chosen, available_sets_have_no_gap, every_set_of_this_cpu_runs,
           a_set_is_not_lowered_late)
