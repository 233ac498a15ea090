/* dry.h - the transport of the dry run (engine/setup/dry_run.c). */
#ifndef CE_COMM_DRY_H
#define CE_COMM_DRY_H

#include "cspeed/comm.h"

/* Opens a comm whose memory takes no space and must not be accessed, and whose collectives must not be called. */
cs_comm *ce_comm_open_dry(const cs_world *world);

#endif
