/* four_bit.h - 4-bit weights (base/four_bit.h) in a source of tensors.
 *
 * A folder of bitsandbytes has for the weight W the tensors W (the codes), W.absmax, W.quant_map, with double quantisation
 * W.nested_absmax and W.nested_quant_map, and W.quant_state.bitsandbytes__nf4: JSON, as bytes. A checkpoint has W,
 * W.nf4.absmax and W.nf4.nested_absmax, all as bytes; the last ends with the offset. */
#ifndef CE_INTERCHANGE_FOUR_BIT_H
#define CE_INTERCHANGE_FOUR_BIT_H

#include "base/four_bit.h"
#include "interchange/source.h"

typedef struct {
    ce_four_bit_type type;
    int64_t rows, columns;
    bool twice;   /* the absmax are quantised too */
    float offset; /* of a folder of bitsandbytes */
} ce_four_bit_facts;

/* The arrays of a weight, as bytes, in the layout of ce_four_bit_weight (unit/unit.h). */
typedef enum { CE_FOUR_BIT_CODES, CE_FOUR_BIT_ABSMAX, CE_FOUR_BIT_NESTED, CE_FOUR_BIT_ARRAYS } ce_four_bit_array;

/* If the source has 4-bit weights, replaces *source by a source in which each of them is one matrix of numbers. After a
 * failure the caller closes *source. */
cs_status ce_four_bit_open(ce_source *source);
/* Returns the source that ce_four_bit_open was given. */
const ce_source *ce_four_bit_inner(const ce_source *source);
/* Returns NULL if the tensor has no 4 bits. */
const ce_four_bit_facts *ce_four_bit_of(const ce_source *source, int64_t tensor);
/* Reads bytes of an array of a 4-bit weight. `range` begins and ends at multiples of four bytes. */
cs_status ce_four_bit_read(ce_source *source, int64_t tensor, ce_four_bit_array array, ce_range range, void *to);
/* True if the quantization_config of a config.json describes 4-bit weights of bitsandbytes. */
bool ce_four_bit_is_described(const json_t *config);
/* Reads the JSON text of a quantisation state of bitsandbytes. `name` is used in messages. */
cs_status ce_four_bit_parse(ce_four_bit_facts *facts, const char *text, size_t length, const char *name);

#endif
