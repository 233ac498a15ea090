/* spellings.c - Checks and converts values of flags that need more than one step, or that set several fields.
 *
 * If a flag of another launcher sets two fields at once, the parts of its value are kept in static buffers: flags
 * are read once and are valid as long as the process runs. */
#include "spellings.h"

#include "codes.h"
#include "plan/cores.h"
#include "flags.h"

#include "base/log.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 65536, WORD_BYTES = 256 };

int cl_spellings_whole(const char *flag, const char *value, long from, long to, int *field)
{
    char *end;
    long number = strtol(value, &end, 10);
    if (!isdigit((unsigned char)*value) || *end || number < from || number > to)
        return cl_codes_fail(CL_CODE_USAGE, "%s takes a whole number from %ld to %ld, not \"%s\"", flag, from, to,
                             value);
    *field = (int)number;
    return 0;
}

int cl_spellings_seconds(const char *flag, const char *value, double *field)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = { { "", 1 }, { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 } };
    char *end;
    double number = strtod(value, &end);
    for (int i = 0; i < (int)(sizeof units / sizeof *units); i++)
        if (end != value && strcmp(end, units[i].unit) == 0 && number >= 0 && number * units[i].seconds <= 1e9) {
            *field = number * units[i].seconds;
            return 0;
        }
    return cl_codes_fail(CL_CODE_USAGE, "%s takes a time such as 90, 15m, 2h or 1d, not \"%s\"", flag, value);
}

/* Accepts "N" and "MIN:MAX". */
int cl_spellings_nodes(const char *flag, const char *value)
{
    char min_text[WORD_BYTES];
    const char *colon = strchr(value, ':');
    int min = 0, max = 0;
    if (strcmp(value, "-1") == 0)
        return 0;
    snprintf(min_text, sizeof min_text, "%.*s", (int)strcspn(value, ":"), value);
    int code = cl_spellings_whole(flag, min_text, 1, MOST_RANKS, &min);
    if (code == 0 && colon)
        code = cl_spellings_whole(flag, colon + 1, 1, MOST_RANKS, &max);
    if (code == 0 && colon && max < min)
        return cl_codes_fail(CL_CODE_USAGE, "%s %s: MIN:MAX needs MIN not above MAX", flag, value);
    return code;
}

int cl_spellings_ranks(const char *flag, const char *value)
{
    int number;
    if (cl_flags_choice("gpu|cpu|auto|-1", value) >= 0)
        return 0;
    if (!isdigit((unsigned char)*value))
        return cl_codes_fail(CL_CODE_USAGE, "%s takes a number, gpu, cpu or auto, not \"%s\"", flag, value);
    return cl_spellings_whole(flag, value, 1, MOST_RANKS, &number);
}

int cl_spellings_node(const char *flag, const char *value)
{
    int number;
    return cl_flags_choice("auto|-1", value) >= 0 ? 0 : cl_spellings_whole(flag, value, 0, MOST_RANKS - 1, &number);
}

/* Calls check(word) for each word of a list. Returns false at the first invalid word, which is then in `word`. */
static bool each_word(const char *list, char word[WORD_BYTES], bool (*check)(const char *word))
{
    for (const char *place = list;; place++) {
        size_t length = strcspn(place, ",");
        snprintf(word, WORD_BYTES, "%.*s", (int)length, place);
        if (!check(word))
            return false;
        place += length;
        if (!*place)
            return true;
    }
}

static bool is_signal(const char *word)
{
    return cl_codes_signal_number(word) != 0;
}

static bool is_code(const char *word)
{
    char *end;
    long code = strtol(word, &end, 10);
    return isdigit((unsigned char)*word) && !*end && code >= 1 && code <= 255;
}

/* Accepts "3" and "4-7". */
static bool is_span(const char *word)
{
    char *end;
    long from = strtol(word, &end, 10), to = from;
    if (!isdigit((unsigned char)*word))
        return false;
    if (*end == '-' && isdigit((unsigned char)end[1]))
        to = strtol(end + 1, &end, 10);
    return !*end && to >= from && to <= MOST_RANKS;
}

int cl_spellings_signals(const char *flag, const char *value)
{
    char word[WORD_BYTES];
    if (strcmp(value, "none") == 0 || each_word(value, word, is_signal))
        return 0;
    return cl_codes_fail(CL_CODE_USAGE, "%s takes signals such as USR1,USR2, or none; there is no \"%s\"", flag, word);
}

int cl_spellings_codes(const char *flag, const char *value)
{
    char word[WORD_BYTES];
    if (strcmp(value, "any") == 0 || each_word(value, word, is_code))
        return 0;
    return cl_codes_fail(CL_CODE_USAGE, "%s takes any, or exit codes from 1 to 255 such as 75,137; not \"%s\"", flag,
                         word);
}

int cl_spellings_size(const char *flag, const char *value)
{
    char *end;
    double number = strtod(value, &end);
    bool unit = *end && strchr("kKmMgGtT", *end);
    if (isdigit((unsigned char)*value) && number > 0 && number < 1e15 && end[unit] == '\0')
        return 0;
    return cl_codes_fail(CL_CODE_USAGE, "%s takes a size such as 500K, 100M or 2G, not \"%s\"", flag, value);
}

int cl_spellings_console(const char *flag, const char *value)
{
    char word[WORD_BYTES];
    if (cl_flags_choice("all|dedup|first|none", value) >= 0 || each_word(value, word, is_span))
        return 0;
    return cl_codes_fail(CL_CODE_USAGE, "%s is all, dedup, first, none, or ranks such as 0,4-7; not \"%s\"", flag,
                         value);
}

int cl_spellings_color(const char *flag, const char *value)
{
    if (cl_flags_choice("auto|always|never", value) >= 0)
        return 0;
    return cl_codes_fail(CL_CODE_USAGE, "%s is one of auto|always|never, not \"%s\"", flag, value);
}

/* A job id becomes part of file names, and of a word that is searched in /proc/PID/environ. */
int cl_spellings_job(const char *flag, const char *value)
{
    size_t length = strlen(value);
    if (length < 64 && value[0] != '.' && value[0] != '-' &&
        strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == length)
        return 0;
    return cl_codes_fail(CL_CODE_USAGE,
                         "%s takes at most 63 letters, digits, dots, dashes and underscores, the first none of .-; "
                         "not \"%s\"",
                         flag, value);
}

int cl_spellings_range(const char *flag, const char *value)
{
    cpu_set_t set;
    return cl_cores_parse(&set, flag, value);
}

int cl_spellings_launcher(cl_options *options, const char *flag, const char *value)
{
    static const char choices[] = "auto|local|ssh|openmpi|mpich|slurm"; /* in the order of cl_launch_by */
    char name[WORD_BYTES];
    snprintf(name, sizeof name, "%s", value);
    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    if (cl_flags_choice("impi|mvapich", name) >= 0)
        return cl_codes_fail(CL_CODE_USAGE,
                             "not supported: %s %s, because only Open MPI's and MPICH's mpirun start agents; take "
                             "openmpi, mpich, slurm or ssh",
                             flag, value);
    if (strcmp(name, "pdsh") == 0) {
        cs_log(CS_LOG_WARNING, "%s pdsh: cspeed speaks SSH by itself, pdsh is not used", flag);
        snprintf(name, sizeof name, "ssh");
    }
    if ((options->launcher = cl_flags_choice(choices, name)) < 0)
        return cl_codes_fail(CL_CODE_USAGE, "%s is one of %s, not \"%s\"", flag, choices, value);
    return 0;
}

int cl_spellings_bind(cl_options *options, const char *flag, const char *value)
{
    static const char choices[] = "auto|none|core|numa|socket|l3"; /* in the order of cl_bind */
    if (strncmp(value, "list:", 5) == 0) {
        options->bind = CL_BIND_CORE;
        options->bind_core_list = value + 5;
        return cl_spellings_range(flag, value + 5);
    }
    if ((options->bind = cl_flags_choice(choices, value)) < 0)
        return cl_codes_fail(CL_CODE_USAGE, "%s is one of %s|list:CORES, not \"%s\"", flag, choices, value);
    return 0;
}

int cl_spellings_numa(cl_options *options, const char *flag, const char *value)
{
    static const char choices[] = "node|socket|core-complex|exclusive";
    static const cl_bind meaning[] = { CL_BIND_NUMA, CL_BIND_SOCKET, CL_BIND_L3, CL_BIND_CORE };
    int index = cl_flags_choice(choices, value);
    if (index < 0)
        return cl_codes_fail(CL_CODE_USAGE, "%s is one of %s, not \"%s\"", flag, choices, value);
    options->bind = (int)meaning[index];
    return 0;
}

int cl_spellings_format(cl_options *options, const char *flag, const char *value)
{
    int index = cl_flags_choice("text|json", value);
    if (index < 0)
        return cl_codes_fail(CL_CODE_USAGE, "%s is text or json, not \"%s\"", flag, value);
    options->log_json = index == 1;
    return 0;
}

int cl_spellings_level(cl_options *options, const char *flag, const char *value)
{
    static const char choices[] = "debug|info|warning|error|critical";
    int index = cl_flags_choice(choices, value);
    if (index < 0)
        return cl_codes_fail(CL_CODE_USAGE, "%s is one of %s, not \"%s\"", flag, choices, value);
    options->verbose |= index == 0;
    options->quiet |= index > 1;
    return 0;
}

int cl_spellings_rank_log(cl_options *options, const char *flag, const char *value)
{
    if (!*value)
        return cl_codes_fail(CL_CODE_USAGE, "%s needs a folder", flag);
    if (strcmp(value, "None") == 0) /* DeepSpeed's default */
        return 0;
    options->log_dir = value;
    options->console = "none";
    return 0;
}

int cl_spellings_redirects(cl_options *options, const char *flag, const char *value)
{
    int index = cl_flags_choice("0|3", value);
    if (index < 0)
        return cl_codes_fail(CL_CODE_USAGE,
                             "not supported: %s %s, because both streams of every rank are written to files; "
                             "--console chooses the ranks to be shown",
                             flag, value);
    if (index == 1)
        options->console = "none";
    return 0;
}

/* Accepts HOST, HOST:PORT and [IPv6]:PORT. */
int cl_spellings_endpoint(cl_options *options, const char *flag, const char *value)
{
    static char host[WORD_BYTES];
    bool bracket = *value == '[';
    size_t length = strcspn(value + bracket, bracket ? "]" : ":");
    const char *rest = value + bracket + length;
    if (!*value) /* torchrun's default */
        return 0;
    if (bracket && *rest == ']')
        rest++;
    if (length == 0 || length >= sizeof host || (*rest && *rest != ':'))
        return cl_codes_fail(CL_CODE_USAGE, "%s takes HOST or HOST:PORT, not \"%s\"", flag, value);
    snprintf(host, sizeof host, "%.*s", (int)length, value + bracket);
    options->master_addr = host;
    options->master_port = 29400; /* torchrun's default for an endpoint without a port */
    return *rest ? cl_spellings_whole(flag, rest + 1, 0, 65535, &options->master_port) : 0;
}

static int conf_item(cl_options *options, const char *flag, const char *name, const char *value)
{
    static const struct {
        const char *name;
        size_t offset;
    } items[] = {
        { "join_timeout", offsetof(cl_options, rdzv_timeout) },
        { "timeout", offsetof(cl_options, rdzv_timeout) },
        { "last_call_timeout", offsetof(cl_options, last_call) },
        { "keep_alive_interval", offsetof(cl_options, heartbeat) },
    };
    for (int i = 0; i < (int)(sizeof items / sizeof *items); i++)
        if (strcmp(items[i].name, name) == 0)
            return cl_spellings_seconds(flag, value, (double *)(void *)((char *)options + items[i].offset));
    return cl_codes_fail(CL_CODE_USAGE,
                         "not supported: %s %s, because nodes meet through the launcher's own store; it takes "
                         "join_timeout, timeout, last_call_timeout and keep_alive_interval",
                         flag, name);
}

int cl_spellings_conf(cl_options *options, const char *flag, const char *value)
{
    char item[WORD_BYTES];
    int code = 0;
    for (const char *place = value; code == 0 && *place; place += *place == ',') {
        size_t length = strcspn(place, ",");
        snprintf(item, sizeof item, "%.*s", (int)length, place);
        place += length;
        char *equals = strchr(item, '=');
        if (!equals)
            return cl_codes_fail(CL_CODE_USAGE, "%s takes K=V,K=V, not \"%s\"", flag, value);
        *equals = '\0';
        code = conf_item(options, flag, item, equals + 1);
    }
    return code;
}
