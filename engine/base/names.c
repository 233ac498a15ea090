/* names.c - a list of names for a message, shortened. */
#include "base/names.h"
#include "base/faults.h"

#include <stdarg.h>
#include <stdio.h>

enum { USUAL = 10, END_BYTES = 40 /* the bytes of " and N more" */ };

void ce_names_add(ce_names *names, const char *format, ...)
{
    char *end = names->text + names->used;
    size_t comma = names->shown ? 2 : 0, room = CE_NAMES_BYTES - END_BYTES - names->used;
    va_list arguments;
    if (names->count++ > names->shown || names->shown == (names->most ? names->most : USUAL) || room <= comma)
        return;
    va_start(arguments, format);
    int length = vsnprintf(end + comma, room - comma, format, arguments);
    va_end(arguments);
    if ((size_t)length >= room - comma && names->shown) {
        *end = '\0';
        return;
    }
    if (comma)
        end[0] = ',', end[1] = ' ';
    ce_faults_make_printable(end, "");
    names->used += (size_t)length < room - comma ? comma + (size_t)length : room - 1;
    names->shown++;
}

const char *ce_names_text(ce_names *names)
{
    if (names->count > names->shown)
        snprintf(names->text + names->used, END_BYTES, " and %ld more", names->count - names->shown);
    return names->text;
}
