/* command_names.h - the names of the commands, in the order in which the help lists them. The agent of a node needs no
 * more of a command than its name, for the message about a misspelt one. */
#ifndef CL_COMMAND_NAMES_H
#define CL_COMMAND_NAMES_H

/* clang-format off */
#define CL_COMMAND_NAMES(X) \
    X(train) X(run) X(launch) X(plan) X(check) X(env) X(report) X(ssh) X(ps) X(status) X(logs) X(stop) \
    X(clean) X(config) X(lr) X(plot) X(bench) X(elastic) X(inspect) X(verify) X(diff) X(export) \
    X(import) X(add_tokens) X(import_recipe) X(pack) X(generate) X(eval) X(help) X(completion) X(version)
/* clang-format on */

#endif
