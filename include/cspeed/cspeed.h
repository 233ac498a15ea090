/* cspeed.h - the public language: run a training, write a model, know why it failed.
 *
 * A training is five verbs, DeepSpeed's:
 *
 *     cs_config *config; cs_engine *engine; cs_data *data;
 *     CS_MUST(cs_config_open(&config, "ds_config.json"));
 *     CS_MUST(cs_initialize(&engine, config, NULL));
 *     CS_MUST(cs_data_open(&data, engine, "train"));
 *     for (int64_t step = 0; step < 100;) {
 *         cs_batch batch = cs_data_next(data);
 *         cs_forward(engine, &batch);
 *         cs_backward(engine);
 *         if (cs_step(engine)) step++;
 *     }
 *     CS_MUST(cs_save_checkpoint(engine, "runs/mine", NULL, NULL));
 *
 * Every rank runs the same program and calls the same verbs in the same order. Functions that may
 * fail for a user's reasons return a cs_status, and cs_error() is the sentence. What runs every step
 * returns nothing; if the machine or the program is wrong it prints a sentence and ends the process.
 * The engine owns all it hands out: a pointer from a getter dies with its owner. An engine belongs to
 * the thread that opened it. */
#ifndef CSPEED_H
#define CSPEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CS_VERSION "0.1.0"

typedef struct cs_engine cs_engine;
typedef struct cs_config cs_config;
typedef struct cs_model cs_model;
typedef struct cs_unit cs_unit;
typedef struct cs_pass cs_pass;
typedef struct cs_data cs_data;
typedef struct cs_stream cs_stream;

typedef enum {
    CS_OK,
    CS_BAD_CONFIG,  /* the configuration is wrong                     exit code 78 */
    CS_BAD_FILE,    /* a file's content is wrong                                65 */
    CS_NOT_FOUND,   /* a named file or checkpoint is missing                    66 */
    CS_NO_MEMORY,   /*                                                           1 */
    CS_NO_DEVICE,   /* no such device here                                      69 */
    CS_NO_PEER,     /* another rank was lost or never came                      75 */
    CS_IO_ERROR,    /* the system refused to read or write                       1 */
    CS_UNSUPPORTED, /* known, and not there                                    78 */
    CS_DISAGREE,    /* ranks were given different settings or data             76 */
    CS_NOT_FINITE   /* parameters that are not finite are not saved             1 */
} cs_status;

typedef enum { CS_F32, CS_BF16, CS_F16, CS_I32, CS_I64, CS_U8 } cs_dtype;

enum { CS_MAX_DIMS = 4 };

/* A dense row-major view. It owns nothing. dims 0 is a scalar; an absent tensor has data NULL. */
typedef struct {
    void *data;
    cs_dtype dtype;
    int32_t dims;
    int64_t shape[CS_MAX_DIMS];
    bool fresh; /* of a gradient: what it holds is undefined, and an operation that adds to it sets it instead */
} cs_tensor;

size_t cs_dtype_bytes(cs_dtype dtype);
int64_t cs_count(cs_tensor tensor);                /* elements                                          */
int64_t cs_columns(cs_tensor tensor);              /* the last dimension; 1 for a scalar                */
int64_t cs_rows(cs_tensor tensor);                 /* all others multiplied                             */
float cs_element(cs_tensor tensor, int64_t index); /* of the flat row, in host memory, as a float */
cs_tensor cs_matrix(void *data, cs_dtype dtype, int64_t rows, int64_t columns);
cs_tensor cs_vector(void *data, cs_dtype dtype, int64_t count);

/* One micro-batch of this rank.
 *   language model  inputs, targets: CS_I32 (B, T); a target below 0 is masked out of the loss
 *   anything else   inputs: CS_F32 (B, ...), targets: whatever the last unit expects, B rows
 * samples[b] is the sample's number in the global order of the whole training and keys its random
 * bits (dropout); NULL numbers them by step, micro-step and rank. Borrowed until cs_backward returns. */
typedef struct {
    cs_tensor inputs, targets;
    const int64_t *samples;
    cs_tensor starts; /* (B, T) i32 or absent: row t of a sample sees rows [starts[t], t] of it, starts[t] <= t, which
                       * never decrease along t: documents packed into one sample, each as if it stood alone */
} cs_batch;

/* ---- 1. Run a training ------------------------------------------------------------------------ */

/* Reads a DeepSpeed configuration (see configs/reference.json). All faults of a file come in one
 * sentence each: CS_BAD_CONFIG, or CS_NOT_FOUND when there is no such file. Values of kind "KEY.PATH=JSON" given to
 * cs_config_set() override the file; what is not JSON is taken as a string. They are checked by cs_config_finish, after
 * which the getters answer. */
cs_status cs_config_open(cs_config **config, const char *path);
cs_status cs_config_set(cs_config *config, const char *assignment);
/* The program's own choice where neither file nor cs_config_set names the key: "optimizer={\"type\": \"SGD\"}". */
cs_status cs_config_default(cs_config *config, const char *assignment);
void cs_config_lenient(cs_config *config);     /* unknown keys warn instead of being refused */
cs_status cs_config_finish(cs_config *config); /* resolve and check for this world; cs_initialize does it if need be */
void cs_config_close(cs_config *config);
int64_t cs_config_get_int(const cs_config *config, const char *path); /* a key's resolved value, e.g. "cspeed.steps" */
double cs_config_get_number(const cs_config *config, const char *path);
const char *cs_config_get_string(const cs_config *config, const char *path); /* NULL: unset */
bool cs_config_get_bool(const cs_config *config, const char *path);
void cs_config_help(void); /* every key: type, default, what it does, or why it is refused */

/* The configuration to use a trained model with: `source` is a folder of checkpoints (`tag` NULL: the latest), one of
 * them, or a Hugging Face folder. It has the model, its precision and the data of the training, one rank holds all of
 * it, and nothing is there for an optimizer, so that cs_forward is refused. "cspeed.load" names what cs_load_checkpoint
 * is to load, with module_only; of a Hugging Face folder nothing, as cs_initialize reads the weights. */
cs_status cs_reopen(cs_config **config, const char *source, const char *tag);

/* Opens world, device, transport, model and shards. `own` is a model made with cs_model_new, or NULL for the
 * one the configuration names. The engine takes both over, also when it fails. CS_DISAGREE when ranks were given
 * different settings, but for the seed, which is rank 0's on all, and what a rank may have of its own: device, threads,
 * names of files and folders. Collective. */
cs_status cs_initialize(cs_engine **engine, cs_config *config, cs_model *own);
void cs_destroy(cs_engine *engine); /* accepts NULL */

/* The schedule's total_num_steps, where the configuration said "auto", becomes `steps`. The same on every rank. */
void cs_set_total_steps(cs_engine *engine, int64_t steps);

/* A schedule of the program's own, in place of the configuration's: the rate of applied update number `step` (from 0),
 * a function of it alone, the same on every rank. After loading a checkpoint it is asked for the next. NULL: the
 * configuration's again. */
void cs_set_schedule(cs_engine *engine, double (*rate)(int64_t step, void *argument), void *argument);

/* Rank 0's value, on every rank. Collective. */
int64_t cs_agree(cs_engine *engine, int64_t value);
/* The ranks' texts one behind another, in order of ranks, on rank 0: malloc'ed. NULL on the others. Collective. */
char *cs_gather(cs_engine *engine, const char *text);

int cs_launched_rank(void); /* as the environment tells it, before there is an engine; 0 when alone */
int cs_rank(const cs_engine *engine);
int cs_world_size(const cs_engine *engine);
const char *cs_device_description(const cs_engine *engine); /* "cpu, 1 thread, fp32 arithmetic ..." */

/* Bytes of this rank: what stays between steps, and what a micro-batch needs at once on top. */
typedef struct {
    size_t values, gradients, masters, slots; /* persistent: the formula of the stage and the types, to the byte */
    size_t value_rows, gradient_rows;         /* gathered parameters and unreduced gradients in flight           */
    size_t activations;                       /* kept for backward, and scratch                                  */
    size_t copy;                              /* of the state, which cspeed.async_save writes: of its first save */
    size_t padding;               /* of padded parameters' zero rows, part of the first four: cs_param.held */
    int64_t rows_held, rows_zero; /* rows of padded parameters, and how many of these are zero rows */
    size_t pinned;                /* of the host's, that a GPU's checkpoints go through: of the first */
    size_t workspace;             /* the kernels' own; settled after the first step                  */
} cs_memory;
cs_memory cs_memory_of(const cs_engine *engine);

/* The same of each rank of a run before it runs, workspace aside, which is not known: opens no world and allocates
 * nothing of the model. `memory` has as many as cs_config_for_world said. Takes the configuration over, also when it
 * fails. */
cs_status cs_estimate(cs_config *config, cs_memory *memory, int64_t *parameters);
/* Before cs_config_finish: resolve for a world of this size on one node, whatever the environment says. */
void cs_config_for_world(cs_config *config, int size);

int64_t cs_parameter_count(const cs_engine *engine);
int64_t cs_vocabulary(const cs_engine *engine); /* of a language model the configuration named; else 0 */
int64_t cs_positions(const cs_engine *engine);  /* the longest text it reads; 0: no limit is known        */

/* Seconds of this rank in the last whole optimizer step. A part that overlaps with computing counts only as far as
 * this rank waited for it. */
typedef struct {
    double forward, backward, step;
    double reduce;                     /* part of backward: gradients over ranks                              */
    double gradients, update, publish; /* parts of step: norm and overflow; the optimizer; values over ranks */
} cs_phase_seconds;
cs_phase_seconds cs_phases(const cs_engine *engine);

void cs_forward(cs_engine *engine, const cs_batch *batch);
void cs_backward(cs_engine *engine);
bool cs_step(cs_engine *engine); /* true at a gradient accumulation boundary */

/* comms_logger's tables, on rank 0: each collective by size with its latency and bandwidth, and what ranks waited for
 * each other. Without comms_logger nothing. Collective. */
void cs_log_summary(cs_engine *engine);

/* The token-weighted mean loss of the last whole optimizer step over all ranks. Never communicates. On a GPU it waits
 * until that step's gradients are judged, and so does cs_last_step: asked right after cs_step, the GPU still has the
 * update to do, while the host begins the next forward. Nobody asking, the host is up to a step ahead: cs_step waits for
 * the step before alone, so what it has to say, of an overflow too, comes that late. */
float cs_loss(cs_engine *engine);

/* What is known of the last whole optimizer step. */
typedef struct {
    int64_t step;         /* optimizer steps so far, skipped ones included       */
    int64_t skipped;      /* steps that moved nothing, so far: gradients overflowed, or no row had a target */
    int64_t not_finite;   /* steps in a row, up to this one, whose loss or gradients were not finite; those that a
                            * dynamic loss scale skips for their gradients do not count (cspeed.nan_patience) */
    int64_t samples;      /* samples so far, over all ranks                      */
    int64_t tokens;       /* target rows so far, over all ranks                  */
    double epoch;         /* passes over the training data; 0 without cs_data    */
    double loss;          /* as cs_loss; NaN before the first step, and of a step where no row had a target */
    double learning_rate; /* the rate this step used                             */
    double grad_norm;     /* global L2 norm, unscaled, before clipping; may be infinite */
    double loss_scale;    /* the scale this step used; 1 without fp16            */
    double step_seconds;  /* wall time of this step on this rank; of a GPU, between this boundary and the one before */
    double tokens_per_second;
    double peak_share;  /* arithmetic done over what the matrix roof allows; 0 when unknown */
    int64_t saved_step; /* of the last checkpoint that this process saved whole; -1: none   */
    double save_stall;  /* seconds this rank's training stood still for it                  */
} cs_metrics;
cs_metrics cs_last_step(const cs_engine *engine);

/* Mean loss over the first `batches` micro-batches of `data`, shared out over the ranks (0: all of it, each
 * window once): the same bits for any world size at one thread count. Collective. Leaves the training untouched. */
cs_status cs_evaluate(cs_engine *engine, cs_data *data, int64_t batches, double *loss);

/* The same, and how often the likeliest token was the target. */
typedef struct {
    double loss;     /* as cs_evaluate; NaN where there is no target */
    int64_t tokens;  /* targets                                      */
    int64_t correct; /* of those; -1 where the model does not say: its last unit is not a cross-entropy */
} cs_scores;
cs_status cs_score(cs_engine *engine, cs_data *data, int64_t batches, cs_scores *scores);

/* The model's output for a batch, whose targets do not matter: logits (B*T, vocabulary) for a language model. B and T
 * may be smaller than in training. The tensor is borrowed until the next verb. Collective; every rank passes a
 * batch of the same shape. */
cs_status cs_predict(cs_engine *engine, const cs_batch *batch, cs_tensor *output);

/* A text that a language model reads token by token: the keys and values of up to `length` positions (0: as many as the
 * model has), so that the next token costs one position. What was read before parameters changed is stale. */
typedef struct cs_context cs_context;
cs_status cs_context_open(cs_context **context, cs_engine *engine, int64_t length);
void cs_context_close(cs_context *context); /* accepts NULL; before cs_destroy */
/* Reads tokens, in pieces of at most the configuration's seq_len. logits are those of the last piece, (rows,
 * vocabulary); their last row says what follows. Borrowed until the next verb. Collective at stage 3. */
cs_status cs_context_read(cs_context *context, const int32_t *tokens, int64_t count, cs_tensor *logits);
int64_t cs_context_count(const cs_context *context); /* tokens read so far */
void cs_context_clear(cs_context *context);          /* another text begins */

typedef struct {
    double temperature; /* 0: always the likeliest token                                */
    int64_t top_k;      /* only of the so many likeliest; 0: of all                     */
    double top_p;       /* only of the fewest whose probabilities sum to this; 1: of all */
    int64_t seed;
} cs_sampling;
/* The next token, from the last row of logits. Chance is a function of the seed, which text it is, and the token's
 * place. */
int32_t cs_sample(cs_tensor logits, const cs_sampling *how, int64_t text, int64_t place);

/* dir/tag/, then dir/latest. tag NULL: "global_step<N>". client_state: JSON text or NULL, returned
 * verbatim by load; other text is CS_BAD_CONFIG. Collective; on failure nothing of an earlier checkpoint is lost. One
 * run at a time may save in a folder, which is the program's to see to: programs/train/owner.c is how `train` does it.
 * CS_NOT_FINITE: a parameter holds an infinity or a NaN, and nothing was saved; while metrics.not_finite is above 0 no
 * older checkpoint is removed.
 */
cs_status cs_save_checkpoint(cs_engine *engine, const char *dir, const char *tag, const char *client_state);

/* With cspeed.async_save cs_save_checkpoint returns when the save has begun, and training goes on with the same bits:
 * the state is copied before the next update moves it, and written by a thread. One save is in flight: the next waits
 * for it. A save that failed leaves every earlier checkpoint as it was, is said at once, and its status is that of the
 * next cs_save_checkpoint, cs_load_checkpoint or cs_finish_checkpoint, which does nothing else then.
 * cs_finish_checkpoint waits until nothing is in flight; cs_destroy does too. Collective. */
cs_status cs_finish_checkpoint(cs_engine *engine);

/* Whether `saves` more checkpoints will fit in dir, of which cspeed.keep_last are kept: CS_IO_ERROR says why not. What
 * is there now counts, so it is to be asked when the folder is made and the training begins. Of one rank. */
cs_status cs_checkpoint_room(const cs_engine *engine, const char *dir, int64_t saves);

/* A checkpoint's weights as a new Hugging Face folder, in the type that cspeed.export_dtype says, with the tokenizer of
 * the folder that training started from; rank 0 writes it. tag NULL: the latest. Collective. */
cs_status cs_export(cs_engine *engine, const char *dir, const char *tag, const char *folder);

typedef struct {
    bool skip_optimizer_states;    /* DeepSpeed's load_optimizer_states=False    */
    bool skip_lr_scheduler_states; /* load_lr_scheduler_states=False             */
    bool module_only;              /* load_module_only: parameters, nothing else */
    bool loose;  /* load_module_strict=False: parameters that the checkpoint lacks stay as they are, and
                 * what the model lacks is passed over; a shape that differs is refused all the same */
    bool rewind; /* the training goes back to `tag` and on from there in this folder: dir/latest names it from now on,
                 * and the checkpoints that it does not continue are left aside, by name on the log, and never pruned */
} cs_load_options;

/* tag NULL: what dir/latest names. If that is missing or damaged, though this shows only while it is read, the newest
 * whole checkpoint of those that it continues, else of all, is loaded instead, with a warning that names the damage;
 * the damaged one is kept under another name (TAG~damaged) when the next is saved in dir. A tag that is named, or
 * cspeed.checkpoint.on_bad_latest "fail", makes it CS_BAD_FILE. options NULL: everything.
 * *client_state (may be NULL) is malloc'ed text. CS_NOT_FOUND when dir holds no checkpoint. Collective. After another
 * failure the parameters are undefined: load again, or destroy the engine. */
cs_status cs_load_checkpoint(cs_engine *engine, const char *dir, const char *tag, const cs_load_options *options,
                             char **client_state);

/* split "train" or "valid": the shards that cspeed.data names. The position belongs to the engine, so
 * that checkpoints carry it: which windows come next follows from the samples trained on so far. Call
 * cs_data_next once a micro-batch, before its cs_forward; the batch is borrowed until the next call. Opening is
 * collective; with cspeed.epochs, opening "train" is what settles the number of steps. */
cs_status cs_data_open(cs_data **data, cs_engine *engine, const char *split);
cs_batch cs_data_next(cs_data *data);
int64_t cs_data_windows(const cs_data *data); /* of one epoch */
void cs_data_close(cs_data *data);

/* Runs `run(argument)` in `ranks` processes of this program that form one world, waits for all, and
 * returns CS_OK if each returned 0. The first failure ends the others and is named in cs_error(). */
cs_status cs_spawn(int ranks, int (*run)(void *argument), void *argument);

/* ---- 2. Write a model ------------------------------------------------------------------------- */

typedef struct {
    enum { CS_ZEROS, CS_ONES, CS_NORMAL, CS_UNIFORM } how;
    float std; /* standard deviation, or half the width for CS_UNIFORM */
} cs_init;

typedef struct cs_growth cs_growth;
/* A named parameter. value and grad have data while the unit is in use, and NULL outside. grad is fp32
 * and is added to, never overwritten; where cs_param_grows was called its data is always NULL, and cs_param_grow gives
 * the gradient. Weight decay applies to matrices and not to vectors, unless declare sets
 * decay otherwise (DeepSpeed decays all). */
typedef struct {
    const char *name;
    cs_init init;
    bool decay;        /* weight decay applies */
    bool norm;         /* of a normalization: computes in fp32 where the precision keeps norms so */
    cs_growth *growth; /* whether its gradient is fresh, see cs_param_grows; NULL: it is cleared beforehand */
    cs_tensor value, grad;
    bool padded;  /* declare sets it of a matrix that may have zero rows behind its own in the device's memory, so that
                   * products with it are aligned; borrowing it and setting it there is as much */
    int64_t held; /* rows that the device holds of a matrix: value's, and the zero rows of a padded one. The gradient
                   * of those is zero too; they are never updated, saved or counted */
} cs_param;

/* Said in declare: backward takes the gradient from cs_param_grow alone, so that it need not be cleared before the first
 * operation that adds to it. `with` is the parameter itself, or an earlier one of the same unit where one operation
 * writes the gradients of both. The parameters of layer.h's layers are declared so. */
void cs_param_grows(cs_param *param, cs_param *with);
/* grad for the operation that adds to it next: fresh where it is the first of those whose sum this is. */
cs_tensor cs_param_grow(cs_param *param);

/* What units of one sort share. Between units flows one tensor: x is the output of the unit before (the
 * batch's inputs for the first), y this unit's: (rows, width), or for the last unit the loss of each row,
 * fp32 (rows, 1). dy of the last unit weighs each row's loss. predict, wanted of a last unit only, may be
 * NULL; it returns the output instead of the loss.
 *
 * y and dx must be written whole: memory of a pass is undefined until then. forward may run twice for one backward
 * (recomputation), and must compute the same both times. cs_initialize runs the units once to measure, with tensors
 * that have an address but no memory: operations of ops.h then do nothing, and code of your own that touches elements
 * must not run (if (!cs_pass_measuring(pass)) ...). */
typedef struct {
    const char *name;
    void (*declare)(cs_unit *unit, const void *sizes);
    void (*forward)(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y);
    void (*backward)(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx); /* the first unit's dx is absent */
    cs_tensor (*predict)(cs_unit *unit, cs_pass *pass, cs_tensor x);
} cs_kind;

cs_status cs_model_new(cs_model **model, int64_t width);
void cs_model_free(cs_model *model); /* for a model that no engine owns */
/* Without this call a model reads tokens: inputs and targets CS_I32 (B, T). With it, CS_F32 (B, inputs) and (B,
 * targets). */
void cs_model_floats(cs_model *model, int64_t inputs, int64_t targets);
/* `name` is the prefix of its parameters' names ("transformer.h.0"); "": they give their names whole. */
cs_unit *cs_model_add(cs_model *model, const cs_kind *kind, const char *name, const void *sizes);

void *cs_unit_self(cs_unit *unit,
                   size_t bytes); /* the unit's own struct: zeroed at the first call, which is in declare */
cs_param *cs_unit_param(cs_unit *unit, const char *name, int64_t rows, int64_t columns,
                        cs_init init); /* columns 0: a vector of `rows` */
cs_param *
cs_unit_borrow(cs_unit *unit, cs_unit *lender,
               const char *name); /* tied weights; the lender stands before the borrower; at most 4 lenders a unit */

/* Tensors of a pass live until their unit ends; kept ones until backward has taken them. Forward keeps,
 * backward takes in mirror order. A tensor is kept as it was made, not a view into it; the batch's own may be kept too.
 * In evaluation keeping does nothing. */
cs_tensor cs_pass_make(cs_pass *pass, cs_dtype dtype, int64_t rows, int64_t columns);
cs_tensor cs_pass_like(cs_pass *pass, cs_tensor shape);
void cs_pass_keep(cs_pass *pass, cs_tensor tensor);
cs_tensor cs_pass_take(cs_pass *pass);
cs_stream *cs_pass_stream(cs_pass *pass); /* for the operations of ops.h                  */
cs_dtype cs_pass_dtype(cs_pass *pass);    /* of what flows between units, and of parameter values */
cs_dtype
cs_pass_products(cs_pass *pass); /* of what matrix products take and give: pass_dtype, unless the precision is mixed */
int64_t cs_pass_batch(cs_pass *pass);   /* B                                            */
int64_t cs_pass_length(cs_pass *pass);  /* T; rows are b * T + t. 1 without a sequence  */
int64_t cs_pass_start(cs_pass *pass);   /* row b * T + t is at position start + t: 0, unless a context goes on */
cs_tensor cs_pass_dloss(cs_pass *pass); /* (rows, 1) f32: dy of the last unit, known when its forward runs; absent in
                                          * evaluation */
cs_tensor cs_pass_hits(cs_pass *pass);  /* (rows, 1) f32 for cs_op_hits, where accuracy is asked for; else absent */
/* While a context is read: the next of its tensors (positions, columns), in the order in which forward asks for them,
 * rows [0, start) as earlier passes left them. Absent in every other pass. */
cs_tensor cs_pass_cache(cs_pass *pass, cs_dtype dtype, int64_t columns);
bool cs_pass_training(cs_pass *pass);
bool cs_pass_measuring(cs_pass *pass);       /* no memory is behind the tensors: see cs_kind               */
cs_tensor cs_pass_targets(cs_pass *pass);    /* of the batch                                 */
cs_tensor cs_pass_starts(cs_pass *pass);     /* of the batch, or absent                      */
const uint64_t *cs_pass_keys(cs_pass *pass); /* (B) random keys, one a sample: functions of (seed, sample)  */

/* ---- 3. When it fails ------------------------------------------------------------------------- */

const char *cs_error(void);                       /* the last failure of this thread, one or more sentences */
int cs_exit_code(cs_status status);               /* as listed at cs_status; 0 of CS_OK */
void cs_must(cs_status status, const char *what); /* for main(): on failure say why (rank 0 alone) and exit */
#define CS_MUST(call) cs_must((call), #call)

/* The name that was probably meant, of a list that ends with NULL. NULL: none is near. */
const char *cs_nearest(const char *wanted, const char *const *names);

#ifdef __cplusplus
}
#endif
#endif
