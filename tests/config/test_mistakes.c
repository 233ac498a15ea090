/* test_mistakes.c - common mistakes in configurations: keys in the wrong section, values of the wrong type, strings
 * instead of booleans and numbers (which DeepSpeed accepts in some sections), templates that were not filled in. */
#include "config/config.h"
#include "suite.h"
#include "written.h"

#include <stdlib.h>
#include <string.h>

static cs_config *must_finish(const char *text)
{
    cs_config *config = written_config(text);
    cs_config_for_world(config, 1, 1);
    ck_assert_msg(cs_config_finish(config) == CS_OK, "%s: %s", text, cs_error());
    return config;
}

START_TEST(test_refused)
{
    static const char *const bad[][2] = {
        /* the message says where a misplaced key belongs, and how an unknown key can be accepted */
        { "\"optimizer\": {\"type\": \"Adam\", \"eps\": 1e-8}",
          "at optimizer.eps: unknown key here: it belongs in optimizer.params (train --lenient ignores it)" },
        { "\"optimizer\": {\"type\": \"Adam\", \"params\": {\"momentum\": 0}}", "it is a key of SGD or of Muon" },
        { "\"zero_optimization\": {\"zero_allow_untested_optimizer\": true}", "it belongs at the top level" },
        { "\"zero_optimization\": {\"device\": \"cpu\"}",
          "it belongs in zero_optimization.offload_param, in zero_optimization.offload_optimizer or in cspeed" },
        { "\"zero_optimization\": {\"fp16\": {}}", "it belongs at the top level" },
        { "\"zero_optimization\": {\"enabled\": true}", "unknown key, and no known key has a similar name;" },
        { "\"total_num_steps\": 5", "it belongs in scheduler.params" },
        { "\"auto_cast\": true", "it belongs in fp16" },
        { "\"fp16\": {\"dynamic_loss_scale\": true}",
          "not supported: fp16.dynamic_loss_scale, because a dynamic loss scale is written \"loss_scale\": 0" },
        { "\"dynamic_loss_scale\": true", "a dynamic loss scale is written \"loss_scale\": 0 in the section \"fp16\"" },
        { "\"gradient_checkpointing\": true",
          "unknown key here: a word of Trainer, TRL, LLaMA-Factory and axolotl; here it is cspeed.recompute (true is" },
        { "\"optimizer\": {\"type\": \"Adam\", \"params\": {\"learning_rate\": 1}}", "here it is optimizer.params.lr" },
        { "\"cspeed\": {\"push_to_hub\": true}", "not supported, because cspeed sends nothing to other servers" },
        { "\"cspeed\": {\"torch_compile\": true}", "not needed, because no PyTorch runs here" },
        { "\"frobnicate\": 1",
          "no known key has a similar name; `cspeed help keys` lists them (train --lenient ignores it)" },
        { "\"cspeed\": {\"mod\": \"m\"}", "at cspeed.mod: unknown key; the nearest known one is \"model\"" },
        { "\"cspeed\": {\"lora\": {\"rr\": 1}}", "the nearest known one is \"r\"" },
        { "\"cspeed\": {\"fsdp\": {\"strategy_sharding\": 1}}", "cspeed.fsdp.strategy_sharding: unknown key" },
        { "\"cspeed\": {\"recompute\": \"unitt\"}",
          "at cspeed.recompute: one of none|unit is needed, not \"unitt\"; did you mean \"unit\"?" },
        { "\"cspeed\": {\"fsdp\": {\"sharding_strategy\": \"FULLSHARD\"}}", "did you mean \"FULL_SHARD\"?" },
        { "\"cspeed\": {\"save_interval\": 5, \"saves_per_epoch\": 1}", "cspeed.save_interval is given too" },
        { "\"cspeed\": {\"eval_interval\": 5, \"evals_per_epoch\": 1}", "cspeed.eval_interval is given too" },
        /* keys without effect have types too */
        { "\"zero_optimization\": {\"overlap_comm\": {\"banana\": 1}}", "overlap_comm: true or false is needed" },
        { "\"zero_optimization\": {\"leaf_module\": 5}", "an object is needed, not 5" },
        { "\"zero_optimization\": {\"offload_param\": {\"nvme_path\": 5}}", "a string in double quotes is needed" },
        { "\"wandb\": {\"project\": {}}", "a string in double quotes is needed" },
        { "\"bf16\": {\"loss_scale\": []}", "a number is needed" },
        { "\"aio\": {\"queue_depht\": 8}", "the nearest known one is \"queue_depth\"" },
        { "\"aio\": {\"block_size\": 0.5}", "a whole number is needed" },
        { "\"vocabulary_size\": \"5\"", "a number is needed" },
        /* strings in place of a boolean or a number, in sections where DeepSpeed does not accept them */
        { "\"flops_profiler\": {\"enabled\": \"true\"}", "true or false is needed, not \"true\"" },
        { "\"gradient_clipping\": \"1.0\"", "a number is needed, not \"1.0\"" },
        { "\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": \"1e-3\"}}", "a number is needed, not \"1e-3\"" },
        { "\"zero_optimization\": {\"stage\": \"three\"}", "a whole number is needed, not \"three\"" },
        { "\"zero_optimization\": {\"stage\": \"5\"}", "at most 3 is possible, not 5" },
        { "\"zero_optimization\": {\"reduce_bucket_size\": \"5e8\"}", "a whole number is needed, not \"5e8\"" },
        { "\"fp16\": {\"enabled\": \"maybe\"}", "true or false is needed, not \"maybe\"" },
        { "\"cspeed\": {\"data\": {\"train\": [\"a.txt\", \"b.txt\"], \"weights\": [1]}}",
          "as many numbers as data.train has" },
        { "\"fp16\": {\"initial_scale_power\": \"1.5\"}", "a whole number is needed, not \"1.5\"" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        written_refused(written_with(bad[i][0]), bad[i][1]);
}
END_TEST

/* Sections that DeepSpeed reads with pydantic accept strings as booleans and numbers. In these sections, "auto" means
 * the default. */
START_TEST(test_strings)
{
    cs_config *config = must_finish(written_with(
        "\"fp16\": {\"enabled\": \"True\", \"loss_scale\": \"1e3\", \"hysteresis\": \"3\", "
        "\"initial_scale_power\": \"12.0\", \"fp16_master_weights_and_grads\": \"auto\"}, \"zero_optimization\": "
        "{\"stage\": \"2\", \"overlap_comm\": \"yes\", \"reduce_bucket_size\": \"500\", \"offload_optimizer\": "
        "{\"cpuadam_cores_perc\": \"0.5\"}}, \"csv_monitor\": {\"enabled\": \"off\"}, \"wandb\": {\"enabled\": \"FALSE\"}, "
        "\"tensorboard\": {\"enabled\": \"auto\"}, \"comms_logger\": {\"enabled\": \"n\", \"verbose\": \"t\"}, "
        "\"timers\": {\"throughput\": {\"enabled\": \"0\"}}, \"steps_per_print\": \"auto\""));
    const ce_settings *s = &config->settings;
    ck_assert(s->precision.values == CS_F16 && s->scaler.loss_scale == 1e3 && s->scaler.hysteresis == 3);
    ck_assert(s->scaler.initial_scale_power == 12 && s->stage == 2 && s->steps_per_print == 0 && !s->csv.enabled);
    ck_assert(!s->comms_logger.enabled && s->comms_logger.verbose && !s->throughput && !s->tensorboard.enabled);
    ck_assert(written_has_note(config, "zero_optimization.stage: the string \"2\" is taken for 2, as DeepSpeed does"));
    ck_assert(written_has_note(config, "fp16.enabled: the string \"True\" is taken for true"));
    ck_assert_ptr_nonnull(strstr(config->text, "\"overlap_comm\": true"));
    cs_config_close(config);
    config = must_finish(written_with("\"bfloat16\": {\"enabled\": \"1\"}"));
    ck_assert(config->settings.precision.values == CS_BF16);
    cs_config_close(config);
}
END_TEST

/* A placeholder of a template that was not filled in is reported. Similar text is accepted in a comment, in the path of
 * the output and in a special token. */
START_TEST(test_templates)
{
    static const char *const forms[] = { "{{ batch }}", "${BATCH}", "<batch size>", "%(batch)s", "{% if x %}" };
    char text[256], sentence[128];
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        snprintf(text, sizeof text, "{\"train_batch_size\": \"%s\", \"frobnicate\": 1}", forms[i]);
        snprintf(sentence, sizeof sentence, ":1:22 at train_batch_size: the placeholder %s was never filled in",
                 forms[i]);
        written_refused(text, sentence);
        ck_assert_ptr_null(strstr(cs_error(), "frobnicate"));
    }
    written_refused("{\"cspeed\": {\"data\": {\"train\": [\"a/${X}\"]}}}",
                    "at cspeed.data.train: the placeholder ${X}");
    cs_config_close(must_finish(written_with("\"_\": \"${X}\", \"cspeed\": {\"output\": \"a<b>c{d}\", \"model\": "
                                             "{\"bos_token\": \"<s>\"}}")));
}
END_TEST

SUITE_MAIN("mistakes", test_refused, test_strings, test_templates)
