/* relay.h - the relay: the launcher process on each node of a --no_ssh job except the first node.
 *
 * The relay passes messages between the agent, which is its child process, and the front process on the first node, to
 * which it has connected (rendezvous.h). It shows the output of this node's ranks on its own console and forwards
 * everything else. If either connection is lost, the node ends its part of the job. */
#ifndef CL_RELAY_H
#define CL_RELAY_H

#include "node/guard.h"
#include "plan/hostplan.h"

/* Returns the exit code of the job from the front process, or CL_CODE_PEER if the connection to it was lost. */
int cl_relay_run(cl_plan *plan, const cl_guard *guard);

#endif
