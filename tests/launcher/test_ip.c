/* test_ip.c - jobs of two hosts over IPv6 alone, over both versions of IP, and with names one of whose addresses is
 * dead. The hosts are network namespaces, each with its own /etc/hosts. */
#include "shell.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char config[] =
    "{\"train_batch_size\": 2, \"zero_optimization\": {\"stage\": 1}, \"optimizer\": {\"type\": \"SGD\", \"params\": "
    "{\"lr\": 1e-3}}, \"cspeed\": {\"comm\": \"tcp\", \"model\": {\"model_type\": \"gpt2\", \"vocab_size\": 256, "
    "\"n_embd\": 16, \"n_layer\": 1, \"n_head\": 1, \"n_positions\": 16}, \"data\": {\"train\": \"t.txt\", "
    "\"seq_len\": 16}, \"steps\": 2, \"save_interval\": 0}}";

typedef struct {
    bool four, six;    /* the versions of IP of which the hosts have addresses */
    const char *dead;  /* a further address of the name m0, which nobody has; or "" */
    const char *flags; /* of cspeed, or NULL: the ranks are started without cspeed, and meet at m0 */
} row;

static const row rows[] = {
    { false, true, "", "--hosts [fd00:77::10]:1,[fd00:77::11]:1" },
    { false, true, "", "--nnodes 2 --nproc_per_node 1 --master_addr [fd00:77::10]:29777" },
    { false, true, "", "--nnodes 2 --nproc_per_node 1 --rdzv_endpoint [fd00:77::10]:29778" },
    { false, true, "", "--hosts m0:1,m1:1" },
    { true, true, "", "--hosts m0:1,m1:1 --master_addr [fd00:77::10]" },
    { true, true, "", "--hosts m0:1,m1:1" },
    { true, false, "", "--hosts m0:1,m1:1" },
    { true, true, "fd00:77::99", "--hosts m0:1,m1:1" },
    { true, true, "10.77.0.99", "--hosts m0:1,m1:1" },
    { true, false, "fd00:77::99", "--hosts m0:1,m1:1" },
    { true, false, "127.0.1.1", "--hosts m0:1,m1:1" }, /* as in Debian's /etc/hosts */
    { true, false, "127.0.1.1", NULL },
    { true, true, "127.0.1.1", NULL },
};

static void remove_hosts(void)
{
    shell_run("for i in 0 1; do ip netns pids csip%d-$i | xargs -r kill -9; ip netns delete csip%d-$i; "
              "rm -rf /etc/netns/csip%d-$i; done",
              getpid(), getpid(), getpid());
}

/* Makes two namespaces with a link between them, and their files of host names. */
static bool make_hosts(const row *wanted)
{
    int pid = getpid();
    if (shell_run("for i in 0 1; do ip netns add csip%d-$i || exit 1; mkdir -p /etc/netns/csip%d-$i; done; "
                  "ip -n csip%d-0 link add e0 type veth peer name e0 netns csip%d-1",
                  pid, pid, pid, pid)) {
        printf("skipped: this machine makes no network namespaces with veth (it needs root and iproute2)\n");
        remove_hosts();
        return false;
    }
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(
            shell_run("n=csip%d-%d; ip -n $n link set lo up && ip -n $n link set e0 up && (test -z '%s' || "
                      "echo '%s m0'; for k in 0 1; do test %d = 0 || echo 10.77.0.1$k m$k; "
                      "test %d = 0 || echo fd00:77::1$k m$k; done) >/etc/netns/$n/hosts && "
                      "(test %d = 0 || ip -n $n address add 10.77.0.1%d/24 dev e0) && "
                      "(test %d = 0 || ip -n $n address add fd00:77::1%d/64 dev e0 nodad)",
                      pid, i, wanted->dead, wanted->dead, wanted->four, wanted->six, wanted->four, i, wanted->six, i),
            0);
    return true;
}

static void run_job(const row *wanted, const char *order)
{
    static const char alone[] = "env RANK=$r WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 MASTER_ADDR=m0 "
                                "MASTER_PORT=29776 CSPEED_INSECURE_JOIN=1 " CS_BIN "/train";
    char program[1024];
    snprintf(program, sizeof program, "%s", alone);
    if (wanted->flags)
        snprintf(program, sizeof program, CS_BIN "/cspeed -q --no_ssh --oversubscribe --node_rank $r %s train",
                 wanted->flags);
    int code = shell_run(
        "export CSPEED_SECRET=a-secret-of-this-test; for r in %s; do timeout -k 1 60 ip netns exec csip%d-$r "
        "%s --config ds.json --output out >log.$r 2>&1 "
        "& p=\"$p $!\"; done; c=0; for i in $p; do wait $i || c=$?; done; tail log.0 log.1; rm -r out; exit $c",
        order, getpid(), program);
    char *said = shell_read("out.txt", NULL);
    remove_hosts();
    ck_assert_msg(code == 0, "exit code %d: %s: %s", code, program, said);
    free(said);
}

/* The nodes start in both orders: each must wait for the other. */
START_TEST(two_hosts_meet)
{
    shell_enter();
    shell_write("ds.json", config);
    ck_assert_int_eq(shell_run("seq 2000 >t.txt"), 0);
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows) && make_hosts(&rows[i]); i++)
        run_job(&rows[i], i % 2 ? "0 1" : "1 0");
    shell_leave();
}
END_TEST

/* The ranks of one host meet at the address that the user gave, and not only at 127.0.0.1. */
START_TEST(one_host_meets_at_its_own_address)
{
    shell_enter();
    shell_write("ds.json", config);
    ck_assert_int_eq(shell_run("seq 2000 >t.txt"), 0);
    if (make_hosts(&rows[0])) {
        int code = shell_run("timeout -k 1 60 ip netns exec csip%d-0 " CS_BIN "/cspeed -q --oversubscribe --num_gpus 2 "
                             "--master_addr [fd00:77::10]:29779 train --config ds.json --output out",
                             getpid());
        remove_hosts();
        ck_assert_int_eq(code, 0);
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("ip", two_hosts_meet, one_host_meets_at_its_own_address)
