/* ports.h - free TCP ports for tests that must choose a port before a process listens on it. */
#ifndef CS_TESTS_PORTS_H
#define CS_TESTS_PORTS_H

/* Returns a port that is free at this address. It is never an ephemeral port of the kernel, so no connection of another
 * test takes it before it is used. Every test program begins its search at a different port. */
int ports_free(const char *address);

#endif
