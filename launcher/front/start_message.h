/* start_message.h - the first words about a job: how many ranks, where, and where their files are. */
#ifndef CS_LAUNCHER_BANNER_H
#define CS_LAUNCHER_BANNER_H

#include "front/front.h"

void cs_banner_say(cs_front *front); /* nothing with --quiet; again when the ranks have changed */

#endif
