/* json.c - JSON documents: parsing, positions of values, errors, notes, and overrides from the command line. */
#include "json/json.h"
#include "json/dialect.h"
#include "base/faults.h"
#include "base/input.h"
#include "base/log.h"
#include "base/must.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_BYTES = 1 << 20, SENTENCE = 400 };

typedef struct {
    char **texts;
    int count;
} text_list;

struct ce_json {
    char *name, *original;
    size_t length;
    ce_dialect dialect;
    json_t *root;
    char **overrides;
    int override_count;
    ce_faults faults;
    text_list notes, warnings;
    json_t *marks; /* a JSON object that maps the path of a value to its origin */
    bool lenient;
    ce_json_adviser *adviser; /* NULL if the document has no adviser */
};

/* ---- errors and notes ---- */

static bool is_under(const char *path, const char *ancestor)
{
    size_t length = strlen(ancestor);
    return strncmp(path, ancestor, length) == 0 && (path[length] == 0 || path[length] == '.');
}

static bool is_override(const ce_json *doc, const char *path)
{
    for (int i = 0; i < doc->override_count; i++)
        if (is_under(path, doc->overrides[i]))
            return true;
    return false;
}

/* Returns true if a value at or below this path was set from the command line. */
static bool holds_override(const ce_json *doc, const char *path)
{
    for (int i = 0; i < doc->override_count; i++)
        if (is_under(doc->overrides[i], path))
            return true;
    return false;
}

static void report_syntax(void *to, size_t offset, const char *sentence)
{
    ce_json *doc = to;
    int line, column;
    ce_dialect_place(doc->original, doc->length, offset, &line, &column);
    ce_faults_add(&doc->faults, doc->name, line, column, "", "%s", sentence);
}

static void fault_at(ce_json *doc, const char *path, bool at_key, const char *format, va_list arguments)
{
    char sentence[SENTENCE];
    int line = 0, column = 0, exact;
    vsnprintf(sentence, sizeof sentence, format, arguments);
    int node = ce_dialect_find(&doc->dialect, doc->original, path, &exact);
    if (is_override(doc, path) || (!exact && holds_override(doc, path))) {
        ce_faults_add(&doc->faults, "command line", 0, 0, path, "%s", sentence);
        return;
    }
    /* An opened document has a root, so `node` is not -1. */
    const ce_dialect_node *found = &doc->dialect.nodes[node];
    ce_dialect_place(doc->original, doc->length, at_key && exact ? found->key_place : found->place, &line, &column);
    ce_faults_add(&doc->faults, doc->name, line, column, path, "%s", sentence);
}

void ce_json_fault(ce_json *doc, const char *path, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fault_at(doc, path, false, format, arguments);
    va_end(arguments);
}

void ce_json_fault_key(ce_json *doc, const char *path, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fault_at(doc, path, true, format, arguments);
    va_end(arguments);
}

void ce_json_unknown(ce_json *doc, const char *path, const char *format, ...)
{
    char sentence[SENTENCE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (doc->lenient)
        ce_json_note(doc, path, "ignored: %s", sentence);
    else
        ce_json_fault_key(doc, path, "%s%s", sentence, ce_json_lenient_hint(doc));
}

const char *ce_json_lenient_hint(const ce_json *doc)
{
    return doc->adviser ? " (train --lenient ignores it)" : " (--lenient ignores it)";
}

void ce_json_advise(ce_json *doc, ce_json_adviser *adviser)
{
    doc->adviser = adviser;
}

char *ce_json_advice(const ce_json *doc, const char *path)
{
    return doc->adviser ? doc->adviser(path) : NULL;
}

void ce_json_lenient(ce_json *doc)
{
    doc->lenient = true;
}

bool ce_json_is_lenient(const ce_json *doc)
{
    return doc->lenient;
}

void ce_json_mark(ce_json *doc, const char *path, const char *origin)
{
    if (!doc->marks)
        doc->marks = json_object();
    CE_ASSERT(json_object_set_new(doc->marks, path, json_string(origin)) == 0);
}

const char *ce_json_origin(ce_json *doc, const char *path, char *text, size_t capacity)
{
    const char *mark = json_string_value(json_object_get(doc->marks, path));
    int exact, line = 0, column = 0, node = ce_dialect_find(&doc->dialect, doc->original, path, &exact);
    if (node >= 0 && exact)
        ce_dialect_place(doc->original, doc->length, doc->dialect.nodes[node].place, &line, &column);
    if (mark)
        snprintf(text, capacity, "%s", mark);
    else if (is_override(doc, path))
        snprintf(text, capacity, "command line");
    else if (line > 0)
        snprintf(text, capacity, "line %d", line);
    else
        snprintf(text, capacity, "default");
    return text;
}

const char *ce_json_name(const ce_json *doc)
{
    return doc->name;
}

cs_status ce_json_verdict(ce_json *doc)
{
    ce_faults_sort(&doc->faults);
    return (cs_status)ce_faults_verdict(&doc->faults, CS_BAD_CONFIG);
}

static void add_text(text_list *list, const char *path, const char *format, va_list arguments)
{
    char sentence[2 * SENTENCE];
    vsnprintf(sentence, sizeof sentence, format, arguments);
    char *text = ce_must_print("%s%s%s", path, *path ? ": " : "", sentence);
    ce_faults_make_printable(text, "");
    list->texts = ce_must_resize(list->texts, (size_t)(list->count + 1) * sizeof *list->texts);
    list->texts[list->count++] = text;
}

static void free_texts(text_list *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->texts[i]);
    free(list->texts);
    *list = (text_list){ 0 };
}

void ce_json_note(ce_json *doc, const char *path, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_text(&doc->notes, path, format, arguments);
    va_end(arguments);
}

int ce_json_note_count(const ce_json *doc)
{
    return doc->notes.count;
}

void ce_json_warn(ce_json *doc, const char *path, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_text(&doc->warnings, path, format, arguments);
    va_end(arguments);
}

void ce_json_print_warnings(ce_json *doc)
{
    for (int i = 0; i < doc->warnings.count; i++)
        ce_log(CE_LOG_WARNING, "%s: %s", doc->name, doc->warnings.texts[i]);
    free_texts(&doc->warnings);
}

const char *ce_json_note_text(const ce_json *doc, int index)
{
    CE_ASSERT(index >= 0 && index < doc->notes.count);
    return doc->notes.texts[index];
}

const char *ce_json_show(const json_t *value, char *text, size_t capacity)
{
    CE_FREED char *whole =
        value ? json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(15)) : NULL;
    if (json_is_object(value) && json_object_size(value) > 0)
        snprintf(text, capacity, "an object");
    else
        snprintf(text, capacity, "%s", whole ? whole : "nothing");
    if (whole && strlen(whole) >= capacity && capacity > 4)
        memcpy(text + capacity - 4, "...", 4);
    return text;
}

/* ---- reading ---- */

static cs_status build(ce_json *doc)
{
    ce_dialect_scan(&doc->dialect, doc->original, doc->length, report_syntax, doc);
    CE_TRY(ce_json_verdict(doc));
    json_error_t error;
    doc->root = json_loadb(doc->dialect.text, doc->length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    bool encoding = !doc->root && strncmp(error.text, "unable to decode", 16) == 0;
    if (!doc->root)
        report_syntax(doc, error.position > 0 ? (size_t)error.position - 1 : 0,
                      encoding ? "a byte here is not UTF-8" : error.text);
    else if (!json_is_object(doc->root))
        report_syntax(doc, doc->dialect.nodes[0].place, "a configuration is one object, { ... }");
    return ce_json_verdict(doc);
}

cs_status ce_json_parse(ce_json **doc, const char *text, size_t length, const char *name)
{
    ce_json *made = ce_must_alloc(sizeof *made);
    made->name = ce_must_copy(name);
    made->original = ce_must_alloc(length + 1);
    made->length = length;
    memcpy(made->original, text, length);
    *doc = NULL;
    cs_status status = build(made);
    if (status == CS_OK)
        *doc = made;
    else
        ce_json_close(made);
    return status;
}

static cs_status read_all(FILE *file, const char *path, char **text, size_t *length)
{
    struct stat about;
    if (fstat(fileno(file), &about) == 0 && S_ISDIR(about.st_mode))
        return ce_fail(CS_NOT_FOUND, "%s is a directory: name the JSON file", path);
    *text = ce_input_all(file, MAX_BYTES, length);
    if (*text)
        return CS_OK;
    return errno == EFBIG
               ? ce_fail(CS_BAD_CONFIG, "%s is larger than %d MiB: this is not a configuration", path, MAX_BYTES >> 20)
               : ce_fail_errno(CS_IO_ERROR, errno, "%s cannot be read", path);
}

cs_status ce_json_open(ce_json **doc, const char *path)
{
    CE_FREED char *text = NULL;
    size_t length = 0;
    FILE *file;
    *doc = NULL;
    CE_TRY(ce_input_stream(&file, path));
    if (!file)
        return ce_fail_errno(errno == ENOENT || errno == ENOTDIR ? CS_NOT_FOUND : CS_IO_ERROR, errno,
                             "%s cannot be opened", path);
    cs_status status = read_all(file, path, &text, &length);
    fclose(file);
    return status == CS_OK ? ce_json_parse(doc, text, length, path) : status;
}

void ce_json_close(ce_json *doc)
{
    if (!doc)
        return;
    for (int i = 0; i < doc->override_count; i++)
        free(doc->overrides[i]);
    free(doc->overrides);
    free_texts(&doc->notes);
    free_texts(&doc->warnings);
    json_decref(doc->marks);
    json_decref(doc->root);
    ce_dialect_free(&doc->dialect);
    free(doc->original);
    free(doc->name);
    free(doc);
}

json_t *ce_json_root(ce_json *doc)
{
    return doc->root;
}

/* Returns a copy of the first name of a dotted path, which the caller frees; *rest then points to the name after it. */
static char *next_name(const char **rest)
{
    size_t length = strcspn(*rest, ".");
    char *name = ce_must_copy_part(*rest, length);
    *rest += length + ((*rest)[length] == '.');
    return name;
}

json_t *ce_json_find(ce_json *doc, const char *path)
{
    json_t *here = doc->root;
    while (here && *path) {
        CE_FREED char *name = next_name(&path);
        here = json_object_get(here, name);
    }
    return here;
}

bool ce_json_is_set(ce_json *doc, const char *path)
{
    const json_t *value = ce_json_find(doc, path);
    return value && !json_is_null(value);
}

/* ---- overrides from the command line ---- */

static void keep_text(void *to, size_t offset, const char *sentence)
{
    (void)offset;
    snprintf(to, SENTENCE, "%s", sentence);
}

/* Parses a value of the command line as relaxed JSON. A text that is not JSON becomes a string value. Returns NULL if
 * the text begins like JSON but has a syntax error, or if it is not UTF-8. */
static json_t *read_value(const char *text)
{
    char fault_text[SENTENCE] = "";
    ce_dialect dialect;
    json_error_t error;
    json_t *value = NULL;
    ce_dialect_scan(&dialect, text, strlen(text), keep_text, fault_text);
    if (!*fault_text)
        value = json_loadb(dialect.text, dialect.length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    ce_dialect_free(&dialect);
    bool meant_as_json = *text == '{' || *text == '[' || *text == '"';
    return value || meant_as_json ? value : json_string(text);
}

/* Returns the member `name` of the object `here`; a missing member is created as an empty object. Returns NULL if the
 * member is not an object. */
static json_t *enter(json_t *here, const char *name)
{
    json_t *next = json_object_get(here, name);
    if ((!next || json_is_null(next)) && json_object_set_new(here, name, json_object()) == 0)
        next = json_object_get(here, name);
    return json_is_object(next) ? next : NULL;
}

cs_status ce_json_set(ce_json *doc, const char *path, const char *value_text)
{
    json_t *here = doc->root;
    const char *rest = path;
    if (!*path || *path == '.' || path[strlen(path) - 1] == '.' || strstr(path, ".."))
        return ce_fail(CS_BAD_CONFIG, "command line: \"%s\" is not the path of a key", path);
    while (strchr(rest, '.')) {
        CE_FREED char *name = next_name(&rest);
        here = enter(here, name);
        if (!here)
            return ce_fail(CS_BAD_CONFIG, "command line at %s: %.*s is a value in the file, not a section", path,
                           (int)(rest - path - 1), path);
    }
    json_t *value = read_value(value_text);
    json_t *characters = json_string(value_text); /* NULL: the text is not UTF-8 */
    json_decref(characters);
    if (!characters)
        return ce_fail(CS_BAD_CONFIG,
                       "command line at %s: %.60s is not UTF-8, and a configuration is: use another name", path,
                       value_text);
    if (!value)
        return ce_fail(CS_BAD_CONFIG, "command line at %s: %.60s is not JSON", path, value_text);
    if (json_object_set_new(here, rest, value) != 0)
        return ce_fail(CS_BAD_CONFIG, "command line: the path of a key is not UTF-8");
    doc->overrides = ce_must_resize(doc->overrides, (size_t)(doc->override_count + 1) * sizeof *doc->overrides);
    doc->overrides[doc->override_count++] = ce_must_copy(path);
    return CS_OK;
}
