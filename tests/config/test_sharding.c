/* test_sharding.c - the stage and the groups over which state is sharded, by DeepSpeed's keys and by FSDP's names. */
#include "config/config.h"
#include "suite.h"
#include "written.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STRATEGY(name) "\"cspeed\": {\"fsdp\": {\"sharding_strategy\": \"" name "\"}}"
#define GROUPS(size) "\"mics_shard_size\": " size

/* A configuration for a world of `size` ranks, `local_size` on each host. */
static cs_config *config_of(const char *keys, int size, int local_size)
{
    cs_config *config = written_config(written_with(keys));
    cs_config_for_world(config, size, local_size);
    return config;
}

static void check(const char *keys, int size, int local_size, int stage, int shard_size)
{
    cs_config *config = config_of(keys, size, local_size);
    ck_assert_msg(cs_config_finish(config) == CS_OK, "%s: %s", keys, cs_error());
    ck_assert_msg(config->settings.stage == stage, "%s: stage %d", keys, (int)config->settings.stage);
    ck_assert_msg(config->settings.shard_size == shard_size, "%s: groups of %d", keys, config->settings.shard_size);
    ck_assert_int_eq(cs_config_get_int(config, "zero_optimization.stage"), stage);
    ck_assert_int_eq(cs_config_get_int(config, "zero_optimization.mics_shard_size"),
                     shard_size < size ? shard_size : -1);
    cs_config_close(config);
}

static void check_refused(const char *keys, int size, int local_size, const char *sentence)
{
    cs_config *config = config_of(keys, size, local_size);
    ck_assert_msg(cs_config_finish(config) == CS_BAD_CONFIG, "%s was accepted", keys);
    ck_assert_msg(strstr(cs_error(), sentence) != NULL, "%s: %s", keys, cs_error());
    cs_config_close(config);
}

START_TEST(strategies_are_stages)
{
    check("\"zero_optimization\": {\"stage\": 1}", 4, 2, 1, 4);
    check(STRATEGY("stage"), 4, 2, 0, 4);
    check(STRATEGY("FULL_SHARD"), 4, 2, 3, 4);
    check(STRATEGY("SHARD_GRAD_OP"), 4, 2, 2, 4);
    check(STRATEGY("NO_SHARD"), 4, 2, 0, 4);
    check(STRATEGY("HYBRID_SHARD"), 4, 2, 3, 2);
    check(STRATEGY("_HYBRID_SHARD_ZERO2"), 6, 3, 2, 3);
    check(STRATEGY("full_shard"), 4, 2, 3, 4);
    check(STRATEGY("hybrid_shard"), 4, 2, 3, 2);
    check(STRATEGY("Shard_Grad_Op"), 4, 2, 2, 4);
    check(STRATEGY("HYBRID_SHARD"), 4, 4, 3, 4); /* one host is one group */
    check(STRATEGY("FULL_SHARD") ", \"zero_optimization\": {\"stage\": 3}", 4, 2, 3, 4);
    check(STRATEGY("FULL_SHARD") ", \"zero_optimization\": {\"overlap_comm\": true}", 4, 2, 3, 4);
    check(STRATEGY("FULL_SHARD") ", \"zero_optimization\": null", 4, 2, 3, 4);
}
END_TEST

START_TEST(groups_have_a_size)
{
    check("\"zero_optimization\": {\"stage\": 3, " GROUPS("2") "}", 4, 4, 3, 2);
    check("\"zero_optimization\": {\"stage\": 1, " GROUPS("1") "}", 4, 2, 1, 1);
    check("\"zero_optimization\": {\"stage\": 2, " GROUPS("4") "}", 4, 2, 2, 4);
    check("\"zero_optimization\": {\"stage\": 2, " GROUPS("0") "}", 4, 2, 2, 4);
    check("\"zero_optimization\": {\"stage\": 0, " GROUPS("-1") "}", 4, 2, 0, 4);
    check(STRATEGY("HYBRID_SHARD") ", \"zero_optimization\": {" GROUPS("4") "}", 8, 2, 3, 4);
}
END_TEST

START_TEST(contradictions_are_refused)
{
    check_refused(STRATEGY("FULL_SHARD") ", \"zero_optimization\": {\"stage\": 2}", 4, 2,
                  "FULL_SHARD is stage 3, and zero_optimization.stage is 2");
    check_refused(STRATEGY("FULL_SHARD") ", \"zero_optimization\": {\"stage\": 2.0}", 4, 2, "FULL_SHARD is stage 3");
    check_refused(STRATEGY("NO_SHARD") ", \"zero_optimization\": true", 4, 2, "NO_SHARD is stage 0");
    check_refused(STRATEGY("FULL_SHARD") ", \"zero_optimization\": {" GROUPS("2") "}", 4, 2,
                  "FULL_SHARD shards over all ranks");
    check_refused("\"zero_optimization\": {\"stage\": 0, " GROUPS("2") "}", 4, 2, "stage 0 shards nothing");
    check_refused("\"zero_optimization\": {\"stage\": 3, " GROUPS("3") "}", 4, 2,
                  "groups of 3 do not divide world size 4");
    check_refused("\"zero_optimization\": {\"stage\": 3, " GROUPS("8") "}", 4, 2,
                  "groups of 8 do not divide world size 4");
    check_refused("\"zero_optimization\": {\"stage\": 3, " GROUPS("-2") "}", 4, 2, "at least -1 is needed");
    check_refused(STRATEGY("HYBRID_SHARD"), 5, 3, "set zero_optimization.mics_shard_size");
    check_refused(STRATEGY("hybrid"), 4, 2, "HYBRID_SHARD");
    check_refused("\"cspeed\": {\"fsdp\": {\"device_mesh\": [2, 2]}}", 4, 2, "mics_shard_size");
    check_refused("\"cspeed\": {\"fsdp\": {\"cpu_offload\": true}}", 4, 2, "zero_optimization.offload_param");
}
END_TEST

START_TEST(hosts_of_a_hybrid_have_equally_many_ranks)
{
    static const struct {
        const char *hosts;
        int local_size;
        bool uneven;
    } rows[] = {
        { "2,4", 2, true }, { "4,2", 4, true }, { "1,1,4", 1, true }, { "12,1", 1, true }, { "3,3", 3, false }
    };
    char sentence[64];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        setenv("CSPEED_HOST_RANKS", rows[i].hosts, 1);
        snprintf(sentence, sizeof sentence, "the hosts have %s ranks, and HYBRID_SHARD makes", rows[i].hosts);
        if (rows[i].uneven)
            check_refused(STRATEGY("hybrid_shard"), 6, rows[i].local_size, sentence);
        else
            check(STRATEGY("HYBRID_SHARD"), 6, rows[i].local_size, 3, rows[i].local_size);
        check(STRATEGY("HYBRID_SHARD") ", \"zero_optimization\": {" GROUPS("2") "}", 6, rows[i].local_size, 3, 2);
        check(STRATEGY("FULL_SHARD"), 6, rows[i].local_size, 3, 6);
    }
    unsetenv("CSPEED_HOST_RANKS");
}
END_TEST

SUITE_MAIN("sharding", strategies_are_stages, groups_have_a_size, contradictions_are_refused,
           hosts_of_a_hybrid_have_equally_many_ranks)
