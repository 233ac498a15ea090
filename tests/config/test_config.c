/* test_config.c - batch sizes, precision, key tables, overrides, getters, and the files in configs/. */
#include "config/config.h"
#include "config/sections.h"
#include "shell.h"
#include "suite.h"
#include "written.h"

#include <stdlib.h>
#include <string.h>

/* Sets the environment of a world of `size` ranks; no communicator is opened. */
static void set_world(int size)
{
    char text[16];
    snprintf(text, sizeof text, "%d", size);
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", text, 1);
    setenv("LOCAL_RANK", "0", 1);
    setenv("LOCAL_WORLD_SIZE", text, 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", "29500", 1);
}

static cs_config *must_finish(const char *text)
{
    cs_config *config = written_config(text);
    ck_assert_msg(cs_config_finish(config) == CS_OK, "%s: %s", text, cs_error());
    return config;
}

/* ---- train_batch_size = micro batch x accumulation x world size ---- */

/* Checks a configuration that has "auto" for its batch sizes and no number: the micro-batch is 8, the default of
 * Hugging Face's Trainer. */
static void check_usual(const char *text, int accumulation)
{
    char origin[64];
    cs_config *config = must_finish(text);
    ck_assert_int_eq(config->settings.micro_batch, 8);
    ck_assert_int_eq(config->settings.train_batch_size, 8 * config->world.size * (accumulation ? accumulation : 1));
    ck_assert(written_has_note(config, "train_micro_batch_size_per_gpu = 8, Hugging Face's default"));
    ck_assert_str_eq(ce_json_origin(config->doc, "train_micro_batch_size_per_gpu", origin, sizeof origin),
                     "auto: Hugging Face's default");
    cs_config_close(config);
}

START_TEST(test_triangle)
{
    /* In each row: train_batch_size, micro-batch and accumulation as the file gives them (0: the key is absent), and
     * then the values of the same three keys that must result on two ranks. The rows come from DeepSpeed's own
     * tests. */
    static const int good[][6] = {
        { 32, 16, 1, 32, 16, 1 }, { 32, 8, 0, 32, 8, 2 },  { 32, 0, 2, 32, 8, 2 },
        { 0, 8, 2, 32, 8, 2 },    { 32, 0, 0, 32, 16, 1 }, { 0, 8, 0, 16, 8, 1 },
    };
    static const struct {
        int given[3];
        const char *sentence;
    } bad[] = {
        { { 33, 17, 2 },
          "train_batch_size 33 is not train_micro_batch_size_per_gpu 17 x gradient_accumulation_steps 2 x world size 2 "
          "= 68" },
        { { 32, 18, 1 },
          "train_batch_size 32 is not train_micro_batch_size_per_gpu 18 x gradient_accumulation_steps 1 x world size 2 "
          "= 36" },
        { { 10, 4, 0 },
          "train_batch_size 10 is not a multiple of train_micro_batch_size_per_gpu 4 x world size 2, so no "
          "gradient_accum" },
        { { 33, 0, 0 },
          "train_batch_size 33 is not a multiple of gradient_accumulation_steps 1 x world size 2, so no "
          "train_micro_batch" },
        { { 33, 0, 2 },
          "train_batch_size 33 is not a multiple of gradient_accumulation_steps 2 x world size 2, so no "
          "train_micro_batch" },
        { { 4, 4, 0 }, "train_batch_size 4 is not a multiple of train_micro_batch_size_per_gpu 4 x world size 2" },
        { { 0, 0, 4 }, "train_micro_batch_size_per_gpu or train_batch_size is needed" },
        { { 0, 0, 0 }, "train_micro_batch_size_per_gpu or train_batch_size is needed" },
    };
    set_world(2);
    for (size_t i = 0; i < sizeof good / sizeof *good + sizeof bad / sizeof *bad; i++) {
        bool fine = i < sizeof good / sizeof *good;
        const int *g = fine ? good[i] : bad[i - sizeof good / sizeof *good].given;
        char text[256], numbers[3][16];
        for (int k = 0; k < 3; k++)
            snprintf(numbers[k], sizeof numbers[k], g[k] ? "%d" : i % 2 ? "null" : "\"auto\"", g[k]);
        snprintf(
            text, sizeof text,
            "{\"train_batch_size\": %s, \"train_micro_batch_size_per_gpu\": %s, \"gradient_accumulation_steps\": %s}",
            numbers[0], numbers[1], numbers[2]);
        if (!fine && strstr(bad[i - sizeof good / sizeof *good].sentence, "is needed") && i % 2 == 0) {
            check_usual(text, g[2]);
            continue;
        }
        if (!fine) {
            written_refused(text, bad[i - sizeof good / sizeof *good].sentence);
            continue;
        }
        cs_config *config = must_finish(text);
        ck_assert_int_eq(config->settings.train_batch_size, g[3]);
        ck_assert_int_eq(config->settings.micro_batch, g[4]);
        ck_assert_int_eq(config->settings.accumulation, g[5]);
        cs_config_close(config);
    }
    set_world(1);
    written_refused("{\"train_micro_batch_size_per_gpu\": 9e15, \"gradient_accumulation_steps\": 9e15}",
                    "is too large");
    written_refused("{\"train_batch_size\": 0}", "at least 1 is needed, not 0");
    written_refused("{\"train_batch_size\": 8.5}", "a whole number is needed, not 8.5");
}
END_TEST

/* ---- precision ---- */

static void check_precision(const char *sections, cs_dtype dtype)
{
    cs_config *config = must_finish(written_with(sections));
    ck_assert_msg(config->settings.precision.values == dtype, "%s", sections);
    cs_config_close(config);
}

START_TEST(test_precision)
{
    check_precision("\"_\": 1", CS_F32);
    check_precision("\"fp16\": {\"enabled\": true}", CS_F16);
    check_precision("\"bf16\": {\"enabled\": true}, \"fp16\": {\"enabled\": false}", CS_BF16);
    check_precision("\"bfloat16\": {\"enabled\": true}", CS_BF16);
    check_precision("\"bf16\": null, \"bfloat16\": {\"enabled\": true}", CS_BF16);
    check_precision("\"bf16\": {\"enabled\": false}, \"bfloat16\": {\"enabled\": true}", CS_F32);
    check_precision("\"bf16\": {\"enabled\": \"auto\"}, \"fp16\": {\"enabled\": true}", CS_F16);
    check_precision("\"fp16\": {\"enabled\": \"auto\"}", CS_F32);
    check_precision(
        "\"bf16\": {\"enabled\": \"auto\"}, \"fp16\": {\"enabled\": \"auto\"}, \"cspeed\": {\"device\": \"cuda\"}",
        CS_F32);
    written_refused(written_with("\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}"), "both enabled");
    written_refused(written_with("\"fp16\": {\"enabled\": true, \"hysteresis\": 0}"),
                    "fp16.hysteresis: at least 1 is needed, not 0");
    written_refused(written_with("\"fp16\": {\"enabled\": true, \"min_loss_scale\": 0}"), "above 0 is needed");
    written_refused(written_with("\"fp16\": {\"enabled\": true, \"initial_scale_power\": 4, \"min_loss_scale\": 1024}"),
                    "2^4, is below min_loss_scale, 1024");
    written_refused(written_with("\"fp16\": null, \"bf16\": true"),
                    "an object is needed ({\"enabled\": true}, if the section has this key), not true");
}
END_TEST

START_TEST(test_precision_notes)
{
    cs_config *config = must_finish(
        written_with("\"bf16\": {\"enabled\": \"auto\", \"hysteresis\": 2}, \"fp16\": {\"min_loss_scale\": 0.5}"));
    ck_assert(written_has_note(config, "bf16: \"auto\" became enabled = false"));
    ck_assert(written_has_note(config, "fp16.min_loss_scale: 0.5"));
    ck_assert(written_has_note(
        config,
        "bf16: no effect here, though not at their defaults (`cspeed config --explain KEY` says why): hysteresis"));
    ck_assert(config->settings.scaler.min_loss_scale == 0.5);
    ck_assert_ptr_null(strstr(config->text, "auto"));
    cs_config_close(config);
}
END_TEST

/* ---- which keys are supported, inert or refused ---- */

START_TEST(test_defaults)
{
    cs_config *config = must_finish("{\"train_batch_size\": 8}");
    const ce_settings *s = &config->settings;
    ck_assert(s->gradient_clipping == 1.0 && s->stage == 0 && s->check_grad_overflow &&
              s->gradient_op == CE_GRADIENTS_MEAN);
    ck_assert(s->scaler.hysteresis == 2 && s->scaler.loss_scale_window == 1000 && s->scaler.initial_scale_power == 16);
    ck_assert(s->optim.kind == CE_OPTIM_ADAMW && s->optim.rate == 1e-3 && !s->schedule.shape &&
              s->schedule.base_rate == 1e-3);
    ck_assert(s->steps == 2000 && s->epochs == 0 && s->seed == 1234 && s->seq_len == 256 && s->shuffle &&
              s->prefetch == 1);
    ck_assert(s->tag_validation == CE_TAG_WARN && s->threads == 0 && s->device == 0 && s->recompute == 0 && !s->load &&
              !s->model);
    ck_assert_str_eq(s->transport, "auto");
    ck_assert_str_eq(s->metrics, "metrics.jsonl");
    ck_assert_int_eq(strncmp(s->output, "runs/test_config", 16), 0);
    cs_config_close(config);
}
END_TEST

START_TEST(test_real_file)
{
    cs_config *config =
        must_finish("{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": 4, "
                    "\"gradient_accumulation_steps\": \"auto\","
                    "\"gradient_clipping\": \"auto\", \"steps_per_print\": 1e5, \"wall_clock_breakdown\": false,"
                    "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": \"auto\", \"betas\": \"auto\", \"eps\": "
                    "\"auto\", \"weight_decay\": \"auto\"}},"
                    "\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_min_lr\": \"auto\", "
                    "\"warmup_max_lr\": \"auto\","
                    "  \"warmup_num_steps\": 10, \"total_num_steps\": \"auto\"}},"
                    "\"fp16\": {\"enabled\": \"auto\", \"loss_scale\": 0, \"loss_scale_window\": 1000, "
                    "\"initial_scale_power\": 16, \"hysteresis\": 2},"
                    "\"bf16\": {\"enabled\": \"auto\"},"
                    "\"zero_optimization\": {\"stage\": 3, \"offload_optimizer\": {\"device\": \"none\", "
                    "\"pin_memory\": true}, \"overlap_comm\": true,"
                    "  \"offload_param\": {\"device\": \"none\"}, \"contiguous_gradients\": true, \"sub_group_size\": "
                    "1e9, \"reduce_bucket_size\": \"auto\","
                    "  \"stage3_prefetch_bucket_size\": \"auto\", \"stage3_param_persistence_threshold\": \"auto\", "
                    "\"stage3_max_live_parameters\": 2e10,"
                    "  \"stage3_max_reuse_distance\": 1e9, \"stage3_gather_16bit_weights_on_model_save\": true},"
                    "\"tensorboard\": {\"enabled\": false, \"job_name\": \"x\"}, \"flops_profiler\": {\"enabled\": "
                    "false, \"profile_step\": 3},"
                    "\"amp\": {\"enabled\": false, \"opt_level\": \"O1\"}, \"_comment\": \"kept\"}");
    ck_assert(config->settings.stage == 3 && config->settings.steps_per_print == 100000 &&
              config->settings.gradient_clipping == 1.0);
    ck_assert(config->settings.schedule.total_num_steps == 2000 && config->settings.schedule.warmup_max_lr == 5e-5);
    ck_assert(written_has_note(config,
                               "overlap_comm, stage3_max_live_parameters, stage3_gather_16bit_weights_on_model_save"));
    ck_assert(written_has_note(config, "optimizer.params: \"auto\" became betas = [0.9, 0.999]"));
    ck_assert_ptr_null(strstr(config->text, "\"auto\""));
    cs_config_close(config);
}
END_TEST

/* A key whose effect depends on another key says when it has none. A default says nothing. */
START_TEST(test_idle)
{
    static const struct {
        const char *more, *note;
    } rows[] = {
        { "\"zero_optimization\": {\"stage\": 1, \"reduce_bucket_size\": 5e8}",
          "zero_optimization.reduce_bucket_size: no effect here, because each unit is reduced by itself at stage 1" },
        { "\"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": 5e8}", "each unit is reduced by itself" },
        { "\"prescale_gradients\": true, \"gradient_predivide_factor\": 2", "prescale_gradients divides by the world" },
        { "\"cspeed\": {\"prefetch\": 4}", "cspeed.prefetch: no effect here, because only stage 3 gathers" },
        { "\"zero_optimization\": {\"stage\": 3}, \"cspeed\": {\"prefetch\": 4, \"device\": \"cpu\", \"comm\": \"shm\"}",
          "cspeed.prefetch: no effect here, because CPU ranks of one host compute with each other's parameters" },
        { "\"cspeed\": {\"data\": {\"turns\": \"all\"}}", "cspeed.data.template is not set" },
        { "\"cspeed\": {\"device\": \"cpu\", \"tf32\": true}", "cspeed.device is \"cpu\"" },
        { "\"cspeed\": {\"eval_batches\": 4}", "cspeed.eval_batches: no effect here, because cspeed.data.valid" },
        { "\"cspeed\": {\"keep_last\": 0, \"keep_every\": 5}", "cspeed.keep_last is 0" },
        { "\"cspeed\": {\"trace\": {\"steps\": 5}}", "cspeed.trace.file names no file" },
        { "\"cspeed\": {\"export_dtype\": \"bf16\"}", "cspeed.export names no folder" },
        { "\"fp16\": {\"enabled\": false, \"hysteresis\": 4, \"loss_scale\": 8, \"min_loss_scale\": 1}",
          "fp16: no effect, because \"enabled\" is false: loss_scale, hysteresis" },
        { "\"bfloat16\": {\"enabled\": false, \"bf16_master_weights_and_grads\": true}",
          "bfloat16: no effect, because \"enabled\" is false: bf16_master_weights_and_grads" },
        { "\"tensorboard\": {\"job_name\": \"x\"}", "tensorboard: no effect, because \"enabled\" is false: job_name" },
        { "\"fp16\": {\"hysteresis\": 4}, \"torch_autocast\": {\"enabled\": true, \"dtype\": \"float16\"}", NULL },
        { "\"zero_optimization\": {\"compute_grad_norm\": false, \"parameter_alignment\": true, "
          "\"allgather_sequential\": true}",
          "compute_grad_norm, parameter_alignment, allgather_sequential" },
        { "\"disable_python_gc\": true", "disable_python_gc" },
        { "\"data_types\": {\"keep_in_fp32_modules\": [\"norm\"]}", "keep_in_fp32_modules" },
        { "\"pipeline\": {\"num_stages\": 4}", "pipeline: \"num_stages\" has no effect; DeepSpeed does not read this" },
        { "\"zero_optimization\": {\"stage\": 0, \"reduce_bucket_size\": 5e8}", NULL },
        { "\"zero_optimization\": {\"stage\": 3}, \"cspeed\": {\"prefetch\": 4, \"trace\": {\"steps\": 1}}", NULL },
        { "\"fp16\": {\"enabled\": true, \"loss_scale\": 128, \"hysteresis\": 4}",
          "fp16.hysteresis: no effect here, because fp16.loss_scale is static" },
        { "\"fp16\": {\"enabled\": true, \"hysteresis\": 4}", NULL },
        { "\"comms_logger\": {\"enabled\": true, \"prof_ops\": [\"all_reduce\"]}", "comms_logger.prof_all is true" },
        { "\"bf16\": {\"enabled\": \"auto\"}", "--set bf16.enabled=true trains in 16 bits" },
        { "\"fp16\": {\"enabled\": \"auto\"}", "false; --set fp16.enabled=true trains in 16 bits" },
        { "\"fp16\": {\"enabled\": \"auto\"}, \"bf16\": {\"enabled\": \"auto\"}",
          "--set bf16.enabled=true or --set fp16.enabled=true trains in 16 bits" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cs_config *config = must_finish(written_with(rows[i].more));
        if (rows[i].note)
            ck_assert_msg(written_has_note(config, rows[i].note), "%s", rows[i].more);
        else
            ck_assert_msg(!written_has_note(config, "no effect"), "%s", rows[i].more);
        cs_config_close(config);
    }
}
END_TEST

START_TEST(test_refused)
{
    static const char *const bad[][2] = {
        { "\"zero_optimization\": {\"stage\": 4}", "zero_optimization.stage: at most 3 is possible, not 4" },
        { "\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"nvme\"}}",
          "offload_optimizer.device: not supported: \"nvme\", because" },
        { "\"zero_optimization\": {\"offload_param\": {\"device\": \"disk\"}}", "one of none|cpu|nvme|auto is needed" },
        { "\"zero_optimization\": {\"cpu_offload\": true, \"offload_optimizer\": {}}",
          "cpu_offload: the old spelling of \"offload_optimizer\", which is set too" },
        { "\"zero_optimization\": {\"cpu_offload\": 5}, \"max_grad_norm\": 1",
          "max_grad_norm, because its name is gradient_clipping" },
        { "\"offload_optimizer\": {\"device\": \"cpu\"}", "its place is inside the section zero_optimization" },
        { "\"pipeline\": {\"pipeline_parallel_size\": 2}", "not supported: pipeline.pipeline_parallel_size" },
        { "\"zero_optimization\": {\"offload_optimizer\": false}", "an object is needed" },
        { "\"zero_optimization\": {\"offload_optimizer\": {\"max_in_cpu\": 1}}", "unknown key" },
        { "\"zero_optimization\": {\"zero_quantized_weights\": true}", "not supported" },
        { "\"zero_optimization\": {\"grad_hooks\": true}", "unknown key" },
        { "\"zero_optimization\": {\"overlap_com\": true}", "the nearest known one is \"overlap_comm\"" },
        { "\"zero_optimization\": {\"reduce_bucket_size\": -1}", "at least 0 is needed" },
        { "\"zero_optimization\": {\"stage3_prefetch_bucket_size\": 15099494.4}", "a whole number is needed" },
        { "\"zero_optimization\": {\"offload_optimizer\": {\"cpuadam_cores_perc\": 1.5}}", "at most 1 is possible" },
        { "\"zero_optimization\": {\"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": 0.4}}",
          "not supported: zero_optimization.offload_optimizer.ratio, because partial offload is not implemented" },
        { "\"activation_checkpointing\": {\"cpu_checkpointing\": true}",
          "not supported: activation_checkpointing.cpu_checkpointing, because saved activations stay in" },
        { "\"zero_optimisation\": {}", "the nearest known one is \"zero_optimization\"" },
        { "\"tensorboard\": {\"enabled\": 2}", "tensorboard.enabled: true or false is needed" },
        { "\"wandb\": {\"enabled\": true}", "not supported: wandb.enabled" },
        { "\"comet\": {\"enabled\": true}", "comet.enabled, because cspeed has no client for this service" },
        { "\"flops_profiler\": {\"top_modules\": 0}", "at least 1 is needed" },
        { "\"comms_logger\": {\"prof_ops\": [\"all_reduze\"]}", "not \"all_reduze\"" },
        { "\"elasticity\": {\"enabled\": true}", "\"max_train_batch_size\" is missing" },
        { "\"autotuning\": {\"enabled\": true}", "not supported: autotuning" },
        { "\"pipeline\": {\"stages\": 2}", "not supported: pipeline.stages" },
        { "\"gradient_allreduce_op\": \"max\"", "one of mean|sum is needed" },
        { "\"gradient_clipping\": -1", "at least 0 is needed" },
        { "\"checkpoint\": {\"tag_validation\": \"Maybe\"}", "one of Ignore|Warn|Fail is needed" },
        { "\"cspeed\": {\"data\": {\"packing\": \"bfd\"}}", "not \"bfd\"; documents: a window has whole documents" },
        { "\"cspeed\": {\"data\": {\"packing_strategy\": \"bfd\"}}", "a word of TRL; here it is cspeed.data.packing" },
        { "\"cspeed\": {\"data\": {\"long\": \"split\"}}",
          "cspeed.data.long: has no effect without cspeed.data.packing" },
        { "\"cspeed\": {\"strict\": true}", "not supported: cspeed.strict" },
        { "\"cspeed\": {\"products\": \"fp32\"}", "one of auto|fixed|native|sgemm|packed|tiles|x6|x3 is needed" },
        { "\"cspeed\": {\"bf16_products\": \"fp32\"}", "not supported: cspeed.bf16_products, because its name is" },
        { "\"cspeed\": {\"comm_algorithms\": \"all_reduce=ring\"}", "not supported: cspeed.comm_algorithms, because" },
        { "\"cspeed\": {\"data\": {\"packing\": \"best\"}}", "one of windows|documents is needed" },
        { "\"cspeed\": {\"data\": {\"train\": [1]}}", "a file name or pattern in double quotes is needed" },
        { "\"cspeed\": {\"checkpoint\": {\"writer_threads\": 0}}", "at least 1 is needed" },
        { "\"cspeed\": {\"model\": 5}", "a folder in double quotes is needed" },
        { "\"cspeed\": {\"steps\": 5, \"epochs\": 1}", "cspeed.steps is given too" },
        { "\"cspeed\": {\"steps\": 0}", "at least 1 step is needed" },
        { "\"cspeed\": {\"stepz\": 5}", "the nearest known one is \"steps\"" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        written_refused(written_with(bad[i][0]), bad[i][1]);
}
END_TEST

START_TEST(test_harmless)
{
    static const char *const good[] = {
        "\"zero_optimization\": true",
        "\"zero_optimization\": {\"offload_optimizer\": null, \"offload_param\": {}, \"cpu_offload\": false, "
        "\"zero_hpz_partition_size\": 1.0}",
        "\"elasticity\": {\"enabled\": false, \"version\": 0.2}, \"nebula\": {}, \"pipeline\": {}, \"compile\": "
        "{\"deepcompile\": false}",
        "\"gradient_predivide_factor\": 1, \"communication_data_type\": \"fp32\", \"data_types\": "
        "{\"grad_accum_dtype\": \"fp32\"}",
        "\"steps_per_print\": Infinity, \"checkpoint\": {\"tag_validation\": \"FAIL\", \"load_universal\": false}",
        "\"activation_checkpointing\": {\"partition_activations\": true, \"cpu_checkpointing\": false, "
        "\"number_checkpoints\": 4}",
        "\"cspeed\": {\"comm\": \"shm\", \"device\": \"CUDA\", \"threads\": \"auto\", \"data\": {\"weights\": [1]}}",
        "\"zero_allow_untested_optimizer\": true, \"optimizer\": {\"type\": \"sgd\"}, \"dump_state\": true",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        cs_config_close(must_finish(written_with(good[i])));
    cs_config *config = must_finish(written_with("\"zero_optimization\": true"));
    ck_assert_int_eq(config->settings.stage, 1);
    ck_assert(written_has_note(config, "old spelling"));
    cs_config_close(config);
}
END_TEST

START_TEST(test_all_faults_at_once)
{
    cs_config *config = written_config("{\n  \"train_batch_size\": 3,\n  \"zero_optimization\": {\"stage\": 9},\n  "
                                       "\"wandb\": {\"enabled\": true},\n"
                                       "  \"fp61\": {}\n}");
    ck_assert_int_eq(cs_config_set(config, "cspeed.prefetch=-2"), CS_OK);
    set_world(2);
    ck_assert_int_eq(cs_config_finish(config), CS_BAD_CONFIG);
    const char *at = cs_error();
    for (const char *const *part =
             (const char *const[]){ "command line at cspeed.prefetch: at least 0", ":2:23 at train_batch_size: ",
                                    ":3:34 at zero_optimization.stage: ", ":4:13 at wandb.enabled: ",
                                    ":5:3 at fp61: unknown key; the nearest known one is \"fp16\"", NULL };
         *part; part++) {
        at = strstr(at, *part);
        ck_assert_msg(at != NULL, "%s: %s", *part, cs_error());
    }
    set_world(1);
    cs_config_close(config);
}
END_TEST

/* ---- overriding and asking ---- */

/* Of steps and epochs, the command line's one replaces the file's. */
START_TEST(test_length)
{
    static const struct {
        const char *file, *set[2];
        int steps, epochs; /* -1: refused */
    } rows[] = {
        { "\"epochs\": 3", { "cspeed.steps=70" }, 70, 0 },
        { "\"steps\": 5", { "cspeed.epochs=3" }, 0, 3 },
        { "\"steps\": 5", { "cspeed.steps=70" }, 70, 0 },
        { "\"seed\": 5", { "cspeed.epochs=3" }, 0, 3 },
        { "\"seed\": 5", { "cspeed.epochs=3", "cspeed.steps=70" }, -1, -1 },
        { "\"epochs\": 3", { "cspeed.steps=0" }, 0, 3 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[128];
        snprintf(text, sizeof text, "\"cspeed\": {%s}", rows[i].file);
        cs_config *config = written_config(written_with(text));
        for (int k = 0; k < 2 && rows[i].set[k]; k++)
            ck_assert_int_eq(cs_config_set(config, rows[i].set[k]), CS_OK);
        ck_assert_int_eq(cs_config_finish(config), rows[i].steps < 0 ? CS_BAD_CONFIG : CS_OK);
        if (rows[i].steps >= 0) {
            ck_assert_int_eq(cs_config_get_int(config, "cspeed.steps"), rows[i].steps);
            ck_assert_int_eq(cs_config_get_int(config, "cspeed.epochs"), rows[i].epochs);
        }
        cs_config_close(config);
    }
}
END_TEST

START_TEST(test_getters)
{
    cs_config *config = written_config("{\"train_batch_size\": 8, \"cspeed\": {\"data\": {\"train\": [\"a\", \"b\"], "
                                       "\"valid\": \"v\"}, \"steps\": 5}}");
    ck_assert_int_eq(cs_config_set(config, "cspeed.steps=70"), CS_OK);
    ck_assert_int_eq(cs_config_set(config, "cspeed.output=runs/a=b"), CS_OK);
    ck_assert_int_eq(cs_config_set(config, "zero_optimization.stage=2"), CS_OK);
    ck_assert_int_eq(cs_config_set(config, "optimizer={\"type\": \"SGD\", \"params\": {\"lr\": 0.5}}"), CS_OK);
    ck_assert_int_eq(cs_config_set(config, "cspeed.steps"), CS_BAD_CONFIG);
    ck_assert_int_eq(cs_config_set(config, "=5"), CS_BAD_CONFIG);
    ck_assert_int_eq(cs_config_finish(config), CS_OK);
    ck_assert_int_eq(cs_config_get_int(config, "cspeed.steps"), 70);
    ck_assert_int_eq(cs_config_get_int(config, "zero_optimization.stage"), 2);
    ck_assert_int_eq(cs_config_get_int(config, "train_micro_batch_size_per_gpu"), 8);
    ck_assert_int_eq(cs_config_get_int(config, "cspeed.device"), 0);
    ck_assert(cs_config_get_number(config, "optimizer.params.lr") == 0.5);
    ck_assert(cs_config_get_number(config, "gradient_clipping") == 1.0);
    ck_assert(cs_config_get_bool(config, "cspeed.data.shuffle"));
    ck_assert_str_eq(cs_config_get_string(config, "cspeed.output"), "runs/a=b");
    ck_assert_str_eq(cs_config_get_string(config, "cspeed.data.train"), "a");
    ck_assert_str_eq(cs_config_get_string(config, "cspeed.data.valid"), "v");
    ck_assert_str_eq(cs_config_get_string(config, "precision"), "fp32");
    ck_assert_ptr_null(cs_config_get_string(config, "cspeed.load"));
    ck_assert_int_eq(config->settings.train_count, 2);
    ck_assert_int_eq(cs_config_finish(config), CS_OK); /* a second call has no effect */
    cs_config_close(config);
}
END_TEST

START_TEST(test_epochs)
{
    cs_config *config = must_finish(written_with("\"cspeed\": {\"epochs\": 3}"));
    ck_assert(config->settings.epochs == 3 && config->settings.steps == 0);
    cs_config_close(config);
    config = must_finish(written_with(
        "\"cspeed\": {\"steps\": 0, \"epochs\": 3}, \"scheduler\": {\"type\": \"WarmupCosineLR\", \"params\": "
        "{\"total_num_steps\": \"auto\"}}"));
    ck_assert(config->settings.schedule.total_is_auto); /* true until the data determines the number of steps */
    cs_config_close(config);
}
END_TEST

START_TEST(test_lenient)
{
    cs_config *config = written_config(written_with("\"zero_optimisation\": {}"));
    cs_config_lenient(config);
    ck_assert_int_eq(cs_config_finish(config), CS_OK);
    ck_assert(written_has_note(config, "zero_optimisation: ignored: unknown key"));
    cs_config_close(config);
}
END_TEST

/* The configuration in a checkpoint can be read again and has the same meaning. */
START_TEST(test_text)
{
    cs_config *config = must_finish(
        written_with("\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": 0.1, \"eps\": \"auto\"}}, // gone\n"
                     "\"cspeed\": {\"fit_seconds\": 1.0000000000000002}"));
    ck_assert_ptr_nonnull(strstr(config->text, "\"train_batch_size\": 1"));
    ck_assert_ptr_nonnull(strstr(config->text, "1.0000000000000002"));
    json_t *strict = ce_json_strict(config->text, strlen(config->text));
    ck_assert_ptr_nonnull(strict);
    json_decref(strict);
    cs_config *again = must_finish(config->text);
    ck_assert_str_eq(again->text, config->text);
    cs_config_close(again);
    cs_config_close(config);
}
END_TEST

/* ---- the files under configs/ ---- */

static cs_config *open_file(const char *name)
{
    char path[512];
    cs_config *config;
    snprintf(path, sizeof path, CS_SOURCE "/configs/%s", name);
    ck_assert_msg(cs_config_open(&config, path) == CS_OK, "%s", cs_error());
    return config;
}

START_TEST(test_files)
{
    static const struct {
        const char *name;
        int ranks, stage;
    } files[] = { { "quickstart.json", 2, 2 },
                  { "tiny_cpu.json", 2, 1 },
                  { "gpt2_124m_zero1.json", 3, 1 },
                  { "llama_1b_zero3.json", 8, 3 },
                  { "own_model.json", 1, 3 } };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        set_world(files[i].ranks);
        cs_config *config = open_file(files[i].name);
        ck_assert_msg(cs_config_finish(config) == CS_OK, "%s", cs_error());
        ck_assert_int_eq(config->settings.stage, files[i].stage);
        cs_config_close(config);
    }
    set_world(1);
}
END_TEST

static bool same_default(const ce_key *key, const json_t *value)
{
    bool bare = key->type == CE_KEY_STRING && strcmp(key->fallback, "null") != 0;
    json_t *usual = bare ? json_string(key->fallback) : json_loads(key->fallback, JSON_DECODE_ANY, NULL);
    bool same = json_is_number(usual) ? json_number_value(usual) == json_number_value(value) : json_equal(usual, value);
    json_decref(usual);
    return same;
}

static void check_table(const char *text, ce_json *doc, const char *path, const ce_key *keys, int count)
{
    const char *name;
    json_t *value;
    const json_t *object = ce_json_find(doc, path);
    ck_assert_msg(json_is_object(object), "reference.json lacks the section %s", path);
    for (int i = 0; i < count; i++) {
        value = json_object_get(object, keys[i].name);
        ck_assert_msg(value != NULL, "reference.json lacks %s.%s", path, keys[i].name);
        ck_assert_msg(strstr(text, keys[i].sentence) != NULL, "reference.json lacks the sentence of %s.%s", path,
                      keys[i].name);
        if (keys[i].type != CE_KEY_SECTION)
            ck_assert_msg(same_default(&keys[i], value), "reference.json: %s.%s is not the default, %s", path,
                          keys[i].name, keys[i].fallback);
    }
    json_object_foreach ((json_t *)(uintptr_t)object, name, value)
        ck_assert_msg(ce_keys_find(keys, count, name) != NULL, "reference.json: %s.%s is in no table", path, name);
}

START_TEST(test_reference)
{
    int count;
    ce_optim_settings adamw = { 0 };
    cs_config *config = open_file("reference.json");
    size_t bytes;
    char *text = shell_read(CS_SOURCE "/configs/reference.json", &bytes);
    const ce_section *section;
    for (int i = 0; (section = ce_sections_at(i)); i++)
        check_table(text, config->doc, section->path, section->keys, section->count);
    const ce_key *keys = ce_optim_keys(&adamw, &count);
    check_table(text, config->doc, "optimizer.params", keys, count);
    ck_assert_int_eq(cs_config_set(config, "train_batch_size=1"), CS_OK); /* the only key that a file must give */
    ck_assert_msg(cs_config_finish(config) == CS_OK, "%s", cs_error());
    ck_assert_int_eq(ce_json_note_count(config->doc), 0);
    cs_config_close(config);
    free(text);
}
END_TEST

/* A repeated name in a table would hide the second row. Each default must be readable, and each row needs its
 * documentation. */
START_TEST(test_tables)
{
    const ce_section *section;
    for (int i = 0; (section = ce_sections_at(i)); i++)
        for (int k = 0; k < section->count; k++) {
            const ce_key *key = &section->keys[k];
            ck_assert_msg(ce_keys_find(section->keys, section->count, key->name) == key, "%s twice", key->name);
            ck_assert_msg(*key->sentence, "%s has no sentence", key->name);
            json_t *usual = key->type == CE_KEY_STRING ? json_null() : json_loads(key->fallback, JSON_DECODE_ANY, NULL);
            ck_assert_msg(usual != NULL, "%s: default %s", key->name, key->fallback);
            json_decref(usual);
        }
}
END_TEST

SUITE_MAIN("config", test_triangle, test_precision, test_precision_notes, test_defaults, test_real_file, test_idle,
           test_refused, test_harmless, test_all_faults_at_once, test_getters, test_length, test_epochs, test_lenient,
           test_text, test_files, test_reference, test_tables)
