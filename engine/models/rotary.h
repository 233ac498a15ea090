/* rotary.h - reads the rotary position settings of a config.json, in the old spelling (rope_theta, rope_scaling) and
 * the new one (rope_parameters). */
#ifndef CE_MODELS_ROTARY_H
#define CE_MODELS_ROTARY_H

#include "json/keys.h"
#include "cspeed/layer.h"

typedef struct {
    int64_t width;      /* width of a head */
    int64_t positions;  /* value of max_position_embeddings */
    double theta;       /* rope_theta, which belongs to the old spelling */
    json_t *scaling;    /* object rope_scaling, or NULL; it takes precedence unless it is empty, as in transformers */
    json_t *parameters; /* object rope_parameters, or NULL */
    double partial;     /* default of partial_rotary_factor; 0 if models of this type rotate whole heads */
    /* value of original_max_position_embeddings at the top level of config.json. If it is 0, the key of the same name
     * in the object `parameters` or `scaling` is read; without this key, the value is `positions`. */
    int64_t original;
    bool ntk_alpha; /* true: with rope_type "dynamic", "alpha" enlarges theta (Hunyuan) */
} ce_rotary_input;

/* Reads the settings. Faults are added to doc; `path` is the path in doc of the object with the keys of config.json. */
void ce_rotary_read(cs_rope_sizes *sizes, const ce_rotary_input *input, ce_json *doc, const char *path);

#endif
