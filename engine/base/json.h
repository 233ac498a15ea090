/* json.h - JSON in and out: jansson's one door.
 *
 * jansson holds the values. A scanner of our own goes over the text first: it accepts comments (two slashes, #, slash-star),
 * trailing commas and Infinity, refuses duplicate keys, and remembers line and column of every value, so
 * that a fault can say `FILE:LINE:COL at zero_optimization.stage: sentence`. All faults are collected. */
#ifndef CS_BASE_JSON_H
#define CS_BASE_JSON_H

#include "base/status.h"

#include <jansson.h>

typedef struct cs_json cs_json; /* a document: its values, their places, the faults found so far */

/* Reads a configuration text in the dialect above. Syntax faults: CS_BAD_CONFIG. */
cs_status cs_json_open(cs_json **doc, const char *path);
cs_status cs_json_parse(cs_json **doc, const char *text, size_t length, const char *name);
void      cs_json_close(cs_json *doc);
json_t   *cs_json_root(cs_json *doc);

/* Sets the value at a dotted path ("a.b.c"), making objects on the way; its place becomes "command line". The
 * value text is JSON, or else a bare string. */
cs_status cs_json_set(cs_json *doc, const char *path, const char *value_text);

/* Adds a fault at a dotted path; cs_json_verdict is CS_OK, or CS_BAD_CONFIG with all faults, one a line. */
void      cs_json_fault(cs_json *doc, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
cs_status cs_json_verdict(cs_json *doc);

/* Strict JSON of a machine-written file (manifest, safetensors header): no dialect, duplicate keys refused,
 * depth at most 64. NULL and a sentence in cs_error() on failure; the caller names the file. */
json_t *cs_json_strict(const char *text, size_t length);

#endif
