/* fuzz_options.c - a command line of any bytes, split at line feeds, for every kind of option: nothing may crash, a
 * number is within its limits, and a refusal has a message. */
#include "cspeed/options.h"

#include "base/status.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
    bool on;
    int64_t count;
    double share;
    const char *text, *optional;
    int choice;
    cs_option_list items;
} settings;

static const cs_option table[] = {
    { CS_OPTION(SWITCH, "switch_it s", settings, on, NULL, "") },
    { CS_OPTION(WHOLE, "count n", settings, count, "N", ""), .min = 1, .max = 1e9 },
    { CS_OPTION(NUMBER, "share", settings, share, "X", ""), .max = 0.5 },
    { CS_OPTION(TEXT, "text", settings, text, "T", "") },
    { CS_OPTION(OPTIONAL, "optional", settings, optional, "T", "") },
    { CS_OPTION(CHOICE, "choice", settings, choice, "one|two", "") },
    { CS_OPTION(LIST, "item", settings, items, "T", "") },
    { .names = "refused", .kind = CS_OPTION_REFUSED, .value = "0|off", .text = "" },
};

enum { MAX_WORDS = 512 };

static void read_once(char *text, bool stops)
{
    char *words[MAX_WORDS + 1], **at = words;
    int count = 0;
    for (char *rest, *word = strtok_r(text, "\n", &rest); word && count < MAX_WORDS; word = strtok_r(NULL, "\n", &rest))
        words[count++] = word;
    words[count] = NULL;
    const cs_options_form form = { .what = "flag", .hint = "", CS_OPTIONS_TABLE(table), .max = -1, .stops = stops };
    settings s = { .count = 1 };
    ce_clear_error();
    int code = cs_options_read(&form, &s, &at);
    if (code != 0 ? code != CS_OPTIONS_WRONG || !*cs_error()
                  : s.count < 1 || s.count > 1000000000 || !(s.share >= 0 && s.share <= 0.5) || s.choice < 0 ||
                        s.choice > 1 || (s.text && !*s.text) || s.items.count > CS_OPTION_REPEATS)
        abort();
    for (; code == 0 && *at; at++)
        if (at > words + count)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int stops = 0; stops < 2; stops++) {
        char *text = malloc(size + 1);
        if (!text)
            return 0;
        memcpy(text, data, size);
        text[size] = '\0';
        read_once(text, stops);
        free(text);
    }
    return 0;
}
