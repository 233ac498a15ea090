/* place.c - where the cache of the Hugging Face Hub keeps a model. */
#include "hub/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

/* Writes the value of a variable and what is below it. Returns false if the variable is not set. */
static bool read_variable(char *path, size_t capacity, const char *variable, const char *below)
{
    const char *value = getenv(variable), *home = getenv("HOME");
    bool tilde = value && value[0] == '~' && value[1] == '/' && home;
    return value && *value &&
           snprintf(path, capacity, "%s%s%s", tilde ? home : "", value + tilde, below) < (int)capacity;
}

bool ce_hub_user_path(char path[CE_HUB_PATH], const char *const *variables, const char *name)
{
    char home[CE_HUB_PATH];
    for (; *variables; variables++)
        if (read_variable(path, CE_HUB_PATH, *variables, ""))
            return true;
    return (read_variable(home, sizeof home, "HF_HOME", "") ||
            read_variable(home, sizeof home, "XDG_CACHE_HOME", "/huggingface") ||
            read_variable(home, sizeof home, "HOME", "/.cache/huggingface")) &&
           snprintf(path, CE_HUB_PATH, "%s/%s", home, name) < CE_HUB_PATH;
}

/* Returns the length of the part of a name at `text`; 0 if there is none. */
static size_t part(const char *text)
{
    return *text == '.' || *text == '-' ? 0 : strspn(text, LETTERS);
}

bool ce_hub_place_read(ce_hub_place *place, const char *name)
{
    static const char *const caches[] = { "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", NULL };
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
    return !strstr(place->model, "--") && ce_hub_user_path(place->cache, caches, "hub");
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
