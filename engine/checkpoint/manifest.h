/* manifest.h - manifest.json, the commit record: what a checkpoint consists of, with a checksum of its own text.
 *
 * Its eight digits "crc32c" are the CRC32C of the text with these digits as zeros. */
#ifndef CS_CHECKPOINT_MANIFEST_H
#define CS_CHECKPOINT_MANIFEST_H

#include "checkpoint/checkpoint.h"

enum { CS_MANIFEST_VERSION = 1, CS_MANIFEST_LIMIT = 1 << 28 }; /* bytes a manifest, or a text beside it, may have */

#define CS_MANIFEST_FILE "manifest.json"
#define CS_CLIENT_STATE_FILE "client_state.json"
#define CS_CONFIG_FILE "ds_config.json"

/* What "ancestors" lists, newest first: {"tag", "crc32c"} of each checkpoint in the same folder that this one
 * continues, the first being its parent; "crc32c" is the ancestor's `digest`. Older checkpoints have no such list
 * (line.h). */
#define CS_LINE_KEY "ancestors"

typedef struct {
    const char *name;
    cs_dtype dtype;
    int32_t dims;
    int64_t shape[CS_MAX_DIMS];
    int folder; /* index into cs_write_plan_folders */
} cs_manifest_tensor;

typedef struct {
    const char *name; /* "weights/shard-00001-of-00002.safetensors" and nothing that leaves the directory */
    int64_t bytes;
    uint32_t header_crc;
} cs_manifest_file;

/* A text that lies beside the manifest. */
typedef struct {
    int64_t bytes; /* -1: there is none */
    uint32_t crc;
} cs_manifest_note;

typedef struct {
    json_t *root; /* owns all strings */
    const char *tag, *save_id;
    uint32_t digest; /* CRC32C of the whole text: another save's is another */
    int64_t step;
    cs_manifest_tensor *tensors; /* by name */
    int64_t tensor_count;
    cs_manifest_file *files;
    int64_t file_count;
    int64_t bytes;                         /* of all files */
    cs_manifest_note client_state, config; /* client_state.json and ds_config.json */
} cs_manifest;

/* The text to write, malloc'ed. `files`: a list of {"name", "bytes", "header_crc32c", "writer"}. Without
 * content->line there is no list of ancestors. */
char *cs_manifest_text(const cs_checkpoint_content *content, const char *save_id, json_t *tensors, json_t *files);

/* Everything that is taken from a manifest later is judged here, for loading and for `cspeed verify` alike: types,
 * bounds (counts from 0 to 2^53, a sum of all files' bytes that fits) and that no file is listed twice. CS_BAD_FILE:
 * not a manifest, or damaged. CS_UNSUPPORTED: of a later version. */
cs_status cs_manifest_parse(cs_manifest *manifest, const char *text, size_t length, const char *path);
cs_status cs_manifest_load(cs_manifest *manifest, const char *directory); /* parses directory/manifest.json */
void cs_manifest_close(cs_manifest *manifest);                            /* accepts the half-built */

const cs_manifest_tensor *cs_manifest_find(const cs_manifest *manifest, const char *name); /* NULL: not there */

/* Every file is there and as long as the manifest says. */
cs_status cs_manifest_check_files(const cs_manifest *manifest, const char *directory);
/* The text CS_CLIENT_STATE_FILE or CS_CONFIG_FILE in the manifest's directory, malloc'ed, if its length and its
 * checksum are those that the manifest names, else CS_BAD_FILE; NULL where the manifest names none. */
cs_status cs_manifest_read_text(char **text, size_t *length, const cs_manifest *manifest, const char *directory,
                                const char *file);
/* What looking at a listed file came to: `status`, unless it is missing or has other `bytes` than listed (CS_BAD_FILE).
 */
cs_status cs_manifest_judge_file(const cs_manifest_file *file, const char *path, cs_status status, int64_t bytes);

/* Eight hexadecimal digits. */
bool cs_manifest_digits(uint32_t *value, const char *digits);

#endif
