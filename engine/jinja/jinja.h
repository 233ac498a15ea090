/* jinja.h - evaluates the language of chat templates: Jinja as transformers sets it up (sandboxed and immutable, with
 * trim_blocks, lstrip_blocks, loop controls, {% generation %}, tojson, raise_exception and strftime_now).
 *
 * A template reads nothing but its variables and the clock. A part of the language that this evaluator lacks (include,
 * extends, import, some filters) is refused by name and line when the template is compiled. A filter or test inside a
 * condition is refused only when the rendering reaches it. A rendering that takes too many steps, too much memory or
 * too deep a recursion fails. */
#ifndef CS_JINJA_JINJA_H
#define CS_JINJA_JINJA_H

#include "base/json.h"
#include "text/unicode.h"

#include <time.h>

typedef struct ce_jinja ce_jinja; /* a compiled template; immutable, so threads may share it */

typedef struct {
    size_t from, to;
} ce_jinja_span;

/* The caller sets it to zero before the first use; a rendering replaces its contents. */
typedef struct {
    ce_text text;             /* valid UTF-8 */
    ce_jinja_span *generated; /* (count) byte ranges of the text that {% generation %} blocks have written */
    size_t count, room;
} ce_jinja_output;

/* Compiles UTF-8 source. CS_BAD_FILE: a syntax error; CS_UNSUPPORTED: a part of the language that this evaluator lacks.
 * The message begins with "line N: ". */
cs_status ce_jinja_compile(ce_jinja **compiled, const char *source, size_t size);
void ce_jinja_free(ce_jinja *compiled); /* accepts NULL */

/* Renders with the members of the object `variables`; strftime_now gives `now` in local time. CS_BAD_FILE: the template
 * called raise_exception, and the message is the text that it gave; or the template did something for which Python
 * would raise an exception, or went beyond a limit, and the message begins with "line N: ". */
cs_status ce_jinja_render(const ce_jinja *compiled, const json_t *variables, time_t now, ce_jinja_output *output);
void ce_jinja_output_free(ce_jinja_output *output);

#endif
