/* rows_module.h - what libcspeed_arrow.so offers: the rows of Parquet and Arrow files as lines of JSON.
 *
 * Only that module is linked against Arrow. It calls nothing of this program but the function that it is given, and C++
 * reads this header too. */
#ifndef CS_FORMATS_ROWS_MODULE_H
#define CS_FORMATS_ROWS_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Receives the text of some rows. `done` is the share of the file, from 0 to 1, that has been read. Returns false if no
 * more is wanted. */
typedef bool ce_rows_put(void *to, const char *text, size_t size, double done);

/* The type of the module's only symbol, `ce_module_arrow`. */
typedef struct {
    int edition;         /* CS_ROWS_EDITION of the header that the module was built with */
    const char *release; /* CS_VERSION of that build */
    /* Writes a line of JSON for each row, with those of the columns that the file has; NULL: with all of them. It keeps
     * one record batch in memory. Returns NULL, or a malloc'ed sentence that says what is wrong. */
    char *(*write)(const char *path, const char *const *columns, ce_rows_put *put, void *to);
} ce_rows_module;

enum { CS_ROWS_EDITION = 1 };

#endif
