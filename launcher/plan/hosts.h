/* hosts.h - hosts and their slots from a hostfile or --hosts, filtered by --include and --exclude.
 *
 * The format of a hostfile is that of DeepSpeed and Open MPI: `NAME slots=N [max_slots= port= user= addr= gpus=
 * env.X=VALUE]`. '#' begins a comment at any place. All faults of a file are reported together, each as FILE:LINE:COL:
 * message. The hosts keep their order, which is the order of the nodes. */
#ifndef CL_HOSTS_H
#define CL_HOSTS_H

#include "options.h"

#include <stddef.h>

typedef struct {
    char *name;    /* the name as written, without user@ and brackets; it is used in messages, and to find the host */
    char *address; /* the value of addr=; NULL: the name is also the address */
    char *user;    /* the value of user=, or the text before '@'; NULL: ssh chooses the user */
    int port;      /* the value of port=, the port of sshd; 0: the port was not given */
    int slot_count;
    /* Ids of the slots, ascending: 0 .. slot_count-1, or those of gpus=. After --include and --exclude, only the
     * remaining ids. */
    int *slots;
    char **
        /* Variables that the words env.X=VALUE of the host set, as a list of "X=VALUE" that NULL terminates. The
         * pointer `env` itself is NULL if there are no such words. */
        env;
} cl_host;

typedef struct {
    cl_host *list;
    int count;
    char *origin; /* the source of the hosts, for messages and the plan: "myhostfile", "--hosts" or "this machine" */
} cl_hosts;

/* Reads a hostfile; the name "-" means standard input. Returns 0, CL_CODE_FILE with all faults in the message, or
 * CL_CODE_NO_FILE. */
int cl_hosts_read(cl_hosts *hosts, const char *path);

/* Parses the text of a hostfile; `name` is the name of the file in messages. Tests and fuzz targets also use it. */
int cl_hosts_parse(cl_hosts *hosts, const char *name, const char *text, size_t length);

/* Parses a list of hosts such as "a:8,b:8". */
int cl_hosts_parse_list(cl_hosts *hosts, const char *list);

/* Sets `hosts` to a list with this machine only, which gets the name "localhost". */
int cl_hosts_local(cl_hosts *hosts, int slot_count);

/* Applies filters of the form NODE[@NODE...], where NODE is NAME[:SLOT[,SLOT...]] with ranges and globs. `include` is
 * applied first, then `exclude`; each of the two may be NULL. Unknown hosts, slots that a host does not have, and an
 * empty result are errors. Returns 0 or CL_CODE_FILE. */
int cl_select_hosts(cl_hosts *hosts, const char *include, const char *exclude);

/* Returns true if a host's name or address means this machine: localhost or another loopback name, the host name of
 * this machine, or an address of one of its interfaces. 127.0.0.1 and ::1 are the only loopback addresses that count;
 * 127.0.0.2 means another host. */
bool cl_hosts_is_here(const cl_host *host);

void cl_hosts_free(cl_hosts *hosts);

#endif
