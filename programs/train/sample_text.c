/* sample_text.c - prints a sample of generated text at the end of a training. */
#include "train.h"

#include <ctype.h>

enum { WINDOW = 128, TOKENS = 500 };

/* Prints a sample only if the tokens are bytes and the training data has no conversations. A model that was trained on
 * conversations needs a prompt, and a sample has none. The program `generate` prints text of the other models. */
void sample_text_print(cs_engine *engine, const cs_config *config)
{
    cs_sampling how = { .temperature = 0.8, .top_p = 1, .seed = cs_config_get_int(config, "cspeed.seed") };
    int64_t window = cs_config_get_int(config, "cspeed.data.seq_len");
    int32_t tokens[TOKENS] = { '\n' };
    if (cs_worker(engine) < 0 || cs_vocabulary(engine) != 256 || cs_config_get_string(config, "cspeed.data.template"))
        return;
    window = window > WINDOW ? WINDOW : window;
    say("\na sample:\n");
    for (int64_t count = 1; count < TOKENS; count++) {
        int64_t from = count > window ? count - window : 0;
        cs_batch batch = { .inputs = cs_matrix(tokens + from, CS_I32, 1, count - from) };
        cs_tensor logits;
        CS_MUST(cs_predict(engine, &batch, &logits));
        tokens[count] = cs_sample(logits, &how, 0, count);
        if (is_rank_zero()) {
            putchar(isprint(tokens[count]) || tokens[count] == '\n' ? tokens[count] : '?');
            fflush(stdout);
        }
    }
    say("\n");
}
