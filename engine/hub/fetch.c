/* fetch.c - downloads files of a model from the Hugging Face Hub into the cache of the Hub's own programs. */
#include "hub/fetch.h"
#include "base/ends_with.h"
#include "base/files.h"
#include "base/log.h"
#include "base/must.h"
#include "base/names.h"
#include "base/progress.h"
#include "hub/listing.h"
#include "json/json.h"
#include "security/mac.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SINGLE "model.safetensors"
#define INDEX "model.safetensors.index.json"
#define ADAPTER "adapter_model.safetensors"

static bool is_weights(const char *name)
{
    return ce_ends_with(name, ".safetensors");
}

/* ---- what a folder has ---- */

/* Returns true if a file can be read. A link whose blob is missing cannot. */
static bool holds(const char *folder, const char *name)
{
    CE_FREED char *path = ce_files_join(folder, name);
    return access(path, R_OK) == 0;
}

/* Returns true if the folder has all shards that its index lists. */
static bool holds_shards(const char *folder)
{
    size_t length;
    const char *tensor;
    json_t *shard;
    CE_FREED char *text = NULL, *path = ce_files_join(folder, INDEX);
    if (ce_files_read(&text, &length, path, 1 << 28) != CS_OK)
        return false;
    json_auto_t *root = ce_json_strict(text, length);
    json_t *map = json_object_get(root, "weight_map");
    bool whole = json_object_size(map) > 0;
    json_object_foreach (map, tensor, shard)
        whole = whole && json_string_value(shard) && holds(folder, json_string_value(shard));
    return whole;
}

static bool holds_any_weights(const char *folder)
{
    DIR *listing = opendir(folder);
    bool found = false;
    for (const struct dirent *entry; listing && !found && (entry = readdir(listing)) != NULL;)
        found = is_weights(entry->d_name) && holds(folder, entry->d_name);
    if (listing)
        closedir(listing);
    return found;
}

bool ce_hub_has(const char *folder, ce_hub_part part)
{
    if (part == CE_HUB_DESCRIPTION)
        return holds(folder, "config.json") || holds(folder, "adapter_config.json");
    if (holds(folder, SINGLE) || holds(folder, ADAPTER))
        return true;
    return holds(folder, INDEX) ? holds_shards(folder) : holds_any_weights(folder);
}

/* ---- which files are wanted ---- */

static bool lists(const ce_hub_listing *listing, const char *name)
{
    for (int i = 0; i < listing->count; i++)
        if (strcmp(listing->files[i].name, name) == 0)
            return true;
    return false;
}

/* consolidated.safetensors is the same model with the names of Mistral's own programs. */
static bool wants(const ce_hub_listing *listing, const char *name, ce_hub_part part)
{
    static const char *const endings[] = { ".json", ".jinja", ".model", ".tiktoken", "merges.txt", "vocab.txt" };
    bool described = false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        described = described || ce_ends_with(name, endings[i]);
    if (part == CE_HUB_DESCRIPTION)
        return described;
    if (!is_weights(name) || strncmp(name, "consolidated", strlen("consolidated")) == 0)
        return false;
    if (lists(listing, SINGLE) || lists(listing, ADAPTER))
        return strcmp(name, SINGLE) == 0 || strcmp(name, ADAPTER) == 0;
    return true;
}

/* ---- one file ---- */

typedef struct {
    const ce_hub_place *place;
    const ce_hub_listing *listing;
    ce_progress progress;
    /* the file that is written */
    ce_http_request request;
    const char *path;
    int64_t bytes; /* the size that the Hub lists */
    int descriptor;
    bool failed; /* it could not be written; cs_error() says why */
} download;

static bool take_bytes(void *owner, int64_t offset, const void *bytes, size_t count)
{
    download *d = owner;
    if (offset + (int64_t)count > d->bytes) { /* more than the Hub lists */
        d->failed = true;
        ce_fail(CS_BAD_FILE, "the server sends more than %lld bytes", (long long)d->bytes);
        return false;
    }
    d->failed = ce_files_write_at(d->descriptor, bytes, count, offset, d->path) != CS_OK;
    d->request.from = offset + (int64_t)count;
    ce_progress_add(&d->progress, (int64_t)count);
    return !d->failed;
}

/* Finds out whether the bytes of the open file have the digest that the Hub lists. */
static cs_status check_digest(bool *intact, int descriptor, const ce_hub_file *file)
{
    char digest[CE_MAC_DIGEST];
    size_t count = (size_t)file->bytes;
    void *bytes = count ? mmap(NULL, count, PROT_READ, MAP_PRIVATE, descriptor, 0) : "";
    if (bytes == MAP_FAILED)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: it cannot be mapped", file->name);
    if (strlen(file->digest) == 64)
        ce_mac_digest(digest, bytes, count);
    else
        ce_mac_git_blob(digest, bytes, count);
    if (count)
        munmap(bytes, count);
    *intact = strcmp(digest, file->digest) == 0;
    return CS_OK;
}

/* Writes the rest of the open file, whose first bytes may be there already. */
static cs_status write_rest(download *d, const ce_hub_file *file)
{
    off_t bytes = lseek(d->descriptor, 0, SEEK_END);
    d->request.from = bytes > 0 && bytes <= file->bytes ? bytes : 0;
    cs_status status = CS_OK;
    if (d->request.from < file->bytes || file->bytes == 0)
        status = ce_hub_ask(d->place, &d->request, file->name);
    if (d->failed)
        return ce_fail(CS_IO_ERROR, "the download of %s: %s", file->name, cs_error());
    if (status == CS_OK && ftruncate(d->descriptor, file->bytes) != 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s", d->path);
    return status;
}

/* Downloads to d->path. If the bytes that were there do not belong to this file, downloads it whole. */
static cs_status write_file(download *d, const ce_hub_file *file)
{
    bool intact;
    for (int attempt = 0; attempt < 2; attempt++) {
        CE_TRY(write_rest(d, file));
        CE_TRY(check_digest(&intact, d->descriptor, file));
        if (intact)
            return fsync(d->descriptor) == 0 ? CS_OK : ce_fail_errno(CS_IO_ERROR, errno, "%s", d->path);
        if (ftruncate(d->descriptor, 0) != 0)
            return ce_fail_errno(CS_IO_ERROR, errno, "%s", d->path);
    }
    return ce_fail(CS_BAD_FILE, "%s of %s: the downloaded bytes do not have the digest %s that the Hub lists",
                   file->name, d->place->model, file->digest);
}

/* Returns the name of a file that is being downloaded. Hosts that share a cache may not share its locks, so each host has a
 * name of its own. */
static char *incomplete(const char *blob)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    return ce_must_print("%s.%s.cspeed.incomplete", blob, host);
}

static cs_status fetch_blob(download *d, const ce_hub_file *file, const char *blob)
{
    char endpoint[CE_HUB_NAME];
    CE_FREED char *path = incomplete(blob);
    CE_FREED char *name = ce_hub_quoted(file->name);
    CE_FREED char *url =
        ce_must_print("%s/%s/resolve/%s/%s", ce_hub_endpoint(endpoint), d->place->model, d->listing->commit, name);
    d->path = path;
    d->bytes = file->bytes;
    d->request = (ce_http_request){ .url = url, .take = take_bytes, .owner = d };
    d->descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (d->descriptor < 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s", path);
    cs_status status = write_file(d, file);
    close(d->descriptor);
    return status == CS_OK ? ce_files_rename(path, blob) : status;
}

/* Makes the name of the file in the snapshot a link to its blob, which is downloaded if it is missing. */
static cs_status fetch_file(download *d, const ce_hub_file *file)
{
    char blob[CE_HUB_PATH], name[CE_HUB_PATH];
    CE_FREED char *below_blob = ce_must_print("blobs/%s", file->digest);
    CE_FREED char *below_name = ce_must_print("snapshots/%s/%s", d->listing->commit, file->name);
    CE_FREED char *target = ce_must_print("../../%s", below_blob);
    if (!ce_hub_place_path(blob, d->place, below_blob) || !ce_hub_place_path(name, d->place, below_name))
        return ce_fail(CS_IO_ERROR, "%s: the path of the cache is too long", d->place->cache);
    if (access(name, R_OK) == 0)
        return CS_OK;
    if (access(blob, R_OK) != 0)
        CE_TRY(fetch_blob(d, file, blob));
    unlink(name); /* a link whose blob was missing */
    return symlink(target, name) == 0 || errno == EEXIST ? CS_OK : ce_fail_errno(CS_IO_ERROR, errno, "%s", name);
}

/* ---- a part of the model ---- */

static cs_status make_folders(const ce_hub_place *place, const ce_hub_listing *listing)
{
    char path[CE_HUB_PATH];
    CE_FREED char *snapshot = ce_must_print("snapshots/%s", listing->commit);
    const char *const folders[] = { "blobs", snapshot };
    for (int i = 0; i < 2; i++) {
        ce_hub_place_path(path, place, folders[i]);
        CE_TRY(ce_files_make_directories(path));
    }
    return CS_OK;
}

/* Fails if the disk has no space for the files, and says what is downloaded. */
static cs_status announce(const ce_hub_place *place, const ce_hub_listing *listing, int64_t bytes, int files)
{
    struct statvfs disk;
    if (statvfs(place->cache, &disk) == 0 && (double)disk.f_bavail * (double)disk.f_frsize < (double)bytes)
        return ce_fail(CS_IO_ERROR, "%s needs %.2f GB in the cache %s, and the disk has %.2f GB", place->model,
                       (double)bytes * 1e-9, place->cache, (double)disk.f_bavail * (double)disk.f_frsize * 1e-9);
    ce_log(CE_LOG_NOTICE, "downloading %s at commit %.12s: %d %s, %.1f MB, to %s", place->model, listing->commit, files,
           files == 1 ? "file" : "files", (double)bytes * 1e-6, place->cache);
    return CS_OK;
}

static cs_status refuse_no_weights(const ce_hub_place *place, const ce_hub_listing *listing)
{
    ce_names names = { 0 };
    for (int i = 0; i < listing->count; i++)
        ce_names_add(&names, "%s", listing->files[i].name);
    return ce_fail(CS_UNSUPPORTED,
                   "not supported: %s, because it has no weights in safetensors files; its files are %s", place->model,
                   ce_names_text(&names));
}

/* Returns the number of bytes of a file that the cache does not have. */
static int64_t missing_bytes(const ce_hub_place *place, const ce_hub_file *file)
{
    char blob[CE_HUB_PATH];
    struct stat facts;
    CE_FREED char *below = ce_must_print("blobs/%s", file->digest);
    if (!ce_hub_place_path(blob, place, below))
        return file->bytes;
    CE_FREED char *rest = incomplete(blob);
    if (stat(blob, &facts) == 0)
        return 0;
    return stat(rest, &facts) == 0 && facts.st_size < file->bytes ? file->bytes - facts.st_size : file->bytes;
}

/* Downloads the wanted files. config.json is the last one, because its presence means that the description is whole. */
static cs_status fetch_part(const ce_hub_place *place, const ce_hub_listing *listing, ce_hub_part part)
{
    download d = { .place = place, .listing = listing };
    int64_t bytes = 0;
    int files = 0;
    for (int i = 0; i < listing->count; i++)
        if (wants(listing, listing->files[i].name, part)) {
            bytes += missing_bytes(place, &listing->files[i]);
            files++;
        }
    if (files == 0 && part == CE_HUB_WEIGHTS)
        return refuse_no_weights(place, listing);
    CE_TRY(make_folders(place, listing));
    CE_TRY(announce(place, listing, bytes, files));
    ce_progress_begin(&d.progress, "downloading", NULL, bytes);
    cs_status status = CS_OK;
    for (int last = 0; last < 2; last++)
        for (int i = 0; i < listing->count && status == CS_OK; i++) {
            const ce_hub_file *file = &listing->files[i];
            bool final = strcmp(file->name, lists(listing, "config.json") ? "config.json" : "adapter_config.json") == 0;
            if (wants(listing, file->name, part) && final == last)
                status = fetch_file(&d, file);
        }
    ce_progress_end(&d.progress);
    return status;
}

/* Writes the commit of a branch or tag, so that it is found without the Hub. */
static cs_status write_reference(const ce_hub_place *place, const char *commit)
{
    char path[CE_HUB_PATH], written[CE_HUB_PATH + 16];
    CE_FREED char *below = ce_must_print("refs/%s", place->revision);
    if (ce_hub_place_is_commit(place->revision) || !ce_hub_place_path(path, place, below))
        return CS_OK;
    char *slash = strrchr(path, '/');
    *slash = 0;
    CE_TRY(ce_files_make_directories(path));
    *slash = '/';
    snprintf(written, sizeof written, "%s.incomplete", path);
    unlink(written);
    CE_TRY(ce_files_write(written, commit, strlen(commit)));
    return ce_files_rename(written, path);
}

static cs_status lock(int *descriptor, const ce_hub_place *place)
{
    char path[CE_HUB_PATH];
    ce_hub_place locks = *place;
    *descriptor = -1;
    if (snprintf(locks.cache, sizeof locks.cache, "%s/.locks", place->cache) >= CE_HUB_PATH ||
        !ce_hub_place_path(path, &locks, ""))
        return ce_fail(CS_IO_ERROR, "%s: the path of the cache is too long", place->cache);
    CE_TRY(ce_files_make_directories(path));
    ce_hub_place_path(path, &locks, "cspeed.lock");
    *descriptor = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    while (*descriptor >= 0 && flock(*descriptor, LOCK_EX) != 0)
        if (errno != EINTR)
            return ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot be locked", path);
    return *descriptor >= 0 ? CS_OK : ce_fail_errno(CS_IO_ERROR, errno, "%s", path);
}

static cs_status fetch_locked(const ce_hub_place *place, ce_hub_part part)
{
    char folder[CE_HUB_PATH];
    ce_hub_listing listing;
    if (ce_hub_place_snapshot(folder, place) && ce_hub_has(folder, part))
        return CS_OK;
    cs_status status = ce_hub_listing_get(&listing, place);
    if (status == CS_OK && ce_hub_place_is_commit(place->revision) && strcmp(place->revision, listing.commit) != 0)
        status = ce_fail(CS_BAD_FILE, "%s: the Hub answers with commit %s, not %s", place->model, listing.commit,
                         place->revision);
    if (status == CS_OK)
        status = fetch_part(place, &listing, part);
    if (status == CS_OK)
        status = write_reference(place, listing.commit);
    ce_hub_listing_free(&listing);
    return status;
}

cs_status ce_hub_fetch(const ce_hub_place *place, ce_hub_part part)
{
    int descriptor;
    cs_status status = lock(&descriptor, place);
    if (status == CS_OK)
        status = fetch_locked(place, part);
    if (descriptor >= 0)
        close(descriptor);
    return status;
}
