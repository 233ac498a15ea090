/* engine.h - struct cs_engine, and the functions of core/: the training step. */
#ifndef CE_CORE_ENGINE_H
#define CE_CORE_ENGINE_H

#include "base/clock.h"
#include "security/mac.h"
#include "config/config.h"
#include "device/products.h"
#include "layer/lora.h"
#include "mesh/mesh.h"
#include "models/models.h"
#include "core/observer.h"
#include "unit/pass.h"
#include "zero/zero.h"

typedef struct ce_saving ce_saving;
typedef struct ce_reporting ce_reporting;
typedef struct ce_predictor ce_predictor;
typedef struct ce_curriculum ce_curriculum;
typedef struct ce_upload ce_upload;
typedef struct ce_transfer ce_transfer;

/* The argument of an exchange: the comm of a group of ranks, and the device on which this rank computes. */
typedef struct {
    cs_comm *comm;
    cs_device *device;
    bool overlaps; /* the next exchange runs beside operations */
    bool running;  /* one runs now; `work` is its nonblocking call on a CPU, and NULL on a GPU */
    cs_work *work;
} ce_exchange_group;

/* The verdict on a step (whether the step updates the parameters, and with which factor), and the sums over ranks from
 * which the verdict is computed. */
typedef struct {
    ce_step_sums sums;
    ce_verdict verdict;
} ce_step_judge_record;
typedef struct {
    ce_step_judge_record *device; /* the ce_step_judge_record in device memory */
    ce_step_judge_record *host;   /* the record that the host reads: a copy of *device; on a CPU equal to `device` */
    ce_step_terms terms;
    ce_event copied; /* the event that is complete when *host equals *device */
    bool pending;    /* the host has not read the verdict yet */
} ce_step_judge;

struct cs_engine {
    cs_config *config;
    const ce_settings *settings;
    cs_world world;
    ce_mesh mesh;
    cs_device *device;
    cs_comm *comm; /* all ranks */
    /* the comms zero.comm and zero.across; NULL if zero.comm is `comm`, or if there is one group */
    cs_comm *group, *across;
    /* Tensor parallelism: the group of this rank, and those of its ranks that hold the same key heads; how the layers, and
     * zero/, exchange data with them. All members are zero without tensor parallelism. */
    ce_exchange_group tp, copies;
    ce_exchange exchange, copies_exchange;
    cs_model *model;
    ce_model_facts facts;
    ce_lora lora;                    /* the LoRA adapters; `first` is NULL if there are none */
    char base_digest[CE_MAC_DIGEST]; /* digest of the weight files that the adapters extend; "" if there are none */
    json_t *model_json; /* config.json of a model that the configuration names; NULL if the program built the model */
    json_t *ends;       /* ids of the tokens that end a text, see cs_ends_text */
    int64_t length;     /* T, the positions of a sample; 1 if samples are not sequences */
    int64_t sequences;  /* sequences of a micro-batch: one for each sample, or two if samples are pairs (cspeed.dpo) */

    ce_zero zero;
    ce_pool *values, *grads;
    ce_bucket *buckets; /* equal to zero.buckets; the engine owns and frees this memory */
    ce_shard **shards;  /* one shard for each unit, the stores of frozen parameters included */
    ce_update *update;  /* the optimizer; its scratch is the memory of the pass, which is empty during an update */
    void *block;        /* device memory for the record of `judge`, the table of `update`, and the pass */
    cs_pass *pass;
    ce_predictor *predictor; /* what query/ needs for predictions; NULL until the first prediction */
    struct {
        size_t text; /* bytes of a pass that continues one text by at most `length` positions */
        size_t row;  /* bytes of a row of logits; each generation step needs one row for each text */
    } continuation;
    cs_memory memory;
    ce_traffic traffic; /* the collectives of a step, from which memory.sent is planned */
    size_t chunk_bytes; /* the greatest number of bytes of a chunk on the device that computes, see cs_pass_chunk */
    struct {
        ce_product_list list; /* those matrix products of a micro-batch that have the type precision.products */
        unsigned common;      /* the methods of matrix products that every rank offers, as bits 1 << ce_method */
    } products;

    /* NULL-terminated; NULL while the engine is opened and in cs_estimate, where nothing is observed */
    const ce_observer *const *observers;

    /* one micro-batch */
    ce_phase phase;      /* the phase that must come next */
    int ahead;           /* index of the unit whose all-gather was started last; -1 at the beginning of forward */
    cs_tensor *inputs;   /* the input of each unit, kept for recomputation */
    cs_tensor loss_rows; /* shape (rows, 1) */
    struct {
        cs_tensor targets, references; /* tensors that the device can read; without cspeed.dpo `references` is absent */
    } batch;
    uint64_t *keys;     /* dropout key of each sequence */
    ce_upload *upload;  /* copies batches to the device; NULL if the device reads host memory */
    bool graphs;        /* forward and backward run as CUDA graphs */
    uint64_t graph_key; /* key of the last forward's graph */
    bool uncaptured;    /* this forward is not captured in a graph, because the host waits for each unit */
    bool stepped;       /* this process has completed a step */
    bool failed;        /* a call of a step has ended with a fatal error (query/try.c) */

    /* one optimizer step */
    int64_t micro;             /* micro-batches since the last gradient accumulation boundary */
    int64_t loss_rows_counted; /* rows of this step that have a target; pairs in preference training */
    int64_t targets_counted;
    ce_step_judge judge;
    char *must_end;  /* why the run must end, because no usable loss scale is left or nothing moves; otherwise NULL */
    bool save_asked; /* a checkpoint was asked for, and cs_save_asked has not yet returned true */
    struct {
        /* (layers, experts), in device memory: tokens of each expert in this step so far, on this rank */
        int64_t *counting;
        /* (layers, experts), in host memory: tokens of each expert in the last complete step, over all ranks; written
         * before the verdict on the step */
        int64_t *tokens;
    } experts; /* `counting` and `tokens` are NULL if no layer has experts */
    /* from the last verdict: how many ranks have written their part of the checkpoint that is being saved */
    int64_t parts_saved;
    double started; /* time at which the step began */
    double flops_before;
    /* phase_started: time at which the phase's clock was last started; phase_flops: ce_device_flops when the phase
     * began */
    double phase_started, phase_flops;
    cs_phase_seconds seconds, last_seconds; /* seconds of the step so far, and of the last complete step */

    /* the training so far */
    int64_t updates;   /* number of updates since the optimizer state was zero: Adam's t */
    int64_t scheduled; /* number of updates that the learning-rate schedule has counted */
    /* the program's schedule (cs_set_schedule), which returns a rate; NULL: the configuration's schedule */
    double (*rate)(int64_t step, void *argument);
    void *rate_argument;
    ce_scaler scaler;
    cs_metrics metrics;
    int64_t windows;         /* number of windows of the training data, once the data is open */
    uint64_t mark;           /* a fingerprint of the training data, from ce_windows_mark */
    bool fresh;              /* the parameters still have the values with which the training starts */
    uint64_t reference_mark; /* a hash of the reference model's parameters; 0: not known yet */
    ce_saving *saving;       /* what saving/ knows of checkpoints; NULL while the engine is opened */
    ce_transfer *transfer; /* buffers for checkpoints; NULL before the first use, or if the device reads host memory */

    ce_reporting *reporting;          /* what reporting/ knows of the run; NULL while the engine is opened */
    double phase_traced, unit_traced; /* start times of the current phase and unit; below 0 if there is no trace */
    cs_data *begun[2];                /* data that cs_data_open has yet to take: training, validation; or NULL */
    ce_curriculum *curriculum;        /* shortens samples in the first steps; NULL without a curriculum */
};

/* ---- phase.c: begin and end of a phase ----
 * Between ce_phase_begin and ce_phase_end a phase is timed (cs_phases) and profiled, and the device's profiler shows it
 * as a named range. ce_phase_end also sets the next phase. Both call the observers. */
void ce_phase_begin(cs_engine *engine, ce_phase phase); /* ends the program unless `phase` may begin now */
void ce_phase_end(cs_engine *engine, ce_phase phase);
/* Called in CE_STEP after the reduction of gradients: the time since the phase began is counted as time of backward. */
void ce_phase_reduced(cs_engine *engine);
/* Completes what is in progress because the run ends, and returns its status; see ce_observer.run_end. */
cs_status ce_phase_end_run(cs_engine *engine, const char **kept);
/* Ends the program with a message that names the call `verb`, unless `due` is the phase that must come next. */
void ce_phase_expect(const cs_engine *engine, ce_phase due, const char *verb);
/* Returns the current time in seconds. With wall_clock_breakdown, the function waits for a GPU before it reads the
 * clock, so that a phase's time is that of its operations and not that of their launches. */
double ce_phase_clock(cs_engine *engine);

/* ---- walk.c: entering and leaving unit i ---- */
typedef enum { CE_DOWN = 1, CE_UP = -1 } ce_direction;
/* Gathers the parameters of unit i, starts to gather the parameters of the next units in `direction`, and makes the
 * compute stream wait until the parameters of unit i are gathered. */
cs_unit *ce_walk_enter(cs_engine *engine, cs_pass *pass, int i, ce_direction direction);
void ce_walk_leave(cs_engine *engine, cs_pass *pass, int i, ce_direction direction, bool release);
/* Calls `verb` for the shard of unit i and for the shard of its frozen parameters, if it has any; then does the same
 * for each unit whose parameters unit i shares. */
void ce_walk_each(cs_engine *engine, int i, void (*verb)(ce_shard *shard));
/* Waits until the compute stream and the communication stream are idle. Call this function before the calling thread
 * starts a collective itself, and before the engine is closed. */
void ce_walk_settle(cs_engine *engine);

/* ---- forward.c ---- */
struct ce_forward_input {
    ce_pass_mode mode;
    cs_tensor inputs, targets;
    bool predict;         /* the last unit computes its prediction instead of its loss */
    cs_tensor starts;     /* cs_batch.starts, or absent */
    cs_tensor references; /* cs_batch.references, or absent */
    cs_tensor hits;       /* shape (rows, 1), or absent */
    const uint64_t *keys; /* set by ce_upload_batch */
    /* The text that each sample continues; a prediction is then made for the last row of each sample only. NULL if the
     * samples do not continue texts. */
    const ce_sequence *sequences;
};
/* Runs the forward of all units and returns the last unit's output, which the caller frees with ce_pass_let_go. In
 * training the parameters of the last unit stay gathered for backward. */
cs_tensor ce_forward_units(cs_engine *engine, cs_pass *pass, const ce_forward_input *input);
/* Ends the program unless the micro-batch that the public function `verb` was given is full, because the sizes of the pass's
 * memory are fixed, and has the types of the model. */
void ce_forward_check(const cs_engine *engine, const cs_batch *batch, const char *verb, bool references);
/* Returns the number, in the whole training, of sample b of the current micro-batch. */
int64_t ce_forward_sample(const cs_engine *engine, int64_t b);

/* ---- upload.c: copies a micro-batch to a device with its own memory, and an output back to the host ---- */
cs_status ce_upload_open(cs_engine *engine);
void ce_upload_close(ce_upload *upload); /* accepts NULL */
/* Returns the input as tensors that the device can read, with the dropout keys of the samples. */
ce_forward_input ce_upload_batch(cs_engine *engine, const ce_forward_input *input);
/* Waits for the output and makes it readable by the host. The output stays readable until the next call. */
cs_status ce_upload_fetch_output(cs_engine *engine, cs_tensor *output);

/* ---- backward.c ---- */
void ce_backward_units(cs_engine *engine);
/* Provides memory for the gradient sums of unit i and of units whose parameters unit i shares, if there is none yet. */
void ce_backward_open(cs_engine *engine, int i);
bool ce_backward_finishes(const cs_engine *engine); /* true if backward finishes the reduction of gradients */

/* ---- step.c ---- */
/* Reads the verdict on the last step unless it was read already: updates metrics, counters and loss scale, and prints
 * the messages about the step. The function may wait for the device, but it never communicates. Returns true if a
 * verdict was read and its step updates parameters. */
bool ce_step_settle(cs_engine *engine);

/* ---- step_judge.c: decides on the device whether a step counts, and with which factor ---- */
size_t ce_step_judge_bytes(void);                    /* bytes of device memory for ce_step_judge_open */
int64_t ce_step_judge_sums(const cs_engine *engine); /* number of 64-bit sums over all ranks of a step */
void ce_step_judge_open(cs_engine *engine, void *memory);
void ce_step_judge_close(cs_engine *engine);
void ce_step_judge_place(cs_engine *engine); /* copies engine->scaler to the device */
void ce_step_judge_begin(cs_engine *engine); /* clears the sums and counts before the first micro-batch of a step */
void ce_step_judge_add(cs_engine *engine, cs_tensor losses);
void ce_step_judge_add_pairs(cs_engine *engine, cs_tensor facts); /* `facts` as in ce_preference_rows */
/* Sets each element of dy to the loss scale divided by ce_step_terms.step_rows. */
void ce_step_judge_seed(cs_engine *engine, cs_tensor dy);
ce_step_terms ce_step_judge_terms(const cs_engine *engine);
void ce_step_judge_step(cs_engine *engine);                 /* starts to add up the sums and to compute the verdict */
const ce_gate *ce_step_judge_gate(const cs_engine *engine); /* the gate in the last verdict, in device memory */
const ce_verdict *ce_step_judge_read(cs_engine *engine);    /* waits for the verdict; NULL if it was read before */

/* ---- preference.c: preference training (cspeed.dpo), where samples are pairs of answers ---- */
bool ce_preference_is_on(const cs_engine *engine);
/* Prepares the pass of a micro-batch. After the pass has computed the losses of all rows, the pass computes the rows'
 * weights from these losses, and adds the facts of the pairs to the step's sums. */
void ce_preference_begin(cs_engine *engine);
/* Computes the facts (loss, rewards, log-probabilities) of a micro-batch's pairs from the losses of an evaluation. */
void ce_preference_facts(cs_engine *engine, cs_tensor losses, cs_tensor facts);
int64_t ce_preference_count(cs_tensor targets); /* number of pairs that have a target; `targets` is in host memory */
void ce_preference_report(cs_preference *report, const double means[CE_PAIR_MEANS]);

/* ---- graphs.c: forward and backward of a micro-batch as CUDA graphs ---- */
void ce_graphs_open(cs_engine *engine);
extern const ce_observer ce_graphs_observer;

#endif
