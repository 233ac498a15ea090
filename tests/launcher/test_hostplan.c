/* test_hostplan.c - the plan of a job: hosts, slots, ranks, limits, the number of this node, and the master address. */
#include "suite.h"

#include "plan/allocation.h"
#include "ground/codes.h"
#include "plan/gpus.h"
#include "plan/hostplan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 64 };

static const char *const variables[] = {
    "PET_NODE_RANK",        "PET_MASTER_ADDR",      "PET_MASTER_PORT",
    "JOB_COMPLETION_INDEX", "SLURM_NODEID",         "GROUP_RANK",
    "SLURM_JOB_NODELIST",   "SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE",
    "SLURM_GPUS_ON_NODE",   "SLURM_GPUS_PER_NODE",  "MASTER_ADDR",
    "MASTER_PORT",          "PET_NNODES",           "CUDA_VISIBLE_DEVICES",
    "CSPEED_ATTEMPT",       "CSPEED_JOB_ID",        "CSPEED_HOSTFILE",
    "PET_NPROC_PER_NODE",
};

static char line[4096];
static char *words[MAX_WORDS];
static cl_options options;

static void forget(void)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
}

/* Sets the environment variables of a text like "A=1 B=2"; forget() unsets them. */
static void set_variables(const char *text)
{
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", text);
    for (char *rest, *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        char *equals = strchr(word, '=');
        *equals = '\0';
        setenv(word, equals + 1, 1);
    }
}

static int make(cl_plan *plan, const char *text)
{
    int count = 1;
    words[0] = (char *)(size_t) "cspeed";
    snprintf(line, sizeof line, "%s", text);
    for (char *rest, *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    words[count] = NULL;
    int code = cl_options_read(&options, words);
    return code ? code : cl_hostplan_make(plan, &options);
}

/* Prints the plan as FIRST_RANK=HOST:SLOTS, separated by spaces. */
static void write_plan(const cl_plan *plan, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < plan->node_count; i++) {
        const cl_host *host = plan->nodes[i].host;
        used +=
            (size_t)snprintf(text + used, size - used, "%s%d=%s:", i ? " " : "", plan->nodes[i].first_rank, host->name);
        for (int slot = 0; slot < host->slot_count; slot++)
            used += (size_t)snprintf(text + used, size - used, slot ? ",%d" : "%d", host->slots[slot]);
    }
}

static const struct {
    /* `plan`: the expected FIRST_RANK=HOST:SLOTS, separated by spaces; `fault`: if an error is expected, its exit code,
     * a space, and a part of its message */
    const char *variables, *flags, *plan, *fault;
} table[] = {
    { "", "--hosts a:2,b:1", "0=a:0,1 2=b:0", NULL },
    { "", "--hosts a:2,b:1,c:3 --num_nodes 2", "0=a:0,1 2=b:0", NULL },
    { "", "--hosts a:2,b:2 --num_gpus 1", "0=a:0 1=b:0", NULL },
    { "", "--hosts a:2,b:2 --num_gpus gpu", "0=a:0,1 2=b:0,1", NULL },
    { "", "--hosts a:4,b:4 -i a:1,3@b --num_gpus 2", "0=a:1,3 2=b:0,1", NULL },
    { "", "--hosts a:2,b:2 --num_gpus 3 --oversubscribe", "0=a:0,0,1 3=b:0,0,1", NULL },
    { "", "--hosts a:1,b:3 --num_gpus 2", NULL, "69 --num_gpus 2: a has 1 slot; ask for 1 or fewer" },
    { "", "--hosts a:1,b:1 --num_gpus 2", NULL,
      "69 --num_gpus 2: a has 1 slot; ask for 1 or fewer, or add --oversubscribe\n--num_gpus 2: b has 1 "
      "slot" },
    { "", "--hosts a:1,b:1 --num_nodes 3", NULL, "69 3 nodes are requested (--num_nodes), but --hosts has 2" },
    { "", "--num_nodes 2", NULL,
      "69 2 nodes are requested (--num_nodes), but this machine has 1; name the other hosts with" },
    { "", "--hosts a:1 -i b", NULL, "65 --include: b is not among the hosts of --hosts" },
    { "", "--hosts a:1,b:1 --launcher local", NULL, "64 --launcher local starts ranks only on this machine, but" },
    { "", "-H /nowhere/hosts", NULL, "66 /nowhere/hosts: the hostfile does not exist" },
    { "", "--standalone --num_gpus 1", "0=localhost:0", NULL },
    { "CSPEED_HOSTFILE=/nowhere/hosts", "--standalone --num_gpus 1", "0=localhost:0", NULL },
    { "CSPEED_HOSTFILE=/nowhere/hosts", "", NULL, "66 /nowhere/hosts" },
    { "", "--num_gpus 100000", NULL, "64 --num_gpus takes a whole number" },
    { "", "--num_gpus 60000", NULL, "69 --num_gpus 60000: this machine has" },
    { "", "--num_gpus 3 --oversubscribe -i localhost:0", "0=localhost:0,0,0", NULL },
    { "", "-i localhost:60000", NULL, "65 --include: localhost has no slot 60000" },
    { "", "--hosts a:4 --min_elastic_nodes 2", NULL, "69 --min_elastic_nodes 2: the job has 1 node" },

    /* --no_ssh */
    { "", "--hosts a:2,b:2 --no_ssh --node_rank 1", "0=a:0,1 2=b:0,1", NULL },
    { "", "--hosts a:2,b:2 --no_ssh --node_rank 2", NULL, "64 this is node 2 as --node_rank says, but the job has" },
    { "", "--hosts a:2,b:2 --no_ssh", NULL, "64 the number of this node is unknown:" },
    { "", "--no_ssh --nnodes 2", NULL, "64 no master address: without" },
    { "", "--no_ssh --master_addr x", NULL, "64 unknown number of nodes: without" },
    { "", "--no_ssh --nnodes 3 --nproc_per_node 1 --master_addr x", "0=node0:0 1=node1:0 2=node2:0", NULL },
    { "PET_NNODES=2 PET_NPROC_PER_NODE=1 MASTER_ADDR=m MASTER_PORT=5", "--no_ssh", "0=node0:0 1=node1:0", NULL },
    { "PET_NNODES=2 PET_NPROC_PER_NODE=1 PET_NODE_RANK=1 PET_MASTER_ADDR=m PET_MASTER_PORT=5", "",
      "0=node0:0 1=node1:0", NULL },
    { "PET_NNODES=2 PET_NPROC_PER_NODE=1 PET_NODE_RANK=1 MASTER_ADDR=m", "", "0=node0:0 1=node1:0", NULL },
    { "", "--nnodes 2 --node_rank 1 --nproc_per_node 1 --master_addr m", "0=node0:0 1=node1:0", NULL },
    { "GROUP_RANK=1", "--nnodes 1:2 --nproc_per_node 1 --rdzv_endpoint m:5", "0=node0:0 1=node1:0", NULL },
    { "", "--nnodes 2 --node_rank 1 --nproc_per_node 1", NULL, "69 2 nodes are requested (--nnodes)" },
    { "", "--nnodes 2 --nproc_per_node 1 --master_addr m", NULL, "69 2 nodes are requested (--nnodes)" },
    { "", "--nnodes 1 --node_rank 0 --nproc_per_node 1 --master_addr m", "0=localhost:0", NULL },
    { "", "--hosts a:1,b:1 --nnodes 2 --node_rank 0 --master_addr m", "0=a:0 1=b:0", NULL },
    { "", "--no_ssh --nnodes 1:2 --nproc_per_node 1 --master_addr x", "0=node0:0 1=node1:0", NULL },
    { "", "--hosts a:1,b:1 --no_ssh --node_rank 0 --master_port 0", NULL, "64 --master_port 0 means any port" },
    { "MASTER_PORT=0", "--hosts a:1,b:1 --no_ssh --node_rank 0", NULL, "64 MASTER_PORT 0 means any port" },

    /* MASTER_PORT; a flag and the port of an outer job take precedence over it */
    { "MASTER_PORT=abc", "--num_gpus 1", NULL,
      "64 the environment variable MASTER_PORT takes a whole number from 0 to 65535, not \"abc\"" },
    { "MASTER_PORT=70000", "--num_gpus 1", NULL, "64 the environment variable MASTER_PORT takes a whole number" },
    { "MASTER_PORT=abc", "--num_gpus 1 --master_port 7", "0=localhost:0", NULL },
    { "MASTER_PORT=abc CSPEED_ATTEMPT=0", "--num_gpus 1", "0=localhost:0", NULL },
    { "MASTER_PORT=", "--num_gpus 1", "0=localhost:0", NULL },

    /* Slurm */
    { "SLURM_JOB_NODELIST=a[1-2],b SLURM_TASKS_PER_NODE=2(x2),1", "", "0=a1:0,1 2=a2:0,1 4=b:0", NULL },
    { "SLURM_JOB_NODELIST=a[08-10] SLURM_GPUS_ON_NODE=2", "", "0=a08:0,1 2=a09:0,1 4=a10:0,1", NULL },
    { "SLURM_JOB_NODELIST=a,b SLURM_GPUS_PER_NODE=a100:3", "--num_gpus 1", "0=a:0 1=b:0", NULL },
    { "SLURM_JOB_NODELIST=a,b SLURM_TASKS_PER_NODE=1(x2) SLURM_JOB_CPUS_PER_NODE=8(x2)", "--nproc_per_node 4",
      "0=a:0,1,2,3 4=b:0,1,2,3", NULL },
    { "SLURM_JOB_NODELIST=a,b SLURM_TASKS_PER_NODE=1(x2) SLURM_JOB_CPUS_PER_NODE=2(x2)", "--nproc_per_node 4", NULL,
      "69 --nproc_per_node 4: a has 1 slot" },
    { "SLURM_JOB_NODELIST=a[1", "", NULL, "65 SLURM_JOB_NODELIST: \"a[1\" is not a list of nodes" },
    { "SLURM_JOB_NODELIST=a,b", "--hosts c:1", "0=c:0", NULL },
    { "SLURM_JOB_NODELIST=a,b", "--standalone --num_gpus 1", "0=localhost:0", NULL },
    { "SLURM_JOB_NODELIST=a,b CSPEED_ATTEMPT=0", "--num_gpus 1", "0=localhost:0", NULL },
    { "SLURM_JOB_NODELIST=a,b SLURM_NODEID=1", "--no_ssh", "0=a:0 1=b:0", NULL },
};

START_TEST(plans_are_made_or_refused)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        cl_plan plan;
        char text[512];
        forget();
        set_variables(table[i].variables);
        int code = make(&plan, table[i].flags);
        if (table[i].plan) {
            ck_assert_msg(code == 0, "%s %s: %s", table[i].variables, table[i].flags, cs_error());
            write_plan(&plan, text, sizeof text);
            ck_assert_msg(strcmp(text, table[i].plan) == 0, "%s %s: %s, not %s", table[i].variables, table[i].flags,
                          text, table[i].plan);
            cl_hostplan_free(&plan);
        } else {
            ck_assert_msg(code == atoi(table[i].fault), "%s %s: %d %s", table[i].variables, table[i].flags, code,
                          code ? cs_error() : "no fault");
            ck_assert_msg(strstr(cs_error(), table[i].fault + 3), "%s %s: %s", table[i].variables, table[i].flags,
                          cs_error());
        }
    }
    forget();
}
END_TEST

START_TEST(numbers_of_nodes_are_bounded)
{
    static const struct {
        const char *flags;
        int min, max, code;
    } rows[] = {
        { "--hosts a,b,c", 3, 3, 0 },
        { "--hosts a,b,c --nnodes 2:3", 2, 3, 0 },
        { "--hosts a,b,c --nnodes 1:2", 1, 2, 0 },
        { "--hosts a,b,c --nnodes 2", 2, 2, 0 },
        { "--hosts a,b,c --nnodes 2:4", 0, 0, CL_CODE_SLOTS },
        { "--hosts a,b,c --elastic_training", 1, 3, 0 },
        { "--hosts a,b,c --elastic_training --min_elastic_nodes 2", 2, 3, 0 },
        { "--hosts a,b,c --elastic_training --max_elastic_nodes 2", 1, 2, 0 },
        { "--hosts a,b,c --max_elastic_nodes 4", 0, 0, CL_CODE_SLOTS },
        { "--hosts a,b,c --nnodes 1:2 --elastic_training", 0, 0, CL_CODE_USAGE },
        { "--hosts a,b,c --min_elastic_nodes 3 --max_elastic_nodes 2", 0, 0, CL_CODE_USAGE },
    };
    forget();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cl_plan plan;
        int code = make(&plan, rows[i].flags);
        ck_assert_msg(code == rows[i].code, "%s: %d %s", rows[i].flags, code, cs_error());
        if (code)
            continue;
        ck_assert_msg(plan.min_nodes == rows[i].min && plan.max_nodes == rows[i].max, "%s: %d:%d", rows[i].flags,
                      plan.min_nodes, plan.max_nodes);
        cl_hostplan_free(&plan);
    }
}
END_TEST

START_TEST(ranks_are_numbered_anew_after_a_loss)
{
    static const struct {
        int places[4], count, code, nodes, ranks;
    } rows[] = {
        { { 1, 2 }, 2, 0, 2, 4 },                      /* node a is lost */
        { { 2, 1, 0 }, 3, 0, 3, 6 },                   /* node a has returned and comes last */
        { { 2 }, 1, 0, 1, 1 },                         /* only node c is present */
        { { 0, 1, 2, 3 }, 4, CL_CODE_DISAGREE, 1, 1 }, /* more nodes than exist: the plan is not changed */
        { { 0, 3 }, 2, CL_CODE_DISAGREE, 1, 1 },
        { { -1 }, 1, CL_CODE_DISAGREE, 1, 1 },
        { { 1, 1 }, 2, CL_CODE_DISAGREE, 1, 1 }, /* one node is named twice */
        { { 0 }, 0, CL_CODE_DISAGREE, 1, 1 },
    };
    cl_plan plan;
    forget();
    ck_assert_int_eq(make(&plan, "--hosts a:2,b:3,c:1 --nnodes 1:3"), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int code = cl_hostplan_cut(&plan, rows[i].places, rows[i].count);
        ck_assert_msg(code == rows[i].code, "row %zu: %d", i, code);
        ck_assert_msg(plan.node_count == rows[i].nodes && plan.rank_count == rows[i].ranks,
                      "row %zu: %d nodes, %d ranks", i, plan.node_count, plan.rank_count);
        for (int node = 0, rank = 0; node < plan.node_count; rank += plan.nodes[node++].host->slot_count)
            ck_assert_int_eq(plan.nodes[node].first_rank, rank);
        for (int node = 0; code == 0 && node < plan.node_count; node++)
            ck_assert_ptr_eq(plan.nodes[node].host, &plan.hosts.list[rows[i].places[node]]);
    }
    cl_hostplan_free(&plan);
}
END_TEST

START_TEST(the_rank_of_this_node_is_found)
{
    static const struct {
        const char *variables, *flags;
        int rank;
        const char *origin; /* source of this node's number; if `rank` is -2, a part of the error */
    } rows[] = {
        { "PET_NODE_RANK=1", "--hosts a,b", 1, "PET_NODE_RANK" },
        { "JOB_COMPLETION_INDEX=1", "--hosts a,b", 1, "JOB_COMPLETION_INDEX" },
        { "SLURM_NODEID=1", "--hosts a,b", 1, "SLURM_NODEID" },
        { "GROUP_RANK=1", "--hosts a,b", 1, "GROUP_RANK" },
        { "SLURM_NODEID=1 JOB_COMPLETION_INDEX=1", "--hosts a,b", 1, "JOB_COMPLETION_INDEX" },
        { "SLURM_NODEID=0 JOB_COMPLETION_INDEX=1", "--hosts a,b", -2,
          "the number of this node is unknown: JOB_COMPLETION_INDEX says 1, SLURM_NODEID says 0; give --node_rank" },
        { "SLURM_NODEID=0 JOB_COMPLETION_INDEX=1", "--hosts a,b --node_rank 1", 1, "--node_rank" },
        { "PET_NODE_RANK=0 GROUP_RANK=1", "--hosts a,b", -2, "PET_NODE_RANK says 0, GROUP_RANK says 1" },
        { "", "--hosts a,localhost", 1, "the host name" },
        { "SLURM_NODEID=0", "--hosts a,localhost", -2, "SLURM_NODEID says 0, the host name says 1 (localhost)" },
        { "SLURM_NODEID=1", "--hosts a,localhost", 1, "SLURM_NODEID" },
        { "", "--hosts localhost,127.0.0.1 --node_rank auto --master_port 5", -2,
          "the number of this node is unknown:" },
        { "JOB_COMPLETION_INDEX=9", "--hosts a,b", -2, "this is node 9 as JOB_COMPLETION_INDEX says" },
        { "JOB_COMPLETION_INDEX=x", "--hosts a,b", -2, "the number of this node is unknown:" },
        { "", "--nnodes 2 --nproc_per_node 1 --master_addr 127.0.0.1", 0, "this machine has the master address" },
        { "", "--nnodes 2 --nproc_per_node 1 --master_addr 192.0.2.1", -1, "given when it joins" },
        { "JOB_COMPLETION_INDEX=1", "--nnodes 2 --nproc_per_node 1 --master_addr x", 1, "JOB_COMPLETION_INDEX" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cl_plan plan;
        char flags[256];
        forget();
        set_variables(rows[i].variables);
        snprintf(flags, sizeof flags, "--no_ssh %s", rows[i].flags);
        int code = make(&plan, flags);
        if (rows[i].rank == -2) {
            ck_assert_msg(code == CL_CODE_USAGE && strstr(cs_error(), rows[i].origin), "%s %s: %d %s",
                          rows[i].variables, rows[i].flags, code, code ? cs_error() : "no fault");
            continue;
        }
        ck_assert_msg(code == 0, "%s %s: %s", rows[i].variables, rows[i].flags, cs_error());
        ck_assert_int_eq(plan.node_rank, rows[i].rank);
        ck_assert_str_eq(plan.node_rank_origin, rows[i].origin);
        for (int node = 0; node < plan.node_count; node++)
            ck_assert(plan.nodes[node].here == (node == rows[i].rank));
        cl_hostplan_free(&plan);
    }
    forget();
}
END_TEST

START_TEST(the_master_address_is_chosen)
{
    static const struct {
        const char *variables, *flags, *address, *address_origin;
        int port;
        const char *port_origin;
    } rows[] = {
        { "", "--standalone", "127.0.0.1", "one machine", 0, "any free one" },
        { "", "--hosts localhost", "127.0.0.1", "one machine", 0, "any free one" },
        { "", "--hosts a,b", "", "confirmed by a connection", 0, "any free one" },
        { "", "--hosts a", "", "confirmed by a connection", 0, "any free one" },
        { "", "--hosts localhost --force_multi", "", "confirmed by a connection", 0, "any free one" },
        { "", "--hosts a,b --master_addr m --master_port 7", "m", "--master_addr", 7, "--master_port" },
        { "MASTER_ADDR=x MASTER_PORT=9", "--hosts a,b", "", "confirmed by a connection", 9, "MASTER_PORT" },
        { "MASTER_PORT=9 CSPEED_ATTEMPT=0", "--hosts a,b", "", "confirmed by a connection", 0, "any free one" },
        { "MASTER_PORT=9", "--hosts a,b --master_port 8", "", "confirmed by a connection", 8, "--master_port" },
        { "", "--no_ssh --hosts a,b --node_rank 0", "a", "the first host of --hosts", 29500, "default" },
        { "MASTER_PORT=9", "--no_ssh --hosts a,b --node_rank 0", "a", "the first host of --hosts", 9, "MASTER_PORT" },
        { "MASTER_ADDR=x", "--no_ssh --nnodes 2 --nproc_per_node 1 --node_rank 1", "x", "MASTER_ADDR", 29500,
          "default" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cl_plan plan;
        forget();
        set_variables(rows[i].variables);
        ck_assert_msg(make(&plan, rows[i].flags) == 0, "%s: %s", rows[i].flags, cs_error());
        ck_assert_msg(strcmp(plan.master_addr, rows[i].address) == 0, "%s: %s", rows[i].flags, plan.master_addr);
        ck_assert_str_eq(plan.master_addr_origin, rows[i].address_origin);
        ck_assert_int_eq(plan.master_port, rows[i].port);
        ck_assert_str_eq(plan.master_port_origin, rows[i].port_origin);
        cl_hostplan_free(&plan);
    }
    forget();
}
END_TEST

/* A port that the user gives is the ranks' port, also if nodes join through it. */
START_TEST(a_given_port_is_that_of_the_ranks)
{
    static const struct {
        const char *variables, *flags;
        int port;
    } rows[] = {
        { "", "--hosts a,b --master_port 7 --max_restarts 3", 7 },
        { "", "--no_ssh --hosts a,b --node_rank 0 --master_port 7", 7 },
        { "MASTER_PORT=9", "--no_ssh --hosts a,b --node_rank 1", 9 },
        { "", "--no_ssh --hosts a,b --node_rank 0", 0 },
        { "", "--no_ssh --hosts a,b --node_rank 0 --master_port 7 --max_restarts 1", 7 },
        { "", "--no_ssh --nnodes 1:2 --nproc_per_node 1 --master_addr m --node_rank 0 --master_port 7", 7 },
        { "", "--no_ssh --nnodes 1:2 --nproc_per_node 1 --master_addr m --node_rank 0", 0 },
        { "", "--no_ssh --nnodes 1 --nproc_per_node 1 --master_addr m --node_rank 0 --master_port 7 --max_restarts 1",
          7 },
        { "", "--no_ssh --nnodes 1:2 --nproc_per_node 1 --rdzv_endpoint m:7 --node_rank 0", 0 },
        { "", "--no_ssh --nnodes 2 --nproc_per_node 1 --rdzv_endpoint m:7 --node_rank 0", 7 },
        { "", "--launcher openmpi --hosts a,b --master_port 7", 7 },
        { "", "--launcher openmpi --hosts a,b", 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cl_plan plan;
        forget();
        set_variables(rows[i].variables);
        ck_assert_msg(make(&plan, rows[i].flags) == 0, "%s: %s", rows[i].flags, cs_error());
        ck_assert_msg(cl_hostplan_ranks_port(&plan) == rows[i].port, "%s: %d", rows[i].flags,
                      cl_hostplan_ranks_port(&plan));
        cl_hostplan_free(&plan);
    }
    forget();
}
END_TEST

/* A host that is not this machine is remote, even if it is the only one; another loopback address is another
 * machine. */
START_TEST(only_this_machine_is_local)
{
    cl_plan plan;
    forget();
    ck_assert_int_eq(make(&plan, "--hosts 127.0.0.2:1"), 0);
    ck_assert(!plan.nodes[0].here);
    cl_hostplan_free(&plan);
    ck_assert_int_eq(make(&plan, "--hosts localhost:1,127.0.0.2:1"), 0);
    ck_assert(plan.nodes[0].here && !plan.nodes[1].here);
    cl_hostplan_free(&plan);
    ck_assert_int_eq(make(&plan, "--hosts localhost:1 --force_multi"), 0);
    ck_assert(!plan.nodes[0].here);
    cl_hostplan_free(&plan);
}
END_TEST

START_TEST(equal_plans_have_equal_digests)
{
    static const char *const same = "--hosts a:2,b:2 --no_ssh --node_rank 0 x y";
    static const char *const others[] = { "--hosts a:2,b:1 --no_ssh --node_rank 0 x y",
                                          "--hosts b:2,a:2 --no_ssh --node_rank 0 x y",
                                          "--hosts a:2,b:2 --no_ssh --node_rank 0 x yz",
                                          "--hosts a:2,b:2 --no_ssh --node_rank 0 xy",
                                          "--hosts a:2,b:2 --no_ssh --node_rank 0 --nnodes 1:2 x y",
                                          "--hosts a:2,b:2 --no_ssh --node_rank 0 -i a:0@b:0,1 x y" };
    cl_plan first, second;
    char id[64];
    forget();
    ck_assert_int_eq(make(&first, same), 0);
    unsigned long long digest = cl_hostplan_digest(&first);
    snprintf(id, sizeof id, "%s", first.id);
    cl_hostplan_free(&first);
    ck_assert_int_eq(make(&second, "--hosts a:2,b:2 --no_ssh --node_rank 1 x y"), 0);
    /* The plan of another node of the same job has the same digest. */
    ck_assert(cl_hostplan_digest(&second) == digest);
    ck_assert_str_eq(second.id, id);
    cl_hostplan_free(&second);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        ck_assert_int_eq(make(&second, others[i]), 0);
        ck_assert_msg(cl_hostplan_digest(&second) != digest, "%s", others[i]);
        cl_hostplan_free(&second);
    }
    ck_assert_int_eq(make(&first, "--standalone"), 0);
    snprintf(id, sizeof id, "%s", first.id);
    ck_assert_uint_eq(strspn(id, "0123456789abcdef"), 8);
    cl_hostplan_free(&first);
    ck_assert_int_eq(make(&second, "--standalone"), 0);
    ck_assert_str_ne(second.id, id);
    cl_hostplan_free(&second);
    ck_assert_int_eq(make(&first, "--standalone --job_id mine"), 0);
    ck_assert_str_eq(first.id, "mine");
    cl_hostplan_free(&first);
}
END_TEST

/* Without GPUs as many ranks as there are cores may be started, and the error for "gpu" says why no GPU was found. */
START_TEST(without_hosts_this_machine_is_used)
{
    cl_plan plan;
    char why[128];
    forget();
    ck_assert_int_eq(make(&plan, ""), 0);
    ck_assert_int_ge(plan.rank_count, 1);
    ck_assert_str_eq(plan.hosts.origin, "this machine");
    cl_hostplan_free(&plan);
    if (cl_gpus_count(why) == 0) {
        ck_assert_int_eq(make(&plan, "--num_gpus gpu"), CL_CODE_SLOTS);
        ck_assert_ptr_nonnull(strstr(cs_error(), why));
        ck_assert_int_eq(make(&plan, "--num_gpus cpu"), 0);
        int all = plan.rank_count;
        cl_hostplan_free(&plan);
        char flags[64];
        snprintf(flags, sizeof flags, "--num_gpus %d", all + 1);
        ck_assert_int_eq(make(&plan, flags), CL_CODE_SLOTS);
        ck_assert_int_eq(make(&plan, "-i localhost:0"), 0);
        ck_assert_int_eq(plan.rank_count, 1);
        cl_hostplan_free(&plan);
    }
}
END_TEST

START_TEST(visible_devices_follow_the_slots)
{
    static const struct {
        int slots[4], count;
        const char *visible, *result;
    } rows[] = {
        { { 0, 1, 2 }, 3, NULL, "0,1,2" },  { { 1, 3 }, 2, NULL, "1,3" },
        { { 0, 1 }, 2, "5,6,7", "5,6" },    { { 1, 2 }, 2, "GPU-aa,GPU-bb,MIG-cc/1/0", "GPU-bb,MIG-cc/1/0" },
        { { 0, 0, 1, 1 }, 4, NULL, "0,1" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[128];
        cl_gpus_devices(rows[i].slots, rows[i].count, rows[i].visible, text, sizeof text);
        ck_assert_str_eq(text, rows[i].result);
    }
}
END_TEST

static void add_name(const char *name, void *argument)
{
    char *text = argument;
    strcat(strcat(text, name), " ");
}

START_TEST(node_lists_are_expanded)
{
    static const struct {
        const char *list, *names; /* NULL: the list is refused */
    } rows[] = {
        { "a", "a " },
        { "a,b", "a b " },
        { "a[1-3,5],b7", "a1 a2 a3 a5 b7 " },
        { "c[01-03]-x", "c01-x c02-x c03-x " },
        { "d[1-2]e[3-4]", "d1e3 d1e4 d2e3 d2e4 " },
        { "n[098-101]", "n098 n099 n100 n101 " },
        { "a[1", NULL },
        { "a[]", NULL },
        { "a[2-1]", NULL },
        { "a[x]", NULL },
        { "a[1-]", NULL },
        { ",a", NULL },
        { "a,", NULL },
        { "", NULL },
        { "a[0-99999999]", NULL },
        { "a[1]]", NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256] = "";
        bool good = cl_allocation_expand(rows[i].list, add_name, text);
        ck_assert_msg(good == (rows[i].names != NULL), "%s: %s", rows[i].list, text);
        if (good)
            ck_assert_str_eq(text, rows[i].names);
    }
}
END_TEST

SUITE_MAIN("hostplan", plans_are_made_or_refused, numbers_of_nodes_are_bounded, ranks_are_numbered_anew_after_a_loss,
           the_rank_of_this_node_is_found, the_master_address_is_chosen, a_given_port_is_that_of_the_ranks,
           only_this_machine_is_local, equal_plans_have_equal_digests, without_hosts_this_machine_is_used,
           visible_devices_follow_the_slots, node_lists_are_expanded)
