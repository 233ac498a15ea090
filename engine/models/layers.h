/* layers.h - the differences between the layers of a model with Llama's block: windows and rotary positions. */
#ifndef CE_MODELS_LAYERS_H
#define CE_MODELS_LAYERS_H

#include "models/llama.h"

/* The rotary positions that layers may have: those of layers without a window, those of layers with a window, and none. */
enum { CE_LAYERS_FULL, CE_LAYERS_LOCAL, CE_LAYERS_NONE, CE_LAYERS_ROPES };

/* Reads the rotary positions. ropes[CE_LAYERS_NONE] is not changed. */
void ce_layers_read_ropes(cs_rope_sizes ropes[CE_LAYERS_ROPES], const ce_llama_sizes *s, const ce_llama_traits *traits,
                          const ce_family_input *input);
/* Returns which of them layer i has. */
int ce_layers_rope(const ce_llama_sizes *s, const ce_llama_traits *traits, int64_t i, const ce_family_input *input);
/* Returns the attention window of layer i, or 0 if the layer has none. If all layers of a family have the same type, the
 * list layer_types must contain that type only. */
int64_t ce_layers_window(const ce_llama_sizes *s, const ce_llama_traits *traits, int64_t i,
                         const ce_family_input *input);

#endif
