/* test_mesh.c - the device mesh by the keys of cspeed, DeepSpeed, Accelerate and torchtitan. */
#include "config/config.h"
#include "suite.h"
#include "written.h"

#include <stdio.h>
#include <string.h>

#define AUTOTP(keys) "\"tensor_parallel\": {" keys "}"
#define MESH(keys) "\"cspeed\": {\"mesh\": {" keys "}}"
#define ACCELERATE(keys) "\"parallelism_config\": {" keys "}"
#define TITAN(keys) "\"parallelism\": {" keys "}"
#define STAGE3 "\"zero_optimization\": {\"stage\": 3}"

enum { WORLD = 8 };

/* A configuration for 8 ranks, 4 on each host. */
static cs_config *config_of(const char *keys)
{
    cs_config *config = written_config(written_with(keys));
    cs_config_for_world(config, WORLD, WORLD / 2);
    return config;
}

static cs_config *must_finish(const char *keys)
{
    cs_config *config = config_of(keys);
    ck_assert_msg(cs_config_finish(config) == CS_OK, "%s: %s", keys, cs_error());
    return config;
}

static void check(const char *keys, int tp, int shard_size)
{
    cs_config *config = must_finish(keys);
    const ce_settings *s = &config->settings;
    ck_assert_msg(s->tp == tp && s->lanes == WORLD / tp && s->shard_size == shard_size, "%s: tp %d, %d lanes, %d", keys,
                  s->tp, s->lanes, s->shard_size);
    ck_assert_int_eq(s->train_batch_size, s->micro_batch * s->accumulation * s->lanes);
    ck_assert_int_eq(cs_config_get_int(config, "cspeed.mesh.tp"), tp);
    if (s->stage > 0) {
        ck_assert_int_eq(cs_config_get_int(config, "cspeed.mesh.dp_shard"), shard_size);
        ck_assert_int_eq(cs_config_get_int(config, "cspeed.mesh.dp_replicate"), s->lanes / shard_size);
    }
    cs_config_close(config);
}

static void check_refused(const char *keys, const char *sentence)
{
    cs_config *config = config_of(keys);
    ck_assert_msg(cs_config_finish(config) == CS_BAD_CONFIG, "%s was accepted", keys);
    ck_assert_msg(strstr(cs_error(), sentence) != NULL, "%s: %s", keys, cs_error());
    cs_config_close(config);
}

static void check_note(const char *keys, const char *note)
{
    cs_config *config = must_finish(keys);
    ck_assert_msg(written_has_note(config, note), "%s: no note \"%s\"", keys, note);
    cs_config_close(config);
}

START_TEST(each_spelling_gives_the_same_mesh)
{
    static const char *const two[] = {
        MESH("\"tp\": 2"),
        AUTOTP("\"autotp_size\": 2"),
        AUTOTP("\"tp_size\": 2"),
        AUTOTP("\"tp\": {\"tp_size\": 2}"),
        AUTOTP("\"tensor_parallel\": {\"tp_size\": 2}"),
        AUTOTP("\"autotp_size\": 2, \"tp\": {\"tp_size\": 1}"),
        AUTOTP("\"autotp_size\": 2, \"tp\": {\"tp_size\": 2, \"tp_grain_size\": 64, \"mpu\": null}"),
        AUTOTP("\"autotp_size\": 2, \"preset_model\": \"llama\", \"dtype\": \"bf16\", \"tp_overlap_comm\": true"),
        ACCELERATE("\"tp_size\": 2, \"cp_size\": 1, \"sp_size\": 1, \"cp_backend\": \"torch\""),
        ACCELERATE("\"parallelism_config_tp_size\": 2, \"parallelism_config_cp_size\": 1"),
        "\"parallelism_config_tp_size\": 2",
        TITAN("\"tensor_parallel_degree\": 2, \"pipeline_parallel_degree\": 1, \"data_parallel_shard_degree\": -1"),
        MESH("\"tp\": 2") ", " AUTOTP("\"autotp_size\": 2") ", " TITAN("\"tensor_parallel_degree\": 2"),
    };
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        check(two[i], 2, 4);
}
END_TEST

START_TEST(a_size_of_one_is_off)
{
    check("\"fp16\": null", 1, 8);
    check(MESH("\"tp\": 1"), 1, 8);
    check(AUTOTP(""), 1, 8);
    check(AUTOTP("\"autotp_size\": 0"), 1, 8);
    check(AUTOTP("\"autotp_size\": 1, \"tp\": {\"tp_size\": 0}"), 1, 8);
    check(ACCELERATE("\"tp_size\": 1"), 1, 8);
    check(TITAN("\"tensor_parallel_degree\": 1, \"data_parallel_replicate_degree\": 1"), 1, 8);
}
END_TEST

START_TEST(lanes_are_grouped)
{
    check(STAGE3 ", " MESH("\"tp\": 2, \"dp_shard\": 2"), 2, 2);
    check(STAGE3 ", " MESH("\"tp\": 2, \"dp_replicate\": 2"), 2, 2);
    check(STAGE3 ", " MESH("\"tp\": 2, \"dp_replicate\": 4"), 2, 1);
    check(STAGE3 ", " MESH("\"dp_replicate\": 1, \"dp_shard\": 8"), 1, 8);
    check(STAGE3 ", " ACCELERATE("\"dp_replicate_size\": 2, \"dp_shard_size\": 2, \"tp_size\": 2"), 2, 2);
    check(STAGE3 ", " TITAN("\"data_parallel_replicate_degree\": 2, \"tensor_parallel_degree\": 2"), 2, 2);
    check("\"zero_optimization\": {\"stage\": 2, \"mics_shard_size\": 2}, " MESH("\"tp\": 2, \"dp_replicate\": 2"), 2,
          2);
    check(MESH("\"dp_replicate\": 8, \"dp_shard\": 1"), 1, 8); /* stage 0: one group in which nothing is sharded */
    check("\"cspeed\": {\"fsdp\": {\"sharding_strategy\": \"HYBRID_SHARD\"}, \"mesh\": {\"tp\": 2}}", 2, 2);
    check("\"cspeed\": {\"fsdp\": {\"sharding_strategy\": \"FULL_SHARD\"}, \"mesh\": {\"tp\": 2, \"dp_shard\": 4}}", 2,
          4);
}
END_TEST

START_TEST(contradictions_name_both_places)
{
    check_refused(MESH("\"tp\": 2") ", " AUTOTP("\"autotp_size\": 4"),
                  "tensor_parallel.autotp_size: it says 4, and cspeed.mesh.tp (line 1) says 2");
    check_refused(AUTOTP("\"autotp_size\": 4, \"tp\": {\"tp_size\": 2}"),
                  "tensor_parallel.tp.tp_size: it says 2, and tensor_parallel.autotp_size (line 1) says 4");
    check_refused(AUTOTP("\"autotp_size\": 0, \"tp\": {\"tp_size\": 2}"), "it says 2, and tensor_parallel.autotp_size");
    check_refused(AUTOTP("\"tensor_parallel\": {\"tp_size\": 4}, \"tp\": {\"tp_size\": 2}"),
                  "tensor_parallel.tp.tp_size");
    check_refused(ACCELERATE("\"tp_size\": 1") ", " TITAN("\"tensor_parallel_degree\": 2"),
                  "parallelism_config.tp_size");
    check_refused("\"parallelism_config_tp_size\": 2, " ACCELERATE("\"tp_size\": 2"),
                  "parallelism_config.tp_size is set too");
    check_refused("\"zero_optimization\": {\"stage\": 3, \"mics_shard_size\": 2}, " MESH("\"dp_shard\": 4"),
                  "zero_optimization.mics_shard_size: it says 2, and cspeed.mesh.dp_shard (line 1) says 4");
    check_refused(
        "\"zero_optimization\": {\"stage\": 3, \"mics_shard_size\": 2}, " MESH("\"tp\": 2, \"dp_replicate\": 4"),
        "cspeed.mesh.dp_replicate 4 x zero_optimization.mics_shard_size 2 x tp 2 = 16 ranks, and the world has 8");
}
END_TEST

START_TEST(the_command_line_decides)
{
    cs_config *config = config_of(AUTOTP("\"autotp_size\": 4, \"tp\": {\"tp_size\": 4}"));
    ck_assert(cs_config_set(config, "cspeed.mesh.tp=2") == CS_OK);
    ck_assert_msg(cs_config_finish(config) == CS_OK, "%s", cs_error());
    ck_assert_int_eq(config->settings.tp, 2);
    ck_assert(written_has_note(config, "no effect, because the command line gives cspeed.mesh.tp"));
    cs_config_close(config);
}
END_TEST

START_TEST(batches_count_lanes)
{
    cs_config *config = written_config("{\"train_batch_size\": 24, \"train_micro_batch_size_per_gpu\": 2, "
                                       "\"prescale_gradients\": true, " MESH("\"tp\": 2") "}");
    cs_config_for_world(config, WORLD, WORLD);
    ck_assert_msg(cs_config_finish(config) == CS_OK, "%s", cs_error());
    ck_assert_int_eq(config->settings.accumulation, 3);
    ck_assert(config->settings.prescale_factor == 0.25f);
    cs_config_close(config);
    check_refused("\"train_batch_size\": 6, " MESH("\"tp\": 2"), "lanes 4 (world size 8 / tp 2)");
    check_refused("\"train_batch_size\": 2, \"gradient_accumulation_steps\": 1, " MESH("\"tp\": 2"),
                  "; world size 4 fits");
}
END_TEST

START_TEST(impossible_meshes_are_refused)
{
    check_refused(MESH("\"tp\": 3"), "cspeed.mesh.tp: tp 3 does not divide a world of 8: start 3, 6, 9 ... ranks");
    check_refused(AUTOTP("\"autotp_size\": 16"), "tensor_parallel.autotp_size: tp 16 does not divide a world of 8");
    check_refused(MESH("\"tp\": 0"), "at least 1 is needed, not 0");
    check_refused(STAGE3 ", " MESH("\"tp\": 2, \"dp_shard\": 3"),
                  "groups of 3 do not divide lanes 4 (world size 8 / tp 2)");
    check_refused(STAGE3 ", " MESH("\"tp\": 2, \"dp_replicate\": 3"), "3 groups do not divide lanes 4");
    check_refused(MESH("\"tp\": 2, \"dp_shard\": 2"), "stage 0 shards nothing");
    check_refused("\"cspeed\": {\"fsdp\": {\"sharding_strategy\": \"HYBRID_SHARD\"}, \"mesh\": {\"tp\": 8}}",
                  "the 4 ranks of this host are not a multiple of tp 8");
    check_refused(MESH("\"pp\": 2"), "not supported: cspeed.mesh.pp, because pipeline parallelism");
    check_refused(TITAN("\"context_parallel_degree\": 2"), "context_parallel_degree, because context parallelism");
    check_refused(TITAN("\"expert_parallel_degree\": 4"), "expert_parallel_degree, because expert parallelism");
    check_refused(ACCELERATE("\"cp_size\": 2"), "parallelism_config.cp_size, because context parallelism");
    check_refused("\"parallelism_config_sp_size\": 2", "parallelism_config.sp_size, because context parallelism");
    check_refused("\"sequence_parallel\": {\"enabled\": true, \"size\": 4}",
                  "sequence_parallel, because context parallelism");
    check_refused(AUTOTP("\"enabled\": true"), "tensor_parallel.enabled: unknown key");
}
END_TEST

static bool cuts_rows(const char *keys)
{
    cs_config *config = must_finish(keys);
    bool cuts = config->settings.cuts_rows;
    cs_config_close(config);
    return cuts;
}

START_TEST(sequence_parallelism_needs_tp)
{
    ck_assert(cuts_rows(MESH("\"tp\": 2, \"sequence\": true")) && !cuts_rows(MESH("\"tp\": 2")));
    ck_assert(cuts_rows(TITAN("\"tensor_parallel_degree\": 2, \"enable_sequence_parallel\": true")));
    ck_assert(!cuts_rows(MESH("\"sequence\": true")));
    check_note(MESH("\"sequence\": true"), "cspeed.mesh.sequence: no effect, because tp is 1");
    check_refused(MESH("\"tp\": 2, \"sequence\": false") ", " TITAN("\"enable_sequence_parallel\": true"),
                  "parallelism.enable_sequence_parallel: cspeed.mesh.sequence says the opposite");
    check_refused(
        MESH(
            "\"tp\": 2, \"sequence\": true") ", \"curriculum_learning\": {\"enabled\": true, "
                                             "\"curriculum_type\": \"seqlen\", \"min_difficulty\": 8, \"max_difficulty\": 64, "
                                             "\"schedule_type\": \"fixed_linear\", \"schedule_config\": {\"total_curriculum_step\": 10, "
                                             "\"difficulty_step\": 8}}",
        "a curriculum changes the number of rows");
}
END_TEST

START_TEST(some_features_need_whole_layers)
{
    check_refused("\"optimizer\": {\"type\": \"Lamb\"}, " MESH("\"tp\": 2"),
                  "not supported: optimizer.type Lamb with cspeed.mesh.tp 2, because its step needs whole tensors");
    check_refused("\"optimizer\": {\"type\": \"Muon\"}, " AUTOTP("\"autotp_size\": 2"), "optimizer.type Muon with");
    check_refused("\"cspeed\": {\"cuda_graphs\": true, \"mesh\": {\"tp\": 2}}",
                  "not supported: cspeed.cuda_graphs with cspeed.mesh.tp 2");
    check("\"optimizer\": {\"type\": \"Lion\"}, " MESH("\"tp\": 2"), 2, 4);
    check("\"optimizer\": {\"type\": \"Muon\"}, " MESH("\"tp\": 1"), 1, 8);
}
END_TEST

START_TEST(the_model_declares_its_cuts)
{
    check_note(AUTOTP("\"autotp_size\": 2, \"partition_config\": {\"layer_specs\": [{\"patterns\": [\".*o_proj.*\"], "
                      "\"partition_type\": \"row\"}, {\"patterns\": [\".*q_proj.*\"]}]}"),
               "compared only, because the model itself declares");
    check_note(AUTOTP("\"autotp_size\": 2, \"preset_model\": \"llama\""), "no effect here");
    check_note(AUTOTP("\"tp_overlap_comm\": true"), "tensor_parallel.tp_overlap_comm: no effect, because tp is 1");
    check_note(AUTOTP("\"tp\": {\"tp_size\": 2}"), "DeepSpeed ignores it without tensor_parallel.autotp_size");
    check_note(AUTOTP("\"autotp_size\": 2, \"partition_config\": {\"layer_specs\": [{\"partition_type\": \"Skip\"}]}"),
               "compared only");
    check_refused(AUTOTP("\"partition_config\": {\"layer_specs\": [{\"partition_type\": \"diagonal\"}]}"),
                  "no partition_type is named \"diagonal\"");
    check_refused(AUTOTP("\"partition_config\": \"llama\""), "an object with the key");
}
END_TEST

/* The file is one of LLaMA-Factory's examples. */
START_TEST(a_file_as_users_have_it)
{
    cs_config *config;
    ck_assert(cs_config_open(&config, CS_TESTS "/configs/autotp.json") == CS_OK);
    cs_config_for_world(config, 4, 4);
    ck_assert_msg(cs_config_finish(config) == CS_OK, "%s", cs_error());
    ck_assert(config->settings.tp == 2 && config->settings.lanes == 2 && config->settings.shard_size == 2);
    ck_assert_int_eq(config->settings.train_batch_size, 2 * config->settings.micro_batch);
    cs_config_close(config);
}
END_TEST

SUITE_MAIN("mesh", each_spelling_gives_the_same_mesh, a_size_of_one_is_off, lanes_are_grouped,
           contradictions_name_both_places, the_command_line_decides, batches_count_lanes,
           impossible_meshes_are_refused, sequence_parallelism_needs_tp, some_features_need_whole_layers,
           the_model_declares_its_cuts, a_file_as_users_have_it)
