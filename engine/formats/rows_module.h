/* rows_module.h - the interface of libcspeed_arrow.so: it writes the rows of Parquet and Arrow files as lines of JSON.
 *
 * Only that module is linked against Arrow. The only function of this program that the module calls is the one it is
 * given. This header is also compiled as C++. */
#ifndef CS_FORMATS_ROWS_MODULE_H
#define CS_FORMATS_ROWS_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Receives the text of some rows. `done` is the share of the file, from 0 to 1, that has been read. Returns false if no
 * more text is wanted. */
typedef bool ce_rows_put(void *to, const char *text, size_t size, double done);

/* The type of the module's only symbol, `ce_module_arrow`. */
typedef struct {
    int edition;         /* CS_ROWS_EDITION of the header that the module was built with */
    const char *release; /* CS_VERSION of that build */
    /* Writes a line of JSON for each row. The line has those of `columns` that the file has; `columns` NULL: all
     * columns of the file. Only one record batch at a time is in memory. Returns NULL, or a malloc'ed sentence that
     * says what is wrong. */
    char *(*write)(const char *path, const char *const *columns, ce_rows_put *put, void *to);
} ce_rows_module;

enum { CS_ROWS_EDITION = 1 };

#endif
