/* products_cache.c - measured choices of methods for matrix products, kept on disk in one file for each key. The name
 * of the file is a hash of the key. The file holds the key, the choice, the two numbers `share` and `roof`, and a last
 * line that shows that the file is complete. */
#include "products/products_cache.h"
#include "base/files.h"
#include "base/log.h"
#include "base/rng.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char last_line[] = "whole\n";

/* Writes the path of the key's file to `path`; if `make` is true, also creates the folders of this path. Returns false
 * if neither XDG_CACHE_HOME nor HOME gives a usable path. */
static bool find(char path[PATH_MAX], const char *key, bool make)
{
    char cache[PATH_MAX - 64];
    if (!ce_files_cache(cache, sizeof cache))
        return false;
    if (make && ce_files_make_directories(cache) != CS_OK)
        ce_clear_error(); /* without the folders, writing the file fails */
    snprintf(path, PATH_MAX, "%s/products-%016llx", cache, (unsigned long long)ce_rng_key(0, key));
    return true;
}

static bool parse(char *text, const char *key, ce_products_measured *measured)
{
    char *rest = text, *lines[4];
    int length = 0;
    for (int i = 0; i < 3; i++) {
        lines[i] = strsep(&rest, "\n");
        if (!rest)
            return false;
    }
    return strcmp(lines[0], key) == 0 && ce_products_read(&measured->choice, lines[1]) &&
           sscanf(lines[2], "%lf %lf%n", &measured->share, &measured->roof, &length) == 2 && !lines[2][length] &&
           measured->share > 0 && measured->share <= 1 && measured->roof > 0 && strcmp(rest, last_line) == 0;
}

static bool read_file(const char *path, const char *key, ce_products_measured *measured)
{
    char text[CE_PRODUCTS_KEY + CE_PRODUCTS_TEXT + 256];
    ce_products_measured found = { .cached = true };
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    if (!parse(text, key, &found)) {
        ce_log(CE_LOG_DEBUG, "%s is damaged, or of another machine: products are measured again", path);
        return false;
    }
    *measured = found;
    return true;
}

bool ce_products_cache_get(const char *key, ce_products_measured *measured)
{
    char path[PATH_MAX];
    return find(path, key, false) && read_file(path, key, measured);
}

static bool write_file(const char *path, const char *key, const ce_products_measured *measured)
{
    char choice[CE_PRODUCTS_TEXT];
    FILE *file = fopen(path, "we");
    if (!file)
        return false;
    ce_products_print(choice, &measured->choice);
    bool written = fprintf(file, "%s\n%s\n%.6f %.6e\n%s", key, choice, measured->share, measured->roof, last_line) > 0;
    return fclose(file) == 0 && written;
}

void ce_products_cache_put(const char *key, ce_products_measured *measured)
{
    char path[PATH_MAX], new[PATH_MAX + 32];
    if (!find(path, key, true))
        return;
    snprintf(new, sizeof new, "%s.%ld", path, (long)getpid());
    bool written = write_file(new, key, measured);
    if (!written)
        ce_log(CE_LOG_DEBUG, "%s cannot be written: products are measured at every start", new);
    else if (link(new, path) != 0 && !read_file(path, key, measured))
        /* This line runs if the file at `path` is damaged, or if the file system of `path` has no hard links. */
        written = rename(new, path) == 0;
    unlink(new);
}
