/* descriptors.h - the limit of open files (RLIMIT_NOFILE) of this process. A front process needs one or more open files
 * for each node.
 *
 * Only the launcher and its agents raise the soft limit to the hard limit. A process that the launcher or an agent
 * starts gets the original limit back, because a program that uses select() must not get descriptors above 1023. */
#ifndef CL_DESCRIPTORS_H
#define CL_DESCRIPTORS_H

#include <sys/resource.h>

void cl_descriptors_raise(void);           /* raises the soft limit; call it once, at the start of the process */
void cl_descriptors_restore(void);         /* restores the original limits; call it in a child before exec */
struct rlimit cl_descriptors_before(void); /* Returns the limits with which this process was started. */

#endif
