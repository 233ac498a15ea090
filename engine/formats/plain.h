/* plain.h - opens a file of texts in any of the formats in which they are published, as one file of plain text.
 *
 * A name's ending says the format: .txt, .jsonl or .json, also followed by .gz or .zst (compressed), and .parquet or
 * .arrow (tables, which become a line of JSON for each row). What is not plain text is decoded, a block at a time, into
 * a temporary file without a name. That file takes as much disk space as the text, takes no memory, and is removed when
 * it is closed. */
#ifndef CS_FORMATS_PLAIN_H
#define CS_FORMATS_PLAIN_H

#include "base/status.h"

#include <stdio.h>

/* The endings of texts that may stand in a folder, in the order in which the files of a folder are read. */
extern const char *const ce_plain_endings[];
extern const int ce_plain_ending_count;

bool ce_plain_is_text(const char *name);
bool ce_plain_is_json(const char *name);  /* true if its text is lines of JSON, or one list of objects */
bool ce_plain_is_table(const char *name); /* true if it is a table: each line of its text is a row */

typedef struct {
    const char *folder;         /* where decoded text is kept */
    const char *const *columns; /* NULL-terminated list of the columns of a table to read; NULL: all */
} ce_plain_how;

/* Opens the text of a file for reading. The caller closes *file. CS_NOT_FOUND: no such file. CS_BAD_FILE: damaged or
 * cut short; the message has the place. CS_UNSUPPORTED: this build cannot read the format; the message has the command
 * that converts the file. CS_IO_ERROR: it cannot be read, or its text cannot be written. */
cs_status ce_plain_open(FILE **file, const char *path, const ce_plain_how *how);

#endif
