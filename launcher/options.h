/* options.h - the launch flags: what stands before the program on the command line.
 *
 * One table in options.c holds every flag: its names (DeepSpeed's and torchrun's too), its type, its help,
 * or why it is refused. `--foo_bar` is `--foo-bar`, `--x v` is `--x=v`; there are no abbreviations, so a
 * later flag never changes what a script of today means. Reading stops at the first word that is no flag, or
 * behind `--`; the rest belongs to the program, byte for byte. */
#ifndef CS_LAUNCHER_OPTIONS_H
#define CS_LAUNCHER_OPTIONS_H

#include <stdbool.h>

typedef enum { CS_BIND_AUTO, CS_BIND_NONE, CS_BIND_CORE } cs_bind;

typedef struct {
    int         ranks; /* 0: one a NUMA node */
    bool        oversubscribe;
    int         bind; /* a cs_bind */
    int         master_port; /* 0: any free one */
    const char *log_dir; /* NULL: none */
    const char *prefix; /* NULL: "{rank}| " for every rank but 0 */
    bool        no_prefix;
    double      grace_seconds;
    int         stop_signal;
    double      timeout_seconds; /* 0: none */
    bool        quiet, verbose, dry_run, help, version;
    char      **program; /* the program and its arguments, in argv; its first may be NULL */
} cs_options;

/* Fills `options` from argv. 0, or CS_CODE_USAGE and a sentence in cs_error(). */
int cs_options_read(cs_options *options, char **argv);

void cs_options_help(void); /* every flag, to stdout */

#endif
