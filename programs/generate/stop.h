/* stop.h - stop strings: an answer ends before the first of them. */
#ifndef GENERATE_STOP_H
#define GENERATE_STOP_H

#include "cspeed/options.h"
#include "text/unicode.h"

/* Returns the position at which the first stop string begins that ends after `from`, or the size of the text if there
 * is none. */
size_t stop_find(const cs_option_list *stop, const ce_text *text, size_t from);
/* Returns the number of bytes at the end of the text that may be the beginning of a stop string. */
size_t stop_held_back(const cs_option_list *stop, const ce_text *text);

#endif
