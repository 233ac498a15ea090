/* jinja.h - evaluates the language of chat templates.
 *
 * The language is Jinja as transformers sets it up: sandboxed and immutable, with trim_blocks, lstrip_blocks, loop
 * controls, {% generation %}, tojson, raise_exception and strftime_now. A template reads nothing but its variables and
 * the clock. If a template uses a part of the language that this evaluator lacks (include, extends, import, some
 * filters), its compilation fails; the message gives the name of the part and the line. But an unknown filter or test
 * inside {% if %} or a conditional expression is an error only if the rendering reaches it. A rendering that takes too many steps, too much
 * memory or too deep a recursion fails. */
#ifndef CE_JINJA_JINJA_H
#define CE_JINJA_JINJA_H

#include "json/json.h"
#include "text/unicode.h"

#include <time.h>

typedef struct ce_jinja ce_jinja; /* a compiled template, which is immutable, so that threads may share it */

typedef struct {
    size_t from, to;
} ce_jinja_span;

/* The result of a rendering. The caller zeroes it before the first use; each rendering replaces its contents. */
typedef struct {
    ce_text text;             /* text, which is valid UTF-8 */
    ce_jinja_span *generated; /* (count) byte ranges of the text that {% generation %} blocks have written */
    size_t count, capacity;
} ce_jinja_output;

/* Compiles UTF-8 source. Returns CS_BAD_FILE for a syntax error, and CS_UNSUPPORTED for a part of the language that
 * this evaluator lacks. The message begins with "line N: ". */
cs_status ce_jinja_compile(ce_jinja **compiled, const char *source, size_t size);
void ce_jinja_free(ce_jinja *compiled); /* accepts NULL */

/* Renders a template with the members of the object `variables`. strftime_now gives `now` in local time. Returns
 * CS_BAD_FILE if the template called raise_exception; the message is then the text that the template gave. Returns
 * CS_BAD_FILE too if Python would raise an exception, or if a limit was exceeded; the message then begins with "line N:
 * ". */
cs_status ce_jinja_render(const ce_jinja *compiled, const json_t *variables, time_t now, ce_jinja_output *output);
void ce_jinja_output_free(ce_jinja_output *output);

#endif
