/* comm_mpi.c - OpenMPI's collectives on the vectors of bench_comm: mpirun -np N comm_mpi SMALLEST LARGEST.
 *
 * Prints "OPERATION BYTES SECONDS". The time of one repetition is that of the slowest rank; SECONDS is the median over
 * the repetitions. all_reduce is measured in place and with two buffers, and the shorter of both times is printed. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_REPETITIONS = 400 };

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void run_once(int operation, float *a, float *b, int count, int part)
{
    switch (operation) {
    case 0:
        MPI_Allreduce(MPI_IN_PLACE, a, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case 1:
        MPI_Allreduce(a, b, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    case 2:
        MPI_Reduce_scatter_block(a, b, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
    default:
        MPI_Allgather(a, part, MPI_FLOAT, b, part, MPI_FLOAT, MPI_COMM_WORLD);
    }
}

static double measure(int operation, float *a, float *b, size_t bytes, int size)
{
    double times[MAX_REPETITIONS];
    size_t wanted = ((size_t)256 << 20) / bytes;
    int count = (int)(bytes / sizeof(float)), repetitions = wanted < 5 ? 5 : wanted > 400 ? 400 : (int)wanted;
    for (int i = -2; i < repetitions; i++) {
        memset(a, 0, bytes); /* each rank has just written its own vector */
        MPI_Barrier(MPI_COMM_WORLD);
        double begun = MPI_Wtime();
        run_once(operation, a, b, count, count / size);
        double took = MPI_Wtime() - begun, slowest;
        MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        if (i >= 0)
            times[i] = slowest;
    }
    qsort(times, (size_t)repetitions, sizeof *times, compare);
    return times[repetitions / 2];
}

static void pin(int rank)
{
    cpu_set_t allowed, own;
    CPU_ZERO(&own);
    sched_getaffinity(0, sizeof allowed, &allowed);
    int turn = rank % CPU_COUNT(&allowed);
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &allowed) && turn-- == 0)
            CPU_SET(core, &own);
    sched_setaffinity(0, sizeof own, &own);
}

int main(int count, char **words)
{
    int rank, size;
    size_t largest = count > 2 ? (size_t)atoll(words[2]) : (size_t)256 << 20;
    size_t smallest = count > 2 ? (size_t)atoll(words[1]) : 0;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    pin(rank);
    float *a = aligned_alloc(4096, largest), *b = aligned_alloc(4096, largest);
    memset(a, 0, largest);
    memset(b, 0, largest);
    for (size_t bytes = 1024; bytes <= largest; bytes *= 4) {
        if (bytes < smallest)
            continue;
        double reduce = measure(0, a, b, bytes, size), apart = measure(1, a, b, bytes, size);
        double scatter = measure(2, a, b, bytes, size), gather = measure(3, a, b, bytes, size);
        if (rank == 0)
            printf("all_reduce %zu %.9f\nreduce_scatter %zu %.9f\nall_gather %zu %.9f\n", bytes,
                   reduce < apart ? reduce : apart, bytes, scatter, bytes, gather);
    }
    MPI_Finalize();
    free(a);
    free(b);
    return 0;
}
