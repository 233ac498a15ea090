/* test_checkpoint.c - what is saved is loaded again, at other world sizes and in other types, under any tag; pruning
 * keeps what it should. */
#include "saved.h"
#include "shell.h"
#include "suite.h"

#include "checkpoint/tag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool exists(const char *path)
{
    struct stat about;
    return lstat(path, &about) == 0;
}

static void expect_latest(const char *tag)
{
    size_t bytes;
    char *text = shell_read("out/latest", &bytes);
    ck_assert_str_eq(text, tag);
    free(text);
}

START_TEST(any_world_to_any_world)
{
    shell_enter();
    for (int deal = SAVED_FLAT; deal <= SAVED_EACH; deal++) {
        for (int ranks = 1; ranks <= 4; ranks++) {
            saved_save_ranks(ranks, (saved_deal)deal, "out", "x", ranks + 10 * deal);
            for (int others = 1; others <= 4; others++)
                saved_load_ranks(others, (saved_deal)((deal + others) % 2), "out", NULL, ranks + 10 * deal);
        }
    }
    shell_leave();
}
END_TEST

/* Some ranks have no elements; files are still numbered consecutively. */
START_TEST(more_ranks_than_elements)
{
    shell_enter();
    saved_save_ranks(7, SAVED_EACH, "out", "x", 3);
    saved_load_ranks(5, SAVED_FLAT, "out", NULL, 3);
    ck_assert_int_eq(shell_run("cd out/x/weights && n=$(ls | wc -l) && for i in $(seq $n); do "
                               "[ -f $(printf shard-%%05d-of-%%05d.safetensors $i $n) ] || exit 1; done"),
                     0);
    shell_leave();
}
END_TEST

START_TEST(types_convert)
{
    static const cs_dtype dtypes[] = { CS_F32, CS_BF16, CS_F16 };
    float wide[6] = { 0, 1, -2.5f, 1024, 0.15625f, -0.0078125f }; /* values that all three types represent exactly */
    cs_comm *comm = saved_world();
    ce_piece piece = {
        .name = "w", .folder = "weights", .dtype = CS_F32, .dims = 2, .shape = { 2, 3 }, .range = { 0, 6 }, .data = wide
    };
    ce_checkpoint_content content = { .tag = "t", .config_text = "{}", .pieces = &piece, .piece_count = 1 };
    shell_enter();
    SHOULD(ce_checkpoint_save(comm, "out", &content));
    for (int from = 0; from < 3; from++) {
        uint16_t stored[6], got[12];
        ce_checkpoint_reader *reader;
        piece.dtype = dtypes[from];
        piece.data = from ? (void *)stored : (void *)wide;
        if (from) { /* loads the values converted to this type, and saves the result with another tag */
            SHOULD(ce_checkpoint_open(&reader, comm, "out", "t"));
            SHOULD(ce_checkpoint_read(reader, comm, &piece, 1));
            ce_checkpoint_close(reader);
            content.tag = "u";
            SHOULD(ce_checkpoint_save(comm, "out", &content));
        }
        for (int to = 0; to < 3; to++) {
            float back[6];
            SHOULD(ce_checkpoint_open(&reader, comm, "out", content.tag));
            piece.dtype = dtypes[to];
            piece.data = to ? (void *)got : (void *)back;
            SHOULD(ce_checkpoint_read(reader, comm, &piece, 1));
            ce_checkpoint_close(reader);
            if (to == 0)
                ck_assert_mem_eq(back, wide, sizeof wide);
            else if (to == from)
                ck_assert_mem_eq(got, stored, sizeof stored);
        }
        SHOULD(ce_checkpoint_open(&reader, comm, "out", content.tag));
        piece.dtype = CS_I32;
        SHOULD_SAY(ce_checkpoint_read(reader, comm, &piece, 1), CS_BAD_FILE, "in the checkpoint and I32 in this model");
        ce_checkpoint_close(reader);
    }
    shell_leave();
    cs_comm_close(comm);
}
END_TEST

START_TEST(state_and_provenance_are_read_back)
{
    cs_comm *comm = saved_world();
    json_t *engine = json_pack("{s:I, s:f}", "samples", (json_int_t)1 << 53, "scale", 0.5);
    json_t *aliases = json_pack("{s:s}", "lm_head.weight", "wte");
    json_t *provenance = json_pack("{s:i}", "world_size", 1);
    const char *state = " {\"b\":1,\n\"a\": \"\xc3\xa9\"}\n\n";
    ce_checkpoint_reader *reader;
    ce_checkpoint_content content = { .tag = "a",
                                      .client_state = state,
                                      .config_text = "// as it was\n{}",
                                      .engine = engine,
                                      .aliases = aliases,
                                      .provenance = provenance,
                                      .step = 5 };
    shell_enter();
    SHOULD(ce_checkpoint_save(comm, "deep/down/out/", &content));
    SHOULD(ce_checkpoint_open(&reader, comm, "deep/down/out", NULL));
    ck_assert_str_eq(ce_checkpoint_client_state(reader), state);
    ck_assert_str_eq(ce_checkpoint_tag(reader), "a");
    ck_assert(json_equal(ce_checkpoint_engine(reader), engine));
    ck_assert(json_equal(ce_checkpoint_provenance(reader), provenance));
    ce_checkpoint_close(reader);
    content.client_state = "best so far";
    ck_assert_int_eq(ce_checkpoint_save(comm, "deep/down/out", &content), CS_BAD_CONFIG);
    ck_assert_msg(strstr(cs_error(), "client state is not JSON text (line 1, column") != NULL, "%s", cs_error());
    content.client_state = NULL;
    SHOULD(ce_checkpoint_save(comm, "deep/down/out", &content));
    SHOULD(ce_checkpoint_open(&reader, comm, "deep/down/out", NULL));
    ck_assert_ptr_null(ce_checkpoint_client_state(reader));
    ce_checkpoint_close(reader);
    ck_assert(!exists("deep/down/out/a/client_state.json"));
    size_t bytes;
    char *text = shell_read("deep/down/out/a/ds_config.json", &bytes);
    ck_assert_str_eq(text, content.config_text);
    free(text);
    shell_leave();
    json_decref(engine);
    json_decref(aliases);
    json_decref(provenance);
    cs_comm_close(comm);
}
END_TEST

START_TEST(tags)
{
    static const struct {
        const char *tag, *name;
    } rows[] = {
        { "global_step10", "global_step10" },
        { "a b/c", "a%20b%2Fc" },
        { "..", "%2E." },
        { ".hidden", "%2Ehidden" },
        { "latest", "%6Catest" },
        { "manifest.json", "%6Danifest.json" },
        { "global_step10~damaged", "global_step10%7Edamaged" },
        { "\xc3\xa9%", "%C3%A9%25" },
        { "a\nb", "a%0Ab" },
        { "/etc", "%2Fetc" },
    };
    char name[CE_TAG_BYTES], tag[CE_TAG_BYTES], path[300], longest[300];
    shell_enter();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        SHOULD(ce_tag_escape(name, rows[i].tag));
        ck_assert_str_eq(name, rows[i].name);
        ce_tag_unescape(tag, name);
        ck_assert_str_eq(tag, rows[i].tag);
        SHOULD(saved_save("out", rows[i].tag, (int64_t)i));
        expect_latest(rows[i].tag);
        snprintf(path, sizeof path, "out/%s/manifest.json", rows[i].name);
        ck_assert(exists(path));
        SHOULD(saved_load("out", NULL, NULL));
        SHOULD(saved_load("out", rows[i].tag, NULL));
    }
    memset(longest, 'x', sizeof longest);
    longest[255] = 0;
    SHOULD(saved_save("out", longest, 1));
    SHOULD(saved_load("out", NULL, NULL));
    longest[254] = '/';
    SHOULD_SAY(saved_save("out", longest, 1), CS_BAD_CONFIG, "255 bytes");
    SHOULD_SAY(saved_save("out", "", 1), CS_BAD_CONFIG, "is empty;");
    SHOULD_SAY(saved_save("out", "\xff", 1), CS_BAD_CONFIG, "UTF-8");
    SHOULD_SAY(saved_load("out", "nope", NULL), CS_NOT_FOUND, "global_step10");
    SHOULD_SAY(saved_load("nowhere", NULL, NULL), CS_NOT_FOUND, "nowhere");
    ck_assert_int_eq(shell_run("ls -A out | grep -c cspeed"), 1); /* no staging directory is left */
    shell_leave();
}
END_TEST

START_TEST(saving_a_tag_again)
{
    int64_t step;
    shell_enter();
    for (int64_t i = 0; i < 4; i++) {
        SHOULD(saved_save("out", "same", i));
        SHOULD(saved_load("out", "same", &step));
        ck_assert_int_eq(step, i);
    }
    ck_assert_int_eq(shell_run("[ \"$(ls -A out | tr '\\n' ' ')\" = 'latest same ' ]"), 0);
    shell_leave();
}
END_TEST

/* On a file system that cannot exchange two directories, a save that is killed after it has removed the earlier
 * checkpoint of its tag leaves a complete checkpoint without its name. The next save gives it the name, whether `latest`
 * names the tag or not, and removes an incomplete one. */
START_TEST(complete_checkpoints_get_their_names)
{
    int64_t step;
    shell_enter();
    SHOULD(saved_save("out", "best", 5));
    SHOULD(saved_save("out", "other", 6));
    ck_assert_int_eq(shell_run(
                         "mv out/best out/.cspeed-tmp-best-deadbeef && printf best > out/.cspeed-tmp-best-deadbeef/"
                         "latest.tmp && cp -r out/other out/.cspeed-tmp-third-deadbeef"),
                     0);
    SHOULD(saved_save("out", "next", 7));
    ck_assert_int_eq(shell_run("[ \"$(ls -A out | tr '\\n' ' ')\" = 'best latest next other ' ]"), 0);
    SHOULD(saved_load("out", "best", &step));
    ck_assert_int_eq(step, 5);
    expect_latest("next");
    shell_leave();
}
END_TEST

/* Saves steps 1 to 9 with keep_last 2, keep_every 4 and keep_step 5, then step 3 with another tag, and checks what remains. */
START_TEST(pruning)
{
    cs_comm *comm = saved_world();
    ce_checkpoint_content content = { .config_text = "{}", .keep_last = 2, .keep_every = 4, .keep_step = 5 };
    shell_enter();
    ck_assert_int_eq(
        shell_run("mkdir -p out/notes out/broken && echo keep > out/notes/x && echo '{}' > out/broken/manifest.json"),
        0);
    for (int step = 1; step <= 9; step++) {
        char tag[32];
        snprintf(tag, sizeof tag, "step/%d", step);
        content.tag = tag;
        content.step = step;
        SHOULD(ce_checkpoint_save(comm, "out", &content));
        if (step == 2)
            ck_assert_int_eq(shell_run("cp -r out/step%%2F1 out/mine"), 0);
    }
    ck_assert_int_eq(shell_run("[ \"$(ls -A out | tr '\\n' ' ')\" = "
                               "'broken latest mine notes step%%2F4 step%%2F5 step%%2F8 step%%2F9 ' ]"),
                     0);
    content.tag = "old";
    content.step = 3; /* is kept because `latest` names it, although two other steps are higher */
    SHOULD(ce_checkpoint_save(comm, "out", &content));
    ck_assert(exists("out/old/manifest.json"));
    ck_assert(exists("out/step%2F8/manifest.json"));
    ck_assert(exists("out/step%2F9/manifest.json"));
    shell_leave();
    cs_comm_close(comm);
}
END_TEST

START_TEST(pieces_must_fit_together)
{
    float data[64] = { 0 };
    cs_comm *comm = saved_world();
    ce_piece piece[2] = { { .name = "w",
                            .folder = "weights",
                            .dtype = CS_F32,
                            .dims = 2,
                            .shape = { 8, 8 },
                            .range = { 0, 32 },
                            .data = data },
                          { .name = "w",
                            .folder = "weights",
                            .dtype = CS_F32,
                            .dims = 2,
                            .shape = { 8, 8 },
                            .range = { 32, 64 },
                            .data = data } };
    ce_checkpoint_content content = { .tag = "t", .config_text = "{}", .pieces = piece, .piece_count = 2 };
    shell_enter();
    SHOULD(ce_checkpoint_save(comm, "out", &content));
    piece[1].range.from = 31;
    SHOULD_SAY(ce_checkpoint_save(comm, "out", &content), CS_BAD_CONFIG,
               "elements 31 to 32 of tensor w are written twice");
    piece[1].range.from = 34;
    SHOULD_SAY(ce_checkpoint_save(comm, "out", &content), CS_BAD_CONFIG,
               "elements 32 to 34 of tensor w are written by no rank");
    piece[1].range = (ce_range){ 32, 60 };
    SHOULD_SAY(ce_checkpoint_save(comm, "out", &content), CS_BAD_CONFIG,
               "elements 60 to 64 of tensor w are written by no rank");
    piece[1].range = (ce_range){ 32, 65 };
    SHOULD_SAY(ce_checkpoint_save(comm, "out", &content), CS_BAD_CONFIG, "elements 32 to 65 of 64");
    piece[1].range = (ce_range){ 32, 64 };
    piece[1].folder = "optim";
    SHOULD_SAY(ce_checkpoint_save(comm, "out", &content), CS_BAD_CONFIG, "tensor w has different types");
    piece[1].folder = "elsewhere";
    SHOULD_SAY(ce_checkpoint_save(comm, "out", &content), CS_BAD_CONFIG, "not a folder of a checkpoint");
    piece[1].name = "__metadata__";
    SHOULD_SAY(ce_checkpoint_save(comm, "out", &content), CS_BAD_CONFIG, "is not a valid name of a tensor:");
    ck_assert_int_eq(shell_run("[ \"$(ls -A out | tr '\\n' ' ')\" = 'latest t ' ]"), 0);
    shell_leave();
    cs_comm_close(comm);
}
END_TEST

/* Each rank asks for two tensors that are missing or have another shape. The error on every rank names the first of all
 * these tensors, and how many more there are. */
static int want_too_much(void *argument)
{
    static float data[8];
    cs_comm *comm = saved_world();
    ce_checkpoint_reader *reader;
    ce_piece piece[3] = { { .name = "absent",
                            .folder = "weights",
                            .dtype = CS_F32,
                            .dims = 1,
                            .shape = { 4 },
                            .range = { 0, 4 },
                            .data = data },
                          { .name = "h.0.ln.weight",
                            .folder = "weights",
                            .dtype = CS_F32,
                            .dims = 2,
                            .shape = { 2, 4 },
                            .range = { 0, 4 },
                            .data = data },
                          { .name = "nowhere",
                            .folder = "weights",
                            .dtype = CS_F32,
                            .dims = 1,
                            .shape = { 4 },
                            .range = { 0, 4 },
                            .data = data } };
    (void)argument;
    cs_status status = ce_checkpoint_open(&reader, comm, "out", NULL);
    if (status == CS_OK)
        status = ce_checkpoint_read(reader, comm, piece + cs_comm_rank(comm), 2);
    bool heard = status == CS_BAD_FILE && !ce_checkpoint_is_damaged(reader) &&
                 strstr(cs_error(), "absent is missing, and 2 more tensors differ");
    if (status == CS_OK)
        ce_fail(CS_BAD_FILE, "it was read");
    ce_checkpoint_close(reader);
    cs_comm_close(comm);
    return heard ? 0 : 1;
}

START_TEST(all_missing_tensors_are_reported_together)
{
    shell_enter();
    SHOULD(saved_save("out", "t", 1));
    SHOULD(cs_spawn(2, want_too_much, NULL));
    shell_leave();
}
END_TEST

/* Reads a tensor of several blocks of 16 MiB: ranges that begin inside a block, and ranges beside a damaged block. */
START_TEST(large_tensors)
{
    enum { COUNT = 11 << 20, TAIL = 12345 }; /* 44 MiB: three blocks */
    float *data = malloc((COUNT + TAIL) * sizeof *data), *back = calloc(COUNT + TAIL, sizeof *back);
    cs_comm *comm = saved_world();
    ce_piece piece = { .name = "w",
                       .folder = "weights",
                       .dtype = CS_F32,
                       .dims = 1,
                       .shape = { COUNT + TAIL },
                       .range = { 0, COUNT + TAIL },
                       .data = data };
    ce_checkpoint_content content = { .tag = "t", .config_text = "{}", .pieces = &piece, .piece_count = 1 };
    ce_checkpoint_reader *reader;
    shell_enter();
    for (int i = 0; i < COUNT + TAIL; i++)
        data[i] = (float)(i * 3 % 1000003);
    SHOULD(ce_checkpoint_save(comm, "out", &content));
    SHOULD(ce_checkpoint_open(&reader, comm, "out", NULL));
    piece.data = back;
    SHOULD(ce_checkpoint_read(reader, comm, &piece, 1));
    ck_assert(memcmp(back, data, (COUNT + TAIL) * sizeof *data) == 0);
    piece.range = (ce_range){ (4 << 20) - 3, (8 << 20) + 5 };
    SHOULD(ce_checkpoint_read(reader, comm, &piece, 1));
    ck_assert(memcmp(back, data + piece.range.from, (size_t)ce_range_length(piece.range) * sizeof *data) == 0);
    FILE *file = fopen("out/t/weights/shard-00001-of-00001.safetensors", "r+b");
    fseek(file, 40 << 20, SEEK_SET);
    fputc(~fgetc(file), file);
    fclose(file);
    piece.range = (ce_range){ 0, 8 << 20 };
    SHOULD(ce_checkpoint_read(reader, comm, &piece, 1));
    piece.range.to++;
    SHOULD_SAY(ce_checkpoint_read(reader, comm, &piece, 1), CS_BAD_FILE,
               "shard-00001-of-00001.safetensors: block 2 of tensor w");
    ce_checkpoint_close(reader);
    SHOULD(ce_checkpoint_open_as(&reader, comm, "out", NULL, &(ce_checkpoint_reading){ .verify = CE_VERIFY_OFF }));
    piece.range = (ce_range){ (8 << 20) + 200001, 9 << 20 };
    SHOULD(ce_checkpoint_read(reader, comm, &piece, 1));
    ck_assert(memcmp(back, data + piece.range.from, (size_t)ce_range_length(piece.range) * sizeof *data) == 0);
    ce_checkpoint_close(reader);
    shell_leave();
    cs_comm_close(comm);
    free(data);
    free(back);
}
END_TEST

SUITE_MAIN("checkpoint", any_world_to_any_world, more_ranks_than_elements, types_convert,
           state_and_provenance_are_read_back, tags, saving_a_tag_again, complete_checkpoints_get_their_names, pruning,
           pieces_must_fit_together, all_missing_tensors_are_reported_together, large_tensors)
