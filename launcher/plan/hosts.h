/* hosts.h - hosts and their slots from a hostfile or --hosts, filtered by --include and --exclude.
 *
 * The format of a hostfile is that of DeepSpeed and Open MPI: `NAME slots=N [max_slots= port= user= addr= gpus=
 * env.X=VALUE]`. '#' begins a comment at any place. All faults of a file are reported together, each as FILE:LINE:COL:
 * message. The hosts keep their order, which is the order of the nodes. */
#ifndef CL_HOSTS_H
#define CL_HOSTS_H

#include "ground/options.h"

#include <stddef.h>

typedef struct {
    char *name;    /* the name that the user wrote, without user@ and brackets */
    char *address; /* the value of addr=; NULL: the name is also the address */
    char *user;    /* the value of user=, or the text before '@'; NULL: ssh chooses the user */
    int port;      /* value of port=, the port of sshd; 0: not given */
    int slot_count;
    /* slot ids, ascending: 0, 1, ... or those of gpus=; after --include and --exclude, only the remaining ids */
    int *slots;
    char **
        /* Variables that the host's words env.X=VALUE set, as "X=VALUE"; NULL ends the list. The pointer `env` is NULL
         * if there are no such words. */
        env;
} cl_host;

typedef struct {
    cl_host *list;
    int count;
    char *origin; /* source of the hosts: "myhostfile", "--hosts" or "this machine"; for messages and the plan */
} cl_hosts;

/* Reads a hostfile; the name "-" means standard input. Returns 0, CL_CODE_FILE with all faults in the message, or
 * CL_CODE_NO_FILE. */
int cl_hosts_read(cl_hosts *hosts, const char *path);

/* Parses hostfile text in memory; `name` is the file name in messages. Also used by tests and fuzzing. Returns 0, or
 * CL_CODE_FILE with all faults in the message. */
int cl_hosts_parse(cl_hosts *hosts, const char *name, const char *text, size_t length);

/* Parses a list of hosts such as "a:8,b:8". Returns 0, or CL_CODE_FILE with all faults in the message. */
int cl_hosts_parse_list(cl_hosts *hosts, const char *list);

/* Sets `hosts` to this machine only, with the name "localhost". Returns 0. */
int cl_hosts_local(cl_hosts *hosts, int slot_count);

/* Applies filters of the form NODE[@NODE...], where NODE is NAME[:SLOT[,SLOT...]] with ranges and globs: first
 * `include`, then `exclude`. Either of them may be NULL. Unknown hosts, slots that a host does not have, and an empty
 * result are errors. Returns 0 or CL_CODE_FILE. */
int cl_select_hosts(cl_hosts *hosts, const char *include, const char *exclude);

/* Returns true if the name or address means this machine: localhost, a loopback name, its host name, or an address of
 * one of its interfaces. 127.0.0.1 and ::1 are the only loopback addresses that count (127.0.0.2 is another host). */
bool cl_hosts_is_here(const cl_host *host);

const char *cl_hosts_address(const cl_host *host); /* returns the value of addr=, or the name */

void cl_hosts_free(cl_hosts *hosts);

#endif
