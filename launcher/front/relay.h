/* relay.h - the relay: the launcher process on each node of a --no_ssh job except the first node.
 *
 * The relay connects to the front process on the first node (rendezvous.h). The agent of this node is a child process
 * of the relay. The relay shows the output of this node's ranks on its own console, and passes all other messages on
 * between the agent and the front process. If either connection is lost, the node ends its part of the job. */
#ifndef CL_RELAY_H
#define CL_RELAY_H

#include "node/guard.h"
#include "plan/hostplan.h"

/* Returns the exit code of the job from the front process, or CL_CODE_PEER if the connection to it was lost. */
int cl_relay_run(cl_plan *plan, const cl_guard *guard);

#endif
