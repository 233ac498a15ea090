/* engine.h - what an open engine is made of; for the files beside it only. */
#ifndef CS_ENGINE_H
#define CS_ENGINE_H

#include "base/clock.h"
#include "checkpoint/background.h"
#include "config/config.h"
#include "models/models.h"
#include "monitor/monitor.h"
#include "unit/pass.h"
#include "zero/zero.h"

/* Where in an iteration the program is: the verbs must come in order. */
typedef enum { CS_EXPECT_FORWARD, CS_EXPECT_BACKWARD, CS_EXPECT_STEP } cs_phase;

typedef struct cs_profile cs_profile;
typedef struct cs_curriculum cs_curriculum;
typedef struct cs_feed cs_feed;
typedef struct cs_transfer cs_transfer;

/* The checkpoint in flight, and what became of it. */
typedef struct {
    cs_background *work; /* NULL: none was ever in flight */
    int64_t step;
    double stall; /* seconds that training has stood still for it */
    cs_status status;
    char *why;    /* of a failure that no verb has returned yet; NULL: none */
    char *sought; /* the folder whose newest checkpoint the program asks for when it starts; NULL: none */
    char *going;  /* "TAG in DIR" of the save in flight; NULL: the step before it was not finite */
    char *good;   /* the same of the last that was saved whole, or loaded; NULL: none */
    bool resumes; /* what is in flight goes there */
} cs_saving;

/* Steps whose loss or gradient norm is not finite. */
typedef struct {
    bool untold;  /* the first of metrics.not_finite has not been reported yet */
    int64_t step; /* that first one, and what it came to                       */
    double loss, norm;
    char *gave_up; /* why no loss scale is left that fits; NULL: one is */
} cs_finite;

/* What the state comes from; a key stands for a folder of checkpoints. */
typedef struct {
    json_t *lines;   /* key to list, newest first (checkpoint/line.h); complete on rank 0 */
    json_t *parent;  /* what the state was last saved or loaded as; NULL: nothing */
    json_t *damaged; /* key to names of folders in it that loading passed over  */
    char saving[64]; /* the key of the save in flight */
} cs_ancestry;

/* A step's verdict, on its way from the device to the host. */
typedef struct {
    cs_step_sums words;
    cs_verdict verdict;
} cs_board;
typedef struct {
    cs_board *there, *here; /* in the device's memory, and where the host reads it: the same where it can */
    cs_step_terms terms;
    cs_event copied; /* `here` is as `there`      */
    bool pending;    /* a verdict nobody has read */
} cs_boundary;

struct cs_engine {
    cs_config *config;
    const cs_settings *settings;
    cs_world world;
    cs_device *device;
    cs_comm *comm;
    cs_model *model;
    cs_model_facts facts;
    json_t *model_json; /* the config.json of a model the configuration names; NULL: a program's own */
    int64_t length;     /* T: positions of a sample; 1 without a sequence */

    cs_zero zero;
    cs_pool *values, *grads;
    cs_shard **shards;
    cs_update *update; /* borrows block: nothing of a pass lives while parameters move */
    void *block;       /* the boundary's memory, then the pass's */
    cs_pass *pass;
    cs_memory memory;

    /* one micro-batch going down and up */
    cs_phase phase;
    int ahead;           /* the last unit whose gathering was started */
    cs_tensor *inputs;   /* of each unit, held while recomputing wants them */
    cs_tensor loss_rows; /* (rows, 1) */
    cs_tensor prediction;
    uint64_t *keys; /* of the batch's samples */
    cs_feed *feed;  /* NULL: the device reads the host's memory */
    int64_t *samples;
    bool graphs;        /* forward and backward are replayed where the device can */
    uint64_t graph_key; /* of the last forward                                    */

    /* one optimizer step */
    int64_t micro; /* micro-batches since the last boundary */
    int64_t loss_rows_counted;
    cs_boundary boundary;
    int64_t parts_saved; /* of a checkpoint in flight, as the last verdict that was read says, once */
    double started;      /* wall clock */
    double flops_before;
    cs_phase_seconds seconds, last_seconds; /* so far; of the last whole step */

    /* the training so far */
    int64_t updates;                              /* applied optimizer steps: Adam's t */
    int64_t scheduled;                            /* the same, as the schedule counts    */
    double (*rate)(int64_t step, void *argument); /* of cs_set_schedule; NULL: the configuration's */
    void *rate_argument;
    cs_scaler scaler;
    cs_metrics metrics;
    int64_t windows; /* of the training data, once it is open */
    uint64_t mark;   /* cs_windows_mark of it */
    cs_saving saving;
    cs_finite finite;
    cs_ancestry ancestry;
    cs_transfer *transfer; /* NULL: never needed, or the device reads the host's memory */

    /* what people see */
    cs_phase_seconds micro_before;     /* engine->seconds when the last micro-batch was over  */
    int64_t timed_steps, timed_micros; /* of this process                        */
    double timed_seconds;              /* of its steps but the first two         */
    cs_monitor *monitor;               /* NULL: none, and on other ranks than 0  */
    cs_profile *profile;               /* the same                               */
    cs_curriculum *curriculum;         /* NULL: samples are always of `length`   */
};

/* async_save.c: checkpoints, at once or in the background */
cs_status cs_saving_open(cs_engine *engine);
void cs_saving_close(cs_engine *engine);
cs_status cs_saving_save(cs_engine *engine, const char *dir, const cs_checkpoint_content *content, double begun);
cs_status cs_saving_finish(
    cs_engine *engine); /* nothing is in flight; the status of the last save if no verb returned it. Collective */
size_t cs_saving_copy(const cs_engine *engine); /* bytes that cspeed.async_save will keep; 0 without it */
void cs_saving_trust(cs_engine *engine, const char *dir, const char *tag); /* a checkpoint that was loaded is good */
void cs_saving_hold(cs_engine *engine); /* due before parameters and optimizer states change */
int64_t cs_saving_ready(const cs_engine *engine);
void cs_saving_turn(cs_engine *engine, int64_t ready); /* `ready`: summed over ranks. Collective */

/* ancestry.c: what the state comes from. `loaded` and `saved` are due when that is done; `offer` before a save */
void cs_ancestry_loaded(cs_engine *engine, const char *dir, cs_checkpoint_reader *reader, bool module_only);
void cs_ancestry_offer(cs_engine *engine, const char *dir, cs_checkpoint_content *content);
void cs_ancestry_saved(cs_engine *engine);
void cs_ancestry_close(cs_engine *engine);
/* Makes the checkpoint that was loaded the latest of dir, and names those that are left aside. Collective. */
cs_status cs_ancestry_rewind(cs_engine *engine, const char *dir, const cs_checkpoint_reader *reader);

/* walk.c: entering and leaving unit i */
typedef enum { CS_DOWN = 1, CS_UP = -1 } cs_direction;
cs_unit *cs_walk_enter(cs_engine *engine, int i, cs_direction direction);
void cs_walk_leave(cs_engine *engine, int i, bool release);
/* Nothing is under way on either stream: due before the program's own thread talks to other ranks, and before closing.
 */
void cs_walk_settle(cs_engine *engine);
/* Now, in seconds. With wall_clock_breakdown after a far device has done what it was given: else a phase would count
 * what it took to ask. */
double cs_walk_clock(cs_engine *engine);

/* forward.c */
typedef struct {
    cs_pass_mode mode;
    cs_tensor inputs, targets;
    bool predict;         /* the last unit's prediction instead of its loss */
    int64_t start;        /* position of the first row */
    cs_tensor starts;     /* of the batch, or absent   */
    cs_cache *cache;      /* of the positions before   */
    cs_tensor hits;       /* (rows, 1), or absent      */
    const uint64_t *keys; /* cs_feed_take sets them    */
} cs_descent;
/* Runs the list; returns the last unit's output, held. In training the last unit stays gathered for the turn. */
cs_tensor cs_forward_descend(cs_engine *engine, const cs_descent *descent);
void cs_forward_expect(cs_engine *engine, cs_phase phase, const char *verb);
void cs_forward_settle(cs_engine *engine); /* lets go of a borrowed prediction */

/* upload.c: a micro-batch's way to a far device, and an output's way back */
cs_status cs_feed_open(cs_engine *engine);
void cs_feed_close(cs_feed *feed);                                     /* accepts NULL */
cs_descent cs_feed_take(cs_engine *engine, const cs_descent *descent); /* the same, where the device reads it */
cs_status cs_feed_return(cs_engine *engine, cs_tensor *output);        /* waits; the host reads it until next time  */

/* graphs.c: forward and backward of a micro-batch, each a graph of the device from down or up to end */
void cs_graphs_open(cs_engine *engine);
void cs_graphs_down(cs_engine *engine, const cs_descent *descent);
void cs_graphs_up(cs_engine *engine);
void cs_graphs_end(cs_engine *engine);

/* memory_fit.c: CS_NO_MEMORY with a table of what needs how much where the device has less */
cs_status cs_fit_check(const cs_engine *engine);

/* bf16_products.c: all ranks multiply bf16 matrices the same way. Collective */
cs_status cs_products_agree(cs_engine *engine);

/* transfer.c: a far device's state on its way to checkpoints and back. */
/* Before the state is saved or loaded: *far is how, NULL where the device's memory is the host's. Whoever is given it
 * sees all that the device has been given by now. */
cs_status cs_transfer_begin(cs_engine *engine, const cs_checkpoint_device_copy **device_copy);
void cs_transfer_end(cs_engine *engine);       /* what was sent is on the device           */
size_t cs_transfer_bytes(void);                /* of pinned memory, from the first one on  */
void cs_transfer_close(cs_transfer *transfer); /* accepts NULL                             */

/* evaluate.c */
cs_status cs_evaluate_output(cs_engine *engine, const char *verb, const cs_descent *descent, cs_tensor *output);

/* backward.c */
void cs_backward_ascend(cs_engine *engine);

/* step_judge.c: the end of a step, judged on the device and read late */
size_t cs_boundary_bytes(void); /* of the device's memory, which cs_boundary_open borrows */
void cs_boundary_open(cs_engine *engine, void *memory);
void cs_boundary_close(cs_engine *engine);
void cs_boundary_place(cs_engine *engine); /* engine->scaler was set: the device's follows */
void cs_boundary_begin(cs_engine *engine); /* the first micro-batch of a step */
void cs_boundary_add(cs_engine *engine, cs_tensor losses);
void cs_boundary_seed(cs_engine *engine, cs_tensor dy);
void cs_boundary_judge(cs_engine *engine);
const cs_gate *cs_boundary_gate(const cs_engine *engine); /* in the device's memory: of the last judged step */
const cs_verdict *cs_boundary_read(cs_engine *engine);    /* waits for it; NULL: it was read */

/* finite.c: steps that are not finite */
void cs_finite_count(cs_engine *engine, const cs_verdict *verdict); /* of the step that metrics.step names */
void cs_finite_give_up(cs_engine *engine, const char *why);         /* the run ends at the next cs_finite_tell */
/* Reports the first step of a row, and ends the run where nan_patience says so. Collective, and free of cost while
 * steps are finite. */
void cs_finite_tell(cs_engine *engine);
void cs_finite_close(cs_engine *engine);

/* step.c */
/* The verdict that nobody has read, if there is one, is read: metrics, updates, scheduled and scaler are what they are
 * after the last step, and what there is to say of it is said. Waits for it, never communicates. Whether it was read
 * now, and parameters moved. */
bool cs_step_settle(cs_engine *engine);

/* dry_run.c: walks the list on the dry device, so that all memory can be taken at once */
cs_status cs_measure_run(cs_engine *engine);

/* report.c: what a step took, and the lines DeepSpeed's users know */
cs_status cs_report_open(cs_engine *engine);
void cs_report_close(cs_engine *engine);
void cs_report_micro(cs_engine *engine); /* after each micro-batch but the last of a step */
void cs_report_step(cs_engine *engine);

/* memory_report.c: memory_breakdown's lines, and the bytes this rank's engine holds */
void cs_occupancy_print(const cs_engine *engine, const char *moment);
double cs_occupancy_held(const cs_engine *engine);

/* pretrained.c: first values from the weights of cspeed.model's folder, where it has any. Collective. */
cs_status cs_pretrained_load(cs_engine *engine);
cs_status cs_pretrained_refuse(const char *folder); /* which has no config.json: what it is, and the way through */

/* dump.c: the configuration and the engine as they are, once */
void cs_dump_engine(const cs_engine *engine);

/* profile.c: one forward pass, unit by unit. Without a profile each of these returns at once. */
cs_status cs_profile_open(cs_engine *engine);
void cs_profile_close(cs_engine *engine);
void cs_profile_start(cs_engine *engine);
void cs_profile_enter(cs_engine *engine);
void cs_profile_leave(cs_engine *engine, int i);
void cs_profile_stop(cs_engine *engine);
bool cs_profile_is_due(const cs_engine *engine); /* in this step; all ranks say the same */
void cs_profile_print(cs_engine *engine);        /* after the step that was profiled */

/* curriculum.c: shorter samples at first */
cs_status cs_curriculum_open(cs_engine *engine);
void cs_curriculum_close(cs_engine *engine);
cs_batch cs_curriculum_shorten(cs_engine *engine,
                               const cs_batch *batch);              /* the batch as it is, or its samples' prefixes */
bool cs_curriculum_may_be(const cs_engine *engine, int64_t length); /* whether a step may have this length */

int64_t cs_loader_sample(const cs_engine *engine, int64_t b); /* loader.c: number of this micro-batch's sample b */

#endif
