/* weights.h - the command line that `cspeed export` and `cspeed import` have in common. Each of the two commands writes
 * a new folder of weights. */
#ifndef CL_WEIGHTS_H
#define CL_WEIGHTS_H

#include "interchange/source.h"

typedef struct {
    bool takes_tag; /* true: the command is `cspeed export`; false: it is `cspeed import` */
    const char *from, *to, *tag;
    const char *config; /* for `cspeed import` only: the configuration with which the training continues */
    cs_dtype dtype;
    bool typed;   /* true: --dtype was given */
    bool merge;   /* the flag --merge of `cspeed export` */
    bool ema;     /* the flag --ema of `cspeed export` */
    bool lenient; /* --lenient: keys of config.json that are unknown or not supported only warn */
    int64_t max_shard;
    const char *gguf; /* the value of --gguf of `cspeed export`, or NULL */
    bool formed;      /* true: --dtype or --max_shard was given */
} cl_weights_request;

/* Reads the command line into `request`. Returns 0, or CL_CODE_USAGE with a sentence in cs_error(). */
int cl_weights_read(cl_weights_request *request, char **arguments);

/* Prints the number of tensors and parameters that were written. */
void cl_weights_report(const cl_weights_request *request, const ce_source *source);

#endif
