/* spellings.c - checks and converts values of flags that need more than one step, or that set several members of
 * cl_options.
 *
 * The host of --rdzv_endpoint HOST:PORT is copied to a static buffer, because cl_options does not own its texts. Flags
 * are read only once, so one buffer is enough. */
#include "ground/spellings.h"

#include "ground/codes.h"
#include "ground/cores.h"
#include "ground/ranges.h"

#include "base/log.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 65536, WORD_BYTES = 256 };

/* Stores a value that the calling function has already checked. */
static int keep(void *field, const char *value)
{
    *(const char **)field = value;
    return 0;
}

/* Stores a whole number in a member of the type int. */
static int keep_int(int *field, const char *flag, const char *value, int min, int max)
{
    int64_t number;
    int code = cs_options_whole(&number, flag, value, min, max);
    if (code == 0)
        *field = (int)number;
    return code;
}

/* Stores the index of the value in a list such as "a|b|c"; -1 after an error. */
static int choose(int *index, const char *flag, const char *value, const char *choices)
{
    return cs_options_store(&(cs_option){ .kind = CS_OPTION_CHOICE, .value = choices }, index, flag, value);
}

int cl_spellings_maybe(void *field, const char *flag, const char *value)
{
    (void)flag;
    return keep(field, *value ? value : NULL);
}

int cl_spellings_count(void *field, const char *flag, const char *value)
{
    return strcmp(value, "-1") == 0 ? 0 : keep_int(field, flag, value, 0, 1000000);
}

int cl_spellings_port(void *field, const char *flag, const char *value)
{
    return keep_int(field, flag, value, 0, 65535);
}

int cl_spellings_signal(void *field, const char *flag, const char *value)
{
    int number = cl_codes_signal_number(value);
    if (number == 0)
        return cl_codes_fail(CL_CODE_USAGE, "%s takes a signal such as TERM, INT or 15, not \"%s\"", flag, value);
    *(int *)field = number;
    return 0;
}

int cl_spellings_seconds(void *field, const char *flag, const char *value)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = { { "", 1 }, { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 } };
    char *end;
    double number = strtod(value, &end);
    for (int i = 0; i < (int)(sizeof units / sizeof *units); i++)
        if (end != value && strcmp(end, units[i].unit) == 0 && number >= 0 && number * units[i].seconds <= 1e9) {
            *(double *)field = number * units[i].seconds;
            return 0;
        }
    return cl_codes_fail(CL_CODE_USAGE, "%s takes a time such as 90, 15m, 2h or 1d, not \"%s\"", flag, value);
}

/* Accepts "N" and "MIN:MAX". */
int cl_spellings_nodes(void *field, const char *flag, const char *value)
{
    char min_text[WORD_BYTES];
    const char *colon = strchr(value, ':');
    int min = 0, max = 0;
    if (strcmp(value, "-1") == 0)
        return 0;
    snprintf(min_text, sizeof min_text, "%.*s", (int)strcspn(value, ":"), value);
    int code = keep_int(&min, flag, min_text, 1, MAX_RANKS);
    if (code == 0 && colon)
        code = keep_int(&max, flag, colon + 1, 1, MAX_RANKS);
    if (code == 0 && colon && max < min)
        return cl_codes_fail(CL_CODE_USAGE, "%s %s: in MIN:MAX, MIN must not be greater than MAX", flag, value);
    return code ? code : keep(field, value);
}

int cl_spellings_ranks(void *field, const char *flag, const char *value)
{
    int number, code = 0;
    if (strcmp(value, "-1") == 0)
        return 0;
    if (isdigit((unsigned char)*value))
        code = keep_int(&number, flag, value, 1, MAX_RANKS);
    else if (cs_options_choice("gpu|cpu|auto", value) < 0)
        code = cl_codes_fail(CL_CODE_USAGE, "%s takes a number, gpu, cpu or auto, not \"%s\"", flag, value);
    return code ? code : keep(field, value);
}

int cl_spellings_devices(void *field, const char *flag, const char *value)
{
    size_t length = strlen(value);
    bool list = strchr(value, ',') && isdigit((unsigned char)*value) && strspn(value, "0123456789,") == length &&
                !strstr(value, ",,");
    if (list || strcmp(value, "auto") == 0 || strcmp(value, "-1") == 0)
        return keep(field, value);
    if (!isdigit((unsigned char)*value) || strspn(value, "0123456789") != length)
        return cl_codes_fail(CL_CODE_USAGE, "%s takes a number of devices, a list such as 0,1, or auto; not \"%s\"",
                             flag, value);
    return cl_spellings_ranks(field, flag, value);
}

int cl_spellings_node(void *field, const char *flag, const char *value)
{
    int number;
    if (strcmp(value, "-1") == 0)
        return 0;
    int code = strcmp(value, "auto") == 0 ? 0 : keep_int(&number, flag, value, 0, MAX_RANKS - 1);
    return code ? code : keep(field, value);
}

/* Calls check(word) for each word of a list. Returns false at the first word that is not valid; `word` then contains
 * it. */
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

/* Accepts a range such as "3" or "4-7". */
static bool is_span(const char *word)
{
    long from, to;
    return cl_ranges_read(&word, &from, &to) && !*word && to >= from && to <= MAX_RANKS;
}

int cl_spellings_signals(void *field, const char *flag, const char *value)
{
    char word[WORD_BYTES];
    if (strcmp(value, "none") == 0 || each_word(value, word, is_signal))
        return keep(field, value);
    return cl_codes_fail(CL_CODE_USAGE, "%s takes signals such as USR1,USR2, or none; there is no \"%s\"", flag, word);
}

int cl_spellings_codes(void *field, const char *flag, const char *value)
{
    char word[WORD_BYTES];
    if (strcmp(value, "any") == 0 || each_word(value, word, is_code))
        return keep(field, value);
    return cl_codes_fail(CL_CODE_USAGE, "%s takes any, or exit codes from 1 to 255 such as 75,137; not \"%s\"", flag,
                         word);
}

int cl_spellings_size(void *field, const char *flag, const char *value)
{
    char *end;
    double number = strtod(value, &end);
    bool unit = *end && strchr("kKmMgGtT", *end);
    if (isdigit((unsigned char)*value) && number > 0 && number < 1e15 && end[unit] == '\0')
        return keep(field, value);
    return cl_codes_fail(CL_CODE_USAGE, "%s takes a size such as 500K, 100M or 2G, not \"%s\"", flag, value);
}

int cl_spellings_console(void *field, const char *flag, const char *value)
{
    char word[WORD_BYTES];
    if (cs_options_choice("all|dedup|first|none", value) >= 0 || each_word(value, word, is_span))
        return keep(field, value);
    return cl_codes_fail(CL_CODE_USAGE, "%s is all, dedup, first, none, or ranks such as 0,4-7; not \"%s\"", flag,
                         value);
}

static bool is_streams(const char *word)
{
    return *word >= '0' && *word <= '3' && !word[1];
}

static bool is_streams_of_rank(const char *word)
{
    size_t digits = strspn(word, "0123456789");
    return digits > 0 && digits <= 5 && word[digits] == ':' && is_streams(word + digits + 1);
}

int cl_spellings_streams(void *field, const char *flag, const char *value)
{
    char word[WORD_BYTES];
    if (is_streams(value) || each_word(value, word, is_streams_of_rank))
        return keep(field, value);
    return cl_codes_fail(CL_CODE_USAGE,
                         "%s takes 0, 1 (stdout), 2 (stderr) or 3 (both), or local ranks with one of these, such as "
                         "0:1,1:2; not \"%s\"",
                         flag, value);
}

unsigned cl_spellings_streams_of(const char *value, int local_rank)
{
    unsigned streams = 0;
    for (char *end; value && *value; value = end + (*end == ',')) {
        unsigned long number = strtoul(value, &end, 10);
        if (*end != ':')
            return (unsigned)number;
        unsigned long named = strtoul(end + 1, &end, 10);
        if (number == (unsigned long)local_rank)
            streams = (unsigned)named;
    }
    return streams;
}

int cl_spellings_color(void *field, const char *flag, const char *value)
{
    int index, code = choose(&index, flag, value, "auto|always|never");
    return code ? code : keep(field, value);
}

/* A job id becomes part of file names. It has at most 63 bytes, because structures such as cs_world have 64 bytes for
 * it. */
int cl_spellings_job(void *field, const char *flag, const char *value)
{
    size_t length = strlen(value);
    if (length < 64 && value[0] != '.' && value[0] != '-' &&
        strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == length)
        return keep(field, value);
    return cl_codes_fail(CL_CODE_USAGE,
                         "%s takes at most 63 letters, digits, dots, dashes and underscores, of which the first is "
                         "not . or -; not \"%s\"",
                         flag, value);
}

int cl_spellings_range(void *field, const char *flag, const char *value)
{
    cpu_set_t set;
    int code = cl_cores_parse(&set, flag, value);
    return code ? code : keep(field, value);
}

int cl_spellings_launcher(void *field, const char *flag, const char *value)
{
    cl_options *options = field;
    char name[WORD_BYTES];
    snprintf(name, sizeof name, "%s", value);
    for (char *c = name; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    if (cs_options_choice("impi|mvapich", name) >= 0)
        return cl_codes_fail(CL_CODE_USAGE,
                             "not supported: %s %s, because only the mpirun of Open MPI and of MPICH can be used; "
                             "choose openmpi, mpich, slurm or ssh",
                             flag, value);
    if (strcmp(name, "pdsh") == 0) {
        ce_log(CE_LOG_WARNING, "%s pdsh: pdsh is not needed, because cspeed has its own SSH client", flag);
        snprintf(name, sizeof name, "ssh");
    }
    /* the names in the order of the values of cl_launch_by */
    return choose(&options->launcher, flag, name, "auto|local|ssh|openmpi|mpich|slurm");
}

int cl_spellings_bind(void *field, const char *flag, const char *value)
{
    cl_options *options = field;
    if (strncmp(value, "list:", 5) == 0) {
        options->bind = CL_BIND_CORE;
        return cl_spellings_range(&options->bind_core_list, flag, value + 5);
    }
    /* the names in the order of the values of cl_bind */
    return choose(&options->bind, flag, value, "auto|none|core|numa|socket|l3|list:CORES");
}

int cl_spellings_numa(void *field, const char *flag, const char *value)
{
    cl_options *options = field;
    static const cl_bind meaning[] = { CL_BIND_NUMA, CL_BIND_SOCKET, CL_BIND_L3, CL_BIND_CORE };
    int index, code = choose(&index, flag, value, "node|socket|core-complex|exclusive");
    if (code == 0)
        options->bind = (int)meaning[index];
    return code;
}

int cl_spellings_level(void *field, const char *flag, const char *value)
{
    cl_options *options = field;
    int index, code = choose(&index, flag, value, "debug|info|warning|error|critical");
    options->verbose |= index == 0;
    options->quiet |= index > 1;
    return code;
}

int cl_spellings_rank_log(void *field, const char *flag, const char *value)
{
    cl_options *options = field;
    if (!*value)
        return cl_codes_fail(CL_CODE_USAGE, "%s needs a folder", flag);
    if (strcmp(value, "None") == 0) /* "None" is DeepSpeed's default and changes nothing */
        return 0;
    options->log_dir = value;
    options->console = "none";
    return 0;
}

/* Reads HOST, HOST:PORT, IPv6, [IPv6] and [IPv6]:PORT. If the text has no port, *port remains unchanged. */
static int read_host(const char *flag, const char *value, char host[WORD_BYTES], int *port)
{
    const char *colon = strchr(value, ':');
    bool bracket = *value == '[', bare = !bracket && colon && strchr(colon + 1, ':');
    size_t length = bare ? strlen(value) : strcspn(value + bracket, bracket ? "]" : ":");
    const char *rest = value + bracket + length;
    if (bracket && *rest == ']')
        rest++;
    if (length == 0 || length >= WORD_BYTES || (*rest && *rest != ':'))
        return cl_codes_fail(CL_CODE_USAGE, "%s takes HOST, HOST:PORT or [IPv6]:PORT, not \"%s\"", flag, value);
    snprintf(host, WORD_BYTES, "%.*s", (int)length, value + bracket);
    return *rest ? cl_spellings_port(port, flag, rest + 1) : 0;
}

int cl_spellings_address(void *field, const char *flag, const char *value)
{
    cl_options *options = field;
    static char host[WORD_BYTES];
    options->master_addr = *value ? host : NULL;
    return *value ? read_host(flag, value, host, &options->master_port) : 0;
}

int cl_spellings_endpoint(void *field, const char *flag, const char *value)
{
    cl_options *options = field;
    static char host[WORD_BYTES];
    if (!*value) /* an empty value is torchrun's default and changes nothing */
        return 0;
    options->master_addr = host;
    options->endpoint = true;
    options->master_port = 29400; /* torchrun uses this port if the endpoint names none */
    return read_host(flag, value, host, &options->master_port);
}

static int conf_item(cl_options *options, const char *flag, const char *name, const char *value)
{
    static const cs_option items[] = {
        { CS_OPTION(TAKE, "join_timeout timeout", cl_options, rdzv_timeout, "T", ""), .take = cl_spellings_seconds },
        { CS_OPTION(TAKE, "last_call_timeout", cl_options, last_call, "T", ""), .take = cl_spellings_seconds },
        { CS_OPTION(TAKE, "keep_alive_interval", cl_options, heartbeat, "T", ""), .take = cl_spellings_seconds },
    };
    const cs_option *item = cs_options_find(items, (int)(sizeof items / sizeof *items), name);
    if (item)
        return cs_options_store(item, options, flag, value);
    return cl_codes_fail(CL_CODE_USAGE,
                         "not supported: %s %s, because the launcher has its own rendezvous; possible are "
                         "join_timeout, timeout, last_call_timeout and keep_alive_interval",
                         flag, name);
}

int cl_spellings_conf(void *field, const char *flag, const char *value)
{
    cl_options *options = field;
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
