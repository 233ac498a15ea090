/* dialect.h - the scanner in front of jansson: JSON with comments, trailing commas and Infinity.
 *
 * It blanks out what strict JSON does not know, byte for byte, so that an offset into the strict text is an offset into
 * the file; Infinity becomes the number CS_DIALECT_INFINITY, which is as long. It stops at nothing: all syntax faults
 * are reported. */
#ifndef CS_BASE_DIALECT_H
#define CS_BASE_DIALECT_H

#include <stddef.h>

/* A sentence about a placeholder: its length, and it. */
#define CS_DIALECT_UNFILLED                                                                                            \
    "the placeholder %.*s was never filled in: this file is a template, which has to be filled in first"

#define CS_DIALECT_INFINITY 1.7e308 /* this and above mean infinity */

enum { CS_DIALECT_DEPTH = 64 };

/* A value and where it stands. Nodes are in the order of the file, so a parent comes before its children. */
typedef struct {
    int parent;             /* index of the object or list around it; -1: the root */
    size_t key, key_length; /* of an object's member: offset and length between the quotes */
    size_t key_place;       /* offset of the key; of the value for a list's element       */
    size_t place;           /* offset of the value                                         */
} cs_dialect_node;

typedef struct {
    char *text; /* strict JSON, if nothing was reported */
    size_t length;
    cs_dialect_node *nodes;
    int count, room;
} cs_dialect;

typedef void cs_dialect_report(void *to, size_t offset, const char *sentence);

/* Scans a copy of `text`. Calls `report` for each fault, in order. */
void cs_dialect_scan(cs_dialect *dialect, const char *text, size_t length, cs_dialect_report *report, void *to);
void cs_dialect_free(cs_dialect *dialect);

/* The node at a dotted path ("a.b"), or of its nearest ancestor that exists; *exact says which. -1: not even a root. */
int cs_dialect_find(const cs_dialect *dialect, const char *original, const char *path, int *exact);

/* How long the placeholder of a template is that begins at `text`, in one line: {{ x }}, {% x %}, ${x}, <x> or %(x)s.
 * 0: none begins there. */
size_t cs_dialect_placeholder(const char *text, size_t length);

/* Line and column, from 1, of an offset; columns count characters. */
void cs_dialect_place(const char *text, size_t length, size_t offset, int *line, int *column);

#endif
