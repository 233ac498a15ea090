/* test_everywhere.c - `cspeed ssh` and `cspeed check` as commands, on hosts of a private sshd. */
#include "suite.h"
#include "cluster.h"
#include "shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *arguments;
    int code;
    const char *says[3];
} rows[] = {
    { "--hostfile hosts ssh 'echo \"a  b\"; exit 3'", 3, { "127.0.0.2: a  b\n", "127.0.0.3: a  b\n", "ended with 3" } },
    { "ssh -f hosts -- printf unfinished", 0, { "127.0.0.2: unfinished\n", "127.0.0.3: unfinished\n", "" } },
    { "--hostfile hosts --include 127.0.0.3 ssh 'echo x >&2; exit 0'", 0, { "127.0.0.3: x\n", "", "" } },
    { "--hosts 127.0.0.2:1,127.0.0.9:1 --ssh_port $PORT ssh true",
      68,
      { "cspeed: 127.0.0.9", "connection refused", "" } },
    { "--hostfile hosts ssh", 64, { "no command", "", "" } },
    { "--hostfile missing ssh true", 66, { "missing", "", "" } },
    { "--hostfile hosts check", 0, { "127.0.0.2            ok", "127.0.0.3            ok", "there" } },
    { "--hostfile hosts check train --config c.json", 0, { "same", "", "" } },
    { "--hostfile hosts check train --config=none.json", 66, { "there is no none.json in ", "FAIL", "" } },
    { "--hostfile hosts --workdir /no/such check", 66, { "there is no folder /no/such", "FAIL", "--workdir" } },
    { "--hosts 127.0.0.2:1,127.0.0.9:1 --ssh_port $PORT check",
      68,
      { "127.0.0.9            FAIL", "refused", "127.0.0.2            ok" } },
    { "--hostfile hosts --agent_path $PWD/old check", 76, { "has cspeed 0.0.9", "install the same version", "FAIL" } },
};

START_TEST(hosts_answer)
{
    char port[16], old[] = "#!/bin/sh\necho cspeed 0.0.9\n";
    shell_enter();
    if (cluster_start(2, NULL)) {
        snprintf(port, sizeof port, "%d", cluster_port());
        setenv("PORT", port, 1);
        cluster_write_hostfile("hosts", 1);
        shell_write("c.json", "{}");
        shell_write("old", old);
        ck_assert_int_eq(shell_run("chmod +x old"), 0);
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            char arguments[1024];
            snprintf(arguments, sizeof arguments, "%s", rows[i].arguments);
            int code = shell_run("%s/cspeed %s", CS_BIN, arguments);
            char *out = shell_read("out.txt", NULL);
            ck_assert_msg(code == rows[i].code, "cspeed %s: %d\n%s", rows[i].arguments, code, out);
            for (int s = 0; s < 3; s++)
                ck_assert_msg(strstr(out, rows[i].says[s]) != NULL, "cspeed %s: no \"%s\" in\n%s", rows[i].arguments,
                              rows[i].says[s], out);
            free(out);
        }
        cluster_stop();
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("everywhere", hosts_answer)
