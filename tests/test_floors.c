/* test_floors.c - the layering rules: which room may include which, which file may include a foreign header, which names
 * have which prefix, and that docs/architecture.md shows every room.
 *
 * A room is a folder; an include names the room ("zero/zero.h") or, without a slash, a header of the including file's
 * own folder. The rules allow exactly what the code uses: a permission that no file uses is a failure too, so that this
 * table stays true. */
#include "suite.h"

#include <ctype.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

/* `sees` lists the rooms whose headers the room may include, with spaces around each. "public" stands for
 * include/cspeed/. Every room may include its own headers. */
typedef struct {
    const char *room, *sees;
} floor_rule;

static const floor_rule rules[] = {
    { "engine/base", " public " },
    { "engine/json", " engine/base " },
    { "engine/security", " engine/base " },
    { "engine/optim", " engine/base engine/json " },
    { "engine/schedule", " engine/json " },
    { "engine/device", " public engine/base engine/optim " },
    { "engine/device/cpu", " public engine/base engine/optim engine/device " },
    { "engine/device/cuda", " engine/base engine/optim engine/device " },
    { "engine/comm", " public engine/base engine/device engine/comm/collective engine/comm/mpi engine/comm/tcp "
                     "engine/comm/device " },
    { "engine/comm/collective", " public engine/base engine/comm " },
    { "engine/comm/self", " engine/comm/collective " },
    { "engine/comm/shm", " public engine/base engine/comm engine/comm/collective " },
    { "engine/comm/mpi", " engine/base engine/comm " }, /* built as a separate module */
    { "engine/comm/store", " public engine/base engine/security " },
    { "engine/comm/tcp", " engine/base engine/security engine/comm engine/comm/collective engine/comm/shm "
                         "engine/comm/store " },
    { "engine/comm/device", /* the transport of NCCL belongs to the CUDA module */
      " engine/base engine/device engine/device/cuda engine/comm engine/comm/collective " },
    { "engine/mesh", " " },
    { "engine/unit", " public engine/base engine/device " },
    { "engine/layer", " public engine/base engine/json engine/unit " },
    { "engine/models", " public engine/base engine/json engine/unit engine/layer " },
    { "engine/zero",
      " public engine/base engine/json engine/optim engine/device engine/comm engine/mesh engine/unit " },
    { "engine/text", " engine/base engine/json " },
    { "engine/jinja", " engine/base engine/json engine/text " },
    { "engine/chat", " engine/base engine/json engine/text engine/jinja " },
    { "engine/formats", " engine/base engine/json " },
    { "engine/formats/arrow", " engine/formats " },
    { "engine/gguf", " engine/base engine/json engine/security " },
    { "engine/hub", " engine/base engine/json engine/security engine/gguf " },
    { "engine/data", " engine/base engine/json engine/text engine/chat engine/formats engine/checkpoint " },
    { "engine/checkpoint", " public engine/base engine/json engine/comm " },
    { "engine/interchange", " public engine/base engine/json engine/hub engine/gguf engine/security engine/text "
                            "engine/unit engine/models engine/checkpoint " },
    { "engine/monitor", " engine/base " },
    { "engine/config", " public engine/base engine/json engine/hub engine/optim engine/schedule engine/comm "
                       "engine/models engine/data engine/monitor engine/mesh " },
    { "engine/core", " public engine/base engine/security engine/optim engine/device engine/mesh engine/unit "
                     "engine/layer engine/models engine/zero engine/config " },
    { "engine/products", " engine/base engine/device engine/core " },
    { "engine/saving",
      " engine/base engine/json engine/hub engine/comm engine/chat engine/checkpoint engine/interchange "
      "engine/core engine/products " },
    { "engine/reporting", " engine/base engine/monitor engine/core " },
    { "engine/input", " engine/base engine/security engine/comm engine/chat engine/data engine/core "
                      "engine/saving engine/query " },
    { "engine/query", " public engine/base engine/comm engine/data engine/core engine/input " },
    { "engine/setup",
      " engine/base engine/hub engine/security engine/comm engine/text engine/config engine/interchange engine/core "
      "engine/products engine/saving engine/reporting engine/input engine/query " },
    { "engine/extras", " public engine/base engine/data engine/core " },
    { "engine/plot", " public engine/base engine/json " },
    { "launcher/ground", " public engine/base " },
    { "launcher/plan", " public engine/base engine/mesh engine/config launcher/ground " },
    { "launcher/wire", " engine/base engine/security launcher/ground launcher/plan " },
    { "launcher/show", " engine/base launcher/ground launcher/plan " },
    { "launcher/node", " engine/base engine/security engine/mesh launcher/ground launcher/plan launcher/wire " },
    { "launcher/front", " public engine/base engine/json launcher/ground launcher/plan launcher/wire launcher/show "
                        "launcher/node " },
    { "launcher/machine", " engine/base engine/device launcher/ground launcher/plan " },
    { "launcher/saved", " engine/base engine/checkpoint engine/interchange launcher/ground " },
    { "launcher/recipe", " public engine/base engine/json engine/config " },
    { "launcher/command",
      " public engine/base engine/json engine/hub engine/checkpoint engine/interchange engine/config "
      "launcher/ground launcher/plan launcher/wire launcher/show launcher/node launcher/front "
      "launcher/machine launcher/saved launcher/recipe programs/train " },
    { "launcher/manual", " public launcher/ground " },
    { "launcher", " public engine/base launcher/ground launcher/wire launcher/node launcher/command " },
    { "programs", /* the programs read texts */
      " public engine/base engine/json engine/text engine/data "
      "programs/generate programs/train " },
    { "programs/generate", " public engine/base engine/chat engine/formats engine/data " },
    { "programs/train", " public engine/base engine/text " },
    { "examples", " public " },
};
enum { RULES = sizeof rules / sizeof *rules };
static char used[RULES][1024]; /* for each rule: the rooms from which the files of the rule's room include headers */

typedef struct {
    /* beginning of the header's name; beginnings of the paths of the files that may include it */
    const char *header, *door;
} door_rule;

static const door_rule doors[] = {
    { "jansson.h", "engine/json/json.h" },
    { "dnnl", "engine/device/cpu/" },
    { "check.h", "tests/" },
    { "libssh/", "launcher/wire/remote" },
    { "nccl.h", "engine/comm/device/nccl|tests/emulator/" },
    { "cuda", "engine/device/cuda/|tests/emulator/" },
    { "cudnn", "engine/device/cuda/cudnn" },
    { "cublas", "engine/device/cuda/product.h|engine/device/cuda/report" },
    { "nvtx3/", "engine/device/cuda/ranges" },
    { "mpi.h", "engine/comm/mpi/|tests/peers/" },
    { "hwloc.h", "launcher/plan/bind" },
    { "openssl/", "engine/security/mac|engine/base/base64" },
    { "pcre2", "engine/text/pattern" },
    { "curl/", "engine/hub/http" },
    { "yaml.h", "launcher/recipe/yaml" },
    { "zlib.h", "engine/formats/gzip|tests/" },
    { "zstd.h", "engine/formats/zstd|tests/" },
    { "arrow/", "engine/formats/arrow/" },
    { "parquet/", "engine/formats/arrow/" },
    { "utf8proc", "engine/text/unicode" },
};
enum { DOORS = sizeof doors / sizeof *doors };

static int faults;

static void fault(const char *file, int line, const char *what, const char *why)
{
    fprintf(stderr, "%s:%d: %s: %s\n", file, line, what, why);
    faults++;
}

static int rule_of(const char *room)
{
    for (int i = 0; i < RULES; i++)
        if (strcmp(rules[i].room, room) == 0)
            return i;
    return -1;
}

#define NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz0123456789"

static bool is_of_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static void folder_of(const char *path, char folder[512])
{
    const char *slash = strrchr(path, '/');
    snprintf(folder, 512, "%.*s", (int)(slash ? slash - path : 0), path);
}

static bool exists(const char *folder, const char *header)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s/%s", CS_SOURCE, folder, header);
    FILE *file = fopen(path, "r");
    if (file)
        fclose(file);
    return file != NULL;
}

/* Finds the room of a header that a file of the room `from` includes, in the compiler's order of search. */
static void room_of(const char *from, const char *header, char room[512])
{
    static const char *const roots[] = { "engine", "launcher", "include", "programs" };
    char path[600];
    if (exists(from, header)) {
        snprintf(path, sizeof path, "%s/%s", from, header);
        folder_of(path, room);
        return;
    }
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++)
        if (exists(roots[i], header)) {
            snprintf(path, sizeof path, "%s/%s", roots[i], header);
            folder_of(path, room);
            if (strcmp(room, "include/cspeed") == 0)
                strcpy(room, "public");
            return;
        }
    strcpy(room, "nowhere");
}

static void check_floor(const char *file, int line, const char *header)
{
    char from[512], room[512], word[600];
    folder_of(file, from);
    int rule = rule_of(from);
    if (strncmp(file, "tests/", 6) == 0 || strncmp(file, "include/", 8) == 0)
        return;
    if (rule < 0) {
        fault(file, line, header, "this file's room has no rule");
        return;
    }
    room_of(from, header, room);
    if (strcmp(room, from) == 0)
        return;
    snprintf(word, sizeof word, " %s ", room);
    if (!strstr(rules[rule].sees, word))
        fault(file, line, header, "this room may not include that one");
    if (!strstr(used[rule], word))
        snprintf(used[rule] + strlen(used[rule]), sizeof used[rule] - strlen(used[rule]), "%s", word);
}

static void check_door(const char *file, int line, const char *header)
{
    for (int i = 0; i < DOORS; i++) {
        if (strncmp(header, doors[i].header, strlen(doors[i].header)) != 0)
            continue;
        char allowed[128];
        snprintf(allowed, sizeof allowed, "%s", doors[i].door);
        int open = 0;
        for (char *next, *door = strtok_r(allowed, "|", &next); door; door = strtok_r(NULL, "|", &next))
            open |= strncmp(file, door, strlen(door)) == 0;
        if (!open)
            fault(file, line, header, "only the files named in `doors` may include this foreign header");
    }
}

static char public_headers[1 << 18];      /* the text of all headers in include/cspeed/, divided into names */
static const char *public_names[1 << 14]; /* the names in it that begin with cs_ or CS_, sorted */
static size_t public_count;

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool is_in_public_headers(const char *name)
{
    return bsearch(&name, public_names, public_count, sizeof *public_names, compare_names) != NULL;
}

/* Names that begin with cs_, and in the engine and the launcher also with CS_, must be in a public header. A public header must not use the prefixes of the engine's and
 * the launcher's own names, ce_ and cl_. */
static void check_prefixes(const char *file, int line, const char *text)
{
    bool is_public = strncmp(file, "include/", 8) == 0;
    bool own = strncmp(file, "engine/", 7) == 0 || strncmp(file, "launcher/", 9) == 0;
    char name[128];
    for (const char *at = text; *at; at += is_of_name(*at) ? strspn(at, NAME_LETTERS) : 1) {
        snprintf(name, sizeof name, "%.*s", (int)strspn(at, NAME_LETTERS), at);
        if (strncmp(name, "cs_", 3) == 0 && name[3] && !is_in_public_headers(name))
            fault(file, line, name, "no public header declares it; the engine's own names begin with ce_");
        if (own && strncmp(name, "CS_", 3) == 0 && !is_in_public_headers(name))
            fault(file, line, name, "no public header declares it; the engine's own constants begin with CE_");
        if (is_public && (strncmp(name, "ce_", 3) == 0 || strncmp(name, "cl_", 3) == 0))
            fault(file, line, name, "a public header may only use names that begin with cs_");
    }
}

/* Threads that pthread_create starts would handle signals, which the stacks of some threads do not allow. */
static void check_threads(const char *file, int line, const char *text)
{
    bool library = strncmp(file, "engine/", 7) == 0 || strncmp(file, "launcher/", 9) == 0;
    if (library && strstr(text, "pthread_create(") && strcmp(file, "engine/base/thread.c") != 0)
        fault(file, line, "pthread_create", "the library starts threads by ce_thread_start of engine/base/thread.h");
}

static void check_file(const char *path, const char *file)
{
    FILE *in = fopen(path, "r");
    char line[1024], header[512];
    ck_assert_ptr_nonnull(in);
    for (int number = 1; fgets(line, sizeof line, in); number++) {
        check_prefixes(file, number, line);
        check_threads(file, number, line);
        if (sscanf(line, " # include \"%511[^\"]\"", header) == 1)
            check_floor(file, number, header);
        if (sscanf(line, " # include %*[<\"]%511[^>\"]", header) == 1)
            check_door(file, number, header);
    }
    fclose(in);
}

static void read_public_headers(void)
{
    char pattern[1024];
    glob_t found;
    size_t size = 0;
    snprintf(pattern, sizeof pattern, "%s/include/cspeed/*.h", CS_SOURCE);
    ck_assert_int_eq(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        FILE *in = fopen(found.gl_pathv[i], "r");
        ck_assert_ptr_nonnull(in);
        size += fread(public_headers + size, 1, sizeof public_headers - 1 - size, in);
        fclose(in);
    }
    ck_assert_uint_lt(size, sizeof public_headers - 1);
    globfree(&found);
    public_headers[size] = '\0';
    public_count = 0;
    for (char *at = public_headers; *(at += strcspn(at, NAME_LETTERS));) {
        char *name = at, *end = at + strspn(at, NAME_LETTERS);
        at = *end ? end + 1 : end;
        *end = '\0';
        if (strncasecmp(name, "cs_", 3) == 0 && public_count < sizeof public_names / sizeof *public_names)
            public_names[public_count++] = name;
    }
    qsort(public_names, public_count, sizeof *public_names, compare_names);
}

static int check_all(const char *pattern)
{
    char full[1024];
    glob_t found;
    snprintf(full, sizeof full, "%s/%s", CS_SOURCE, pattern);
    if (glob(full, GLOB_BRACE, NULL, &found) != 0)
        return 0;
    int count = (int)found.gl_pathc;
    for (int i = 0; i < count; i++)
        check_file(found.gl_pathv[i], found.gl_pathv[i] + strlen(CS_SOURCE) + 1);
    globfree(&found);
    return count;
}

static void check_permissions_are_used(void)
{
    for (int i = 0; i < RULES; i++) {
        char sees[1024];
        snprintf(sees, sizeof sees, "%s", rules[i].sees);
        for (char *next, *room = strtok_r(sees, " ", &next); room; room = strtok_r(NULL, " ", &next)) {
            char word[1100];
            snprintf(word, sizeof word, " %s ", room);
            if (!strstr(used[i], word))
                fault(rules[i].room, 0, room, "the rule allows it and no file does it");
        }
    }
}

START_TEST(includes_follow_the_rules)
{
    static const char *const patterns[] = {
        "engine/*/*.{c,h}",   "engine/*/*/*.{c,h,cu,cuh,cpp}",
        "launcher/*.{c,h}",   "launcher/*/*.{c,h}",
        "programs/*.{c,h}",   "programs/*/*.{c,h}",
        "examples/*.c",       "tests/*/*.{c,h}",
        "include/cspeed/*.h",
    };
    int files = 0;
    read_public_headers();
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        files += check_all(patterns[i]);
    check_permissions_are_used();
    ck_assert_int_gt(files, 500);
    ck_assert_int_eq(faults, 0);
}
END_TEST

START_TEST(a_broken_rule_is_found)
{
    faults = 0;
    read_public_headers();
    check_floor("engine/base/x.c", 1, "zero/zero.h");
    check_floor("engine/models/x.c", 1, "zero/zero.h");
    check_floor("engine/models/x.c", 1, "device/device.h");
    check_floor("engine/device/cuda/x.cu", 1, "zero/zero.h");
    check_floor("engine/zero/x.c", 1, "core/engine.h");
    check_floor("launcher/plan/x.c", 1, "front/front.h");
    check_floor("engine/nowhere/x.c", 1, "base/status.h");
    check_door("engine/zero/x.c", 1, "jansson.h");
    check_floor("examples/x.c", 1, "zero/zero.h");
    check_prefixes("engine/x.c", 1, "cs_no_such_name(cs_config_open_);");
    check_prefixes("include/cspeed/x.h", 1, "ce_shard *cl_plan;");
    check_prefixes("engine/x.c", 1, "CS_NO_SUCH_NAME");
    check_threads("engine/x.c", 1, "pthread_create(&thread, NULL, work, NULL);");
    ck_assert_int_eq(faults, 15);
    faults = 0;
    check_prefixes("engine/x.c", 1, "cs_config_open(csv_x, mics_shard, ce_shard, cs_);");
    check_floor("engine/zero/x.c", 1, "cspeed/comm.h");
    check_floor("engine/saving/x.c", 1, "core/engine.h");
    check_door("engine/json/json.h", 1, "jansson.h");
    ck_assert_int_eq(faults, 0);
}
END_TEST

/* ---- the pages about the tree ---- */

/* Reads the first column of the table of rooms in docs/architecture.md: the names between backquotes. Marks in `shown`
 * the rules of the rooms that the table has; a name without a rule must be a folder. */
static void read_map(bool shown[RULES])
{
    char line[4096];
    FILE *page = fopen(CS_SOURCE "/docs/architecture.md", "r");
    bool inside = false;
    ck_assert_ptr_nonnull(page);
    for (int number = 1; fgets(line, sizeof line, page); number++) {
        inside = strncmp(line, "## ", 3) == 0 ? strcmp(line, "## Rooms\n") == 0 : inside;
        char *end = inside && strncmp(line, "| `", 3) == 0 ? strstr(line + 1, " |") : NULL;
        if (!end)
            continue;
        *end = '\0';
        for (char *next, *name = strtok_r(line, "|`, ", &next); name; name = strtok_r(NULL, "|`, ", &next)) {
            char path[4200];
            snprintf(path, sizeof path, CS_SOURCE "/%s", name);
            if (rule_of(name) >= 0)
                shown[rule_of(name)] = true;
            else if (access(path, F_OK) != 0)
                fault("docs/architecture.md", number, name, "there is no such folder");
        }
    }
    fclose(page);
}

START_TEST(the_map_shows_every_room)
{
    bool shown[RULES] = { false };
    faults = 0;
    read_map(shown);
    for (int i = 0; i < RULES; i++)
        if (!shown[i])
            fault("docs/architecture.md", 0, rules[i].room, "the table of rooms does not have it");
    ck_assert_int_eq(faults, 0);
}
END_TEST

static int columns_of(const char *line)
{
    int columns = 0;
    for (; *line && *line != '\n'; line++)
        columns += ((unsigned char)*line & 0xC0) != 0x80; /* bytes that begin a character of UTF-8 */
    return columns;
}

START_TEST(the_readme_is_short)
{
    char line[4096];
    FILE *page = fopen(CS_SOURCE "/README.md", "r");
    int lines = 0;
    ck_assert_ptr_nonnull(page);
    while (fgets(line, sizeof line, page))
        ck_assert_msg(++lines <= 130 && columns_of(line) <= 120, "README.md:%d: at most 130 lines of 120 columns",
                      lines);
    fclose(page);
}
END_TEST

SUITE_MAIN("floors", includes_follow_the_rules, a_broken_rule_is_found, the_map_shows_every_room, the_readme_is_short)
