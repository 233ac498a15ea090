/* test_quickstart.c - what ./quickstart trains: its validation loss, and the share of words in its sample that are
 * words of the training text. ./quickstart trains for at most three minutes. This test always trains as many steps as
 * two idle cores train in two minutes. Its result therefore does not depend on the speed of the machine. */
#include "shell.h"
#include "suite.h"

#include <ctype.h>
#include <stdio.h>
#include <unistd.h>

#define FORTUNES "/usr/share/games/fortunes"

enum { STEPS = 1650, SHORTEST = 3, MIN_WORDS = 20 };

static const double max_loss = 1.9, min_share = 0.6;

/* Returns the next word of at least SHORTEST letters, or NULL; *length receives its length. */
static const char *next_word(const char *text, int *length)
{
    for (; *text; text += *length) {
        for (*length = 0; isalpha((unsigned char)text[*length]);)
            ++*length;
        if (*length >= SHORTEST)
            return text;
        *length += *length == 0;
    }
    return NULL;
}

static bool has_word(const char *text, const char *word, int length)
{
    char wanted[512];
    snprintf(wanted, sizeof wanted, "%.*s", length, word);
    for (const char *at = text; (at = strcasestr(at, wanted)); at++)
        if ((at == text || !isalpha((unsigned char)at[-1])) && !isalpha((unsigned char)at[length]))
            return true;
    return false;
}

START_TEST(the_sample_is_made_of_words)
{
    if (access(FORTUNES "/fortunes", R_OK) != 0) {
        printf("not run: the package fortunes is not installed\n");
        return;
    }
    shell_enter();
    ck_assert_int_eq(shell_run("find " FORTUNES " -type f ! -name '*.*' ! -name ascii-art | LC_ALL=C sort > names && "
                               "tr '\\n' '\\0' < names | xargs -0 cat > text && tr '\\n' '\\0' < names | "
                               "xargs -0 " CS_BIN "/pack --output data/quickstart --seq_len 128 --separator %% --"),
                     0);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed --num_gpus 2 train --config " CS_SOURCE
                                      "/configs/quickstart.json --steps %d",
                               STEPS),
                     0);
    char *out = shell_read("out.txt", NULL), *text = shell_read("text", NULL), *loss = NULL;
    for (char *at = out; (at = strstr(at, "valid loss ")); at++)
        loss = at;
    ck_assert_ptr_nonnull(loss);
    char *sample = strstr(out, "a sample:"), *end = sample ? strstr(sample, "the training is in ") : NULL;
    ck_assert(sample && end);
    *end = '\0';
    int words = 0, known = 0, length;
    for (const char *word = sample + strlen("a sample:"); (word = next_word(word, &length)); word += length) {
        words++;
        known += has_word(text, word, length);
    }
    printf("%s\nafter %d steps: %.17s; %d of %d words are in the text\n", sample, STEPS, loss, known, words);
    ck_assert_double_lt(strtod(loss + strlen("valid loss "), NULL), max_loss);
    ck_assert_int_ge(words, MIN_WORDS);
    ck_assert_double_ge((double)known / words, min_share);
    free(out);
    free(text);
    shell_leave();
}
END_TEST

SUITE_MAIN("quickstart", the_sample_is_made_of_words)
