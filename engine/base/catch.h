/* catch.h - fatal errors and lines of output that the calling program takes instead of the process's end and its streams
 * (cs_on_fatal, cs_on_log, cs_try_forward). */
#ifndef CE_BASE_CATCH_H
#define CE_BASE_CATCH_H

#include "cspeed/cspeed.h"

/* Calls run(argument). If a fatal error occurs in it on this thread, the call ends there (longjmp), cs_error() is the
 * sentence, and the status is returned. Memory that the functions in between have allocated is lost. */
cs_status ce_catch(void (*run)(void *argument), void *argument);

/* Called by ce_fatal before the process ends. Returns if no ce_catch runs on this thread, after the program's hook. */
void ce_catch_fatal(cs_status status, const char *sentence);

/* Gives a line to the program's hook. Returns false if there is none; the caller then prints the line. */
bool ce_catch_line(cs_log_level level, const char *line);

#endif
