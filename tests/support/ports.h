/* ports.h - TCP ports for tests that must name one before somebody listens there. */
#ifndef CS_TESTS_PORTS_H
#define CS_TESTS_PORTS_H

/* A port that is free at this address. The kernel gives none of these to sockets that ask for any, so that no
 * connection of another test takes it before it is used; another test program begins elsewhere. */
int ports_free(const char *address);

#endif
