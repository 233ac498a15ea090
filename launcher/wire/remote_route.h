/* remote_route.h - Interface of the transports of a carrier: libssh, or a child process (--ssh_cmd; sh for this
 * machine).
 *
 * A route is opened once, in a process of its own. Opening may block until the remote command line has been started;
 * the other functions do not block. */
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
    const char *command; /* command line for the host's shell */
    cl_link *messages;   /* receives CL_LINK_SAY frames */
    void *state;         /* private data of the implementation */
} cl_route;

typedef struct {
    /* Connects, logs in and starts the command. Returns 0, or a code with a message. `close` is called in either
     * case. */
    int (*open)(cl_route *route);
    /* Fills `polled` and returns the number of entries. `reading` and `writing` say which operations the carrier
     * will do next. */
    int (*poll)(cl_route *route, bool reading, bool writing, struct pollfd *polled);
    /* Reads stdout (which 0) or stderr (1). Returns the number of bytes, CL_ROUTE_LATER or CL_ROUTE_ENDED. */
    ssize_t (*read)(cl_route *route, int which, char *bytes, size_t room);
    /* Returns the number of bytes written; CL_ROUTE_LATER if none can be written now, CL_ROUTE_ENDED if the reader has
     * gone. */
    ssize_t (*write)(cl_route *route, const char *bytes, size_t count);
    /* Closes the command's stdin. */
    void (*end_input)(cl_route *route);
    /* Returns the exit code of the command, or 128 + N for signal N, after both outputs have ended; 255 if it is
     * unknown. */
    int (*code)(cl_route *route);
    void (*close)(cl_route *route);
} cl_way;

extern const cl_way cl_way_ssh, cl_way_command, cl_way_shell;

#endif
