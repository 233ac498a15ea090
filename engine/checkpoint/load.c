/* load.c - which checkpoint of a directory is opened: the one asked for, what latest names, or the newest whole one. */
#include "checkpoint/checkpoint.h"
#include "base/log.h"
#include "checkpoint/absent.h"
#include "checkpoint/agree.h"
#include "checkpoint/reader.h"
#include "checkpoint/tag.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rank 0's search: names to try, in order. */
typedef struct {
    const char *dir;
    char        first[CS_TAG_BYTES]; /* what was asked for, or latest's; "": latest names nothing */
    cs_catalog  catalog;
    bool        only_first;
    int64_t     next;   /* -1: first; then into the catalog */
    cs_status   status; /* why it was none of those before */
    char        reason[4096];
} search;

/* Damage weighs more than absence. */
static void keep_reason(search *s, cs_status status)
{
    size_t used = strlen(s->reason);
    snprintf(s->reason + used, sizeof s->reason - used, "%s%s", used ? "; " : "", cs_error());
    if (s->status == CS_OK || s->status == CS_NOT_FOUND)
        s->status = status;
}

static cs_status find_newest(search *s)
{
    CS_TRY(cs_catalog_open(&s->catalog, s->dir));
    cs_status status = cs_catalog_latest(s->first, s->dir);
    if (status == CS_OK)
        return CS_OK;
    s->first[0] = 0;
    if (status == CS_NOT_FOUND && s->catalog.count == 0)
        return cs_absent_all(&s->catalog, s->dir);
    if (status == CS_NOT_FOUND)
        cs_fail(CS_NOT_FOUND, "%s/latest is missing", s->dir);
    keep_reason(s, status);
    return CS_OK;
}

/* The next name to try; "" when there is none. */
static const char *next_name(search *s)
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

static cs_status give_up(const search *s, const char *tag)
{
    if (tag)
        return cs_fail(s->status, "%s", s->reason);
    if (s->only_first)
        return cs_fail(s->status == CS_NOT_FOUND ? CS_BAD_FILE : s->status,
                       "%s; cspeed.checkpoint.on_bad_latest is \"fail\": name a tag, or say \"fallback\"", s->reason);
    return cs_fail(s->status == CS_NOT_FOUND ? CS_BAD_FILE : s->status, "%s; %s holds no other whole checkpoint",
                   s->reason, s->dir);
}

/* Opens the first that can be. Rank 0 leads: it says which name is tried, "" when there is none left. */
static cs_status try_all(cs_checkpoint_reader *reader, cs_comm *comm, search *s, const char *tag)
{
    for (;;) {
        char name[CS_TAG_BYTES] = "";
        bool leads              = cs_comm_rank(comm) == 0;
        if (leads)
            snprintf(name, sizeof name, "%s", next_name(s));
        cs_comm_broadcast(comm, name, sizeof name, CS_U8, 0);
        if (!name[0])
            return cs_agree_status(comm, leads ? give_up(s, tag) : CS_OK);
        cs_status status = cs_reader_open(reader, comm, s->dir, name);
        if (status == CS_OK && leads && s->reason[0])
            cs_log(CS_LOG_WARNING, "%s; loading %s instead, the newest whole checkpoint (step %lld)", s->reason,
                   reader->path, (long long)reader->manifest.step);
        if (status == CS_OK)
            return CS_OK;
        keep_reason(s, status);
        cs_reader_close(reader);
    }
}

static cs_status find_and_open(cs_checkpoint_reader *reader, cs_comm *comm, search *s, const char *tag)
{
    cs_status status = CS_OK;
    if (cs_comm_rank(comm) == 0)
        status = tag ? cs_catalog_find(s->first, s->dir, tag) : find_newest(s);
    CS_TRY(cs_agree_status(comm, status));
    return try_all(reader, comm, s, tag);
}

cs_status cs_checkpoint_open(cs_checkpoint_reader **reader, cs_comm *comm, const char *dir, const char *tag)
{
    return cs_checkpoint_open_as(reader, comm, dir, tag, &(cs_checkpoint_reading){ 0 });
}

cs_status cs_checkpoint_open_as(cs_checkpoint_reader **reader, cs_comm *comm, const char *dir, const char *tag,
                                const cs_checkpoint_reading *reading)
{
    search s           = { .dir = dir, .next = -1, .only_first = tag || reading->no_fallback };
    *reader            = cs_agree_memory(sizeof **reader);
    (*reader)->reading = *reading;
    cs_status status = find_and_open(*reader, comm, &s, tag);
    cs_catalog_close(&s.catalog);
    if (status != CS_OK) {
        cs_checkpoint_close(*reader);
        *reader = NULL;
    }
    return status;
}

void cs_checkpoint_close(cs_checkpoint_reader *reader)
{
    if (!reader)
        return;
    cs_reader_close(reader);
    free(reader);
}

const char *cs_checkpoint_tag(const cs_checkpoint_reader *reader)
{
    return reader->manifest.tag;
}

json_t *cs_checkpoint_engine(cs_checkpoint_reader *reader)
{
    return json_object_get(reader->manifest.root, "engine");
}

json_t *cs_checkpoint_provenance(cs_checkpoint_reader *reader)
{
    return json_object_get(reader->manifest.root, "provenance");
}

const char *cs_checkpoint_client_state(cs_checkpoint_reader *reader)
{
    return reader->client_state;
}
