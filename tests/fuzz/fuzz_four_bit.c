/* fuzz_four_bit.c - reads any bytes as the state of a 4-bit weight of bitsandbytes: it is refused with a message, or it
 * describes a matrix whose blocks are whole. */
#include "base/must.h"
#include "interchange/four_bit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ce_four_bit_facts facts;
    if (ce_four_bit_parse(&facts, (const char *)data, size, "state") != CS_OK)
        return 0;
    CE_ASSERT(facts.type == CE_NF4 || facts.type == CE_FP4);
    CE_ASSERT(facts.rows > 0 && facts.columns > 0 && facts.columns % 2 == 0);
    CE_ASSERT(facts.rows * facts.columns % CE_FOUR_BIT_BLOCK == 0);
    return 0;
}
