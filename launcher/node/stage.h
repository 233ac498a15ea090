/* stage.h - writes a file that the front process has sent (--stage). */
#ifndef CL_STAGE_H
#define CL_STAGE_H

#include "wire/link.h"

/* Writes the file of a CL_LINK_STAGE message. Returns 0, or CL_CODE_LOG, CL_CODE_NO_FILE or CL_CODE_DISAGREE. */
int cl_stage_write(const cl_message *message);

#endif
