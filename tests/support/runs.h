/* runs.h - small training runs for tests: a tiny GPT-2 on synthetic tokens, on any number of ranks and on
 * near_device(). */
#ifndef CS_TESTS_RUNS_H
#define CS_TESTS_RUNS_H

#include "cspeed/cspeed.h"

enum { RUN_STEPS = 64, RUN_RANKS = 8, RUN_SETS = 9, RUN_LENGTH = 12, RUN_VOCABULARY = 61 };

/* The assignment of another model for run_spec.set: a tiny Mixtral with two layers of four experts, two for each token,
 * and the load-balancing loss. */
#define RUN_EXPERTS                                                                                                    \
    "cspeed.model={\"model_type\": \"mixtral\", \"vocab_size\": 61, \"hidden_size\": 16, \"intermediate_size\": 24, "  \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, "                               \
    "\"max_position_embeddings\": 12, \"num_local_experts\": 4, \"num_experts_per_tok\": 2, "                          \
    "\"output_router_logits\": true}"

typedef struct {
    int world, stage, steps, micro, accumulation;
    const char *precision; /* "fp32", "bf16", "fp16" */
    const char *recompute; /* "none", "unit"         */
    double dropout;
    int prefetch;
    bool masked;               /* true: masks all targets of two samples in five, and a third of the others */
    const char *more;          /* more top-level members of the configuration, each followed by a comma; or NULL */
    const char *set[RUN_SETS]; /* assignments "KEY.PATH=JSON" for cs_config_set; the first NULL ends the list */
    const char *threads;       /* value of cspeed.threads; NULL: 1 */
    int host;                  /* ranks of each simulated host; 0: all ranks are on one host */
} run_spec;

/* The memory that a rank has allocated, in bytes. */
typedef struct {
    /* heap: memory of the comm; device: all memory of the device; workspace: the part of it that kernels use as
     * workspace */
    size_t heap, device, workspace;
} run_held;

typedef struct {
    double loss[RUN_STEPS], norm[RUN_STEPS];
    cs_memory memory[RUN_RANKS];
    run_held at_open[RUN_RANKS], after_first[RUN_RANKS], at_end[RUN_RANKS];
} run_result;

/* Writes the configuration of a spec to a temporary file in TMPDIR, which the caller unlinks. path[bytes] receives its
 * name. */
void run_write_config(const run_spec *spec, char *path, size_t bytes);
/* Opens an engine in this process for the tiny GPT-2, or for `model` if it is not NULL. */
cs_engine *run_open(const run_spec *spec, cs_model *model);
/* Returns this rank's next micro-batch. A parameter server also gets a micro-batch, but does not read it. The tokens
 * are a function of the global number of the sample. `micro` counts from 0 in each step. */
cs_batch run_batch(const cs_engine *engine, const run_spec *spec, int micro);
/* Performs one optimizer step. */
void run_step(cs_engine *engine, const run_spec *spec);
/* Trains spec->steps steps in spec->world processes. Fails the test after any error. */
void run_train(const run_spec *spec, run_result *result);

/* Fails the test unless the losses and norms of the first `steps` steps are equal bit for bit. */
void run_same_bits(const run_result *a, const run_result *b, int steps, const char *what);

/* Returns zeroed memory that the ranks share with the test. Ranks store results there, and only the test makes
 * assertions: in a rank, a failed assertion would continue with the test's code. */
void *run_share(size_t bytes);
void run_unshare(void *shared, size_t bytes);
/* Calls cs_spawn and fails the test if a rank fails. */
void run_ranks(int world, int (*rank)(void *argument), void *argument);

/* Returns a checksum of this rank's part of the master parameters; it changes if any bit changes. */
uint32_t run_masters(cs_engine *engine);
uint32_t run_slots(cs_engine *engine);

#endif
