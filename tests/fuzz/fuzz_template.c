/* fuzz_template.c - compiles any bytes as a chat template and renders it: text comes out, or a message, without a crash
 * and in bounded time. */
#include "base/must.h"
#include "jinja/jinja.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ce_jinja *compiled;
    ce_jinja_output output = { 0 };
    if (ce_jinja_compile(&compiled, (const char *)data, size) != CS_OK)
        return 0;
    json_t *variables = json_pack("{s:[{s:s, s:s}, {s:s, s:n}], s:{s:i, s:f}, s:b, s:s}", "messages", "role", "user",
                                  "content", "a b\n", "role", "assistant", "content", "tools", "a", 1, "b", 0.5,
                                  "add_generation_prompt", 1, "bos_token", "<s>");
    if (ce_jinja_render(compiled, variables, 0, &output) == CS_OK)
        CE_ASSERT(ce_unicode_valid(output.text.bytes, output.text.size) == output.text.size);
    for (size_t i = 0; i < output.count; i++)
        CE_ASSERT(output.generated[i].from <= output.generated[i].to);
    ce_jinja_output_free(&output);
    json_decref(variables);
    ce_jinja_free(compiled);
    return 0;
}
