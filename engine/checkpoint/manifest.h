/* manifest.h - manifest.json, the commit record of a checkpoint: it lists the contents and holds a checksum of its own
 * text.
 *
 * Its member "crc32c", eight digits, is the CRC32C of the text with these digits replaced by zeros. */
#ifndef CS_CHECKPOINT_MANIFEST_H
#define CS_CHECKPOINT_MANIFEST_H

#include "checkpoint/checkpoint.h"

/* CS_MANIFEST_LIMIT: maximum bytes of a manifest or of a text file beside it */
enum { CS_MANIFEST_VERSION = 1, CS_MANIFEST_LIMIT = 1 << 28 };

#define CS_MANIFEST_FILE "manifest.json"
#define CS_CLIENT_STATE_FILE "client_state.json"
#define CS_CONFIG_FILE "ds_config.json"

/* Key of the list of ancestors, newest first: {"tag", "crc32c"} for each checkpoint in the same directory that this one
 * continues, beginning with its parent; "crc32c" is the ancestor's `digest`. Checkpoints of older versions have no such
 * list (line.h). */
#define CS_LINE_KEY "ancestors"

typedef struct {
    const char *name;
    cs_dtype dtype;
    int32_t dims;
    int64_t shape[CS_MAX_DIMS];
    int folder; /* index into ce_write_plan_folders */
} ce_manifest_tensor;

typedef struct {
    const char *name; /* such as "weights/shard-00001-of-00002.safetensors"; never outside the checkpoint's directory */
    int64_t bytes;
    uint32_t header_crc;
} ce_manifest_file;

/* A text file beside the manifest. */
typedef struct {
    int64_t bytes; /* -1: there is no such file */
    uint32_t crc;
} ce_manifest_note;

typedef struct {
    json_t *root; /* owns all strings of this struct */
    const char *tag, *save_id;
    uint32_t digest; /* CRC32C of the manifest's whole text, which identifies this save */
    int64_t step;
    ce_manifest_tensor *tensors; /* sorted by name */
    int64_t tensor_count;
    ce_manifest_file *files;
    int64_t file_count;
    int64_t bytes;                         /* sum over all files */
    ce_manifest_note client_state, config; /* client_state.json and ds_config.json */
} ce_manifest;

/* The text of a new manifest, malloc'ed. `files` is a list of {"name", "bytes", "header_crc32c", "writer"}. If
 * content->line is NULL the manifest has no list of ancestors. */
char *ce_manifest_text(const ce_checkpoint_content *content, const char *save_id, json_t *tensors, json_t *files);

/* Parses and validates everything that is later taken from a manifest, for loading and for `cspeed verify`: types,
 * bounds (counts are 0 to 2^53, the sum of all files' bytes does not overflow), and that no file is listed twice.
 * CS_BAD_FILE: not a manifest, or damaged. CS_UNSUPPORTED: written by a later version. */
cs_status ce_manifest_parse(ce_manifest *manifest, const char *text, size_t length, const char *path);
cs_status ce_manifest_load(ce_manifest *manifest, const char *directory); /* reads and parses directory/manifest.json */
void ce_manifest_close(ce_manifest *manifest);                            /* allowed after a failed parse */

const ce_manifest_tensor *ce_manifest_find(const ce_manifest *manifest, const char *name); /* NULL: no such tensor */

/* Checks that every listed file exists and has the length that the manifest gives. */
cs_status ce_manifest_check_files(const ce_manifest *manifest, const char *directory);
/* Reads the text file CS_CLIENT_STATE_FILE or CS_CONFIG_FILE of the manifest's directory into *text, malloc'ed.
 * CS_BAD_FILE if its length or its checksum is not the manifest's; *text is NULL if the manifest lists no such file. */
cs_status ce_manifest_read_text(char **text, size_t *length, const ce_manifest *manifest, const char *directory,
                                const char *file);
/* Decides the status after a listed file was opened: CS_BAD_FILE if the file is missing or has not exactly `bytes`
 * bytes, otherwise `status`. */
cs_status ce_manifest_file_status(const ce_manifest_file *file, const char *path, cs_status status, int64_t bytes);

/* Parses exactly eight hexadecimal digits. */
bool ce_manifest_digits(uint32_t *value, const char *digits);

#endif
