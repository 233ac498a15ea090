/* collectives.c - calls each collective of comm.h once and prints the data before and after the call.
 *
 *     build/bin/cspeed --num_gpus 4 --console first build/bin/collectives
 *
 * Rank 0 prints the data of all ranks, which it gets with a further collective, cs_comm_gather. */
#include "cspeed/comm.h"

#include <stdio.h>
#include <string.h>

enum { MAX_RANKS = 16, COUNT = 2 * MAX_RANKS };

static cs_comm *comm;
static int rank, size;

/* Prints a line with data[count] of each rank. */
static void print(const char *when, const int *data, int count)
{
    int all[MAX_RANKS * COUNT];
    cs_comm_gather(comm, all, data, count, CS_I32, 0);
    if (rank != 0)
        return;
    printf("  %-8s", when);
    for (int r = 0; r < size; r++) {
        printf("%s", r ? " | " : "");
        for (int i = 0; i < count; i++)
            printf("%s%d", i ? " " : "", all[r * count + i]);
    }
    printf("\n");
}

/* Sets data[count] to 10 * rank + 0, 1, 2, ... and prints the data. */
static void begin(const char *name, int *data, int count)
{
    for (int i = 0; i < count; i++)
        data[i] = 10 * rank + i;
    if (rank == 0)
        printf("%s\n", name);
    print("before", data, count);
}

static void reduce_and_copy(int *in, int *out)
{
    begin("all_reduce (sum)", in, 2);
    cs_comm_all_reduce(comm, in, 2, CS_I32, CS_SUM);
    print("after", in, 2);
    begin("all_reduce (avg)", in, 2);
    cs_comm_all_reduce(comm, in, 2, CS_I32, CS_AVG);
    print("after", in, 2);
    begin("reduce to rank 0 (max)", in, 2);
    cs_comm_reduce(comm, in, 2, CS_I32, CS_MAX, 0);
    print("after", in, 2);
    begin("reduce_scatter (sum)", in, size);
    cs_comm_reduce_scatter(comm, out, in, 1, CS_I32, CS_SUM);
    print("after", out, 1);
    begin("broadcast from the last rank", in, 2);
    cs_comm_broadcast(comm, in, 2, CS_I32, size - 1);
    print("after", in, 2);
    begin("scatter from rank 0", in, size);
    cs_comm_scatter(comm, out, in, 1, CS_I32, 0);
    print("after", out, 1);
}

static void gather_and_exchange(int *in, int *out)
{
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    memset(out, 0, COUNT * sizeof *out);
    begin("gather to rank 0", in, 1);
    cs_comm_gather(comm, out, in, 1, CS_I32, 0);
    print("after", out, size);
    begin("all_gather", in, 1);
    cs_comm_all_gather(comm, out, in, 1, CS_I32);
    print("after", out, size);
    begin("all_to_all", in, size);
    cs_comm_all_to_all(comm, out, in, 1, CS_I32);
    print("after", out, size);
    if (size == 1)
        return; /* a message needs a second rank */
    begin("isend to the next rank, ireceive from the last one", in, 1);
    cs_work *sent = cs_comm_isend(comm, in, sizeof *in, next), *got = cs_comm_ireceive(comm, out, sizeof *out, last);
    cs_work_wait(got);
    cs_work_wait(sent);
    print("after", out, 1);
}

/* The even ranks form one group and the odd ranks another. Both groups sum at the same time. */
static void use_groups(int *in)
{
    cs_comm *group = NULL;
    CS_MUST(cs_comm_split(&group, comm, rank % 2, rank));
    begin("all_reduce (sum) in the groups of even and odd ranks", in, 1);
    cs_comm_all_reduce(group, in, 1, CS_I32, CS_SUM);
    print("after", in, 1);
    cs_comm_close(group);
}

int main(void)
{
    cs_world world;
    int in[COUNT], out[COUNT];
    CS_MUST(cs_world_read(&world));
    CS_MUST(cs_comm_open(&comm, &world, &(cs_comm_settings){ .kind = "auto", .nonblocking = true }));
    rank = cs_comm_rank(comm);
    size = cs_comm_size(comm);
    if (size <= MAX_RANKS) {
        reduce_and_copy(in, out);
        gather_and_exchange(in, out);
        use_groups(in);
    }
    cs_comm_close(comm);
    return size > MAX_RANKS;
}
