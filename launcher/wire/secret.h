/* secret.h - the shared secret that authenticates the processes of a job.
 *
 * The secret comes from the variable CSPEED_SECRET, or from the file named by CSPEED_SECRET_FILE (--secret_file), which
 * must belong to this user and be readable by this user alone (mode 0600). */
#ifndef CL_SECRET_H
#define CL_SECRET_H

#include <stdbool.h>

/* Derives the key for sealed links, of CE_MAC_BYTES bytes, from the secret. *known becomes false if there is no secret.
 * Returns 0, CL_CODE_NO_FILE or CL_CODE_FILE. */
int cl_secret_key(unsigned char *key, bool *known);

/* Derives the key that the ranks of a job use, from the secret and the job id. The ranks' key differs from the agents'
 * key, which cl_secret_key derives. *known becomes false if there is no secret. Returns 0, CL_CODE_NO_FILE or
 * CL_CODE_FILE. */
int cl_secret_ranks_key(const char *job, unsigned char *key, bool *known);

#endif
