/* load.c - decides which of the checkpoints in a directory is opened: the requested checkpoint, the checkpoint that the
 * file `latest` names, or the newest complete checkpoint. */
#include "checkpoint/checkpoint.h"
#include "base/must.h"
#include "base/log.h"
#include "base/files.h"
#include "checkpoint/not_found.h"
#include "comm/collective_status.h"
#include "checkpoint/line.h"
#include "checkpoint/reader.h"
#include "checkpoint/staging.h"
#include "checkpoint/tag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The state of the search for a checkpoint that can be read. The candidates are tried in order; rank 0 knows the order
 * and broadcasts each name. */
struct ce_search {
    char *dir;
    char *tag; /* the requested tag, or NULL */
    /* The name of the first candidate's directory: that of the requested tag or, without a requested tag, that of the
     * tag in the file `latest`. It is "" if `latest` is missing or has no valid tag. */
    char first[CE_TAG_BYTES];
    ce_catalog catalog;
    bool only_first;
    int64_t next;            /* the next candidate: -1 means `first`, other numbers are indices into the catalog */
    char name[CE_TAG_BYTES]; /* the directory that is open or was tried last */
    cs_status status;        /* status of the failures so far; `reason` has their messages */
    char reason[4096];
    int failures;      /* how often the candidate `name` has failed; it is read again while this is not 0 */
    char failed[1024]; /* the message of its last failure */
    json_t *damaged;   /* JSON list of the names of damaged directories */
};

/* Appends the message of a failure to s->reason. s->status becomes the status of the first failure that is not
 * CS_NOT_FOUND; if all failures are CS_NOT_FOUND, it is CS_NOT_FOUND. If the files of a checkpoint are damaged, the
 * checkpoint's directory is added to s->damaged. A checkpoint that cannot be read, or of a later version or of another
 * program, does not count as damaged. */
static void keep_reason(ce_search *s, cs_status status)
{
    size_t used = strlen(s->reason);
    snprintf(s->reason + used, sizeof s->reason - used, "%s%s", used ? "; " : "", cs_error());
    if (s->status == CS_OK || s->status == CS_NOT_FOUND)
        s->status = status;
    if (s->name[0] && status == CS_BAD_FILE)
        json_array_append_new(s->damaged, json_string(s->name));
}

/* Ends the search after the system has refused to read a file. The training must not go back because a disk or a file
 * server is away. */
static cs_status refuse_to_go_back(const char *why)
{
    return ce_fail(
        CS_IO_ERROR,
        "%s; the checkpoint may be intact, so no older one is loaded instead: start again when the file can be read, "
        "or name the tag of an older one",
        why);
}

static cs_status find_newest(ce_search *s)
{
    ce_staging_recover(s->dir);
    CE_TRY(ce_catalog_open(&s->catalog, s->dir));
    cs_status status = ce_catalog_latest(s->first, s->dir);
    if (status == CS_OK) {
        ce_line_follow(&s->catalog, s->dir, s->first);
        return CS_OK;
    }
    s->first[0] = 0;
    if (status == CS_IO_ERROR)
        return refuse_to_go_back(cs_error());
    if (status == CS_NOT_FOUND && s->catalog.count == 0)
        return ce_not_found_all(&s->catalog, s->dir);
    if (status == CS_NOT_FOUND)
        ce_fail(CS_NOT_FOUND, "%s/latest is missing", s->dir);
    keep_reason(s, status);
    return CS_OK;
}

/* Runs on rank 0. Returns the name of the next candidate, or "" if no candidate is left. */
static const char *next_name(ce_search *s)
{
    if (s->next < 0) {
        s->next = 0;
        if (s->first[0])
            return s->first;
    }
    if (s->only_first)
        return "";
    while (s->next < s->catalog.count && strcmp(s->catalog.items[s->next].name, s->first) == 0)
        s->next++;
    return s->next < s->catalog.count ? s->catalog.items[s->next++].name : "";
}

/* Names the folders with a manifest that were not candidates, because they are not complete or cannot be read. */
static void name_left_out(const ce_search *s)
{
    const char *name;
    json_t *why;
    json_object_foreach (s->catalog.broken, name, why)
        if (strcmp(name, s->first) != 0)
            ce_log(CE_LOG_WARNING, "%s/%s is left out: %s", s->dir, name, json_string_value(why));
}

static cs_status give_up(const ce_search *s)
{
    if (s->status == CS_UNSUPPORTED || (s->tag && s->status != CS_BAD_FILE))
        return ce_fail(s->status, "%s", s->reason);
    if (s->tag)
        return ce_fail(s->status, "%s; `cspeed inspect %s` lists the other checkpoints", s->reason, s->dir);
    if (s->only_first)
        return ce_fail(
            s->status == CS_NOT_FOUND ? CS_BAD_FILE : s->status,
            "%s; cspeed.checkpoint.on_bad_latest is \"fail\", so no older one is loaded: name a checkpoint with "
            "--tag (`cspeed inspect %s` lists them), or set it to \"fallback\"",
            s->reason, s->dir);
    name_left_out(s);
    return ce_fail(s->status == CS_NOT_FOUND ? CS_BAD_FILE : s->status,
                   "%s; %s contains no other complete checkpoint: copy one from a backup, or start over (train "
                   "--fresh)",
                   s->reason, s->dir);
}

static void warn_of_fallback(const ce_checkpoint_reader *reader)
{
    const ce_search *s = reader->search;
    bool ancestor = s->next > 0 && s->catalog.items[s->next - 1].generation != CE_NO_ANCESTOR;
    name_left_out(s);
    ce_log(CE_LOG_WARNING, "%s; loading %s instead, the newest complete checkpoint%s (step %lld)%s", s->reason,
           reader->path, ancestor ? " that it continues" : "", (long long)reader->manifest.step,
           json_array_size(s->damaged) ? "; the next save renames the damaged one" : "");
}

/* Handles the failure of the last candidate. The candidate is tried again, and its files are read from the disk again.
 * When it has failed with the same message before, or three times, damage is confirmed, and the next candidate is tried;
 * but files that cannot be read end the search. */
static cs_status leave(ce_checkpoint_reader *reader, cs_comm *comm, cs_status status)
{
    enum { MAX_FAILURES = 3 };
    ce_search *s = reader->search;
    bool same = s->failures > 0 && strncmp(s->failed, cs_error(), sizeof s->failed - 1) == 0;
    bool again = (status == CS_BAD_FILE || status == CS_IO_ERROR) && !same && s->failures + 1 < MAX_FAILURES;
    s->failures = again ? s->failures + 1 : 0;
    if (again) {
        snprintf(s->failed, sizeof s->failed, "%s", cs_error());
        if (cs_comm_rank(comm) == 0)
            ce_log(CE_LOG_WARNING, "%s; the checkpoint is read again", s->failed);
        ce_files_forget_tree(reader->path);
    } else {
        keep_reason(s, status);
    }
    ce_reader_close(reader);
    return status == CS_IO_ERROR && !again ? refuse_to_go_back(s->reason) : CS_OK;
}

/* Tries the candidates in order until one can be opened. Rank 0 broadcasts the name of each candidate, or "" if none is
 * left. */
static cs_status try_next(ce_checkpoint_reader *reader, cs_comm *comm)
{
    ce_search *s = reader->search;
    bool leads = cs_comm_rank(comm) == 0;
    for (;;) {
        if (s->failures == 0)
            snprintf(s->name, sizeof s->name, "%s", leads ? next_name(s) : "");
        cs_comm_broadcast(comm, s->name, sizeof s->name, CS_U8, 0);
        if (!s->name[0])
            return ce_collective_status(comm, leads ? give_up(s) : CS_OK);
        cs_status status = ce_reader_open(reader, comm, s->dir, s->name);
        if (status == CS_OK && leads && s->reason[0])
            warn_of_fallback(reader);
        if (status == CS_OK)
            return CS_OK;
        CE_TRY(leave(reader, comm, status));
    }
}

static cs_status find_and_open(ce_checkpoint_reader *reader, cs_comm *comm)
{
    ce_search *s = reader->search;
    cs_status status = CS_OK;
    if (cs_comm_rank(comm) == 0)
        status = s->tag ? ce_catalog_find(s->first, s->dir, s->tag) : find_newest(s);
    CE_TRY(ce_collective_status(comm, status));
    return try_next(reader, comm);
}

cs_status ce_checkpoint_open(ce_checkpoint_reader **reader, cs_comm *comm, const char *dir, const char *tag)
{
    return ce_checkpoint_open_as(reader, comm, dir, tag, &(ce_checkpoint_reading){ 0 });
}

static ce_search *make_search(const char *dir, const char *tag, bool no_fallback)
{
    ce_search *s = ce_must_alloc(sizeof *s);
    s->dir = ce_must_copy(dir);
    s->tag = tag ? ce_must_copy(tag) : NULL;
    s->next = -1;
    s->only_first = tag || no_fallback;
    s->damaged = json_array();
    return s;
}

static void close_search(ce_search *s)
{
    ce_catalog_close(&s->catalog);
    json_decref(s->damaged);
    free(s->dir);
    free(s->tag);
    free(s);
}

cs_status ce_checkpoint_open_as(ce_checkpoint_reader **reader, cs_comm *comm, const char *dir, const char *tag,
                                const ce_checkpoint_reading *reading)
{
    *reader = ce_must_alloc(sizeof **reader);
    (*reader)->reading = *reading;
    (*reader)->search = make_search(dir, tag, reading->no_fallback);
    /* With CE_NAMES_LOOSE all blocks are verified when a checkpoint is opened. If damage were found only while pieces
     * are read, the next candidate would be read into pieces that have values of the damaged checkpoint. A piece that
     * the next candidate lacks would keep these values. */
    if (reading->names == CE_NAMES_LOOSE && reading->verify == CE_VERIFY_TOUCHED)
        (*reader)->reading.verify = CE_VERIFY_FULL;
    cs_status status = find_and_open(*reader, comm);
    if (status != CS_OK) {
        ce_checkpoint_close(*reader);
        *reader = NULL;
    }
    return status;
}

bool ce_checkpoint_is_damaged(const ce_checkpoint_reader *reader)
{
    return reader->damage != CS_OK && reader->reading.names != CE_NAMES_LOOSE;
}

cs_status ce_checkpoint_fall_back(ce_checkpoint_reader *reader, cs_comm *comm)
{
    CE_TRY(leave(reader, comm, reader->damage));
    return try_next(reader, comm);
}

json_t *ce_checkpoint_damaged(const ce_checkpoint_reader *reader)
{
    return reader->search->damaged;
}

void ce_checkpoint_close(ce_checkpoint_reader *reader)
{
    if (!reader)
        return;
    ce_reader_close(reader);
    close_search(reader->search);
    free(reader);
}

const char *ce_checkpoint_tag(const ce_checkpoint_reader *reader)
{
    return reader->manifest.tag;
}

json_t *ce_checkpoint_engine(ce_checkpoint_reader *reader)
{
    return json_object_get(reader->manifest.root, "engine");
}

json_t *ce_checkpoint_provenance(ce_checkpoint_reader *reader)
{
    return json_object_get(reader->manifest.root, "provenance");
}

const char *ce_checkpoint_client_state(ce_checkpoint_reader *reader)
{
    return reader->client_state;
}
