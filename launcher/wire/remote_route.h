/* remote_route.h - the interface by which a carrier reaches a host: through libssh, or through a child process
 * (--ssh_cmd; sh for this machine).
 *
 * A route is opened once, in a separate process. Opening may block until the remote command line has been started, and
 * `code` may block for a short time; the other functions do not block. */
#ifndef CL_REMOTE_ROUTE_H
#define CL_REMOTE_ROUTE_H

#include "plan/hosts.h"
#include "wire/link.h"

#include <poll.h>

enum { CL_WAY_POLLED = 3 };
enum { CL_ROUTE_LATER = 0, CL_ROUTE_ENDED = -1 };

typedef struct {
    const cl_host *host;
    const cl_options *options;
    const char *command; /* the command line for the shell of the host */
    cl_link *messages;   /* the link that receives messages for the user (CL_LINK_SAY) */
    void *state;         /* data that belongs to the implementation */
} cl_route;

typedef struct {
    /* Connects, logs in and starts the command. Returns 0, or an exit code with a message. The caller calls `close` in
     * either case. */
    int (*open)(cl_route *route);
    /* Fills `polled` and returns the number of its entries. `reading` and `writing` say whether the carrier will read
     * or write next. */
    int (*poll)(cl_route *route, bool reading, bool writing, struct pollfd *polled);
    /* Reads stdout (`which` is 0) or stderr (1). Returns the number of bytes; CL_ROUTE_LATER if none have arrived;
     * CL_ROUTE_ENDED at the end of the output. */
    ssize_t (*read)(cl_route *route, int which, char *bytes, size_t capacity);
    /* Returns the number of bytes written to the command's stdin; CL_ROUTE_LATER if none can be written now;
     * CL_ROUTE_ENDED if the command no longer reads. */
    ssize_t (*write)(cl_route *route, const char *bytes, size_t count);
    /* Closes the command's stdin. */
    void (*end_input)(cl_route *route);
    /* Returns the exit code of the command, or 128 + N for signal N, after stdout and stderr have ended; 255: the code
     * is unknown. */
    int (*code)(cl_route *route);
    void (*close)(cl_route *route);
} cl_way;

extern const cl_way cl_way_ssh, cl_way_command, cl_way_shell;

#endif
