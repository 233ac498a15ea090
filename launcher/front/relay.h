/* relay.h - a node of a --no_ssh job that is not the first: its agent, its console, and the front on another host.
 *
 * The relay stands between the agent, a child of its own, and the front, whom it has called (lobby.h). What the node's
 * ranks print is shown here; everything else passes through. When either side is lost, the node ends. */
#ifndef CL_RELAY_H
#define CL_RELAY_H

#include "node/guard.h"
#include "plan/hostplan.h"

/* The exit code: what the front says the job's is, or CL_CODE_PEER when the front was lost. */
int cl_relay_run(cl_plan *plan, const cl_guard *guard);

#endif
