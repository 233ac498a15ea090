/* setup.h - the functions of setup/ that its files share: cs_initialize opens configuration, model, device, ranks and
 * shards, and closes them again. */
#ifndef CE_SETUP_SETUP_H
#define CE_SETUP_SETUP_H

#include "core/engine.h"

/* Opens the device and connects the ranks, unless cs_init_distributed has done so before. cs_config_close closes
 * both. */
cs_status ce_connect(cs_config *config, cs_device **device, cs_comm **comm);
cs_status ce_connect_device(cs_device **device, const cs_config *config); /* opens a device as the configuration says */
const char *ce_connect_kind(int device); /* the name of a CE_CHOOSE_* device: "auto", "cpu", "cuda" */
/* Returns whether this rank computes on a GPU or, if no device is open yet, whether it would. */
bool ce_connect_is_gpu(const cs_engine *engine);
/* partition.c: names the rules of tensor_parallel.partition_config that disagree with the cuts of the model, and those that
 * match none of its matrices. Returns an error if a rule's expression is wrong. */
cs_status ce_partition_compare(const cs_engine *engine);
/* mesh_groups.c: returns an error if the launcher has told this rank another place in the mesh (CSPEED_MESH). */
cs_status ce_mesh_groups_check(const cs_engine *engine);
/* Opens the comms of this rank's groups in the mesh. Collective. */
cs_status ce_mesh_groups_open(cs_engine *engine);
void ce_mesh_groups_close(cs_engine *engine);
/* initialize.c: opens the model and measures the memory of the run by a dry run; opens no device and no transport */
cs_status ce_initialize_dry(cs_engine *engine);
/* dry_run.c: runs forward and backward on a device that computes nothing, and sets engine->memory to the result */
cs_status ce_dry_run(cs_engine *engine);
ce_regular ce_setup_regular(const ce_settings *settings); /* what training adds to the loss and to the embeddings */
/* Sets those members of `memory` that count the state which a rank keeps between steps, such as values, masters and
 * slots. `zero` is engine->zero, with the place of that rank. */
void ce_dry_run_persistent(const cs_engine *engine, const ce_zero *zero, cs_memory *memory);
/* Sets those members of `memory` that count what the rank of `mesh` sends in a step. */
void ce_dry_run_sent(const cs_engine *engine, const ce_mesh *mesh, cs_memory *memory);
/* memory_fit.c: returns CS_NO_MEMORY, with a table of the memory needed, if the device has less free memory than
 * needed */
cs_status ce_memory_fit_check(const cs_engine *engine);
/* Returns CS_NO_MEMORY if a limit of the address space leaves too little for the libraries that compute, because some of
 * them end the process by a segmentation fault then. */
cs_status ce_memory_fit_address_space(void);
/* cpu_isa.c: makes all ranks whose device is a CPU use the lowest set of instructions among their CPUs. Collective;
 * call it before any operation of the device. */
cs_status ce_cpu_isa_agree(cs_engine *engine);

/* initialize.c: opens the model that cspeed.model names. To be called again, when the model is freed, if engine->facts
 * asks for another form of it. */
cs_status ce_initialize_model(cs_engine *engine);

/* ---- lora.c: cspeed.lora ---- */
/* If the configuration asks for adapters, adds them to the model and freezes all other parameters. Call this function
 * when the model is open and before the layout of its parameters is computed. */
cs_status ce_lora_open(cs_engine *engine);

/* quantize.c: marks the frozen weights that cspeed.quantization_config keeps in 4 bits. To be called after
 * ce_lora_open. */
cs_status ce_quantize(cs_engine *engine);

/* ---- agreement.c: comparison of all ranks before training starts ---- */
/* Compares version, model and configuration of all ranks. If they differ, returns CS_DISAGREE on all ranks, with the
 * differing keys and values; otherwise all ranks take rank 0's seed. Collective; call it once the model and the world
 * are open. */
cs_status ce_agreement_check(cs_engine *engine);

/* The two steps of ce_agreement_check, for tests. ce_agreement_facts returns this rank's facts, {"KEY.PATH": value},
 * which the caller owns; ce_agreement_compare compares the facts of all ranks. */
json_t *ce_agreement_facts(cs_engine *engine);
cs_status ce_agreement_compare(cs_comm *comm, const json_t *facts);

#endif
