/* options.c - the table of launch flags, and the one reader of it. */
#include "options.h"

#include "codes.h"

#include "base/status.h"

#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { SWITCH, COUNT, PORT, SECONDS, TEXT, CHOICE, SIGNAL, INERT, REFUSED, REFUSED_SWITCH } kind;

typedef struct {
    const char *names; /* separated by spaces; a single letter is a short flag */
    kind        kind;
    size_t      offset;
    const char *value; /* how help calls it; of a CHOICE its values; of REFUSED the harmless ones, NULL: none is */
    const char *text;  /* what it does, or why it is refused */
} option;

#define FIELD(name) offsetof(cs_options, name)
#define REMOTE "this build starts ranks on this machine only"
#define RESTART "this build does not restart ranks"

static const option options_table[] = {
    { "num_gpus num_accelerators nproc_per_node", COUNT, FIELD(ranks), "N|auto",
      "ranks to start. Off CUDA a \"gpu\" slot is a CPU rank. Default: one a NUMA node; at most one a core" },
    { "oversubscribe", SWITCH, FIELD(oversubscribe), NULL, "allow more ranks than cores; ranks are then not pinned" },
    { "bind", CHOICE, FIELD(bind), "auto|none|core",
      "pin each rank to cores of its own (auto: if there are enough)" },
    { "master_port", PORT, FIELD(master_port), "P",
      "MASTER_PORT for the ranks. Default: a free one, held for the job" },
    { "log_dir", TEXT, FIELD(log_dir), "DIR", "also write DIR/attempt_0/RANK.out and RANK.err, every byte as it came" },
    { "prefix", TEXT, FIELD(prefix), "TEXT",
      "begin every line of every rank so; {rank} {local_rank} {node} {host} {stream} are replaced. "
      "Default: \"1| \" for rank 1 and so on, nothing for rank 0" },
    { "no_prefix", SWITCH, FIELD(no_prefix), NULL, "no prefix for any rank" },
    { "grace", SECONDS, FIELD(grace_seconds), "S",
      "from the stop signal to SIGKILL, for all ranks at once. Default: 30" },
    { "stop_signal", SIGNAL, FIELD(stop_signal), "SIG", "what asks ranks to end. Default: TERM" },
    { "timeout", SECONDS, FIELD(timeout_seconds), "T", "end the job after T (90, 15m, 2h, 1d) with exit code 124" },
    { "quiet q", SWITCH, FIELD(quiet), NULL, "no banner" },
    { "verbose v", SWITCH, FIELD(verbose), NULL, "also say each rank's process and how it ended" },
    { "dry_run", SWITCH, FIELD(dry_run), NULL, "print what would be started, and start nothing" },
    { "help h", SWITCH, FIELD(help), NULL, "this text" },
    { "version", SWITCH, FIELD(version), NULL, "the version" },

    { "standalone", INERT, 0, NULL, "this machine and a free port are the default" },
    { "no_python", INERT, 0, NULL, "programs are always executed directly" },
    { "no_local_rank use_env", INERT, 0, NULL, "ranks learn theirs from LOCAL_RANK; no argument is added" },
    { "bind_cores_to_rank", INERT, 0, NULL, "ranks are pinned whenever there are enough cores" },
    { "num_nodes nnodes", REFUSED, 0, "1", REMOTE },
    { "node_rank", REFUSED, 0, "0", REMOTE },
    { "master_addr", REFUSED, 0, "127.0.0.1|localhost|::1", REMOTE },
    { "launcher", REFUSED, 0, "local", REMOTE },
    { "max_restarts", REFUSED, 0, "0", RESTART },
    { "hostfile H hosts include i exclude e", REFUSED, 0, NULL, REMOTE },
    { "launcher_args ssh_port ssh_user ssh_key ssh_config ssh_cmd host_key venv_script", REFUSED, 0, NULL, REMOTE },
    { "master_if local_addr rdzv_backend rdzv_endpoint rdzv_id rdzv_conf rdzv_timeout", REFUSED, 0, NULL, REMOTE },
    { "no_ssh no_ssh_check force_multi", REFUSED_SWITCH, 0, NULL, REMOTE },
    { "min_elastic_nodes max_elastic_nodes restart_delay restart_on spare", REFUSED, 0, NULL, RESTART },
    { "elastic_training restart_dead_node", REFUSED_SWITCH, 0, NULL, RESTART },
    { "module m", REFUSED_SWITCH, 0, NULL,
      "programs are executed directly; name the interpreter: python3 -m MODULE" },
    { "bind_core_list numa_binding", REFUSED, 0, NULL,
      "a list of cores comes from outside: taskset -c LIST cspeed ..." },
    { "enable_each_rank_log redirects r tee t", REFUSED, 0, NULL, "files for each rank are what --log_dir writes" },
    { "autotuning", REFUSED, 0, NULL, "there is no tuner in this build" },
    { "save_pid", REFUSED_SWITCH, 0, NULL, "the banner's job id finds every process: CSPEED_JOB_ID" },
    { "log_level", REFUSED, 0, "info", "-q and -v choose how much cspeed says" },
};

enum { OPTION_COUNT = (int)(sizeof options_table / sizeof *options_table), NAME_BYTES = 64 };

/* The names of an option, one a call; `place` begins as option->names. False after the last. */
static bool next_name(const char **place, char name[NAME_BYTES])
{
    size_t length = strcspn(*place, " ");
    if (length == 0)
        return false;
    snprintf(name, NAME_BYTES, "%.*s", (int)length, *place);
    *place += length;
    *place += **place == ' ';
    return true;
}

static const option *find(const char *wanted)
{
    char name[NAME_BYTES];
    for (int i = 0; i < OPTION_COUNT; i++)
        for (const char *place = options_table[i].names; next_name(&place, name);)
            if (strcmp(name, wanted) == 0)
                return &options_table[i];
    return NULL;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Edits (insert, delete, change) that make one word the other. */
static int distance(const char *a, const char *b)
{
    int row[NAME_BYTES], columns = (int)strlen(b);
    for (int j = 0; j <= columns; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0]       = i;
        for (int j = 1; j <= columns; j++) {
            int above = row[j];
            row[j]    = least(least(row[j - 1], above) + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal  = above;
        }
    }
    return row[columns];
}

static int refuse_unknown(const char *flag, const char *wanted)
{
    char name[NAME_BYTES], nearest[NAME_BYTES] = "";
    int  nearest_distance = INT_MAX;
    for (int i = 0; i < OPTION_COUNT; i++)
        for (const char *place = options_table[i].names; next_name(&place, name);)
            if (name[1] && distance(wanted, name) < nearest_distance) {
                nearest_distance = distance(wanted, name);
                memcpy(nearest, name, sizeof nearest);
            }
    if (nearest_distance > 1 + (int)strlen(wanted) / 3)
        return cs_codes_fail(CS_CODE_USAGE, "unknown launch flag %s; `cspeed --help` lists them all", flag);
    return cs_codes_fail(CS_CODE_USAGE, "unknown launch flag %s; the nearest is --%s", flag, nearest);
}

/* Which of "a|b|c" `value` is, or -1. */
static int choice_index(const char *choices, const char *value)
{
    size_t length = strlen(value);
    for (int index = 0;; index++) {
        size_t word = strcspn(choices, "|");
        if (word == length && strncmp(choices, value, word) == 0)
            return index;
        if (choices[word] == '\0')
            return -1;
        choices += word + 1;
    }
}

static int read_whole(const char *flag, const char *value, long from, long to, int *field)
{
    char *end;
    long  number = strtol(value, &end, 10);
    if (end == value || *end || number < from || number > to)
        return cs_codes_fail(CS_CODE_USAGE, "%s takes a whole number from %ld to %ld, not \"%s\"", flag, from, to,
                             value);
    *field = (int)number;
    return 0;
}

static int read_seconds(const char *flag, const char *value, double *field)
{
    static const struct {
        const char *unit;
        double      seconds;
    } units[] = { { "", 1 }, { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 } };
    char  *end;
    double number = strtod(value, &end);
    for (int i = 0; i < (int)(sizeof units / sizeof *units); i++)
        if (end != value && strcmp(end, units[i].unit) == 0 && number >= 0 && number * units[i].seconds <= 1e9) {
            *field = number * units[i].seconds;
            return 0;
        }
    return cs_codes_fail(CS_CODE_USAGE, "%s takes a time such as 90, 15m, 2h or 1d, not \"%s\"", flag, value);
}

static int read_value(const option *row, const char *flag, const char *value, void *field)
{
    switch (row->kind) {
    case COUNT:
        if (strcmp(value, "auto") == 0)
            return *(int *)field = 0, 0;
        return read_whole(flag, value, 1, 65536, field);
    case PORT:
        return read_whole(flag, value, 0, 65535, field);
    case SECONDS:
        return read_seconds(flag, value, field);
    case CHOICE:
        if ((*(int *)field = choice_index(row->value, value)) < 0)
            return cs_codes_fail(CS_CODE_USAGE, "%s is one of %s, not \"%s\"", flag, row->value, value);
        return 0;
    case SIGNAL:
        if ((*(int *)field = cs_codes_signal_number(value)) == 0)
            return cs_codes_fail(CS_CODE_USAGE, "%s takes a signal such as TERM, INT or 15, not \"%s\"", flag, value);
        return 0;
    default:
        *(const char **)field = value;
        return 0;
    }
}

static int refuse(const option *row, const char *flag, const char *value)
{
    if (row->value && value)
        return cs_codes_fail(CS_CODE_USAGE, "not supported: %s %s, because %s", flag, value, row->text);
    return cs_codes_fail(CS_CODE_USAGE, "not supported: %s, because %s", flag, row->text);
}

/* Applies one flag; `*rest` stands behind it and moves on when a value is taken from there. */
static int read_flag(cs_options *options, const option *row, const char *flag, const char *value, char ***rest)
{
    if (row->kind == REFUSED_SWITCH || (row->kind == REFUSED && !row->value))
        return refuse(row, flag, NULL);
    if (row->kind == SWITCH || row->kind == INERT) {
        if (value)
            return cs_codes_fail(CS_CODE_USAGE, "%s takes no value, but got \"%s\"", flag, value);
        if (row->kind == SWITCH)
            *(bool *)((char *)options + row->offset) = true;
        return 0;
    }
    if (!value && !**rest)
        return cs_codes_fail(CS_CODE_USAGE, "%s needs a value", flag);
    if (!value)
        value = *(*rest)++;
    if (row->kind == REFUSED)
        return choice_index(row->value, value) < 0 ? refuse(row, flag, value) : 0;
    return read_value(row, flag, value, (char *)options + row->offset);
}

/* Splits "--foo-bar=v" into flag "--foo-bar", name "foo_bar" and value "v"; "-q" into "-q", "q" and none. */
static const char *split(const char *word, char flag[NAME_BYTES], char name[NAME_BYTES])
{
    int         dashes = word[1] == '-' ? 2 : 1;
    const char *equals = dashes == 2 ? strchr(word, '=') : NULL;
    int         length = equals ? (int)(equals - word) : (int)strlen(word);
    snprintf(flag, NAME_BYTES, "%.*s", length, word);
    snprintf(name, NAME_BYTES, "%s", strlen(flag) > (size_t)dashes ? flag + dashes : "");
    for (char *c = name; *c; c++)
        if (*c == '-' && dashes == 2)
            *c = '_';
    return equals ? equals + 1 : NULL;
}

int cs_options_read(cs_options *options, char **argv)
{
    *options    = (cs_options){ .grace_seconds = 30, .stop_signal = SIGTERM };
    char **rest = argv + 1;
    while (*rest && (*rest)[0] == '-' && (*rest)[1]) {
        const char *word = *rest++;
        if (strcmp(word, "--") == 0)
            break;
        char          flag[NAME_BYTES], name[NAME_BYTES];
        const char   *value = split(word, flag, name);
        const option *row   = find(name);
        if (!row || (word[1] != '-') != (name[1] == '\0'))
            return refuse_unknown(flag, name);
        int code = read_flag(options, row, flag, value, &rest);
        if (code)
            return code;
    }
    options->program = rest;
    return 0;
}

static void print_row(const option *row)
{
    char flags[256] = "", name[NAME_BYTES];
    for (const char *place = row->names; next_name(&place, name);) {
        size_t used = strlen(flags);
        snprintf(flags + used, sizeof flags - used, "%s%s%s", used ? ", " : "", name[1] ? "--" : "-", name);
    }
    bool named = row->value && row->kind != REFUSED;
    printf("  %s%s%s\n      %s\n", flags, named ? " " : "", named ? row->value : "", row->text);
    if (row->kind == REFUSED && row->value)
        printf("      (only %s is taken)\n", row->value);
}

void cs_options_help(void)
{
    for (int i = 0; i < OPTION_COUNT; i++)
        if (options_table[i].kind < INERT)
            print_row(&options_table[i]);
    printf("\nTaken from DeepSpeed and torchrun, and of no effect here:\n");
    for (int i = 0; i < OPTION_COUNT; i++)
        if (options_table[i].kind == INERT)
            print_row(&options_table[i]);
    printf("\nKnown, and not supported:\n");
    for (int i = 0; i < OPTION_COUNT; i++)
        if (options_table[i].kind > INERT)
            print_row(&options_table[i]);
}
