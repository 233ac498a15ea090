/* test_jinja.c - templates render as with Jinja2 (golden/jinja.golden, written by make_jinja.py), and a template that
 * would run forever is stopped. */
#include "suite.h"

#include "jinja/jinja.h"

#include <stdlib.h>
#include <string.h>

enum { NOW = 1741356309 }; /* 2025-03-07 14:05:09 UTC */

static cs_status render(const char *source, const json_t *variables, ce_jinja_output *output)
{
    ce_jinja *compiled;
    cs_status status = ce_jinja_compile(&compiled, source, strlen(source));
    if (status != CS_OK)
        return status;
    status = ce_jinja_render(compiled, variables, NOW, output);
    ce_jinja_free(compiled);
    return status;
}

static void check_case(const json_t *pair, const json_t *variables)
{
    const char *source = json_string_value(json_array_get(pair, 0));
    const json_t *wanted = json_array_get(pair, 1), *error = json_object_get(wanted, "error");
    ce_jinja_output output = { 0 };
    cs_status status = render(source, variables, &output);
    ck_assert_msg((status != CS_OK) == (error != NULL), "%s: status %d, %s", source, status, cs_error());
    if (json_is_string(error))
        ck_assert_str_eq(cs_error(), json_string_value(error));
    if (!error)
        ck_assert_msg(output.text.size == json_string_length(wanted) &&
                          memcmp(output.text.bytes, json_string_value(wanted), output.text.size) == 0,
                      "%s\nis written as\n%.*s\nand should be\n%s", source, (int)output.text.size, output.text.bytes,
                      json_string_value(wanted));
    ce_jinja_output_free(&output);
}

START_TEST(constructs_render_as_in_jinja2)
{
    size_t index;
    json_t *root = json_load_file(CS_TESTS "/golden/jinja.golden", 0, NULL), *pair;
    ck_assert_ptr_nonnull(root);
    setenv("TZ", "UTC", 1);
    json_array_foreach (json_object_get(root, "cases"), index, pair)
        check_case(pair, json_object_get(root, "variables"));
    ck_assert_uint_gt(index, 60);
    json_decref(root);
}
END_TEST

START_TEST(generation_blocks_are_spans_of_bytes)
{
    ce_jinja_output output = { 0 };
    json_t *variables = json_object();
    ck_assert_int_eq(render("ä{% generation %}ö{% endgeneration %}b{% generation %}cd{% endgeneration %}", variables,
                            &output),
                     CS_OK);
    ck_assert_uint_eq(output.count, 2);
    ck_assert_uint_eq(output.generated[0].from, 2);
    ck_assert_uint_eq(output.generated[0].to, 4);
    ck_assert_uint_eq(output.generated[1].from, 5);
    ck_assert_uint_eq(output.generated[1].to, 7);
    json_decref(variables);
    ce_jinja_output_free(&output);
}
END_TEST

START_TEST(endless_templates_are_stopped)
{
    static const char *const sources[] = {
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set n = namespace(x=[]) %}{% for i in range(5000) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x='ab') %}{% for i in range(50) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{{ 'a' * 999999999 }}",
        "{{ [0] * 999999999 }}",
        "{% set n = namespace() %}{% set n.n = n %}{{ n }}",
    };
    json_t *variables = json_object();
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        ce_jinja_output output = { 0 };
        ck_assert_msg(render(sources[i], variables, &output) == CS_BAD_FILE, "%s", sources[i]);
        ck_assert_msg(strstr(cs_error(), " more than "), "%s: %s", sources[i], cs_error());
        ce_jinja_output_free(&output);
    }
    json_decref(variables);
}
END_TEST

START_TEST(what_is_not_here_is_refused_by_name_and_line)
{
    static const char *const cases[][2] = {
        { "\n{% include 'x' %}", "line 2: not supported: the tag {% include %}" },
        { "{{ x | groupby('a') }}", "line 1: not supported: the filter 'groupby'" },
        { "a\n\n{{ 1 is nothing }}", "line 3: not supported: the test 'nothing'" },
        { "{{ [x | nothing,\n1, (2 if y else 3)] }}", "line 1: not supported: the filter 'nothing'" },
        { "{{ x | nothing if 1 else 2 }}", "line 1: not supported: the filter 'nothing'" },
        { "{% for x in [1] recursive %}{% endfor %}", "line 1: not supported: a recursive loop" },
        { "{{ 9223372036854775808 }}", "line 1: not supported: an integer above 2^63" },
        { "{{ cycler(1) }}", "line 1: not supported: cycler and joiner, which change themselves; use a namespace" },
    };
    json_t *variables = json_object();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ce_jinja_output output = { 0 };
        ck_assert_int_eq(render(cases[i][0], variables, &output), CS_UNSUPPORTED);
        ck_assert_str_eq(cs_error(), cases[i][1]);
        ce_jinja_output_free(&output);
    }
    json_decref(variables);
}
END_TEST

SUITE_MAIN("jinja", constructs_render_as_in_jinja2, generation_blocks_are_spans_of_bytes, endless_templates_are_stopped,
           what_is_not_here_is_refused_by_name_and_line)
