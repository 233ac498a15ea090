/* descriptors.h - The limit of open files of this process (RLIMIT_NOFILE): a front needs one or more open files for
 * each node.
 *
 * Only the launcher and its agents raise the soft limit to the hard one. The processes that they start get the
 * original limit back, because a program that uses select() must not get descriptors above 1023 unexpectedly. */
#ifndef CL_DESCRIPTORS_H
#define CL_DESCRIPTORS_H

#include <sys/resource.h>

void cl_descriptors_raise(void);           /* call once, at the start of the process */
void cl_descriptors_restore(void);         /* call in a child before exec */
struct rlimit cl_descriptors_before(void); /* the limits with which this process was started */

#endif
