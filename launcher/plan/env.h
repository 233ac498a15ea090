/* env.h - The environment variables that are sent to every node: env files, --env and forwarded prefixes, with their
 * origins.
 *
 * The rules are described in ds_env.example. A later source overrides an earlier one: variables forwarded by prefix;
 * ~/.deepspeed_env, ~/.cspeed_env, ./.deepspeed_env, ./.cspeed_env (or the file name in CSPEED_ENV_FILE,
 * DS_ENV_FILE); each --env_file; --env. A host's env.X= overrides all of them. */
#ifndef CL_ENV_H
#define CL_ENV_H

#include "options.h"

#include <stddef.h>

typedef struct {
    char *name, *value; /* malloc'ed */
    char *origin;       /* "caller (NCCL*)", ".deepspeed_env:3", "--env" */
} cl_env_entry;

typedef struct {
    cl_env_entry *list; /* sorted by name */
    int count;
} cl_env;

/* Collects the variables from the options and the caller's environment. Returns 0, or CL_CODE_FILE, CL_CODE_NO_FILE
 * with all faults in the message. */
int cl_env_collect(cl_env *env, const cl_options *options);
/* Adds the variables of an environment file's text (envfile.h) to `env`; a later value of a variable overrides an
 * earlier one. Returns the same codes as cl_env_collect. */
int cl_env_parse(cl_env *env, const char *file, const char *text, size_t length, bool expand);
/* Adds a variable or replaces its value and origin; the strings are copied. */
void cl_env_set(cl_env *env, const char *name, const char *value, const char *origin);
void cl_env_free(cl_env *env);

/* Returns true if the name is that of a secret (it contains KEY, TOKEN, SECRET or PASSWORD). The values of secrets
 * are never printed. */
bool cl_env_is_secret(const char *name);

/* The text that is printed instead of the value of a secret. */
#define CL_ENV_MASKED "(secret)"

/* Masks secrets in one word of a command line: HF_TOKEN=x becomes HF_TOKEN=(secret), including the rest of that
 * word, and the word after --api_key becomes (secret). Set `*hide` to false before the first word and pass it on
 * from word to word. Returns the word itself, or the masked text in `room`. */
const char *cl_env_masked(const char *word, bool *hide, char *room, size_t room_bytes);

#endif
