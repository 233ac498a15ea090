/* layers.c - which layers of a model with Llama's block have an attention window, and which rotary positions they have. */
#include "models/layers.h"
#include "models/rotary.h"

#include <string.h>

static void check_rope_layers(const json_t *list, int64_t layers, const ce_family_input *input)
{
    size_t index;
    json_t *rotated;
    bool good = !list || json_is_null(list) || (json_is_array(list) && (int64_t)json_array_size(list) >= layers);
    json_array_foreach (list, index, rotated) {
        good &= json_is_integer(rotated);
    }
    if (!good)
        ce_json_fault(input->doc, input->path, "no_rope_layers must be a list with 0 or 1 for each of %lld layers",
                      (long long)layers);
}

/* Returns the type of layer i in the list layer_types, or NULL if there is no such list. */
static const char *type_of(const ce_llama_sizes *s, int64_t i, const ce_family_input *input)
{
    const char *type = json_string_value(json_array_get(s->layer_types, (size_t)i));
    if (s->layer_types && (!type || (strcmp(type, "full_attention") != 0 && strcmp(type, "sliding_attention") != 0)))
        ce_json_fault(input->doc, input->path, "layer_types[%lld] is neither full_attention nor sliding_attention",
                      (long long)i);
    return type;
}

/* True if layer i rotates q and k, in a model whose list no_rope_layers or whose interval says so. */
static bool is_rotated(const ce_llama_sizes *s, int64_t i)
{
    if (json_is_array(s->rope_layers))
        return json_integer_value(json_array_get(s->rope_layers, (size_t)i)) != 0;
    return (i + 1) % s->rope_interval != 0;
}

/* True if layer i has a window in a model whose layers may differ. The list layer_types decides; without this list the
 * rule of traits->window does. */
static bool is_local(const ce_llama_sizes *s, const ce_llama_traits *traits, int64_t i, const ce_family_input *input)
{
    const char *type = type_of(s, i, input);
    if (type)
        return strcmp(type, "sliding_attention") == 0;
    switch (traits->window) {
    case CE_WINDOW_BY_LAYER:
        return (i + 1) % s->period != 0;
    case CE_WINDOW_BEFORE:
        return i % 2 == 0 && i < s->window_from;
    case CE_WINDOW_ALL_IF_ASKED:
        return true;
    case CE_WINDOW_UNROTATED:
        return !is_rotated(s, i);
    default:
        return i >= s->window_from;
    }
}

int64_t ce_layers_window(const ce_llama_sizes *s, const ce_llama_traits *traits, int64_t i,
                         const ce_family_input *input)
{
    const char *type = json_string_value(json_array_get(s->layer_types, (size_t)i));
    bool wanted = is_local(s, traits, i, input);
    if (traits->window == CE_WINDOW_BY_LAYER)
        return wanted ? s->window : 0;
    if (traits->window >= CE_WINDOW_IF_ASKED)
        return s->windowed && wanted ? s->window : 0;
    if (type && wanted != (s->window > 0))
        ce_json_fault(input->doc, input->path,
                      "not supported: layer_types[%lld] \"%s\", because all layers of this model_type %s", (long long)i,
                      type, s->window > 0 ? "see sliding_window rows" : "see all rows before them");
    return s->window;
}

void ce_layers_read_ropes(cs_rope_sizes ropes[CE_LAYERS_ROPES], const ce_llama_sizes *s, const ce_llama_traits *traits,
                          const ce_family_input *input)
{
    check_rope_layers(s->rope_layers, s->layers, input);
    ce_rotary_input all = { .width = s->head,
                            .positions = s->positions,
                            .theta = s->theta,
                            .scaling = s->scaling,
                            .parameters = s->rotary,
                            .partial = s->partial > 0 ? s->partial : traits->partial,
                            .original = s->original,
                            .ntk_alpha = traits->ntk_alpha };
    if (!traits->two_ropes) {
        ce_rotary_read(&ropes[CE_LAYERS_FULL], &all, input->doc, input->path);
        ropes[CE_LAYERS_FULL].adjacent = traits->adjacent;
        ropes[CE_LAYERS_LOCAL] = ropes[CE_LAYERS_FULL];
        if (traits->fused && ropes[CE_LAYERS_FULL].kind != CS_ROPE_PLAIN && ropes[CE_LAYERS_FULL].kind != CS_ROPE_LONG)
            ce_json_fault(input->doc, input->path,
                          "not supported: this rope_type, because Phi-3 has only \"longrope\"");
        return;
    }
    ce_rotary_input local = all;
    local.theta = s->local_theta > 0 ? s->local_theta : traits->local_theta;
    local.scaling = NULL;
    all.parameters = json_object_get(s->rotary, "full_attention");
    local.parameters = json_object_get(s->rotary, "sliding_attention");
    if (s->rotary && json_object_size(s->rotary) != (size_t)(!!all.parameters + !!local.parameters))
        ce_json_fault(input->doc, input->path,
                      "rope_parameters must be an object of \"full_attention\" and \"sliding_attention\"");
    /* Transformers writes the keys of rope_scaling over those of "full_attention". */
    json_t *both = all.parameters && json_object_size(s->scaling) > 0 ? json_copy(all.parameters) : NULL;
    if (both) {
        json_object_update(both, s->scaling);
        all.parameters = both;
        all.scaling = NULL;
        ce_json_warn(input->doc, input->path,
                     "rope_scaling overrides the same keys of rope_parameters.full_attention, as in transformers");
    }
    ce_rotary_read(&ropes[CE_LAYERS_FULL], &all, input->doc, input->path);
    ce_rotary_read(&ropes[CE_LAYERS_LOCAL], &local, input->doc, input->path);
    json_decref(both);
}

int ce_layers_rope(const ce_llama_sizes *s, const ce_llama_traits *traits, int64_t i, const ce_family_input *input)
{
    bool local = is_local(s, traits, i, input);
    if (traits->rotated == CE_ROPE_LISTED && !is_rotated(s, i))
        return CE_LAYERS_NONE;
    if (traits->rotated == CE_ROPE_IN_WINDOWS && !local)
        return CE_LAYERS_NONE;
    return local ? CE_LAYERS_LOCAL : CE_LAYERS_FULL;
}
