/* test_cut.c - jobs over SSH between network namespaces, with a connection that is cut and with one that is slow. */
#include "cluster.h"
#include "jobs.h"
#include "shell.h"
#include "suite.h"

#include <stdio.h>

static const char waits[] = "touch up.$RANK; sleep 1000";

static job start(const char *script)
{
    static char hosts[128], port[16];
    snprintf(hosts, sizeof hosts, "--hosts=%s:1,%s:1", cluster_host(0), cluster_host(1));
    snprintf(port, sizeof port, "%d", cluster_port());
    return START(hosts, "--ssh_port", port, "--oversubscribe", "--dead_after=3", "--heartbeat=1", "--grace=2",
                 "--env=CSPEED_TEST_MARK", "/bin/sh", "-c", script);
}

/* No message arrives on either side: the front reports a lost node, and the node's agent ends its ranks. */
START_TEST(a_cut_link)
{
    shell_enter();
    if (cluster_start_nets(2, NULL)) {
        jobs_begin();
        job here = start(waits);
        jobs_await("up.0");
        jobs_await("up.1");
        cluster_cut(1);
        jobs_finish(&here);
        jobs_check_code(&here, 75);
        jobs_check_has(here.err, "node 1 (");
        jobs_check_has(here.err, "was lost: no message came from it for 3 s (--dead_after)");
        jobs_check_gone();
        cluster_mend(1);
        jobs_end(&here);
        cluster_stop();
    }
    shell_leave();
}
END_TEST

/* Messages that arrive late do not count as missing: the job continues, and every byte of output arrives. */
START_TEST(a_slow_link)
{
    shell_enter();
    if (cluster_start_nets(2, NULL)) {
        if (cluster_slow(1, 400, 300)) {
            jobs_begin();
            job here = start("seq 1 30000");
            jobs_finish(&here);
            jobs_check_code(&here, 0);
            ck_assert_int_eq(shell_count_of(here.out, "\n"), 60000);
            jobs_check_has(here.out, ":1| 30000\n");
            jobs_end(&here);
        } else {
            printf("skipped: this kernel slows no links (netem, tbf)\n");
        }
        cluster_stop();
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("cut", a_cut_link, a_slow_link)
