/* fuzz_gguf.c - reads any bytes as a GGUF file: it is refused with a message, or each of its tensors lies in it. What
 * describes the model and its tokenizer is refused too, or becomes JSON. */
#include "base/must.h"
#include "gguf/describe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *made[4] = { NULL };
    ce_gguf_file file;
    if (ce_gguf_parse(&file, data, size, (int64_t)size, "input") != CS_OK)
        return 0;
    for (int64_t i = 0; i < file.count; i++) {
        const ce_gguf_tensor *tensor = &file.tensors[i];
        CE_ASSERT(tensor->offset >= 0 && tensor->bytes >= 0 && tensor->offset + tensor->bytes <= (int64_t)size);
    }
    if (ce_gguf_config(&made[0], &file, "input") == CS_OK)
        CE_ASSERT(json_is_object(made[0]));
    if (ce_gguf_vocabulary(&made[1], &made[2], &made[3], &file, "input") == CS_OK && made[1])
        CE_ASSERT(json_is_object(made[1]) && json_is_object(made[2]) && json_is_object(made[3]));
    for (int i = 0; i < 4; i++)
        json_decref(made[i]);
    ce_gguf_close(&file);
    return 0;
}
