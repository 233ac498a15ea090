/* test_hosts.c - hostfiles and host lists: what is accepted, and that every error names its line. */
#include "suite.h"

#include "ground/codes.h"
#include "plan/hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Prints the hosts and their slots, like "w0:0,1 w1:3". */
static void write_hosts(const cl_hosts *hosts, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < hosts->count; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s:", i ? " " : "", hosts->list[i].name);
        for (int slot = 0; slot < hosts->list[i].slot_count; slot++)
            used += (size_t)snprintf(text + used, size - used, slot ? ",%d" : "%d", hosts->list[i].slots[slot]);
    }
}

static const struct {
    /* `hosts`: the expected result, or NULL; `fault`: a part of the expected error, or NULL */
    const char *text, *hosts, *fault;
} table[] = {
    { "worker-1 slots=2", "worker-1:0,1", NULL },
    { "worker-1\tslots=2\n", "worker-1:0,1", NULL },
    { "worker-1 slots=2\r\nworker-2 slots=1\r\n", "worker-1:0,1 worker-2:0", NULL },
    { "   worker-1 slots=1", "worker-1:0", NULL },
    { "\xef\xbb\xbfw0 slots=1\n", "w0:0", NULL },
    { "\n# a comment\n   # another\n\t\nw0 slots=1\n", "w0:0", NULL },
    { "localhost slots=1", "localhost:0", NULL },
    { "123.23.12.10 slots=2", "123.23.12.10:0,1", NULL },
    { "user@host slots=2", "host:0,1", NULL },
    { "[::1] slots=2", "::1:0,1", NULL },
    { "2001:db8::7 slots=1", "2001:db8::7:0", NULL },
    { "w0 slots=4 max_slots=8", "w0:0,1,2,3", NULL },
    { "w0 max_slots=8 slots=4", "w0:0,1,2,3", NULL },
    { "w0 slots=2 max-slots=2", "w0:0,1", NULL },
    { "w0 slots=2 # note", "w0:0,1", NULL },
    { "w0 slots=2# note", "w0:0,1", NULL },
    { "w0 slots=08", "w0:0,1,2,3,4,5,6,7", NULL },
    { "w0 gpus=0-2,6", "w0:0,1,2,6", NULL },
    { "w0 slots=2 gpus=5,3", "w0:3,5", NULL },
    { "b slots=1\na slots=1\n", "b:0 a:0", NULL },

    { "w0 slots=4, w1 slots=2", NULL,
      "hf:1:4: slots=4,: a whole number from 1 to 65536 is expected; each host has its own line" },
    { "w0 slots=4x", NULL, "hf:1:4: slots=4x: a whole number" },
    { "w0 slots=0", NULL, "hf:1:4: slots=0: a whole number" },
    { "w0 slots=-1", NULL, "hf:1:4: slots=-1: a whole number" },
    { "w0 slots=99999999999999999999", NULL, "a whole number" },
    { "w[0-3] slots=8", NULL, "hf:1:1: w[0-3]: patterns are possible only in --include;" },
    { "w0 slots = 4", NULL, "hf:1:4: \"slots\": only KEY=VALUE, without blanks around '='" },
    { "w0 slots =4", NULL, "hf:1:4: \"slots\": only KEY=VALUE" },
    { "w0:4", NULL, "hf:1:1: w0:4: slots are written as NAME slots=N;" },
    { "w0", NULL, "hf:1:1: w0: the number of slots is missing;" },
    { "slots=4", NULL, "hf:1:1: a line begins with the host's name, not with slots=4" },
    { "this is bad slots=1", NULL, "hf:1:6: \"is\": only KEY=VALUE" },
    { "missingslots", NULL, "hf:1:1: missingslots: the number of slots is missing;" },
    { "w0 slots=1\nw1 slots=1\nw0 slots=2", NULL, "hf:3:1: w0 is listed twice" },
    { "w0 slots=1\nW0. slots=1", NULL, "hf:2:1: W0. is listed twice" },
    { "::1 slots=1\n[0:0:0:0:0:0:0:1] slots=1", NULL, "hf:2:1: 0:0:0:0:0:0:0:1 is listed twice" },
    { "", NULL, "hf: names no host" },
    { "# nothing\n\n", NULL, "hf: names no host" },
    { "w0 slots=1 slot=2", NULL, "hf:1:12: slot= is unknown; the nearest is slots" },
    { "w0 slots=1 slots=2", NULL, "hf:1:12: slots= is given twice" },
    { "w0 slots=1 port=70000", NULL, "hf:1:12: port=70000: a whole number from 1 to 65535" },
    { "w0 slots=3 gpus=0-1", NULL, "hf:1:1: w0: slots=3, but gpus= names 2" },
    { "w0 gpus=1,1", NULL, "hf:1:4: gpus=1,1: numbers and ranges" },
    { "w0 gpus=3-1", NULL, "hf:1:4: gpus=3-1: numbers and ranges" },
    { "w0 gpus=1,", NULL, "hf:1:4: gpus=1,: numbers and ranges" },
    { "w0 slots=4 max_slots=2", NULL, "hf:1:1: w0: max_slots=2 is less than slots=4" },
    { "w0 slots=1 env.1X=2", NULL, "hf:1:12: env.1X: that is not the name of a variable" },
    { "w0 slots=1 addr=-oProxyCommand", NULL, "addr=-oProxyCommand: this is not an address" },
    { "-oProxyCommand=x slots=1", NULL, "hf:1:1: a line begins with the host's name" },
    { "-x slots=1", NULL, "hf:1:1: \"-x\" is not a host name" },
    { "w0;id slots=1", NULL, "hf:1:1: \"w0;id\" is not a host name" },
    { "a@b slots=1 user=c", NULL, "user= is given twice" },
    { "@b slots=1", NULL, "\"\" is not a user name" },
};

START_TEST(lines_are_read_or_refused)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        cl_hosts hosts;
        char text[512];
        int code = cl_hosts_parse(&hosts, "hf", table[i].text, strlen(table[i].text));
        if (table[i].hosts) {
            ck_assert_msg(code == 0, "%s: %s", table[i].text, cs_error());
            write_hosts(&hosts, text, sizeof text);
            ck_assert_str_eq(text, table[i].hosts);
            cl_hosts_free(&hosts);
        } else {
            ck_assert_msg(code == CL_CODE_FILE, "%s: %d", table[i].text, code);
            ck_assert_msg(strstr(cs_error(), table[i].fault), "%s: %s", table[i].text, cs_error());
        }
    }
}
END_TEST

START_TEST(all_faults_in_one_go)
{
    static const char text[] = "good slots=1\nbad slots=x\n\nworse\ngood slots=2 colour=red port=0\n";
    cl_hosts hosts;
    ck_assert_int_eq(cl_hosts_parse(&hosts, "hf", text, strlen(text)), CL_CODE_FILE);
    ck_assert_str_eq(cs_error(),
                     "hf:2:5: slots=x: a whole number from 1 to 65536 is expected\nhf:4:1: worse: "
                     "the number of slots is missing; write worse slots=N\nhf:5:14: colour= is unknown; possible are "
                     "slots, max_slots, port, user, addr, gpus and env.NAME\nhf:5:25: port=0: a whole "
                     "number from 1 to 65535 is expected");
    ck_assert_int_eq(hosts.count, 0);
}
END_TEST

START_TEST(so_many_faults_are_counted)
{
    char *text = malloc(64000);
    size_t used = 0;
    cl_hosts hosts;
    for (int i = 0; i < 3000; i++)
        used += (size_t)sprintf(text + used, "host-%d slots=x\n", i);
    ck_assert_int_eq(cl_hosts_parse(&hosts, "hf", text, used), CL_CODE_FILE);
    int shown = 1, more = 0;
    const char *end = strstr(cs_error(), "\nand ");
    ck_assert_ptr_nonnull(end);
    for (const char *c = cs_error(); c < end; c++)
        shown += *c == '\n';
    ck_assert_int_eq(sscanf(end, "\nand %d more", &more), 1);
    ck_assert_int_eq(shown + more, 3000);
    free(text);
}
END_TEST

START_TEST(all_keys_of_a_line_are_read)
{
    static const char text[] = "worker-2 slots=8 port=2222 user=ml addr=10.0.0.2 gpus=0-3,6,8-10 "
                               "env.NCCL_SOCKET_IFNAME=ens5 env.A=x=y env.EMPTY=\nbob@w3 slots=1";
    cl_hosts hosts;
    ck_assert_int_eq(cl_hosts_parse(&hosts, "hf", text, strlen(text)), 0);
    const cl_host *host = &hosts.list[0];
    ck_assert_str_eq(host->name, "worker-2");
    ck_assert_str_eq(host->user, "ml");
    ck_assert_str_eq(host->address, "10.0.0.2");
    ck_assert_int_eq(host->port, 2222);
    ck_assert_int_eq(host->slot_count, 8);
    ck_assert_int_eq(host->slots[7], 10);
    ck_assert_str_eq(host->env[0], "NCCL_SOCKET_IFNAME=ens5");
    ck_assert_str_eq(host->env[1], "A=x=y");
    ck_assert_str_eq(host->env[2], "EMPTY=");
    ck_assert_ptr_null(host->env[3]);
    ck_assert_str_eq(hosts.list[1].user, "bob");
    ck_assert_ptr_null(hosts.list[1].env);
    ck_assert_str_eq(hosts.origin, "hf");
    cl_hosts_free(&hosts);
}
END_TEST

START_TEST(nul_and_long_lines_are_refused)
{
    cl_hosts hosts;
    ck_assert_int_eq(cl_hosts_parse(&hosts, "hf", "a slots=1\nb\0 slots=1\n", 21), CL_CODE_FILE);
    ck_assert_ptr_nonnull(strstr(cs_error(), "hf:2:1: there is a NUL byte"));
    char *text = malloc(3000);
    memset(text, 'x', 3000);
    ck_assert_int_eq(cl_hosts_parse(&hosts, "hf", text, 3000), CL_CODE_FILE);
    ck_assert_ptr_nonnull(strstr(cs_error(), "longer than"));
    free(text);
}
END_TEST

START_TEST(a_missing_hostfile_is_reported)
{
    cl_hosts hosts;
    ck_assert_int_eq(cl_hosts_read(&hosts, "/nowhere/hosts"), CL_CODE_NO_FILE);
    ck_assert_str_eq(cs_error(), "/nowhere/hosts: the hostfile does not exist");
    ck_assert_int_eq(cl_hosts_read(&hosts, "/"), CL_CODE_NO_FILE);
    ck_assert_int_eq(cl_hosts_read(&hosts, CS_SOURCE "/configs/hosts.example"), 0);
    ck_assert_int_gt(hosts.count, 1);
    cl_hosts_free(&hosts);
}
END_TEST

START_TEST(lists_of_hosts_are_read_or_refused)
{
    static const struct {
        const char *text, *hosts, *fault;
    } rows[] = {
        { "a:8", "a:0,1,2,3,4,5,6,7", NULL },
        { "a:2,b:1", "a:0,1 b:0", NULL },
        { "a,b", "a:0 b:0", NULL },
        { "[::1]:2,10.0.0.1:1", "::1:0,1 10.0.0.1:0", NULL },
        { "::1", "::1:0", NULL },
        { "bob@a:2", "a:0,1", NULL },
        { "a:0", NULL, "--hosts:1:1: a=0: a whole number from 1" },
        { "a:2,", NULL, "--hosts:1:5: a host's name is expected here" },
        { "a:2,,b", NULL, "--hosts:1:5: a host's name is expected here" },
        { "", NULL, "--hosts:1:1: a host's name is expected here" },
        { "a:2,a:1", NULL, "a is listed twice" },
        { "a:x", NULL, "a=x: a whole number" },
        { "a:1:2", NULL, "a=1:2: a whole number" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cl_hosts hosts;
        char text[256];
        int code = cl_hosts_parse_list(&hosts, rows[i].text);
        if (rows[i].hosts) {
            ck_assert_msg(code == 0, "%s: %s", rows[i].text, cs_error());
            write_hosts(&hosts, text, sizeof text);
            ck_assert_str_eq(text, rows[i].hosts);
            cl_hosts_free(&hosts);
        } else {
            ck_assert_msg(code == CL_CODE_FILE && strstr(cs_error(), rows[i].fault), "%s: %d %s", rows[i].text, code,
                          cs_error());
        }
    }
}
END_TEST

START_TEST(names_of_this_machine_are_known)
{
    static const struct {
        const char *name;
        bool here;
    } rows[] = { { "localhost", true },     { "LOCALHOST", true },   { "127.0.0.1", true },
                 { "::1", true },           { "127.0.0.2", false },  { "127.1.2.3", false },
                 { "no-such-host", false }, { "192.0.2.77", false }, { "ip6-localhost", true } };
    char own[256] = "", other[300];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cl_host host = { .name = (char *)(size_t)rows[i].name };
        ck_assert_msg(cl_hosts_is_here(&host) == rows[i].here, "%s", rows[i].name);
    }
    gethostname(own, sizeof own - 1);
    cl_host host = { .name = own };
    ck_assert(cl_hosts_is_here(&host));
    snprintf(other, sizeof other, "%sx", own);
    host.name = other;
    ck_assert(!cl_hosts_is_here(&host));
    host.address = (char *)(size_t) "127.0.0.1";
    ck_assert(cl_hosts_is_here(&host)); /* the address decides, not the name */
}
END_TEST

START_TEST(this_machine_has_numbered_slots)
{
    cl_hosts hosts;
    char text[64];
    ck_assert_int_eq(cl_hosts_local(&hosts, 3), 0);
    write_hosts(&hosts, text, sizeof text);
    ck_assert_str_eq(text, "localhost:0,1,2");
    cl_hosts_free(&hosts);
}
END_TEST

SUITE_MAIN("hosts", lines_are_read_or_refused, all_faults_in_one_go, so_many_faults_are_counted,
           all_keys_of_a_line_are_read, nul_and_long_lines_are_refused, a_missing_hostfile_is_reported,
           lists_of_hosts_are_read_or_refused, names_of_this_machine_are_known, this_machine_has_numbered_slots)
