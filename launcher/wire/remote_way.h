/* remote_way.h - how a carrier reaches a host: by libssh, or by a command that it starts (--ssh_cmd; sh, for this
 * machine).
 *
 * A way is opened once in a process of its own and may block until the remote command line has been started; after
 * that nothing blocks. */
#ifndef CS_LAUNCHER_REMOTE_WAY_H
#define CS_LAUNCHER_REMOTE_WAY_H

#include "plan/hosts.h"
#include "wire/link.h"

#include <poll.h>

enum { CS_WAY_POLLED = 3 };
enum { CS_WAY_LATER = 0, CS_WAY_ENDED = -1 };

typedef struct {
    const cs_host    *host;
    const cs_options *options;
    const char       *command; /* the command line, for the host's shell */
    cs_link          *news;    /* takes CS_LINK_SAY frames               */
    void             *state;   /* the way's own                          */
} cs_route;

typedef struct {
    /* Connects, logs in and starts the command. 0, or a code and a sentence; close is called in either case. */
    int (*open)(cs_route *route);
    /* What to wait for; returns how many entries it has filled. `reading`, `writing`: what is wanted next. */
    int (*poll)(cs_route *route, bool reading, bool writing, struct pollfd *polled);
    /* Bytes of stdout (which 0) or stderr (1), CS_WAY_LATER or CS_WAY_ENDED. */
    ssize_t (*read)(cs_route *route, int which, char *bytes, size_t room);
    /* How many were taken; CS_WAY_LATER when none can be now, CS_WAY_ENDED when nobody reads them any more. */
    ssize_t (*write)(cs_route *route, const char *bytes, size_t count);
    /* Nothing more will be written. */
    void (*end_input)(cs_route *route);
    /* The command's exit code, 128 + N for signal N, once both outputs have ended; 255 when it is not known. */
    int (*code)(cs_route *route);
    void (*close)(cs_route *route);
} cs_way;

extern const cs_way cs_way_ssh, cs_way_command, cs_way_shell;

#endif
