/* stop.h - stop strings: strings before which a generated answer ends. */
#ifndef GENERATE_STOP_H
#define GENERATE_STOP_H

#include "cspeed/options.h"
#include "text/unicode.h"

/* Looks for stop strings that end after `from`. Returns the position at which the first of these begins, or the size of
 * the text if there is none. */
size_t stop_find(const cs_option_list *stop, const ce_text *text, size_t from);
/* Returns the number of bytes at the end of the text that may be the beginning of a stop string. */
size_t stop_held_back(const cs_option_list *stop, const ce_text *text);

#endif
