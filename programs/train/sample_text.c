/* sample_text.c - prints a sample of generated text at the end of a training. */
#include "train.h"

#include <ctype.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 128, TOKENS = 240 };

/* Returns the folder of this program with a slash at its end, as a user would type it; empty if it is the current
 * folder or not known. */
static const char *find_folder(char *program, size_t room)
{
    char here[4096];
    ssize_t length = readlink("/proc/self/exe", program, room - 1);
    program[length > 0 ? length : 0] = 0;
    char *slash = strrchr(program, '/');
    if (slash)
        slash[1] = 0;
    if (!getcwd(here, sizeof here) || strncmp(program, here, strlen(here)) != 0 || program[strlen(here)] != '/')
        return program;
    return program + strlen(here) + 1;
}

/* Prints a sample only for a vocabulary of bytes; for others, the program `generate` exists. */
void sample_text_print(cs_engine *engine, const cs_config *config)
{
    cs_sampling how = { .temperature = 0.8, .top_p = 1, .seed = cs_config_get_int(config, "cspeed.seed") };
    int64_t window = cs_config_get_int(config, "cspeed.data.seq_len");
    int32_t tokens[TOKENS] = { '\n' };
    char program[4096];
    if (cs_vocabulary(engine) != 256)
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
    say("\n\n`%sgenerate %s --prompt TEXT` goes on with a text of yours", find_folder(program, sizeof program),
        cs_config_get_string(config, "cspeed.output"));
}
