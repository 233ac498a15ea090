/* places.h - where the documents of a token shard begin in the texts: .NAME.places beside NAME.bin.
 *
 * The file is read only for messages, and may be missing. Each line has the number of a document in the shard, from 1,
 * the line or row at which it begins, and the path of its text. A document without a line of its own begins one line
 * behind the document before it, in the same text. The number 0 stands for a document that began in an earlier shard.
 */
#ifndef CE_DATA_PLACES_H
#define CE_DATA_PLACES_H

#include "base/status.h"

#include <stdint.h>
#include <stdio.h>

/* The contents of a file that is not written yet. Zeroed at first. */
typedef struct {
    FILE *file; /* a stream into `bytes`, or NULL */
    char *bytes;
    size_t size;
    const char *text;       /* the path in the last line; the caller keeps it valid */
    int64_t document, line; /* the numbers in the last line */
} ce_places;

/* `shard` is the path of the shard. ce_places_write also frees the contents, as ce_places_free does. */
void ce_places_add(ce_places *places, int64_t document, const char *text, int64_t line);
cs_status ce_places_write(ce_places *places, const char *shard);
void ce_places_free(ce_places *places);
void ce_places_remove(const char *shard); /* removes the file */

/* Writes the place of a document, such as "chats.jsonl, line 7" or "chats.parquet, row 7". ce_places_find returns false
 * if the shard has no such file, or the file has no such document. */
enum { CE_PLACES_TEXT = 4200 };
const char *ce_places_show(char place[CE_PLACES_TEXT], const char *text, int64_t line);
bool ce_places_find(char place[CE_PLACES_TEXT], const char *shard, int64_t document);

#endif
