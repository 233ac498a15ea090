/* manifest.h - manifest.json, the commit record of a checkpoint: it lists the contents and has a checksum of its own
 * text. This checksum is the member "crc32c", eight digits: the CRC32C of the text in which these digits are zeros. */
#ifndef CE_CHECKPOINT_MANIFEST_H
#define CE_CHECKPOINT_MANIFEST_H

#include "checkpoint/checkpoint.h"

/* CE_MANIFEST_LIMIT is the maximum length, in bytes, of a manifest or of a text file beside it. */
enum { CE_MANIFEST_VERSION = 1, CE_MANIFEST_LIMIT = 1 << 28 };

#define CE_MANIFEST_FILE "manifest.json"
#define CE_CLIENT_STATE_FILE "client_state.json"
#define CE_CONFIG_FILE "ds_config.json"

/* Key of the list of ancestors: the checkpoints in the same directory that the manifest's checkpoint continues. An
 * entry is {"tag", "crc32c"}, where "crc32c" is the ancestor's `digest`. The first entry is the parent, which is the
 * newest ancestor. Manifests of older versions have no such list (line.h). */
#define CE_LINE_KEY "ancestors"

typedef struct {
    const char *name;
    cs_dtype dtype;
    int32_t dims;
    int64_t shape[CS_MAX_DIMS];
    int folder; /* index into ce_write_plan_folders */
} ce_manifest_tensor;

typedef struct {
    /* Name such as "weights/shard-00001-of-00002.safetensors"; the file is never outside the checkpoint's directory. */
    const char *name;
    int64_t bytes;
    uint32_t header_crc;
} ce_manifest_file;

/* A text file beside the manifest: client_state.json or ds_config.json. */
typedef struct {
    int64_t bytes; /* length of the file in bytes; -1 if there is no such file */
    uint32_t crc;
} ce_manifest_note;

typedef struct {
    json_t *root; /* the parsed JSON, which owns all strings of this struct */
    const char *tag, *save_id;
    uint32_t digest; /* CRC32C of the manifest's whole text, which identifies this save */
    int64_t step;
    ce_manifest_tensor *tensors; /* the tensors, sorted by name */
    int64_t tensor_count;
    ce_manifest_file *files;
    int64_t file_count;
    int64_t bytes;                         /* number of bytes of all files together */
    ce_manifest_note client_state, config; /* the files client_state.json and ds_config.json */
} ce_manifest;

/* Returns the text of a new manifest, which the caller frees. `files` is a list of {"name", "bytes", "header_crc32c",
 * "writer"}. If content->line is NULL, the manifest has no list of ancestors. */
char *ce_manifest_text(const ce_checkpoint_content *content, const char *save_id, json_t *tensors, json_t *files);

/* Parses a manifest, for loading and for `cspeed verify`. Checks the types and the bounds of all members that are used
 * later: a count must be 0 to 2^53, and the sum of the bytes of all files must not overflow. Checks also that no file
 * is listed twice. Returns CS_BAD_FILE if the text is no manifest or is damaged, and CS_UNSUPPORTED if a later version
 * of this program has written the manifest. */
cs_status ce_manifest_parse(ce_manifest *manifest, const char *text, size_t length, const char *path);
cs_status ce_manifest_load(ce_manifest *manifest, const char *directory); /* reads and parses directory/manifest.json */
void ce_manifest_close(ce_manifest *manifest); /* frees the manifest's memory; allowed after a failed parse */

/* Returns the tensor of this name, or NULL if there is none. */
const ce_manifest_tensor *ce_manifest_find(const ce_manifest *manifest, const char *name);

/* Checks that every listed file exists and has the length that the manifest gives. */
cs_status ce_manifest_check_files(const ce_manifest *manifest, const char *directory);
/* Reads the text file CE_CLIENT_STATE_FILE or CE_CONFIG_FILE of the manifest's directory into *text, which the caller
 * frees. *text is NULL if the manifest lists no such file. Returns CS_BAD_FILE if the length or the checksum of the
 * text differs from the manifest's. */
cs_status ce_manifest_read_text(char **text, size_t *length, const ce_manifest *manifest, const char *directory,
                                const char *file);
/* Returns the status to report after a listed file was opened: CS_BAD_FILE if the file is missing or does not have
 * exactly `bytes` bytes, otherwise `status`. */
cs_status ce_manifest_file_status(const ce_manifest_file *file, const char *path, cs_status status, int64_t bytes);

/* Parses eight lower-case hexadecimal digits. Returns false if `digits` is anything else. */
bool ce_manifest_digits(uint32_t *value, const char *digits);

#endif
