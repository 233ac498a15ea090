/* hosts.h - hostfile, --hosts, include and exclude: to hosts and their slots.
 *
 * The hostfile is DeepSpeed's and Open MPI's: `NAME slots=N [max_slots= port= user= addr= gpus= env.X=VALUE]`, '#'
 * begins a comment anywhere. Every fault of a file is reported in one go as FILE:LINE:COL: sentence. Order is kept and
 * is the order of node ranks. */
#ifndef CL_HOSTS_H
#define CL_HOSTS_H

#include "options.h"

#include <stddef.h>

typedef struct {
    char *name;    /* as written, without user@ and brackets: what is printed, and looked up */
    char *address; /* addr=; NULL: the name is                                               */
    char *user;    /* user=, or before the '@'; NULL: the caller or ssh's configuration says */
    int port;      /* port= of sshd; 0: not said                                             */
    int slot_count;
    int *slots; /* ids, ascending: 0..N-1, or those of gpus=; after selection those that are left */
    char **env; /* env.X=VALUE as "X=VALUE"; NULL-terminated; NULL: none */
} cl_host;

typedef struct {
    cl_host *list;
    int count;
    char *origin; /* "myhostfile", "--hosts", "this machine": for messages and the plan */
} cl_hosts;

/* "-" is standard input. 0, CL_CODE_FILE (65) with all faults, CL_CODE_NO_FILE (66). */
int cl_hosts_read(cl_hosts *hosts, const char *path);

/* The same from memory; `name` stands in messages. For tests and fuzzing too. */
int cl_hosts_parse(cl_hosts *hosts, const char *name, const char *text, size_t length);

/* "a:8,b:8" */
int cl_hosts_parse_list(cl_hosts *hosts, const char *list);

/* This machine alone, called "localhost". */
int cl_hosts_local(cl_hosts *hosts, int slot_count);

/* NODE[@NODE...], NODE = NAME[:SLOT[,SLOT...]] with ranges and globs; include first, then exclude; either may be NULL.
 * Unknown hosts, slots out of bounds and an empty result are errors. 0 or CL_CODE_FILE. */
int cl_hosts_select(cl_hosts *hosts, const char *include, const char *exclude);

/* Whether the name or address means this machine: localhost, a loopback name, its host name, one of its interfaces'
 * addresses, but not another loopback address than 127.0.0.1 and ::1 (127.0.0.2 counts as a host of its own). */
bool cl_hosts_is_here(const cl_host *host);

void cl_hosts_free(cl_hosts *hosts);

#endif
