/* engine.h - struct cs_engine and the functions shared by engine/ and its rooms. No other room includes it. */
#ifndef CS_ENGINE_H
#define CS_ENGINE_H

#include "base/clock.h"
#include "checkpoint/background.h"
#include "config/config.h"
#include "device/products.h"
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

/* The checkpoint that is being saved, and the results of earlier saves. Strings are malloc'ed. */
typedef struct {
    ce_background *work; /* NULL until the first save in the background */
    int64_t step;
    double stall; /* seconds for which training waited for this save */
    cs_status status;
    char *why;         /* message of a failed save that no verb has returned yet; NULL: none */
    char *resume_dir;  /* the folder whose latest checkpoint the program loads at its start; NULL: none */
    char *in_progress; /* "TAG in DIR" of the save in progress; NULL: its step was not finite */
    char *good;        /* "TAG in DIR" of the last checkpoint that was saved completely or loaded; NULL: none */
    bool resumes;      /* the save in progress goes to resume_dir */
} ce_async_save;

/* Steps whose loss or gradient norm is not finite. */
typedef struct {
    bool unreported; /* the first step of the current series has not been reported yet */
    int64_t step;    /* that first step, its loss and its gradient norm */
    double loss, norm;
    char *gave_up; /* why no loss scale remains that fits; NULL: one remains */
} ce_finite;

/* The checkpoints that the current state descends from. A key identifies a folder of checkpoints. */
typedef struct {
    json_t *lines;   /* key to list of ancestors, newest first (checkpoint/line.h); complete on rank 0 */
    json_t *parent;  /* the checkpoint that the state was last saved to or loaded from; NULL: none */
    json_t *damaged; /* key to the names of damaged checkpoints that loading skipped */
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
    bool pending;    /* no one has read the verdict yet */
} ce_step_judge;

struct cs_engine {
    cs_config *config;
    const ce_settings *settings;
    cs_world world;
    cs_device *device;
    cs_comm *comm;
    cs_model *model;
    ce_model_facts facts;
    json_t *model_json; /* config.json of a model named by the configuration; NULL: the program built the model */
    int64_t length;     /* T: positions of a sample; 1 if samples are not sequences */

    ce_zero zero;
    ce_pool *values, *grads;
    ce_shard **shards; /* one for each unit */
    ce_update *update; /* uses the pass's memory as scratch: the pass is empty while parameters are updated */
    void *block;       /* device memory: the judge's record, the update's table, then the pass's memory */
    cs_pass *pass;
    cs_pass *predictor;    /* the pass of predictions; may be `pass`. NULL until the first prediction */
    void *predictor_block; /* its memory; NULL if it is `pass` */
    struct {
        size_t text; /* bytes of a pass that continues one text by at most `length` positions */
        size_t row;  /* bytes of a row of logits, of which each text of a step has one */
    } continuation;
    cs_memory memory;
    size_t chunk_bytes; /* of the device that computes, see cs_pass_chunk */
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
    uint64_t *keys;    /* dropout key of each sample */
    ce_upload *upload; /* NULL: the device reads host memory */
    int64_t *samples;
    bool graphs;        /* forward and backward are CUDA graphs */
    uint64_t graph_key; /* of the last forward */

    /* one optimizer step */
    int64_t micro; /* micro-batches since the last boundary */
    int64_t loss_rows_counted;
    ce_step_judge judge;
    int64_t parts_saved; /* at the last verdict: ranks that had written their part of the save in progress */
    double started;      /* time at which the step began */
    double flops_before;
    double phase_started, phase_flops;      /* the same of the current phase */
    cs_phase_seconds seconds, last_seconds; /* of this step so far; of the last complete step */

    /* the training so far */
    int64_t updates;                              /* applied optimizer steps: Adam's t */
    int64_t scheduled;                            /* the same, counted for the learning rate schedule */
    double (*rate)(int64_t step, void *argument); /* from cs_set_schedule; NULL: the configuration's schedule */
    void *rate_argument;
    struct {
        ce_schedule_settings schedule; /* of the checkpoint from which the training resumed */
        bool known;                    /* false also once it was compared with this run's */
    } resumed;
    ce_scaler scaler;
    cs_metrics metrics;
    int64_t windows; /* of the training data, once it is open */
    uint64_t mark;   /* ce_windows_mark of the training data */
    ce_async_save saving;
    ce_finite finite;
    ce_ancestry ancestry;
    ce_transfer *transfer; /* NULL: not used yet, or the device reads host memory */

    /* reporting */
    cs_phase_seconds micro_before;     /* engine->seconds at the end of the previous micro-batch */
    int64_t timed_steps, timed_micros; /* by this process */
    double timed_seconds;              /* of its steps except the first two */
    ce_monitor *monitor;               /* NULL: not enabled, or this is not rank 0 */
    ce_profile *profile;               /* NULL: not enabled, or this is not rank 0 */
    ce_trace_file *trace;              /* NULL: not enabled */
    double phase_traced, unit_traced;  /* when the span of the current phase, or unit, began; below 0: not recorded */
    ce_curriculum *curriculum;         /* NULL: samples always have the full length */
};

/* ---- phase.c: begin and end of a phase ----
 * Between begin and end the phase is timed (cs_phases), profiled and a named range of the device's profiler. End also
 * sets the phase that is due next, prints memory_breakdown's lines, and reports a step. */
void ce_phase_begin(cs_engine *engine, ce_phase phase); /* ends the program if another verb is due */
void ce_phase_end(cs_engine *engine, ce_phase phase);
/* In CS_STEP: the time since its begin was reduction of gradients, and counts as backward's. */
void ce_phase_reduced(cs_engine *engine);
/* Ends the program with a message that names the verb, unless the phase `due` is due. */
void ce_phase_expect(const cs_engine *engine, ce_phase due, const char *verb);
/* The current time in seconds. With wall_clock_breakdown it waits for a GPU first, so that a phase's time is that of
 * its operations and not that of their launches. */
double ce_phase_clock(cs_engine *engine);

/* ---- walk.c: entering and leaving unit i ---- */
typedef enum { CS_DOWN = 1, CS_UP = -1 } ce_direction;
/* Gathers the parameters of unit i, starts to gather those of the next units in this direction, and makes the compute
 * stream wait for unit i's. */
cs_unit *ce_walk_enter(cs_engine *engine, int i, ce_direction direction);
void ce_walk_leave(cs_engine *engine, int i, ce_direction direction, bool release);
const char *ce_walk_name(const cs_unit *unit); /* of the unit, or of its kind if it has none */
/* Calls verb for the shard of unit i, then for the shard of each unit that lends parameters to it. */
void ce_walk_each(cs_engine *engine, int i, void (*verb)(ce_shard *shard));
/* Waits until both streams are idle. Call it before this thread itself starts a collective, and before closing. */
void ce_walk_settle(cs_engine *engine);

/* ---- forward.c ---- */
typedef struct {
    ce_pass_mode mode;
    cs_tensor inputs, targets;
    bool predict;         /* compute the last unit's prediction instead of its loss */
    cs_tensor starts;     /* cs_batch.starts, or absent */
    cs_tensor hits;       /* (rows, 1), or absent */
    const uint64_t *keys; /* set by ce_upload_batch */
    /* the text that each sample continues; the prediction is then that of each sample's last row. NULL: none */
    const ce_sequence *sequences;
} ce_forward_input;
/* Runs the forward of all units; returns the last unit's output, which the caller lets go (ce_pass_let_go). In training
 * the last unit stays gathered for backward. */
cs_tensor ce_forward_units(cs_engine *engine, const ce_forward_input *input);
void ce_forward_drop_prediction(cs_engine *engine); /* ends the life of the last cs_predict's output */

/* ---- backward.c ---- */
void ce_backward_units(cs_engine *engine);
/* Gives unit i and its lenders memory to add their gradients to, unless they have it. */
void ce_backward_open(cs_engine *engine, int i);

/* ---- step.c ---- */
/* Reads the verdict on the last step unless it was read already: updates metrics, counters and loss scale, and prints
 * the messages about the step. May wait for the device, never communicates. Returns true if a verdict was read and its
 * step updates parameters. */
bool ce_step_settle(cs_engine *engine);

/* ---- step_judge.c: judgement of a step on the device ---- */
size_t ce_step_judge_bytes(void);                   /* bytes of device memory for ce_step_judge_open */
size_t ce_step_judge_sent(const cs_engine *engine); /* bytes that a rank has to send for a judgement */
void ce_step_judge_open(cs_engine *engine, void *memory);
void ce_step_judge_close(cs_engine *engine);
void ce_step_judge_place(cs_engine *engine); /* copies engine->scaler to the device after it was set */
void ce_step_judge_begin(cs_engine *engine); /* before the first micro-batch of a step */
void ce_step_judge_add(cs_engine *engine, cs_tensor losses);
void ce_step_judge_seed(cs_engine *engine, cs_tensor dy);   /* fills dy with loss_scale / step_rows */
void ce_step_judge_step(cs_engine *engine);                 /* at the boundary; starts a collective */
const ce_gate *ce_step_judge_gate(const cs_engine *engine); /* in device memory: of the last judged step */
const ce_verdict *ce_step_judge_read(cs_engine *engine);    /* waits for the verdict; NULL if it was read before */

/* ---- finite.c: steps whose loss or gradients are not finite ---- */
void ce_finite_count(cs_engine *engine, const ce_verdict *verdict); /* of step metrics.step */
void ce_finite_give_up(cs_engine *engine, const char *why);         /* the next ce_finite_report ends the run */
/* Reports the first step of a series that is not finite, and ends the run after nan_patience such steps. Collective;
 * does not communicate while steps are finite. */
void ce_finite_report(cs_engine *engine);
void ce_finite_close(cs_engine *engine);

/* ---- evaluate.c ---- */
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
/* dry_run.c: runs forward and backward on a device that computes nothing, and sets engine->memory from it */
cs_status ce_dry_run(cs_engine *engine);
/* memory_fit.c: CS_NO_MEMORY, with a table of the memory needed, if the device has less free memory than that */
cs_status ce_memory_fit_check(const cs_engine *engine);
/* cpu_isa.c: makes all ranks whose device is a CPU use the lowest set of instructions of them all. Collective; before any
 * operation of the device. */
cs_status ce_cpu_isa_agree(cs_engine *engine);
/* products.c: makes all ranks multiply matrices by the same methods; needs ce_dry_run's list. Collective. */
cs_status ce_products_agree(cs_engine *engine);
/* The methods as text, for a checkpoint's provenance; NULL: the device has no choice. The caller owns it. */
json_t *ce_products_record(const cs_engine *engine);
/* Goes on with the methods that the provenance records, or says why they are others. */
void ce_products_resume(cs_engine *engine, json_t *provenance);

/* ---- agreement.c: comparison of all ranks before training starts ---- */
/* Compares version, model and configuration of all ranks. CS_DISAGREE on all ranks, with the keys and values that
 * differ; else all ranks take rank 0's seed. Collective; call it once the model and the world are open. */
cs_status ce_agreement_check(cs_engine *engine);

/* The two steps of ce_agreement_check, for tests. _facts returns the facts to compare, {"KEY.PATH": value}, which the
 * caller owns; _compare compares those of all ranks. */
json_t *ce_agreement_facts(cs_engine *engine);
cs_status ce_agreement_compare(cs_comm *comm, const json_t *facts);

/* ---- input/ ---- */
/* upload.c: copies a micro-batch to a device with its own memory, and an output back */
cs_status ce_upload_open(cs_engine *engine);
void ce_upload_close(ce_upload *upload); /* accepts NULL */
/* Returns the input with tensors that the device can read, and with keys. */
ce_forward_input ce_upload_batch(cs_engine *engine, const ce_forward_input *input);
/* Waits for the output and makes it readable by the host, until the next call. */
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
void ce_async_save_trust(cs_engine *engine, const char *dir, const char *tag); /* a loaded checkpoint is a good one */
void ce_async_save_hold(cs_engine *engine);           /* call before parameters and optimizer state change */
int64_t ce_async_save_ready(const cs_engine *engine); /* 1 if this rank's part of the save in progress is written */
/* Continues the save in progress once all ranks' parts are written. `ready`: ce_async_save_ready summed over ranks.
 * Collective. */
void ce_async_save_continue(cs_engine *engine, int64_t ready);

/* ancestry.c: which checkpoints the state descends from. Call _offer before a save, _saved and _loaded after. */
void ce_ancestry_loaded(cs_engine *engine, const char *dir, ce_checkpoint_reader *reader, bool module_only);
void ce_ancestry_offer(cs_engine *engine, const char *dir, ce_checkpoint_content *content);
void ce_ancestry_saved(cs_engine *engine);
void ce_ancestry_close(cs_engine *engine);
/* Makes the loaded checkpoint the latest of dir, and logs the newer checkpoints that this abandons. Collective. */
cs_status ce_ancestry_rewind(cs_engine *engine, const char *dir, const ce_checkpoint_reader *reader);

/* transfer.c: copies state between a device with its own memory and checkpoint files, through pinned buffers */
/* Call before state is saved or loaded. *device_copy receives the copy functions, or NULL if the device uses host
 * memory. They copy the state as it is after all operations that both streams have been given so far. */
cs_status ce_transfer_begin(cs_engine *engine, const ce_checkpoint_device_copy **device_copy);
void ce_transfer_end(cs_engine *engine);       /* waits until everything sent is on the device */
size_t ce_transfer_bytes(void);                /* pinned memory, allocated at the first ce_transfer_begin */
void ce_transfer_close(ce_transfer *transfer); /* accepts NULL */

/* schedule_change.c: a message if the schedule of the learning rate is another one than the checkpoint's. _read keeps
 * that of the open checkpoint, _say compares it before the first update. Both do nothing on ranks but 0. */
void ce_schedule_change_read(cs_engine *engine, const ce_checkpoint_reader *reader);
void ce_schedule_change_say(cs_engine *engine);

/* pretrained.c: initial values from the weights in cspeed.model's folder, if it has any. Collective. */
cs_status ce_pretrained_load(cs_engine *engine);
/* Fails with the message for a folder without config.json, which says what the folder is and how to use it. */
cs_status ce_pretrained_refuse(const char *folder);

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
 * _end_step after the step; both do nothing on other steps. All but _close are collective. */
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
