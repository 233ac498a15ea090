/* json.h - JSON documents with the line and column of every value, and a list of errors.
 *
 * jansson parses and stores the values; only this header includes jansson's header. Before jansson parses a text, a
 * scanner (dialect.h) accepts comments (C, C++ and shell style), trailing commas and Infinity, rejects duplicate keys,
 * and records line and column of every value. An error message therefore has the form
 * `FILE:LINE:COL at zero_optimization.stage: sentence`. All errors of a document are collected before they are
 * reported. */
#ifndef CS_BASE_JSON_H
#define CS_BASE_JSON_H

#include "base/status.h"

#include <jansson.h>

typedef struct ce_json ce_json; /* a document: its values, their positions and the errors found so far */

/* Reads a relaxed JSON text whose root is an object. CS_BAD_CONFIG: it has syntax errors. */
cs_status ce_json_open(ce_json **doc, const char *path);
cs_status ce_json_parse(ce_json **doc, const char *text, size_t length, const char *name);
void ce_json_close(ce_json *doc); /* accepts NULL */
json_t *ce_json_root(ce_json *doc);

/* The value at a dotted path ("a.b.c"), a borrowed reference; NULL: there is none. */
json_t *ce_json_find(ce_json *doc, const char *path);
bool ce_json_is_set(ce_json *doc, const char *path); /* there is a value, and it is not null */

/* Sets the value at a dotted path and creates missing objects on the way. Errors in this value are then reported with
 * the position "command line". The value is JSON text; text that is not JSON is taken as a string. */
cs_status ce_json_set(ce_json *doc, const char *path, const char *value_text);

/* ce_json_fault adds an error at the position of the value at `path`, and ce_json_fault_key at the position of its key.
 * ce_json_verdict returns CS_OK if there are no errors, otherwise CS_BAD_CONFIG with all of them, one on each line:
 * first those of the command line, then those of the file in its order. */
void ce_json_fault(ce_json *doc, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
void ce_json_fault_key(ce_json *doc, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
cs_status ce_json_verdict(ce_json *doc);

/* Adds an error about an unknown key, at the position of the key. After ce_json_lenient it is a note, not an error. */
void ce_json_unknown(ce_json *doc, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
void ce_json_lenient(ce_json *doc);

/* An adviser knows all key tables. For the path of an unknown key it returns the end of a sentence that says where a
 * key of that name belongs, or NULL; the caller frees the text. Errors about unknown keys in a document with an adviser
 * also mention train --lenient. */
typedef char *ce_json_adviser(const char *path);
void ce_json_advise(ce_json *doc, ce_json_adviser *adviser);
/* Returns the adviser's answer; NULL: there is no adviser, or it has no answer. */
char *ce_json_advice(const ce_json *doc, const char *path);

const char *ce_json_name(const ce_json *doc); /* the name of the file */

/* ce_json_origin returns the origin of a key's value: the text that ce_json_mark last gave it, or else "command line",
 * "line 7" (of the file) or "default". */
void ce_json_mark(ce_json *doc, const char *path, const char *origin);
const char *ce_json_origin(ce_json *doc, const char *path, char *text, size_t room);

/* Notes for the user about things that are not errors: a deprecated spelling, a key without effect. */
void ce_json_note(ce_json *doc, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
int ce_json_note_count(const ce_json *doc);
const char *ce_json_note_text(const ce_json *doc, int index);

/* Parses strict JSON of a file that programs write (manifest, safetensors header). Duplicate keys and a depth above 64
 * are errors. NULL: cs_error() has the message, to which the caller adds the name of the file. */
json_t *ce_json_strict(const char *text, size_t length);
/* As ce_json_strict, but reads all numbers as reals, so that no integer is too large. */
json_t *ce_json_words(const char *text, size_t length);

/* As ce_json_strict, for a user's document; if an integer does not fit into 64 bits, all numbers are reals. */
json_t *ce_json_document(const char *text, size_t length);

/* A value as JSON text for a message, shortened to a readable length; "nothing" for NULL. `text` has `room` bytes. */
const char *ce_json_show(const json_t *value, char *text, size_t room);

#endif
