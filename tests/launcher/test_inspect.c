/* test_inspect.c - cspeed inspect, verify and diff on checkpoints that are complete, incomplete or damaged, and on
 * those of other programs. */
#include "saved.h"
#include "shell.h"
#include "suite.h"

#include "base/crc.h"
#include "json/json.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static json_t *expect_json(const char *command)
{
    ck_assert_int_eq(shell_run("%s/cspeed %s > out.json", CS_BIN, command), 0);
    json_t *value = json_load_file("out.json", 0, NULL);
    ck_assert_msg(value != NULL, "cspeed %s prints no JSON", command);
    return value;
}

static const char *text_of(const json_t *rows, size_t row, const char *key)
{
    const char *text = json_string_value(json_object_get(json_array_get(rows, row), key));
    return text ? text : "";
}

START_TEST(tags_are_listed)
{
    shell_enter();
    saved_save_ranks(2, SAVED_FLAT, "out", "a b", 10);
    saved_save_ranks(3, SAVED_EACH, "out", "c", 20);
    ck_assert_int_eq(shell_run(
                         "mkdir -p out/half/weights out/mine out/ds && cp -r out/c out/cut && "
                         "touch out/ds/mp_rank_00_model_states.pt && truncate -s 5000 out/cut/weights/shard-00001*"),
                     0);
    shell_expect(0, "c     *     20", "inspect out");
    /* The manifest of out/cut has the tag of out/c, because out/cut is a copy of out/c. The row of out/cut shows the
     * name of the folder. */
    shell_expect(0, "\ncut         20", "inspect out");
    shell_expect(0, "half", "inspect out");
    json_t *rows = expect_json("inspect out --json");
    ck_assert_uint_eq(json_array_size(rows), 5);
    ck_assert_str_eq(text_of(rows, 0, "status"), "whole"); /* rows 0 and 1 are out/c and out/cut */
    ck_assert_str_eq(text_of(rows, 1, "status"), "DAMAGED");
    ck_assert_str_eq(text_of(rows, 2, "tag"), "a b");
    ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(rows, 2), "step")), 10);
    ck_assert(json_is_false(json_object_get(json_array_get(rows, 2), "latest")));
    ck_assert_str_eq(text_of(rows, 3, "status"), "foreign");
    ck_assert_ptr_nonnull(strstr(text_of(rows, 3, "why"), "torch.load(sys.argv[1]"));
    ck_assert_str_eq(text_of(rows, 4, "status"), "INCOMPLETE");
    json_decref(rows);
    shell_expect(0, "a checkpoint of DeepSpeed", "inspect out");
    ck_assert_int_eq(shell_run("cp -r out/c \"$(printf 'out/n\\033[31m\\nx')\""), 0);
    shell_expect(0, "n?[31m?x", "inspect out"); /* a name is no command for the terminal */
    shell_expect(66, "n?[31mx", "inspect \"$(printf 'n\\033[31mx')\"");
    shell_expect(66, "nowhere", "inspect nowhere");
    ck_assert_int_eq(mkdir("empty", 0777), 0);
    shell_expect(66, "contains no checkpoint", "inspect empty");
    shell_expect(64, "name a folder", "inspect");
    shell_expect(64, "unknown flag --bogus; see", "inspect out --bogus");
    shell_expect(64, "unknown argument more", "inspect out more");
    shell_expect(64, "--tag needs a value", "verify out --tag");
    shell_expect(64, "--tensors has an empty value", "diff out --tensors= out");
    shell_leave();
}
END_TEST

START_TEST(tensors_and_numbers)
{
    shell_enter();
    saved_save_ranks(3, SAVED_FLAT, "out", "t", 1);
    json_t *list = expect_json("inspect out --tensors 'wte*' --json"), *parts;
    ck_assert_uint_eq(json_array_size(list), 1);
    ck_assert_str_eq(text_of(list, 0, "dtype"), "F32");
    parts = json_object_get(json_array_get(list, 0), "parts");
    int64_t rows = 0, elements = 0;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *size = json_object_get(json_array_get(parts, i), "size");
        elements += json_integer_value(json_array_get(size, 0)) * json_integer_value(json_array_get(size, 1));
        rows = json_integer_value(json_object_get(json_array_get(parts, i), "last_row")) > rows
                   ? json_integer_value(json_object_get(json_array_get(parts, i), "last_row"))
                   : rows;
        ck_assert_ptr_nonnull(strstr(text_of(parts, i, "file"), "weights/shard-"));
    }
    ck_assert_int_eq(rows, 36);
    ck_assert_int_eq(elements, 37 * 12);
    json_decref(list);
    shell_expect(0, "wte.weight  F32 [37, 12]  1776 bytes", "inspect out/t --tensors '*wte*'");
    shell_expect(0, "state.wte.weight.exp_avg", "inspect out --tag t --tensors '*wte*'");
    shell_expect(0, "client state {\"a\": 1}", "inspect out --tag t");

    /* Element i of this tensor is 131 + 7 i + 29, for i from 0 to 11. */
    json_t *stats = expect_json("inspect out --stats h.0.ln.weight --json");
    ck_assert_double_eq(json_number_value(json_object_get(stats, "min")), 160);
    ck_assert_double_eq(json_number_value(json_object_get(stats, "max")), 237);
    ck_assert_double_eq_tol(json_number_value(json_object_get(stats, "mean")), 198.5, 1e-12);
    ck_assert_double_eq_tol(json_number_value(json_object_get(stats, "std")), 7 * sqrt(143.0 / 12), 1e-9);
    ck_assert_int_eq(json_integer_value(json_object_get(stats, "count")), 12);
    json_decref(stats);
    shell_expect(66, "holds no tensor nobody", "inspect out --stats nobody");
    shell_leave();
}
END_TEST

static void save_floats(const char *dir, float *data, int64_t count)
{
    cs_comm *comm = saved_world();
    ce_piece piece = { .name = "w",
                       .folder = "weights",
                       .dtype = CS_F32,
                       .dims = 1,
                       .shape = { count },
                       .range = { 0, count },
                       .data = data };
    ce_checkpoint_content content = { .tag = "t", .config_text = "{}", .step = 1, .pieces = &piece, .piece_count = 1 };
    SHOULD(ce_checkpoint_save(comm, dir, &content));
    cs_comm_close(comm);
}

START_TEST(what_is_not_finite_is_counted)
{
    float values[6] = { 1, NAN, -3, INFINITY, NAN, 5 };
    shell_enter();
    save_floats("out", values, 6);
    json_t *stats = expect_json("inspect out --stats w --json"), *bins = json_object_get(stats, "histogram");
    ck_assert_int_eq(json_integer_value(json_object_get(stats, "nan")), 2);
    ck_assert_int_eq(json_integer_value(json_object_get(stats, "infinite")), 1);
    ck_assert_double_eq(json_number_value(json_object_get(stats, "mean")), 1);
    ck_assert_double_eq(json_number_value(json_object_get(stats, "min")), -3);
    ck_assert_int_eq(json_integer_value(json_array_get(bins, 0)), 1);
    ck_assert_int_eq(json_integer_value(json_array_get(bins, 8)), 1);
    ck_assert_int_eq(json_integer_value(json_array_get(bins, 15)), 1);
    json_decref(stats);
    shell_leave();
}
END_TEST

/* Damages each region in turn: the manifest, the JSON files beside it, and the header, padding and data of a
 * safetensors file. If several regions are damaged, `verify` reports each of them. */
START_TEST(damage_is_named)
{
    static const char *const shard = "out/t/weights/shard-00001-of-00001.safetensors";
    shell_enter();
    SHOULD(saved_save("out", "t", 1));
    shell_expect(0, "whole", "verify out");
    shell_expect(0, "whole", "verify out/t");
    static const struct {
        const char *file, *words;
        long offset;
    } rows[] = {
        { "out/t/manifest.json", "manifest.json: its text has CRC32C", 100 },
        { "out/t/client_state.json", "client_state.json has CRC32C", 3 },
        { "out/t/ds_config.json", "ds_config.json has CRC32C", 1 },
        { "out/t/weights/shard-00001-of-00001.safetensors", "header has CRC32C", 200 },
        { "out/t/weights/shard-00001-of-00001.safetensors", "shard-00001-of-00001.safetensors: its header has", 4095 },
        { "out/t/weights/shard-00001-of-00001.safetensors", "shard-00001-of-00001.safetensors: block 0 of tensor ",
          4500 },
        { "out/t/optim/shard-00001-of-00001.safetensors",
          "optim/shard-00001-of-00001.safetensors: block 0 of tensor state.", 4300 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        shell_flip(rows[i].file, rows[i].offset);
        shell_expect(65, rows[i].words, "verify out");
        shell_expect(65, "1 fault\n", "verify out");
        shell_flip(rows[i].file, rows[i].offset);
    }
    shell_flip(shard, 4500);
    shell_flip(rows[6].file, 4300);
    shell_flip(rows[1].file, 3);
    shell_expect(65, "3 faults", "verify out --tag t");
    ck_assert_int_eq(shell_run("%s/cspeed verify out --json > out.json", CS_BIN), 65);
    json_t *all = json_load_file("out.json", 0, NULL);
    ck_assert_uint_eq(json_array_size(json_object_get(all, "faults")), 3);
    json_decref(all);
    shell_flip(rows[1].file, 3);
    shell_expect(65, "block 0 of tensor", "inspect out --stats conv");
    ck_assert_int_eq(shell_run("rm %s", shard), 0);
    shell_expect(65, "is missing, though the manifest lists it", "verify out");
    shell_expect(66, "out has no checkpoint \"gone\"", "verify out --tag gone");
    shell_expect(66, "out does", "verify .");
    SHOULD(saved_save("out", "best 1/2", 2));
    shell_expect(0, "whole", "verify out/best%201%2F2/");
    ck_assert_int_eq(shell_run("cp -r out/best%%201%%2F2 out/copied"), 0);
    shell_expect(0, "whole", "verify out/copied");
    shell_flip("out/best%201%2F2/manifest.json", 100);
    shell_expect(65, "manifest.json: its text has CRC32C", "verify out/best%201%2F2");
    shell_leave();
}
END_TEST

/* Replaces a part of the manifest and corrects the checksum. A checkpoint that cannot be loaded must not pass
 * verify. */
static void alter_manifest(const char *from, const char *to)
{
    char *text = shell_read("out/t/manifest.json", NULL), *at = strstr(text, from), digits[9];
    size_t capacity = strlen(text) + strlen(to) + 1;
    ck_assert_msg(at != NULL, "%s is not in %s", from, text);
    char *changed = malloc(capacity);
    snprintf(changed, capacity, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    char *place = strstr(changed, "\"crc32c\": \"") + strlen("\"crc32c\": \"");
    memcpy(place, "00000000", 8);
    snprintf(digits, sizeof digits, "%08x", (unsigned)ce_crc32c(0, changed, strlen(changed)));
    memcpy(place, digits, 8);
    shell_write("out/t/manifest.json", changed);
    free(changed);
    free(text);
}

START_TEST(verify_and_load_agree)
{
    static const char *const rows[][3] = {
        { "\"version\": 1", "\"version\": -1", "no format version -1" },
        { "\"engine\": {\n  \"global_step\": 1\n }", "\"engine\": null", "\"engine\" is missing or no object" },
        { "\"global_step\": 1", "\"global_step\": -5", "\"global_step\" is not a whole number" },
        { "\"step\": 1", "\"step\": 9223372036854775807", "\"step\" is missing or wrong" },
        { "\"bytes\": 8,\n  \"crc", "\"bytes\": 9,\n  \"crc",
          "client_state.json has 8 bytes where the manifest says 9" },
        { "\"bytes\": 8,\n  \"crc", "\"bytes\": 9223372036854775807,\n  \"crc", "does not describe client_state.json" },
        { "\"optim/shard-00001-of-00001", "\"weights/shard-00001-of-00001", "is listed twice" },
    };
    shell_enter();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        SHOULD(saved_save("out", "t", 1));
        shell_expect(0, "whole", "verify out");
        alter_manifest(rows[i][0], rows[i][1]);
        shell_expect(65, rows[i][2], "verify out");
        ck_assert_int_eq(saved_load("out", "t", NULL), CS_BAD_FILE);
        ck_assert_msg(strstr(cs_error(), rows[i][2]) != NULL, "%s", cs_error());
        if (!strstr(rows[i][2], "8 bytes")) /* `inspect` does not check the sizes of these JSON files */
            shell_expect(0, "DAMAGED", "inspect out");
    }
    shell_leave();
}
END_TEST

/* Whether the process has a file below this folder open, or has ended. */
static bool reads_or_has_ended(pid_t process, const char *folder)
{
    char path[64], to[4096];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)process);
    DIR *listing = opendir(path);
    int count = 0;
    bool reads = false;
    for (struct dirent *entry; listing && (entry = readdir(listing)) != NULL; count += entry->d_name[0] != '.') {
        ssize_t length = readlinkat(dirfd(listing), entry->d_name, to, sizeof to - 1);
        to[length > 0 ? length : 0] = '\0';
        reads |= strstr(to, folder) != NULL;
    }
    if (listing)
        closedir(listing);
    return reads || count == 0;
}

/* Stops the command while it reads, moves the checkpoint away, and lets the command continue. Tries again if the command
 * had read everything when it was stopped. */
START_TEST(removed_while_it_is_read)
{
    enum { COUNT = 16 << 20, ROUNDS = 400 };
    float *data = calloc(COUNT, sizeof *data);
    bool met = false;
    shell_enter();
    save_floats("out", data, COUNT);
    for (int round = 0; round < ROUNDS && !met; round++) {
        pid_t child = shell_start("%s/cspeed verify out/t", CS_BIN);
        while (!reads_or_has_ended(child, "/out/t/"))
            ;
        kill(-child, SIGSTOP);
        ck_assert_int_eq(rename("out/t", "gone"), 0);
        kill(-child, SIGCONT);
        int code = shell_wait(child);
        char *text = shell_read("out.txt", NULL);
        met = strstr(text, "was removed or replaced while it was read") != NULL;
        ck_assert_msg(!strstr(text, "DAMAGED") && (code == 66 || (code == 0 && !met)), "exit code %d: %s", code, text);
        free(text);
        ck_assert_int_eq(rename("gone", "out/t"), 0);
    }
    ck_assert(met);
    free(data);
    shell_leave();
}
END_TEST

START_TEST(differences_are_reported)
{
    float a[6] = { 1, 2, 3, 4, 5, 6 }, b[6] = { 1, 2, 3.5f, 4, 5, NAN };
    shell_enter();
    saved_save_ranks(2, SAVED_FLAT, "one", "t", 1);
    saved_save_ranks(3, SAVED_EACH, "two", "t", 1);
    /* the number of ranks that saved does not matter */
    shell_expect(0, "12 of 12 tensors are the same", "diff one two");
    save_floats("a", a, 6);
    save_floats("b", b, 6);
    save_floats("c", a, 5);
    shell_expect(1, "w: 2 elements differ, by at most \"inf\"; the first at [2]: 3.0 and 3.5", "diff a b");
    shell_expect(1, "w: shape [6] and [5]", "diff a/t c/t");
    shell_expect(1, "wte.weight: only in one", "diff one a");
    saved_save_ranks(1, SAVED_EACH, "two", "u", 2);
    shell_expect(1, "state.steps: 3 elements differ, by at most 29.0", "diff one two --tensors 'state.*'");
    shell_expect(66, "nowhere", "diff one nowhere");
    shell_expect(64, "name two", "diff one");
    shell_leave();
}
END_TEST

/* The tensor is much larger than the memory limit. Skipped if not even a small one fits under the limit, because a
 * sanitizer needs memory itself. */
START_TEST(memory_stays_flat)
{
    enum { COUNT = 48 << 20, LIMIT_KB = 120000 };
    float *data = calloc(COUNT, sizeof *data), few[2] = { 1, 2 };
    shell_enter();
    save_floats("small", few, 2);
    if (shell_run("ulimit -v %d; %s/cspeed verify small", LIMIT_KB, CS_BIN) != 0) {
        printf("skipped: flat memory (no program starts with %d KB here)\n", LIMIT_KB);
    } else {
        for (int i = 0; i < COUNT; i += 1000)
            data[i] = 1;
        save_floats("large", data, COUNT);
        data[COUNT - 1] = 2;
        save_floats("other", data, COUNT);
        ck_assert_int_eq(shell_run("ulimit -v %d; %s/cspeed verify large", LIMIT_KB, CS_BIN), 0);
        ck_assert_int_eq(shell_run("ulimit -v %d; %s/cspeed inspect large --stats w", LIMIT_KB, CS_BIN), 0);
        ck_assert_int_eq(shell_run("ulimit -v %d; %s/cspeed inspect large", LIMIT_KB, CS_BIN), 0);
        ck_assert_int_eq(shell_run("ulimit -v %d; %s/cspeed diff large other", LIMIT_KB, CS_BIN), 1);
        char *text = shell_read("out.txt", NULL);
        ck_assert_msg(strstr(text, "w: 1 elements differ, by at most 2.0; the first at [50331647]") != NULL, "%s",
                      text);
        free(text);
    }
    free(data);
    shell_leave();
}
END_TEST

/* Checkpoints of other programs are refused with the name of their format, by these commands and by loading. */
START_TEST(foreign_checkpoints)
{
    static const char *const rows[][2] = {
        { "mp_rank_00_model_states.pt", "a checkpoint of DeepSpeed" },
        { "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt", "zero_to_fp32 import" },
        { "zero_pp_rank_3_mp_rank_00_model_states.pt", "from zero_to_fp32 import" },
        { "layer_01-model_00-model_states.pt", "a checkpoint of DeepSpeed" },
        { "optimizer_state.pt", "universal checkpoint" },
        { "optimizer_state.pt", "from_deepspeed.py 'out' --tag 'global_step5'" },
        { "zero_pp_rank_0_mp_rank_00_model_states.pt out/global_step5/zero", "universal checkpoint" },
        { "__0_0.distcp", "dcp_to_torch" },
        { "pytorch_model-00001-of-00002.bin", "can run code" },
    };
    shell_enter();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_int_eq(shell_run("rm -rf out && mkdir -p out/global_step5 && touch out/global_step5/%s && "
                                   "printf global_step5 > out/latest",
                                   rows[i][0]),
                         0);
        shell_expect(0, rows[i][1], "inspect out");
        ck_assert_int_eq(saved_load("out", "global_step5", NULL), CS_UNSUPPORTED);
        ck_assert_ptr_nonnull(strstr(cs_error(), rows[i][1]));
        ck_assert_int_ne(saved_load("out", NULL, NULL), CS_OK);
        ck_assert_msg(strstr(cs_error(), rows[i][1]) != NULL, "%s", cs_error());
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("inspect", tags_are_listed, tensors_and_numbers, what_is_not_finite_is_counted, damage_is_named,
           verify_and_load_agree, removed_while_it_is_read, differences_are_reported, memory_stays_flat,
           foreign_checkpoints)
