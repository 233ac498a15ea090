/* test_auto.c - what "auto" becomes without a trainer to fill it in, older spellings, base64 in place of a path, and
 * where each value is said to come from. */
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
    cs_config_for_world(config, world);
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
    ck_assert_msg(strcmp(cs_json_origin(config->doc, path, text, sizeof text), wanted) == 0, "%s: %s, not %s", path,
                  text, wanted);
}

static void check_number(cs_config *config, const char *path, double wanted)
{
    const json_t *value = cs_json_find(config->doc, path);
    ck_assert_msg(json_is_number(value) && json_number_value(value) == wanted, "%s is not %g", path, wanted);
}

START_TEST(test_trainer)
{
    shell_enter();
    cs_config *config    = must_finish("{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\", "
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
    const cs_settings *s = &config->settings;
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

/* The width of a model in a folder; a number given beside "auto" stands. */
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
        "0.5}, "
        "\"offload_param\": {\"device\": \"cpu\"}}}",
    };
    shell_enter();
    for (int i = 0; i < 2; i++) {
        cs_config *config = must_finish(same[i], 1);
        ck_assert(config->settings.written.offload_optimizer == 1 && config->settings.written.offload_param == 1);
        ck_assert(strstr(config->text, "\"device\": \"cpu\"") && !strstr(config->text, "cpu_offload"));
        cs_config_close(config);
    }
    cs_config *config = must_finish("{\"train_batch_size\": 1, \"zero_optimization\": {\"cpu_offload\": false}}", 1);
    ck_assert(config->settings.written.offload_optimizer == 0);
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
    cs_config *config; /* {"train_batch_size": 8, "_": "~~~>>>???"}: both alphabets, with and without padding */
    static const char *const texts[] = {
        "eyJ0cmFpbl9iYXRjaF9zaXplIjogOCwgIl8iOiAifn5-Pj4-Pz8_In0=",
        "eyJ0cmFpbl9iYXRjaF9zaXplIjogOCwgIl8iOiAifn5-Pj4-Pz8_In0",
        "eyJ0cmFpbl9iYXRjaF9zaXplIjogOCwgIl8iOiAifn5+Pj4+Pz8/In0=",
    };
    shell_enter();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ck_assert_msg(cs_config_open(&config, texts[i]) == CS_OK, "%s", cs_error());
        cs_config_for_world(config, 1);
        ck_assert_msg(cs_config_finish(config) == CS_OK && config->settings.train_batch_size == 8, "%s", cs_error());
        cs_config_close(config);
    }
    ck_assert_int_eq(cs_config_open(&config, "eyJ0cmFpbl9iYXRjaF9zaXplIjogOCwg"), CS_BAD_CONFIG); /* cut short */
    ck_assert(strstr(cs_error(), "base64:1:") != NULL);
    ck_assert_int_eq(cs_config_open(&config, "ds_config.json"), CS_NOT_FOUND);
    ck_assert_int_eq(cs_config_open(&config, "abcdefgh"), CS_NOT_FOUND); /* base64, and no object */
    ck_assert_int_eq(cs_config_open(&config, ""), CS_NOT_FOUND);
    shell_leave();
}
END_TEST

static void ignore(void *to, const char *heading, const cs_key *key)
{
    (void)to, (void)heading, (void)key;
}

/* docs/differences.md is the table, row for row. */
START_TEST(test_differences)
{
    char                *page = shell_read(CS_SOURCE "/docs/differences.md", NULL), line[1024];
    const cs_difference *row;
    int                  rows = 0;
    for (int i = 0; (row = cs_differences_at(i)); i++, rows++) {
        snprintf(line, sizeof line, "| `%s` | %s | %s | %s |\n", row->path, row->theirs, row->ours, row->why);
        ck_assert_msg(strstr(page, line) != NULL, "docs/differences.md lacks: %s", line);
        ck_assert_msg(cs_listing_explain(row->path, ignore, NULL) > 0, "%s is no key", row->path);
    }
    for (const char *at = page; (at = strstr(at, "\n| `")); at++)
        rows--;
    ck_assert_msg(rows == 0, "docs/differences.md has rows that are not in the table");
    free(page);
}
END_TEST

SUITE_MAIN("auto", test_trainer, test_folder, test_offload, test_base64, test_differences)
