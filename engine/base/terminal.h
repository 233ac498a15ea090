/* terminal.h - the terminal that shows a stream: whether a line can be redrawn in place there, and its size. */
#ifndef CE_BASE_TERMINAL_H
#define CE_BASE_TERMINAL_H

#include <stdbool.h>

/* Returns true if the descriptor is a terminal that can redraw a line: TERM is set, and is not "dumb". */
bool ce_terminal_is(int fd);

/* Does the same as ce_terminal_is for a program that the launcher may have started; `fd` is 1 or 2. A rank writes
 * into pipes, so the launcher sets CSPEED_TERMINAL to the descriptors whose text it shows on a terminal: "1", "2" or
 * "12". */
bool ce_terminal_shows(int fd);

/* Return the width and the height of the terminal `fd` in characters. COLUMNS gives the width and LINES the height, if
 * the variable is set to a number above 1. Otherwise the terminal gives its size. If the terminal does not give its
 * size, the width is 80 and the height is 24. */
int ce_terminal_columns(int fd);
int ce_terminal_lines(int fd);

#endif
