/* places.c - where the documents of a token shard begin in the texts. */
#include "data/places.h"
#include "base/must.h"
#include "formats/plain.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writes the name of the file with the places, which has ".places" in place of the shard's ".bin". The name begins with
 * a dot, so that a pattern such as data/train* does not mean the file. */
static const char *name_of(char name[CE_PLACES_TEXT], const char *shard)
{
    size_t length = strlen(shard), ending = length > 4 && strcmp(shard + length - 4, ".bin") == 0 ? 4 : 0;
    const char *slash = strrchr(shard, '/');
    int folder = slash ? (int)(slash + 1 - shard) : 0;
    snprintf(name, CE_PLACES_TEXT, "%.*s.%.*s.places", folder, shard, (int)(length - ending) - folder, shard + folder);
    return name;
}

void ce_places_add(ce_places *places, int64_t document, const char *text, int64_t line)
{
    bool follows = places->text && strcmp(places->text, text) == 0;
    if (follows && document - places->document == line - places->line)
        return;
    places->file = places->file ? places->file : open_memstream(&places->bytes, &places->size);
    CE_ASSERT(places->file);
    places->text = text;
    places->document = document;
    places->line = line;
    fprintf(places->file, "%" PRId64 " %" PRId64 " %s\n", document, line, text);
}

cs_status ce_places_write(ce_places *places, const char *shard)
{
    char name[CE_PLACES_TEXT];
    CE_ASSERT(!places->file || fflush(places->file) == 0); /* sets `bytes` and `size` */
    FILE *file = fopen(name_of(name, shard), "we");
    bool written = file && fwrite(places->bytes ? places->bytes : "", 1, places->size, file) == places->size;
    if (file && fclose(file) != 0)
        written = false;
    ce_places_free(places);
    return written ? CS_OK : ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot be written", name);
}

void ce_places_free(ce_places *places)
{
    if (places->file)
        fclose(places->file);
    free(places->bytes);
    *places = (ce_places){ 0 };
}

void ce_places_remove(const char *shard)
{
    char name[CE_PLACES_TEXT];
    unlink(name_of(name, shard));
}

const char *ce_places_show(char place[CE_PLACES_TEXT], const char *text, int64_t line)
{
    snprintf(place, CE_PLACES_TEXT, "%s, %s %" PRId64, text, ce_plain_is_table(text) ? "row" : "line", line);
    return place;
}

bool ce_places_find(char place[CE_PLACES_TEXT], const char *shard, int64_t document)
{
    CE_FREED char *entry = NULL;
    size_t capacity = 0;
    bool found = false;
    FILE *file = fopen(name_of(place, shard), "re");
    while (file && getline(&entry, &capacity, file) > 0) {
        int64_t first, line;
        int path = 0;
        if (sscanf(entry, "%" SCNd64 " %" SCNd64 " %n", &first, &line, &path) != 2 || path == 0)
            continue;
        if (first > document)
            break;
        entry[strcspn(entry, "\n")] = '\0';
        ce_places_show(place, entry + path, (int64_t)((uint64_t)line + (uint64_t)document - (uint64_t)first));
        found = true;
    }
    if (file)
        fclose(file);
    return found;
}
