/* config.h - the settings of a run: one struct, read from JSON by the key tables and resolved for this world size.
 *
 * Every key of DeepSpeed is in one of the tables. sections.h lists the tables; optimizers and schedules have tables in
 * their own folders. A key is supported, or inert (accepted without effect), or refused; an inert or refused key has a
 * reason. The command line overrides the file, and the file overrides the defaults. No environment variable sets a key.
 * After cs_config_finish, ce_json_note_text(config->doc, ...) returns the notes to print for the user. */
#ifndef CE_CONFIG_CONFIG_H
#define CE_CONFIG_CONFIG_H

#include "json/keys.h"
#include "comm/comms_logger.h"
#include "cspeed/comm.h"
#include "config/elasticity.h"
#include "data/difficulty.h"
#include "data/shape.h"
#include "mesh/mesh.h"
#include "monitor/monitor.h"
#include "optim/groups.h"
#include "optim/precision.h"
#include "optim/preference.h"
#include "optim/scaler.h"
#include "schedule/schedule.h"

enum { CE_CONFIG_FILES = 256 };

/* Values of the keys that choose one of several words. The fields with such a value have the type int, because the key
 * tables write ints. Each enum has the order of the words in its key's row ("a|b|c"). */
enum { CE_CHOOSE_AUTO_DEVICE, CE_CHOOSE_CPU, CE_CHOOSE_CUDA };           /* values of the key `device` */
enum { CE_PACK_WINDOWS, CE_PACK_DOCUMENTS };                             /* values of the key `packing` */
enum { CE_EXPORT_AUTO, CE_EXPORT_FP32, CE_EXPORT_BF16, CE_EXPORT_FP16 }; /* values of the key `export_dtype` */
enum { CE_BEST_LOSS, CE_BEST_ACCURACY, CE_BEST_MARGIN };                 /* values of the key `best_metric` */
enum { CE_EVALUATE_ON_ALL, CE_EVALUATE_ON_RANK0 };
/* values of the key `products`; those from CE_PRODUCTS_FIXED on are in the order of the enum ce_method */
enum { CE_PRODUCTS_AUTO, CE_PRODUCTS_FIXED };
enum { CE_RECOMPUTE_NONE, CE_RECOMPUTE_UNIT };       /* values of the key `recompute` */
enum { CE_BAD_LATEST_FALLBACK, CE_BAD_LATEST_FAIL }; /* values of the key `on_bad_latest` */
enum { CE_TAG_IGNORE, CE_TAG_WARN, CE_TAG_FAIL };    /* values of the key `checkpoint.tag_validation` */
enum { CE_GRADIENTS_MEAN, CE_GRADIENTS_SUM };        /* values of the key `gradient_allreduce_op` */
enum { CE_AMP_O0, CE_AMP_O1, CE_AMP_O2, CE_AMP_O3 }; /* values of the key `amp.opt_level` */
enum { CE_OFFLOAD_NONE, CE_OFFLOAD_CPU, CE_OFFLOAD_NVME, CE_OFFLOAD_AUTO }; /* values of the keys `offload_*.device` */

enum { CE_BIASES_NONE, CE_BIASES_ALL, CE_BIASES_ADAPTED }; /* values of the key `lora.bias` */
extern const char *const ce_config_four_bits[];            /* the words of `quantization_config.bnb_4bit_quant_type` */
extern const char *const ce_config_biases[];               /* the words of `lora.bias`, in the order of this enum */

/* Keys of cspeed.lora that have the name, the value and the meaning of a key of PEFT's LoraConfig. */
enum {
    CE_PEFT_RANKS,
    CE_PEFT_ALPHAS,
    CE_PEFT_LAYERS,
    CE_PEFT_LAYERS_OF,
    CE_PEFT_EXCLUDED,
    CE_PEFT_MODULES,
    CE_PEFT_TIES,
    CE_PEFT_INIT,
    CE_PEFT_KEYS
};
extern const char *const ce_config_peft_keys[CE_PEFT_KEYS]; /* their names */
/* Returns NULL, or what the value of such a key has to be, if it has another form. */
const char *ce_config_peft_fault(int key, const json_t *value);

/* The settings of LoRA. If r is 0, there are no adapters. If `adapter` is set, the engine replaces r, alpha, rslora,
 * dora, bias, targets and `peft` by the values in the folder `adapter`. */
typedef struct {
    int64_t r;
    double alpha, dropout;
    double plus; /* LoRA+: the factor of the learning rate of B; 0: none */
    bool rslora, dora, merge;
    int bias; /* which biases are trained: a value of the enum CE_BIASES_* */
    /* "all-linear", a list of names or a regular expression; NULL means PEFT's default names for the model's family */
    json_t *targets;
    json_t *peft[CE_PEFT_KEYS]; /* the values of the keys above; NULL where PEFT's default is meant */
    const char *adapter;        /* a folder that PEFT saved, with the initial values of the adapters; or NULL */
} ce_lora_settings;

/* The section cspeed.quantization_config: 4-bit weights of frozen linear layers. */
typedef struct {
    bool on;
    int type;            /* 0: NF4, 1: FP4 */
    bool twice;          /* the absmax are quantised too */
    const char *compute; /* PyTorch's name of the type of products; NULL: as the training says */
    json_t *skip;        /* a list of names of layers that keep their numbers; or NULL */
} ce_quantization_settings;

/* The keys of a curriculum section, which are read into ce_settings.curriculum. */
typedef struct {
    bool enabled;
    int schedule; /* index of the word in the list fixed_linear, fixed_root, fixed_discrete, custom */
    int64_t min, max, total, stride;
    double degree;
    json_t *stairs, *until;
} ce_course;

/* The sizes of the axes of the device mesh by the names of one framework. */
typedef struct {
    int64_t tp, shard, replicate;
    bool sequence; /* sequence parallelism; cspeed.mesh and torchtitan only */
} ce_mesh_sizes;

/* The settings. Each key has one member. A value that is resolved ("auto", a default that depends on other keys)
 * replaces the member's value. After cs_config_finish no value is "auto", and the three batch sizes agree with each
 * other.
 *
 * A key has its own member beside a value that follows from it only where listings and checkpoints must have the key as
 * the file has it:
 * - fp16, bf16, amp, autocast, param_dtype, grad_accum_dtype and communication_dtype are combined into `precision`;
 *   prescale_gradients and predivide_factor into `prescale_factor`.
 * - mics_shard_size is -1 at any world size if there is one group of lanes; shard_size is the number of its lanes.
 * - mesh, accelerate, titan and autotp are spellings of the same sizes, which tp, lanes and shard_size have.
 * - comm may be a word that stands for different transports at different world sizes; `transport` is the transport.
 * - model, train_json, valid_json, weights_json, columns_json, preference_types, preference_weights and prof_ops are JSON
 *   of any type; model_path, train, valid, weights, columns, preference.weights and comms_logger.operations have their
 *   checked values.
 * - course and metric are two sections that describe the same `curriculum`. */
typedef struct {
    /* The device mesh: world size = lanes * tp. A lane is the `tp` ranks that divide the matrices of a layer and read
     * the same samples. */
    ce_mesh_sizes mesh, accelerate, titan; /* sections cspeed.mesh, parallelism_config and parallelism */
    struct {
        int64_t size, plain, nested, nested_long; /* autotp_size, tp_size, and tp_size of the section `tp` */
        json_t *partition;
        bool overlap; /* tp_overlap_comm */
    } autotp;         /* section tensor_parallel */
    int tp, lanes;
    int64_t check_interval; /* steps between two comparisons of the copies of parameters; 0: none */
    bool cuts_rows; /* sequence parallelism: the ranks of a lane divide the rows of tensors between layers too */

    /* batch sizes: train_batch_size = micro_batch * accumulation * lanes */
    int64_t train_batch_size, micro_batch, accumulation;
    ce_elasticity elasticity; /* If elasticity is enabled, it determines the batch sizes. */

    bool fp16, bf16, fp16_masters, bf16_masters, bf16_slots;
    struct {
        bool enabled;
        int level; /* CE_AMP_O* */
        json_t *loss_scale, *keep_norms, *masters;
        double min_scale, max_scale;
    } amp;
    struct {
        bool enabled;
        const char *dtype;
        json_t *modules;
    } autocast;
    const char *param_dtype, *grad_accum_dtype, *communication_dtype;
    ce_precision precision; /* types of values, gradients, masters and so on */
    ce_scaler_settings scaler;
    bool check_grad_overflow; /* True if, with bf16, a step whose gradients are not finite is skipped. */
    bool prescale_gradients;
    double predivide_factor;
    float prescale_factor; /* Gradients are multiplied by this factor before they are reduced over the ranks. */
    int gradient_op;       /* CE_GRADIENTS_*: how gradients are reduced over the ranks */
    ce_optim_settings optim;
    json_t *param_groups;
    ce_groups groups; /* parameter groups; the last group has the settings of `optim` */
    ce_schedule_settings schedule;
    double gradient_clipping; /* greatest gradient norm; 0 turns clipping off */
    int64_t stage;            /* zero_optimization.stage, also if cspeed.fsdp.sharding_strategy names it */
    int sharding_strategy; /* index of the chosen word in the row of cspeed.fsdp.sharding_strategy in the key table */
    /* The number of elements in a bucket of gradients. 0 means that the gradients of each unit are reduced
     * separately. */
    int64_t reduce_bucket_size;
    int64_t mics_shard_size;
    /* The number of lanes over which the state is sharded; it divides `lanes`. If it is `lanes`, there is one group. */
    int shard_size;
    int offload_param, offload_optimizer; /* CE_OFFLOAD_* */
    int64_t steps_per_print; /* number of steps from one printed step to the next; 0 means that no step is printed */
    bool wall_clock_breakdown, memory_breakdown, dump_state, throughput;
    ce_monitor_settings csv, tensorboard;
    ce_comms_logger_settings comms_logger; /* section comms_logger */
    bool prof_all;
    json_t *prof_ops;
    ce_course course, metric;  /* curriculum_learning, and the curriculum in data_efficiency */
    bool efficiency, sampling; /* "enabled" of data_efficiency and of data_efficiency.data_sampling */
    ce_difficulty curriculum;  /* curriculum of the sequence length */
    struct {
        bool enabled, detailed;
        int64_t profile_step, module_depth, top_modules;
        const char *output_file;
        double recompute_factor;
    } profiler;

    struct {
        const char *file; /* file of the trace; NULL means that there is none */
        int64_t first_step, steps;
    } trace; /* section cspeed.trace */

    /* The following members are the section "cspeed". */
    json_t *model;          /* a folder's name, or an object with the keys of config.json; NULL: none is named */
    const char *model_path; /* folder of the model, which contains config.json; NULL if `model` is an object or NULL */
    json_t *train_json, *valid_json, *weights_json, *columns_json;
    const char *train[CE_CONFIG_FILES], *valid[CE_CONFIG_FILES];
    int train_count, valid_count;
    double weights[CE_CONFIG_FILES]; /* weights by which the data sets in `train` are mixed */
    bool weighted;                   /* True if the data sets are mixed by `weights`. */
    int64_t seq_len;
    bool shuffle;
    int packing; /* CE_PACK_* */
    int longer;  /* what becomes of documents longer than seq_len, CE_LONG_* (data/fill.h) */
    int turns;   /* ce_chat_turns */
    /* `tokenizer`, `field`, `template` and `cache` apply to text files. If `tokenizer` is NULL, the tokenizer in the
     * folder model_path is used. If that folder has no tokenizer, each byte is a token. */
    const char *tokenizer, *field, *template, *cache;
    ce_shape_columns columns; /* other names that the keys of JSON lines may have */
    int64_t skip_bad;         /* number of invalid JSON lines that are skipped before an error */
    ce_preference preference; /* section "dpo" */
    json_t *preference_types, *preference_weights;
    double cpo_alpha; /* preference.weights[CE_PREFERENCE_SFT] without a reference model */
    /* folder of the reference model of `preference`; NULL means the initial state of the trained model */
    const char *reference;
    int64_t steps, epochs; /* One of the two is 0: training ends after `steps` steps or after `epochs` epochs. */
    /* Time limit, in seconds, of the whole training, including validation and saves; 0 means no limit. If `steps` steps
     * would take longer, fewer steps are made. */
    double fit_seconds;
    int64_t seed;
    const char *output, *load, *tag, *metrics;
    const char *export_folder; /* folder of the export; NULL means that there is none */
    int export_dtype;          /* CE_EXPORT_* */
    int64_t save_interval, keep_last, keep_every, eval_interval, eval_batches, nan_patience;
    double label_smoothing, z_loss, neftune_noise_alpha;
    bool check;
    double loss_watchdog_threshold;
    int64_t loss_watchdog_patience;
    double ema_decay;
    bool keep_best;
    int best_metric; /* CE_BEST_* */
    int64_t early_stopping_patience;
    double early_stopping_threshold;
    int64_t saves_per_epoch, evals_per_epoch; /* if above 0, they replace save_interval and eval_interval */
    int eval_on;                              /* CE_EVALUATE_ON_* */
    int device;                               /* CE_CHOOSE_* */
    int64_t threads;                          /* number of threads; 0 means that it is chosen automatically */
    int products;                             /* CE_PRODUCTS_* */
    bool tf32;
    bool cuda_graphs;
    int comm;              /* index of the chosen word in the row of cspeed.comm in the key table */
    const char *transport; /* "auto", "self", "shm", "tcp", "mpi" or "nccl" */
    ce_lora_settings lora;
    ce_quantization_settings quantization;
    int recompute; /* CE_RECOMPUTE_* */
    int64_t prefetch;

    /* settings of checkpoints: cspeed.async_save, and the section cspeed.checkpoint */
    bool async_save, direct;
    int64_t writer_threads, io_buffer_size;
    int on_bad_latest;  /* CE_BAD_LATEST_* */
    int verify_on_load; /* a value CE_VERIFY_* of checkpoint.h */

    int tag_validation; /* CE_TAG_*, from checkpoint.tag_validation */
    bool node_storage;  /* checkpoint.use_node_local_storage */
} ce_settings;

struct cs_config {
    ce_json *doc;
    cs_world world;
    bool filled; /* True if the tables have set all settings, even if they reported errors. */
    bool finished;
    bool reads; /* True if cs_reopen made this configuration, so that the model is used but not trained. */
    ce_settings settings;
    char *text; /* resolved configuration as JSON, which a checkpoint stores as ds_config.json */
    /* An object of another room that lives as long as the configuration, or NULL; cs_config_close closes it by
     * `detach`. It is the connection of the ranks (setup/connect.c). */
    void *attached;
    void (*detach)(void *attached);
};

/* Returns an error if the finished configuration names no model, or a folder that does not exist. */
cs_status ce_config_need_model(const cs_config *config);

/* The next two functions change a finished configuration and its text. ce_config_cut_windows sets cspeed.data.seq_len,
 * and ce_config_set_total sets the number of steps after which the learning-rate schedule ends. */
void ce_config_cut_windows(cs_config *config, int64_t seq_len);
void ce_config_set_total(cs_config *config, int64_t steps);
/* Changes all values of cspeed.lora except `merge`, after the engine has read the adapter's folder or chosen the
 * targets. The configuration takes its own reference to lora->targets. */
void ce_config_set_lora(cs_config *config, const ce_lora_settings *lora);
/* Replaces cspeed.quantization_config by the settings of a model's folder that has 4-bit weights. The configuration takes
 * its own reference to settings->skip. */
void ce_config_set_quantization(cs_config *config, const ce_quantization_settings *settings);

#endif
