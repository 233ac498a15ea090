/* json.h - JSON in and out: jansson's one door.
 *
 * jansson holds the values. A scanner of our own (dialect.h) goes over the text first: it accepts comments (two
 * slashes,
 * #, slash-star), trailing commas and Infinity, refuses duplicate keys, and remembers line and column of every value,
 * so that a fault can say `FILE:LINE:COL at zero_optimization.stage: sentence`. All faults are collected. */
#ifndef CS_BASE_JSON_H
#define CS_BASE_JSON_H

#include "base/status.h"

#include <jansson.h>

typedef struct cs_json cs_json; /* a document: its values, their places, the faults found so far */

/* Reads a configuration text in the dialect above; its root is an object. Syntax faults: CS_BAD_CONFIG. */
cs_status cs_json_open(cs_json **doc, const char *path);
cs_status cs_json_parse(cs_json **doc, const char *text, size_t length, const char *name);
void cs_json_close(cs_json *doc); /* accepts NULL */
json_t *cs_json_root(cs_json *doc);

/* The value at a dotted path ("a.b.c"), borrowed; NULL when there is none. */
json_t *cs_json_find(cs_json *doc, const char *path);
bool cs_json_is_set(cs_json *doc, const char *path); /* there, and not null */

/* Sets the value at a dotted path, making objects on the way; its place becomes "command line". The
 * value text is JSON, or else a bare string. */
cs_status cs_json_set(cs_json *doc, const char *path, const char *value_text);

/* Adds a fault at a dotted path, at its value or, for _key, at its name; cs_json_verdict is CS_OK, or CS_BAD_CONFIG
 * with all faults, one a line, in the order of the file, those of the command line first. */
void cs_json_fault(cs_json *doc, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
void cs_json_fault_key(cs_json *doc, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
cs_status cs_json_verdict(cs_json *doc);

/* Adds a fault about an unknown key, at its name; a lenient document only notes it. */
void cs_json_unknown(cs_json *doc, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
void cs_json_lenient(cs_json *doc);

/* A function that knows all key tables: for the path of an unknown key it returns where a key of that name belongs, as a
 * malloc'ed half of a sentence, or NULL. The refusals of a document that has an adviser also name train --lenient. */
typedef char *cs_json_adviser(const char *path);
void cs_json_advise(cs_json *doc, cs_json_adviser *adviser);
char *cs_json_advice(const cs_json *doc, const char *path); /* NULL too where nobody advises */

const char *cs_json_name(const cs_json *doc); /* the file's */

/* Where the value of a key comes from: what cs_json_mark said, else "command line", "line 7" (of the file), "default".
 * A later mark replaces an earlier one. */
void cs_json_mark(cs_json *doc, const char *path, const char *origin);
const char *cs_json_origin(cs_json *doc, const char *path, char *text, size_t room);

/* What a reader should be told once though nothing is wrong: a deprecated spelling, a key without effect here. */
void cs_json_note(cs_json *doc, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
int cs_json_note_count(const cs_json *doc);
const char *cs_json_note_text(const cs_json *doc, int index);

/* Strict JSON of a machine-written file (manifest, safetensors header): no dialect, duplicate keys refused,
 * depth at most 64. NULL and a sentence in cs_error() on failure; the caller names the file. */
json_t *cs_json_strict(const char *text, size_t length);
/* The same where words matter and numbers do not: all are reals, so that none is too large. */
json_t *cs_json_words(const char *text, size_t length);

/* A value as JSON for a sentence, cut to a readable length; "nothing" for NULL. `room` bytes at `text`. */
const char *cs_json_show(const json_t *value, char *text, size_t room);

#endif
