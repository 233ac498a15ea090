/* plain.h - opens a file of texts in any of the formats in which they are published, as one file of plain text.
 *
 * The ending of a file's name, in letters of either case, determines what its text is: .txt, .jsonl or .json, also
 * followed by .gz or .zst (compressed), and .parquet or .arrow (tables, which become a line of JSON for each row). The
 * content determines whether it is compressed, and a file whose content is no text is refused (kind.h). A file that is
 * not plain text is decoded, a block at a time, into a temporary file without a name. The temporary file takes as much
 * disk space as the text, takes no memory, and is removed when it is closed. A stream would not do: packing reads a text
 * twice, with several threads, and holds out documents from the whole text. */
#ifndef CE_FORMATS_PLAIN_H
#define CE_FORMATS_PLAIN_H

#include "json/json.h"

#include <stdio.h>

/* The endings of the names of the text files that are read from a folder, in the order in which the files are read. */
extern const char *const ce_plain_endings[];
extern const int ce_plain_ending_count;

bool ce_plain_is_text(const char *name);
/* Returns true if the text of the file is lines of JSON, or one list of objects. */
bool ce_plain_is_json(const char *name);
bool ce_plain_is_table(const char *name); /* returns true if the file is a table: each line of its text is a row */

typedef struct {
    const char *folder;         /* folder of the temporary file with the decoded text */
    const char *const *columns; /* NULL-terminated list of the columns to read, for a table; NULL means all columns */
    json_t *unread; /* object that gets the names of the other columns with their numbers of rows; may be NULL */
} ce_plain_how;

/* Opens the text of a file for reading. The caller closes *file. Errors: CS_NOT_FOUND if there is no such file.
 * CS_BAD_FILE if the file is damaged, cut short, or no text; the message gives the place, or what makes text of it. CS_UNSUPPORTED if this build cannot
 * read the format; the message gives the command that converts the file. CS_IO_ERROR if the file cannot be read, or the
 * decoded text cannot be written. */
cs_status ce_plain_open(FILE **file, const char *path, const ce_plain_how *how);

#endif
