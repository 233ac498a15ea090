/* hostline.h - parses one line of a hostfile or one item of --hosts. */
#ifndef CL_HOSTLINE_H
#define CL_HOSTLINE_H

#include "base/faults.h"
#include "plan/hosts.h"

/* The position of a text in its file, for messages about faults. */
typedef struct {
    const char *file;
    int line;
    const char *start; /* the beginning of the line, from which columns are counted */
    ce_faults *faults;
} cl_hostline_place;

/* Reads "NAME key=value ..." from a text of `length` bytes. Returns false if the text has a fault; `host` is then
 * empty. */
bool cl_hostline_read(cl_host *host, const cl_hostline_place *place, const char *text, size_t length);

/* Reads "NAME" or "NAME:SLOTS". */
bool cl_hostline_read_item(cl_host *host, const cl_hostline_place *place, const char *text, size_t length);

void cl_hostline_free(cl_host *host);

/* Returns true if two names mean the same host: case, a final dot and the notation of an address are ignored. */
bool cl_hostline_same(const char *one, const char *other);

#endif
