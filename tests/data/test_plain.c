/* test_plain.c - texts are the same out of every format, and a damaged or cut file is refused, never read in part. */
#include "formats/plain.h"
#include "shell.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef CE_HAS_ZLIB
#include <zlib.h>
#endif
#ifdef CE_HAS_ZSTD
#include <zstd.h>
#endif

#define TABLES CS_TESTS "/golden/tables/"

typedef struct {
    char *bytes;
    size_t size;
} content;

static cs_status read_plain(content *text, const char *path, const char *const *columns)
{
    FILE *file;
    ce_plain_how how = { ".", columns, NULL };
    *text = (content){ 0 };
    cs_status status = ce_plain_open(&file, path, &how);
    if (status != CS_OK)
        return status;
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    text->size = (size_t)ftell(file);
    rewind(file);
    text->bytes = calloc(text->size + 1, 1);
    ck_assert_uint_eq(fread(text->bytes, 1, text->size, file), text->size);
    fclose(file);
    return CS_OK;
}

static void write_bytes(const char *path, const char *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, size, file), size);
    ck_assert_int_eq(fclose(file), 0);
}

static void expect_text(const char *path, const char *bytes, size_t size)
{
    content text;
    ck_assert_msg(read_plain(&text, path, NULL) == CS_OK, "%s", cs_error());
    ck_assert_uint_eq(text.size, size);
    ck_assert_int_eq(memcmp(text.bytes, bytes, size), 0);
    free(text.bytes);
}

/* Reads the file with one bit of each byte flipped: a refusal must name the file. If `sealed` is true, the format has a
 * checksum of the text: a text that is read must then be the original one, and a file that is cut at any length must be
 * refused. */
static void damage(const char *path, const char *bytes, size_t size, bool sealed)
{
    char changed[64];
    content whole, text;
    size_t length;
    char *file = shell_read(path, &length);
    ck_assert_int_eq(read_plain(&whole, path, NULL), CS_OK);
    ck_assert(!bytes || (whole.size == size && memcmp(whole.bytes, bytes, size) == 0));
    snprintf(changed, sizeof changed, "damaged%s", strchr(path, '.'));
    for (size_t i = 0; i < length; i++) {
        file[i] = (char)(file[i] ^ 1 << i % 8);
        write_bytes(changed, file, length);
        file[i] = (char)(file[i] ^ 1 << i % 8);
        if (read_plain(&text, changed, NULL) == CS_OK)
            ck_assert_msg(!sealed || (text.size == whole.size && memcmp(text.bytes, whole.bytes, text.size) == 0),
                          "byte %zu of %s", i, path);
        else
            ck_assert_msg(strncmp(cs_error(), changed, strlen(changed)) == 0, "%s", cs_error());
        free(text.bytes);
    }
    for (size_t i = 0; i < length && sealed; i++) {
        write_bytes(changed, file, i);
        ck_assert_int_eq(read_plain(&text, changed, NULL), CS_BAD_FILE);
        ck_assert_msg(strstr(cs_error(), "truncated: it ends at byte "), "%s", cs_error());
    }
    free(whole.bytes);
    free(file);
}

#if defined CE_HAS_ZLIB || defined CE_HAS_ZSTD
/* Text that compresses well, without a short period. */
static char *make_text(size_t size)
{
    char *text = malloc(size + 1);
    unsigned state = 7;
    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < size; i++) {
        state = state * 1103515245u + 12345u;
        text[i] = "etaoin shrdlu\n"[state >> 16 & 7];
    }
    return text;
}

/* BLOCK: bytes of the decoder's block. With these sizes of the text, the decoder's loops end in different ways. */
enum { BLOCK = 1 << 18 };
static const size_t sizes[] = { 1, 3000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 17 };
#endif

START_TEST(names_say_the_format)
{
    ck_assert(ce_plain_is_text("a.txt") && !ce_plain_is_json("a.txt"));
    ck_assert(ce_plain_is_text("a.jsonl") && ce_plain_is_json("a.jsonl") && !ce_plain_is_table("a.jsonl"));
    ck_assert(ce_plain_is_text("d/a.json.gz") && ce_plain_is_json("d/a.json.gz"));
    ck_assert(ce_plain_is_text("a.json") && ce_plain_is_json("a.json"));
    ck_assert(ce_plain_is_text("a.txt.zst") && !ce_plain_is_json("a.txt.zst"));
    ck_assert(ce_plain_is_text("a.parquet") && ce_plain_is_json("a.arrow") && ce_plain_is_table("a.parquet"));
    ck_assert(ce_plain_is_json("A.JSONL") && ce_plain_is_text("a.TXT") && ce_plain_is_table("A.Parquet"));
    ck_assert(!ce_plain_is_text(".txt") && !ce_plain_is_text("a.bin") && !ce_plain_is_text("a.gz"));
}
END_TEST

/* Names count in either case; a file whose content is no text is refused, whatever its name. */
START_TEST(what_is_no_text_is_refused)
{
    static const struct {
        const char *bytes, *words;
    } cases[] = {
        { "BZh91AY", "bunzip2 -k 'a.txt'" },
        { "\xfd"
          "7zXZ\1",
          "xz -dk 'a.txt'" },
        { "PK\3\4\1", "unzip 'a.txt'" },
        { "%PDF-1.7\n", "pdftotext 'a.txt'" },
        { "\xff\xfeh", "iconv -f UTF-16 -t UTF-8 'a.txt'" },
        { "version https://git-lfs.github.com/spec/v1\noid", "git lfs pull --include 'a.txt'" },
        { "PAR1 and more", "mv 'a.txt' 'a.txt.parquet'" },
        { "caf\xe9 \xe0 la cr\xe8me", "iconv -f ENCODING" },
        { "One caf\xe9 in a long text is repaired, and counted.", NULL },
        { "\xe5\xad\x97 \xf0\x9f\x98", NULL },
    };
    content text;
    shell_enter();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shell_write("a.txt", cases[i].bytes);
        cs_status status = read_plain(&text, "a.txt", NULL);
        ck_assert_msg(status == (cases[i].words ? CS_BAD_FILE : CS_OK), "case %zu: %s", i, cs_error());
        ck_assert_msg(!cases[i].words || strstr(cs_error(), cases[i].words), "%s", cs_error());
        free(text.bytes);
    }
    write_bytes("a.txt", "text\0text", 9);
    ck_assert_int_eq(read_plain(&text, "a.txt", NULL), CS_BAD_FILE);
    ck_assert_msg(strstr(cs_error(), "NUL byte at offset 4"), "%s", cs_error());
    ck_assert_int_eq(shell_run("tar -cf A.JSONL a.txt"), 0);
    ck_assert_int_eq(read_plain(&text, "A.JSONL", NULL), CS_BAD_FILE);
    ck_assert_msg(strstr(cs_error(), "tar -xf 'A.JSONL'"), "%s", cs_error());
    shell_leave();
}
END_TEST

#ifdef CE_HAS_ZLIB
/* Writes the text as `members` members of gzip. */
static void write_gzip(const char *path, const char *bytes, size_t size, size_t members)
{
    for (size_t i = 0; i < members; i++) {
        size_t from = size * i / members, to = size * (i + 1) / members;
        gzFile file = gzopen(path, i == 0 ? "wb" : "ab");
        ck_assert_ptr_nonnull(file);
        ck_assert_int_eq(gzwrite(file, bytes + from, (unsigned)(to - from)), (int)(to - from));
        ck_assert_int_eq(gzclose(file), Z_OK);
    }
}

START_TEST(gzip_is_decompressed)
{
    shell_enter();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *text = make_text(sizes[i]);
        write_gzip("a.txt.gz", text, sizes[i], 1);
        expect_text("a.txt.gz", text, sizes[i]);
        write_gzip("a.txt.gz", text, sizes[i], 3);
        expect_text("a.txt.gz", text, sizes[i]);
        free(text);
    }
    char *text = make_text(3000);
    write_gzip("a.txt.gz", text, 3000, 1);
    damage("a.txt.gz", text, 3000, true);
    ck_assert_int_eq(shell_run("cp a.txt.gz plain.txt; printf x > one; tar -czf tar.txt.gz one"), 0);
    expect_text("plain.txt", text, 3000);
    free(text);
    shell_write("b.jsonl.gz", "{\"text\": \"not compressed\"}\n");
    content none;
    write_gzip("b.txt.gz", "some text", 9, 1);
    ck_assert_int_eq(shell_run("head -c 300000 /dev/zero >> b.txt.gz && gzip -t b.txt.gz"), 0);
    expect_text("b.txt.gz", "some text", 9);
    ck_assert_int_eq(shell_run("printf x >> b.txt.gz"), 0);
    ck_assert_int_eq(read_plain(&none, "b.txt.gz", NULL), CS_BAD_FILE);
    ck_assert_int_eq(read_plain(&none, "tar.txt.gz", NULL), CS_BAD_FILE);
    ck_assert_msg(strstr(cs_error(), "tar -xf 'tar.txt.gz'"), "%s", cs_error());
    ck_assert_int_eq(read_plain(&none, "b.jsonl.gz", NULL), CS_BAD_FILE);
    ck_assert_msg(strstr(cs_error(), "b.jsonl.gz: damaged at byte 2: incorrect header check"), "%s", cs_error());
    shell_leave();
}
END_TEST
#else
START_TEST(gzip_is_decompressed)
{
    content none;
    shell_enter();
    shell_write("b.jsonl.gz", "\037\213");
    ck_assert_int_eq(read_plain(&none, "b.jsonl.gz", NULL), CS_UNSUPPORTED);
    ck_assert_msg(strstr(cs_error(), "decompress it: gzip -dk 'b.jsonl.gz'"), "%s", cs_error());
    shell_leave();
}
END_TEST
#endif

#ifdef CE_HAS_ZSTD
static void write_zstd(const char *path, const char *bytes, size_t size, size_t frames)
{
    FILE *file = fopen(path, "wb");
    size_t capacity = ZSTD_compressBound(size);
    char *frame = malloc(capacity);
    ZSTD_CCtx *context = ZSTD_createCCtx();
    ck_assert(file && frame && context);
    ck_assert(!ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1)));
    for (size_t i = 0; i < frames; i++) {
        size_t from = size * i / frames, to = size * (i + 1) / frames;
        size_t made = ZSTD_compress2(context, frame, capacity, bytes + from, to - from);
        ck_assert(!ZSTD_isError(made));
        ck_assert_uint_eq(fwrite(frame, 1, made, file), made);
    }
    ZSTD_freeCCtx(context);
    free(frame);
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(zstandard_is_decompressed)
{
    shell_enter();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *text = make_text(sizes[i]);
        write_zstd("a.txt.zst", text, sizes[i], 1);
        expect_text("a.txt.zst", text, sizes[i]);
        write_zstd("a.txt.zst", text, sizes[i], 3);
        expect_text("a.txt.zst", text, sizes[i]);
        free(text);
    }
    char *text = make_text(3000);
    write_zstd("a.txt.zst", text, 3000, 1);
    damage("a.txt.zst", text, 3000, true);
    free(text);
    shell_leave();
}
END_TEST
#else
START_TEST(zstandard_is_decompressed)
{
    content none;
    shell_enter();
    shell_write("b.jsonl.zst", "");
    ck_assert_int_eq(read_plain(&none, "b.jsonl.zst", NULL), CS_UNSUPPORTED);
    ck_assert_msg(strstr(cs_error(), "decompress it: zstd -d 'b.jsonl.zst'"), "%s", cs_error());
    shell_leave();
}
END_TEST
#endif

static const char rows[] =
    "{\"body\": \"first row\", \"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
    "\"content\": \"b\"}], \"input_ids\": [1, 2, 3], \"kind\": \"x\", \"score\": 0.5}\n"
    "{\"body\": \"quotes \\\" and \\\\ and \\u000a\", \"messages\": [{\"role\": \"user\", \"content\": \"c\"}, {\"role\": "
    "\"assistant\", \"content\": \"d\"}, {\"role\": \"user\", \"content\": \"e\"}, {\"role\": \"assistant\", \"content\": "
    "\"f\"}], \"input_ids\": [], \"kind\": \"y\", \"score\": 1.0}\n"
    "{\"body\": null, \"messages\": [{\"role\": \"user\", \"content\": \"g\"}, {\"role\": \"assistant\", \"content\": "
    "\"h\"}], \"input_ids\": [255], \"kind\": \"x\", \"score\": -2.25}\n"
    "{\"body\": \"Gr\303\266\303\237e \345\244\247 \360\237\230\200\", \"messages\": null, \"input_ids\": [4, 5], "
    "\"kind\": \"y\", \"score\": 1.0000000000000001e+300}\n";

static const char *const tables[] = { "rows.parquet", "rows.arrow", "stream.arrow" };
enum { TABLE_COUNT = sizeof tables / sizeof *tables };

START_TEST(tables_become_lines)
{
    static const char *const some[] = { "none", "input_ids", NULL }, *const none[] = { "none", NULL };
    static const char ids[] = "{\"input_ids\": [1, 2, 3]}\n{\"input_ids\": []}\n{\"input_ids\": [255]}\n"
                              "{\"input_ids\": [4, 5]}\n";
    content text;
    shell_enter();
    for (int i = 0; i < TABLE_COUNT && access(CS_BIN "/libcspeed_arrow.so", F_OK) == 0; i++) {
        ck_assert_int_eq(shell_run("cp '" TABLES "%s' .", tables[i]), 0);
        expect_text(tables[i], rows, sizeof rows - 1);
        ck_assert_int_eq(read_plain(&text, tables[i], some), CS_OK);
        ck_assert_str_eq(text.bytes, ids);
        free(text.bytes);
        ck_assert_int_eq(read_plain(&text, tables[i], none), CS_BAD_FILE);
        ck_assert_msg(strstr(cs_error(), "they are \"body\", \"messages\", \"input_ids\""), "%s", cs_error());
        damage(tables[i], rows, sizeof rows - 1, false);
    }
    shell_leave();
}
END_TEST

/* Values of arrow.json are the JSON that they hold; views of strings and bytes in UTF-8 are texts. */
START_TEST(types_of_other_libraries_are_read)
{
    static const char lines[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": "
        "[{\"type\":  \"text\", \"text\": \"a\"}]}], \"tools\": [{\"name\": \"f\"}], \"input\": \"a view of a string\", "
        "\"text\": \"Gr\303\266\303\237e \\\"1\\\"\", \"output\": \"one\"}\n"
        "{\"messages\": [], \"tools\": null, \"input\": null, \"text\": \"two\", \"output\": null}\n";
    if (access(CS_BIN "/libcspeed_arrow.so", F_OK) != 0)
        return;
    shell_enter();
    ck_assert_int_eq(shell_run("cp '" TABLES "types.parquet' types.PARQUET; cp '" TABLES "types.arrow' ."), 0);
    expect_text("types.PARQUET", lines, sizeof lines - 1);
    expect_text("types.arrow", lines, sizeof lines - 1);
    shell_leave();
}
END_TEST

/* Views of lists are lists. What has no form in a row of JSON is refused with its row and its column. */
START_TEST(views_are_read_and_faults_have_a_place)
{
    static const char *const ids[] = { "input_ids", "labels", NULL }, *const body[] = { "body", NULL };
    static const char lines[] = "{\"input_ids\": [1, 2], \"labels\": [1, -100]}\n"
                                "{\"input_ids\": [], \"labels\": null}\n{\"input_ids\": [3], \"labels\": [3]}\n";
    content text;
    if (access(CS_BIN "/libcspeed_arrow.so", F_OK) != 0)
        return;
    shell_enter();
    ck_assert_int_eq(shell_run("cp '" TABLES "views.arrow' ."), 0);
    ck_assert_msg(read_plain(&text, "views.arrow", ids) == CS_OK, "%s", cs_error());
    ck_assert_str_eq(text.bytes, lines);
    free(text.bytes);
    ck_assert_int_eq(read_plain(&text, "views.arrow", body), CS_BAD_FILE);
    ck_assert_msg(strstr(cs_error(), "row 3, column \"body\": a binary value that is not UTF-8") != NULL, "%s",
                  cs_error());
    shell_leave();
}
END_TEST

/* Rows that the library datasets 5.2 has saved: content that is a text in one row and a list in another is JSON there. */
START_TEST(saved_data_sets_are_read)
{
    static const char *const names[] = { "saved.arrow", "saved.parquet" };
    static const char lines[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", \"content\": "
        "[{\"type\":\"text\",\"text\":\"b\"}]}], \"id\": 1}\n"
        "{\"messages\": [{\"role\": \"user\", \"content\": \"c\"}, {\"role\": \"assistant\", \"content\": "
        "\"d\"}], \"id\": 2}\n";
    if (access(CS_BIN "/libcspeed_arrow.so", F_OK) != 0)
        return;
    shell_enter();
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(shell_run("cp '" TABLES "%s' .", names[i]), 0);
        expect_text(names[i], lines, sizeof lines - 1);
    }
    shell_leave();
}
END_TEST

START_TEST(tables_are_refused_without_the_module)
{
    content none;
    shell_enter();
    ck_assert_int_eq(shell_run("cp '" TABLES "rows.parquet' ."), 0);
    ck_assert_int_eq(setenv("CSPEED_ARROW_MODULE", "/nowhere.so", 1), 0);
    ck_assert_int_eq(read_plain(&none, "rows.parquet", NULL), CS_UNSUPPORTED);
    ck_assert_msg(strstr(cs_error(), "rows.parquet: not supported: Parquet and Arrow files, because "
                                     "libcspeed_arrow.so cannot be opened: the file does not exist") &&
                      strstr(cs_error(), "\" 'rows.parquet' > 'rows.jsonl'"),
                  "%s", cs_error());
    ck_assert_int_eq(unsetenv("CSPEED_ARROW_MODULE"), 0);
    shell_leave();
}
END_TEST

/* The test of views comes first: it must not depend on what other reads have initialized in Arrow's library. */
SUITE_MAIN("plain", views_are_read_and_faults_have_a_place, names_say_the_format, what_is_no_text_is_refused,
           gzip_is_decompressed, zstandard_is_decompressed, tables_become_lines, types_of_other_libraries_are_read,
           saved_data_sets_are_read, tables_are_refused_without_the_module)
