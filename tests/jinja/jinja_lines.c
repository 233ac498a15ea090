/* jinja_lines.c - renders templates for tests/peers/templates_same.py. It reads JSON lines {"source", "variables",
 * "now"}. For each line it writes {"text", "spans"}, or {"error"} after an error. The spans are the byte ranges of the
 * text that {% generation %} blocks have written. */
#include "jinja/jinja.h"

#include <stdio.h>
#include <stdlib.h>

static cs_status render(const json_t *request, ce_jinja_output *output)
{
    ce_jinja *compiled;
    const json_t *source = json_object_get(request, "source");
    cs_status status = ce_jinja_compile(&compiled, json_string_value(source), json_string_length(source));
    if (status != CS_OK)
        return status;
    status = ce_jinja_render(compiled, json_object_get(request, "variables"),
                             (time_t)json_integer_value(json_object_get(request, "now")), output);
    ce_jinja_free(compiled);
    return status;
}

static json_t *answer(const json_t *request)
{
    ce_jinja_output output = { 0 };
    cs_status status = render(request, &output);
    json_t *spans = json_array(), *made;
    for (size_t i = 0; i < output.count; i++)
        json_array_append_new(spans, json_pack("[II]", (json_int_t)output.generated[i].from,
                                               (json_int_t)output.generated[i].to));
    if (status == CS_OK)
        made = json_pack("{s:s%, s:O}", "text", output.text.size > 0 ? output.text.bytes : "", output.text.size,
                         "spans", spans);
    else
        made = json_pack("{s:s}", "error", cs_error());
    json_decref(spans);
    ce_jinja_output_free(&output);
    return made;
}

int main(void)
{
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, stdin) > 0) {
        json_t *request = json_loads(line, 0, NULL), *made = answer(request);
        json_dumpf(made, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(made);
        json_decref(request);
    }
    free(line);
    return 0;
}
