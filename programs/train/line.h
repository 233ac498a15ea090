/* line.h - the command line of train. The program reads it, and so does the launcher before it begins a job. */
#ifndef TRAIN_LINE_H
#define TRAIN_LINE_H

#include "cspeed/cspeed.h"
#include "cspeed/options.h"

/* An option of the command line that sets a key of the configuration, and the value given to the option. */
typedef struct {
    const cs_option *flag;
    const char *value;
} train_override;

typedef struct {
    const char *config, *plan; /* plan is NULL if --plan is not given */
    bool lenient, fresh, force_output, steps_given;
    /* for the plan: the number of all ranks, and the number of ranks on each host */
    int64_t world_size, local_size;
    /* the options in the order of the command line: if two options set the same key, the later option counts; the
     * caller frees the list */
    train_override *overrides;
    int override_count;
} train_line;

/* Reads the NULL-terminated arguments of train, without the program's name. Ends the process after options such as
 * --help. Returns 0, or CS_OPTIONS_WRONG with a sentence in cs_error(). */
int train_line_read(train_line *line, char **arguments);

/* Opens the configuration and sets the keys that the options name. The caller closes *config, also after an error. */
cs_status train_line_open(const train_line *line, cs_config **config);

/* Returns an error if the resolved configuration names no training data. */
cs_status train_line_need_data(const cs_config *config);

#endif
