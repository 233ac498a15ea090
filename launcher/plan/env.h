/* env.h - the environment variables that are sent to every node, with the origin of each value. The variables come from
 * env files and from --env; a variable of the user's environment is also sent if its name begins with one of certain
 * prefixes.
 *
 * ds_env.example describes the rules. A later source overrides an earlier one: variables sent because of their prefix;
 * ~/.deepspeed_env, ~/.cspeed_env, ./.deepspeed_env, ./.cspeed_env (or the file name in CSPEED_ENV_FILE, DS_ENV_FILE);
 * each --env_file; --env. The variables env.X= of a host in the hostfile override all of these. */
#ifndef CL_ENV_H
#define CL_ENV_H

#include "base/faults.h"
#include "ground/options.h"

#include <stddef.h>

typedef struct {
    char *name, *value; /* malloc'ed */
    char *origin;       /* where the value comes from, such as "caller (NCCL*)", ".deepspeed_env:3", "--env" */
} cl_env_entry;

typedef struct {
    cl_env_entry *list; /* the variables, sorted by name */
    int count;
} cl_env;

/* Collects the variables from the options and from the environment of this process. Returns 0, or CL_CODE_FILE or
 * CL_CODE_NO_FILE with all faults in the message. */
int cl_env_collect(cl_env *env, const cl_options *options);
/* Adds the variables of an environment file, whose text is given, to `env`, and its faults to `faults` (envfile.c). If
 * a variable occurs twice, its later value is used. */
void cl_envfile_read(cl_env *env, const char *file, const char *text, size_t length, bool expand, ce_faults *faults);
/* Adds a variable, or replaces its value and origin if it exists already. The strings are copied. */
void cl_env_set(cl_env *env, const char *name, const char *value, const char *origin);
const char *cl_env_value(const cl_env *env, const char *name); /* NULL: there is no such variable */
/* Returns the value of a variable in a text of entries NAME=VALUE, each followed by NUL; NULL: the text lacks it. */
const char *cl_env_find(const char *text, size_t length, const char *name);
void cl_env_free(cl_env *env);

bool cl_env_is_name(const char *name); /* letters, digits and _, no digit first */

/* Returns true if the name is that of a secret: it contains KEY, TOKEN, SECRET, PASSWORD, PASSWD or CREDENTIAL, in
 * upper or lower case. The value of a secret is never printed. */
bool cl_env_is_secret(const char *name);

/* The text that is printed in place of the value of a secret. */
#define CL_ENV_MASKED "(secret)"

/* Hides secrets in one word of a command line. HF_TOKEN=x and the rest of that word become HF_TOKEN=(secret). The word
 * after --api_key becomes (secret). The caller sets *hide to false before the first word of a command line, and passes
 * the same `hide` for all words of this command line. Returns `word` itself, or the changed text, which is in `buffer`.
 */
const char *cl_env_masked(const char *word, bool *hide, char *buffer, size_t buffer_bytes);

#endif
