/* ports.h - free TCP ports for tests that must choose a port before a process listens on it. */
#ifndef CS_TESTS_PORTS_H
#define CS_TESTS_PORTS_H

/* Returns a port that is free at this address. The range excludes the kernel's ephemeral ports, so that no connection
 * of another test takes the port before it is used. Every test program starts at a different port. */
int ports_free(const char *address);

#endif
