/* test_absent.c - messages for a path that is no checkpoint: inspect, verify, diff and export each say what the path is
 * and which path to give instead. */
#include "saved.h"
#include "shell.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OTHER_USER "setpriv --reuid 65534 --regid 65534 --clear-groups"

/* Commands that take a checkpoint; %s is its path. */
static const char *const commands[] = { "inspect %s", "inspect %s --tensors '*'", "verify %s", "diff out %s",
                                        "export %s new" };
enum { COMMANDS = sizeof commands / sizeof *commands };

static void expect(const char *user, int code, const char *words, const char *command)
{
    int got = shell_run("%s %s/cspeed %s", user, CS_BIN, command);
    char *text = shell_read("out.txt", NULL);
    ck_assert_msg(got == code, "cspeed %s: exit code %d, not %d:\n%s", command, got, code, text);
    ck_assert_msg(strstr(text, words) != NULL, "cspeed %s: \"%s\" is not in\n%s", command, words, text);
    free(text);
}

static void expect_of_all(const char *user, int code, const char *words, const char *path)
{
    for (int i = 0; i < COMMANDS; i++) {
        char command[512];
        const char *place = strchr(commands[i], '%');
        if (strstr(path, "--tag") && strncmp(commands[i], "diff", 4) == 0)
            continue;
        snprintf(command, sizeof command, "%.*s%s%s", (int)(place - commands[i]), commands[i], path, place + 2);
        expect(user, code, words, command);
    }
}

START_TEST(every_path_has_its_sentence)
{
    static const struct {
        int code;
        const char *path, *words;
    } rows[] = {
        { 66, "nowhere", "nowhere: no such folder; name the output folder of a training" },
        { 66, "no/where/", ": no such folder; name the output folder" },
        { 66, "nowhere --tag t", "nowhere: no such folder; name" },
        { 66, "empty", "empty contains no checkpoint: no folder in it has a manifest.json; name" },
        { 66, "things", "things contains no checkpoint:" },
        { 66, "file", "file: not a folder; name the output folder" },
        { 66, "pipe", "pipe: not a folder; name the output folder" },
        { 78, "m.gguf", "not supported: m.gguf is a model of llama.cpp" },
        { 66, "hf", "it is a Hugging Face folder" },
        { 66, "above", "above contains no checkpoint; above/run does" },
        { 66, "out/b", "out has no checkpoint \"b\"; it holds a" },
        { 66, "out/b/", "out has no checkpoint \"b\"; it holds a" },
        { 66, "out --tag b", "out has no checkpoint \"b\"; it holds a" },
        { 66, "empty --tag b", "empty has no checkpoint \"b\"; it holds no complete checkpoint" },
        { 78, "foreign/global_step5", "not supported: foreign/global_step5 is a checkpoint of DeepSpeed" },
        { 65, "bad/a", "bad/a/manifest.json: its text has CRC32C" },
    };
    shell_enter();
    ck_assert_int_eq(saved_save("out", "a", 1), CS_OK);
    ck_assert_int_eq(
        shell_run(
            "mkdir -p empty things/more hf above foreign/global_step5 && cp -r out above/run && "
            "touch things/a.txt && echo x > file && mkfifo pipe && echo GGUF.... > m.gguf && echo '{}' > hf/config.json && cp -r out bad && "
            "touch foreign/global_step5/zero_pp_rank_0_mp_rank_00_optim_states.pt"),
        0);
    shell_flip("bad/a/manifest.json", 100);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_of_all("", rows[i].code, rows[i].words, rows[i].path);
    shell_leave();
}
END_TEST

/* A file without read permission is not reported as damaged. */
START_TEST(what_may_not_be_read)
{
    static const char *const rows[] = { "closed", "closed/a", "half/a" };
    bool root = getuid() == 0;
    const char *user = root ? OTHER_USER : "";
    shell_enter();
    ck_assert_int_eq(saved_save("out", "a", 1), CS_OK);
    ck_assert_int_eq(shell_run("chmod 755 . && cp -r out closed && cp -r out half && cp -r out shard && "
                               "chmod 0 half/a shard/a/weights/* closed"),
                     0);
    if (root && shell_run(OTHER_USER " %s/cspeed inspect out", CS_BIN) != 0) {
        printf("skipped: what may not be read (another user cannot run %s/cspeed)\n", CS_BIN);
    } else {
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
            expect_of_all(user, 1, "Permission denied: this user may not read it", rows[i]);
        expect(user, 0, "UNREADABLE", "inspect half");
        expect(user, 1, "UNREADABLE, 1 fault", "verify half");
        expect(user, 1, "shard-00001-of-00001.safetensors: Permission denied", "verify shard");
        shell_flip("shard/a/client_state.json", 3);
        expect(user, 65, "DAMAGED, 2 faults", "verify shard");
    }
    shell_run("chmod -R u+rwX .");
    shell_leave();
}
END_TEST

/* Commands in the folder of a checkpoint accept "." and "..". `inspect` of a folder with checkpoints of cspeed and of
 * another program explains its table, and names the foreign checkpoint. */
START_TEST(where_and_what_it_is)
{
    shell_enter();
    ck_assert_int_eq(saved_save("out", "a", 1), CS_OK);
    ck_assert_int_eq(shell_run("mkdir -p out/ds && touch out/ds/mp_rank_00_model_states.pt && mkfifo out/pipe"), 0);
    ck_assert_int_eq(shell_run("cd out/a && %s/cspeed verify . && %s/cspeed inspect ./ --tensors wte.weight && "
                               "%s/cspeed inspect ..",
                               CS_BIN, CS_BIN, CS_BIN),
                     0);
    expect("", 0, "reads what is in them\n\nout/ds is a checkpoint of DeepSpeed", "inspect out");
    shell_leave();
}
END_TEST

SUITE_MAIN("absent", every_path_has_its_sentence, what_may_not_be_read, where_and_what_it_is)
