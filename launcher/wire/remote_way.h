/* remote_way.h - how a carrier reaches a host: by libssh, or by a command that it starts (--ssh_cmd; sh, for this
 * machine).
 *
 * A way is opened once in a process of its own and may block until the remote command line has been started; after
 * that nothing blocks. */
#ifndef CL_REMOTE_WAY_H
#define CL_REMOTE_WAY_H

#include "plan/hosts.h"
#include "wire/link.h"

#include <poll.h>

enum { CL_WAY_POLLED = 3 };
enum { CL_WAY_LATER = 0, CL_WAY_ENDED = -1 };

typedef struct {
    const cl_host *host;
    const cl_options *options;
    const char *command; /* the command line, for the host's shell */
    cl_link *news;       /* takes CL_LINK_SAY frames               */
    void *state;         /* the way's own                          */
} cl_route;

typedef struct {
    /* Connects, logs in and starts the command. 0, or a code and a sentence; close is called in either case. */
    int (*open)(cl_route *route);
    /* What to wait for; returns how many entries it has filled. `reading`, `writing`: what is wanted next. */
    int (*poll)(cl_route *route, bool reading, bool writing, struct pollfd *polled);
    /* Bytes of stdout (which 0) or stderr (1), CL_WAY_LATER or CL_WAY_ENDED. */
    ssize_t (*read)(cl_route *route, int which, char *bytes, size_t room);
    /* How many were taken; CL_WAY_LATER when none can be now, CL_WAY_ENDED when nobody reads them any more. */
    ssize_t (*write)(cl_route *route, const char *bytes, size_t count);
    /* Nothing more will be written. */
    void (*end_input)(cl_route *route);
    /* The command's exit code, 128 + N for signal N, once both outputs have ended; 255 when it is not known. */
    int (*code)(cl_route *route);
    void (*close)(cl_route *route);
} cl_way;

extern const cl_way cl_way_ssh, cl_way_command, cl_way_shell;

#endif
