/* dialect.h - turns relaxed JSON (comments, trailing commas, Infinity) into strict JSON and finds all syntax errors.
 *
 * jansson then parses the strict text. Everything that strict JSON does not allow is replaced by the same number of
 * spaces, so offsets in the strict text are also offsets in the file. Infinity is replaced by the number
 * CE_DIALECT_INFINITY, padded to the same length. The scanner goes on after an error, so that one run reports all
 * errors. */
#ifndef CE_JSON_DIALECT_H
#define CE_JSON_DIALECT_H

#include <stddef.h>

/* Format of the error message for a template placeholder; its arguments are the placeholder's length (int) and text. */
#define CE_DIALECT_UNFILLED                                                                                            \
    "the placeholder %.*s was never filled in: this file is a template, which has to be filled in first"

#define CE_DIALECT_INFINITY 1.7e308 /* numbers of at least this magnitude mean infinity */

enum { CE_DIALECT_DEPTH = 64 };

/* One value and its position in the file, in bytes. Nodes are in the order of the file, so a parent comes before its
 * children. */
typedef struct {
    int parent;             /* index of the node of the enclosing object or list; -1 for the root */
    size_t key, key_length; /* offset and length of the key without its quotes; only for members of an object */
    size_t key_place;       /* offset of the key with its quote; for an element of a list, the offset of its value */
    size_t place;           /* offset of the value */
} ce_dialect_node;

typedef struct {
    char *text; /* the strict JSON text; valid only if no error was reported */
    size_t length;
    ce_dialect_node *nodes;
    int count, capacity;
} ce_dialect;

typedef void ce_dialect_report(void *to, size_t offset, const char *sentence);

/* Scans a copy of `text`. Calls report(to, ...) for each error, in the order of the text. */
void ce_dialect_scan(ce_dialect *dialect, const char *text, size_t length, ce_dialect_report *report, void *to);
void ce_dialect_free(ce_dialect *dialect);

/* Returns the index of the node at a dotted path ("a.b"). If there is no such node, sets *exact to 0 and returns the
 * nearest enclosing node; returns -1 if the text has no root. `original` is the text that was scanned. */
int ce_dialect_find(const ce_dialect *dialect, const char *original, const char *path, int *exact);

/* Returns the length of the template placeholder that begins at `text` and ends on the same line: {{ x }}, {% x %},
 * ${x}, <x> or %(x)s. Returns 0 if no placeholder begins there. */
size_t ce_dialect_placeholder(const char *text, size_t length);

/* Converts an offset into line and column, both counted from 1. Columns count characters, not bytes. */
void ce_dialect_place(const char *text, size_t length, size_t offset, int *line, int *column);

#endif
