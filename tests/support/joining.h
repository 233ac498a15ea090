/* joining.h - a front and nodes that join it, for tests of the rendezvous (wire/rendezvous.h). */
#ifndef CS_TESTS_JOINING_H
#define CS_TESTS_JOINING_H

#include "wire/rendezvous.h"

#include <stdbool.h>
#include <sys/types.h>

enum { JOINING_POLLED = 160 }; /* room for all descriptors of a rendezvous */

extern const char *const joining_secret;

/* A plan, and the structures that it points to, as far as the rendezvous uses them. */
typedef struct {
    cl_options options;
    cl_host host;
    cl_plan_node node;
    cl_plan plan;
} joining_site;

void joining_make(joining_site *s, const char *address, int port);
void joining_set_secret(const char *value); /* NULL: no secret */

bool joining_turn(cl_rendezvous *rendezvous,
                  cl_joined_node *node); /* one turn of its loop: whether a node has joined */
/* Serves the rendezvous until a node has joined (returns true) or a process of joining_start has ended (returns false).
 * `output` is that of the process. */
bool joining_serve(cl_rendezvous *rendezvous, cl_joined_node *node, int output);
/* Starts a process that joins as a node, receives a message and sends one back. *output receives a descriptor of its
 * stderr. */
pid_t joining_start(const joining_site *caller, int *output);
/* Waits for the end of a process of joining_start. Returns its exit code and writes its stderr to `text`. */
int joining_finish(pid_t pid, int output, char *text, size_t capacity);
/* Exchanges messages with a process of joining_start, as the front. */
void joining_exchange(const cl_joined_node *node);

int joining_connect(int port); /* returns a socket connected to a port of this machine */

#endif
