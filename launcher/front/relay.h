/* relay.h - the relay: the launcher process on each node of a --no_ssh job except the first node.
 *
 * The relay passes messages between the agent of its node, which is its child process, and the front process on the
 * first node, to which the relay has connected (rendezvous.h). The relay shows the output of this node's ranks on its
 * own console and forwards everything else. If one of the two connections is lost, the node ends its part of the job.
 */
#ifndef CL_RELAY_H
#define CL_RELAY_H

#include "node/guard.h"
#include "plan/hostplan.h"

/* Runs the relay until the job ends. Returns the exit code of the job as the front process reports it; returns
 * CL_CODE_PEER if the connection to the front process was lost. */
int cl_relay_run(cl_plan *plan, const cl_guard *guard);

#endif
