/* cspeed.h - the main public header: run a training, write a model, report errors. (public)
 *
 * A training uses five calls, which have DeepSpeed's names:
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
 * Every rank runs the same program and calls the same functions in the same order. "Collective" means that a function
 * must be called on every rank.
 *
 * Errors: a function that can fail because of a file, a configuration or a missing peer returns a cs_status, and
 * cs_error() returns a sentence that says what to do. Functions that run in every step return no status. If they find
 * an error of the machine or of the calling program, they print a sentence and end the process, unless the program takes
 * the error (cs_on_fatal, cs_try_forward). An argument that is NULL, where no comment allows it, is such an error.
 *
 * Ownership: the engine owns what its getters return; such a pointer is valid until the engine is closed. An engine may
 * be used only by the thread that opened it. */
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
typedef struct cs_comm cs_comm; /* comm.h */
typedef struct cs_data cs_data;
typedef struct cs_stream cs_stream;

typedef enum {
    CS_OK,
    CS_BAD_CONFIG,  /* the configuration is wrong; exit code 78 */
    CS_BAD_FILE,    /* a file's content is wrong; exit code 65 */
    CS_NOT_FOUND,   /* a named file or checkpoint is missing; exit code 66 */
    CS_NO_MEMORY,   /* there is not enough memory; exit code 1 */
    CS_NO_DEVICE,   /* this machine has no such device; exit code 69 */
    CS_NO_PEER,     /* another rank ended, or did not connect in time; exit code 75 */
    CS_IO_ERROR,    /* the system could not read or write; exit code 1 */
    CS_UNSUPPORTED, /* a known feature that cspeed does not implement; exit code 78 */
    CS_DISAGREE,    /* ranks have different settings or data, or call different collectives; exit code 76 */
    CS_NOT_FINITE,  /* a parameter is infinite or NaN, so nothing was saved; exit code 1 */
    CS_MISUSE       /* the calling program is wrong, e.g. its order of calls; exit code 70 */
} cs_status;

typedef enum { CS_F32, CS_BF16, CS_F16, CS_I32, CS_I64, CS_U8 } cs_dtype;

enum { CS_MAX_DIMS = 4 };

/* A dense row-major array of up to 4 dimensions. A tensor does not own its memory. If `dims` is 0, the tensor is a
 * scalar. An "absent" tensor has data NULL; a function's comment says where a tensor may be absent. */
typedef struct {
    void *data;
    cs_dtype dtype;
    int32_t dims;
    int64_t shape[CS_MAX_DIMS];
    bool
        overwrite; /* true for a gradient whose memory is still undefined: an operation that adds to gradients then sets
                 * the gradient instead */
} cs_tensor;

size_t cs_dtype_bytes(cs_dtype dtype);
int64_t cs_count(cs_tensor tensor);                /* the number of elements                               */
int64_t cs_columns(cs_tensor tensor);              /* the last dimension; 1 for a scalar                   */
int64_t cs_rows(cs_tensor tensor);                 /* the product of all dimensions but the last */
float cs_element(cs_tensor tensor, int64_t index); /* element `index` in row-major order; host memory only */
cs_tensor cs_matrix(void *data, cs_dtype dtype, int64_t rows, int64_t columns);
cs_tensor cs_matrix_rows(cs_tensor matrix, int64_t first, int64_t rows); /* a view of some rows */
cs_tensor cs_vector(void *data, cs_dtype dtype, int64_t count);

/* One micro-batch of this rank's lane (cs_lane); B is the micro-batch size and T the number of tokens of a sample.
 *   language model  inputs and targets: CS_I32 (B, T). A target below 0 does not count in the loss.
 *   other models    inputs: CS_F32 (B, ...). targets: B rows, as cs_model_floats or cs_model_classifies describes them.
 * All memory is the caller's and must stay unchanged until cs_backward returns. */
typedef struct {
    cs_tensor inputs, targets;
    /* (B) the number of each sample in the order of the whole training. Random bits (dropout) depend on this number. If
     * NULL, the engine computes the numbers from step, micro-step and lane. */
    const int64_t *samples;
    cs_tensor starts; /* (B, T) i32 or absent, for several documents packed into one sample: position t attends to
                             * positions starts[t] to t only. starts[t] <= t, and starts never decrease along t. */
    /* in preference training (cspeed.dpo) only: (B) CS_F32, the log-probability of each answer by the reference model,
     * or absent if reference_free. B is twice the micro-batch size. Sequence 2 b is the prompt and the chosen answer of
     * pair b; sequence 2 b + 1 is the prompt and its rejected answer. The positions of an answer have a target. */
    cs_tensor references;
} cs_batch;

/* ---- 1. Run a training ------------------------------------------------------------------------ */

/* Reads a DeepSpeed configuration file (configs/reference.json lists every key). `path` is the path of the file, or
 * its content: a JSON text that begins with "{", or the base64 of one. CS_NOT_FOUND: there is no such file.
 * CS_BAD_CONFIG: cs_error() has one sentence for each error in the file. */
cs_status cs_config_open(cs_config **config, const char *path);
/* Overrides one value of the file: "KEY.PATH=JSON", for example "zero_optimization.stage=3". A value that is not JSON
 * is taken as a string. cs_config_finish checks the value. */
cs_status cs_config_set(cs_config *config, const char *assignment);
/* Sets the program's own default of a key. This default applies if neither the file nor cs_config_set gives the key.
 * For example: "optimizer={\"type\": \"SGD\"}". */
cs_status cs_config_default(cs_config *config, const char *assignment);
/* Makes unknown keys of the configuration cause a warning; without this call they are errors. */
void cs_config_lenient(cs_config *config);
/* Resolves "auto" and defaults for this world and checks all values. The getters below may be called afterwards. If the
 * program does not call this function, cs_initialize does. */
cs_status cs_config_finish(cs_config *config);
void cs_config_close(cs_config *config);
int64_t cs_config_get_int(const cs_config *config, const char *path); /* a resolved value, e.g. of "cspeed.steps" */
double cs_config_get_number(const cs_config *config, const char *path);
const char *cs_config_get_string(const cs_config *config, const char *path); /* returns NULL if the key is not set */
bool cs_config_get_bool(const cs_config *config, const char *path);
/* Prints every key of the configuration in Markdown, with its type, its default and its effect, or with the reason why
 * cspeed does not accept the key. The output is the page docs/keys.md. */
void cs_config_help(void);
/* `name` is a command line's option, without dashes, or its command, that this program does not have. Returns the end of
 * a sentence that says what takes its place, or why nothing does, if it is a word of another trainer (docs/from-trainer.md)
 * or the last name of a key of the configuration; otherwise NULL. The caller frees the text. */
char *cs_word_advice(const char *name, bool command);

/* Makes a configuration for the evaluation or sampling of a trained model. `source` is a folder of checkpoints, one
 * checkpoint, or a Hugging Face folder; `tag` names a checkpoint in the folder, NULL means the latest. The
 * configuration has the training's model, precision and data. Every rank holds the whole model, without optimizer
 * state. An engine with this configuration cannot train: cs_forward ends the process with exit code 70. For a
 * checkpoint, the key "cspeed.load" of the configuration is the folder to pass to cs_load_checkpoint, with module_only.
 * For a Hugging Face folder this key is not set, because cs_initialize reads the weights. */
cs_status cs_reopen(cs_config **config, const char *source, const char *tag);

/* Opens the device and connects the ranks before there is a model. This is for programs that prepare data or agree on
 * something first: for example, rank 0 writes a file while the other ranks wait at cs_comm_barrier(*comm). The function
 * calls cs_config_finish. A program need not call it, since cs_initialize connects ranks that are not connected. A
 * second call returns the same comm. Between the other calls of a training, the program may use the comm for
 * collectives on host memory. The comm is valid until cs_destroy or, without an engine, until cs_config_close. Errors
 * are those of cs_config_finish and cs_comm_open. Collective. */
cs_status cs_init_distributed(cs_config *config, cs_comm **comm);

/* Connects the ranks, opens the device and builds the model. `model` is a model made with cs_model_new, or NULL for the
 * model that the configuration names. The engine takes ownership of `config` and `model`, even if the call fails.
 * CS_DISAGREE: ranks were given different settings. Only the device, the number of threads, the names of files and
 * folders, and the seed may differ; all ranks use the seed of rank 0. Collective. */
cs_status cs_initialize(cs_engine **engine, cs_config *config, cs_model *model);
void cs_destroy(cs_engine *engine); /* accepts NULL */

/* Sets the number of updates after which the learning-rate schedule ends (total_num_steps), if the configuration gives
 * "auto" for this number; otherwise does nothing. Every rank must pass the same value. */
void cs_set_total_steps(cs_engine *engine, int64_t steps);

/* Replaces the configuration's learning-rate schedule: rate(step, argument) returns the rate of applied update number
 * `step`, counted from 0. The rate must depend on `step` only and be the same on every rank. After a checkpoint was
 * loaded, `rate` is called with the number of the next update. NULL restores the configuration's schedule. */
void cs_set_schedule(cs_engine *engine, double (*rate)(int64_t step, void *argument), void *argument);

/* Returns the learning rate of applied update number `step`, counted from 0. The schedule is the one given to
 * cs_set_schedule, or else the configuration's. Each parameter group multiplies this rate by the group's own factor.
 * PyTorch's lr_scheduler.get_last_lr() is cs_last_step(engine).learning_rate. */
double cs_schedule_rate(const cs_engine *engine, int64_t step);

/* A parameter group of the optimizer, as in PyTorch's optimizer.param_groups: one of cspeed.param_groups, or the group
 * of all other parameters. */
typedef struct {
    const char *optimizer; /* "AdamW", ... */
    double learning_rate;  /* the group's learning rate in the next update */
    double weight_decay;
    int64_t tensors, elements; /* number of the group's parameters, and of their elements, in the whole model */
    bool frozen;               /* the group is not trained ("train": false) */
} cs_param_group;
int cs_param_group_count(const cs_engine *engine);
/* Returns parameter group `index`, 0 <= index < cs_param_group_count. The groups of cspeed.param_groups come first, in
 * their order. With Muon each group becomes two: one for the matrices and one for the other parameters. */
cs_param_group cs_param_group_at(const cs_engine *engine, int index);

/* Returns rank 0's value on every rank. Collective. */
int64_t cs_agree(cs_engine *engine, int64_t value);
/* On rank 0, returns the texts of all ranks, concatenated in the order of the ranks; the caller frees the result. On
 * other ranks, returns NULL. Collective. */
char *cs_gather(cs_engine *engine, const char *text);

int cs_launched_rank(void); /* the rank that the environment gives, before an engine exists; 0 without a launcher */
int cs_rank(const cs_engine *engine);
int cs_world_size(const cs_engine *engine);
/* With tensor parallelism (cspeed.mesh.tp) consecutive ranks divide the matrices of each layer. They read the same
 * samples, and together they are a lane; without it each rank is a lane. A program divides samples among lanes, and all
 * ranks of a lane pass the same batches. cs_lane returns the number of this rank's lane, cs_lanes the number of lanes.
 * cs_leads_lane returns true on the first rank of each lane: what all ranks of a lane count alike, such as their
 * samples, is added up over these ranks only. */
int cs_lane(const cs_engine *engine);
int cs_lanes(const cs_engine *engine);
bool cs_leads_lane(const cs_engine *engine);
const char *cs_device_description(const cs_engine *engine); /* a text such as "cpu, 1 thread, fp32 arithmetic ..." */

/* The axes of the device mesh (docs/parallelism.md), along which ranks send to each other, and all ranks together. */
typedef enum { CS_AXIS_ALL, CS_AXIS_REPLICATE, CS_AXIS_SHARD, CS_AXIS_TP, CS_AXES } cs_axis;

/* Bytes that a rank sends in an optimizer step: `all` as cs_comm_counters counts `bytes`, and those that TCP sends to
 * ranks of other hosts, as cs_comm_counters counts `between_hosts`. */
typedef struct {
    size_t all, between_hosts;
} cs_sent;

/* Memory of this rank, in bytes. */
typedef struct {
    /* parameter values, gradient sums, fp32 masters and optimizer state, kept between steps. The sizes are exact,
     * because they follow from the ZeRO stage and the types */
    size_t values, gradients, masters, slots;
    /* how many bytes of `values`, `masters` and `slots` are in host memory, while the rest is on a GPU
     * (zero_optimization.offload_param and offload_optimizer) */
    size_t offloaded;
    size_t value_rows, gradient_rows; /* buffers of gathered parameters and of gradients before reduction */
    size_t activations;               /* tensors saved for backward, and scratch memory of a micro-batch */
    /* the copy of the state that cspeed.async_save makes for writing; allocated at the first save */
    size_t copy;
    /* how many bytes of `values`, `gradients`, `masters` and `slots` belong to zero rows of padded parameters
     * (cs_param.padded) */
    size_t padding;
    int64_t rows_held, rows_zero; /* rows of padded parameters, and how many of them are zero rows */
    /* host memory through which checkpoints are copied from and to a GPU; allocated at the first save */
    size_t pinned;
    size_t workspace; /* scratch memory of the kernels; its size is final after the first step */
    /* not memory, but the bytes that this rank has to send in one optimizer step, as cs_comm_counters counts them. The
     * first step sends a few more bytes, to agree on settings. The messages of Lamb and Muon are not counted. */
    size_t sent;
    /* `sent` by axis: the sums of loss, norm and expert counts over all ranks; gradients between the groups of hybrid
     * sharding; ZeRO's collectives; the sums of tensor parallelism */
    cs_sent sent_by[CS_AXES];
    /* memory for the output of cs_predict; 0 if this output fits into `activations`. It is allocated at the first call.
     * A cs_context uses the same memory, for one row of output for each text. */
    size_t prediction;
} cs_memory;
cs_memory cs_memory_of(const cs_engine *engine);

/* Computes the memory of each rank of a run without running it: no rank connects and the model is not allocated. The
 * field `workspace` is not known and stays 0. `memory` has one element for each rank of cs_config_for_world. Takes
 * ownership of the configuration, even if the call fails. */
cs_status cs_estimate(cs_config *config, cs_memory *memory, int64_t *parameters);
/* A unit of sharding: parameters that are gathered and released together. */
typedef struct {
    char name[96];    /* name of the unit, or of its kind if the unit has no name */
    int64_t elements; /* number of elements of the unit's own parameters */
    size_t values;    /* bytes of all values of the unit, padding included */
    /* bytes of one rank's shard of the values if parameters are sharded; otherwise equal to `values` */
    size_t part;
} cs_unit_size;
/* Lists the units of sharding of a run in the order in which forward visits them. Like cs_estimate, it does not run the
 * training and takes ownership of the configuration. The caller frees *units. */
cs_status cs_estimate_units(cs_config *config, cs_unit_size **units, int64_t *count);
/* What one rank of a tensor-parallel group holds of a parameter: the parts [from, to) of its rows (dimension 0) or of its
 * columns (dimension 1). */
typedef struct {
    char name[160];
    int64_t shape[2]; /* the shape of the whole parameter; shape[1] is 0 for a vector */
    int dimension, parts;
    struct {
        int64_t from, to;
        int copies; /* number of ranks of the group that hold this part */
    } part[3];
    bool partial; /* the gradients of copies are parts of a sum over the ranks that hold them */
} cs_param_cut;
/* Lists what each rank of a tensor-parallel group holds: (*cuts)[rank * *count + i] is parameter i on rank number `rank`
 * of *ranks. Like cs_estimate, it does not run the training and takes ownership of the configuration. The caller frees
 * *cuts. */
cs_status cs_estimate_cuts(cs_config *config, cs_param_cut **cuts, int64_t *count, int64_t *ranks);
/* Sets the world for which cs_config_finish resolves the configuration: `size` ranks, of which `local_size` are on each
 * host. Without this call the world is the one that the environment describes. Call this function before
 * cs_config_finish. */
void cs_config_for_world(cs_config *config, int size, int local_size);

/* A box of a parameter: `rows` rows from row number `row`, and `columns` columns from column number `column`. A vector
 * has one column. */
typedef struct {
    int64_t row, column, rows, columns;
} cs_param_box;

/* The shard of a parameter that this rank holds between steps, like DTensor's to_local(). Tensor parallelism first
 * divides the parameter into boxes: the local parameter of a rank is one box, or up to three boxes that stand one below
 * another (if the parameter is divided by rows) or side by side (if it is divided by columns), such as the columns of q,
 * k and v. Several ranks may hold the same box. Without tensor parallelism, and for a parameter that it does not divide,
 * the local parameter is the whole parameter.
 *
 * ZeRO divides the elements of a whole unit among ranks, and not the rows of each parameter. So the shard is a range of
 * the elements of the local parameter; the range may begin and end inside a row, and may be empty. */
enum { CS_PARAM_BOXES = 3 };
typedef struct {
    cs_tensor shape; /* shape and type of the whole parameter; data is NULL */
    cs_tensor local; /* shape and type of the local parameter; data is NULL */
    int boxes;       /* number of boxes of the local parameter */
    cs_param_box box[CS_PARAM_BOXES];
    /* DTensor's placement of the local parameter on the ranks of ZeRO: true for Shard (the ranks hold disjoint shards),
     * false for Replicate (each rank holds the whole local parameter) */
    bool sharded;
    /* the elements [from, to) of the local parameter that this rank holds, in row-major order; from == to if it holds
     * none */
    int64_t from, to;
    /* the rows [first, last) of the local parameter in which the elements [from, to) lie; first == last if there are
     * none */
    int64_t first, last;
    /* address of element `from`, in the device's memory, or with zero_optimization.offload_param in pinned host memory;
     * NULL if this rank holds no element. The engine owns this memory. The address is valid until cs_destroy. The
     * values are complete when cs_param_local returns. They change in cs_step and cs_load_checkpoint, and cs_step may
     * return before they have changed; cs_param_local waits for them. */
    const void *data;
} cs_param_part;
/* Describes this rank's shard of the parameter `name`. CS_NOT_FOUND: the model has no such parameter; cs_error() names
 * the most similar one. This call does not communicate. */
cs_status cs_param_local(const cs_engine *engine, const char *name, cs_param_part *part);
/* Whole parameters and gradients, as fp32 numbers in row-major order in host memory that has room for all elements
 * (cs_param_part.shape says how many). All ranks call these functions, and each rank gets, or gives, all elements; the
 * ZeRO stage and the number of ranks do not matter.
 *
 * cs_param_read reads the values that a checkpoint has: the master values, where they differ from those of the compute
 * type. cs_param_write sets them between two steps, with the same values on all ranks; the optimizer's state does not
 * change. cs_gradient_read reads the gradient of the step's mean loss, with all micro-batches and all ranks, without the
 * loss scale and before clipping; it is called after the last cs_backward of a step and before its cs_step.
 * CS_NOT_FOUND: the model has no such parameter. CS_UNSUPPORTED: the parameter has 4-bit weights or, for a gradient, is
 * frozen; or some micro-batches of a step, but not all, were accumulated. A call in another phase ends the process, as
 * cs_step does out of order. */
cs_status cs_param_read(cs_engine *engine, const char *name, float *to);
cs_status cs_param_write(cs_engine *engine, const char *name, const float *from);
cs_status cs_gradient_read(cs_engine *engine, const char *name, float *to);
/* Compares the gradients that backward computes for `batch` with differences of the loss: for each trained parameter, from
 * the last unit to the first, along one direction in which all elements change, and along 4 elements. CS_MISUSE: a slope
 * differs by more than `tolerance` (relative; 1e-3 is usual) plus the estimated error of the measurement; cs_error() has the
 * parameter, the element and both values. The check runs forward and backward about 20 to 60 times for each parameter.
 * The configuration must be in fp32. May be called between two steps; parameters, optimizer and metrics keep their bits.
 * Collective. */
cs_status cs_check_gradients(cs_engine *engine, const cs_batch *batch, double tolerance);

/* Sets all parameters of the model from the safetensors files of a folder, by their names, as cs_export wrote them.
 * Each rank reads only its own elements. CS_BAD_FILE: tensors are missing, have another shape or belong to no
 * parameter; cs_error() names them. Collective, and between two steps only. */
cs_status cs_load_weights(cs_engine *engine, const char *folder);

/* the number of parameters; tied parameters count once */
int64_t cs_param_count(const cs_engine *engine);
/* the name of a parameter; `index` follows the model's order, with frozen parameters last */
const char *cs_param_name(const cs_engine *engine, int64_t index);

int64_t cs_parameter_count(const cs_engine *engine); /* the number of elements of all parameters */
/* The number of elements of the parameters that compute one token. It is smaller than cs_parameter_count if the model
 * has experts, because only some of a layer's experts compute a token. */
int64_t cs_active_parameter_count(const cs_engine *engine);
/* size of the vocabulary if the configuration names a language model; otherwise 0 */
int64_t cs_vocabulary(const cs_engine *engine);
/* the longest text that the model can read, in tokens; 0: no limit is known */
int64_t cs_positions(const cs_engine *engine);
/* The longest text that a cs_context can hold, in tokens. This is cs_positions, or with longrope the original context
 * length: a longer text needs other rotations, but keys that are in the cache cannot be rotated again. */
int64_t cs_context_positions(const cs_engine *engine);

/* Seconds that this rank spent in each phase of the last complete optimizer step. Work that overlaps with computation
 * counts only as far as this rank waited for it. */
typedef struct {
    double forward, backward, step;
    double reduce;    /* part of backward: summing gradients over ranks */
    double gradients; /* part of step: gradient norm and overflow check */
    double update;    /* part of step: the optimizer                    */
    double publish;   /* part of step: sending new values to the ranks  */
} cs_phase_seconds;
cs_phase_seconds cs_phases(const cs_engine *engine);

/* One micro-batch: cs_forward computes the losses of `batch`, and cs_backward adds the gradients to the sums of this
 * step. cs_step counts micro-batches; at the end of gradient accumulation it updates the parameters and returns true,
 * otherwise it returns false. */
void cs_forward(cs_engine *engine, const cs_batch *batch);
void cs_backward(cs_engine *engine);
bool cs_step(cs_engine *engine);

/* Prints the tables of comms_logger on rank 0: latency and bandwidth of each collective by message size, and how long
 * ranks waited for each other. Does nothing if comms_logger is off. Collective. */
void cs_log_summary(cs_engine *engine);

/* The mean loss of the last complete optimizer step over all ranks, weighted by tokens. The call does not communicate.
 *
 * On a GPU the host runs up to one step ahead: cs_step waits only for the result of the previous step, so messages of a
 * step, for example about an overflow, come one step late. cs_loss and cs_last_step wait until the gradient norm of the
 * last step is known; they do not wait for its update, which the GPU computes while the host begins the next
 * forward. */
float cs_loss(cs_engine *engine);

/* Means over the pairs of answers of preference training (cspeed.dpo). The comment of each field begins with TRL's name
 * of the mean. Without preference training all these fields are NaN. The reward of an answer is beta * (its
 * log-probability by the model - its log-probability by the reference model). */
typedef struct {
    double chosen_reward, rejected_reward; /* rewards/chosen, rewards/rejected */
    double accuracy;                       /* rewards/accuracies: share of pairs whose chosen answer has the greater
                                            * reward */
    double margin;                         /* rewards/margins: chosen_reward - rejected_reward */
    double chosen_logp, rejected_logp;     /* logps/chosen, logps/rejected: log-probabilities by the model */
} cs_preference;

/* Facts about the last complete optimizer step. */
typedef struct {
    int64_t step;    /* optimizer steps so far, including skipped ones */
    int64_t skipped; /* skipped steps so far; a step is skipped if gradients overflowed or no row had a target */
    /* How many steps in a row, up to this one, had a loss or a gradient norm that was infinite or NaN. Two kinds of
     * steps are not counted: steps in which no row has a target, and steps that a dynamic loss scale skips because only
     * the gradients overflowed. cspeed.nan_patience limits this number. */
    int64_t not_finite;
    int64_t samples; /* samples so far, over all ranks */
    int64_t tokens;  /* rows with a target so far, over all ranks */
    double epoch;    /* completed passes over the data of cs_data, with a fraction; 0 if cs_data is not used */
    /* mean loss of this step, see cs_loss; NaN before the first step, or if no row of the step had a target */
    double loss;
    double learning_rate; /* the learning rate that this step used */
    /* global L2 norm of the gradients, without the loss scale, before clipping; may be infinite */
    double grad_norm;
    double loss_scale;   /* the loss scale that this step used; 1 without fp16 */
    double step_seconds; /* wall time of this step on this rank; on a GPU, the time since the previous step's end */
    double tokens_per_second;
    double peak_share;  /* floating-point operations per second as a share of the device's measured peak; 0: unknown */
    int64_t saved_step; /* step of the last checkpoint that this process saved completely; -1: none */
    double save_stall;  /* seconds for which the save of saved_step stopped the training on this rank */
    cs_preference preference;
} cs_metrics;
cs_metrics cs_last_step(cs_engine *engine);

/* How the tokens of the last complete optimizer step were divided among the experts of the model, over all
 * micro-batches and ranks. A token counts for each expert that computes it. */
typedef struct {
    /* number of layers that have experts, and number of experts in each; layers is 0 if there are none */
    int64_t layers, experts;
    /* number of tokens of each expert, (layers, experts); owned by the engine, valid until the next cs_step */
    const int64_t *tokens;
    /* The imbalance of a layer is the number of tokens of its busiest expert, divided by the mean over its experts.
     * This field is the mean of the layers' imbalances. 1: all experts got equally many tokens. NaN before the first
     * step. */
    double imbalance;
    double worst;   /* the greatest imbalance of a layer */
    int64_t unused; /* number of experts, in all layers, that got no token */
} cs_expert_load;
cs_expert_load cs_expert_load_of(cs_engine *engine);

/* Computes the mean loss over the first `batches` micro-batches of `data`; each rank evaluates a share of them, or rank
 * 0 evaluates all of them (cspeed.eval_on "rank0"). If `batches` is 0, all of the data is used, each window once. The
 * result has the same bits at every world size if the number of threads is the same. The state of the training does not
 * change. Collective. */
cs_status cs_evaluate(cs_engine *engine, cs_data *data, int64_t batches, double *loss);

/* Computes the loss of each row of a micro-batch without training: of each token, or of each sample of a model of numbers,
 * 0 for a row without a target. `losses` has room for all rows, in host memory. Between two steps only; all ranks call it,
 * each with the batch of its lane. */
cs_status cs_losses(cs_engine *engine, const cs_batch *batch, float *losses);

/* The results of cs_score, which does what cs_evaluate does and also counts how often the most probable token was the
 * target. */
typedef struct {
    double loss;    /* the mean loss, as from cs_evaluate; NaN if there is no target */
    int64_t tokens; /* number of targets */
    /* number of targets that were the most probable token; -1 if the last unit is not a cross-entropy */
    int64_t correct;
    /* in preference training the number of pairs of answers, over which `loss` is the mean; otherwise 0 */
    int64_t pairs;
    cs_preference preference;
} cs_scores;
cs_status cs_score(cs_engine *engine, cs_data *data, int64_t batches, cs_scores *scores);
/* Writes the result of a validation to the files of csv_monitor and tensorboard, as Train/Samples/valid_loss; in
 * preference training also the means of `scores->preference`. Does nothing if neither is enabled, and on other ranks than
 * rank 0. */
void cs_write_scores(cs_engine *engine, const cs_scores *scores);

/* Computes the model's output for a batch. The batch's targets are not used. For a language model the output is the
 * logits, (B*T, vocabulary). B and T may be smaller than in training. The output is valid until the next call with this
 * engine. Every rank must pass a batch of the same shape; all ranks of a lane must pass the same batch, and all of them
 * get the whole output. Collective. */
cs_status cs_predict(cs_engine *engine, const cs_batch *batch, cs_tensor *output);

/* A key-value cache for text generation: it keeps the keys and values of up to `length` positions (0: as many as the
 * model allows), so that each further token costs the computation of one position. Tokens that were read before the
 * parameters changed must be read again, after cs_context_clear. With tensor parallelism all ranks of a lane must make the
 * same calls with the same tokens; all of them get the whole logits. */
typedef struct cs_context cs_context;
cs_status cs_context_open(cs_context **context, cs_engine *engine, int64_t length);
void cs_context_close(cs_context *context); /* Frees the context, which may be NULL. Call it before cs_destroy. */
/* Appends tokens, in pieces of at most the configuration's seq_len. *logits becomes the logits of the next token, (1,
 * vocabulary). The logits are valid until the next call with this engine. Collective at stage 3. */
cs_status cs_context_read(cs_context *context, const int32_t *tokens, int64_t count, cs_tensor *logits);
/* Appends one token to each of `count` different contexts of one engine: tokens[i] to contexts[i]. Row i of *logits
 * (count, vocabulary) has the logits of the next token of contexts[i]. The weights are read once for all contexts, so
 * this call is faster than one cs_context_read for each. `count` is at most the number of rows of a micro-batch, B * T.
 * Collective at stage 3. */
cs_status cs_contexts_step(cs_context *const *contexts, int64_t count, const int32_t *tokens, cs_tensor *logits);
int64_t cs_context_count(const cs_context *context); /* the number of tokens that the context has read */
/* makes the context forget all tokens, so that another text can begin */
void cs_context_clear(cs_context *context);

typedef struct {
    double temperature; /* temperature of the sampling; 0 means that the most probable token is always chosen */
    int64_t top_k;      /* number of most probable tokens from which to sample; 0 means all */
    /* sample from the fewest tokens whose probabilities sum to at least top_p; 1 means all tokens */
    double top_p;
    int64_t seed;
} cs_sampling;
/* Samples the next token from the last row of logits. The random number depends on the seed, `text` (the number of the
 * text) and `place` (the token's position) only. */
int32_t cs_sample(cs_tensor logits, const cs_sampling *how, int64_t text, int64_t place);

/* The text that a model generates after a prompt, token by token, with a cs_context. A text that has filled the
 * positions continues: the context is cleared and reads the last tokens of the text, half as many as there are
 * positions. */
typedef struct cs_generation cs_generation;
typedef struct {
    cs_sampling sampling;
    int64_t text; /* the number of the text, see cs_sample */
    int64_t max;  /* the greatest number of tokens to generate */
    /* the number of tokens after which the text continues from its last half; 0: cs_context_positions */
    int64_t positions;
} cs_generation_options;
/* `prompt` has 1 to cs_context_positions tokens, and is copied. */
cs_status cs_generation_open(cs_generation **generation, cs_engine *engine, const int32_t *prompt, int64_t count,
                             const cs_generation_options *options);
/* Frees the generation, which may be NULL. Call it before cs_destroy. */
void cs_generation_close(cs_generation *generation);
/* Samples the next token of each of `count` different texts of one engine: tokens[i] of generations[i]. `count` is
 * limited as for cs_contexts_step. Collective at stage 3. */
cs_status cs_generations_next(cs_generation *const *generations, int64_t count, int32_t *tokens);
/* true if the text has filled the positions, so that the model no longer reads its beginning */
bool cs_generation_slid(const cs_generation *generation);
/* True if the token ends a text by "eos_token_id" of generation_config.json in the folder of the model or of its adapter
 * (cspeed.lora.adapter), or of config.json if the first has no such key. The engine was opened with the configuration of
 * cs_reopen; otherwise no token does. */
bool cs_ends_text(const cs_engine *engine, int32_t token);

/* Saves the state in the folder dir/tag and writes the tag into dir/latest. If `tag` is NULL, the tag is
 * "global_step<N>". client_state is NULL or JSON text, which cs_load_checkpoint returns unchanged. CS_BAD_CONFIG:
 * client_state is not JSON. CS_NOT_FINITE: a parameter is infinite or NaN, and nothing was saved. A failed save does
 * not damage earlier checkpoints. While cs_metrics.not_finite is above 0, no older checkpoint is removed. Only one run
 * at a time may save in a folder; the program has to ensure this, as programs/train/owner.c does. Collective. */
cs_status cs_save_checkpoint(cs_engine *engine, const char *dir, const char *tag, const char *client_state);

/* Later saves do not remove the checkpoint of this step, whatever cspeed.keep_last is, until the next call; 0: none.
 * The call is needed on rank 0, and again after a program has started anew. */
void cs_keep_checkpoint(cs_engine *engine, int64_t step);

/* With cspeed.async_save, cs_save_checkpoint returns when the save has begun. The state is copied before the next
 * update, and a thread writes the copy. The results of the training have the same bits as without cspeed.async_save. A
 * second save waits for the first. If a save fails, a message is printed at once, and the next cs_save_checkpoint,
 * cs_load_checkpoint or cs_finish_checkpoint returns the status of the failed save without doing anything else.
 * cs_finish_checkpoint waits until the save is complete, and so does cs_destroy. Collective. */
cs_status cs_finish_checkpoint(cs_engine *engine);

/* Returns true, once for each request and after the same step on all ranks, if a checkpoint is asked for. Call this
 * function after every cs_step that returned true, and save a checkpoint if the function returns true. Who asks:
 *
 *     SIGUSR1, SIGUSR2            sent to any rank, or to the launcher
 *     SIGTERM, SIGINT, SIGHUP     the same, and the launcher before it ends the ranks, also when a node wants to join an
 *                                 elastic job (--nnodes MIN:MAX). After the checkpoint the process has to end: the
 *                                 next cs_forward waits until the checkpoint is complete and ends the process by the
 *                                 signal (a rank that did not get the signal ends with exit code 75).
 *
 * A signal that asks for the end, and that comes again a second later or more, ends the process at once; the launcher's
 * own signal never counts as the second. The library's threads block all signals.
 *
 * The first call installs the handlers of these signals, unless the program has its own or ignores the signal; before
 * it, and after cs_destroy, the signals end the process. The call does not communicate, because the all-reduce of the
 * loss in each step also carries the request. */
bool cs_save_asked(cs_engine *engine);

/* Checks whether dir's file system has room for `saves` more checkpoints, of which only the last cspeed.keep_last are
 * kept. CS_IO_ERROR: there is not enough room; cs_error() has the numbers. Call this function when the folder exists
 * and before the training begins, since the function counts the checkpoints that are there at the time of the call. A
 * call on one rank is enough. */
cs_status cs_checkpoint_room(const cs_engine *engine, const char *dir, int64_t saves);

/* Writes a checkpoint's weights as a new Hugging Face folder, in the type of cspeed.export_dtype, with the tokenizer
 * of the folder from which the training started. The folder of a model that the program defined has the ds_config.json
 * of the training in place of config.json. If `tag` is NULL, the latest checkpoint is exported. Rank 0 writes.
 * Collective. */
cs_status cs_export(cs_engine *engine, const char *dir, const char *tag, const char *folder);

typedef struct {
    bool skip_optimizer_states;    /* DeepSpeed's load_optimizer_states=False */
    bool skip_lr_scheduler_states; /* DeepSpeed's load_lr_scheduler_states=False */
    bool module_only;              /* DeepSpeed's load_module_only=True: loads parameters and nothing else */
    /* DeepSpeed's load_module_strict=False: parameters that the checkpoint lacks keep their values, and tensors that
     * the model lacks are ignored. A different shape is still an error. */
    bool loose;
    /* Continues the training from `tag` in this folder: dir/latest names `tag` from now on. The checkpoints of later
     * steps that exist now stay in the folder and are listed in the log; later saves do not remove them. But a save
     * replaces such a checkpoint if both have the same tag. */
    bool rewind;
} cs_load_options;

/* Loads the checkpoint dir/tag. If `tag` is NULL, the checkpoint that dir/latest names is loaded; if this checkpoint is
 * missing or damaged, another checkpoint is loaded instead, with a warning that names the damage: the newest complete
 * checkpoint from which the damaged checkpoint's training descends, or, if there is none, the newest complete
 * checkpoint of the folder. The next save in dir then renames the damaged checkpoint to TAG~damaged. If a tag is given,
 * or cspeed.checkpoint.on_bad_latest is "fail", a damaged checkpoint is an error, CS_BAD_FILE. CS_NOT_FOUND: dir has no
 * checkpoint. After other errors the parameters are undefined: load again or destroy the engine. If `options` is NULL,
 * everything is loaded. *client_state becomes text that the caller frees; client_state may be NULL. Collective. */
cs_status cs_load_checkpoint(cs_engine *engine, const char *dir, const char *tag, const cs_load_options *options,
                             char **client_state);

/* Reads the token shards that cspeed.data names, in windows of seq_len tokens. `split` is "train" or "valid".
 * Checkpoints contain the position in the training data, because this position follows from the number of samples
 * trained so far. Call cs_data_next once for each micro-batch, before the cs_forward of the micro-batch; the batch is
 * valid until the next call. With cspeed.dpo the windows are pairs of answers, and cs_data_open computes the reference
 * model's log-probabilities unless they are in cspeed.data.cache. With cspeed.dpo cs_data_open must be called before
 * cs_load_checkpoint and cs_forward; otherwise it returns CS_MISUSE. With cspeed.epochs, opening "train" also
 * determines the number of steps. cs_data_open is collective. */
cs_status cs_data_open(cs_data **data, cs_engine *engine, const char *split);
cs_batch cs_data_next(cs_data *data);
int64_t cs_data_windows(const cs_data *data); /* number of windows in one epoch */
void cs_data_close(cs_data *data);

/* Samples that the program itself has, for any model. */
typedef struct {
    int64_t count; /* number of samples, the same on all ranks */
    /* Writes sample number `index`, 0 <= index < count: `inputs` and `targets` have room for one sample of a batch, such as
     * model's `inputs` numbers and one class. Each rank reads the samples of its lane only. */
    void (*read)(void *argument, int64_t index, void *inputs, void *targets);
    void *argument;
    bool train;   /* true: for cs_data_next; cspeed.epochs then counts passes over these samples */
    bool shuffle; /* true: each epoch has another order, which cspeed.seed determines */
} cs_samples;
/* Opens the program's own samples. cs_data_next and cs_evaluate then work as with token files: the place in the data
 * follows from the number of samples trained on, so a resumed training continues where the saved one was, at any number
 * of ranks. In an evaluation each sample counts once, also in the last batch. Collective. */
cs_status cs_data_from(cs_data **data, cs_engine *engine, const cs_samples *samples);

/* Runs `run(argument)` in `ranks` child processes that form one world, and waits for all of them. Returns CS_OK if
 * `run` returned 0 in each of them. If one process fails, the others are ended, and cs_error() names the failed one. */
cs_status cs_spawn(int ranks, int (*run)(void *argument), void *argument);

/* ---- 2. Write a model ------------------------------------------------------------------------- */

/* How a parameter's first values are chosen. */
typedef struct {
    enum { CS_ZEROS, CS_ONES, CS_NORMAL, CS_UNIFORM } how;
    float std; /* CS_NORMAL: the standard deviation. CS_UNIFORM: values are between -std and std. */
} cs_init;

typedef struct cs_gradient cs_gradient;
/* A named parameter. value.data and grad.data are valid while the unit computes and NULL otherwise; grad.data is
 * valid in backward, and for the last unit also in forward of a training pass. Operations add to grad, which is
 * fp32. After cs_param_overwrites grad.data is always NULL, and cs_param_gradient returns the gradient. */
typedef struct {
    const char *name;
    cs_init init;
    /* weight decay applies to the parameter. The default is true for matrices and false for vectors; `declare` may
     * change the field. (DeepSpeed decays all parameters.) */
    bool decay;
    bool frozen; /* the parameter is not trained, and its gradient is absent. After `declare` has returned, the engine
                  * sets this field as the configuration says */
    /* If `declare` sets `initial`, it gives the first value of each element of the whole parameter, in place of `init`.
     * It must return the same value on all ranks; `argument` is its last argument. A vector has column 0 only. */
    float (*initial)(int64_t row, int64_t column, const void *argument);
    const void *argument;
    bool norm; /* a parameter of a normalization: stays fp32 where the precision keeps norms in fp32 */
    /* the linear layer (layer.h) of which this parameter is the weight; NULL if there is none */
    struct cs_linear *linear;
    struct cs_four_bit_weight
        *four_bit;         /* private: how `value` has the codes of a 4-bit weight; NULL if it has numbers */
    cs_gradient *gradient; /* private, set by cs_param_overwrites; NULL: the gradient is cleared before backward */
    cs_tensor value, grad;
    /* The function `declare` of a kind may set `padded` for a matrix, also for a shared one. The device's copy may
     * then end with rows of zeros, so that matrix products are aligned. Those rows have zero gradients and are never
     * updated, saved or counted. After cs_param_overwrites, the first operation that gets a gradient to overwrite must set all
     * `held` rows of that gradient. */
    bool padded;
    int64_t held; /* rows of a matrix in the device's memory, including rows of zeros */
} cs_param;

/* An optimization, which the function `declare` of a kind may request by this call. The call promises that backward
 * gets the parameter's gradient from cs_param_gradient only. The engine then does not clear the gradient: the first
 * operation sets it instead of adding to it. `with` is `param` itself, or an earlier parameter of the unit if one
 * operation writes the gradients of both parameters. All layers of layer.h use this function. */
void cs_param_overwrites(cs_param *param, cs_param *with);
/* Returns the parameter's gradient, for the next operation that adds to it. The gradient's field `overwrite` is true if
 * this is the first operation since the sum of gradients was begun. The gradient is absent if the parameter is frozen.
 * Only a parameter with cs_param_overwrites can be frozen. */
cs_tensor cs_param_gradient(cs_param *param);

/* The functions that units of one kind share. One tensor passes from each unit to the next.
 *   x   the output of the previous unit, or the batch's inputs for the first unit
 *   y   this unit's output: (rows, width); for the last unit the loss of each row, fp32 (rows, 1)
 *   dy, dx  the gradients of y and x. dy of the last unit is the weight of each row's loss.
 * forward must write all of y, and backward all of dx, since the memory of y and dx is undefined before. forward may
 * run twice for one backward (recomputation); both runs must compute the same values. The forward of the last unit runs
 * only once, so in training it may already add to gradients, with the weights of cs_pass_dloss.
 *
 * cs_initialize runs the units once only to measure memory. In this run tensors have an address but no memory: the
 * operations of ops.h do nothing, and your own code must not touch elements: if (!cs_pass_measuring(pass)) ... */
typedef struct {
    const char *name;
    void (*declare)(cs_unit *unit, const void *sizes); /* declares the unit's parameters */
    void (*forward)(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y);
    void (*backward)(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx); /* dx of the first unit is absent */
    /* sets *output to the output of the model's last unit; the engine calls it for this unit only. If NULL, cs_predict is
     * refused. */
    void (*predict)(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor *output);
} cs_kind;

/* A model is a list of units. `width` is the number of columns of the tensors that pass from one unit to the next. */
cs_status cs_model_new(cs_model **model, int64_t width);
void cs_model_free(cs_model *model); /* frees a model that was not given to an engine */
/* The model reads numbers: inputs CS_F32 (B, inputs) and targets CS_F32 (B, targets). Without this call the model reads
 * tokens: inputs and targets CS_I32 (B, T). */
void cs_model_floats(cs_model *model, int64_t inputs, int64_t targets);
/* The model reads numbers and classifies: inputs CS_F32 (B, inputs) and targets CS_I32 (B, 1), as cs_op_cross_entropy
 * takes them. A row whose target is below 0 does not count in loss, gradients and metrics. */
void cs_model_classifies(cs_model *model, int64_t inputs);
/* Appends a unit and calls kind->declare(unit, sizes). `name` is the prefix of the names of the unit's parameters
 * ("transformer.h.0"); with "" the parameters have no prefix. */
cs_unit *cs_model_add(cs_model *model, const cs_kind *kind, const char *name, const void *sizes);

/* Returns the unit's private struct of `bytes` bytes. The first call, in `declare`, allocates it filled with zeros;
 * later calls return the same struct and must ask for the same size. */
void *cs_unit_self(cs_unit *unit, size_t bytes);
/* Declares a parameter (rows, columns). If `columns` is 0, the parameter is a vector of `rows` elements. Its full name,
 * UNIT.NAME, is UTF-8 and no other parameter has it; cs_initialize checks this, and that all ranks declare the same. */
cs_param *cs_unit_param(cs_unit *unit, const char *name, int64_t rows, int64_t columns, cs_init init);
/* Lets this unit also use the parameter `name` of `owner`, an earlier unit (tied weights). A unit may have at most 4
 * owners. */
cs_param *cs_unit_share(cs_unit *unit, cs_unit *owner, const char *name);

/* Memory of a pass (one micro-batch). A tensor from cs_pass_make or cs_pass_like is valid until the unit's forward or
 * backward returns. cs_pass_keep saves a tensor for backward, where cs_pass_take returns the saved tensors in reverse
 * order. Only whole tensors from cs_pass_make and cs_pass_like and tensors of the batch may be kept, but not views into
 * such tensors. In an evaluation cs_pass_keep does nothing. */
cs_tensor cs_pass_make(cs_pass *pass, cs_dtype dtype, int64_t rows, int64_t columns);
cs_tensor cs_pass_like(cs_pass *pass, cs_tensor shape);
void cs_pass_keep(cs_pass *pass, cs_tensor tensor);
cs_tensor cs_pass_take(cs_pass *pass);

cs_stream *cs_pass_stream(cs_pass *pass); /* the stream for the operations of ops.h */
cs_dtype cs_pass_dtype(cs_pass *pass);    /* type of the tensors between units and of parameter values */
cs_dtype cs_pass_products(cs_pass *pass); /* type of operands and results of matrix products: cs_pass_dtype, unless the
                                           * precision is mixed */
int64_t cs_pass_batch(cs_pass *pass);     /* B */
int64_t cs_pass_length(cs_pass *pass);    /* T; a tensor's row b * T + t is position t of sample b. T is 1 if the model
                                           * does not read sequences */
/* Returns how many rows of an intermediate matrix (rows, columns), for example of logits, should exist at a time. The
 * rows are divided evenly into as few chunks as the device's bound on the memory of a chunk allows (32 MB on a CPU, 1
 * GiB on a GPU). All chunks but the last have the same number of rows, a multiple of 64. The result depends only on the
 * shape, the type and the kind of device. */
int64_t cs_pass_chunk(cs_pass *pass, cs_dtype dtype, int64_t rows, int64_t columns);
/* (rows, 1) f32: the gradient dy of the last unit, which that unit's forward may use already; absent in evaluation */
cs_tensor cs_pass_dloss(cs_pass *pass);
/* (rows, 1) f32: the output tensor for cs_op_hits if accuracy is computed, else absent */
cs_tensor cs_pass_hits(cs_pass *pass);
cs_tensor cs_pass_targets(cs_pass *pass); /* the batch's targets */
cs_tensor cs_pass_starts(cs_pass *pass);  /* cs_batch.starts of this batch, or absent */
bool cs_pass_training(cs_pass *pass);
bool cs_pass_measuring(cs_pass *pass); /* true if tensors have no memory, see cs_kind */
/* The random key of each of the B samples, computed from the seed and the number of the sample. */
const uint64_t *cs_pass_keys(cs_pass *pass);
/* Text generation. cs_pass_continues returns true if each sample continues a text (cs_context). cs_pass_start returns
 * how many positions of the text of sample `sample` were read before. cs_pass_cache returns the next tensor (positions,
 * columns) of this sample's cache, in the order of the calls in forward; rows [0, start) of the tensor hold what
 * earlier passes wrote. */
bool cs_pass_continues(cs_pass *pass);
int64_t cs_pass_start(cs_pass *pass, int64_t sample);
cs_tensor cs_pass_cache(cs_pass *pass, int64_t sample, cs_dtype dtype, int64_t columns);

/* ---- 3. Errors -------------------------------------------------------------------------------- */

const char *cs_error(void);         /* the last error of this thread: one or more sentences */
int cs_exit_code(cs_status status); /* the exit code of a status, as listed at cs_status; 0 for CS_OK */
/* For main(): if the status is not CS_OK, prints cs_error() or, if that text is empty, `what`, and ends the process
 * with the exit code of the status. Ranks other than 0 wait 0.3 s first, so that rank 0 prints first where all ranks
 * fail alike. */
void cs_must(cs_status status, const char *what);
#define CS_MUST(call) cs_must((call), #call)

/* A function of the program that is called for each fatal error, before its sentence is printed and the process ends. If
 * it returns, the process ends. On a thread of the program it may leave by longjmp instead, unless a callback of a language
 * that does not allow this is on the stack; the library's own threads, which wait for other ranks for example, must see it
 * return. After it has left, the engine of the call can only be destroyed; memory of the call is lost, and the other ranks
 * wait for this one. Set hooks before the first engine is opened; NULL removes a hook. */
typedef void cs_fatal_hook(cs_status status, const char *sentence, void *argument);
void cs_on_fatal(cs_fatal_hook *hook, void *argument);
/* A function that gets each line that the library would print, without its end: CS_LOG_OUTPUT is a line on standard
 * output, the others are lines on standard error. It may be called on any thread. */
typedef enum { CS_LOG_OUTPUT, CS_LOG_INFO, CS_LOG_WARNING, CS_LOG_ERROR } cs_log_level;
typedef void cs_log_hook(cs_log_level level, const char *line, void *argument);
void cs_on_log(cs_log_hook *hook, void *argument);

/* Like cs_forward, cs_backward and cs_step, but a fatal error on the calling thread is returned as a status; cs_error() is
 * its sentence. The engine can then only be destroyed. A call leaves the functions of units by longjmp, see cs_on_fatal. */
cs_status cs_try_forward(cs_engine *engine, const cs_batch *batch);
cs_status cs_try_backward(cs_engine *engine);
cs_status cs_try_step(cs_engine *engine, bool *stepped);

/* Returns the name in the NULL-terminated list that is most similar to `wanted`, which is probably misspelled; NULL if
 * no name is similar. */
const char *cs_nearest(const char *wanted, const char *const *names);

#ifdef __cplusplus
}
#endif
#endif
