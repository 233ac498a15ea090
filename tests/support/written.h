/* written.h - a configuration from text, as if a file held it. */
#ifndef CS_TESTS_WRITTEN_H
#define CS_TESTS_WRITTEN_H

#include "cspeed/cspeed.h"

/* Opened, not finished; the file was called after the test's program. The test fails when it cannot be read. */
cs_config *written_config(const char *text);

/* A file with a micro-batch of 1 and these keys; valid until the next call. */
const char *written_with(const char *more);

/* Checks that the file is refused, twice in a row, with a text that holds the sentence. */
void written_refused(const char *text, const char *sentence);

/* Whether one of the configuration's notes holds the text. */
bool written_has_note(const cs_config *config, const char *text);

#endif
