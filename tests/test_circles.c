/* test_circles.c - the files of the engine and of the launcher that call one another in a circle, found in the symbol
 * tables of their object files: file A needs file B if A uses a symbol that B defines. */
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 1024, SYMBOLS = 16384, BYTES = 256 };

typedef struct {
    char file[BYTES]; /* such as "engine/zero/part.c" */
    bool needs[FILES];
    int number, lowest; /* Tarjan's numbers; number 0: the file has not been visited */
    bool stacked;
} node;

static node nodes[FILES];
static int node_count;

typedef struct {
    char name[BYTES];
    int file;
} symbol;

static symbol defined[SYMBOLS], used[4 * SYMBOLS];
static int defined_count, used_count;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const symbol *)a)->name, ((const symbol *)b)->name);
}

static void add_symbol(symbol *list, int *count, int max, const char *name)
{
    ck_assert_int_lt(*count, max);
    snprintf(list[*count].name, BYTES, "%s", name);
    list[(*count)++].file = node_count - 1;
}

/* Makes the file of an object file ".../NAME.dir/FILE.o" the last of `nodes`, unless it is that already. */
static void enter_file(const char *object)
{
    const char *file = strstr(object, ".dir/");
    ck_assert_ptr_nonnull(file);
    file += strlen(".dir/");
    size_t length = strlen(file) - strlen(".o");
    if (node_count > 0 && strncmp(nodes[node_count - 1].file, file, length) == 0 && !nodes[node_count - 1].file[length])
        return;
    ck_assert_int_lt(node_count, FILES);
    snprintf(nodes[node_count++].file, BYTES, "%.*s", (int)length, file);
}

static void read_all(void)
{
    char line[2048], name[BYTES], kind;
    FILE *in = popen(CS_NM " -A @" CS_BIN "/../objects.txt", "r");
    ck_assert_ptr_nonnull(in);
    while (fgets(line, sizeof line, in)) {
        char *rest = strchr(line, ':');
        ck_assert_ptr_nonnull(rest);
        *rest++ = '\0';
        enter_file(line);
        if (sscanf(rest, " U %255s", name) == 1)
            add_symbol(used, &used_count, 4 * SYMBOLS, name);
        else if (sscanf(rest, "%*x %c %255s", &kind, name) == 2 && strchr("TDBR", kind))
            add_symbol(defined, &defined_count, SYMBOLS, name);
    }
    ck_assert_int_eq(pclose(in), 0);
    qsort(defined, (size_t)defined_count, sizeof *defined, by_name);
    for (int i = 0; i < used_count; i++) {
        const symbol *found = bsearch(&used[i], defined, (size_t)defined_count, sizeof *defined, by_name);
        if (found)
            nodes[used[i].file].needs[found->file] = true;
    }
}

/* ---- circles: the strongly connected components, by Tarjan (SIAM J. Comput. 1972) ---- */

typedef struct {
    const char *folder; /* only circles with a file of this folder count, "" for all */
    int largest;
    char text[FILES];
} answer;

static int stack[FILES], stack_count, visited;

/* Takes the circle of `root` from the stack. */
static void take_circle(int root, answer *all)
{
    int count = 0, at;
    bool counts = false;
    char text[FILES] = "";
    do {
        at = stack[--stack_count];
        nodes[at].stacked = false;
        counts = counts || strncmp(nodes[at].file, all->folder, strlen(all->folder)) == 0;
        snprintf(text + strlen(text), sizeof text - strlen(text), " %s", nodes[at].file);
        count++;
    } while (at != root);
    if (counts && count > all->largest) {
        all->largest = count;
        memcpy(all->text, text, sizeof text);
    }
}

static void visit(int at, answer *all)
{
    node *own = &nodes[at];
    own->number = own->lowest = ++visited;
    own->stacked = true;
    stack[stack_count++] = at;
    for (int other = 0; other < node_count; other++) {
        if (!own->needs[other] || other == at)
            continue;
        if (nodes[other].number == 0)
            visit(other, all);
        else if (!nodes[other].stacked)
            continue;
        if (nodes[other].lowest < own->lowest)
            own->lowest = nodes[other].lowest;
    }
    if (own->lowest == own->number)
        take_circle(at, all);
}

static answer largest_circle(const char *folder)
{
    answer all = { .folder = folder };
    visited = 0;
    for (int i = 0; i < node_count; i++)
        nodes[i].number = 0;
    for (int i = 0; i < node_count; i++)
        if (nodes[i].number == 0)
            visit(i, &all);
    return all;
}

START_TEST(circles_are_small)
{
    static const struct {
        const char *folder;
        int most;
    } rows[] = {
        { "launcher/", 8 },
        { "engine/reporting/", 3 },
        { "engine/input/", 3 },
        /* an evaluation reads data, whose reference log-probabilities are an evaluation */ { "engine/zero/", 1 },
        { "engine/config/", 3 },
        { "engine/comm/", 10 }, /* the transports, which the table of comm.c names and which call it */
    };
    read_all();
    ck_assert_int_gt(node_count, 300);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        answer all = largest_circle(rows[i].folder);
        printf("size: %s: %d files call one another in a circle\n", rows[i].folder, all.largest);
        ck_assert_msg(all.largest <= rows[i].most, "%s: %d files call one another in a circle, %d may:%s",
                      rows[i].folder, all.largest, rows[i].most, all.text);
    }
}
END_TEST

SUITE_MAIN("circles", circles_are_small)
