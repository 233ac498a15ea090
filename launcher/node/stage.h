/* stage.h - a file that the front has sent is written here. */
#ifndef CS_LAUNCHER_STAGE_H
#define CS_LAUNCHER_STAGE_H

#include "wire/link.h"

/* Of a CS_LINK_STAGE. 0, or CS_CODE_LOG, CS_CODE_NO_FILE, CS_CODE_DISAGREE. */
int cs_stage_write(const cs_message *message);

#endif
