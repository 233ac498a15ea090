/* place.c - where the cache of the Hugging Face Hub keeps a model. */
#include "hub/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

static bool read_cache(char cache[CE_HUB_PATH])
{
    static const struct {
        const char *variable, *below;
    } places[] = { { "HF_HUB_CACHE", "" },
                   { "HUGGINGFACE_HUB_CACHE", "" },
                   { "HF_HOME", "/hub" },
                   { "XDG_CACHE_HOME", "/huggingface/hub" },
                   { "HOME", "/.cache/huggingface/hub" } };
    const char *home = getenv("HOME");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        const char *value = getenv(places[i].variable);
        bool tilde = value && value[0] == '~' && value[1] == '/' && home;
        if (value && *value)
            return snprintf(cache, CE_HUB_PATH, "%s%s%s", tilde ? home : "", value + tilde, places[i].below) <
                   CE_HUB_PATH;
    }
    return false;
}

/* Returns the length of the part of a name at `text`; 0 if there is none. */
static size_t part(const char *text)
{
    return *text == '.' || *text == '-' ? 0 : strspn(text, LETTERS);
}

bool ce_hub_place_read(ce_hub_place *place, const char *name)
{
    size_t length = part(name), second = 0;
    if (length && name[length] == '/') {
        second = part(name + length + 1);
        length = second ? length + 1 + second : 0;
    }
    const char *revision = name + length + 1;
    bool given = length && name[length] == '@';
    if (!length || length >= CE_HUB_NAME || (!given && name[length]))
        return false;
    if (given && (!part(revision) || revision[strspn(revision, LETTERS "/")] || strstr(revision, "..") ||
                  strlen(revision) >= CE_HUB_NAME))
        return false;
    snprintf(place->model, sizeof place->model, "%.*s", (int)length, name);
    snprintf(place->revision, sizeof place->revision, "%s", given ? revision : "main");
    return !strstr(place->model, "--") && read_cache(place->cache);
}

bool ce_hub_place_of_snapshot(ce_hub_place *place, const char *folder)
{
    static const char middle[] = "/snapshots/", before[] = "/models--";
    const char *snapshots = strstr(folder, middle), *models = NULL;
    for (const char *at = snapshots; at && (at = strstr(at + 1, middle)) != NULL;)
        snapshots = at; /* the last one */
    for (const char *at = folder; snapshots && (at = strstr(at, before)) != NULL && at < snapshots; at++)
        models = at;
    if (!models)
        return false;
    const char *commit = snapshots + strlen(middle), *model = models + strlen(before);
    int length = (int)(snapshots - model);
    snprintf(place->cache, sizeof place->cache, "%.*s", (int)(models - folder), folder);
    snprintf(place->revision, sizeof place->revision, "%.*s", (int)strspn(commit, LETTERS), commit);
    snprintf(place->model, sizeof place->model, "%.*s", length, model);
    char *dashes = strstr(place->model, "--");
    if (dashes) {
        *dashes = '/';
        memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
    }
    return length < CE_HUB_NAME && place->revision[0];
}

bool ce_hub_place_path(char path[CE_HUB_PATH], const ce_hub_place *place, const char *below)
{
    const char *slash = strchr(place->model, '/');
    int first = slash ? (int)(slash - place->model) : (int)strlen(place->model);
    return snprintf(path, CE_HUB_PATH, "%s/models--%.*s%s%s/%s", place->cache, first, place->model, slash ? "--" : "",
                    slash ? slash + 1 : "", below) < CE_HUB_PATH;
}

bool ce_hub_place_is_commit(const char *revision)
{
    return strspn(revision, "0123456789abcdef") == 40 && !revision[40];
}

/* Reads the commit of a branch or a tag. */
static bool read_reference(char commit[CE_HUB_NAME], const ce_hub_place *place)
{
    char path[CE_HUB_PATH], below[CE_HUB_NAME + 8];
    snprintf(below, sizeof below, "refs/%s", place->revision);
    if (!ce_hub_place_path(path, place, below))
        return false;
    FILE *file = access(path, R_OK) == 0 ? fopen(path, "re") : NULL;
    bool found = file && fscanf(file, "%63[0-9a-zA-Z]", commit) == 1;
    if (file)
        fclose(file);
    return found;
}

bool ce_hub_place_snapshot(char path[CE_HUB_PATH], const ce_hub_place *place)
{
    char commit[CE_HUB_NAME], below[CE_HUB_NAME + 16];
    if (ce_hub_place_is_commit(place->revision))
        memcpy(commit, place->revision, sizeof commit);
    else if (!read_reference(commit, place))
        return false;
    snprintf(below, sizeof below, "snapshots/%s", commit);
    return ce_hub_place_path(path, place, below);
}
