/* test_auto.c - "auto" without a trainer that replaces it, deprecated keys, base64 instead of a path, and the origin of
 * each value. */
#include "config/listing.h"
#include "config/differences.h"
#include "shell.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cs_config *open_text(const char *text, int world)
{
    cs_config *config;
    shell_write("a.json", text);
    ck_assert_msg(cs_config_open(&config, "a.json") == CS_OK, "%s", cs_error());
    cs_config_for_world(config, world, world);
    return config;
}

static cs_config *must_finish(const char *text, int world)
{
    cs_config *config = open_text(text, world);
    ck_assert_msg(cs_config_finish(config) == CS_OK, "%s", cs_error());
    return config;
}

static void check_origin(cs_config *config, const char *path, const char *wanted)
{
    char text[64];
    ck_assert_msg(strcmp(ce_json_origin(config->doc, path, text, sizeof text), wanted) == 0, "%s: %s, not %s", path,
                  text, wanted);
}

static void check_number(cs_config *config, const char *path, double wanted)
{
    const json_t *value = ce_json_find(config->doc, path);
    ck_assert_msg(json_is_number(value) && json_number_value(value) == wanted, "%s is not %g", path, wanted);
}

START_TEST(test_trainer)
{
    shell_enter();
    cs_config *config = must_finish("{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\", "
                                    "\"gradient_accumulation_steps\": "
                                    "\"auto\",\n\"gradient_clipping\": \"auto\", \"optimizer\": {\"type\": \"AdamW\", "
                                    "\"params\": {\"lr\": \"auto\", \"betas\": "
                                    "\"auto\", \"eps\": \"auto\", \"weight_decay\": \"auto\"}},\n\"scheduler\": "
                                    "{\"type\": \"WarmupDecayLR\", \"params\": "
                                    "{\"warmup_min_lr\": \"auto\", \"warmup_max_lr\": \"auto\", \"warmup_num_steps\": "
                                    "\"auto\", \"total_num_steps\": \"auto\"}},\n"
                                    "\"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": \"auto\", "
                                    "\"stage3_prefetch_bucket_size\": \"auto\", "
                                    "\"stage3_param_persistence_threshold\": \"auto\", \"offload_param\": {\"device\": "
                                    "\"auto\"}},\n\"cspeed\": {\"steps\": 90, "
                                    "\"model\": {\"model_type\": \"gpt2\", \"n_embd\": 48}}}",
                                    3);
    const ce_settings *s = &config->settings;
    ck_assert(s->train_batch_size == 24 && s->micro_batch == 8 && s->accumulation == 1 && s->gradient_clipping == 1.0);
    ck_assert(s->optim.rate == 5e-5 && s->optim.betas[0] == 0.9 && s->optim.epsilon == 1e-8 &&
              s->optim.weight_decay == 0);
    ck_assert(s->schedule.warmup_min_lr == 0 && s->schedule.warmup_max_lr == 5e-5 &&
              s->schedule.warmup_num_steps == 0 && s->schedule.total_num_steps == 90);
    check_number(config, "zero_optimization.reduce_bucket_size", 2304);
    check_number(config, "zero_optimization.stage3_prefetch_bucket_size", 2073);
    check_number(config, "zero_optimization.stage3_param_persistence_threshold", 480);
    check_origin(config, "zero_optimization.reduce_bucket_size", "auto: hidden size squared");
    check_origin(config, "optimizer.params.lr", "auto: Hugging Face's default");
    check_origin(config, "train_batch_size", "auto");
    check_origin(config, "cspeed.steps", "line 5");
    check_origin(config, "cspeed.seed", "default");
    cs_config_close(config);
    config = must_finish("{\"train_batch_size\": 4, \"zero_optimization\": {\"stage\": \"auto\"}}", 1);
    ck_assert(config->settings.stage == 2);
    check_origin(config, "zero_optimization.stage", "auto: Accelerate's default");
    cs_config_close(config);
    shell_leave();
}
END_TEST

static bool has_note(const cs_config *config, const char *text)
{
    for (int i = 0; i < ce_json_note_count(config->doc); i++)
        if (strncmp(ce_json_note_text(config->doc, i), text, strlen(text)) == 0)
            return true;
    return false;
}

#define OF_TRAINER                                                                                                     \
    "optimizer: not in the file, whose \"auto\" says that Hugging Face's Trainer supplies it: AdamW with "
#define OF_PROGRAM                                                                                                     \
    "optimizer: not in the file, as where a program supplies one of its own: AdamW with DeepSpeed's defaults"

/* An optimizer or a schedule that the file does not give gets the defaults of Hugging Face's Trainer or those of
 * DeepSpeed. For the optimizer, the first note of the configuration says which defaults were used. */
START_TEST(test_left_out)
{
    static const struct {
        /* `more`: text after the batch size in the file; `set`: an assignment of the command line, or NULL */
        const char *more, *set;
        double rate;
        const char *shape;   /* name of the schedule; NULL: constant rate */
        double first, later; /* learning rates of update 1 and of update 6, if there are 10 updates */
        const char *note;    /* NULL: no note about the optimizer */
    } rows[] = {
        { "\"fp16\": {}", NULL, 1e-3, NULL, 1e-3, 1e-3,
          OF_PROGRAM " (lr 1e-3, betas 0.9 and 0.999, eps 1e-8, weight_decay 0), at a constant rate;" },
        { "\"fp16\": {\"enabled\": \"auto\"}", NULL, 5e-5, "linear", 5e-5, 2.5e-5,
          OF_TRAINER "that Trainer's defaults (lr 5e-5" },
        { "\"gradient_clipping\": \"auto\", \"optimizer\": null", NULL, 5e-5, "linear", 5e-5, 2.5e-5, OF_TRAINER },
        { "\"steps_per_print\": \"auto\"", NULL, 5e-5, "linear", 5e-5, 2.5e-5, OF_TRAINER },
        { "\"gradient_clipping\": \"auto\", \"scheduler\": null", NULL, 5e-5, NULL, 5e-5, 5e-5, OF_TRAINER },
        { "\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_max_lr\": \"auto\", \"warmup_num_steps\": 1}}",
          NULL, 5e-5, "WarmupLR", 0, 5e-5, OF_TRAINER },
        { "\"optimizer\": {\"type\": \"AdamW\"}, \"scheduler\": {\"type\": \"WarmupLR\", \"params\": "
          "{\"warmup_max_lr\": "
          "\"auto\", \"warmup_num_steps\": 1}}",
          NULL, 1e-3, "WarmupLR", 0, 5e-5, NULL },
        { "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 4e-4, \"eps\": \"auto\"}}", NULL, 4e-4, "linear",
          4e-4, 2e-4, NULL },
        { "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 4e-4}}", NULL, 4e-4, NULL, 4e-4, 4e-4, NULL },
        /* "auto" is an ordinary value of the keys `stages` and `device`, and the key "_" is a comment */
        { "\"pipeline\": {\"stages\": \"auto\"}, \"_\": \"auto\", \"fp16\": {\"_\": \"auto\"}", "cspeed.device=auto",
          1e-3, NULL, 1e-3, 1e-3, OF_PROGRAM },
        { "\"fp16\": {}", "optimizer.params.lr=0.5", 0.5, NULL, 0.5, 0.5, OF_PROGRAM ", except what --set gives" },
        { "\"fp16\": {\"enabled\": \"auto\"}", "optimizer.params.lr=0.5", 0.5, "linear", 0.5, 0.25, OF_TRAINER },
        { "\"fp16\": {\"enabled\": \"auto\"}", "optimizer.params.eps=0.5", 5e-5, "linear", 5e-5, 2.5e-5, OF_TRAINER },
        { "\"fp16\": {\"enabled\": \"auto\"}", "scheduler.params.warmup_ratio=0.31", 5e-5, "linear", 0,
          4.166666666666667e-5, OF_TRAINER },
        { "\"fp16\": {\"enabled\": \"auto\"}", "scheduler.params.total_num_steps=5", 5e-5, "linear", 5e-5, 0,
          OF_TRAINER },
        { "\"fp16\": {\"enabled\": \"auto\"}", "scheduler=null", 5e-5, NULL, 5e-5, 5e-5, OF_TRAINER },
        { "\"fp16\": {\"enabled\": \"auto\"}", "optimizer.type=SGD", 1e-3, "linear", 1e-3, 5e-4, NULL },
    };
    shell_enter();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[512];
        snprintf(text, sizeof text, "{\"train_batch_size\": 1, \"cspeed\": {\"steps\": 10}, %s}", rows[i].more);
        cs_config *config = open_text(text, 1);
        if (rows[i].set)
            ck_assert_int_eq(cs_config_set(config, rows[i].set), CS_OK);
        ck_assert_msg(cs_config_finish(config) == CS_OK, "%s: %s", text, cs_error());
        const ce_schedule_settings *schedule = &config->settings.schedule;
        const char *shape = schedule->shape ? schedule->shape->name : "none";
        ck_assert_msg(config->settings.optim.rate == rows[i].rate, "%s: %g", text, config->settings.optim.rate);
        ck_assert_msg(strcmp(shape, rows[i].shape ? rows[i].shape : "none") == 0, "%s: %s", text, shape);
        ck_assert_msg(ce_schedule_rate(schedule, 0) == rows[i].first && ce_schedule_rate(schedule, 5) == rows[i].later,
                      "%s: %g, %g", text, ce_schedule_rate(schedule, 0), ce_schedule_rate(schedule, 5));
        ck_assert_msg(has_note(config, rows[i].note ? rows[i].note : "optimizer: not") == (rows[i].note != NULL), "%s",
                      text);
        ck_assert(!rows[i].note || strncmp(ce_json_note_text(config->doc, 0), "optimizer: ", 11) == 0);
        /* A checkpoint contains config->text, which must give the same configuration when it is read. */
        cs_config *again = must_finish(config->text, 1);
        ck_assert_str_eq(again->text, config->text);
        cs_config_close(again);
        cs_config_close(config);
    }
    shell_leave();
}
END_TEST

/* The number of steps is known only after the data is opened, so scheduler.params.total_num_steps is "auto" until then. */
START_TEST(test_epochs)
{
    shell_enter();
    cs_config *config =
        must_finish("{\"train_batch_size\": 1, \"gradient_clipping\": \"auto\", \"cspeed\": {\"epochs\": 2}}", 1);
    ck_assert(config->settings.schedule.total_is_auto && strstr(config->text, "\"total_num_steps\": \"auto\""));
    check_origin(config, "scheduler.params.total_num_steps", "auto: known once the data is read");
    check_origin(config, "cspeed.steps", "derived: cspeed.epochs");
    cs_config *again = must_finish(config->text, 1);
    ck_assert_str_eq(again->text, config->text);
    cs_config_close(again);
    cs_config_close(config);
    shell_leave();
}
END_TEST

static void find_origin(void *to, const ce_listing *item)
{
    const char **row = to;
    if (strcmp(item->path, row[0]) == 0)
        snprintf((char *)(uintptr_t)row[1], 64, "%s", item->origin);
}

/* The origin of a value never names a line that does not contain the value. */
START_TEST(test_origins)
{
    static const char *const rows[][3] = {
        { "\"bf16\": {\"enabled\": \"auto\"}", "bf16.enabled", "auto" },
        { "\"bfloat16\": {\"enabled\": \"auto\"}", "bfloat16.enabled", "auto" },
        { "\"fp16\": {\"enabled\": \"auto\"}", "fp16.enabled", "auto" },
        { "\"bf16\": {\"enabled\": true}", "bf16.enabled", "line 2" },
        { "\"data_types\": {\"grad_accum_dtype\": \"auto\"}", "data_types.grad_accum_dtype", "auto" },
        { "\"zero_optimization\": {\"reduce_bucket_size\": \"auto\"}", "zero_optimization.reduce_bucket_size", "auto" },
        { "\"zero_optimization\": {\"stage\": \"1\"}", "zero_optimization.stage", "line 2" },
        { "\"zero_optimization\": true", "zero_optimization.stage", "line 2" },
        { "\"zero_optimization\": {\"cpu_offload\": true}", "zero_optimization.offload_optimizer.device", "line 2" },
        { "\"gradient_clipping\": null", "gradient_clipping", "default" },
        { "\"flops_profiler\": {\"enabled\": true}", "wall_clock_breakdown", "derived: flops_profiler.enabled" },
        { "\"comms_logger\": {}", "comms_logger.enabled", "derived: the section is present" },
        { "\"amp\": {\"enabled\": true}, \"fp16\": {\"hysteresis\": 5}", "fp16.hysteresis", "derived: amp" },
        { "\"fp16\": {\"enabled\": \"auto\"}", "optimizer.params.lr", "Hugging Face's default" },
        { "\"fp16\": {\"enabled\": \"auto\"}", "scheduler.type", "Hugging Face's default" },
        { "\"fp16\": {}", "optimizer.params.lr", "default" },
    };
    shell_enter();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256], origin[64] = "";
        snprintf(text, sizeof text, "{\"train_batch_size\": 1,\n%s}", rows[i][0]);
        cs_config *config = must_finish(text, 1);
        ce_listing_each(config, find_origin, (const char *[]){ rows[i][1], origin });
        ck_assert_msg(strcmp(origin, rows[i][2]) == 0, "%s: %s from %s, not %s", text, rows[i][1], origin, rows[i][2]);
        cs_config_close(config);
    }
    shell_leave();
}
END_TEST

/* The model's width is read from its folder; a number in the file is not replaced. */
START_TEST(test_folder)
{
    shell_enter();
    shell_write("config.json", "{\"model_type\": \"llama\", \"hidden_size\": 64}");
    cs_config *config =
        must_finish("{\"train_batch_size\": 12, \"train_micro_batch_size_per_gpu\": \"auto\", "
                    "\"gradient_accumulation_steps\": \"auto\", \"cspeed\": {\"model\": \".\"}, "
                    "\"zero_optimization\": {\"reduce_bucket_size\": \"auto\", \"sub_group_size\": 1e12}}",
                    3);
    ck_assert(config->settings.micro_batch == 4 && config->settings.accumulation == 1);
    check_number(config, "zero_optimization.reduce_bucket_size", 4096);
    cs_config_close(config);
    shell_leave();
}
END_TEST

START_TEST(test_offload)
{
    static const char *const same[] = {
        "{\"train_batch_size\": 1, \"zero_optimization\": {\"cpu_offload\": true, \"cpu_offload_param\": true}}",
        "{\"train_batch_size\": 1, \"zero_optimization\": {\"offload_optimizer\": {\"device\": \"cpu\", \"ratio\": "
        "1}, "
        "\"offload_param\": {\"device\": \"cpu\"}}}",
    };
    shell_enter();
    for (int i = 0; i < 2; i++) {
        cs_config *config = must_finish(same[i], 1);
        ck_assert(config->settings.offload_optimizer == CE_OFFLOAD_CPU &&
                  config->settings.offload_param == CE_OFFLOAD_CPU);
        ck_assert(strstr(config->text, "\"device\": \"cpu\"") && !strstr(config->text, "cpu_offload"));
        cs_config_close(config);
    }
    cs_config *config = must_finish("{\"train_batch_size\": 1, \"zero_optimization\": {\"cpu_offload\": false}}", 1);
    ck_assert(config->settings.offload_optimizer == CE_OFFLOAD_NONE);
    cs_config_close(config);
    config = open_text("{\"train_batch_size\": 4, \"checkpoint\": {\"use_node_local_storage\": true}}", 4);
    config->world.local_size = 2;
    ck_assert(cs_config_finish(config) == CS_BAD_CONFIG && strstr(cs_error(), "on several nodes"));
    cs_config_close(config);
    shell_leave();
}
END_TEST

START_TEST(test_base64)
{
    cs_config *config; /* {"train_batch_size": 8, "_": "~~~>>>???"} in both alphabets, with and without padding */
    static const char *const texts[] = {
        "eyJ0cmFpbl9iYXRjaF9zaXplIjogOCwgIl8iOiAifn5-Pj4-Pz8_In0=",
        "eyJ0cmFpbl9iYXRjaF9zaXplIjogOCwgIl8iOiAifn5-Pj4-Pz8_In0",
        "eyJ0cmFpbl9iYXRjaF9zaXplIjogOCwgIl8iOiAifn5+Pj4+Pz8/In0=",
        " {\"train_batch_size\": 8, \"_\": 0}", /* the text itself */
    };
    shell_enter();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ck_assert_msg(cs_config_open(&config, texts[i]) == CS_OK, "%s", cs_error());
        cs_config_for_world(config, 1, 1);
        ck_assert_msg(cs_config_finish(config) == CS_OK && config->settings.train_batch_size == 8, "%s", cs_error());
        cs_config_close(config);
    }
    ck_assert_int_eq(cs_config_open(&config, "eyJ0cmFpbl9iYXRjaF9zaXplIjogOCwg"), CS_BAD_CONFIG); /* truncated */
    ck_assert(strstr(cs_error(), "base64:1:") != NULL);
    ck_assert_int_eq(cs_config_open(&config, "{\"train_batch_size\": 8"), CS_BAD_CONFIG);
    ck_assert(strstr(cs_error(), "text:1:1: ") != NULL);
    ck_assert_int_eq(cs_config_open(&config, "ds_config.json"), CS_NOT_FOUND);
    ck_assert_int_eq(cs_config_open(&config, "abcdefgh"), CS_NOT_FOUND); /* base64, but of no JSON object */
    ck_assert_int_eq(cs_config_open(&config, ""), CS_NOT_FOUND);
    shell_leave();
}
END_TEST

static void ignore(void *to, const char *heading, const ce_key *key)
{
    (void)to, (void)heading, (void)key;
}

/* Checks that docs/row-by-row.md and the table have the same rows, and that the table contains `facts`, which were
 * found by comparisons with DeepSpeed. */
START_TEST(test_differences)
{
    static const char *const facts[][3] = {
        { "optimizer", "the program passes an optimizer", "lr 5e-5" },
        { "scheduler", "a constant rate", "linear decay to 0" },
        { "bf16.enabled", "replaces \"auto\"", "\"auto\" is false" },
        { "optimizer.params.bias_correction", "its bias correction is one step ahead",
          "is step 1 of the bias correction" },
        { "gradient_accumulation_steps", "averages these means", "one mean over all targets" },
        { "scheduler.params.warmup_min_lr", "0.14 a warm-up began at the full rate", "warmup_min_lr" },
    };
    char *whole = shell_read(CS_SOURCE "/docs/row-by-row.md", NULL), line[1024];
    char *page = strstr(whole, "\n| key | DeepSpeed | cspeed | why |\n"), *end = page ? strstr(page, "\n\n") : NULL;
    ck_assert_ptr_nonnull(end);
    end[1] = 0; /* the end of the table */
    const ce_difference *row;
    int rows = 0;
    for (int i = 0; (row = ce_differences_at(i)); i++, rows++) {
        snprintf(line, sizeof line, "| `%s` | %s | %s | %s |\n", row->path, row->theirs, row->ours, row->why);
        ck_assert_msg(strstr(page, line) != NULL, "docs/row-by-row.md lacks: %s", line);
        ck_assert_msg(ce_listing_explain(row->path, ignore, NULL) > 0, "%s is not a key", row->path);
    }
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        row = ce_differences_find(facts[i][0]);
        ck_assert_msg(row && strstr(row->theirs, facts[i][1]) && strstr(row->ours, facts[i][2]), "%s", facts[i][0]);
    }
    for (const char *at = page; (at = strstr(at, "\n| `")); at++)
        rows--;
    ck_assert_msg(rows == 0, "docs/row-by-row.md has rows that are not in the table");
    free(whole);
}
END_TEST

SUITE_MAIN("auto", test_trainer, test_left_out, test_epochs, test_origins, test_folder, test_offload, test_base64,
           test_differences)
