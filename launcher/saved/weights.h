/* weights.h - what the commands that write a folder of weights have in common: export and import. */
#ifndef CL_WEIGHTS_H
#define CL_WEIGHTS_H

#include "interchange/source.h"

typedef struct {
    const char *command; /* its name, for messages */
    bool takes_tag;
    const char *from, *to, *tag;
    cs_dtype dtype;
    bool typed; /* --dtype was given */
    int64_t max_shard;
} cl_weights_request;

/* Fills what the command line says. 0, or CL_CODE_USAGE with a sentence. */
int cl_weights_read(cl_weights_request *request, char **arguments);
void cl_weights_report(const cl_weights_request *request, const cs_source *source);

#endif
