/* engine.h - struct cs_engine and the functions shared by engine/ and its rooms. No other room includes it. */
#ifndef CS_ENGINE_H
#define CS_ENGINE_H

#include "base/clock.h"
#include "base/mac.h"
#include "checkpoint/background.h"
#include "config/config.h"
#include "device/products.h"
#include "layer/lora.h"
#include "models/models.h"
#include "monitor/monitor.h"
#include "unit/pass.h"
#include "zero/zero.h"

/* The phases of a micro-batch, in the order in which a program must call their verbs, and evaluation, which is allowed
 * where forward is due. */
typedef enum { CS_FORWARD, CS_BACKWARD, CS_STEP, CS_EVALUATE } ce_phase;

typedef struct ce_profile ce_profile;
typedef struct ce_trace_file ce_trace_file;
typedef struct ce_curriculum ce_curriculum;
typedef struct ce_upload ce_upload;
typedef struct ce_transfer ce_transfer;
typedef struct ce_served_async ce_served_async;
typedef struct ce_replicas ce_replicas;

/* The checkpoint that is being saved, and the results of earlier saves. Strings are malloc'ed. */
typedef struct {
    ce_background *work; /* NULL until the first save in the background */
    int64_t step;
    double stall; /* seconds for which training waited for this save */
    cs_status status;
    char *why;         /* message of a failed save that no verb has returned yet; NULL: none */
    char *resume_dir;  /* the folder whose latest checkpoint the program loads at its start; NULL: none */
    char *in_progress; /* "TAG in DIR" of the save in progress; NULL: none, or its step was not finite */
    char *good;        /* "TAG in DIR" of the last checkpoint that was saved completely or loaded; NULL: none */
    bool resumes;      /* the save in progress goes to resume_dir */
} ce_async_save;

/* Steps whose loss or gradient norm is not finite. */
typedef struct {
    bool unreported; /* the first step of the current series has not been reported yet */
    int64_t step;    /* that first step; `loss` and `norm` are its loss and gradient norm */
    double loss, norm;
    char *gave_up; /* why no usable loss scale is left; NULL: there is one */
} ce_finite;

/* The checkpoints that the current state descends from. A key identifies a folder of checkpoints. */
typedef struct {
    json_t *lines;   /* maps a key to its list of ancestors, newest first (checkpoint/line.h); complete on rank 0 */
    json_t *parent;  /* the checkpoint that the state was last saved to or loaded from; NULL: none */
    json_t *damaged; /* maps a key to the names of damaged checkpoints that loading skipped */
    char saving[64]; /* the key of the save in progress */
} ce_ancestry;

/* Judgement of a step: sums over ranks, and the verdict computed from them. The host reads a copy. */
typedef struct {
    ce_step_sums sums;
    ce_verdict verdict;
} ce_step_judge_record;
typedef struct {
    ce_step_judge_record *device; /* in device memory */
    ce_step_judge_record *host;   /* a copy that the host reads; the same pointer on a CPU */
    ce_step_terms terms;
    ce_event copied; /* done when *host equals *device */
    bool pending;    /* the host has not read the verdict yet */
} ce_step_judge;

/* The replicas of the model that compute: those of all ranks, or of the workers of a parameter server. Samples are
 * divided among them. */
typedef struct {
    int count, own; /* own: this rank's number among them; -1: this rank does not compute */
} ce_lanes;

struct cs_engine {
    cs_config *config;
    const ce_settings *settings;
    cs_world world;
    cs_device *device;
    cs_comm *comm;           /* all ranks */
    cs_comm *group, *across; /* hybrid sharding: zero.comm and zero.across; else NULL */
    cs_model *model;
    ce_model_facts facts;
    ce_lora lora;                    /* the adapters; `first` NULL: there are none */
    char base_digest[CS_MAC_DIGEST]; /* of the weights from which adapters start; "": there are no such files */
    json_t *model_json; /* config.json of a model named by the configuration; NULL: the program built the model */
    int64_t length;     /* T: positions of a sample; 1 if samples are not sequences */
    int64_t sequences;  /* number in a micro-batch: one for each sample, or two where samples are pairs (cspeed.dpo) */

    ce_lanes lanes;
    ce_served served;        /* used if cspeed.mode is "ps" */
    ce_served_async *async;  /* NULL: cspeed.ps.async is false */
    ce_replicas *replicas;   /* of the master of cspeed.mode "dp"; NULL: there are no other replicas */
    const cs_engine *master; /* of another replica: the engine that owns the configuration; NULL: this is no replica */
    int number;              /* of this replica, from 1 */
    ce_zero zero;
    ce_pool *values, *grads;
    ce_bucket *buckets; /* zero.buckets */
    ce_shard **shards;  /* one for each unit, stores included */
    ce_update *update;  /* uses the pass's memory as scratch: the pass is empty while parameters are updated */
    void *block;        /* device memory: the judge's record, the update's table, then the pass's memory */
    cs_pass *pass;
    cs_pass *predictor;    /* the pass of predictions; may be `pass`. NULL until the first prediction */
    void *predictor_block; /* memory of the predictor; NULL if the predictor is `pass` */
    struct {
        size_t text; /* bytes of a pass that continues one text by at most `length` positions */
        size_t row;  /* bytes of a row of logits; a step needs one row for each text */
    } continuation;
    cs_memory memory;
    size_t chunk_bytes; /* the most bytes of a chunk on the device that computes, see cs_pass_chunk */
    struct {
        ce_product_list list; /* the matrix products of a micro-batch, in the type of precision.products */
        unsigned common;      /* the methods that every rank offers: bit 1 << ce_method */
    } products;

    /* one micro-batch */
    ce_phase phase;      /* the phase that is due */
    int ahead;           /* index of the last unit whose gathering was started */
    cs_tensor *inputs;   /* the input of each unit, kept for recomputation */
    cs_tensor loss_rows; /* (rows, 1) */
    cs_tensor prediction;
    struct {
        cs_tensor targets, references; /* readable by the device; references absent without cspeed.dpo */
    } batch;
    uint64_t *keys;    /* dropout key of each sequence */
    ce_upload *upload; /* NULL: the device reads host memory */
    int64_t *samples;
    bool graphs;        /* forward and backward are CUDA graphs */
    uint64_t graph_key; /* key of the last forward's graph */

    /* one optimizer step */
    int64_t micro;             /* micro-batches since the last boundary */
    int64_t loss_rows_counted; /* rows that have a target; pairs in preference training */
    int64_t targets_counted;
    ce_step_judge judge;
    bool save_asked; /* the launcher has asked for a checkpoint, and the program has not been told yet */
    struct {
        int64_t *counting; /* (layers, experts): tokens of this step so far, of this rank */
        int64_t *tokens;   /* those of the last complete step, of all ranks */
    } experts;             /* both NULL if no layer has experts */
    int64_t parts_saved; /* number of ranks that, at the last verdict, had written their part of the save in progress */
    double started;      /* time at which the step began */
    double flops_before;
    double phase_started, phase_flops;      /* `started` and `flops_before` for the current phase */
    cs_phase_seconds seconds, last_seconds; /* of this step so far, and of the last complete step */

    /* the training so far */
    int64_t updates;                              /* applied optimizer steps: Adam's t */
    int64_t scheduled;                            /* applied optimizer steps, counted for the learning-rate schedule */
    double (*rate)(int64_t step, void *argument); /* from cs_set_schedule; NULL: the configuration's schedule */
    void *rate_argument;
    struct {
        ce_schedule_settings schedule; /* of the checkpoint from which the training resumed */
        bool known;                    /* `schedule` is set, and not yet compared with this run's schedule */
    } resumed;
    ce_scaler scaler;
    cs_metrics metrics;
    int64_t windows;         /* number of windows of the training data, once it is open */
    uint64_t mark;           /* ce_windows_mark of the training data */
    bool fresh;              /* the parameters are those with which the training starts */
    uint64_t reference_mark; /* a hash of the reference model's parameters; 0: not known yet */
    ce_async_save saving;
    ce_finite finite;
    ce_ancestry ancestry;
    ce_transfer *transfer; /* NULL: not used yet, or the device reads host memory */

    /* reporting */
    cs_phase_seconds micro_before;     /* engine->seconds at the end of the previous micro-batch */
    int64_t timed_steps, timed_micros; /* by this process */
    double timed_seconds;              /* seconds of this process's steps, without the first two */
    ce_monitor *monitor;               /* NULL: not enabled, or this is not rank 0 */
    ce_profile *profile;               /* NULL: not enabled, or this is not rank 0 */
    ce_trace_file *trace;              /* NULL: not enabled */
    double phase_traced, unit_traced;  /* when the spans of the current phase and unit began; below 0: not recorded */
    ce_curriculum *curriculum;         /* NULL: samples always have the full length */
};

/* ---- phase.c: begin and end of a phase ----
 * Between begin and end the phase is timed (cs_phases) and profiled, and the device's profiler shows it as a named
 * range. End also sets the phase that is due next, prints memory_breakdown's lines, and reports a step. */
void ce_phase_begin(cs_engine *engine, ce_phase phase); /* ends the program if another verb is due */
void ce_phase_end(cs_engine *engine, ce_phase phase);
/* Call in CS_STEP after the reduction of gradients: the time since the phase began then counts as backward's. */
void ce_phase_reduced(cs_engine *engine);
/* Ends the program with a message that names the verb, unless the phase `due` is due. */
void ce_phase_expect(const cs_engine *engine, ce_phase due, const char *verb);
/* The current time in seconds. With wall_clock_breakdown, the function waits for a GPU before it reads the clock, so
 * that a phase's time is that of its operations and not that of their launches. */
double ce_phase_clock(cs_engine *engine);

/* ---- served.c: a parameter server, cspeed.mode "ps" ---- */
/* Sets engine->lanes, and what engine->zero says about rank `rank` of the mode. */
void ce_served_place(cs_engine *engine, int rank);
/* Changes `memory`, which the dry run of a worker has measured, to that of this rank's place. */
void ce_served_measure(const cs_engine *engine, cs_memory *memory);
/* After the dry run of a worker: takes this rank's own place, with the memory that it needs. */
cs_status ce_served_prepare(cs_engine *engine);
bool ce_served_serves(const cs_engine *engine); /* this rank is a server */
/* Replaces `count` integers of 64 bits by their sums over all ranks, in which workers exchange nothing with each
 * other if there is a parameter server. Collective. */
void ce_served_add_up(cs_engine *engine, void *data, size_t count);

/* ---- served_async.c: cspeed.ps.async; all but _is_async do nothing without it ---- */
bool ce_served_is_async(const cs_engine *engine);
cs_status ce_served_async_open(cs_engine *engine);
void ce_served_async_close(cs_engine *engine); /* waits until the other ranks close too */
/* On a worker: pushes the gradients of the step that was judged, and pulls new values; may wait for slower workers. */
void ce_served_async_exchange(cs_engine *engine, const ce_update_terms *terms);
/* On a server: serves the workers until each has done one more step. */
void ce_served_async_serve(cs_engine *engine);
size_t ce_served_async_sent(const cs_engine *engine); /* bytes that a worker sends in a step beside its gradients */
/* On a server: how many steps of workers began `steps` steps ahead of the slowest worker. */
int64_t ce_served_async_ahead(const cs_engine *engine, int64_t steps);

/* ---- replicas.c: cspeed.mode "dp" ---- */
typedef struct {
    uint64_t handed_out, gathered; /* bytes of parameters and of gradients that the master has copied */
    double busy, seconds;          /* seconds in which the master worked alone, and of all steps */
    double begun, gathering;       /* times at which the current step and its gathering of gradients began */
} ce_replica_costs;
cs_status ce_replicas_open(cs_engine *engine); /* when the master is complete; does nothing in other modes */
void ce_replicas_close(ce_replicas *replicas); /* accepts NULL */
void ce_replicas_forward(cs_engine *engine, const cs_batch *batch);
void ce_replicas_backward(cs_engine *engine);
/* At the boundary: adds the gradients and losses of the other replicas to the master's. These two do nothing without
 * other replicas. */
void ce_replicas_gather(cs_engine *engine);
void ce_replicas_end_step(cs_engine *engine);
ce_replica_costs ce_replicas_costs(const cs_engine *engine);
/* initialize.c: opens a replica in the thread that will use it. */
cs_status ce_initialize_replica(cs_engine **replica, const cs_engine *master, int number);

/* ---- walk.c: entering and leaving unit i ---- */
typedef enum { CS_DOWN = 1, CS_UP = -1 } ce_direction;
/* Gathers the parameters of unit i, starts to gather those of the next units in this direction, and makes the compute
 * stream wait until unit i's are gathered. */
cs_unit *ce_walk_enter(cs_engine *engine, int i, ce_direction direction);
void ce_walk_leave(cs_engine *engine, int i, ce_direction direction, bool release);
const char *ce_walk_name(const cs_unit *unit); /* the unit's name, or its kind's if it has none */
/* Calls `verb` for the shards of unit i and of its store, if it has one, then for those of each unit that lends
 * parameters to unit i. */
void ce_walk_each(cs_engine *engine, int i, void (*verb)(ce_shard *shard));
/* Waits until both streams are idle. Call this function before the calling thread starts a collective itself, and
 * before the engine is closed. */
void ce_walk_settle(cs_engine *engine);

/* ---- forward.c ---- */
typedef struct {
    ce_pass_mode mode;
    cs_tensor inputs, targets;
    bool predict;         /* compute the last unit's prediction instead of its loss */
    cs_tensor starts;     /* cs_batch.starts, or absent */
    cs_tensor references; /* cs_batch.references, or absent */
    cs_tensor hits;       /* (rows, 1), or absent */
    const uint64_t *keys; /* set by ce_upload_batch */
    /* The text that each sample continues; a prediction is then made for the last row of each sample only. NULL: no
     * texts are continued. */
    const ce_sequence *sequences;
} ce_forward_input;
/* Computes the losses of a replica's part of a micro-batch. */
void ce_forward_batch(cs_engine *engine, const cs_batch *batch);
/* Runs the forward of all units; returns the last unit's output, which the caller lets go (ce_pass_let_go). In training
 * the last unit stays gathered for backward. */
cs_tensor ce_forward_units(cs_engine *engine, const ce_forward_input *input);
void ce_forward_drop_prediction(cs_engine *engine); /* releases the output of the last cs_predict */

/* ---- backward.c ---- */
void ce_backward_units(cs_engine *engine);
/* Gives unit i, and the units that lend parameters to it, memory for the sums of their gradients, unless they have
 * it. */
void ce_backward_open(cs_engine *engine, int i);
bool ce_backward_finishes(const cs_engine *engine); /* false: cs_step calls ce_gradient_finish */

/* ---- step.c ---- */
/* Reads the verdict on the last step unless it was read already: updates metrics, counters and loss scale, and prints
 * the messages about the step. May wait for the device, never communicates. Returns true if a verdict was read and its
 * step updates parameters. */
bool ce_step_settle(cs_engine *engine);

/* ---- step_judge.c: judgement of a step on the device ---- */
size_t ce_step_judge_bytes(void);                     /* bytes of device memory for ce_step_judge_open */
size_t ce_step_judge_summed(const cs_engine *engine); /* bytes of the sums that ranks add */
size_t ce_step_judge_sent(const cs_engine *engine);   /* bytes that a rank has to send for a judgement */
void ce_step_judge_open(cs_engine *engine, void *memory);
void ce_step_judge_close(cs_engine *engine);
void ce_step_judge_place(cs_engine *engine); /* copies engine->scaler to the device after it was set */
void ce_step_judge_begin(cs_engine *engine); /* before the first micro-batch of a step */
void ce_step_judge_add(cs_engine *engine, cs_tensor losses);
void ce_step_judge_add_pairs(cs_engine *engine, cs_tensor facts); /* `facts` as in ce_preference_rows */
void ce_step_judge_seed(cs_engine *engine, cs_tensor dy);         /* fills dy with loss_scale / step_rows */
ce_step_terms ce_step_judge_terms(const cs_engine *engine);
void ce_step_judge_step(cs_engine *engine);                 /* at the boundary; starts a collective */
const ce_gate *ce_step_judge_gate(const cs_engine *engine); /* the gate of the last judged step, in device memory */
const ce_verdict *ce_step_judge_read(cs_engine *engine);    /* waits for the verdict; NULL if it was read before */

/* ---- experts.c: the load of the experts; nothing is done for a model without experts ---- */
cs_status ce_experts_open(cs_engine *engine);
void ce_experts_close(cs_engine *engine);
void ce_experts_count(cs_engine *engine);        /* after the forward of a micro-batch */
void ce_experts_sum(cs_engine *engine);          /* adds the counts of all ranks at the end of a step; collective */
size_t ce_experts_sent(const cs_engine *engine); /* bytes that a rank has to send for that */

/* ---- preference.c: preference training (cspeed.dpo), where samples are pairs of answers ---- */
bool ce_preference_is_on(const cs_engine *engine);
/* Prepares this pass: once the losses of its rows are known, the rows' weights are computed from them, and the facts of
 * the pairs are added to the step's sums. */
void ce_preference_begin(cs_engine *engine);
/* Computes the facts of a micro-batch's pairs from the losses of an evaluation. */
void ce_preference_facts(cs_engine *engine, cs_tensor losses, cs_tensor facts);
int64_t ce_preference_count(cs_tensor targets); /* pairs that have a target; host memory */
void ce_preference_report(cs_preference *report, const double means[CS_PAIR_MEANS]);

/* ---- finite.c: steps whose loss or gradients are not finite ---- */
void ce_finite_count(cs_engine *engine, const ce_verdict *verdict); /* `verdict`: on step metrics.step */
void ce_finite_give_up(cs_engine *engine, const char *why);         /* the next ce_finite_report ends the run */
/* Reports the first step of a series of steps that are not finite, and ends the run after nan_patience such steps in a
 * row. Collective; does not communicate while steps are finite. */
void ce_finite_report(cs_engine *engine);
void ce_finite_close(cs_engine *engine);

/* ---- evaluate.c ---- */
/* Computes the log-probabilities of both answers of each pair of `data`, on every rank for all pairs: logps[2 * number
 * of the pair + answer]. Collective. */
void ce_evaluate_pairs(cs_engine *engine, cs_data *data, float *logps);
/* Runs one forward pass for `verb` and returns its output, which is valid until the next verb. */
cs_status ce_evaluate_output(cs_engine *engine, const char *verb, const ce_forward_input *input, cs_tensor *output);
void ce_evaluate_close(cs_engine *engine); /* releases the memory of predictions */

/* ---- graphs.c: forward and backward of a micro-batch as CUDA graphs ----
 * _forward and _backward begin a capture or a replay, _end ends it. */
void ce_graphs_open(cs_engine *engine);
void ce_graphs_forward(cs_engine *engine, const ce_forward_input *input);
void ce_graphs_backward(cs_engine *engine);
void ce_graphs_end(cs_engine *engine);

/* ---- what cs_initialize calls ---- */

/* Opens the device and connects the ranks: sets config->device and config->comm. */
cs_status ce_connect(cs_config *config);
cs_status ce_connect_device(cs_device **device, const cs_config *config); /* opens a device as the settings say */
const char *ce_connect_kind(int device); /* the word of a CS_CHOOSE_* device: "auto", "cpu", "cuda" */
/* dry_run.c: runs forward and backward on a device that computes nothing, and sets engine->memory from it */
cs_status ce_dry_run(cs_engine *engine);
/* memory_fit.c: returns CS_NO_MEMORY, with a table of the memory needed, if the device has less free memory than
 * needed */
cs_status ce_memory_fit_check(const cs_engine *engine);
/* cpu_isa.c: makes all ranks whose device is a CPU use the lowest set of instructions among their CPUs. Collective;
 * call it before any operation of the device. */
cs_status ce_cpu_isa_agree(cs_engine *engine);
/* products.c: makes all ranks multiply matrices by the same methods; needs ce_dry_run's list. Collective. */
cs_status ce_products_agree(cs_engine *engine);
/* The methods in use as text, for a checkpoint's provenance; NULL: the device has no choice. The caller owns the
 * text. */
json_t *ce_products_record(const cs_engine *engine);
/* Switches to the methods that the provenance records, or logs why this run uses other methods. */
void ce_products_resume(cs_engine *engine, json_t *provenance);

/* ---- lora.c: cspeed.lora ---- */
/* If the configuration asks for adapters, gives them to the model and freezes all other parameters. Call this function
 * when the model is open and before its parameters are laid out. */
cs_status ce_lora_open(cs_engine *engine);
/* Facts of the adapters for a checkpoint's provenance; export needs them. NULL: there are no adapters. The caller owns
 * the facts. */
json_t *ce_lora_record(const cs_engine *engine);

/* ---- agreement.c: comparison of all ranks before training starts ---- */
/* Compares version, model and configuration of all ranks. If they differ, returns CS_DISAGREE on all ranks, with the
 * differing keys and values; otherwise all ranks take rank 0's seed. Collective; call it once the model and the world
 * are open. */
cs_status ce_agreement_check(cs_engine *engine);

/* The two steps of ce_agreement_check, for tests. _facts returns the facts to compare, {"KEY.PATH": value}, which the
 * caller owns; _compare compares the facts of all ranks. */
json_t *ce_agreement_facts(cs_engine *engine);
cs_status ce_agreement_compare(cs_comm *comm, const json_t *facts);

/* ---- input/ ---- */
/* reference.c: the reference model of preference training, whose log-probabilities are computed once and kept in
 * cspeed.data.cache. For data of pairs, _open reads or computes the log-probabilities; *logps is malloc'ed and laid out
 * as in ce_evaluate_pairs. Collective. */
cs_status ce_reference_open(float **logps, cs_data *data);

/* upload.c: copies a micro-batch to a device with its own memory, and an output back */
cs_status ce_upload_open(cs_engine *engine);
void ce_upload_close(ce_upload *upload); /* accepts NULL */
/* Returns the input with tensors that the device can read, and with keys. */
ce_forward_input ce_upload_batch(cs_engine *engine, const ce_forward_input *input);
/* Waits for the output and makes it readable by the host; it stays readable until the next call. */
cs_status ce_upload_fetch_output(cs_engine *engine, cs_tensor *output);

/* curriculum.c: shorter samples in the first steps */
cs_status ce_curriculum_open(cs_engine *engine);
void ce_curriculum_close(cs_engine *engine);
/* Returns the batch itself, or prefixes of its samples; these are valid until the next call. */
cs_batch ce_curriculum_shorten(cs_engine *engine, const cs_batch *batch);
bool ce_curriculum_may_be(const cs_engine *engine, int64_t length); /* true if some step has samples of this length */

int64_t ce_loader_sample(const cs_engine *engine, int64_t b); /* loader.c: number of sample b of this micro-batch */

/* ---- persistence/ ---- */
/* async_save.c: saves checkpoints, in the foreground or in the background */
cs_status ce_async_save_open(cs_engine *engine);
void ce_async_save_close(cs_engine *engine);
/* begun: the time at which training stopped for this save. */
cs_status ce_async_save_start(cs_engine *engine, const char *dir, const ce_checkpoint_content *content, double begun);
/* Waits for the save in progress; returns its status, or an earlier failure that no verb has returned. Collective. */
cs_status ce_async_save_finish(cs_engine *engine);
size_t ce_async_save_copy(const cs_engine *engine); /* bytes that cspeed.async_save uses for its copy; 0 without it */
void ce_async_save_trust(cs_engine *engine, const char *dir, const char *tag); /* records a loaded checkpoint as good */
void ce_async_save_hold(cs_engine *engine);           /* call before parameters and optimizer state change */
int64_t ce_async_save_ready(const cs_engine *engine); /* 1 if this rank's part of the save in progress is written */
/* Continues the save in progress once all ranks' parts are written. `ready`: ce_async_save_ready summed over ranks.
 * Collective. */
void ce_async_save_continue(cs_engine *engine, int64_t ready);

/* ancestry.c: which checkpoints the state descends from. Call _offer before a save, _saved after it, _loaded after a
 * load. */
void ce_ancestry_loaded(cs_engine *engine, const char *dir, ce_checkpoint_reader *reader, bool module_only);
void ce_ancestry_offer(cs_engine *engine, const char *dir, ce_checkpoint_content *content);
void ce_ancestry_saved(cs_engine *engine);
void ce_ancestry_close(cs_engine *engine);
/* Makes the loaded checkpoint the latest of dir, and logs the newer checkpoints, which the training thereby abandons.
 * Collective. */
cs_status ce_ancestry_rewind(cs_engine *engine, const char *dir, const ce_checkpoint_reader *reader);

/* transfer.c: copies state between a device with its own memory and checkpoint files, through pinned buffers */
/* Call before state is saved or loaded. *device_copy receives the copy functions, or NULL if the device uses host
 * memory. The functions wait for all operations that both streams have been given before this call, and then copy. */
cs_status ce_transfer_begin(cs_engine *engine, const ce_checkpoint_device_copy **device_copy);
void ce_transfer_end(cs_engine *engine);       /* waits until everything sent is on the device */
size_t ce_transfer_bytes(void);                /* pinned memory, allocated at the first ce_transfer_begin */
void ce_transfer_close(ce_transfer *transfer); /* accepts NULL */

/* schedule_change.c: logs a message if the learning-rate schedule differs from the checkpoint's. _read keeps the
 * schedule of the open checkpoint; _say compares the two schedules before the first update. Both do nothing on ranks
 * other than 0. */
void ce_schedule_change_read(cs_engine *engine, const ce_checkpoint_reader *reader);
void ce_schedule_change_say(cs_engine *engine);

/* pretrained.c: initial values from the weights in a Hugging Face folder, if it has any; does nothing if `folder` is
 * NULL. Collective. */
cs_status ce_pretrained_load(cs_engine *engine, const char *folder);
/* Reads the weights of another folder in the same way; they must be of the same model. Collective. */
cs_status ce_pretrained_reference(cs_engine *engine, const char *folder);
/* Reads the parameters of unit i from a source: if `adapter` is true those that a folder of PEFT has, otherwise those
 * of the model, and the norms with which the magnitudes of DoRA begin. */
struct ce_source;
cs_status ce_pretrained_read(cs_engine *engine, struct ce_source *source, int i, bool adapter);
/* True if a folder of PEFT has this parameter: it belongs to an adapter, or is trained beside the adapters. */
bool ce_adapter_has(const ce_unit_entry *entry);
/* Always fails, with the message for a folder without config.json: it says what the folder is and how to use it. */
cs_status ce_pretrained_refuse(const char *folder);

/* adapter.c: cspeed.lora.adapter, a folder of PEFT. _describe sets r, alpha, rslora, dora, bias and targets (*targets
 * is a new reference to them), and dropout if `dropout` is true. If such a folder is configured, _load reads the
 * values. Collective. */
cs_status ce_adapter_describe(ce_lora_settings *settings, json_t **targets, bool dropout);
cs_status ce_adapter_load(cs_engine *engine);

/* base.c: the digest of the folder of weights beside which adapters are trained. _note computes engine->base_digest for
 * a training of adapters; _check refuses, with CS_BAD_CONFIG, a checkpoint whose adapters were trained beside other
 * weights. _note is collective. */
cs_status ce_base_note(cs_engine *engine, const char *folder);
cs_status ce_base_check(const cs_engine *engine, const json_t *provenance);

/* ---- reporting/ ---- */
/* report.c: DeepSpeed's log lines and monitor events */
cs_status ce_report_open(cs_engine *engine);
void ce_report_close(cs_engine *engine);
void ce_report_micro(cs_engine *engine); /* after each micro-batch except the last one of a step */
void ce_report_step(cs_engine *engine);

/* memory_report.c: memory_breakdown's lines, and the bytes that this rank's engine holds */
void ce_memory_report_print(const cs_engine *engine, const char *moment);
double ce_memory_report_held(const cs_engine *engine);

/* trace.c: cspeed.trace, a file in Chrome's trace format. _begin_step is called before a step's first forward,
 * _end_step after the step; both do nothing for steps that are not recorded. All but _close are collective. */
cs_status ce_trace_file_open(cs_engine *engine);
void ce_trace_file_close(cs_engine *engine);
void ce_trace_file_begin_step(cs_engine *engine);
void ce_trace_file_end_step(cs_engine *engine);

/* dump.c: prints the configuration and the engine's sizes, for dump_state */
void ce_dump_engine(const cs_engine *engine);

/* profile.c: profile of one forward pass, unit by unit. Each function returns at once if there is no profile. */
cs_status ce_profile_open(cs_engine *engine);
void ce_profile_close(cs_engine *engine);
void ce_profile_start(cs_engine *engine);
void ce_profile_enter(cs_engine *engine);
void ce_profile_leave(cs_engine *engine, int i);
void ce_profile_stop(cs_engine *engine);
bool ce_profile_is_due(const cs_engine *engine); /* true in the step to profile; the same on all ranks */
void ce_profile_print(cs_engine *engine);        /* after the step that was profiled */

#endif
