/* rotary.h - how a config.json says what a model's rotary positions are, in its old spelling and its new one. */
#ifndef CS_MODELS_ROTARY_H
#define CS_MODELS_ROTARY_H

#include "base/keys.h"
#include "cspeed/layer.h"

typedef struct {
    int64_t width;      /* of a head                                          */
    int64_t positions;  /* max_position_embeddings                            */
    double theta;       /* rope_theta of the old spelling                     */
    json_t *scaling;    /* rope_scaling, or NULL                              */
    json_t *parameters; /* rope_parameters, or NULL: it wins, as it does there */
} cs_rotary_input;

/* Faults go to doc, below `path`. */
void cs_rotary_read(cs_rope_sizes *sizes, const cs_rotary_input *input, cs_json *doc, const char *path);

#endif
