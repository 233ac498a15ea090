/* render.c - renders statements, and defines the functions of jinja.h. */
#include "evaluate.h"
#include "jinja.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

struct ce_jinja {
    ce_jrun memory; /* memory that holds the syntax tree */
    const ce_jnode *first;
};

typedef enum { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE } flow;

static flow render(ce_jrun *run, const ce_jscope *scope, const ce_jnode *node);

static void print(ce_jrun *run, ce_jvalue value)
{
    ce_jprint_str(run, &run->out[run->captures], value);
}

/* Renders a body in a scope of its own, and returns the text that it prints. */
static ce_jvalue capture(ce_jrun *run, const ce_jscope *scope, const ce_jnode *body)
{
    const ce_jscope *inside = ce_jscope_inside(run, scope);
    ce_jrun_capture(run);
    render(run, inside, body);
    return ce_jrun_captured(run);
}

/* ---- assignment ---- */

static void assign(ce_jrun *run, const ce_jscope *scope, const ce_jnode *target, ce_jvalue value)
{
    if (target->kind == CE_N_NAME) {
        ce_jscope_set(run, scope, target->name, value);
    } else if (target->kind == CE_N_ATTRIBUTE) {
        ce_jvalue of = ce_jevaluate(run, scope, target->a);
        if (of.kind != CE_V_NAMESPACE)
            ce_jrun_fail(run, "cannot assign attribute on non-namespace object");
        if (target->name[0] == '_')
            ce_jrun_fail(run, "underscore attribute '%s' on a namespace", target->name);
        ce_jvalue_put(run, of.dict, ce_jvalue_literal(target->name), value);
    } else {
        ce_jlist items = ce_jvalue_items(run, value);
        if (items.count != target->count)
            ce_jrun_fail(run, "%zu values to unpack, and %zu names", items.count, target->count);
        for (size_t i = 0; i < items.count; i++)
            assign(run, scope, target->items[i], items.items[i]);
    }
}

/* ---- loops ---- */

static ce_jlist filter_items(ce_jrun *run, const ce_jscope *scope, const ce_jnode *node, ce_jlist items)
{
    ce_jvalue kept = ce_jvalue_list(run, CE_F_PLAIN, 0);
    for (size_t i = 0; i < items.count; i++) {
        const ce_jscope *inside = ce_jscope_inside(run, scope);
        assign(run, inside, node->target, items.items[i]);
        if (ce_jvalue_true(ce_jevaluate(run, inside, node->b)))
            ce_jvalue_push(run, kept, items.items[i]);
    }
    return *kept.list;
}

static flow render_for(ce_jrun *run, const ce_jscope *scope, const ce_jnode *node)
{
    ce_jlist items = ce_jvalue_items(run, ce_jevaluate(run, scope, node->a));
    if (node->b)
        items = filter_items(run, scope, node, items);
    ce_jloop *loop = ce_jrun_alloc(run, sizeof *loop);
    loop->items = items;
    for (; loop->index < items.count; loop->index++) {
        const ce_jscope *inside = ce_jscope_inside(run, scope);
        ce_jscope_set(run, inside, "loop", (ce_jvalue){ .kind = CE_V_LOOP, .loop = loop });
        assign(run, inside, node->target, items.items[loop->index]);
        if (render(run, inside, node->body) == FLOW_BREAK)
            break;
    }
    if (items.count > 0)
        return FLOW_ON;
    const ce_jscope *inside = ce_jscope_inside(run, scope);
    return render(run, inside, node->other);
}

/* ---- macros ---- */

static ce_jvalue make_macro(ce_jrun *run, const ce_jscope *scope, const ce_jnode *node)
{
    ce_jcallable *callable = ce_jrun_alloc(run, sizeof *callable);
    *callable = (ce_jcallable){ .macro = node, .scope = scope };
    return (ce_jvalue){ .kind = CE_V_CALLABLE, .callable = callable };
}

static void set_parameters(ce_jrun *run, const ce_jscope *inside, const ce_jnode *macro, const ce_jarguments *arguments)
{
    for (size_t i = 0; i < macro->count; i++) {
        const ce_jnode *parameter = macro->items[i];
        const ce_jvalue *found = ce_jargument_named(arguments, parameter->name);
        if (found && i < arguments->count)
            ce_jrun_fail(run, "macro '%s' got the argument '%s' twice", macro->name, parameter->name);
        ce_jvalue value = i < arguments->count ? arguments->values[i]
                          : found              ? *found
                          : parameter->a       ? ce_jevaluate(run, inside, parameter->a)
                                         : ce_jvalue_undefined(run, "parameter '%s' was not provided", parameter->name);
        ce_jscope_set(run, inside, parameter->name, value);
    }
}

static bool is_parameter(const ce_jnode *macro, const char *name)
{
    for (size_t i = 0; i < macro->count; i++)
        if (strcmp(macro->items[i]->name, name) == 0)
            return true;
    return false;
}

/* Sets those of varargs, kwargs and caller that the macro uses. It is an error if an argument belongs neither to a
 * parameter nor to one of these names. */
static void set_further(ce_jrun *run, const ce_jscope *inside, const ce_jnode *macro, const ce_jarguments *arguments)
{
    ce_jvalue rest = ce_jvalue_list(run, CE_F_TUPLE, 0), words = ce_jvalue_dict(run);
    ce_jvalue caller = ce_jvalue_undefined(run, "No caller defined");
    for (size_t i = macro->count; i < arguments->count; i++)
        ce_jvalue_push(run, rest, arguments->values[i]);
    for (size_t i = 0; i < arguments->named; i++) {
        if (strcmp(arguments->names[i], "caller") == 0 && macro->uses & CE_USES_CALLER)
            caller = arguments->named_values[i];
        else if (!is_parameter(macro, arguments->names[i])) {
            if (!(macro->uses & CE_USES_KWARGS))
                ce_jrun_fail(run, "macro '%s' takes no keyword argument '%s'", macro->name, arguments->names[i]);
            ce_jvalue_put(run, words.dict, ce_jvalue_literal(arguments->names[i]), arguments->named_values[i]);
        }
    }
    if (rest.list->count > 0 && !(macro->uses & CE_USES_VARARGS))
        ce_jrun_fail(run, "macro '%s' takes not more than %zu argument(s)", macro->name, macro->count);
    if (macro->uses & CE_USES_VARARGS)
        ce_jscope_set(run, inside, "varargs", rest);
    if (macro->uses & CE_USES_KWARGS)
        ce_jscope_set(run, inside, "kwargs", words);
    if (macro->uses & CE_USES_CALLER && !is_parameter(macro, "caller"))
        ce_jscope_set(run, inside, "caller", caller);
}

ce_jvalue ce_jmacro_call(ce_jrun *run, const ce_jcallable *callable, const ce_jarguments *arguments)
{
    const ce_jnode *macro = callable->macro;
    const ce_jscope *inside = ce_jscope_inside(run, callable->scope);
    set_further(run, inside, macro, arguments);
    set_parameters(run, inside, macro, arguments);
    ce_jrun_capture(run);
    render(run, inside, macro->body);
    return ce_jrun_captured(run);
}

/* ---- blocks ---- */

static void render_with(ce_jrun *run, const ce_jscope *scope, const ce_jnode *node, flow *next)
{
    const ce_jscope *inside = ce_jscope_inside(run, scope);
    for (size_t i = 0; i < node->count; i++)
        assign(run, inside, node->items[i]->target, ce_jevaluate(run, scope, node->items[i]->a));
    *next = render(run, inside, node->body);
}

/* Renders a {% generation %} block, and records the range of the block's text in the output. The recorded range begins
 * at the present end of the output run->out[0]. For a block inside a macro the recorded range is not the final place of
 * the text, because the text of a macro is added to the output after the macro ends. transformers records the same
 * range. */
static void render_generation(ce_jrun *run, const ce_jscope *scope, const ce_jnode *node)
{
    ce_jinja_output *output = run->output;
    size_t from = run->out[0].size;
    ce_jvalue text = capture(run, scope, node->body);
    print(run, text);
    CE_MUST_HOLD(output->generated, output->capacity, output->count + 1);
    output->generated[output->count++] = (ce_jinja_span){ from, from + text.size };
}

static flow render_one(ce_jrun *run, const ce_jscope *scope, const ce_jnode *node)
{
    flow next = FLOW_ON;
    switch (node->kind) {
    case CE_N_DATA:
        print(run, node->value);
        break;
    case CE_N_PRINT:
        print(run, ce_jevaluate(run, scope, node->a));
        break;
    case CE_N_IF:
        next = render(run, scope, ce_jvalue_true(ce_jevaluate(run, scope, node->a)) ? node->body : node->other);
        break;
    case CE_N_FOR:
        next = render_for(run, scope, node);
        break;
    case CE_N_SET:
        assign(run, scope, node->target, ce_jevaluate(run, scope, node->a));
        break;
    case CE_N_SET_BLOCK:
        assign(run, scope, node->target, ce_jevaluate_body(run, scope, node->b, capture(run, scope, node->body)));
        break;
    case CE_N_MACRO:
        ce_jscope_set(run, scope, node->name, make_macro(run, scope, node));
        break;
    case CE_N_CALL_BLOCK:
        print(run, ce_jevaluate_call(run, scope, node->a, make_macro(run, scope, node)));
        break;
    case CE_N_FILTER_BLOCK:
        print(run, ce_jevaluate_body(run, scope, node->b, capture(run, scope, node->body)));
        break;
    case CE_N_WITH:
        render_with(run, scope, node, &next);
        break;
    case CE_N_GENERATION:
        render_generation(run, scope, node);
        break;
    case CE_N_BREAK:
        return FLOW_BREAK;
    case CE_N_CONTINUE:
        return FLOW_CONTINUE;
    default:
        ce_jrun_fail(run, "a statement was expected");
    }
    return next;
}

static flow render(ce_jrun *run, const ce_jscope *scope, const ce_jnode *node)
{
    flow next = FLOW_ON;
    ce_jrun_enter(run);
    for (; node && next == FLOW_ON; node = node->next) {
        ce_jrun_step(run, 1);
        run->line = node->line;
        next = render_one(run, scope, node);
    }
    ce_jrun_leave(run);
    return next;
}

/* ---- variables ---- */

static ce_jvalue from_json(ce_jrun *run, const json_t *json)
{
    const char *key;
    size_t index;
    json_t *member;
    ce_jvalue value = ce_jvalue_none;
    ce_jrun_enter(run);
    ce_jrun_step(run, 1);
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        value = ce_jvalue_dict(run);
        json_object_foreach ((json_t *)json, key, member)
            ce_jvalue_put(run, value.dict, ce_jvalue_copy(run, key, strlen(key)), from_json(run, member));
        break;
    case JSON_ARRAY:
        value = ce_jvalue_list(run, CE_F_PLAIN, json_array_size(json));
        json_array_foreach (json, index, member)
            ce_jvalue_push(run, value, from_json(run, member));
        break;
    case JSON_STRING:
        value = ce_jvalue_copy(run, json_string_value(json), json_string_length(json));
        break;
    case JSON_INTEGER:
        value = ce_jvalue_int(json_integer_value(json));
        break;
    case JSON_REAL:
        value = ce_jvalue_float(json_real_value(json));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        value = ce_jvalue_bool(json_is_true(json));
        break;
    case JSON_NULL:
        break;
    }
    ce_jrun_leave(run);
    return value;
}

/* ---- the interface ---- */

cs_status ce_jinja_compile(ce_jinja **compiled, const char *source, size_t size)
{
    ce_jinja *made = ce_must_alloc(sizeof *made);
    *compiled = NULL;
    if (setjmp(made->memory.trap)) {
        cs_status status = made->memory.status;
        ce_jinja_free(made);
        return status;
    }
    made->first = ce_jparse_template(&made->memory, source, size);
    *compiled = made;
    return CS_OK;
}

void ce_jinja_free(ce_jinja *compiled)
{
    if (compiled)
        ce_jrun_free(&compiled->memory);
    free(compiled);
}

cs_status ce_jinja_render(const ce_jinja *compiled, const json_t *variables, time_t now, ce_jinja_output *output)
{
    ce_jrun *run = ce_must_alloc(sizeof *run);
    run->now = now;
    run->output = output;
    run->line = 1;
    output->text.size = 0;
    output->count = 0;
    if (setjmp(run->trap) == 0) {
        const ce_jscope top = { NULL, from_json(run, variables).dict };
        render(run, &top, compiled->first);
        ce_unicode_append(&output->text, run->out[0].bytes, run->out[0].size);
    }
    cs_status status = run->status;
    ce_jrun_free(run);
    free(run);
    return status;
}

void ce_jinja_output_free(ce_jinja_output *output)
{
    ce_unicode_free(&output->text);
    free(output->generated);
    *output = (ce_jinja_output){ 0 };
}
