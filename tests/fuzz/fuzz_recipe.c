/* fuzz_recipe.c - reads any bytes as a recipe, as YAML and as a command line, and converts it: nothing crashes, no key
 * disappears, and the configuration is JSON. */
#include "recipe/recipe.h"
#include "base/status.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void convert(json_t *from)
{
    cl_recipe recipe;
    cl_recipe_convert(&recipe, from, ".");
    char *text = json_dumps(recipe.config, 0);
    if (!text || !recipe.flags)
        abort();
    free(text);
    cl_recipe_free(&recipe);
    json_decref(from);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *from;
    char *text = malloc(size + 1);
    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = 0;
    if (cl_recipe_read_yaml(&from, text, size, "fuzz") == CS_OK)
        convert(from);
    if (cl_recipe_read_line(&from, text, "fuzz") == CS_OK)
        convert(from);
    ce_clear_error();
    free(text);
    return 0;
}
