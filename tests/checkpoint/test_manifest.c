/* test_manifest.c - the manifest (commit record): what it must contain; every other text is rejected. */
#include "suite.h"

#include "base/crc.h"
#include "checkpoint/manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *text_of(json_t *tensors, json_t *files)
{
    json_t *engine =
        json_pack("{s:i, s:i, s:{s:s, s:f, s:i}, s:{s:s}, s:{s:i}}", "global_step", 7, "samples", 14, "loss_scale",
                  "kind", "dynamic", "scale", 8.0, "last_overflow", -1, "optimizer", "type", "AdamW", "rng", "seed", 5);
    json_t *ancestors = json_pack("[{s:s, s:s}]", "tag", "before", "crc32c", "0a1b2c3d");
    ce_checkpoint_content content = {
        .tag = "t/\xc3\xa9", .step = 7, .client_state = "{}", .config_text = "{}", .engine = engine, .line = ancestors
    };
    char *text = ce_manifest_text(&content, "the-id", tensors, files);
    json_decref(engine);
    json_decref(ancestors);
    json_decref(tensors);
    json_decref(files);
    return text;
}

static json_t *some_tensors(void)
{
    return json_pack("{s:{s:s,s:[i,i]}, s:{s:s,s:[]}}", "w", "dtype", "F32", "shape", 3, 4, "b", "dtype", "BF16",
                     "shape");
}

static json_t *one_file(const char *name)
{
    return json_pack("[{s:s, s:i, s:s}]", "name", name, "bytes", 4100, "header_crc32c", "0012ab34");
}

#define SHARD "weights/shard-00001-of-00002.safetensors"

START_TEST(says_what_was_said)
{
    ce_manifest manifest;
    char *text = text_of(some_tensors(), one_file(SHARD));
    ck_assert_msg(ce_manifest_parse(&manifest, text, strlen(text), "m") == CS_OK, "%s", cs_error());
    ck_assert_str_eq(manifest.tag, "t/\xc3\xa9");
    ck_assert_str_eq(manifest.save_id, "the-id");
    ck_assert_int_eq(manifest.step, 7);
    ck_assert_int_eq(manifest.tensor_count, 2);
    ck_assert_str_eq(manifest.tensors[0].name, "b");
    ck_assert_int_eq(ce_manifest_find(&manifest, "w")->shape[1], 4);
    ck_assert_int_eq(ce_manifest_find(&manifest, "b")->dtype, CS_BF16);
    ck_assert_ptr_null(ce_manifest_find(&manifest, "x"));
    ck_assert_str_eq(manifest.files[0].name, SHARD);
    ck_assert_int_eq(manifest.files[0].bytes, 4100);
    ck_assert_uint_eq(manifest.files[0].header_crc, 0x12ab34);
    ck_assert_int_eq(manifest.client_state.bytes, 2);
    ce_manifest_close(&manifest);
    free(text);
}
END_TEST

/* Flips each bit of a manifest, and truncates it to each length: all these texts are rejected. */
START_TEST(no_other_text_passes)
{
    char *text = text_of(some_tensors(), one_file(SHARD));
    size_t length = strlen(text), passed = 0;
    for (size_t i = 0; i < length; i++) {
        for (int bit = 0; bit < 8; bit++) {
            ce_manifest manifest;
            text[i] = (char)(text[i] ^ 1 << bit);
            passed += ce_manifest_parse(&manifest, text, length, "m") == CS_OK;
            text[i] = (char)(text[i] ^ 1 << bit);
            ce_manifest_close(&manifest);
        }
    }
    for (size_t i = 0; i < length; i++) {
        ce_manifest manifest;
        passed += ce_manifest_parse(&manifest, text, i, "m") == CS_OK;
        ce_manifest_close(&manifest);
    }
    ck_assert_uint_eq(passed, 0);
    free(text);
}
END_TEST

/* Expects that a text with a valid checksum and wrong contents is rejected. */
static void expect_refusal(char *text, const char *words)
{
    ce_manifest manifest;
    cs_status status = ce_manifest_parse(&manifest, text, strlen(text), "m");
    ck_assert_msg(status == CS_BAD_FILE || status == CS_UNSUPPORTED, "accepted: %s", words);
    ck_assert_msg(strncmp(cs_error(), "m: ", 3) == 0 && strstr(cs_error(), words), "%s", cs_error());
    ce_manifest_close(&manifest);
    free(text);
}

START_TEST(file_names_outside_the_checkpoint_are_refused)
{
    static const char *const names[] = {
        "../shard-00001-of-00001.safetensors",
        "/etc/passwd",
        "weights/../../x",
        "weights/shard-00001-of-00001.safetensors/../../../x",
        "weights/shard-00002-of-00001.safetensors",
        "weights/shard-00000-of-00001.safetensors",
        "weights//shard-00001-of-00001.safetensors",
        "weights/shard-1-of-1.safetensors",
        "weights/shard-00001-of-00001.safetensors ",
        "other/shard-00001-of-00001.safetensors",
        "",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        expect_refusal(text_of(some_tensors(), one_file(names[i])), "is not the name of a shard");
}
END_TEST

/* Replaces a part of a valid manifest and updates the checksum. */
static char *altered(const char *from, const char *to)
{
    char *text = text_of(some_tensors(), one_file(SHARD)), *at = strstr(text, from);
    ck_assert_msg(at != NULL, "%s is not in %s", from, text);
    char *changed = malloc(strlen(text) + strlen(to) + 1), digits[9];
    sprintf(changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    free(text);
    char *place = strstr(changed, "\"crc32c\": \"") + strlen("\"crc32c\": \"");
    memcpy(place, "00000000", 8);
    snprintf(digits, sizeof digits, "%08x", (unsigned)ce_crc32c(0, changed, strlen(changed)));
    memcpy(place, digits, 8);
    return changed;
}

START_TEST(wrong_contents_are_refused)
{
    static const struct {
        const char *from, *to, *words;
    } rows[] = {
        { "\"version\": 1", "\"version\": 2", "use a newer one" },
        { "\"version\": 1", "\"version\": 0", "no format version 0" },
        { "\"version\": 1", "\"version\": -1", "no format version -1" },
        { "cspeed-checkpoint", "other-checkpoint", "not the manifest of a checkpoint" },
        { "\"step\": 7", "\"step\": 7.5", "\"step\" is missing or wrong" },
        { "\"step\": 7", "\"step\": 7, \"step\": 8", "duplicate" },
        { "\"step\": 7", "\"step\": -1", "\"step\" is missing or wrong" },
        { "\"step\": 7", "\"step\": 9223372036854775807", "\"step\" is missing or wrong" },
        { "\"the-id\"", "null", "\"save_id\"" },
        { "\"t/\xc3\xa9\"", "\"\"", "\"tag\"" },
        { "\"engine\"", "\"motor\"", "\"engine\" is missing or no object" },
        { "\"global_step\": 7", "\"global_step\": -5", "\"global_step\" is not a whole number from 0" },
        { "\"global_step\": 7", "\"global_step\": 9223372036854775807",
          "\"global_step\" is not a whole number from 0" },
        { "\"global_step\": 7", "\"global_step\": 9007199254740993", "\"global_step\" is not a whole number from 0" },
        { "\"samples\": 14", "\"samples\": \"14\"", "\"samples\" is not a whole number" },
        { "\"scale\": 8.0", "\"scale\": -8.0", "\"scale\" is not a number above 0" },
        { "\"scale\": 8.0", "\"scale\": true", "\"scale\" is not a number above 0" },
        { "\"dynamic\"", "7", "\"kind\" is not a string" },
        { "\"last_overflow\": -1", "\"last_overflow\": -2", "\"last_overflow\" is not a whole number from -1" },
        { "\"seed\": 5", "\"seed\": 0.5", "\"seed\" is not a whole number" },
        { "\"0a1b2c3d\"", "\"0a1b2c\"", "ancestors: entry 0" },
        { "\"before\"", "4", "ancestors: entry 0" },
        { "\"F32\"", "\"F33\"", "is unknown" },
        { "\"F32\"", "[]", "is unknown" },
        { "3,", "-3,", "whole number" },
        { "3,", "3.0,", "whole number" },
        { "3,", "4611686018427387904,", "more bytes than a file can have" },
        { "3,", "1, 1, 2, 3,", "at most 4 numbers" },
        { "4100", "-1", "\"bytes\" or \"header_crc32c\"" },
        { "4100", "99999999999999999999", "too big" },
        { "0012ab34", "0012AB34", "\"bytes\" or \"header_crc32c\"" },
        { "\"client_state.json\"", "\"../client_state.json\"", "does not describe client_state.json" },
        { "\"client_state.json\",\n  \"bytes\": 2", "\"client_state.json\",\n  \"bytes\": -2",
          "does not describe client_state.json" },
        { "\"client_state.json\",\n  \"bytes\": 2", "\"client_state.json\",\n  \"bytes\": 9223372036854775807",
          "does not describe client_state.json" },
        { "\"ds_config.json\"", "\"ds_config\"", "does not describe ds_config.json" },
        { "\"tensors\"", "\"tensor\"", "\"tensors\" is missing" },
        { "\"files\"", "\"file\"", "\"files\" is missing" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_refusal(altered(rows[i].from, rows[i].to), rows[i].words);
}
END_TEST

/* A file that is listed twice is rejected; a list of a hundred thousand files is checked quickly. */
START_TEST(lists_of_files)
{
    enum { MANY = 99999 };
    json_t *many = json_array(), *twice = json_array(), *huge = json_array();
    char name[64];
    for (int i = 1; i <= MANY; i++) {
        snprintf(name, sizeof name, "weights/shard-%05d-of-%05d.safetensors", i, MANY);
        json_array_append_new(many, json_pack("{s:s, s:I, s:s}", "name", name, "bytes", (json_int_t)1, "header_crc32c",
                                              "0012ab34"));
        json_array_append(twice, json_array_get(many, 0));
        json_array_append_new(huge, json_pack("{s:s, s:I, s:s}", "name", name, "bytes", (json_int_t)1 << 60,
                                              "header_crc32c", "0012ab34"));
    }
    ce_manifest manifest;
    char *text = text_of(some_tensors(), many);
    ck_assert_msg(ce_manifest_parse(&manifest, text, strlen(text), "m") == CS_OK, "%s", cs_error());
    ck_assert_int_eq(manifest.bytes, MANY);
    ce_manifest_close(&manifest);
    free(text);
    expect_refusal(text_of(some_tensors(), twice), "shard-00001-of-99999.safetensors is listed twice");
    expect_refusal(text_of(some_tensors(), huge), "more bytes than a file system can have");
}
END_TEST

SUITE_MAIN("manifest", lists_of_files, says_what_was_said, no_other_text_passes,
           file_names_outside_the_checkpoint_are_refused, wrong_contents_are_refused)
