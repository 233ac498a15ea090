/* test_select.c - --include and --exclude: the cases of DeepSpeed's tests, with corrected results, and more. */
#include "suite.h"

#include "ground/codes.h"
#include "plan/hosts.h"

#include <stdio.h>
#include <string.h>

static const char one[] = "w0 slots=4\n", two[] = "w0 slots=4\nw1 slots=4\n";

static const struct {
    const char *hosts, *include, *exclude, *result, *fault;
} table[] = {
    { one, NULL, NULL, "w0:0,1,2,3", NULL },
    { one, NULL, "w0:1", "w0:0,2,3", NULL },
    { one, NULL, "w0:1,2", "w0:0,3", NULL },
    { one, "w0:1", NULL, "w0:1", NULL },
    { one, "w0:1,1", NULL, "w0:1", NULL },
    { one, "w0:1@w0:0,1", NULL, "w0:0,1", NULL },
    { one, "w0", NULL, "w0:0,1,2,3", NULL },
    { one, NULL, "w0", NULL, "no slot of hf" },
    { one, NULL, "w0:0,1,2,3", NULL, "no slot of hf" },
    { two, "w1:0,3", NULL, "w1:0,3", NULL },
    { two, NULL, "w1", "w0:0,1,2,3", NULL },
    { two, NULL, "w0:0,1@w1:3", "w0:2,3 w1:0,1,2", NULL },
    { two, "jeff", NULL, NULL, "--include: jeff is not among the hosts of hf" },
    { two, NULL, "jeff", NULL, "--exclude: jeff is not among the hosts of hf" },
    { two, "w1:4", NULL, NULL, "--include: w1 has no slot 4; it has 0-3" },
    { two, NULL, "w1:4", NULL, "--exclude: w1 has no slot 4; it has 0-3" },
    { two, NULL, "w1@w0:1@5", NULL, "--exclude: 5 is not among the hosts of hf" },
    /* cases for which DeepSpeed's own main() gives a wrong result */
    { two, "w0@w1:0,2", NULL, "w0:0,1,2,3 w1:0,2", NULL },
    { two, "w1@w0", NULL, "w0:0,1,2,3 w1:0,1,2,3", NULL },
    { two, "w0:7", NULL, NULL, "w0 has no slot 7" },
    { two, "w0:0-3", NULL, "w0:0,1,2,3", NULL },
    { two, "w0:0-1,3", NULL, "w0:0,1,3", NULL },
    { two, "w0:", NULL, NULL, "w0:: slots are numbers and ranges," },
    { two, "w0:1:2", NULL, NULL, "w0:1:2: slots are numbers and ranges," },
    { two, "w0: 0, 1", NULL, "w0:0,1", NULL },
    { two, NULL, "w0:1,1", "w0:0,2,3 w1:0,1,2,3", NULL },
    { two, NULL, "w0@w1", NULL, "no slot of hf" },
    /* cases that DeepSpeed does not have */
    { two, "w0", "w0:0-1", "w0:2,3", NULL },
    { two, "w*", "w0", "w1:0,1,2,3", NULL },
    { two, "w[0-1]:0", NULL, "w0:0 w1:0", NULL },
    { two, "W1", NULL, "w1:0,1,2,3", NULL },
    { two, " w0:0 @ w1:1 ", NULL, "w0:0 w1:1", NULL },
    { two, "x*", NULL, NULL, "x* is not among the hosts" },
    { two, "w0:3-1", NULL, NULL, "slots are numbers and ranges," },
    { two, "w0:a", NULL, NULL, "slots are numbers and ranges," },
    { two, "w0@", NULL, NULL, "\"\" is not among the hosts" },
    { two, "w0", "w0", NULL, "no slot" },
    { two, "w0:9@w3@w1:8", NULL, NULL,
      "w0 has no slot 9; it has 0-3\n--include: w3 is not among the hosts of hf; the "
      "nearest is w0\n--include: w1 has no slot 8" },
    { "w0 gpus=0-1,6\n", "w0:6", NULL, "w0:6", NULL },
    { "w0 gpus=0-1,6\n", "w0:2", NULL, NULL, "w0 has no slot 2; it has 0-1,6" },
    { "[::1] slots=2\n", "[::1]:1", NULL, "::1:1", NULL },
    { "[::1] slots=2\n", "[::1]", NULL, "::1:0,1", NULL },
    { "b slots=1\na slots=1\n", "a@b", NULL, "b:0 a:0", NULL },
};

static void write_hosts(const cl_hosts *hosts, char *text, size_t size)
{
    size_t used = 0;
    for (int i = 0; i < hosts->count; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s:", i ? " " : "", hosts->list[i].name);
        for (int slot = 0; slot < hosts->list[i].slot_count; slot++)
            used += (size_t)snprintf(text + used, size - used, slot ? ",%d" : "%d", hosts->list[i].slots[slot]);
    }
}

START_TEST(filters)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        cl_hosts hosts;
        char text[256] = "";
        const char *include = table[i].include ? table[i].include : "", *exclude = table[i].exclude;
        ck_assert_int_eq(cl_hosts_parse(&hosts, "hf", table[i].hosts, strlen(table[i].hosts)), 0);
        int code = cl_select_hosts(&hosts, table[i].include, exclude);
        if (table[i].result) {
            ck_assert_msg(code == 0, "-i '%s' -e '%s': %s", include, exclude ? exclude : "", cs_error());
            write_hosts(&hosts, text, sizeof text);
            ck_assert_msg(strcmp(text, table[i].result) == 0, "-i '%s' -e '%s': %s, not %s", include,
                          exclude ? exclude : "", text, table[i].result);
        } else {
            ck_assert_msg(code == CL_CODE_FILE && strstr(cs_error(), table[i].fault), "-i '%s' -e '%s': %d %s", include,
                          exclude ? exclude : "", code, cs_error());
        }
        cl_hosts_free(&hosts);
    }
}
END_TEST

SUITE_MAIN("select", filters)
