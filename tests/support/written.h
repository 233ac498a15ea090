/* written.h - opens a configuration whose text a test gives as a string. */
#ifndef CS_TESTS_WRITTEN_H
#define CS_TESTS_WRITTEN_H

#include "cspeed/cspeed.h"

/* Writes the text to a temporary file, whose name begins with the name of the test program, and opens this file with
 * cs_config_open. The caller calls cs_config_finish. Fails the test if the text cannot be read. */
cs_config *written_config(const char *text);

/* Returns the text of a configuration with a micro-batch of 1 and these keys; valid until the next call. */
const char *written_with(const char *more);

/* Checks that the configuration is refused, twice in a row, with an error that contains the sentence. */
void written_refused(const char *text, const char *sentence);

/* Returns true if one of the configuration's notes contains the text. */
bool written_has_note(const cs_config *config, const char *text);

#endif
