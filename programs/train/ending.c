/* ending.c - prints the last lines of a training: on a terminal, the curve of the loss; everywhere, the output folder
 * and the commands that continue, plot or export the training, or generate text with the trained model. */
#include "base/must.h"
#include "train.h"

#include "cspeed/plot.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CURVES = 2, ROWS = 12, PATH_BYTES = 4096 };

/* Returns true if a shell that searches PATH for the command "cspeed" finds this file. */
static bool is_found_as_cspeed(const char *file)
{
    const char *path = getenv("PATH");
    char candidate[PATH_BYTES + 8], real[PATH_MAX], wanted[PATH_MAX];
    for (size_t length; path && *path; path += length + (path[length] == ':')) {
        length = strcspn(path, ":");
        snprintf(candidate, sizeof candidate, "%.*s/cspeed", (int)length, path);
        if (access(candidate, X_OK) == 0)
            return realpath(candidate, real) && realpath(file, wanted) && strcmp(real, wanted) == 0;
    }
    return false;
}

/* Returns the text to print before "cspeed" in a command: the folder of this program with a slash at its end, as a user
 * would type it. The text is empty if the folder contains no cspeed, as in an installed tree, or if PATH leads to the
 * cspeed in that folder. */
static const char *find_folder(char *program, size_t capacity)
{
    char here[PATH_BYTES], cspeed[PATH_BYTES + 8];
    ssize_t length = readlink("/proc/self/exe", program, capacity - 1);
    program[length > 0 ? length : 0] = 0;
    char *slash = strrchr(program, '/');
    if (slash)
        slash[1] = 0;
    snprintf(cspeed, sizeof cspeed, "%scspeed", program);
    if (access(cspeed, X_OK) != 0 || is_found_as_cspeed(cspeed))
        return "";
    if (!getcwd(here, sizeof here) || strncmp(program, here, strlen(here)) != 0 || program[strlen(here)] != '/')
        return program;
    const char *below = program + strlen(here) + 1;
    return *below ? below : "./";
}

/* Returns the name as one word of a shell's command line, malloc'ed. */
static char *quoted(const char *name)
{
    const char *plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/+,=@%";
    if (name[strspn(name, plain)] == 0)
        return ce_must_copy(name);
    /* a quote is replaced by four characters */
    char *word = ce_must_print("'%*s", (int)(4 * strlen(name) + 1), ""), *end = word + 1;
    for (; *name; name++)
        end = *name == '\'' ? stpcpy(end, "'\\''") : (*end = *name, end + 1);
    strcpy(end, "'");
    return word;
}

static void draw_curve(const session *run)
{
    static const char *const keys[CURVES] = { "loss", "valid_loss" };
    cs_plot_curve curves[CURVES] = { { .name = keys[0] }, { .name = keys[1] } };
    if (!is_rank_zero() || !run->progress.terminal || !run->metrics.path)
        return;
    if (cs_plot_read(run->metrics.path, keys, CURVES, curves) != CS_OK)
        complain("no curve can be drawn: %s", cs_error());
    else if (curves[0].count > 1)
        cs_plot_text(stdout, &(cs_plot){ .title = "", .curves = curves, .count = CURVES }, cs_plot_screen_of(stdout),
                     ROWS);
    cs_plot_free(curves, CURVES);
}

/* Says where the training is and how it continues. */
static void say_place(const session *run, const char *output)
{
    int64_t done = cs_last_step(run->engine).step;
    CE_FREED char *more = best_ends(run)
                              ? ce_must_print("--set cspeed.early_stopping_patience=%" PRId64, 2 * run->best.waited)
                              : ce_must_print("--steps %" PRId64, 2 * done);
    say("the training is in %s, at step %" PRId64 "; the same command with %s%s continues it", output, done, more,
        cs_config_get_string(run->config, "cspeed.export") ? " --export NEW_FOLDER" : "");
}

void ending_print(const session *run)
{
    char program[PATH_BYTES];
    const char *folder = find_folder(program, sizeof program);
    const char *source = run->first >= run->steps && run->source ? run->source : run->output;
    const char *metrics = cs_config_get_string(run->config, "cspeed.metrics");
    bool usual = source != run->output || (metrics && strcmp(metrics, "metrics.jsonl") == 0);
    CE_FREED char *plotted = quoted(usual || !metrics ? source : run->metrics.path);
    CE_FREED char *bin = quoted(folder);
    CE_FREED char *output = quoted(source);
    CE_FREED char *export = ce_must_print("%s_exported", source);
    CE_FREED char *exported = quoted(export);
    CE_FREED char *tag = best_tag(run);
    CE_FREED char *chosen = tag ? ce_must_print(" --tag %s", tag) : ce_must_copy("");
    bool tokenizer = cs_vocabulary(run->engine) == 256 || cs_config_get_string(run->config, "cspeed.model");
    bool chats = cs_config_get_string(run->config, "cspeed.data.template") != NULL;
    bool adapters = cs_config_get_int(run->config, "cspeed.lora.r") > 0;
    draw_curve(run);
    say_place(run, output);
    if (metrics)
        say("`%scspeed plot %s` draws its curves", bin, plotted);
    if (!run->exported)
        say("`%scspeed export %s %s%s` writes a %s folder", bin, output, exported, chosen,
            adapters ? "PEFT" : "Hugging Face");
    say("`%scspeed generate %s%s%s%s --prompt TEXT` %s", bin, output, chosen, tokenizer ? "" : " --tokenizer FOLDER",
        chats ? " --chat" : "", chats ? "answers your messages" : "continues a text");
}
