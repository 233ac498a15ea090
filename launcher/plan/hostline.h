/* hostline.h - one line of a hostfile, one item of --hosts. */
#ifndef CL_HOSTLINE_H
#define CL_HOSTLINE_H

#include "plan/faults.h"
#include "plan/hosts.h"

/* Where a text stands, for faults. */
typedef struct {
    const char *file;
    int line;
    const char *start; /* column 1 */
    cl_faults *faults;
} cl_hostline_place;

/* Reads "NAME key=value ..." of `length` bytes. False when there was a fault; the host is then empty. */
bool cl_hostline_read(cl_host *host, const cl_hostline_place *place, const char *text, size_t length);

/* Reads "NAME" or "NAME:SLOTS". */
bool cl_hostline_read_item(cl_host *host, const cl_hostline_place *place, const char *text, size_t length);

void cl_hostline_free(cl_host *host);

/* Whether two names are one host: without regard to case, a last dot, or how an address is written. */
bool cl_hostline_same(const char *one, const char *other);

#endif
