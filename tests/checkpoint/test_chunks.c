/* test_chunks.c - shards that another program could have written: any boxes are accepted if they cover the tensor
 * exactly once. */
#include "saved.h"
#include "shell.h"
#include "suite.h"

#include "base/crc.h"
#include "checkpoint/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ROWS = 4, COLUMNS = 6, ELEMENTS = ROWS * COLUMNS, MAX_COUNT = 6 };

typedef struct {
    int row, column, rows, columns;
} box;

static float value(int row, int column)
{
    return (float)(100 * row + column);
}

/* Sets `data` to the values of the box's elements, in row-major order, and returns their number. */
static int fill(float *data, box b)
{
    int count = 0;
    for (int row = b.row; row < b.row + b.rows; row++)
        for (int column = b.column; column < b.column + b.columns; column++)
            data[count++] = value(row, column);
    return count;
}

/* Writes one shard with these boxes of tensor w (ROWS, COLUMNS) and returns its entry of the manifest. */
static json_t *write_shard(const box *boxes, int count, const char *save_id)
{
    json_t *header = json_object(), *sharding = json_object(), *crcs = json_object();
    float data[MAX_COUNT * ELEMENTS];
    int used = 0;
    for (int i = 0; i < count; i++) {
        char key[32], digits[9];
        int elements = fill(data + used, boxes[i]);
        snprintf(key, sizeof key, "w.__dcp_shard_%d", i);
        snprintf(digits, sizeof digits, "%08x", (unsigned)ce_crc32c(0, data + used, (size_t)elements * sizeof *data));
        json_object_set_new(crcs, key, json_pack("[s]", digits));
        json_object_set_new(sharding, key,
                            json_pack("{s:[i,i], s:s}", "saved_offsets", boxes[i].row, boxes[i].column, "logical_fqn",
                                      "w"));
        json_object_set_new(header, key,
                            json_pack("{s:s, s:[i,i], s:[i,i]}", "dtype", "F32", "shape", boxes[i].rows,
                                      boxes[i].columns, "data_offsets", used * 4, (used + elements) * 4));
        used += elements;
    }
    char *sharding_text = json_dumps(sharding, 0), *crcs_text = json_dumps(crcs, 0);
    json_object_set_new(header, "__metadata__",
                        json_pack("{s:s, s:s, s:s, s:s}", "cspeed.version", "1", "cspeed.save_id", save_id,
                                  "DCP_SHARDING_INFO", sharding_text, "cspeed.crc32c", crcs_text));
    char *text = json_dumps(header, 0), block[8192], digits[9];
    uint64_t length = strlen(text);
    FILE *file = fopen("out/t/weights/shard-00001-of-00001.safetensors", "wb");
    memcpy(block, &length, 8);
    memcpy(block + 8, text, length);
    fwrite(block, 1, 8 + length, file);
    fwrite(data, sizeof *data, (size_t)used, file);
    fclose(file);
    snprintf(digits, sizeof digits, "%08x", (unsigned)ce_crc32c(0, block, 8 + length));
    json_decref(header);
    json_decref(sharding);
    json_decref(crcs);
    free(sharding_text);
    free(crcs_text);
    free(text);
    return json_pack("[{s:s, s:I, s:s}]", "name", "weights/shard-00001-of-00001.safetensors", "bytes",
                     (json_int_t)(8 + length + (uint64_t)used * 4), "header_crc32c", digits);
}

/* Writes a checkpoint of one shard. */
static void forge(const box *boxes, int count, const char *save_id)
{
    ce_checkpoint_content content = { .tag = "t", .config_text = "{}" };
    mkdir("out", 0777);
    mkdir("out/t", 0777);
    mkdir("out/t/weights", 0777);
    json_t *files = write_shard(boxes, count, save_id);
    json_t *tensors = json_pack("{s:{s:s, s:[i,i]}}", "w", "dtype", "F32", "shape", ROWS, COLUMNS);
    char *text = ce_manifest_text(&content, "this-save", tensors, files);
    shell_write("out/t/manifest.json", text);
    free(text);
    json_decref(files);
    json_decref(tensors);
}

/* Reads all ranges that begin at an element 0, 5, 10, ... These elements are in every row, and in every column but
 * one. */
static cs_status read_all_ranges(void)
{
    cs_comm *comm = saved_world();
    ce_checkpoint_reader *reader = NULL;
    float data[ELEMENTS];
    ce_piece piece = { .name = "w",
                       .folder = "weights",
                       .dtype = CS_F32,
                       .dims = 2,
                       .shape = { ROWS, COLUMNS },
                       .range = { 0, 0 },
                       .data = data };
    cs_status status = ce_checkpoint_open(&reader, comm, "out", "t");
    for (int from = 0; from < ELEMENTS && status == CS_OK; from += 5) {
        for (int to = from + 1; to <= ELEMENTS && status == CS_OK; to++) {
            piece.range = (ce_range){ from, to };
            memset(data, 0xff, sizeof data);
            status = ce_checkpoint_read(reader, comm, &piece, 1);
            for (int i = from; i < to && status == CS_OK; i++)
                if (memcmp(&data[i - from], &(float){ value(i / COLUMNS, i % COLUMNS) }, sizeof *data) != 0)
                    status = ce_fail(CS_BAD_FILE, "element %d of %d to %d is wrong", i, from, to);
        }
    }
    ce_checkpoint_close(reader);
    cs_comm_close(comm);
    return status;
}

START_TEST(boxes_of_any_kind)
{
    static const box columns[] = { { 0, 0, 4, 2 }, { 0, 2, 4, 3 }, { 0, 5, 4, 1 } };
    static const box tiles[] = { { 2, 3, 2, 3 }, { 0, 0, 2, 3 }, { 0, 3, 2, 3 }, { 2, 0, 2, 3 } };
    static const box wheel[] = { { 0, 0, 1, 4 }, { 0, 4, 3, 2 }, { 3, 2, 1, 4 }, { 1, 0, 3, 2 }, { 1, 2, 2, 2 } };
    static const box whole[] = { { 0, 0, 4, 6 } };
    static const struct {
        const box *boxes;
        int count;
    } rows[] = { { columns, 3 }, { tiles, 4 }, { wheel, 5 }, { whole, 1 } };
    shell_enter();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        forge(rows[i].boxes, rows[i].count, "this-save");
        ck_assert_msg(read_all_ranges() == CS_OK, "%d boxes: %s", rows[i].count, cs_error());
    }
    shell_leave();
}
END_TEST

START_TEST(boxes_that_do_not_fit)
{
    static const box hole[] = { { 0, 0, 4, 2 }, { 0, 3, 4, 3 } };
    /* boxes that overlap: together they have as many elements as the tensor, but some elements are missing */
    static const box overlap[] = { { 0, 0, 4, 2 }, { 0, 1, 4, 4 } };
    static const box twice[] = { { 0, 0, 2, 6 }, { 0, 0, 2, 6 } };
    static const box more[] = { { 0, 0, 4, 6 }, { 0, 0, 1, 6 } };
    static const box outside[] = { { 0, 0, 4, 6 }, { 3, 5, 1, 2 } };
    static const struct {
        const box *boxes;
        int count;
        const char *save_id, *words;
    } rows[] = {
        { hole, 2, "this-save", "the shards contain only 20 of the 24 elements of tensor w" },
        { overlap, 2, "this-save", "parts of tensor w are in the shards twice" },
        { twice, 2, "this-save", "parts of tensor w are in the shards twice" },
        { more, 2, "this-save", "parts of tensor w are in the shards twice" },
        { outside, 2, "this-save", "w.__dcp_shard_1 lies outside of its tensor in dimension 1" },
        { hole, 0, "this-save", "the shards contain only 0 of the 24 elements of tensor w" },
        { hole, 2, "other-save", "belongs to another save (other-save) than the manifest (this-save)" },
    };
    shell_enter();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        forge(rows[i].boxes, rows[i].count, rows[i].save_id);
        ck_assert_int_eq(read_all_ranges(), CS_BAD_FILE);
        ck_assert_msg(strstr(cs_error(), rows[i].words) != NULL, "%s", cs_error());
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("chunks", boxes_of_any_kind, boxes_that_do_not_fit)
