/* split.h - cs_comm_split with settings for the groups. */
#ifndef CE_COMM_SPLIT_H
#define CE_COMM_SPLIT_H

#include "comm/transport.h"

/* Does the same as cs_comm_split, but the groups have these settings instead of the parent's. */
cs_status ce_split(cs_comm **group, cs_comm *parent, int color, int key, const cs_comm_settings *settings);

#endif
