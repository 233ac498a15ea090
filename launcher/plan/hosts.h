/* hosts.h - Hosts and their slots from a hostfile or --hosts, filtered by --include and --exclude.
 *
 * The hostfile format is that of DeepSpeed and Open MPI: `NAME slots=N [max_slots= port= user= addr= gpus=
 * env.X=VALUE]`; '#' begins a comment anywhere. All faults of a file are reported together as FILE:LINE:COL:
 * message. The order of the hosts is kept and is the order of node ranks. */
#ifndef CL_HOSTS_H
#define CL_HOSTS_H

#include "options.h"

#include <stddef.h>

typedef struct {
    char *name;    /* as written, without user@ and brackets; used in messages, and to find the host */
    char *address; /* addr=; NULL: the name is the address */
    char *user;    /* user=, or the part before '@'; NULL: the caller's name or ssh's configuration */
    int port;      /* port= of sshd; 0: not given */
    int slot_count;
    int *slots; /* ids, ascending: 0..N-1, or those of gpus=; after the selection, only the remaining ones */
    char **
        env; /* variables that the host's words env.X=VALUE set, as "X=VALUE"; NULL ends the list. The pointer itself is
                 * NULL if there are none */
} cl_host;

typedef struct {
    cl_host *list;
    int count;
    char *origin; /* "myhostfile", "--hosts", "this machine"; for messages and the plan */
} cl_hosts;

/* Reads a hostfile; "-" is standard input. Returns 0, CL_CODE_FILE (65) with all faults, or CL_CODE_NO_FILE (66). */
int cl_hosts_read(cl_hosts *hosts, const char *path);

/* Parses hostfile text in memory; `name` is the file name in messages. Also used by tests and fuzzing. */
int cl_hosts_parse(cl_hosts *hosts, const char *name, const char *text, size_t length);

/* Parses a list such as "a:8,b:8". */
int cl_hosts_parse_list(cl_hosts *hosts, const char *list);

/* Sets `hosts` to this machine only, named "localhost". */
int cl_hosts_local(cl_hosts *hosts, int slot_count);

/* Applies filters of the form NODE[@NODE...], where NODE is NAME[:SLOT[,SLOT...]] with ranges and globs: include
 * first, then exclude. Either may be NULL. Unknown hosts, slots out of bounds and an empty result are errors.
 * Returns 0, or CL_CODE_FILE. */
int cl_select_hosts(cl_hosts *hosts, const char *include, const char *exclude);

/* Returns true if the name or address means this machine: localhost, a loopback name, its host name, or an address
 * of one of its interfaces. Of the loopback addresses only 127.0.0.1 and ::1 count (127.0.0.2 is another host). */
bool cl_hosts_is_here(const cl_host *host);

const char *cl_hosts_address(const cl_host *host); /* its addr=, or its name */

void cl_hosts_free(cl_hosts *hosts);

#endif
