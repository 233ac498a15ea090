/* json.h - JSON documents with the line and column of every value, and a list of errors.
 *
 * jansson parses and stores the values; only this header includes jansson's header. Before jansson parses a text, a
 * scanner (dialect.h) accepts comments (C, C++ and shell style), trailing commas and Infinity, rejects duplicate keys,
 * and records line and column of every value. An error message therefore has the form
 * `FILE:LINE:COL at zero_optimization.stage: sentence`. All errors of a document are collected before they are
 * reported. */
#ifndef CE_JSON_JSON_H
#define CE_JSON_JSON_H

#include "base/status.h"

#include <jansson.h>

typedef struct ce_json ce_json; /* a document: the values, their positions in the file, and the errors found so far */

/* ce_json_open reads a file and ce_json_parse a text of relaxed JSON, whose root must be an object. They return
 * CS_BAD_CONFIG if the text has syntax errors. */
cs_status ce_json_open(ce_json **doc, const char *path);
cs_status ce_json_parse(ce_json **doc, const char *text, size_t length, const char *name);
void ce_json_close(ce_json *doc); /* frees the document; `doc` may be NULL */
json_t *ce_json_root(ce_json *doc);

/* Returns a borrowed reference to the value at a dotted path ("a.b.c"), or NULL if there is none. */
json_t *ce_json_find(ce_json *doc, const char *path);
/* Returns true if there is a value at the path and it is not null. */
bool ce_json_is_set(ce_json *doc, const char *path);

/* Sets the value at a dotted path and creates missing objects on the way. Later errors about this value are reported
 * with the position "command line". `value_text` is JSON; a text that is not JSON is stored as a string. */
cs_status ce_json_set(ce_json *doc, const char *path, const char *value_text);

/* ce_json_fault adds an error at the position of the value at `path`, and ce_json_fault_key adds an error at the
 * position of the last key of `path`. ce_json_verdict returns CS_OK if there are no errors. Otherwise it returns
 * CS_BAD_CONFIG, and cs_error() lists all errors, one on each line: first those of the command line, then those of the
 * file, in the order of the file. */
void ce_json_fault(ce_json *doc, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
void ce_json_fault_key(ce_json *doc, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
cs_status ce_json_verdict(ce_json *doc);

/* Adds an error about an unknown key, at the position of the key. After a call of ce_json_lenient such an error is only
 * a note. */
void ce_json_unknown(ce_json *doc, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
void ce_json_lenient(ce_json *doc);
bool ce_json_is_lenient(const ce_json *doc);
/* Returns the end of an error message about a key that is ignored after a call of ce_json_lenient. */
const char *ce_json_lenient_hint(const ce_json *doc);

/* An adviser knows all key tables. For the path of an unknown key it returns the end of a sentence that says where a
 * key of that name belongs, or NULL; the caller frees the text. Errors about unknown keys in a document with an adviser
 * also mention train --lenient. */
typedef char *ce_json_adviser(const char *path);
void ce_json_advise(ce_json *doc, ce_json_adviser *adviser);
/* Returns the adviser's answer, or NULL if there is no adviser or no answer. */
char *ce_json_advice(const ce_json *doc, const char *path);

const char *ce_json_name(const ce_json *doc); /* returns the name of the document's file */

/* ce_json_mark sets the origin of the value at `path`. ce_json_origin writes the origin to `text`, which has `capacity`
 * bytes, and returns `text`. If ce_json_mark has not set an origin, the origin is "command line", "line 7" (of the
 * file) or "default". */
void ce_json_mark(ce_json *doc, const char *path, const char *origin);
const char *ce_json_origin(ce_json *doc, const char *path, char *text, size_t capacity);

/* ce_json_note adds a note for the user about something that is not an error: a deprecated spelling, or a key without
 * effect. ce_json_note_count returns the number of notes, and ce_json_note_text the text of one note. */
void ce_json_note(ce_json *doc, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
int ce_json_note_count(const ce_json *doc);
const char *ce_json_note_text(const ce_json *doc, int index);

/* ce_json_warn adds a warning: something in the document that a user probably meant has no effect.
 * ce_json_print_warnings logs all warnings, and removes them. */
void ce_json_warn(ce_json *doc, const char *path, const char *format, ...) __attribute__((format(printf, 3, 4)));
void ce_json_print_warnings(ce_json *doc);

/* Parses strict JSON of a file that programs write (manifest, safetensors header). Duplicate keys and a depth above 64
 * are errors. After an error it returns NULL, with a message in cs_error() to which the caller adds the name of the
 * file. */
json_t *ce_json_strict(const char *text, size_t length);
/* Does the same as ce_json_strict, but stores all numbers as doubles, so that no integer is too large. */
json_t *ce_json_words(const char *text, size_t length);

/* Does the same as ce_json_strict, for a document of a user. An integer that does not fit into 64 bits is stored as a
 * double; the number of these integers is added to *wide. */
json_t *ce_json_document(const char *text, size_t length, int64_t *wide);

/* Reads the file `name` of a folder as ce_json_document does; integers of more than 64 bits, which files of tokenizers have,
 * are doubles. *value becomes NULL if there is no such file; otherwise it is a new reference. */
cs_status ce_json_read_file(json_t **value, const char *folder, const char *name);

/* Removes the keys whose value is null from all objects in `value`, also those in lists. */
void ce_json_drop_nulls(json_t *value);

/* Writes a value as JSON into `text`, which has `capacity` bytes, for use in a message, and returns `text`. A long
 * value is cut. If `value` is NULL, writes the word "nothing". */
const char *ce_json_show(const json_t *value, char *text, size_t capacity);

#endif
