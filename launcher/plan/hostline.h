/* hostline.h - one line of a hostfile, one item of --hosts. */
#ifndef CS_LAUNCHER_HOSTLINE_H
#define CS_LAUNCHER_HOSTLINE_H

#include "plan/faults.h"
#include "plan/hosts.h"

/* Where a text stands, for faults. */
typedef struct {
    const char *file;
    int         line;
    const char *start; /* column 1 */
    cs_faults  *faults;
} cs_hostline_place;

/* Reads "NAME key=value ..." of `length` bytes. False when there was a fault; the host is then empty. */
bool cs_hostline_read(cs_host *host, const cs_hostline_place *place, const char *text, size_t length);

/* Reads "NAME" or "NAME:SLOTS". */
bool cs_hostline_read_item(cs_host *host, const cs_hostline_place *place, const char *text, size_t length);

void cs_hostline_free(cs_host *host);

/* Whether two names are one host: without regard to case, a last dot, or how an address is written. */
bool cs_hostline_same(const char *one, const char *other);

#endif
