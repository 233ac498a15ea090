/* unix_socket.c - messages with file descriptors over a Unix socket (SCM_RIGHTS). */
#include "comm/shm/unix_socket.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAGIC = 0x43535031, BACKLOG = 128, DESCRIPTORS = 2 };

typedef union {
    struct cmsghdr header;
    char control[CMSG_SPACE(DESCRIPTORS * sizeof(int))];
} control;

/* Writes the abstract name of the socket, which begins with a zero byte. The returned length determines where it
 * ends. */
static socklen_t name_of(struct sockaddr_un *name, const cs_world *world)
{
    *name = (struct sockaddr_un){ .sun_family = AF_UNIX };
    int length = snprintf(name->sun_path + 1, sizeof name->sun_path - 1, "cspeed-%u-%d-%s", (unsigned)getuid(),
                          world->port, world->job);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static int give_up(int socket)
{
    int error = errno;
    close(socket);
    errno = error;
    return -1;
}

int ce_unix_socket_listen(const cs_world *world)
{
    struct sockaddr_un name;
    socklen_t length = name_of(&name, world);
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0)
        return -1;
    if (bind(made, (struct sockaddr *)&name, length) < 0 || listen(made, BACKLOG) < 0)
        return give_up(made);
    return made;
}

int ce_unix_socket_connect(const cs_world *world)
{
    struct sockaddr_un name;
    socklen_t length = name_of(&name, world);
    int made = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0)
        return -1;
    if (connect(made, (struct sockaddr *)&name, length) < 0)
        return give_up(made);
    return made;
}

bool ce_unix_socket_same_user(int socket)
{
    struct ucred other;
    socklen_t length = sizeof other;
    return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 && other.uid == getuid();
}

bool ce_unix_socket_send(int socket, const ce_unix_message *message, const ce_shm_handles *handles)
{
    ce_unix_message sent = *message;
    control extra = { 0 };
    struct iovec text = { &sent, offsetof(ce_unix_message, text) + strlen(message->text) + 1 };
    struct msghdr packet = { .msg_iov = &text, .msg_iovlen = 1 };
    sent.magic = MAGIC;
    if (handles) {
        int both[DESCRIPTORS] = { handles->memory, handles->life };
        packet.msg_control = &extra;
        packet.msg_controllen = sizeof extra;
        extra.header.cmsg_level = SOL_SOCKET;
        extra.header.cmsg_type = SCM_RIGHTS;
        extra.header.cmsg_len = CMSG_LEN(sizeof both);
        memcpy(CMSG_DATA(&extra.header), both, sizeof both);
    }
    ssize_t done;
    do {
        done = sendmsg(socket, &packet, MSG_NOSIGNAL);
    } while (done < 0 && errno == EINTR);
    return done >= 0;
}

bool ce_unix_socket_receive(int socket, ce_unix_message *message, ce_shm_handles *handles)
{
    control extra = { 0 };
    struct iovec text = { message, sizeof *message };
    struct msghdr packet = { .msg_iov = &text, .msg_iovlen = 1, .msg_control = &extra, .msg_controllen = sizeof extra };
    ssize_t done;
    *handles = (ce_shm_handles){ -1, -1 };
    memset(message, 0, sizeof *message);
    do {
        done = recvmsg(socket, &packet, MSG_CMSG_CLOEXEC);
    } while (done < 0 && errno == EINTR);
    struct cmsghdr *received = done > 0 ? CMSG_FIRSTHDR(&packet) : NULL;
    if (received && received->cmsg_type == SCM_RIGHTS && received->cmsg_len == CMSG_LEN(DESCRIPTORS * sizeof(int))) {
        int both[DESCRIPTORS];
        memcpy(both, CMSG_DATA(received), sizeof both);
        *handles = (ce_shm_handles){ both[0], both[1] };
    }
    message->text[sizeof message->text - 1] = 0;
    if (done >= (ssize_t)offsetof(ce_unix_message, text) && message->magic == MAGIC)
        return true;
    ce_unix_socket_drop(handles);
    return false;
}

void ce_unix_socket_drop(ce_shm_handles *handles)
{
    if (handles->memory >= 0)
        close(handles->memory);
    if (handles->life >= 0)
        close(handles->life);
    *handles = (ce_shm_handles){ -1, -1 };
}
