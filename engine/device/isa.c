/* isa.c - the sets of CPU instructions, and for each set the table of the CPU device.
 *
 * This file is compiled for any CPU of the architecture. Its functions must run before any kernel, to choose the
 * kernels. */
#include "device/isa.h"
#include "device/table.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    const char *name;
    /* the kernels of the set; NULL: there are none, or the set belongs to another architecture */
    const ce_device_table *kernels;
    /* returns whether the CPU has the instructions that this set adds to the previous set */
    bool (*is_there)(void);
} isa_row;

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Each of these functions tests the CPU features that the compiler may use in the kernels of one set (the options are
 * in CMakeLists.txt). */
static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static bool has_avx512_bf16(void)
{
    return __builtin_cpu_supports("avx512bf16");
}

/* AMX also needs an operating system that saves the tile registers of a thread: bits 17 and 18 of XCR0 must be set.
 * Linux gives a process the registers only if it asks; the permission is for all threads. */
static bool has_amx(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    unsigned a, b, c, d, low, high;
    const unsigned wanted = 1u << 22 | 1u << 24; /* the bits of AMX-BF16 and AMX-TILE */
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & wanted) != wanted)
        return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low >> 17 & 3) == 3 && syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

extern const ce_device_table ce_device_cpu_avx2, ce_device_cpu_avx512, ce_device_cpu_amx;
static const isa_row rows[CE_ISA_COUNT] = {
    [CE_ISA_NONE] = { "none", NULL, NULL },
    [CE_ISA_AVX2] = { "avx2", &ce_device_cpu_avx2, has_avx2 },
    [CE_ISA_AVX512] = { "avx512", &ce_device_cpu_avx512, has_avx512 },
    [CE_ISA_AVX512_BF16] = { "avx512_bf16", &ce_device_cpu_avx512, has_avx512_bf16 },
    [CE_ISA_AMX] = { "amx", &ce_device_cpu_amx, has_amx },
    [CE_ISA_ASIMD] = { "asimd", NULL, NULL },
};
static const char lowest[] = "AVX2, FMA, BMI1 and BMI2";
#elif defined(__aarch64__)
static bool has_asimd(void)
{
    return true; /* every 64-bit ARM CPU that runs Linux has ASIMD */
}

extern const ce_device_table ce_device_cpu_asimd;
static const isa_row rows[CE_ISA_COUNT] = {
    [CE_ISA_NONE] = { "none", NULL, NULL },     [CE_ISA_AVX2] = { "avx2", NULL, NULL },
    [CE_ISA_AVX512] = { "avx512", NULL, NULL }, [CE_ISA_AVX512_BF16] = { "avx512_bf16", NULL, NULL },
    [CE_ISA_AMX] = { "amx", NULL, NULL },       [CE_ISA_ASIMD] = { "asimd", &ce_device_cpu_asimd, has_asimd },
};
static const char lowest[] = "ASIMD";
#else
#error "cspeed has kernels for x86-64 and aarch64"
#endif

const char *ce_isa_name(ce_isa isa)
{
    return rows[isa].name;
}

unsigned ce_isa_available(void)
{
    unsigned available = 0;
    for (int i = 0; i < CE_ISA_COUNT; i++) {
        if (!rows[i].kernels)
            continue;
        if (!rows[i].is_there())
            break;
        available |= 1u << i;
    }
    return available;
}

ce_isa ce_isa_highest(unsigned available)
{
    int highest = CE_ISA_COUNT - 1;
    while (highest > CE_ISA_NONE && !(available >> highest & 1))
        highest--;
    return (ce_isa)highest;
}

void ce_isa_list(unsigned available, char list[CE_ISA_LIST])
{
    size_t used = 0;
    list[0] = '\0';
    for (int i = 0; i < CE_ISA_COUNT; i++)
        if (available >> i & 1)
            used += (size_t)snprintf(list + used, CE_ISA_LIST - used, "%s%s", used ? " " : "", rows[i].name);
}

static bool is_name(const char *word)
{
    for (int i = CE_ISA_NONE + 1; i < CE_ISA_COUNT; i++)
        if (strcmp(word, rows[i].name) == 0)
            return true;
    return false;
}

cs_status ce_isa_choose(ce_isa *isa, unsigned available, const char *wanted)
{
    char list[CE_ISA_LIST];
    ce_isa_list(available, list);
    *isa = ce_isa_highest(available);
    if (*isa == CE_ISA_NONE)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: this CPU lacks one of %s, which the kernels of cspeed need; use a newer one "
                       "(in a virtual machine: one whose CPU is that of the host)",
                       lowest);
    if (!wanted || !*wanted)
        return CS_OK;
    for (int i = 0; i < CE_ISA_COUNT; i++) {
        if ((available >> i & 1) && strcmp(wanted, rows[i].name) == 0) {
            *isa = (ce_isa)i;
            return CS_OK;
        }
    }
    if (is_name(wanted))
        return ce_fail(CS_UNSUPPORTED, "not supported: CSPEED_CPU_ISA=%s, because this CPU has only: %s", wanted, list);
    return ce_fail(CS_BAD_CONFIG, "CSPEED_CPU_ISA=%s: no set of CPU instructions has this name; this CPU has: %s",
                   wanted, list);
}

const ce_device_table *ce_isa_kernels(ce_isa isa)
{
    return rows[isa].kernels;
}

ce_isa ce_device_isa(const cs_device *device)
{
    return device->isa;
}

cs_status ce_device_lower_isa(cs_device *device, ce_isa isa)
{
    char list[CE_ISA_LIST];
    unsigned available = ce_isa_available();
    if (isa == device->isa)
        return CS_OK;
    ce_isa_list(available, list);
    if (!device->table->lower || isa > device->isa || !(available >> isa & 1))
        return ce_fail(CS_UNSUPPORTED, "not supported: %s on this device; this CPU has: %s", ce_isa_name(isa), list);
    CE_TRY(device->table->lower(device, isa));
    device->table = ce_isa_kernels(isa);
    return CS_OK;
}
