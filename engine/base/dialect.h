/* dialect.h - turns relaxed JSON (comments, trailing commas, Infinity) into strict JSON and finds all syntax errors.
 *
 * jansson then parses the strict text. Everything that strict JSON does not allow is replaced by the same number of
 * spaces, so offsets in the strict text are offsets in the file. Infinity becomes the number CS_DIALECT_INFINITY,
 * written in as many characters. The scanner goes on after an error, so that one run reports all of them. */
#ifndef CS_BASE_DIALECT_H
#define CS_BASE_DIALECT_H

#include <stddef.h>

/* Format of the error for a placeholder; its arguments are the placeholder's length (int) and text. */
#define CS_DIALECT_UNFILLED                                                                                            \
    "the placeholder %.*s was never filled in: this file is a template, which has to be filled in first"

#define CS_DIALECT_INFINITY 1.7e308 /* numbers of at least this size mean infinity */

enum { CS_DIALECT_DEPTH = 64 };

/* One value and its position in the file, in bytes. Nodes are in the order of the file, so a parent comes before its
 * children. */
typedef struct {
    int parent;             /* index of the enclosing object or list; -1: this is the root */
    size_t key, key_length; /* for a member of an object: offset and length of the key without its quotes */
    size_t key_place;       /* offset of the key; for an element of a list, the offset of the value */
    size_t place;           /* offset of the value */
} ce_dialect_node;

typedef struct {
    char *text; /* strict JSON; only valid if no error was reported */
    size_t length;
    ce_dialect_node *nodes;
    int count, room;
} ce_dialect;

typedef void ce_dialect_report(void *to, size_t offset, const char *sentence);

/* Scans a copy of `text`. Calls report(to, ...) for each error, in the order of the text. */
void ce_dialect_scan(ce_dialect *dialect, const char *text, size_t length, ce_dialect_report *report, void *to);
void ce_dialect_free(ce_dialect *dialect);

/* The index of the node at a dotted path ("a.b"). If there is none, *exact is 0 and the result is the nearest enclosing
 * node; -1: the text has no root. `original` is the text that was scanned. */
int ce_dialect_find(const ce_dialect *dialect, const char *original, const char *path, int *exact);

/* The length of the template placeholder that begins at `text` and ends on the same line: {{ x }}, {% x %}, ${x}, <x>
 * or %(x)s. 0: no placeholder begins there. */
size_t ce_dialect_placeholder(const char *text, size_t length);

/* Converts an offset into line and column, both counted from 1. Columns count characters, not bytes. */
void ce_dialect_place(const char *text, size_t length, size_t offset, int *line, int *column);

#endif
