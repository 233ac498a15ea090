/* test_hosts_train.c - training on two hosts gives the same losses, bit for bit, as on one. */
#include "cluster.h"
#include "ports.h"
#include "shell.h"
#include "suite.h"
#include "training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char config[] =
    "{\"train_batch_size\": 8, \"train_micro_batch_size_per_gpu\": 2, \"zero_optimization\": "
    "{\"stage\": 3}, \"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": 1e-3}}, \"cspeed\": "
    "{\"model\": {\"model_type\": \"gpt2\", \"vocab_size\": 256, \"n_embd\": 32, \"n_layer\": 2, "
    "\"n_head\": 2, \"n_positions\": 32}, \"data\": {\"train\": \"data/train*\", \"seq_len\": 32}, "
    "\"steps\": 6, \"save_interval\": 0, \"eval_interval\": 0}}";

enum { STEPS = 6 };

static void check_same(const char *metrics, const double wanted[STEPS])
{
    double found[STEPS];
    training_losses(metrics, found, STEPS);
    ck_assert_mem_eq(found, wanted, sizeof found);
}

START_TEST(two_hosts_train_as_one)
{
    shell_enter();
    if (!cluster_start(2, NULL)) {
        shell_leave();
        return;
    }
    setenv("OMP_NUM_THREADS", "1", 1); /* equal bits are only guaranteed for the same number of threads */
    shell_write("ds.json", config);
    ck_assert_int_eq(shell_run("for i in $(seq 400); do echo the quick brown fox $i; done >t.txt; " CS_BIN
                               "/pack --output data t.txt"),
                     0);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed -q --oversubscribe --num_gpus 4 train --config ds.json --output one"),
                     0);
    double wanted[STEPS];
    training_losses("one/metrics.jsonl", wanted, STEPS);
    ck_assert_int_eq(shell_run(CS_BIN
                               "/cspeed -q --oversubscribe --ssh_port %d --hosts %s:2,%s:2 train --config ds.json "
                               "--output two",
                               cluster_port(), cluster_host(0), cluster_host(1)),
                     0);
    check_same("two/metrics.jsonl", wanted);
    ck_assert_int_eq(shell_run(CS_BIN
                               "/cspeed -q --oversubscribe --ssh_port %d --hosts %s:1,%s:3 train --config ds.json "
                               "--output uneven",
                               cluster_port(), cluster_host(0), cluster_host(1)),
                     0);
    check_same("uneven/metrics.jsonl", wanted);
    ck_assert_int_eq(
        shell_run("export CSPEED_SECRET=a-secret-of-this-test; for r in 1 0; do " CS_BIN
                  "/cspeed -q --oversubscribe --no_ssh --hosts a:2,b:2 --node_rank $r --master_addr 127.0.0.1 "
                  "--master_port %d train --config ds.json --output three & done; wait",
                  ports_free("127.0.0.1")),
        0);
    check_same("three/metrics.jsonl", wanted);
    /* each host is a group of hybrid sharding; the run is then continued on one host, without groups */
    ck_assert_int_eq(shell_run(CS_BIN
                               "/cspeed -q --oversubscribe --ssh_port %d --hosts %s:2,%s:2 train --config ds.json "
                               "--set cspeed.fsdp.sharding_strategy=HYBRID_SHARD --steps 4 --output groups",
                               cluster_port(), cluster_host(0), cluster_host(1)),
                     0);
    ck_assert_int_eq(shell_run(CS_BIN
                               "/cspeed -q --oversubscribe --ssh_port %d --hosts %s:1,%s:3 train --config ds.json "
                               "--set cspeed.fsdp.sharding_strategy=HYBRID_SHARD --output refused",
                               cluster_port(), cluster_host(0), cluster_host(1)),
                     78);
    char *said = shell_read("out.txt", NULL), *sentence = strstr(said, "the hosts have 1,3 ranks, and HYBRID_SHARD");
    ck_assert_msg(sentence && !strstr(sentence + 1, "the hosts have"), "%s", said);
    free(said);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed -q --oversubscribe --num_gpus 4 train --config ds.json --output groups"),
                     0);
    check_same("groups/metrics.jsonl", wanted);
    unsetenv("OMP_NUM_THREADS");
    cluster_stop();
    shell_leave();
}
END_TEST

SUITE_MAIN("hosts_train", two_hosts_train_as_one)
