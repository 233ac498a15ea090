/* test_training_state.c - `cspeed import` of the state of a training that began in DeepSpeed, from the files that
 * tools/from_deepspeed.py wrote, of a checkpoint of ZeRO-2 (tests/golden/from_deepspeed) and of a universal checkpoint of
 * ZeRO-1 with AutoTP (tests/golden/from_universal): the imported values, the training that continues from them, and the
 * inputs that are refused. */
#include "shell.h"
#include "suite.h"

#include "base/must.h"
#include "checkpoint/checkpoint.h"
#include "interchange/source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST = 4096 };

static const struct {
    const char *folder, *saved_by;
    int64_t tensors;
} goldens[] = { { "from_deepspeed", "2 ranks, ZeRO-2", 16 }, { "from_universal", "2 ranks, ZeRO-1", 12 } };
enum { GOLDENS = sizeof goldens / sizeof *goldens };

static void enter(int golden)
{
    shell_enter();
    ck_assert_int_eq(shell_run("cp -r %s/golden/%s/. .", CS_TESTS, goldens[golden].folder), 0);
}

#define IMPORT "import state run --config ds_config.json"

/* ---- values ---- */

static int64_t elements_of(const ce_source_tensor *tensor)
{
    int64_t count = 1;
    for (int i = 0; i < tensor->dims; i++)
        count *= tensor->shape[i];
    return count;
}

/* Compares one tensor of the checkpoint with the same tensor in the file that from_deepspeed.py wrote. */
static void same_tensor(ce_checkpoint_reader *reader, cs_comm *self, ce_source *source, int64_t at, const char *slot)
{
    const ce_source_tensor *tensor = &source->tensors[at];
    float wanted[LARGEST], found[LARGEST] = { 0 };
    char name[256];
    int64_t count = elements_of(tensor);
    ck_assert_int_le(count, LARGEST);
    snprintf(name, sizeof name, slot ? "state.%s.%s" : "%s", tensor->name, slot);
    ce_piece piece = { .name = name,
                       .folder = slot ? "optim" : "weights",
                       .dtype = CS_F32,
                       .dims = tensor->dims,
                       .range = { 0, count },
                       .data = found };
    memcpy(piece.shape, tensor->shape, sizeof piece.shape);
    CS_MUST(source->read(source, at, piece.range, wanted, CS_F32));
    CS_MUST(ce_checkpoint_read(reader, self, &piece, 1));
    ck_assert_msg(memcmp(wanted, found, (size_t)count * sizeof *found) == 0, "%s", name);
}

static void check_tensors(ce_checkpoint_reader *reader, cs_comm *self, int64_t tensors)
{
    static const char *const slots[] = { NULL, "exp_avg", "exp_avg_sq" };
    for (int i = 0; i < 3; i++) {
        char folder[32];
        ce_source source;
        snprintf(folder, sizeof folder, "state/%s", slots[i] ? slots[i] : "weights");
        CS_MUST(ce_huggingface_open(&source, folder));
        ck_assert_int_eq(source.count, tensors);
        for (int64_t at = 0; at < source.count; at++)
            same_tensor(reader, self, &source, at, slots[i]);
        ce_source_close(&source);
    }
}

static void check_import(int golden)
{
    cs_world world = { .size = 1, .local_size = 1 };
    cs_comm_settings settings = { .kind = "self", .heap_bytes = 4096 };
    ce_checkpoint_reader *reader;
    cs_comm *self;
    enter(golden);
    shell_expect(0, "`cspeed train --config ds_config.json --output run` continues the training of DeepSpeed", IMPORT);
    CS_MUST(cs_comm_open(&self, &world, &settings));
    CS_MUST(ce_checkpoint_open(&reader, self, "run", NULL));
    check_tensors(reader, self, goldens[golden].tensors);
    const json_t *engine = ce_checkpoint_engine(reader);
    ck_assert_int_eq(json_integer_value(json_object_get(engine, "global_step")), 8);
    ck_assert_int_eq(json_integer_value(json_object_get(engine, "samples")), 64);
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(engine, "optimizer"), "step")), 8);
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(engine, "lr_scheduler"), "last_step")), 8);
    ck_assert_str_eq(ce_checkpoint_client_state(reader), "{\"note\": [\"kept\", 1]}");
    ce_checkpoint_close(reader);
    cs_comm_close(self);
    shell_expect(0, "whole", "verify run");
    shell_expect(0, goldens[golden].saved_by, "inspect run");
    shell_leave();
}

START_TEST(every_value_is_in_the_checkpoint)
{
    for (int golden = 0; golden < GOLDENS; golden++)
        check_import(golden);
}
END_TEST

/* ---- continuation ---- */

static void losses_are_deepspeeds(const char *launch)
{
    json_error_t why;
    char *metrics = shell_read("run/metrics.jsonl", NULL), *next = metrics;
    json_t *losses = json_load_file("losses.json", 0, &why), *wanted;
    size_t i;
    ck_assert_ptr_nonnull(losses);
    json_array_foreach (json_object_get(losses, "after"), i, wanted) {
        double loss;
        next = strstr(next, "\"loss\": ");
        ck_assert_msg(next && sscanf(next, "\"loss\": %lf", &loss) == 1, "%s: %zu losses", launch, i);
        ck_assert_msg(fabs(loss - json_real_value(wanted)) <= 1e-5 * loss, "%s: loss %zu is %.9g, DeepSpeed's %.9g",
                      launch, i, loss, json_real_value(wanted));
        next++;
    }
    ck_assert_uint_eq(i, 5);
    json_decref(losses);
    free(metrics);
}

/* The third launch has DeepSpeed's own ranks: of the universal checkpoint they are a group of tensor parallelism. */
START_TEST(the_losses_are_deepspeeds)
{
    static const char *const launches[] = {
        "--num_gpus 1 --oversubscribe train --config ds_config.json --output run --set tensor_parallel.autotp_size=1",
        ("--num_gpus 2 --oversubscribe train --config ds_config.json --output run --set tensor_parallel.autotp_size=1 "
         "--set zero_optimization.stage=3"),
        "--num_gpus 2 --oversubscribe train --config ds_config.json --output run",
    };
    for (int i = 0; i < 3 * GOLDENS; i++) {
        enter(i / 3);
        shell_expect(0, "`cspeed train --config", IMPORT);
        shell_expect(0, "continuing at step 8 of 13, from run", launches[i % 3]);
        losses_are_deepspeeds(launches[i % 3]);
        shell_leave();
    }
}
END_TEST

/* The batch sizes of a configuration are those of one lane, which had two ranks in DeepSpeed and may have one here. */
START_TEST(a_lane_may_have_another_number_of_ranks)
{
    static const char *const sizes[] = { "2", "1", "4" };
    for (int i = 0; i < 3; i++) {
        enter(1);
        ck_assert_int_eq(shell_run("sed -i 's/\"train_batch_size\"/\"train_micro_batch_size_per_gpu\": 4, &/; "
                                   "s/\"autotp_size\": 2/\"autotp_size\": %s/' ds_config.json",
                                   sizes[i]),
                         0);
        shell_expect(0, "12 tensors", IMPORT);
        shell_leave();
    }
}
END_TEST

/* ---- refusals ---- */

/* Without param_groups in ds_config.json, cspeed does not decay vectors. The training in DeepSpeed decayed vectors, and
 * the message says so. */
START_TEST(other_numbers_of_an_update_are_named)
{
    enter(0);
    ck_assert_int_eq(shell_run("sed -i '/\"param_groups\"/,/\\]/d' ds_config.json"), 0);
    shell_expect(0, "weight_decay of 10 of 16 parameters was 0.1 in DeepSpeed", IMPORT);
    ck_assert_int_eq(shell_run("rm -r run && sed -i 's/0.95/0.99/' ds_config.json"), 0);
    shell_expect(0, "betas[1] of 16 of 16 parameters was 0.95 in DeepSpeed", IMPORT);
    shell_leave();
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
    static const struct {
        const char *change, *words;
        int code;
    } rows[] = {
        { "sed -i 's/\"version\": 1/\"version\": 2/' state/state.json", "has format version 2", 78 },
        { "sed -i 's/\"world_size\": 2/\"world_size\": 0/' state/state.json",
          "the world size or the stage is impossible", 65 },
        { "sed -i 's/\"world_size\": 2/\"world_size\": 2, \"tensor_parallel\": 3/' state/state.json",
          "the world size or the stage is impossible", 65 },
        { "sed -i '/\"samples\"/d' state/state.json", "samples", 65 },
        { "sed -i 's/\"samples\"/\"more\": 1, \"samples\"/' state/state.json", "state.json", 65 },
        { "sed -i 's/\"exp_avg_sq\"/\"..\\/x\"/' state/state.json", "\"slots\" is a list", 65 },
        { "sed -i '/\"exp_avg_sq\"/d; s/\"exp_avg\",/\"exp_avg\"/' state/state.json", "has 1 value for each element",
          78 },
        { "sed -i 's/\"optimizer\": \"AdamW\"/\"optimizer\": \"Lamb\"/' state/state.json", "trained with Lamb", 78 },
        { "sed -i 's/\"torch_adam\": true/\"adam_w_mode\": false/; s/\"AdamW\"/\"Adam\"/' ds_config.json",
          "names the optimizer Adam, but", 78 },
        { "sed -i 's/\"n_layer\": 1/\"n_layer\": 2/' ds_config.json", "12 missing (transformer.h.1.ln_1.weight", 65 },
        { "sed -i 's/\"train_batch_size\": 8/\"train_batch_size\": 7/' ds_config.json", "train_batch_size", 78 },
        { "sed -i 's/\"model\":/\"_model\":/' ds_config.json", "the key cspeed.model is missing", 78 },
        { "rm -r state/exp_avg", "state/exp_avg", 66 },
        { "LC_ALL=C sed -i 's/transformer.ln_f.bias/transformer.ln_g.bias/' state/exp_avg_sq/model.safetensors",
          "state/exp_avg_sq", 65 },
        { "truncate -s -4 state/weights/model.safetensors", "the file was truncated", 65 },
        { "truncate -s -4 state/weights/model.safetensors && printf '\\377\\377\\377\\377' >> "
          "state/weights/model.safetensors",
          "NaN", 1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        enter(0);
        ck_assert_int_eq(shell_run("%s", rows[i].change), 0);
        shell_expect(rows[i].code, rows[i].words, IMPORT);
        ck_assert_msg(shell_run("ls -d run*") != 0, "%s: something is left", rows[i].change);
        shell_leave();
    }
    enter(0);
    shell_expect(64, "--config FILE names the configuration", "import state run");
    shell_expect(64, "holds no state.json", "import state/weights run --config ds_config.json");
    shell_expect(64, "--dtype and --max_shard have no effect on", IMPORT " --dtype bf16");
    shell_expect(64, "--dtype and --max_shard have no effect on", IMPORT " --max_shard 1GB");
    shell_leave();
}
END_TEST

SUITE_MAIN("training_state", every_value_is_in_the_checkpoint, the_losses_are_deepspeeds,
           a_lane_may_have_another_number_of_ranks, other_numbers_of_an_update_are_named, what_does_not_fit_is_refused)
