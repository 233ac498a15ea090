/* written.h - a configuration from text, as if a file held it. */
#ifndef CS_TESTS_WRITTEN_H
#define CS_TESTS_WRITTEN_H

#include "cspeed.h"

/* Opened, not finished; the file was called after the test's program. The test fails when it cannot be read. */
cs_config *written_config(const char *text);

#endif
