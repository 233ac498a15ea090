/* processors.h - the number of processors that this process may use. */
#ifndef CE_BASE_PROCESSORS_H
#define CE_BASE_PROCESSORS_H

/* Returns the size of the process's CPU affinity mask, or 1 if the system has more processors than a cpu_set_t can
 * hold. */
int ce_processors_allowed(void);

#endif
