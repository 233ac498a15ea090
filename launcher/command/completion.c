/* completion.c - `cspeed completion bash|zsh|fish`: a completion script generated from the tables of flags and
 * commands. */
#include "ground/codes.h"
#include "ground/command.h"

#include <stdio.h>
#include <string.h>

/* Returns true if the values of the flag are a small set of fixed words. */
static bool is_choice(const char *value)
{
    return value && strchr(value, '|') && !strpbrk(value, "[:*") && !strstr(value, "N|") && !strstr(value, "RANKS") &&
           !strstr(value, "R|");
}

/* Returns true if completion offers the flag. Flags that cspeed refuses are not offered. */
static bool is_offered(const cs_option *flag)
{
    return flag->kind != CS_OPTION_REFUSED;
}

static const char *dashes(const char *name)
{
    return name[1] ? "--" : "-";
}

/* Prints text for use inside single quotes of a shell. A backslash is printed before each character of `special`. */
static void print_quoted(const char *text, const char *special)
{
    for (; *text; text++)
        if (*text == '\'')
            fputs("'\\''", stdout);
        else if (strchr(special, *text))
            printf("\\%c", *text);
        else
            putchar(*text);
}

/* ---- bash ---- */

static void bash_word(const char *name, const cs_option *flag, void *argument)
{
    (void)argument;
    if (name[1] && is_offered(flag))
        printf(" --%s", name);
}

static void bash_with_value(const char *name, const cs_option *flag, void *argument)
{
    (void)argument;
    if (cs_options_takes_value(flag))
        printf("|%s%s", dashes(name), name);
}

static void bash_choices(const char *name, const cs_option *flag, void *argument)
{
    (void)argument;
    if (!is_choice(flag->value) || !is_offered(flag))
        return;
    printf("    %s%s) COMPREPLY=($(compgen -W '", dashes(name), name);
    for (const char *c = flag->value; *c; c++)
        putchar(*c == '|' ? ' ' : *c);
    printf("' -- \"$word\")); return ;;\n");
}

static void print_bash(void)
{
    printf("# bash completion of cspeed: source <(cspeed completion bash)\n"
           "_cspeed() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} i value=\n"
           "    COMPREPLY=()\n"
           "    for ((i = 1; i < COMP_CWORD; i++)); do # launch flags end where the command begins\n"
           "        case ${COMP_WORDS[i]} in\n"
           "        =");
    cl_options_each(bash_with_value, NULL);
    printf(") value=1 ;;\n"
           "        run|launch|-*) value= ;;\n"
           "        *) [ \"$value\" ] || { COMPREPLY=($(compgen -f -- \"$word\")); return; }; value= ;;\n"
           "        esac\n"
           "    done\n"
           "    case $before in\n");
    cl_options_each(bash_choices, NULL);
    printf("    esac\n"
           "    case $word in\n"
           "    -*) COMPREPLY=($(compgen -W '");
    cl_options_each(bash_word, NULL);
    printf("' -- \"$word\")) ;;\n"
           "    */*) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
           "    *) COMPREPLY=($(compgen -W '");
    for (const cl_command *const *each = cl_commands; *each; each++)
        printf(" %s", (*each)->name);
    printf("' -- \"$word\") $(compgen -f -- \"$word\")) ;;\n"
           "    esac\n"
           "}\n"
           "complete -o filenames -F _cspeed cspeed\n");
}

/* ---- zsh ---- */

static void zsh_flag(const char *name, const cs_option *flag, void *argument)
{
    (void)argument;
    if (!is_offered(flag))
        return;
    printf("    '*%s%s[", dashes(name), name);
    print_quoted(flag->text, "[]:\\");
    putchar(']');
    if (is_choice(flag->value)) {
        printf(":value:(");
        for (const char *c = flag->value; *c; c++)
            putchar(*c == '|' ? ' ' : *c);
        putchar(')');
    } else if (flag->value) {
        printf(":value:_files");
    }
    printf("' \\\n");
}

static void print_zsh(void)
{
    printf("#compdef cspeed\n"
           "# zsh completion of cspeed: cspeed completion zsh > \"${fpath[1]}/_cspeed\"\n"
           "_cspeed_commands() {\n"
           "    local -a commands=(\n");
    for (const cl_command *const *each = cl_commands; *each; each++) {
        printf("        '%s:", (*each)->name);
        print_quoted((*each)->summary, ":\\");
        printf("'\n");
    }
    printf("    )\n"
           "    _describe command commands\n"
           "    _files\n"
           "}\n"
           "_arguments -S -A '-*' \\\n");
    cl_options_each(zsh_flag, NULL);
    printf("    '1:command:_cspeed_commands' '*:argument:_files'\n");
}

/* ---- fish ---- */

static void fish_flag(const char *name, const cs_option *flag, void *argument)
{
    (void)argument;
    if (!is_offered(flag))
        return;
    printf("complete -c cspeed -n __fish_use_subcommand -%s '%s' %s-d '", name[1] ? "l" : "s", name,
           flag->value ? "-r " : "");
    print_quoted(flag->text, "\\");
    putchar('\'');
    if (is_choice(flag->value)) {
        printf(" -a '");
        for (const char *c = flag->value; *c; c++)
            putchar(*c == '|' ? ' ' : *c);
        putchar('\'');
    }
    putchar('\n');
}

static void print_fish(void)
{
    printf("# fish completion of cspeed: cspeed completion fish | source\n");
    for (const cl_command *const *each = cl_commands; *each; each++) {
        printf("complete -c cspeed -n __fish_use_subcommand -a '%s' -d '", (*each)->name);
        print_quoted((*each)->summary, "\\");
        printf("'\n");
    }
    cl_options_each(fish_flag, NULL);
}

static int print(const cl_options *options, char **arguments)
{
    static const struct {
        const char *shell;
        void (*print)(void);
    } shells[] = { { "bash", print_bash }, { "zsh", print_zsh }, { "fish", print_fish } };
    (void)options;
    for (size_t i = 0; arguments[0] && i < sizeof shells / sizeof *shells; i++)
        if (strcmp(arguments[0], shells[i].shell) == 0) {
            shells[i].print();
            return 0;
        }
    return cl_codes_fail(CL_CODE_USAGE, "completion is for bash, zsh or fish%s%s", arguments[0] ? ", not " : "",
                         arguments[0] ? arguments[0] : "");
}

const cl_command cl_command_completion = {
    .name = "completion",
    .group = "Look",
    .summary = "print a script that completes flags and commands in your shell",
    .usage = "cspeed completion bash|zsh|fish",
    .text = "Prints a completion script for bash, zsh or fish. The first line of the script says how to load it.\n",
    .example = "source <(cspeed completion bash)",
    .run = print,
};
