/* env.h - the environment that travels to every node: env files, --env, forwarded prefixes, and where each came from.
 *
 * The rules are in ds_env.example. Later wins: forwarded by prefix; ~/.deepspeed_env, ~/.cspeed_env, ./.deepspeed_env,
 * ./.cspeed_env (or the name in CSPEED_ENV_FILE, DS_ENV_FILE); each --env_file; --env. A host's env.X= beats all. */
#ifndef CL_ENV_H
#define CL_ENV_H

#include "options.h"

#include <stddef.h>

typedef struct {
    char *name, *value; /* malloc'ed */
    char *origin;       /* "caller (NCCL*)", ".deepspeed_env:3", "--env" */
} cl_env_entry;

typedef struct {
    cl_env_entry *list; /* in order of names */
    int count;
} cl_env;

/* Reads what the options and the caller's environment say. 0, or CL_CODE_FILE, CL_CODE_NO_FILE with every fault. */
int cl_env_collect(cl_env *env, const cl_options *options);
int cl_env_parse(cl_env *env, const char *file, const char *text, size_t length, bool expand); /* adds; later wins */
void cl_env_set(cl_env *env, const char *name, const char *value, const char *origin);
void cl_env_free(cl_env *env);

/* Whether a name is that of a secret (KEY, TOKEN, SECRET, PASSWORD): such a value is never printed. */
bool cl_env_is_secret(const char *name);

/* Stands where a secret's value is not printed. */
#define CL_ENV_MASKED "(secret)"

/* A word of a command line without the values of secrets: HF_TOKEN=x becomes HF_TOKEN=(secret), whatever follows it in
 * that word too, and the word behind --api_key becomes (secret). `*hide` is false before the first word; calls carry it
 * from word to word. The result is the word itself, or stands in `room`. */
const char *cl_env_masked(const char *word, bool *hide, char *room, size_t room_bytes);

#endif
