/* rotary.h - reads the rotary position settings of a config.json, in the old spelling (rope_theta, rope_scaling) and
 * the new one (rope_parameters). */
#ifndef CS_MODELS_ROTARY_H
#define CS_MODELS_ROTARY_H

#include "base/keys.h"
#include "cspeed/layer.h"

typedef struct {
    int64_t width;      /* width of a head */
    int64_t positions;  /* max_position_embeddings                            */
    double theta;       /* rope_theta, of the old spelling */
    json_t *scaling;    /* rope_scaling, or NULL                              */
    json_t *parameters; /* rope_parameters, or NULL; takes precedence, as in transformers */
    double partial;     /* the default of partial_rotary_factor; 0: in models of this type whole heads are rotated */
    int64_t original;   /* original_max_position_embeddings of the model itself; 0: that of the rope object */
} ce_rotary_input;

/* Faults are added to doc, with `path` in front. */
void ce_rotary_read(cs_rope_sizes *sizes, const ce_rotary_input *input, ce_json *doc, const char *path);

#endif
