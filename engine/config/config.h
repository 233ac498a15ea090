/* config.h - the settings of a run: one struct, read from JSON by the key tables and resolved for this world.
 *
 * Every key of DeepSpeed is in one of the tables (sections.h lists them; optimizers and schedules have tables in their
 * rooms). It is supported, or inert (accepted without effect) with the reason, or refused with the reason. The command
 * line overrides the file, and the file overrides the defaults. No environment variable sets a key. After
 * cs_config_finish, ce_json_note_text(config->doc, ...) has the notes to print for the user. */
#ifndef CS_CONFIG_CONFIG_H
#define CS_CONFIG_CONFIG_H

#include "base/keys.h"
#include "comm/comms_logger.h"
#include "cspeed/comm.h"
#include "config/elasticity.h"
#include "data/difficulty.h"
#include "data/shape.h"
#include "monitor/monitor.h"
#include "optim/groups.h"
#include "optim/precision.h"
#include "optim/preference.h"
#include "optim/scaler.h"
#include "schedule/schedule.h"

enum { CS_CONFIG_FILES = 256 };

/* Values of the keys that choose one of several words. A field of type int holds one of them, because the key tables
 * write ints: each enum has the order of the words in its key's row ("a|b|c"). verify_on_load holds a CS_VERIFY_*. */
enum { CS_CHOOSE_AUTO_DEVICE, CS_CHOOSE_CPU, CS_CHOOSE_CUDA };           /* device */
enum { CS_PACK_WINDOWS, CS_PACK_DOCUMENTS };                             /* packing */
enum { CS_EXPORT_AUTO, CS_EXPORT_FP32, CS_EXPORT_BF16, CS_EXPORT_FP16 }; /* export_dtype */
enum { CS_EVALUATE_ON_ALL, CS_EVALUATE_ON_RANK0 };
/* products; from CS_PRODUCTS_FIXED on, the order is that of ce_method */
enum { CS_PRODUCTS_AUTO, CS_PRODUCTS_FIXED, CS_PRODUCTS_NATIVE, CS_PRODUCTS_SGEMM, CS_PRODUCTS_PACKED };
enum { CS_MODE_ZERO, CS_MODE_DP, CS_MODE_PS };                              /* mode */
enum { CS_RECOMPUTE_NONE, CS_RECOMPUTE_UNIT };                              /* recompute */
enum { CS_BAD_LATEST_FALLBACK, CS_BAD_LATEST_FAIL };                        /* on_bad_latest */
enum { CS_TAG_IGNORE, CS_TAG_WARN, CS_TAG_FAIL };                           /* checkpoint.tag_validation */
enum { CS_GRADIENTS_MEAN, CS_GRADIENTS_SUM };                               /* gradient_allreduce_op */
enum { CS_AMP_O0, CS_AMP_O1, CS_AMP_O2, CS_AMP_O3 };                        /* amp.opt_level */
enum { CS_OFFLOAD_NONE, CS_OFFLOAD_CPU, CS_OFFLOAD_NVME, CS_OFFLOAD_AUTO }; /* offload_*.device */

/* LoRA. r 0 means no adapters. If `adapter` is set, the engine replaces r, alpha, rslora and targets by the values in
 * that folder. */
typedef struct {
    int64_t r;
    double alpha, dropout;
    bool rslora, merge;
    json_t *targets;     /* "all-linear" or a list of names; NULL: the names that PEFT takes for the model's family */
    const char *adapter; /* a folder of PEFT from which the adapters start; NULL: none */
} ce_lora_settings;

/* The values of a curriculum section, as the file gives them. */
typedef struct {
    bool enabled;
    int schedule; /* fixed_linear, fixed_root, fixed_discrete, custom */
    int64_t min, max, total, stride;
    double degree;
    json_t *stairs, *until;
} ce_course;

/* cs_config_finish resolves all fields: "auto" is replaced, and the three batch sizes agree. */
typedef struct {
    /* The batch sizes: train_batch_size = micro_batch * accumulation * lanes */
    int64_t train_batch_size, micro_batch, accumulation;
    ce_elasticity elasticity; /* if enabled, it determines the batch sizes */

    cs_dtype dtype; /* CS_F16 with fp16.enabled, CS_BF16 with bf16.enabled, else CS_F32 */
    ce_scaler_settings scaler;
    ce_precision precision;   /* the types of values, gradients, masters ...; `dtype` equals `values` */
    bool mixed;               /* amp or torch_autocast is on */
    float prescale_factor;    /* gradients are multiplied by this before their reduction over ranks */
    bool check_grad_overflow; /* bf16: skip a step whose gradients are not finite */
    ce_optim_settings optim;
    ce_groups groups; /* parameter groups; the last has the settings of `optim` */
    ce_schedule_settings schedule;
    double gradient_clipping; /* 0: off */
    bool gradient_sum;        /* gradient_allreduce_op "sum" */
    int stage;                /* zero_optimization.stage */
    int64_t steps_per_print;  /* 0: never */
    bool wall_clock_breakdown, memory_breakdown, dump_state, throughput;
    ce_monitor_settings csv, tensorboard;
    ce_comms_logger_settings comms_logger; /* comms_logger */
    ce_difficulty curriculum;              /* the curriculum of the sequence length */
    struct {
        bool enabled, detailed;
        int64_t profile_step, module_depth, top_modules;
        const char *output_file;
        double recompute_factor;
    } profiler;

    struct {
        const char *file; /* NULL: no trace */
        int64_t first_step, steps;
    } trace; /* cspeed.trace */

    /* the "cspeed" section */
    const char *model_path; /* a folder with config.json; NULL: `model` is an object */
    json_t *model;          /* the keys of config.json; NULL: the file names no model */
    const char *train[CS_CONFIG_FILES], *valid[CS_CONFIG_FILES];
    int train_count, valid_count;
    double weights[CS_CONFIG_FILES]; /* of the data sets in `train` */
    bool weighted;                   /* the file gives weights */
    int64_t seq_len;
    bool shuffle;
    int packing;                                      /* CS_PACK_* */
    const char *tokenizer, *field, *template, *cache; /* for text files; tokenizer NULL: the tokenizer in model_path, or
                                                       * bytes */
    ce_shape_columns columns;                         /* other names for the keys of JSON lines */
    int64_t skip_bad;                                 /* how many invalid JSON lines are skipped */
    ce_preference preference;                         /* the section "dpo" */
    const char *reference; /* folder of the reference model of `preference`; NULL: the trained model as it is at the
                            * start */
    int64_t steps, epochs; /* one of the two is 0 */
    double fit_seconds;    /* time limit: if `steps` steps would take longer, fewer are made; 0: no limit */
    int64_t seed;
    const char *output, *load, *tag, *metrics;
    const char *export_folder; /* NULL: no export */
    int export_dtype;          /* CS_EXPORT_* */
    int64_t save_interval, keep_last, keep_every, eval_interval, eval_batches, nan_patience;
    int eval_on;     /* CS_EVALUATE_ON_* */
    int device;      /* CS_CHOOSE_* */
    int64_t threads; /* 0: auto */
    int products;    /* CS_PRODUCTS_* */
    bool tf32;
    bool cuda_graphs;
    const char *comm; /* "auto", "self", "shm", "tcp", "nccl" */
    int mode;         /* CS_MODE_* */
    int lanes;        /* how many replicas of the model compute: the ranks, or the workers, or the threads of a mode */
    struct {
        int64_t servers, staleness;
        bool async;
    } ps; /* cspeed.ps */
    struct {
        int64_t threads;
    } dp; /* cspeed.dp */
    ce_lora_settings lora;
    int recompute; /* CS_RECOMPUTE_* */
    int64_t prefetch;

    /* checkpoints */
    bool async_save, direct;
    int64_t writer_threads, io_buffer_size;
    int on_bad_latest;  /* CS_BAD_LATEST_* */
    int verify_on_load; /* CS_VERIFY_* of checkpoint.h */

    int tag_validation; /* CS_TAG_*; checkpoint.tag_validation */

    /* Values as the file gives them; the fields above contain the resolved values. */
    struct {
        bool fp16, bf16;
        int64_t stage;
        int allreduce_op; /* CS_GRADIENTS_* */
        int comm;         /* number of the word in cspeed.comm's row */
        bool fp16_masters, bf16_masters, bf16_slots;
        const char *values, *sums, *wire;
        bool prescale;
        double predivide;
        struct {
            bool enabled;
            int level; /* CS_AMP_O* */
            json_t *loss_scale, *keep_norms, *masters;
            double min_scale, max_scale;
        } amp;
        struct {
            bool enabled;
            const char *dtype;
            json_t *modules;
        } autocast;
        int offload_param, offload_optimizer; /* CS_OFFLOAD_* */
        bool node_storage;
        json_t *model, *train, *valid, *weights, *columns, *param_groups;
        json_t *prof_ops;
        bool prof_all, efficiency, sampling; /* the last two: data_efficiency.enabled and .data_sampling.enabled */
        ce_course course, metric;            /* curriculum_learning; the same curriculum in data_efficiency */
    } written;
} ce_settings;

struct cs_config {
    ce_json *doc;
    cs_world world;
    bool filled; /* the tables have set all settings, though there may be errors */
    bool finished;
    bool reads; /* made by cs_reopen: the model is used, not trained */
    ce_settings settings;
    char *text; /* the resolved file as JSON, which a checkpoint stores as ds_config.json */
    /* Set by cs_init_distributed; NULL before. They are closed by `disconnect`, or by the engine if that is NULL. */
    cs_comm *comm;
    cs_device *device;
    void (*disconnect)(cs_config *config);
};

/* These two functions change a finished configuration and its text: the first sets cspeed.data.seq_len, the second the
 * number of steps after which the learning-rate schedule ends. */
void ce_config_cut_windows(cs_config *config, int64_t seq_len);
void ce_config_set_total(cs_config *config, int64_t steps);
/* Changes all values of cspeed.lora except `merge`, after the engine has read the adapter's folder or chosen the
 * targets. The configuration takes its own reference to lora->targets. */
void ce_config_set_lora(cs_config *config, const ce_lora_settings *lora);

#endif
