/* bench_checkpoint.c - speed of saving, loading and verifying in GB/s, compared with the disk itself and with PyTorch,
 * and the cost of a background save for a training.
 *
 *     [CSPEED_PEER_PYTHON=PYTHON] bench_checkpoint [MEGABYTES [ROUNDS]]
 *
 * The state (256 MB by default, in tensors of 16 MB) is written to a folder in TMPDIR or /tmp, and deleted at the end.
 * The measurements are repeated in ROUNDS interleaved rounds (5 by default). The output is the median over the rounds,
 * of each speed and of its ratio to the disk's speed in the same round.
 *
 * The speed of the disk is measured with dd, in steps of 16 MB: `dd oflag=direct conv=fsync` copies a file in /dev/shm
 * to the disk, and `dd iflag=direct` reads this copy. The file contains the bytes of the state, because some disks
 * write zeros faster. A checkpoint that was just saved is loaded for the first time from the disk. The second load and
 * the verification read the page cache, if the file system keeps the bytes of the first load there. Three speeds are
 * upper bounds for the speed of verifying: the CRC32C of the state in memory with one thread, the same with as many
 * threads as verify has, and reading the shards from the page cache with as many threads.
 *
 * The training is a GPT-2 with 10 M parameters on one rank. The stall is cs_metrics.save_stall; it is printed with the
 * time of the median step. */
#include "bench.h"
#include "base/clock.h"
#include "base/crc.h"
#include "base/must.h"
#include "base/processors.h"
#include "checkpoint/audit.h"
#include "checkpoint/checkpoint.h"
#include "base/thread_pool.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TENSOR = 4 << 20, TENSOR_BYTES = 4 * TENSOR, MAX_COUNT = 1024, STEPS = 9, ROUNDS = 5, ROUNDS_MAX = 99 };
#define SHARD(folder) "out/t/" folder "/shard-00001-of-00001.safetensors"

/* What a round measures, in GB/s. */
typedef enum { DISK, SAVE, READ, LOAD, AGAIN, VERIFY, CRC_ONE, CRC_ALL, CACHE, KINDS } kind;

typedef struct {
    double speed[KINDS];
} speeds;

typedef struct {
    const ce_checkpoint_content *content;
    cs_comm *comm;
    double bytes;
    int threads;
    char memory[64]; /* path of a file in /dev/shm that contains the state */
} bench;

static void shell(const char *command)
{
    if (system(command) != 0)
        fprintf(stderr, "failed: %s\n", command);
}

static void fault(void *to, const char *sentence)
{
    (void)to;
    fprintf(stderr, "%s\n", sentence);
}

/* Stores the checksums, so that the compiler cannot remove their computation. */
static _Atomic uint32_t checksums;

static cs_status sum_piece(void *argument, int64_t index)
{
    const ce_piece *piece = &((const bench *)argument)->content->pieces[index];
    checksums ^= ce_crc32c(0, piece->data, TENSOR * sizeof(float));
    return CS_OK;
}

/* Reads the bytes of one tensor from a shard into a buffer that stays in the processor's cache. */
static cs_status read_piece(void *argument, int64_t index)
{
    static _Thread_local char part[1 << 18];
    bool optim = index % 3;
    int file = open(optim ? SHARD("optim") : SHARD("weights"), O_RDONLY);
    int64_t number = optim ? index - (index + 2) / 3 : index / 3;
    (void)argument;
    for (off_t at = number * TENSOR_BYTES, end = at + TENSOR_BYTES; at < end; at += (off_t)sizeof part)
        if (pread(file, part, sizeof part, at) <= 0)
            break;
    close(file);
    return CS_OK;
}

static double since(double begun, const bench *p)
{
    return p->bytes / (ce_clock_seconds() - begun) / 1e9;
}

static double load(const bench *p)
{
    ce_checkpoint_reader *reader;
    double begun = ce_clock_seconds();
    CS_MUST(ce_checkpoint_open(&reader, p->comm, "out", NULL));
    CS_MUST(ce_checkpoint_read(reader, p->comm, p->content->pieces, p->content->piece_count));
    double speed = since(begun, p);
    ce_checkpoint_close(reader);
    return speed;
}

static void measure_round(speeds *s, const bench *p)
{
    char command[256];
    ce_audit audit = { .fault = fault, .threads = p->threads };
    snprintf(command, sizeof command, "dd if=%s of=disk bs=16M oflag=direct conv=fsync 2>dd.txt", p->memory);
    double begun = ce_clock_seconds();
    shell(command);
    s->speed[DISK] = since(begun, p);
    begun = ce_clock_seconds();
    CS_MUST(ce_checkpoint_save(p->comm, "out", p->content));
    s->speed[SAVE] = since(begun, p);
    begun = ce_clock_seconds();
    shell("dd if=disk of=/dev/null bs=16M iflag=direct 2>dd.txt");
    s->speed[READ] = since(begun, p);
    unlink("disk");
    s->speed[LOAD] = load(p);
    s->speed[AGAIN] = load(p);
    begun = ce_clock_seconds();
    ce_audit_directory(&audit, "out/t");
    s->speed[VERIFY] = since(begun, p);
    for (kind roof = CRC_ONE; roof <= CRC_ALL; roof++) {
        begun = ce_clock_seconds();
        ce_thread_pool_run(roof == CRC_ONE ? 1 : p->threads, p->content->piece_count, sum_piece, (void *)(uintptr_t)p);
        s->speed[roof] = since(begun, p);
    }
    begun = ce_clock_seconds();
    ce_thread_pool_run(p->threads, p->content->piece_count, read_piece, (void *)(uintptr_t)p);
    s->speed[CACHE] = since(begun, p);
}

/* Returns the median over the rounds of one speed, or of its ratio to another speed. */
static double median(const speeds *rounds, int count, kind of, kind to)
{
    double value[ROUNDS_MAX];
    for (int i = 0; i < count; i++)
        value[i] = rounds[i].speed[of] / (to == KINDS ? 1 : rounds[i].speed[to]);
    bench_sort(value, count);
    return value[count / 2];
}

static void print(const speeds *rounds, int count, const bench *p)
{
    printf("%.0f MB: dd writes %.2f GB/s, save %.2f (%.0f %%); dd reads %.2f, load %.2f (%.0f %%), again %.2f\n",
           1e-6 * p->bytes, median(rounds, count, DISK, KINDS), median(rounds, count, SAVE, KINDS),
           100 * median(rounds, count, SAVE, DISK), median(rounds, count, READ, KINDS),
           median(rounds, count, LOAD, KINDS), 100 * median(rounds, count, LOAD, READ),
           median(rounds, count, AGAIN, KINDS));
    printf("verify, %d threads: %.2f GB/s; CRC32C in memory by one %.2f (%.0f %%), by all %.2f (%.0f %%); reading the "
           "page cache by all %.2f (%.0f %%)\n",
           p->threads, median(rounds, count, VERIFY, KINDS), median(rounds, count, CRC_ONE, KINDS),
           100 * median(rounds, count, VERIFY, CRC_ONE), median(rounds, count, CRC_ALL, KINDS),
           100 * median(rounds, count, VERIFY, CRC_ALL), median(rounds, count, CACHE, KINDS),
           100 * median(rounds, count, VERIFY, CACHE));
}

/* Writes the state to a file in memory, which dd reads. */
static void keep_in_memory(bench *p)
{
    snprintf(p->memory, sizeof p->memory, "/dev/shm/cspeed-bench-%d", (int)getpid());
    FILE *file = fopen(p->memory, "w");
    CE_ASSERT(file);
    for (int64_t i = 0; i < p->content->piece_count; i++)
        CE_ASSERT(fwrite(p->content->pieces[i].data, TENSOR_BYTES, 1, file) == 1);
    CE_ASSERT(fclose(file) == 0);
}

static void measure_io(int megabytes, int count)
{
    static ce_piece pieces[MAX_COUNT];
    static char names[MAX_COUNT][16];
    speeds rounds[ROUNDS_MAX];
    cs_world world = { .size = 1, .local_size = 1 };
    int tensors = megabytes / 16 < 1 ? 1 : megabytes / 16 > MAX_COUNT ? MAX_COUNT : megabytes / 16;
    ce_checkpoint_content content = {
        .tag = "t", .config_text = "{}", .pieces = pieces, .piece_count = tensors, .writing.threads = 2
    };
    bench p = { .content = &content, .bytes = (double)tensors * TENSOR_BYTES, .threads = ce_processors_allowed() };
    CS_MUST(cs_comm_open(&p.comm, &world, &(cs_comm_settings){ .kind = "self", .heap_bytes = 4096 }));
    for (int i = 0; i < tensors; i++) {
        float *data = malloc(TENSOR_BYTES);
        for (int k = 0; k < TENSOR; k++)
            data[k] = (float)(k ^ i);
        snprintf(names[i], sizeof names[i], "t%d", i);
        pieces[i] = (ce_piece){ .name = names[i],
                                .folder = i % 3 ? "optim" : "weights",
                                .dtype = CS_F32,
                                .dims = 1,
                                .shape = { TENSOR },
                                .range = { 0, TENSOR },
                                .data = data };
    }
    keep_in_memory(&p);
    for (int i = 0; i < count; i++)
        measure_round(&rounds[i], &p);
    print(rounds, count, &p);
    unlink(p.memory);
    for (int i = 0; i < tensors; i++)
        free(pieces[i].data);
    cs_comm_close(p.comm);
}

static const char *const training =
    "{ \"train_micro_batch_size_per_gpu\": 4, \"steps_per_print\": 0, \"zero_optimization\": { \"stage\": 1 },\n"
    "  \"cspeed\": { \"steps\": 9, \"async_save\": true, \"data\": { \"seq_len\": 128 },\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 6, \"n_head\": 6, \"n_embd\": 384, \"n_positions\": 128, "
    "\"vocab_size\": 256 } } }\n";

static cs_engine *open_training(void)
{
    cs_config *config;
    cs_engine *engine;
    FILE *file = fopen("config.json", "w");
    CE_ASSERT(file);
    fputs(training, file);
    fclose(file);
    CS_MUST(cs_config_open(&config, "config.json"));
    CS_MUST(cs_initialize(&engine, config, NULL));
    return engine;
}

static void measure_stall(void)
{
    static int32_t tokens[4 * 128];
    double step[STEPS];
    cs_engine *engine = open_training();
    cs_batch batch = { .inputs = cs_matrix(tokens, CS_I32, 4, 128), .targets = cs_matrix(tokens, CS_I32, 4, 128) };
    for (int i = 0; i < STEPS; i++) {
        cs_forward(engine, &batch);
        cs_backward(engine);
        cs_step(engine);
        step[i] = cs_last_step(engine).step_seconds;
        if (i == 2 || i == 5) /* the first save allocates memory that later saves use again */
            CS_MUST(cs_save_checkpoint(engine, "train", NULL, NULL));
    }
    CS_MUST(cs_finish_checkpoint(engine));
    cs_metrics m = cs_last_step(engine);
    bench_sort(step, STEPS);
    printf("in the background: %.1f M parameters, step %.1f ms; training paused for %.1f ms, %.1f %% of a step\n",
           1e-6 * (double)cs_parameter_count(engine), 1e3 * step[STEPS / 2], 1e3 * m.save_stall,
           100 * m.save_stall / step[STEPS / 2]);
    cs_destroy(engine);
}

int main(int argc, char **argv)
{
    char folder[4096], command[8192];
    const char *place = getenv("TMPDIR"), *python = getenv("CSPEED_PEER_PYTHON");
    int megabytes = 256, rounds = ROUNDS;
    bench_arguments(argc, argv,
                    (const bench_option[]){ { "MEGABYTES", .number = &megabytes, .min = 1, .max = MAX_COUNT * 16 },
                                            { "ROUNDS", .number = &rounds, .min = 1, .max = ROUNDS_MAX },
                                            { .name = NULL } });
    snprintf(folder, sizeof folder, "%s/cspeed-bench-XXXXXX", place ? place : "/tmp");
    if (!mkdtemp(folder) || chdir(folder) != 0)
        return 1;
    measure_io(megabytes, rounds);
    measure_stall();
    fflush(stdout);
    snprintf(command, sizeof command, "%s %s/peers/checkpoint_torch.py . %d %d", python ? python : "", CS_TESTS,
             megabytes, rounds);
    if (python)
        shell(command);
    else
        printf("CSPEED_PEER_PYTHON names no Python with torch: no peers\n");
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    shell(command);
    return 0;
}
