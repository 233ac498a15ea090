/* mesh.h - the device mesh of a job: which ranks divide the layers of the model, by the program's arguments. */
#ifndef CL_PLAN_MESH_H
#define CL_PLAN_MESH_H

#include "mesh/mesh.h"
#include "plan/hostplan.h"

/* Returns the number of ranks of a tensor-parallel group, which the file of --config gives, or the options --tp and
 * --set of `train`, `eval` and `generate`. arguments[0] is the program. Returns 1 if they give none, or if they cannot be
 * read; the program reports what is wrong with them. */
int cl_mesh_tp(char **arguments);

/* Returns the mesh of the plan, as rank 0 sees it. All sizes are 0 if the program is none of cspeed's and names no
 * configuration, or if the configuration is wrong. */
ce_mesh cl_mesh_find(const cl_plan *plan);

/* Returns a sentence that names the hosts over which tensor-parallel groups of the plan extend, malloc'ed; NULL: each
 * group is on one host. */
char *cl_mesh_warning(const cl_plan *plan);

/* Prints the place of each rank on the axes of the mesh, if there is more than one axis, and the warning. */
void cl_mesh_print(const cl_plan *plan);

#endif
