/* names.h - a list of names for a message, shortened: "a, b, c and 997 more".
 *
 * A list of hosts, ranks, files or tensors may be of any length, and a message is one line. The list shows the first ten
 * names, as far as they fit, never a part of a name that does not fit, and counts the others. */
#ifndef CE_BASE_NAMES_H
#define CE_BASE_NAMES_H

#include <stddef.h>

enum { CE_NAMES_BYTES = 896 };

/* A struct whose bytes are all zero is an empty list. */
typedef struct {
    char text[CE_NAMES_BYTES];
    size_t used;
    long count; /* the number of all names */
    long shown; /* the number of names in `text` */
    long most;  /* the greatest number of names that are shown; 0: ten */
} ce_names;

void ce_names_add(ce_names *names, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the list, which is valid until the next call with these `names`; "" if it is empty. A first name that does not
 * fit is cut. */
const char *ce_names_text(ce_names *names);

#endif
