/* options_help.c - Lists the launch flags for help, the man page and shell completion. */
#include "flags.h"
#include "options.h"

#include <stdio.h>
#include <string.h>

void cl_options_each(void (*each)(const char *name, const char *value, const char *text, void *argument),
                     void *argument)
{
    char name[CL_FLAGS_NAME];
    bool twin;
    for (int i = 0; i < cl_flags_count; i++)
        for (const char *place = cl_flags_table[i].names; cl_flags_name(&place, name, &twin);)
            each(name, cl_flags_table[i].value, cl_flags_table[i].text, argument);
}

/* Prints a paragraph of help, wrapped at 100 columns. */
static void print_wrapped(const char *text)
{
    int column = 0;
    for (const char *word = text; *word; word += strspn(word, " ")) {
        int length = (int)strcspn(word, " ");
        if (column + length > 92)
            column = 0;
        printf(column ? " %.*s" : "\n        %.*s", length, word);
        column += length + 1;
        word += length;
    }
    putchar('\n');
}

static void print_row(const cl_flag *flag)
{
    const char *before = "  ";
    char name[CL_FLAGS_NAME];
    bool twin;
    for (const char *place = flag->names; cl_flags_name(&place, name, &twin); before = ", ")
        printf("%s%s%s", before, name[1] ? "--" : "-", name);
    if (flag->kind == CL_FLAG_OPTIONAL)
        printf("[=%s]", flag->value);
    else if (flag->value && strcmp(flag->value, "*") != 0)
        printf(" %s", flag->value);
    print_wrapped(flag->text);
}

void cl_options_help(void)
{
    for (int i = 0; i < cl_flags_count; i++)
        if (*cl_flags_table[i].names)
            print_row(&cl_flags_table[i]);
        else
            printf("%s%s\n", i ? "\n" : "", cl_flags_table[i].text);
}
