/* bench_checkpoint.c - GB/s of saving, loading and verifying, beside the disk itself and PyTorch, and what a save in
 * the background costs a training.
 *
 *     [CSPEED_PEER_PYTHON=PYTHON] bench_checkpoint [MEGABYTES [ROUNDS]]
 *
 * The state (256 MB by default, tensors of 16 MB) goes to a folder in TMPDIR or /tmp, and is deleted. Interleaved
 * rounds (3), the best of each. The disk is `dd oflag=direct conv=fsync` of as many bytes in steps of 16 MB. Loading
 * and verifying come from the page cache where the file system puts what was read before there. Verifying has two
 * roofs: CRC32C of the state in memory, and reading the shards from the page cache. The training is a GPT-2
 * of 10 M parameters, one rank; the stall is what cs_metrics.save_stall says, beside the median step. */
#include "base/clock.h"
#include "base/crc.h"
#include "base/must.h"
#include "checkpoint/audit.h"
#include "checkpoint/checkpoint.h"

#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TENSOR = 4 << 20, MOST = 1024, STEPS = 9 };

typedef struct {
    double disk, save, load, verify, crc, cache;
} speeds;

static void shell(const char *command)
{
    if (system(command) != 0)
        fprintf(stderr, "failed: %s\n", command);
}

static void raise_to(double *best, double bytes, double begun)
{
    double speed = bytes / (cs_clock_seconds() - begun) / 1e9;
    *best        = speed > *best ? speed : *best;
}

static void fault(void *to, const char *sentence)
{
    (void)to;
    fprintf(stderr, "%s\n", sentence);
}

/* The shards, into a buffer that stays in the processor's cache. */
static void read_shards(void)
{
    static char part[1 << 20];
    char       *folder[] = { "out", NULL };
    FTS        *walk     = fts_open(folder, FTS_PHYSICAL | FTS_NOSTAT, NULL);
    for (FTSENT *entry; (entry = fts_read(walk)) != NULL;) {
        int file = strstr(entry->fts_name, ".safetensors") ? open(entry->fts_accpath, O_RDONLY) : -1;
        while (file >= 0 && read(file, part, sizeof part) > 0)
            continue;
        if (file >= 0)
            close(file);
    }
    fts_close(walk);
}

static uint32_t measure_round(speeds *s, cs_comm *comm, const cs_checkpoint_content *content, double bytes)
{
    char                  command[256];
    cs_checkpoint_reader *reader;
    cs_audit              audit = { .fault = fault };
    uint32_t              crc   = 0;
    snprintf(command, sizeof command, "dd if=/dev/zero of=disk bs=16M count=%d oflag=direct conv=fsync 2>dd.txt",
             (int)(bytes / (16 << 20)));
    double begun = cs_clock_seconds();
    shell(command);
    raise_to(&s->disk, bytes, begun);
    unlink("disk");
    begun = cs_clock_seconds();
    CS_MUST(cs_checkpoint_save(comm, "out", content));
    raise_to(&s->save, bytes, begun);
    begun = cs_clock_seconds();
    CS_MUST(cs_checkpoint_open(&reader, comm, "out", NULL));
    CS_MUST(cs_checkpoint_read(reader, comm, content->pieces, content->piece_count));
    raise_to(&s->load, bytes, begun);
    cs_checkpoint_close(reader);
    begun = cs_clock_seconds();
    cs_audit_directory(&audit, "out/t");
    raise_to(&s->verify, bytes, begun);
    begun = cs_clock_seconds();
    for (int64_t i = 0; i < content->piece_count; i++)
        crc = cs_crc32c(crc, content->pieces[i].data, TENSOR * sizeof(float));
    raise_to(&s->crc, bytes, begun);
    begun = cs_clock_seconds();
    read_shards();
    raise_to(&s->cache, bytes, begun);
    return crc;
}

static void measure_io(int megabytes, int rounds)
{
    static cs_piece       pieces[MOST];
    static char           names[MOST][16];
    speeds                best = { 0 };
    cs_comm              *comm;
    cs_world              world   = { .size = 1, .local_size = 1 };
    int                   count   = megabytes / 16 < 1 ? 1 : megabytes / 16 > MOST ? MOST : megabytes / 16;
    cs_checkpoint_content content = {
        .tag = "t", .config_text = "{}", .pieces = pieces, .piece_count = count, .writing.threads = 2
    };
    CS_MUST(cs_comm_open(&comm, &world, &(cs_comm_settings){ .kind = "self", .heap_bytes = 4096 }));
    for (int i = 0; i < count; i++) {
        float *data = malloc(TENSOR * sizeof *data);
        for (int k = 0; k < TENSOR; k++)
            data[k] = (float)(k ^ i);
        snprintf(names[i], sizeof names[i], "t%d", i);
        pieces[i] = (cs_piece){ names[i], i % 3 ? "optim" : "weights", CS_F32, 1, { TENSOR }, { 0, TENSOR }, data };
    }
    double bytes = (double)count * TENSOR * sizeof(float);
    for (int i = 0; i < rounds; i++)
        measure_round(&best, comm, &content, bytes);
    printf("%.0f MB: dd %.2f GB/s, save %.2f (%.0f %% of dd), load %.2f\n", 1e-6 * bytes, best.disk, best.save,
           100 * best.save / best.disk, best.load);
    printf("verify %.2f GB/s: %.0f %% of CRC32C in memory (%.2f), %.0f %% of reading the page cache (%.2f)\n",
           best.verify, 100 * best.verify / best.crc, best.crc, 100 * best.verify / best.cache, best.cache);
    for (int i = 0; i < count; i++)
        free(pieces[i].data);
    cs_comm_close(comm);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
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
    FILE      *file = fopen("config.json", "w");
    CS_ASSERT(file);
    fputs(training, file);
    fclose(file);
    CS_MUST(cs_config_open(&config, "config.json"));
    CS_MUST(cs_initialize(&engine, config, NULL));
    return engine;
}

static void measure_stall(void)
{
    static int32_t tokens[4 * 128];
    double         step[STEPS];
    cs_engine     *engine = open_training();
    cs_batch       batch  = { .inputs  = cs_matrix(tokens, CS_I32, 4, 128),
                              .targets = cs_matrix(tokens, CS_I32, 4, 128) };
    for (int i = 0; i < STEPS; i++) {
        cs_forward(engine, &batch);
        cs_backward(engine);
        cs_step(engine);
        step[i] = cs_last_step(engine).step_seconds;
        if (i == 2 || i == 5) /* the first save takes memory that the second has */
            CS_MUST(cs_save_checkpoint(engine, "train", NULL, NULL));
    }
    CS_MUST(cs_finish_checkpoint(engine));
    cs_metrics m = cs_last_step(engine);
    qsort(step, STEPS, sizeof *step, compare);
    printf("in the background: %.1f M parameters, step %.1f ms; training stood still for %.1f ms, %.1f %% of a step\n",
           1e-6 * (double)cs_parameter_count(engine), 1e3 * step[STEPS / 2], 1e3 * m.save_stall,
           100 * m.save_stall / step[STEPS / 2]);
    cs_destroy(engine);
}

int main(int argc, char **argv)
{
    char        folder[4096], command[8192];
    const char *place = getenv("TMPDIR"), *python = getenv("CSPEED_PEER_PYTHON");
    int         megabytes = argc > 1 ? atoi(argv[1]) : 256, rounds = argc > 2 ? atoi(argv[2]) : 3;
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
