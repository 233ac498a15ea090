/* facts.c - lists of names and values, and functions that read them from small files of /proc and /sys. */
#include "machine/facts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cl_fact *find(const cl_facts *facts, const char *name)
{
    for (int i = 0; i < facts->count; i++)
        if (strcmp(facts->list[i].name, name) == 0)
            return &facts->list[i];
    return NULL;
}

void cl_facts_add(cl_facts *facts, const char *name, const char *format, ...)
{
    cl_fact *fact = find(facts, name);
    va_list arguments;
    if (!fact) {
        cl_fact *larger = realloc(facts->list, ((size_t)facts->count + 1) * sizeof *larger);
        if (!larger)
            return;
        facts->list = larger;
        fact = &facts->list[facts->count++];
        *fact = (cl_fact){ 0 };
        snprintf(fact->name, sizeof fact->name, "%s", name);
    }
    size_t used = strlen(fact->value);
    used += (size_t)snprintf(fact->value + used, sizeof fact->value - used, "%s", used ? "; " : "");
    va_start(arguments, format);
    vsnprintf(fact->value + used, used < sizeof fact->value ? sizeof fact->value - used : 0, format, arguments);
    va_end(arguments);
}

void cl_facts_free(cl_facts *facts)
{
    free(facts->list);
    *facts = (cl_facts){ 0 };
}

bool cl_facts_line(const char *path, char line[CL_FACTS_VALUE])
{
    FILE *file = fopen(path, "re");
    bool found = file && fgets(line, CL_FACTS_VALUE, file);
    if (file)
        fclose(file);
    line[found ? strcspn(line, "\n") : 0] = '\0';
    return found;
}

bool cl_facts_key(const char *path, const char *key, char value[CL_FACTS_VALUE])
{
    char *line = NULL;
    size_t capacity = 0, length = strlen(key);
    FILE *file = fopen(path, "re");
    bool found = false;
    while (file && !found && getline(&line, &capacity, file) > 0) {
        const char *rest = line + length + strspn(line + (strlen(line) < length ? 0 : length), " \t");
        found = strncmp(line, key, length) == 0 && *rest == ':';
        if (found)
            snprintf(value, CL_FACTS_VALUE, "%.*s", (int)strcspn(rest + 1 + strspn(rest + 1, " \t"), "\n"),
                     rest + 1 + strspn(rest + 1, " \t"));
    }
    if (file)
        fclose(file);
    free(line);
    return found;
}
