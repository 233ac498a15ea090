/* descriptors.h - how many files this process may have open: a front has one or more for each node.
 *
 * The soft limit is raised to the hard one for the launcher and its agents alone: what they start gets the limit that
 * they were started with, since programs that use select() must not get descriptors above 1023 unasked. */
#ifndef CL_DESCRIPTORS_H
#define CL_DESCRIPTORS_H

#include <sys/resource.h>

void cl_descriptors_raise(void);           /* once, at the start of the process    */
void cl_descriptors_restore(void);         /* in a child, before it calls exec     */
struct rlimit cl_descriptors_before(void); /* the limits that this process was started with */

#endif
