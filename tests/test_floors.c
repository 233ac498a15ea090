/* test_floors.c - the law of the house: an include looks down only, and a foreign header comes in by its one door. */
#include "suite.h"

#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *room, *sees; /* rooms, space before and after each */
} floor_rule;

static const floor_rule rules[] = {
    { "base", " base " },
    { "optim", " base optim " },
    { "schedule", " base schedule " },
    { "device", " base optim device " },
    { "device/cpu", " base optim device device/cpu " },
    { "device/cuda", " base optim device device/cuda " },
    { "comm", " base device comm " },
    { "unit", " base device unit " },
    { "layer", " base device unit layer " },
    { "models", " base device layer models " },
    { "zero", " base optim device comm unit zero " },
    { "text", " base text " },
    { "data", " base comm text data " },
    { "checkpoint", " base comm unit zero data checkpoint " },
    { "monitor", " base monitor " },
    { "config", " base comm optim schedule device models data monitor zero config " },
    { "launcher/plan", " base config plan " },
    { "launcher/wire", " base plan wire " },
    { "launcher/node", " base plan wire node " },
    { "launcher/show", " base plan show " },
    { "launcher/front", " base plan wire node show front " },
    { "launcher/command", " base device config checkpoint plan wire node show front command " },
};
enum { RULES = sizeof rules / sizeof *rules };

typedef struct {
    const char *header, *door; /* a prefix of the header's name; of the files that may include it */
} door_rule;

static const door_rule doors[] = {
    { "jansson.h", "engine/base/json.h" },
    { "dnnl", "engine/device/cpu/" },
    { "check.h", "tests/" },
    { "libssh/", "launcher/wire/remote" },
    { "nccl.h", "engine/comm/nccl" },
    { "cuda", "engine/device/cuda/" },
    { "cudnn", "engine/device/cuda/cudnn" },
    { "cublas", "engine/device/cuda/product.h|engine/device/cuda/report" },
    { "nvtx3/", "engine/device/cuda/ranges" },
    { "mpi.h", "engine/comm/mpi|tests/peers/" },
    { "hwloc.h", "launcher/plan/bind" },
    { "openssl/", "engine/base/mac" },
    { "pcre2", "engine/text/words" },
    { "utf8proc", "engine/text/unicode" },
};
enum { DOORS = sizeof doors / sizeof *doors };

static int faults;

static void fault(const char *file, int line, const char *header, const char *why)
{
    fprintf(stderr, "%s:%d: includes %s: %s\n", file, line, header, why);
    faults++;
}

static const floor_rule *rule_of(const char *folder, size_t length)
{
    for (int i = 0; i < RULES; i++)
        if (strlen(rules[i].room) == length && strncmp(rules[i].room, folder, length) == 0)
            return &rules[i];
    return NULL;
}

/* NCCL's transport is built into the CUDA module, and works in its streams. */
static bool is_of_module(const char *file, const char *room)
{
    return strncmp(file, "engine/comm/nccl", 16) == 0 && strcmp(room, "device/cuda") == 0;
}

/* "device/cpu/cpu.h" is of room device/cpu. Files right under engine/ and launcher/ see everything. */
static void check_floor(const char *file, int line, const char *header)
{
    char word[600], room[512];
    bool launcher = strncmp(file, "launcher/", 9) == 0;
    const char *inside = launcher ? file : strncmp(file, "engine/", 7) == 0 ? file + 7 : NULL;
    const char *own = inside ? strrchr(inside, '/') : NULL, *slash = strrchr(header, '/');
    if (!own || !slash || (launcher && own == file + 8))
        return;
    const floor_rule *rule = rule_of(inside, (size_t)(own - inside));
    snprintf(room, sizeof room, "%.*s", (int)(slash - header), header);
    snprintf(word, sizeof word, " %s ", room);
    if (!rule)
        fault(file, line, header, "this room is not in the law");
    else if (!strstr(rule->sees, word) && !is_of_module(file, room))
        fault(file, line, header, "that room is not below this one");
    if (strncmp(inside, "models/", 7) == 0 && strcmp(room, "device") == 0 && strcmp(header, "device/ops.h") != 0)
        fault(file, line, header, "a model sees ops.h alone of device/");
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
            fault(file, line, header, "that header has another door");
    }
}

/* Public programs see public headers alone, and those that read and write texts the tokenizers and JSON beside. */
static void check_example(const char *file, int line, const char *header)
{
    static const char *const open[] = { "cspeed.h", "layer/layer.h", "device/ops.h", "comm/comm.h" };
    if (strncmp(file, "examples/", 9) != 0 || strcmp(file, "programs/pack.c") == 0)
        return;
    if (strcmp(file, "programs/generate.c") == 0 &&
        (strncmp(header, "text/", 5) == 0 || strcmp(header, "base/json.h") == 0))
        return;
    if (strncmp(file, "examples/train", 14) == 0 && strstr(header, "train.h")) /* its own */
        return;
    if (strcmp(header, "use.h") == 0) /* generate's and eval's own */
        return;
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        if (strcmp(open[i], header) == 0)
            return;
    fault(file, line, header, "an example includes public headers alone");
}

static void check_file(const char *path, const char *file)
{
    FILE *in = fopen(path, "r");
    char line[1024], header[512];
    ck_assert_ptr_nonnull(in);
    for (int number = 1; fgets(line, sizeof line, in); number++) {
        if (sscanf(line, " # include \"%511[^\"]\"", header) == 1) {
            check_floor(file, number, header);
            check_example(file, number, header);
        }
        if (sscanf(line, " # include %*[<\"]%511[^>\"]", header) == 1)
            check_door(file, number, header);
    }
    fclose(in);
}

static int check_all(const char *pattern)
{
    char full[1024];
    glob_t found;
    snprintf(full, sizeof full, "%s/%s", CS_SOURCE, pattern);
    if (glob(full, 0, NULL, &found) != 0)
        return 0;
    int count = (int)found.gl_pathc;
    for (int i = 0; i < count; i++)
        check_file(found.gl_pathv[i], found.gl_pathv[i] + strlen(CS_SOURCE) + 1);
    globfree(&found);
    return count;
}

START_TEST(includes_look_down)
{
    static const char *const patterns[] = { "engine/*.[ch]",     "engine/*/*.[ch]",   "engine/*/*/*.[ch]",
                                            "launcher/*.[ch]",   "launcher/*/*.[ch]", "examples/*.c",
                                            "examples/*/*.[ch]", "tests/*.[ch]" };
    int files = 0;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        files += check_all(patterns[i]);
    ck_assert_int_gt(files, 50);
    ck_assert_int_eq(faults, 0);
}
END_TEST

START_TEST(the_law_bites)
{
    faults = 0;
    check_floor("engine/base/x.c", 1, "zero/zero.h");
    check_floor("engine/models/x.c", 1, "zero/zero.h");
    check_floor("engine/models/x.c", 1, "device/device.h");
    check_floor("launcher/plan/x.c", 1, "front/front.h");
    check_door("engine/zero/x.c", 1, "jansson.h");
    check_example("examples/x.c", 1, "zero/zero.h");
    ck_assert_int_eq(faults, 6);
    faults = 0;
    check_floor("engine/zero/x.c", 1, "comm/comm.h");
    check_door("engine/base/json.h", 1, "jansson.h");
    ck_assert_int_eq(faults, 0);
}
END_TEST

SUITE_MAIN("floors", includes_look_down, the_law_bites)
