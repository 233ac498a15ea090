/* fuzz_config.c - any bytes as a configuration: a sentence or a resolved struct, never a crash; and what is accepted is
 * stable.
 *
 * Bytes behind the first NUL are overrides, one a line. */
#include "base/must.h"
#include "config/config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static cs_config *make(const char *text, size_t length)
{
    cs_json *doc;
    if (cs_json_parse(&doc, text, length, "fuzz.json") != CS_OK) {
        CS_ASSERT(*cs_error());
        return NULL;
    }
    cs_config *config = calloc(1, sizeof *config);
    CS_ASSERT(config);
    config->doc = doc;
    return config;
}

static void set_all(cs_config *config, char *lines)
{
    for (char *line = strtok(lines, "\n"); line; line = strtok(NULL, "\n"))
        if (cs_config_set(config, line) != CS_OK)
            CS_ASSERT(*cs_error());
}

/* A resolved configuration, read again, is accepted and resolves to itself. */
static void check_again(const cs_config *config)
{
    cs_config *again = make(config->text, strlen(config->text));
    CS_ASSERT(again);
    CS_ASSERT(cs_config_finish(again) == CS_OK);
    CS_ASSERT(strcmp(again->text, config->text) == 0);
    cs_config_close(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = calloc(size + 1, 1);
    CS_ASSERT(copy);
    memcpy(copy, data, size);
    json_decref(cs_json_strict(copy, size));
    const char *split  = memchr(copy, 0, size);
    cs_config  *config = make(copy, split ? (size_t)(split - copy) : size);
    if (config) {
        if (split)
            set_all(config, copy + (split - copy) + 1);
        if (cs_config_finish(config) == CS_OK)
            check_again(config);
        else
            CS_ASSERT(*cs_error());
    }
    cs_config_close(config);
    free(copy);
    return 0;
}
