/* test_safetensors.c - which safetensors headers the reader accepts, and the messages for those that it rejects. */
#include "suite.h"

#include "checkpoint/safetensors.h"

#include <string.h>

#define A16 "{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}"
#define T(dtype, shape, offsets) "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

typedef struct {
    const char *text;
    int64_t data;
    const char *fault; /* part of the message; NULL: the header is accepted */
} header_case;

static const header_case cases[] = {
    /* Valid headers. */
    { "{\"a\":" A16 "}", 16, NULL },
    { "{}", 0, NULL },
    { "  {\"a\":" A16 "} \t\r\n", 16, NULL },
    { "{\"__metadata__\":{\"format\":\"pt\"},\"a\":" A16 "}", 16, NULL },
    { "{\"__metadata__\":null,\"a\":" A16 "}", 16, NULL },
    { "{\"a\":" A16 ",\"__metadat\\u0061__\":{\"k\":\"v\"}}", 16, NULL },
    { "{\"\xc3\xa9\\ud83d\\ude00\\n\":" A16 "}", 16, NULL },
    { "{\"\":" A16 "}", 16, NULL },
    { T("F32", "[]", "[0,4]"), 4, NULL },
    { T("F32", "[0,5]", "[0,0]"), 0, NULL },
    { T("F32", "[0,4294967296,4294967296]", "[0,0]"), 0, NULL },
    { T("F4", "[4]", "[0,2]"), 2, NULL },
    { T("F6_E2M3", "[4]", "[0,3]"), 3, NULL },
    { T("F8_E8M0", "[1]", "[0,1]"), 1, NULL },
    { T("C64", "[1]", "[0,8]"), 8, NULL },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"stride\":[2,-0.5],\"x\":{\"y\":[1]}}}", 4,
      NULL },
    { "{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},"
      "\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
      8, NULL },
    { "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"z\":{\"dtype\":\"F32\",\"shape\":[0],"
      "\"data_offsets\":[1,1]},\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[1,9]}}",
      9, NULL },
    { "{\"-0\":" A16 "}", 16, NULL },
    /* Not a JSON object. */
    { "", 0, "header" },
    { "[]", 0, "not an object" },
    { "null", 0, "header" },
    { "{}{}", 0, "header" },
    { "\xef\xbb\xbf{}", 0, "header" },
    { "{\"\xff\":1}", 0, "header" },
    { "{\"\xc0\x80\":" A16 "}", 16, "header" },
    { "{\"a\":" A16 ",}", 16, "header" },
    { "{/*x*/}", 0, "header" },
    { "{\"a\":" A16, 16, "header" },
    { "{\"\\ud800\":" A16 "}", 16, "header" },
    { "{\"a\\u0000\":" A16 "}", 16, "header" },
    { "{\"a\x01\":" A16 "}", 16, "header" },
    { "{\x0b}", 0, "header" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16],\"x\":NaN}}", 16, "header" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16],\"x\":1e999}}", 16, "header" },
    /* Metadata. */
    { "{\"__metadata__\":{\"step\":1},\"a\":" A16 "}", 16, "step is not a string" },
    { "{\"__metadata__\":{\"k\":null}}", 0, "k is not a string" },
    { "{\"__metadata__\":[]}", 0, "\"__metadata__\" is not an object" },
    /* Named twice. */
    { "{\"a\":" A16 ",\"a\":" A16 "}", 16, "duplicate" },
    { "{\"a\":" A16 ",\"\\u0061\":" A16 "}", 16, "duplicate" },
    { "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "duplicate" },
    { "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}", 16, "duplicate" },
    /* Entries. */
    { "{\"a\":null}", 0, "tensor a is not described by an object" },
    { "{\"a\":[\"F32\",[2,2],[0,16]]}", 16, "tensor a is not described by an object" },
    { "{\"a\":{\"shape\":[2,2],\"data_offsets\":[0,16]}}", 16, "tensor a: \"dtype\"" },
    { "{\"a\":{\"dtype\":{\"F32\":null},\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "tensor a: \"dtype\"" },
    { "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "tensor a: \"shape\"" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "tensor a: \"data_offsets\"" },
    { T("F128", "[1]", "[0,16]"), 16, "the type F128 is unknown" },
    { T("f32", "[1]", "[0,4]"), 4, "the type f32 is unknown" },
    { T("C128", "[1]", "[0,16]"), 16, "the type C128 is unknown" },
    { T("F4", "[3]", "[0,2]"), 2, "no whole number of bytes" },
    { T("F32", "[-1]", "[0,4]"), 4, "whole number" },
    { T("F32", "[2.0]", "[0,8]"), 8, "whole number" },
    { T("F32", "[2e0]", "[0,8]"), 8, "whole number" },
    { T("F32", "[-0]", "[0,0]"), 0, "-0" },
    { T("F32", "[\"2\"]", "[0,8]"), 8, "whole number" },
    { T("F32", "[02]", "[0,8]"), 8, "header" },
    { T("F32", "[+2]", "[0,8]"), 8, "header" },
    { T("F32", "[18446744073709551616]", "[0,8]"), 8, "header" },
    { T("F32", "2", "[0,8]"), 8, "\"shape\" must be a list" },
    { T("U8", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, "at most 32" },
    { T("F32", "[4294967296,4294967296]", "[0,8]"), 8, "no whole number of bytes" },
    { T("F32", "[4294967296,4294967296,0]", "[0,0]"), 0, "no whole number of bytes" },
    { T("U8", "[2305843009213693952]", "[0,8]"), 8, "no whole number of bytes" },
    { T("F32", "[1]", "[0,4,8]"), 4, "two whole numbers" },
    { T("F32", "[1]", "[0]"), 4, "two whole numbers" },
    { T("F32", "[1]", "[\"0\",\"4\"]"), 4, "two whole numbers" },
    { T("F32", "[3]", "[0,8]"), 8, "needs 12 bytes" },
    { T("F32", "[1]", "[4,0]"), 4, "needs 4 bytes" },
    /* Positions of tensors. */
    { T("F32", "[1]", "[4,8]"), 8, "begins at byte 4 and should begin at byte 0:" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],"
      "\"data_offsets\":[8,12]}}",
      12, "tensor b begins at byte 8 and should begin at byte 4:" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],"
      "\"data_offsets\":[4,8]}}",
      8, "tensor b begins at byte 4 and should begin at byte 8:" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"z\":{\"dtype\":\"F32\",\"shape\":[0],"
      "\"data_offsets\":[2,2]}}",
      4, "overlap or leave a gap" },
    { T("F32", "[1]", "[0,4]"), 5, "5 bytes of data where the header describes 4" },
    { T("F32", "[1]", "[0,4]"), 3, "3 bytes of data where the header describes 4" },
    { "{}", 1, "1 bytes of data" },
};

static void try_case(const header_case *c)
{
    ce_safetensors header;
    cs_status status = ce_safetensors_parse(&header, c->text, strlen(c->text), c->data, "FILE");
    if (!c->fault) {
        ck_assert_msg(status == CS_OK, "%s: %s", c->text, cs_error());
    } else {
        ck_assert_msg(status == CS_BAD_FILE, "accepted: %s", c->text);
        ck_assert_msg(strncmp(cs_error(), "FILE: ", 6) == 0 && strstr(cs_error(), c->fault), "%s: %s", c->text,
                      cs_error());
    }
    ce_safetensors_close(&header);
}

START_TEST(headers)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        try_case(&cases[i]);
}
END_TEST

START_TEST(depth_and_length)
{
    char text[8192] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":";
    ce_safetensors header;
    size_t at = strlen(text);
    memset(text + at, '[', 100);
    memset(text + at + 100, ']', 100);
    strcpy(text + at + 200, "}}");
    ck_assert_int_eq(ce_safetensors_parse(&header, text, strlen(text), 1, "FILE"), CS_BAD_FILE);
    ce_safetensors_close(&header);

    memcpy(text, "{\"", 2);
    memset(text + 2, 'n', 4097);
    strcpy(text + 2 + 4097, "\":" A16 "}");
    ck_assert_int_eq(ce_safetensors_parse(&header, text, strlen(text), 16, "FILE"), CS_BAD_FILE);
    ck_assert_ptr_nonnull(strstr(cs_error(), "4097"));
    ce_safetensors_close(&header);
    ck_assert_int_eq(ce_safetensors_parse(&header, "{}\0", 3, 0, "FILE"), CS_BAD_FILE);
    ce_safetensors_close(&header);
}
END_TEST

START_TEST(names_types_and_ranges_are_read)
{
    const char *text =
        "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[8,14]},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}";
    ce_safetensors header;
    ck_assert_int_eq(ce_safetensors_parse(&header, text, strlen(text), 14, "FILE"), CS_OK);
    ck_assert_int_eq(header.count, 2);
    ck_assert_str_eq(header.entries[0].key, "a");
    ck_assert_int_eq(header.entries[0].dims, 2);
    ck_assert_int_eq(header.entries[0].shape[0], 2);
    ck_assert_str_eq(header.entries[1].dtype, "BF16");
    ck_assert_int_eq(header.entries[1].begin, 8);
    ck_assert_int_eq(header.entries[1].end, 14);
    ck_assert_str_eq(json_string_value(json_object_get(header.metadata, "format")), "pt");
    ce_safetensors_close(&header);
}
END_TEST

START_TEST(lengths)
{
    static const struct {
        uint8_t start[8];
        size_t start_bytes;
        int64_t file;
        int64_t bytes; /* -1: rejected */
    } rows[] = {
        { { 2 }, 8, 10, 10 },
        { { 2 }, 8, 9, -1 },
        { { 0 }, 0, 0, -1 },
        { { 1 }, 7, 7, -1 },
        { { 0 }, 8, 8, 8 },
        { { 0, 1 }, 8, 264, 264 },
        { { 0, 1 }, 8, 263, -1 },
        { { 0, 0, 0, 0, 0, 0, 0, 255 }, 8, 100, -1 },
        { { 0x00, 0xe1, 0xf5, 0x05 }, 8, 100000008, 100000008 },
        { { 0x01, 0xe1, 0xf5, 0x05 }, 8, 200000000, -1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t bytes = -1;
        cs_status status =
            ce_safetensors_header_bytes(&bytes, rows[i].start, rows[i].start_bytes, rows[i].file, "FILE");
        ck_assert_int_eq(status, rows[i].bytes < 0 ? CS_BAD_FILE : CS_OK);
        if (rows[i].bytes >= 0)
            ck_assert_int_eq(bytes, rows[i].bytes);
    }
}
END_TEST

SUITE_MAIN("safetensors", headers, depth_and_length, names_types_and_ranges_are_read, lengths)
