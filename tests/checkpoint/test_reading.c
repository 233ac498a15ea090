/* test_reading.c - options of reading and writing checkpoints: strict or loose names, verified or unverified blocks,
 * fallback or none; threads, buffers, page cache. */
#include "runs.h"
#include "saved.h"
#include "shell.h"
#include "suite.h"

#include "base/must.h"

#include <stdlib.h>
#include <string.h>

#define SHARD "out/t/weights/shard-00001-of-00001.safetensors"

/* Reads `count` pieces of "out" in this process. */
static cs_status read_as(const ce_checkpoint_reading *reading, const char *tag, const ce_piece *pieces, int64_t count)
{
    cs_comm *comm = saved_world();
    ce_checkpoint_reader *reader;
    cs_status status = ce_checkpoint_open_as(&reader, comm, "out", tag, reading);
    if (status == CS_OK)
        status = ce_checkpoint_read(reader, comm, pieces, count);
    if (status == CS_OK || reader)
        ce_checkpoint_close(reader);
    cs_comm_close(comm);
    return status;
}

START_TEST(names)
{
    float ln[12] = { 0 }, other[3] = { 5, 6, 7 };
    const ce_piece wanted[] = {
        { .name = "h.0.ln.weight",
          .folder = "weights",
          .dtype = CS_F32,
          .dims = 1,
          .shape = { 12 },
          .range = { 0, 12 },
          .data = ln },
        { .name = "nobody",
          .folder = "weights",
          .dtype = CS_F32,
          .dims = 1,
          .shape = { 3 },
          .range = { 0, 3 },
          .data = other },
    };
    shell_enter();
    ck_assert_int_eq(saved_save("out", "t", 1), CS_OK);
    ck_assert_int_eq(read_as(&(ce_checkpoint_reading){ .names = CE_NAMES_WANTED }, "t", wanted, 1), CS_OK);
    ck_assert_int_eq(read_as(&(ce_checkpoint_reading){ .names = CE_NAMES_WANTED }, "t", wanted, 2), CS_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(cs_error(), "nobody is missing"));
    ck_assert_int_eq(read_as(&(ce_checkpoint_reading){ .names = CE_NAMES_ALL }, "t", wanted, 2), CS_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(cs_error(), "nobody is missing, and 7 more tensors differ"));
    ck_assert_int_eq(read_as(&(ce_checkpoint_reading){ .names = CE_NAMES_ALL }, "t", wanted, 1), CS_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(cs_error(), " is in the checkpoint and not in this model, and 6 more tensors differ"));
    ck_assert_int_eq(read_as(&(ce_checkpoint_reading){ .names = CE_NAMES_LOOSE }, "t", wanted, 2), CS_OK);
    ck_assert_float_eq(ln[0], 160);
    ck_assert_float_eq(other[0], 5); /* unchanged, because the tensor is missing */
    ce_piece wrong = wanted[0];
    wrong.shape[0] = 13;
    ck_assert_int_eq(read_as(&(ce_checkpoint_reading){ .names = CE_NAMES_LOOSE }, "t", &wrong, 1), CS_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(cs_error(), "h.0.ln.weight is [12] in the checkpoint and [13] in this model"));
    shell_leave();
}
END_TEST

START_TEST(verification)
{
    float ln[12];
    ce_piece piece = { .name = "h.0.ln.weight",
                       .folder = "weights",
                       .dtype = CS_F32,
                       .dims = 1,
                       .shape = { 12 },
                       .range = { 0, 12 },
                       .data = ln };
    shell_enter();
    ck_assert_int_eq(saved_save("out", "t", 1), CS_OK);
    shell_flip(SHARD, 4100); /* a byte of the tensor `conv`, which the next two calls do not read */
    ck_assert_int_eq(read_as(&(ce_checkpoint_reading){ .verify = CE_VERIFY_TOUCHED }, "t", &piece, 1), CS_OK);
    ck_assert_int_eq(read_as(&(ce_checkpoint_reading){ .verify = CE_VERIFY_FULL }, "t", &piece, 1), CS_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(cs_error(), "block 0 of tensor conv"));
    piece = (ce_piece){
        .name = "conv", .folder = "weights", .dtype = CS_F32, .dims = 1, .shape = { 105 }, .range = { 0, 4 }, .data = ln
    };
    memcpy(piece.shape, (int64_t[]){ 3, 5, 7 }, 3 * sizeof(int64_t));
    piece.dims = 3;
    ck_assert_int_eq(read_as(&(ce_checkpoint_reading){ .verify = CE_VERIFY_TOUCHED }, "t", &piece, 1), CS_BAD_FILE);
    ck_assert_int_eq(read_as(&(ce_checkpoint_reading){ .verify = CE_VERIFY_OFF }, "t", &piece, 1), CS_OK);
    shell_leave();
}
END_TEST

START_TEST(a_wrong_latest_falls_back_or_fails)
{
    static const ce_checkpoint_reading trusting = { .no_fallback = true };
    shell_enter();
    ck_assert_int_eq(read_as(&trusting, NULL, NULL, 0), CS_NOT_FOUND);
    ck_assert_int_eq(saved_save("out", "a", 1), CS_OK);
    ck_assert_int_eq(saved_save("out", "b", 2), CS_OK);
    ck_assert_int_eq(read_as(&trusting, NULL, NULL, 0), CS_OK);
    shell_write("out/latest", "gone");
    ck_assert_int_eq(read_as(&trusting, NULL, NULL, 0), CS_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(cs_error(), "on_bad_latest"));
    ck_assert_int_eq(read_as(&(ce_checkpoint_reading){ 0 }, NULL, NULL, 0), CS_OK);
    ck_assert_int_eq(shell_run("rm out/latest"), 0);
    ck_assert_int_eq(read_as(&trusting, NULL, NULL, 0), CS_BAD_FILE);
    shell_leave();
}
END_TEST

START_TEST(all_kinds_of_writers_write_the_same_bytes)
{
    enum { COUNT = 300001 };
    float *data = malloc(COUNT * sizeof *data), *back = malloc(COUNT * sizeof *back);
    static const ce_checkpoint_writing ways[] = {
        { 0 }, { .threads = 4 }, { .buffer_bytes = 4096 }, { .buffered = true }, { 3, 12288, true }
    };
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)i;
    shell_enter();
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        cs_comm *comm = saved_world();
        ce_piece pieces[] = { { .name = "a",
                                .folder = "weights",
                                .dtype = CS_F32,
                                .dims = 1,
                                .shape = { COUNT },
                                .range = { 0, COUNT },
                                .data = data },
                              { .name = "b",
                                .folder = "optim",
                                .dtype = CS_F32,
                                .dims = 1,
                                .shape = { COUNT },
                                .range = { 0, COUNT },
                                .data = data } };
        ce_checkpoint_content content = {
            .tag = "t", .config_text = "{}", .pieces = pieces, .piece_count = 2, .writing = ways[i]
        };
        ck_assert_msg(ce_checkpoint_save(comm, "out", &content) == CS_OK, "%s", cs_error());
        cs_comm_close(comm);
        for (int k = 0; k < 2; k++) {
            pieces[k].data = back;
            memset(back, 0, COUNT * sizeof *back);
            ck_assert_int_eq(read_as(&(ce_checkpoint_reading){ .verify = CE_VERIFY_FULL }, NULL, &pieces[k], 1), CS_OK);
            ck_assert_mem_eq(back, data, COUNT * sizeof *back);
        }
    }
    free(data);
    free(back);
    shell_leave();
}
END_TEST

/* The engine's options: load_module_strict, and the keys of cspeed.checkpoint. */
static int engine_options(void *argument)
{
    run_spec spec = { .world = 1, .stage = 1, .precision = "fp32", .steps = 4 };
    (void)argument;
    spec.set[0] = "cspeed.checkpoint.writer_threads=3";
    spec.set[1] = "cspeed.checkpoint.verify_on_load=full";
    spec.set[2] = "cspeed.checkpoint.on_bad_latest=fail";
    spec.set[3] = "cspeed.checkpoint.direct=false";
    cs_engine *engine = run_open(&spec, NULL);
    run_step(engine, &spec);
    CS_MUST(cs_save_checkpoint(engine, "out", NULL, NULL));
    cs_destroy(engine);
    spec.set[4] = "cspeed.model.n_layer=2"; /* a smaller model: the surplus tensors are an error or are ignored */
    engine = run_open(&spec, NULL);
    CE_ASSERT(cs_load_checkpoint(engine, "out", NULL, NULL, NULL) == CS_BAD_FILE);
    CE_ASSERT(strstr(cs_error(), "transformer.h.2."));
    CE_ASSERT(strstr(cs_error(), " is in the checkpoint and not in this model"));
    CS_MUST(cs_load_checkpoint(engine, "out", NULL, &(cs_load_options){ .loose = true }, NULL));
    CE_ASSERT(cs_last_step(engine).step == 1);
    cs_destroy(engine);
    return 0;
}

START_TEST(options_of_the_engine)
{
    shell_enter();
    run_ranks(1, engine_options, NULL);
    shell_leave();
}
END_TEST

SUITE_MAIN("reading", names, verification, a_wrong_latest_falls_back_or_fails,
           all_kinds_of_writers_write_the_same_bytes, options_of_the_engine)
