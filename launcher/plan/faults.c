/* faults.c - Collects all faults of a text file, so that they are reported together. */
#include "plan/faults.h"

#include "codes.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { SLURP_BYTES = 64 << 10, MOST_BYTES = 64 << 20 };

void cl_faults_add(cl_faults *faults, const char *file, int line, int column, const char *format, ...)
{
    char sentence[512], place[32] = "";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    if (line)
        snprintf(place, sizeof place, ":%d:%d", line, column);
    size_t room = sizeof faults->text - (size_t)faults->length;
    int size =
        snprintf(faults->text + faults->length, room, "%s%s%s: %s", faults->length ? "\n" : "", file, place, sentence);
    if ((size_t)size < room)
        faults->length += size;
    else
        faults->text[faults->length] = '\0'; /* does not fit: the fault is counted but not shown */
    faults->count++;
}

int cl_faults_verdict(const cl_faults *faults, int code)
{
    int shown = faults->length > 0;
    for (int i = 0; i < faults->length; i++)
        shown += faults->text[i] == '\n';
    if (faults->count == 0)
        return 0;
    if (shown < faults->count)
        return cl_codes_fail(code, "%s\nand %d more", faults->text, faults->count - shown);
    return cl_codes_fail(code, "%s", faults->text);
}

static char *slurp(FILE *file, size_t *length)
{
    char *text = NULL;
    size_t room = 0, used = 0, part = 1;
    while (part && used <= MOST_BYTES) {
        if (used + SLURP_BYTES + 1 > room) {
            char *larger = realloc(text, room = 2 * room + SLURP_BYTES + 1);
            if (!larger)
                break;
            text = larger;
        }
        used += part = fread(text + used, 1, SLURP_BYTES, file);
    }
    if (part || ferror(file)) { /* out of memory, file too long, or a folder */
        errno = part ? EFBIG : errno;
        free(text);
        return NULL;
    }
    text[used] = '\0';
    *length = used;
    return text;
}

char *cl_faults_slurp(const char *path, size_t *length)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    char *text = file ? slurp(file, length) : NULL;
    int reason = errno;
    if (file && !standard)
        fclose(file);
    errno = reason;
    return text;
}
