/* secret.h - The shared secret that authenticates the processes of a job.
 *
 * It comes from CSPEED_SECRET, or from the file named by CSPEED_SECRET_FILE (--secret_file), which must belong to
 * this user and have mode 0600. */
#ifndef CL_SECRET_H
#define CL_SECRET_H

#include <stdbool.h>

/* Derives the key of CS_MAC_BYTES bytes from the secret. *known is false if there is no secret. Returns 0, or
 * CL_CODE_NO_FILE, CL_CODE_FILE. */
int cl_secret_key(unsigned char *key, bool *known);

/* Derives a second key from the secret and the job id. The ranks use it; agents do not. */
int cl_secret_ranks_key(const char *job, unsigned char *key, bool *known);

#endif
