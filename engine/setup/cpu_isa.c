/* cpu_isa.c - all ranks whose device is a CPU use the same set of instructions.
 *
 * Kernels for different sets round differently, and replicas of the parameters must have the same bits on every rank.
 * Therefore all ranks on CPUs use the lowest set that one of these CPUs has. */
#include "setup/setup.h"
#include "base/log.h"

cs_status ce_cpu_isa_agree(cs_engine *engine)
{
    int64_t own_isa = ce_device_isa(engine->device);
    bool is_cpu = own_isa != CE_ISA_NONE;
    int64_t lowest = is_cpu ? own_isa : CE_ISA_COUNT, highest = own_isa;
    cs_comm_all_reduce(engine->comm, &lowest, 1, CS_I64, CS_MIN);
    cs_comm_all_reduce(engine->comm, &highest, 1, CS_I64, CS_MAX);
    if (!is_cpu || lowest == highest)
        return CS_OK;
    ce_log(CE_LOG_INFO, "CPU instructions: all ranks use %s, which every CPU of the job has; the best CPU has %s",
           ce_isa_name((ce_isa)lowest), ce_isa_name((ce_isa)highest));
    return lowest == own_isa ? CS_OK : ce_device_lower_isa(engine->device, (ce_isa)lowest);
}
