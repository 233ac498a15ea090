/* config.h - the settings of a run: one struct, read from JSON by the key tables and resolved for this world.
 *
 * Every key of DeepSpeed is in one of the tables (sections.h lists them; optimizers and schedules have tables in their
 * rooms). It is supported, or inert (accepted without effect) with the reason, or refused with the reason. The command
 * line overrides the file, and the file overrides the defaults. No environment variable sets a key. After
 * cs_config_finish, cs_json_note_text(config->doc, ...) has the notes to print for the user. */
#ifndef CS_CONFIG_CONFIG_H
#define CS_CONFIG_CONFIG_H

#include "base/keys.h"
#include "comm/tally.h"
#include "cspeed/comm.h"
#include "config/elasticity.h"
#include "data/difficulty.h"
#include "monitor/monitor.h"
#include "optim/groups.h"
#include "optim/precision.h"
#include "optim/scaler.h"
#include "schedule/schedule.h"

enum { CS_CONFIG_FILES = 256 };

/* The values of a curriculum section, as the file gives them. */
typedef struct {
    bool enabled;
    int schedule; /* fixed_linear, fixed_root, fixed_discrete, custom */
    int64_t min, max, total, stride;
    double degree;
    json_t *stairs, *until;
} cs_course;

/* cs_config_finish resolves all fields: "auto" is replaced, and the three batch sizes agree. */
typedef struct {
    /* The batch sizes: train_batch_size = micro_batch * accumulation * world size */
    int64_t train_batch_size, micro_batch, accumulation;
    cs_elasticity elasticity; /* if enabled, it determines the batch sizes */

    cs_dtype dtype; /* fp16.enabled, bf16.enabled, else fp32 */
    cs_scaler_settings scaler;
    cs_precision precision;   /* the types of values, gradients, masters ...; dtype is that of the values */
    bool mixed;               /* amp or torch_autocast is on */
    float before;             /* gradients are multiplied by this before the reduction over ranks */
    bool check_grad_overflow; /* bf16: skip a step whose gradients are not finite */
    cs_optim_settings optim;
    cs_groups groups; /* parameter groups; the last has the settings of `optim` */
    cs_schedule_settings schedule;
    double gradient_clipping; /* 0: off */
    bool gradient_sum;        /* gradient_allreduce_op "sum" */
    int stage;                /* zero_optimization.stage */
    int64_t steps_per_print;  /* 0: never */
    bool wall_clock_breakdown, memory_breakdown, dump_state, throughput;
    cs_monitor_settings csv, tensorboard;
    cs_tally_settings tally;  /* comms_logger */
    cs_difficulty curriculum; /* the curriculum of the sequence length */
    struct {
        bool enabled, detailed;
        int64_t profile_step, module_depth, top_modules;
        const char *output_file;
        double recompute_factor;
    } profiler;

    /* the "cspeed" section */
    const char *model_path; /* a folder with config.json; NULL: `model` is an object */
    json_t *model;          /* the keys of config.json; NULL: the file names no model */
    const char *train[CS_CONFIG_FILES], *valid[CS_CONFIG_FILES];
    int train_count, valid_count;
    double weights[CS_CONFIG_FILES]; /* of the data sets in `train` */
    bool weighted;                   /* the file gives weights */
    int64_t seq_len;
    bool shuffle;
    int packing;                                      /* 0 windows, 1 documents */
    const char *tokenizer, *field, *template, *cache; /* for text files; tokenizer NULL: that of model_path, or bytes */
    int64_t skip_bad;                                 /* how many invalid JSON lines are skipped */
    int64_t steps, epochs;                            /* one of the two is 0 */
    double fit_seconds; /* makes fewer steps than `steps` if they would take longer than this; 0: no limit */
    int64_t seed;
    const char *output, *load, *tag, *metrics;
    const char *export_folder; /* NULL: no export */
    int export_dtype;          /* 0 auto, 1 fp32, 2 bf16, 3 fp16 */
    int64_t save_interval, keep_last, keep_every, eval_interval, eval_batches, nan_patience;
    int device;        /* 0 auto, 1 cpu, 2 cuda       */
    int64_t threads;   /* 0: auto                     */
    int bf16_products; /* 0 auto, 1 native, 2 fp32 */
    bool tf32;
    bool cuda_graphs;
    const char *comm; /* "auto", "self", "shm", "tcp", "nccl" */
    int recompute;    /* 0 none, 1 unit              */
    int64_t prefetch;

    /* checkpoints */
    bool async_save, direct;
    int64_t writer_threads, io_buffer_size;
    int on_bad_latest;  /* 0 fallback, 1 fail        */
    int verify_on_load; /* 0 touched, 1 full, 2 off  */

    int tag_validation; /* checkpoint.tag_validation: 0 ignore, 1 warn, 2 fail */

    /* Values as the file gives them; the fields above are what they resolve to. */
    struct {
        bool fp16, bf16;
        int64_t stage;
        int allreduce_op, comm;
        bool fp16_masters, bf16_masters, bf16_slots;
        const char *values, *sums, *wire;
        bool prescale;
        double predivide;
        struct {
            bool enabled;
            int level; /* 0 to 3: O0 to O3 */
            json_t *loss_scale, *keep_norms, *masters;
            double min_scale, max_scale;
        } amp;
        struct {
            bool enabled;
            const char *dtype;
            json_t *modules;
        } autocast;
        int offload_param, offload_optimizer; /* 0 none, 1 cpu, 2 nvme */
        bool node_storage;
        json_t *model, *train, *valid, *weights, *param_groups;
        json_t *prof_ops;
        bool prof_all, efficiency, sampling; /* the last two: data_efficiency.enabled and .data_sampling.enabled */
        cs_course course, metric;            /* curriculum_learning; the same curriculum in data_efficiency */
    } written;
} cs_settings;

struct cs_config {
    cs_json *doc;
    cs_world world;
    bool filled; /* the tables have set all settings, though there may be errors */
    bool finished;
    bool reads; /* made by cs_reopen: the model is used, not trained */
    cs_settings settings;
    char *text; /* the resolved file as JSON, which a checkpoint stores as ds_config.json */
};

#endif
