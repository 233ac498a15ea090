/* test_monitor.c - files of CSV and of TensorBoard events: their bytes, how a resumed run continues them, and that
 * training continues if a write fails. */
#include "suite.h"
#include "lines.h"
#include "shell.h"
#include "base/crc.h"
#include "base/say.h"
#include "monitor/monitor.h"
#include "monitor/record.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes that tensorboard's own RecordWriter writes for the same events (peers/tensorboard_reads.py --bytes). */
static const struct {
    const char *what;
    size_t count;
    const char *bytes;
} golden[] = {
    { "version", 40,
      "\x18\x00\x00\x00\x00\x00\x00\x00\xa3\x7f\x4b\x22\x09\x00\x00\x00\xc0\x0b\x5a\xd6\x41\x1a\x0d"
      "brain.Event:2"
      "\x4c\xa9\xa4\x64" },
    { "start", 32,
      "\x10\x00\x00\x00\x00\x00\x00\x00\x95\xfb\xfe\x18\x09\x00\x00\x00\xc0\x0b\x5a\xd6\x41\x10\xac\x02\x3a\x02\x08\x01"
      "\x86\xd2\x6f\x32" },
    { "scalar", 55,
      "\x27\x00\x00\x00\x00\x00\x00\x00\xbb\xe1\xb1\x46\x09\x00\x00\x00\xc0\x0b\x5a\xd6\x41\x10\xac\x02\x2a\x19\x0a\x17"
      "\x0a\x10"
      "Train/Samples/lr"
      "\x15\x6f\x12\x83\x3a\xeb\xb2\x22\x8a" },
    { "zero", 39,
      "\x17\x00\x00\x00\x00\x00\x00\x00\xe7\xce\xf8\x1e\x09\x00\x00\x00\xc0\x0b\x5a\xd6\x41\x10\x08\x2a\x0a\x0a\x08\x0a"
      "\x01t\x15\x00\x00\x00\x00\x2b\xea\x85\xfd" },
};

START_TEST(records_are_tensorboards)
{
    const ce_record made[] = { ce_record_version(1.5e9), ce_record_start(1.5e9, 300),
                               ce_record_scalar(1.5e9, 300, "Train/Samples/lr", 0.001f),
                               ce_record_scalar(1.5e9, 8, "t", 0) };
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        ck_assert_msg(made[i].count == golden[i].count, "%s: %zu bytes, not %zu", golden[i].what, made[i].count,
                      golden[i].count);
        ck_assert_msg(memcmp(made[i].bytes, golden[i].bytes, golden[i].count) == 0, "%s differs", golden[i].what);
    }
}
END_TEST

START_TEST(numbers_are_pythons)
{
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        { 0, "0.0" },
        { 1, "1.0" },
        { 0.001, "0.001" },
        { 5e-5, "5e-05" },
        { 0.0001, "0.0001" },
        { 1.0 / 3, "0.3333333333333333" },
        { 65536, "65536.0" },
        { 1e16, "1e+16" },
        { 123456789012345680.0, "1.2345678901234568e+17" },
        { 1e15, "1000000000000000.0" },
        { -2.5, "-2.5" },
        { 6.25e-4, "0.000625" },
        { (double)NAN, "nan" },
        { (double)INFINITY, "inf" },
        { -(double)INFINITY, "-inf" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_str_eq(ce_say_number(cases[i].value).text, cases[i].text);
}
END_TEST

static void write_some(const ce_monitor_settings *csv, const ce_monitor_settings *tensorboard, int64_t from, int64_t to,
                       double value)
{
    ce_monitor *monitor;
    ce_monitor_open(&monitor, csv, tensorboard);
    for (int64_t at = from; at <= to; at += 8) {
        ce_monitor_write(monitor, "Train/Samples/lr", value, at);
        ce_monitor_flush(monitor);
    }
    ce_monitor_close(monitor);
}

static void check_file(const char *path, const char *content)
{
    char *found = shell_read(path, NULL);
    ck_assert_str_eq(found, content);
    free(found);
}

START_TEST(csv_continues)
{
    const ce_monitor_settings csv = { true, "a/b", "job" }, none = { 0 };
    const char *path = "a/b/job/Train_Samples_lr.csv";
    shell_enter();
    write_some(&csv, &none, 8, 24, 0.5);
    check_file(path, "step,lr\n8,0.5\n16,0.5\n24,0.5\n");
    write_some(&csv, &none, 24, 32, 0.25); /* a run resumed at step 16 replaces the row of step 24 */
    check_file(path, "step,lr\n8,0.5\n16,0.5\n24,0.25\n32,0.25\n");
    FILE *torn = fopen(path, "a"); /* the last line is incomplete, as after a kill */
    ck_assert_ptr_nonnull(torn);
    fputs("40,0.1", torn);
    fclose(torn);
    write_some(&csv, &none, 40, 40, 1);
    check_file(path, "step,lr\n8,0.5\n16,0.5\n24,0.25\n32,0.25\n40,1.0\n");
    /* A run that starts at the first step renames the earlier run's file. */
    write_some(&csv, &none, 8, 8, 2);
    check_file(path, "step,lr\n8,2.0\n");
    check_file("a/b/job/Train_Samples_lr.csv.old", "step,lr\n8,0.5\n16,0.5\n24,0.25\n32,0.25\n40,1.0\n");
    shell_leave();
}
END_TEST

static uint64_t little(const unsigned char *bytes, int count)
{
    uint64_t value = 0;
    for (int i = 0; i < count; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

static uint32_t masked(const unsigned char *bytes, size_t count)
{
    uint32_t crc = ce_crc32c_plain(0, bytes, count);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* Checks that every record of an event file (TFRecord) is complete and has the right checksums. Returns the number of
 * records. */
static int count_frames(const char *path)
{
    size_t count;
    int frames = 0;
    char *text = shell_read(path, &count);
    for (size_t at = 0; at < count; frames++) {
        const unsigned char *frame = (const unsigned char *)text + at;
        ck_assert_uint_ge(count - at, 16);
        size_t length = (size_t)little(frame, 8);
        ck_assert_uint_eq(little(frame + 8, 4), masked(frame, 8));
        ck_assert_uint_ge(count - at, 16 + length);
        ck_assert_uint_eq(little(frame + 12 + length, 4), masked(frame + 12, length));
        at += 16 + length;
    }
    free(text);
    return frames;
}

START_TEST(events_are_framed)
{
    const ce_monitor_settings tensorboard = { true, "tb", NULL }, none = { 0 };
    glob_t found;
    shell_enter();
    write_some(&none, &tensorboard, 8, 80, 0.125);
    ck_assert_int_eq(glob("tb/DeepSpeedJobName/events.out.tfevents.*", 0, NULL, &found), 0);
    ck_assert_uint_eq(found.gl_pathc, 1);
    ck_assert_int_eq(count_frames(found.gl_pathv[0]), 2 + 10);
    globfree(&found);
    shell_leave();
}
END_TEST

/* If CSPEED_PEER_PYTHON names a Python that has TensorBoard, TensorBoard itself reads the files. It must show each step
 * of a resumed run once. */
START_TEST(tensorboard_reads_them)
{
    const ce_monitor_settings tensorboard = { true, "tb", "job" }, none = { 0 };
    const char *python = getenv("CSPEED_PEER_PYTHON");
    if (!python) {
        puts("skipped: CSPEED_PEER_PYTHON names no Python with tensorboard");
        return;
    }
    shell_enter();
    write_some(&none, &tensorboard, 8, 40, 0.5);
    sleep(1); /* TensorBoard sorts the files of a folder by the seconds in their names */
    write_some(&none, &tensorboard, 24, 56, 0.25);
    int code = shell_run("%s %s/peers/tensorboard_reads.py tb/job", python, CS_TESTS);
    char *out = shell_read("out.txt", NULL);
    ck_assert_msg(code == 0, "%s", out);
    ck_assert_int_eq(lines_count(out, "^Train/Samples/lr (8|16) 0\\.5$"), 2);
    ck_assert_int_eq(lines_count(out, "^Train/Samples/lr (24|32|40|48|56) 0\\.25$"), 5);
    ck_assert_int_eq(lines_count(out, "^Train/Samples/lr "), 7);
    free(out);
    shell_leave();
}
END_TEST

START_TEST(a_failure_costs_the_file_alone)
{
    const ce_monitor_settings csv = { true, "taken", "job" }, tensorboard = { true, "good", "job" };
    glob_t found;
    shell_enter();
    shell_write("taken", "a file where a folder is wanted");
    write_some(&csv, &tensorboard, 8, 24, 1);
    ck_assert_int_eq(glob("good/job/events.*", 0, NULL, &found), 0);
    ck_assert_int_eq(count_frames(found.gl_pathv[0]), 2 + 3);
    globfree(&found);
    const ce_monitor_settings full = { true, "good", "full" }, none = { 0 };
    ck_assert_int_eq(mkdir("good/full", 0777), 0);
    ck_assert_int_eq(symlink("/dev/full", "good/full/Train_Samples_lr.csv"), 0);
    write_some(&full, &none, 8, 24, 1); /* every write fails, and each call returns nevertheless */
    shell_leave();
}
END_TEST

/* Numbers of DeepSpeed have DeepSpeed's names, and the others their names in metrics.jsonl. */
START_TEST(an_engine_writes_a_file_for_each_number)
{
    static const char *const names[] = {
        "train_loss",
        "lr",
        "loss_scale",
        "elapsed_time_ms_forward",
        "elapsed_time_ms_backward",
        "elapsed_time_ms_backward_inner",
        "elapsed_time_ms_backward_allreduce",
        "elapsed_time_ms_step",
        "epoch",
        "grad_norm",
        "skipped",
        "tokens",
        "tokens_per_s",
        "step_ms",
        "peak_share",
    };
    run_spec spec = { .world = 2,
                      .stage = 2,
                      .steps = 3,
                      .precision = "fp16",
                      .more = "\"csv_monitor\": {\"enabled\": true, \"output_path\": \"m\", \"job_name\": \"j\"}, "
                              "\"wall_clock_breakdown\": true," };
    char path[128];
    shell_enter();
    free(lines_of(&spec));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "m/j/Train_Samples_%s.csv", names[i]);
        char *rows = shell_read(path, NULL);
        ck_assert_msg(lines_count(rows, "^(4|8|12),[0-9.e+-]+$") == 3, "%s: %s", path, rows);
        free(rows);
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("monitor", records_are_tensorboards, numbers_are_pythons, csv_continues, events_are_framed,
           tensorboard_reads_them, a_failure_costs_the_file_alone, an_engine_writes_a_file_for_each_number)
