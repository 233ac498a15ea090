/* processors.h - how many processors this process may use. */
#ifndef CS_BASE_PROCESSORS_H
#define CS_BASE_PROCESSORS_H

/* By its affinity; 1 where the system has more than a cpu_set_t holds, and does not tell. */
int cs_processors_allowed(void);

#endif
