/* test_added.c - tokens that lie beside the vocabulary: the tokens of each folder are those that transformers makes, or the
 * folder is refused. added.golden is written by tests/peers/added_tokens.py. */
#include "base/base64.h"
#include "shell.h"
#include "suite.h"
#include "text/encoder.h"

#include "json/json.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void write_files(const json_t *files)
{
    const char *name;
    json_t *content;
    json_object_foreach ((json_t *)(uintptr_t)files, name, content) {
        size_t size;
        const char *text = json_string_value(content);
        char *bytes = strstr(name, ".model") ? ce_base64_decode(text, &size)
                      : text                 ? strdup(text)
                                             : json_dumps(content, 0);
        FILE *file = fopen(name, "w");
        size = strstr(name, ".model") ? size : strlen(bytes);
        ck_assert(bytes && file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
        free(bytes);
    }
}

static void check_texts(const ce_tokenizer *tokenizer, const char *name, const json_t *texts, const json_t *ids)
{
    size_t index;
    json_t *text;
    ce_encoder *encoder = ce_encoder_open(tokenizer);
    json_array_foreach ((json_t *)(uintptr_t)texts, index, text) {
        const json_t *wanted = json_array_get(ids, index);
        const ce_encoded *made = ce_encoder_document(encoder, json_string_value(text), json_string_length(text));
        bool same = made->count == (int64_t)json_array_size(wanted);
        for (int64_t i = 0; same && i < made->count; i++)
            same = made->ids[i] == json_integer_value(json_array_get(wanted, (size_t)i));
        ck_assert_msg(same, "%s: other tokens of %s", name, json_string_value(text));
    }
    ce_encoder_close(encoder);
}

START_TEST(folders_have_the_tokens_of_transformers)
{
    size_t index, size, refused = 0;
    json_t *row;
    char *text = shell_read(CS_TESTS "/golden/added.golden", &size);
    json_t *golden = json_loadb(text, size, 0, NULL);
    ck_assert_uint_gt(json_array_size(json_object_get(golden, "folders")), 100);
    shell_enter();
    json_array_foreach (json_object_get(golden, "folders"), index, row) {
        ce_tokenizer *tokenizer;
        const char *name = json_string_value(json_object_get(row, "name"));
        const char *words = json_string_value(json_object_get(row, "refused"));
        size_t vocabulary = (size_t)json_integer_value(json_object_get(row, "vocabulary"));
        ck_assert_int_eq(shell_run("rm -f *.json merges.txt tokenizer.model"), 0);
        write_files(json_array_get(json_object_get(golden, "vocabularies"), vocabulary));
        write_files(json_object_get(row, "files"));
        cs_status status = ce_tokenizer_open(&tokenizer, ".");
        ck_assert_msg((status == CS_OK) == (words == NULL), "%s: %s", name, cs_error());
        ck_assert_msg(!words || strstr(cs_error(), words), "%s: %s", name, cs_error());
        if (status == CS_OK)
            check_texts(tokenizer, name, json_object_get(golden, "texts"), json_object_get(row, "ids"));
        refused += words != NULL;
        ce_tokenizer_close(tokenizer);
    }
    ck_assert_uint_gt(refused, 20);
    json_decref(golden);
    free(text);
    shell_leave();
}
END_TEST

/* The post_processor of tokenizer.json decides about the tokens around a text; a key that says otherwise is named. */
START_TEST(keys_that_are_overruled_are_named)
{
    shell_enter();
    shell_write("tokenizer.json", "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": []}, "
                                  "\"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}}");
    shell_write("tokenizer_config.json", "{\"bos_token\": \"b\", \"add_bos_token\": true, \"add_eos_token\": false, "
                                         "\"add_prefix_space\": true, "
                                         "\"auto_map\": {\"AutoTokenizer\": [null, \"own.Fast\"]}}");
    shell_write("config.json", "{\"eos_token_id\": 9, \"bos_token_id\": \"1\"}");
    shell_write("generation_config.json", "{\"bos_token_id\": 1, \"eos_token_id\": [0, 7], \"pad_token_id\": -1}");
    shell_write("text.txt", "aaaa");
    ck_assert_int_eq(shell_run("%s/pack --tokenizer . --valid 0 --output data text.txt", CS_BIN), 0);
    char *said = shell_read("out.txt", NULL);
    ck_assert_msg(strstr(said, "add_bos_token is true and has no effect") != NULL, "%s", said);
    ck_assert_msg(strstr(said, "add_prefix_space is true and has no effect") != NULL, "%s", said);
    ck_assert_msg(strstr(said, "add_eos_token") == NULL, "%s", said);
    ck_assert_msg(strstr(said, "eos_token_id is 7, and no token") != NULL, "%s", said);
    ck_assert_msg(strstr(said, "config.json: eos_token_id is 9, and no token") != NULL, "%s", said);
    ck_assert_msg(strstr(said, "config.json: bos_token_id is a text") != NULL, "%s", said);
    ck_assert_msg(strstr(said, "auto_map names code, which is not run") != NULL, "%s", said);
    ck_assert_msg(strstr(said, "bos_token_id is 1") == NULL && strstr(said, "pad_token_id") == NULL, "%s", said);
    free(said);
    shell_leave();
}
END_TEST

SUITE_MAIN("added", folders_have_the_tokens_of_transformers, keys_that_are_overruled_are_named)
