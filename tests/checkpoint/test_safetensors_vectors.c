/* test_safetensors_vectors.c - test vectors of valid and invalid safetensors files. The result for each file must be
 * the result of the reference reader (tests/golden/make_safetensors.py). Only the hostile files that `stricter` lists,
 * each with a reason, must be rejected although the reference reader accepts them. */
#include "shell.h"
#include "suite.h"

#include "checkpoint/safetensors.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *why;
} stricter[] = {
    { "twice_the_same", "a name twice" },
    { "twice_the_last_fits", "a name twice" },
    { "twice_escaped", "a name twice, once unescaped" },
    { "metadata_key_twice", "a key twice" },
    { "field_twice_unknown", "a key twice" },
    { "tensor_list", "an entry is an object" },
    { "type_object", "a type is a string" },
    { "escaped_nul", "a name without NUL" },
    { "long_name", "names of at most 4096 bytes" },
    { "rank_33", "at most 32 dimensions" },
    { "field_deep", "at most 64 levels" },
    { "shape_64_bits", "numbers up to 2^63 - 1" },
};

static bool is_stricter(const char *name)
{
    for (size_t i = 0; i < sizeof stricter / sizeof *stricter; i++)
        if (strcmp(stricter[i].name, name) == 0)
            return true;
    return false;
}

typedef struct {
    char name[64], verdict[16], length[32];
    long data;
    char *header;
} vector;

/* Decodes %XX in place; returns the number of bytes. */
static size_t decode(char *text)
{
    size_t count = 0;
    for (const char *at = text; *at; count++) {
        unsigned byte = (unsigned char)*at;
        if (*at == '%')
            ck_assert_int_eq(sscanf(at, "%%%2X", &byte), 1);
        at += *at == '%' ? 3 : 1;
        text[count] = (char)byte;
    }
    return count;
}

static void write_file(const char *path, const vector *v)
{
    static const char zeros[256];
    FILE *file = fopen(path, "wb");
    uint64_t number = strtoull(v->length, NULL, 10);
    size_t bytes = decode(v->header);
    ck_assert(v->data <= (long)sizeof zeros);
    if (strcmp(v->length, "-") != 0)
        ck_assert_uint_eq(fwrite(&number, sizeof number, 1, file), 1);
    ck_assert_uint_eq(fwrite(v->header, 1, bytes, file), bytes);
    ck_assert_uint_eq(fwrite(zeros, 1, (size_t)v->data, file), (size_t)v->data);
    ck_assert_int_eq(fclose(file), 0);
}

static bool is_taken(const char *path)
{
    ce_safetensors header = { 0 };
    char *block;
    size_t block_bytes;
    int64_t file_bytes;
    cs_status status = ce_safetensors_load(&block, &block_bytes, &file_bytes, path);
    if (status == CS_OK)
        status = ce_safetensors_parse(&header, block + 8, block_bytes - 8, file_bytes - (int64_t)block_bytes, path);
    ck_assert_msg(status == CS_OK || status == CS_BAD_FILE, "%d: %s", status, cs_error());
    ck_assert(status == CS_OK || strncmp(cs_error(), path, strlen(path)) == 0);
    ce_safetensors_close(&header);
    free(block);
    return status == CS_OK;
}

static bool next(vector *v, FILE *file)
{
    static char header[1 << 16];
    char line[sizeof header];
    v->header = header;
    if (!fgets(line, sizeof line, file))
        return false;
    header[0] = 0;
    ck_assert_msg(sscanf(line, "%63[^\t]\t%15[^\t]\t%31[^\t]\t%ld\t%65535[^\n]", v->name, v->verdict, v->length,
                         &v->data, header) >= 4,
                  "no vector: %s", line);
    return true;
}

START_TEST(every_verdict_is_the_reference_readers)
{
    FILE *file = fopen(CS_TESTS "/golden/safetensors.golden", "r");
    int count = 0;
    size_t strict = 0;
    vector v;
    ck_assert_ptr_nonnull(file);
    shell_enter();
    for (; next(&v, file); count++) {
        bool theirs = strcmp(v.verdict, "accept") == 0, expected = theirs && !is_stricter(v.name);
        write_file("file", &v);
        bool ours = is_taken("file");
        ck_assert_msg(ours == expected, "%s: %s, where the reference says %s (%s)", v.name, ours ? "taken" : "refused",
                      v.verdict, cs_error());
        strict += theirs && !ours;
    }
    shell_leave();
    fclose(file);
    ck_assert_int_ge(count, 106);
    ck_assert_uint_eq(strict, sizeof stricter / sizeof *stricter);
}
END_TEST

SUITE_MAIN("safetensors_vectors", every_verdict_is_the_reference_readers)
