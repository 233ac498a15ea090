/* words.c - looks up words of other trainers, and prints the page of all of them. */
#include "config/words.h"
#include "base/must.h"
#include "base/underscored.h"
#include "config/config.h"
#include "config/listing.h"
#include "cspeed/cspeed.h"
#include "cspeed/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *ce_words_owner(char letter)
{
    static const char letters[] = "TSPCALMDYN";
    static const char *const owners[] = { "Trainer",       "TRL",      "PEFT",      "Accelerate", "axolotl",
                                          "LLaMA-Factory", "Megatron", "DeepSpeed", "PyTorch",    "torchtitan" };
    const char *at = letter ? strchr(letters, letter) : NULL;
    return at ? owners[at - letters] : NULL;
}

/* True if the row is a command and a command is looked up, or neither. */
static bool is_of_kind(const ce_word *word, bool command)
{
    return (word->kind == CE_WORD_COMMAND) == command;
}

const ce_word *ce_words_find(const char *name, bool command)
{
    char plain[CS_OPTION_BYTES], spelling[CS_OPTION_BYTES];
    snprintf(plain, sizeof plain, "%s", name);
    ce_underscored(plain);
    for (int i = 0; i < ce_words_count; i++)
        for (const char *place = ce_words[i].names; cs_options_name(&place, spelling);)
            if (strcmp(spelling, plain) == 0 && is_of_kind(&ce_words[i], command))
                return &ce_words[i];
    return NULL;
}

/* Writes the names of the trainers that have the word, as "Trainer, TRL and axolotl". */
static void write_owners(FILE *file, const char *of)
{
    for (const char *at = of; *at; at++)
        fprintf(file, "%s%s", at == of ? "" : at[1] ? ", " : " and ", ce_words_owner(*at));
}

/* Writes the keys of a row between `quote` characters, as "a, b or c". */
static void write_keys(FILE *file, const char *keys, const char *quote)
{
    char key[CS_OPTION_BYTES];
    const char *between = "";
    for (const char *place = keys; cs_options_name(&place, key); between = strchr(place, ' ') ? ", " : " or ")
        fprintf(file, "%s%s%s%s", between, quote, key, quote);
}

static void write_answer(FILE *file, const ce_word *word, const char *quote)
{
    if (word->kind == CE_WORD_UNNEEDED || word->kind == CE_WORD_REFUSED)
        fprintf(file, "not %s, because ", word->kind == CE_WORD_UNNEEDED ? "needed" : "supported");
    write_keys(file, word->key, quote);
    fprintf(file, *word->key && *word->text ? " (%s)" : "%s", word->text);
}

char *ce_words_say(const ce_word *word)
{
    char *text = NULL;
    size_t length;
    FILE *file = open_memstream(&text, &length);
    CE_ASSERT(file);
    fputs("a word of ", file);
    write_owners(file, word->of);
    fputs(word->kind == CE_WORD_KEY || word->kind == CE_WORD_COMMAND ? "; here it is " : ", ", file);
    write_answer(file, word, "");
    CE_ASSERT(fclose(file) == 0);
    return text;
}

/* Returns how the command line sets the key, or NULL if `key` is not one key of the configuration. */
static char *say_set(const char *key)
{
    char *text = NULL;
    if (*key && *key != '-' && !strchr(key, ' '))
        CE_ASSERT(asprintf(&text, "--set %s=VALUE", key) >= 0);
    return text;
}

char *cs_word_advice(const char *name, bool command)
{
    const ce_word *word = ce_words_find(name, command);
    char *place = word || command ? NULL : ce_listing_place(name), *said = word ? ce_words_say(word) : NULL;
    char *set = say_set(word ? word->key : place ? place : ""), *text = NULL;
    if (said && set)
        CE_ASSERT(asprintf(&text, "%s; %s sets it", said, set) >= 0);
    else if (set)
        CE_ASSERT(asprintf(&text, "a key of the configuration; %s sets it", set) >= 0);
    else
        text = said;
    if (text != said)
        free(said);
    free(set);
    free(place);
    return text;
}

static void print_row(const ce_word *word)
{
    char name[CS_OPTION_BYTES];
    const char *before = "| ";
    for (const char *place = word->names; cs_options_name(&place, name); before = ", ")
        printf("%s`%s`", before, name);
    printf(" | ");
    write_owners(stdout, word->of);
    printf(" | ");
    write_answer(stdout, word, "`");
    puts(" |");
}

void ce_words_page(void)
{
    puts(
        "# From Trainer, TRL, PEFT, Accelerate, axolotl, LLaMA-Factory and Megatron\n"
        "\n"
        "This page is the output of `cspeed config --words`. Each row has an argument, key, flag or command of another\n"
        "trainer (or several that have the same answer), the trainers that have at least one of them, and what takes\n"
        "its place: a key of the configuration ([Keys](keys.md)), a flag, or the reason why it is not needed or not\n"
        "supported. Dashes and underscores are equal. `cspeed config --explain WORD` prints one row, and the messages\n"
        "about unknown keys and flags have the same text. [DeepSpeed and PyTorch, row by row](row-by-row.md)\n"
        "has the commands, flags and calls of these two. `cspeed import-recipe FILE` converts a whole file or\n"
        "command line.");
    for (int i = 0; i < ce_words_count; i++)
        if (ce_words[i].kind == CE_WORD_TOPIC)
            printf("\n## %s\n\n| word | of | in cspeed |\n|---|---|---|\n", ce_words[i].text);
        else
            print_row(&ce_words[i]);
}
