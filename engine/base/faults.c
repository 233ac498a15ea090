/* faults.c - collects the faults of a text, so that they are reported together. */
#include "base/faults.h"
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SENTENCE = 512 };

void ce_faults_make_printable(char *text, const char *kept)
{
    for (unsigned char *c = (unsigned char *)text; *c; c++)
        if (*c == 0xc2 && c[1] >= 0x80 && c[1] < 0xa0) /* U+0080 to U+009F in UTF-8 */
            c[0] = c[1] = '?';
        else if ((*c < ' ' || *c == 0x7f) && !strchr(kept, *c))
            *c = '?';
}

void ce_faults_add(ce_faults *faults, const char *file, int line, int column, const char *path, const char *format, ...)
{
    char sentence[SENTENCE], place[32] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (line)
        snprintf(place, sizeof place, ":%d:%d", line, column);
    char *text = faults->text + faults->used;
    int left = (int)sizeof faults->text - faults->used;
    int size = snprintf(text, (size_t)left, "%s%s%s%s: %s", file, place, *path ? " at " : "", path, sentence) + 1;
    if (faults->count == 0 && size > left)
        size = left; /* if the first fault does not fit, its text is cut, so that at least one fault is reported */
    if (faults->count == CE_FAULTS || size > left) {
        faults->more++;
        return;
    }
    ce_faults_make_printable(text, "");
    faults->list[faults->count++] = (ce_fault){ line, column, faults->used };
    faults->used += size;
}

int ce_faults_verdict(const ce_faults *faults, int code)
{
    char all[sizeof faults->text + 64];
    int used = 0;
    if (faults->count == 0)
        return 0;
    for (int i = 0; i < faults->count; i++)
        used += sprintf(all + used, "%s%s", i ? "\n" : "", faults->text + faults->list[i].begin);
    if (faults->more)
        sprintf(all + used, "\nand %d more", faults->more);
    ce_fail(CS_BAD_CONFIG, "%s", all);
    return code;
}

static int by_place(const void *left, const void *right, void *text)
{
    const ce_fault *a = left, *b = right;
    if (a->line != b->line)
        return a->line < b->line ? -1 : 1;
    if (a->column != b->column)
        return a->column < b->column ? -1 : 1;
    return strcmp((const char *)text + a->begin, (const char *)text + b->begin);
}

void ce_faults_sort(ce_faults *faults)
{
    qsort_r(faults->list, (size_t)faults->count, sizeof *faults->list, by_place, faults->text);
}
