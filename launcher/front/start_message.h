/* start_message.h - the first words about a job: how many ranks, where, and where their files are. */
#ifndef CL_START_MESSAGE_H
#define CL_START_MESSAGE_H

#include "front/front.h"

void cl_start_message_print(cl_front *front); /* nothing with --quiet; again when the ranks have changed */

#endif
