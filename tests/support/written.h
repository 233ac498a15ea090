/* written.h - a configuration from a string, as if it were read from a file. */
#ifndef CS_TESTS_WRITTEN_H
#define CS_TESTS_WRITTEN_H

#include "cspeed/cspeed.h"

/* Opens a configuration with this text, as if it were a file with the name of the test program, and does not finish it.
 * Fails the test if the text cannot be read. */
cs_config *written_config(const char *text);

/* Returns the text of a configuration with a micro-batch of 1 and these keys; valid until the next call. */
const char *written_with(const char *more);

/* Checks that the configuration is refused, twice in a row, with an error that contains the sentence. */
void written_refused(const char *text, const char *sentence);

/* Returns true if one of the configuration's notes contains the text. */
bool written_has_note(const cs_config *config, const char *text);

#endif
