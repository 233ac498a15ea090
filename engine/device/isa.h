/* isa.h - the sets of CPU instructions: which sets this CPU has, and which set the kernels use.
 *
 * The kernels of the CPU device are compiled once for each set that changes their code (CMakeLists.txt); the other sets
 * change only the instructions that oneDNN uses. The set is chosen when the device is opened: it is the set that the
 * environment variable CSPEED_CPU_ISA names, or else the highest set that the CPU has. Sets of one architecture are
 * ordered: a CPU that has a set has all lower sets too. */
#ifndef CE_DEVICE_ISA_H
#define CE_DEVICE_ISA_H

#include "base/status.h"

/* The value CE_ISA_NONE means that the device is not a CPU, or that the CPU has no set for which there are kernels. */
typedef enum {
    CE_ISA_NONE,
    CE_ISA_AVX2,
    CE_ISA_AVX512,
    CE_ISA_AVX512_BF16,
    CE_ISA_AMX,
    CE_ISA_ASIMD, /* aarch64 */
    CE_ISA_COUNT
} ce_isa;

/* Returns the name of a set as in CSPEED_CPU_ISA: "avx2", "avx512", "avx512_bf16", "amx" or "asimd". */
const char *ce_isa_name(ce_isa isa);

/* Returns the sets that this CPU and its operating system support: bit i is 1 if they support the set with the number i
 * (ce_isa). */
unsigned ce_isa_available(void);
ce_isa ce_isa_highest(unsigned available);

enum { CE_ISA_LIST = 64 };
void ce_isa_list(unsigned available, char list[CE_ISA_LIST]); /* writes the names of the sets, such as "avx2 avx512" */

/* Chooses a set among the available sets: the highest set if `wanted` is NULL or empty, otherwise the set of that name.
 * Errors: CS_UNSUPPORTED if no set is available or if the wanted set is not available; CS_BAD_CONFIG if no set has that
 * name. The message lists the available sets. */
cs_status ce_isa_choose(ce_isa *isa, unsigned available, const char *wanted);

#endif
