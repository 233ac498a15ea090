/* resolve.h - from what the file says to what the run does: the batch triangle, "auto", precision, lists of files. */
#ifndef CS_CONFIG_RESOLVE_H
#define CS_CONFIG_RESOLVE_H

#include "config/config.h"

/* The tables have filled config->settings; faults go to config->doc. */
void cs_resolve_batch(cs_config *config);
void cs_resolve_precision(cs_config *config);
void cs_resolve_run(cs_config *config); /* the "cspeed" section: model, data, length, transport */

#endif
