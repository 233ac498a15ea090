/* secret.h - what the processes of a job know and others do not: from CSPEED_SECRET, or the file that
 * CSPEED_SECRET_FILE
 * (--secret_file) names, which must be ours and 0600. */
#ifndef CL_SECRET_H
#define CL_SECRET_H

#include <stdbool.h>

/* The key made of the secret, CS_MAC_BYTES. *known is false when there is none. 0, or CL_CODE_NO_FILE, CL_CODE_FILE. */
int cl_secret_key(unsigned char *key, bool *known);

/* Another, for the ranks of this job. */
int cl_secret_ranks_key(const char *job, unsigned char *key, bool *known);

#endif
