/* start_message.h - the message at the start of a job: number of ranks, their hosts and cores, and the log folder. */
#ifndef CL_START_MESSAGE_H
#define CL_START_MESSAGE_H

#include "front/front.h"

void cl_start_message_print(cl_front *front); /* Prints nothing with --quiet. Called for every attempt. */

#endif
