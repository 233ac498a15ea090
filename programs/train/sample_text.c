/* sample_text.c - prints a sample of generated text at the end of a training. */
#include "base/must.h"
#include "train.h"
#include "text/unicode.h"

enum { TOKENS = 500 };

/* Prints bytes as text: U+FFFD replaces what is not UTF-8, and control characters that could change the terminal. */
static void print_bytes(const char *bytes, size_t count)
{
    CE_CLOSED(ce_unicode_free) ce_text repaired = { 0 };
    CE_CLOSED(ce_unicode_free) ce_text shown = { 0 };
    ce_unicode_repair(&repaired, bytes, count);
    for (size_t at = 0, width; at < repaired.size; at += width) {
        int32_t point = ce_unicode_point(repaired.bytes, repaired.size, at, &width);
        bool shows = point == '\n' || point == '\t' || !ce_unicode_is_control(point);
        ce_unicode_append_point(&shown, shows ? point : 0xfffd);
    }
    say("\na sample:\n%.*s\n", (int)shown.size, shown.bytes);
}

/* Prints a sample only if the tokens are bytes and the training data has no conversations. A model that was trained on
 * conversations needs a prompt, and a sample has none. The program `generate` prints text of the other models. The
 * model predicts from at most seq_len tokens, as in training. */
void sample_text_print(cs_engine *engine, const cs_config *config)
{
    const cs_generation_options how = {
        .sampling = { .temperature = 0.8, .top_p = 1, .seed = cs_config_get_int(config, "cspeed.seed") },
        .max = TOKENS,
        .positions = cs_config_get_int(config, "cspeed.data.seq_len")
    };
    cs_generation *generation;
    char bytes[TOKENS];
    if (cs_vocabulary(engine) != 256 || cs_config_get_string(config, "cspeed.data.template"))
        return;
    CS_MUST(cs_generation_open(&generation, engine, &(int32_t){ '\n' }, 1, &how));
    for (int i = 0; i < TOKENS; i++) {
        int32_t token;
        CS_MUST(cs_generations_next(&generation, 1, &token));
        bytes[i] = (char)token;
    }
    cs_generation_close(generation);
    print_bytes(bytes, TOKENS);
}
