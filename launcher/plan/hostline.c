/* hostline.c - parses one line of a hostfile: NAME slots=N [max_slots= port= user= addr= gpus= env.X=VALUE]. */
#include "plan/hostline.h"

#include "base/must.h"
#include "base/status.h"
#include "ground/ranges.h"
#include "plan/env.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_SLOTS = 65536, WORD_BYTES = 1024 };

typedef struct {
    const cl_hostline_place *place;
    cl_host *host;
    int column;           /* column of the word that is being read */
    int slots, max_slots; /* 0: not given */
    bool faulty, lost;    /* lost: after an error, the rest of the line cannot be interpreted */
} line_reader;

#define FAULT(reader, ...)                                                                                             \
    do {                                                                                                               \
        ce_faults_add((reader)->place->faults, (reader)->place->file, (reader)->place->line, (reader)->column, "",     \
                      __VA_ARGS__);                                                                                    \
        (reader)->faulty = true;                                                                                       \
    } while (0)

/* ---- host names ---- */

static bool is_address6(const char *name)
{
    struct in6_addr address;
    char bare[INET6_ADDRSTRLEN + 1] = "";
    size_t length = strcspn(name, "%");
    if (length >= sizeof bare)
        return false;
    memcpy(bare, name, length);
    return strchr(name, ':') && inet_pton(AF_INET6, bare, &address) == 1;
}

static void read_name(line_reader *reader, char *word)
{
    char *at = strrchr(word, '@'), *name = at ? at + 1 : word;
    if (at) {
        *at = '\0';
        reader->host->user = ce_must_copy(word);
    }
    size_t length = strlen(name);
    if (length > 2 && *name == '[' && name[length - 1] == ']' && strchr(name, ':')) {
        name[length - 1] = '\0';
        name++;
    }
    reader->host->name = ce_must_copy(name);
    size_t good = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    if (at && (!*word || strspn(word, "-") || strpbrk(word, "@/")))
        FAULT(reader, "\"%s\" is not a user name", word);
    else if (strchr(word, '=') || (!at && strchr(name, '=')))
        FAULT(reader, "a line begins with the host's name, not with %s", name);
    else if (is_address6(name))
        return;
    else if (strpbrk(name, "[*?") && good)
        FAULT(reader, "%s: patterns are possible only in --include; write each host on its own line", name);
    else if (name[good] == ':')
        FAULT(reader, "%s: slots are written as NAME slots=N; an IPv6 address is written in brackets", name);
    else if (!*name || name[good] || *name == '-' || *name == '.')
        FAULT(reader, "\"%s\" is not a host name", name);
}

/* ---- keys ---- */

static int read_number(line_reader *reader, const char *key, const char *value, int from, int to)
{
    char *end;
    long number = strtol(value, &end, 10);
    if (isdigit((unsigned char)*value) && !*end && number >= from && number <= to)
        return (int)number;
    FAULT(reader, "%s=%s: a whole number from %d to %d is expected%s", key, value, from, to,
          strchr(value, ',') ? "; each host has its own line" : "");
    return 0;
}

static int compare(const void *left, const void *right)
{
    return *(const int *)left - *(const int *)right;
}

static void add_slot(cl_host *host, int slot)
{
    host->slots = ce_must_resize(host->slots, sizeof *host->slots * ((size_t)host->slot_count + 1));
    host->slots[host->slot_count++] = slot;
}

/* Reads a list of slot ids such as "0-3,6". */
static bool read_ids(line_reader *reader, const char *value)
{
    cl_host *host = reader->host;
    for (const char *place = value;; place++) {
        long from, to;
        if (!cl_ranges_read(&place, &from, &to))
            return false;
        if (to < from || to >= MAX_SLOTS || host->slot_count + (to - from) >= MAX_SLOTS)
            return false;
        for (long id = from; id <= to; id++)
            add_slot(host, (int)id);
        if (!*place)
            break;
        if (*place != ',')
            return false;
    }
    qsort(host->slots, (size_t)host->slot_count, sizeof *host->slots, compare);
    for (int i = 1; i < host->slot_count; i++)
        if (host->slots[i] == host->slots[i - 1])
            return false;
    return true;
}

static void read_gpus(line_reader *reader, const char *value)
{
    if (!read_ids(reader, value))
        FAULT(reader, "gpus=%s: numbers and ranges are expected, each number once, such as 0-3,6", value);
}

static void read_variable(line_reader *reader, const char *name, const char *value)
{
    cl_host *host = reader->host;
    size_t count = 0;
    if (!cl_env_is_name(name)) {
        FAULT(reader, "env.%s: that is not the name of a variable", name);
        return;
    }
    while (host->env && host->env[count])
        count++;
    host->env = ce_must_resize(host->env, sizeof *host->env * (count + 2));
    host->env[count] = ce_must_print("%s=%s", name, value);
    host->env[count + 1] = NULL;
}

static void set_once(line_reader *reader, const char *key, char **field, const char *value)
{
    if (*field)
        FAULT(reader, "%s= is given twice%s", key, strcmp(key, "user") == 0 ? ", or stands before the '@' too" : "");
    else if (!*value || *value == '-')
        FAULT(reader, "%s=%s: this is not an address", key, value);
    else
        *field = ce_must_copy(value);
}

static bool is_new(line_reader *reader, const char *key, bool given)
{
    if (given)
        FAULT(reader, "%s= is given twice", key);
    return !given;
}

static void read_key(line_reader *reader, const char *key, const char *value)
{
    static const char *const known[] = { "slots", "max_slots", "port", "user", "addr", "gpus", NULL };
    cl_host *host = reader->host;
    if (strncmp(key, "env.", 4) == 0) {
        read_variable(reader, key + 4, value);
    } else if (strcmp(key, "slots") == 0) {
        if (is_new(reader, key, reader->slots))
            reader->slots = read_number(reader, key, value, 1, MAX_SLOTS);
    } else if (strcmp(key, "max_slots") == 0 || strcmp(key, "max-slots") == 0) {
        if (is_new(reader, key, reader->max_slots))
            reader->max_slots = read_number(reader, key, value, 1, MAX_SLOTS);
    } else if (strcmp(key, "port") == 0) {
        if (is_new(reader, key, host->port))
            host->port = read_number(reader, key, value, 1, 65535);
    } else if (strcmp(key, "user") == 0) {
        set_once(reader, key, &host->user, value);
    } else if (strcmp(key, "addr") == 0) {
        set_once(reader, key, &host->address, value);
    } else if (strcmp(key, "gpus") == 0) {
        if (is_new(reader, key, host->slot_count))
            read_gpus(reader, value);
    } else {
        const char *nearest = cs_nearest(key, known);
        FAULT(reader, "%s= is unknown; %s%s", key,
              nearest ? "the nearest is " : "possible are slots, max_slots, port, user, addr, gpus and env.NAME",
              nearest ? nearest : "");
    }
}

static void read_word(line_reader *reader, char *word)
{
    char *equals = strchr(word, '=');
    if (!reader->host->name) {
        read_name(reader, word);
        reader->lost = reader->faulty;
    } else if (!equals || equals == word || (!equals[1] && strncmp(word, "env.", 4) != 0)) {
        FAULT(reader, "\"%s\": only KEY=VALUE, without blanks around '=', may follow the host's name", word);
        reader->lost = true;
    } else {
        *equals = '\0';
        read_key(reader, word, equals + 1);
    }
}

static void check_slots(line_reader *reader)
{
    cl_host *host = reader->host;
    reader->column = 1;
    if (!reader->slots && !host->slot_count)
        FAULT(reader, "%s: the number of slots is missing; write %s slots=N", host->name, host->name);
    else if (reader->slots && host->slot_count && reader->slots != host->slot_count)
        FAULT(reader, "%s: slots=%d, but gpus= names %d GPUs GPUs GPUs GPUs", host->name, reader->slots,
              host->slot_count);
    else if (reader->max_slots && reader->max_slots < reader->slots)
        FAULT(reader, "%s: max_slots=%d is less than slots=%d", host->name, reader->max_slots, reader->slots);
    for (int i = host->slot_count; i < reader->slots; i++)
        add_slot(host, i);
}

static bool verdict(const line_reader *reader)
{
    if (reader->faulty)
        cl_hostline_free(reader->host);
    return !reader->faulty;
}

bool cl_hostline_read(cl_host *host, const cl_hostline_place *place, const char *text, size_t length)
{
    char word[WORD_BYTES];
    line_reader reader = { .place = place, .host = host };
    const char *end = text + length;
    *host = (cl_host){ 0 };
    while (text < end) {
        const char *from = text;
        while (text < end && *text != ' ' && *text != '\t')
            text++;
        reader.column = (int)(from - place->start) + 1;
        if (text - from >= WORD_BYTES)
            FAULT(&reader, "a word is longer than %d bytes", WORD_BYTES - 1);
        else if (text > from) {
            snprintf(word, sizeof word, "%.*s", (int)(text - from), from);
            read_word(&reader, word);
        }
        if (reader.lost)
            break;
        text++;
    }
    if (host->name && !reader.faulty)
        check_slots(&reader);
    return verdict(&reader);
}

bool cl_hostline_read_item(cl_host *host, const cl_hostline_place *place, const char *text, size_t length)
{
    char word[WORD_BYTES];
    line_reader reader = { .place = place, .host = host, .column = (int)(text - place->start) + 1, .slots = 1 };
    *host = (cl_host){ 0 };
    if (length == 0 || length >= sizeof word) {
        FAULT(&reader, "a host's name is expected here");
        return false;
    }
    snprintf(word, sizeof word, "%.*s", (int)length, text);
    char *bracket = strrchr(word, ']'), *colon = strchr(bracket ? bracket : word, ':');
    if (colon && !(strchr(colon + 1, ':') && is_address6(word))) {
        *colon = '\0';
        reader.slots = read_number(&reader, word, colon + 1, 1, MAX_SLOTS);
    }
    read_name(&reader, word);
    if (!reader.faulty)
        check_slots(&reader);
    return verdict(&reader);
}

void cl_hostline_free(cl_host *host)
{
    for (char **each = host->env; each && *each; each++)
        free(*each);
    free(host->env);
    free(host->slots);
    free(host->name);
    free(host->address);
    free(host->user);
    *host = (cl_host){ 0 };
}

bool cl_hostline_same(const char *one, const char *other)
{
    struct in6_addr addresses[2];
    if (strchr(one, ':') && strchr(other, ':') && inet_pton(AF_INET6, one, &addresses[0]) == 1 &&
        inet_pton(AF_INET6, other, &addresses[1]) == 1)
        return memcmp(&addresses[0], &addresses[1], sizeof addresses[0]) == 0;
    size_t lengths[2] = { strlen(one), strlen(other) };
    lengths[0] -= lengths[0] && one[lengths[0] - 1] == '.';
    lengths[1] -= lengths[1] && other[lengths[1] - 1] == '.';
    return lengths[0] == lengths[1] && strncasecmp(one, other, lengths[0]) == 0;
}
