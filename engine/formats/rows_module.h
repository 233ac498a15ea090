/* rows_module.h - the interface of libcspeed_arrow.so, which writes the rows of Parquet and Arrow files as lines of
 * JSON. This is slower than reading columns, but the shapes of rows, the names of columns, faulty rows and templates
 * are then handled by the same code as those of JSON files.
 *
 * Only this library is linked against Arrow. It calls no function of the program but the `put` that it is given. This
 * header is also compiled as C++. */
#ifndef CE_FORMATS_ROWS_MODULE_H
#define CE_FORMATS_ROWS_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A function that receives the text of some rows. `done` is the fraction of the file, from 0 to 1, that has been read.
 * The function returns false if no more text is wanted. */
typedef bool ce_rows_put(void *to, const char *text, size_t size, double done);
/* A function that receives the name of a column that was not wanted, and the number of its rows. */
typedef void ce_rows_unread(void *to, const char *column, int64_t rows);

/* The type of the module's only symbol, `ce_module_arrow`. */
typedef struct {
    int edition;         /* CE_ROWS_EDITION of the header with which the library was built */
    const char *release; /* CS_VERSION of the build of the library */
    /* Writes a line of JSON for each row. The line has those columns of the file whose names are in `columns`, or all
     * columns of the file if `columns` is NULL; at the end `unread` gets the others. Only one record batch at a time is in memory. Stops early, without an
     * error, if `put` returns false. After an error, returns a sentence that says what is wrong; the caller frees the
     * sentence. Otherwise returns NULL. */
    char *(*write)(const char *path, const char *const *columns, ce_rows_put *put, ce_rows_unread *unread, void *to);
} ce_rows_module;

enum { CE_ROWS_EDITION = 2 };

#endif
