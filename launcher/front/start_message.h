/* start_message.h - the first words about a job: how many ranks, where, and where their files are. */
#ifndef CL_BANNER_H
#define CL_BANNER_H

#include "front/front.h"

void cl_banner_say(cl_front *front); /* nothing with --quiet; again when the ranks have changed */

#endif
