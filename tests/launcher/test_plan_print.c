/* test_plan_print.c - what `cspeed plan` prints, as text and as JSON. */
#include "shell.h"
#include "suite.h"

#include "json/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(a_plan_is_printed_as_json)
{
    size_t size;
    json_error_t error;
    shell_enter();
    int code =
        shell_run("HOME=. HF_TOKEN=hidden %s/cspeed --hosts 'a:2,u@b:1' --master_addr m --master_port 7 --env HF_TOKEN "
                  "--env 'X= \"y\" $z' plan --json another --config 'c d.json' \"$(printf 'a\\nb')\" 2>&1",
                  CS_BIN);
    char *text = shell_read("out.txt", &size);
    ck_assert_msg(code == 0, "%s", text);
    ck_assert_ptr_null(strstr(text, "hidden"));
    json_t *plan = json_loads(text, 0, &error);
    ck_assert_msg(plan != NULL, "%s: %s", error.text, text);
    json_t *nodes, *command, *env;
    const char *address, *host, *b;
    int world, port, rank, first;
    ck_assert_int_eq(json_unpack(plan, "{s:o,s:i,s:s,s:i,s:o,s:o}", "nodes", &nodes, "world_size", &world,
                                 "master_addr", &address, "master_port", &port, "command", &command, "env", &env),
                     0);
    ck_assert_int_eq(world, 3);
    ck_assert_str_eq(address, "m");
    ck_assert_int_eq(port, 7);
    ck_assert_uint_eq(json_array_size(nodes), 2);
    ck_assert_int_eq(json_unpack(json_array_get(nodes, 1), "{s:s,s:s,s:i,s:[i],s:[i]}", "host", &host, "addr", &b,
                                 "node_rank", &rank, "slots", &first, "ranks", &world),
                     0);
    ck_assert_str_eq(host, "b");
    ck_assert_str_eq(b, "b");
    ck_assert(rank == 1 && first == 0 && world == 2);
    ck_assert_uint_eq(json_array_size(command), 4);
    ck_assert_str_eq(json_string_value(json_array_get(command, 2)), "c d.json");
    ck_assert_str_eq(json_string_value(json_array_get(command, 3)), "a\nb");
    ck_assert_str_eq(json_string_value(json_object_get(env, "X")), " \"y\" $z");
    json_decref(plan);
    free(text);
    shell_leave();
}
END_TEST

/* Reads the flags as `cspeed run` does: they may stand before or after the command's name. */
START_TEST(flags_may_follow_the_command_word)
{
    static const char *const rows[][2] = {
        { "--standalone plan run true", "command   true" },
        { "plan launch --standalone --num_gpus 1 true x", "command   true x" },
        { "--num_gpus 1 plan run --num_gpus 2 --oversubscribe true", "ranks     2 on 1 node" },
    };
    shell_enter();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_int_eq(shell_run("%s/cspeed %s", CS_BIN, rows[i][0]), 0);
        char *text = shell_read("out.txt", NULL);
        ck_assert_msg(strstr(text, rows[i][1]) != NULL, "%s: no \"%s\" in\n%s", rows[i][0], rows[i][1], text);
        free(text);
    }
    ck_assert_int_eq(shell_run("%s/cspeed plan run", CS_BIN), 64);
    shell_leave();
}
END_TEST

/* The plan shows arguments byte for byte, also those that a shell, such as pdsh's, would change. */
START_TEST(arguments_are_printed_byte_for_byte)
{
    static const char *const given[] = {
        "I am 6' tall",
        "I'm going to tell them \"DS\"",
        "{\"a\": 1}",
        "two  spaces",
        "{\"a\":1}",
        "$HOME",
        "*",
        "a&b",
        "(x)",
        "back\\slash",
        "",
        "a\tb\nc",
        "`id -u`",
        "64(x2)",
        "--num_gpus=7",
        "--",
        "-h",
    };
    enum { COUNT = sizeof given / sizeof *given };
    char command[2048] = CS_BIN "/cspeed --standalone plan --json prog", path[512];
    size_t size;
    shell_enter();
    for (int i = 0; i < COUNT; i++) { /* each argument comes from a file, because a shell processes the command */
        snprintf(path, sizeof path, "a%d", i);
        shell_write(path, given[i]);
        snprintf(path, sizeof path, " \"$(cat a%d)\"", i);
        strcat(command, path);
    }
    ck_assert_int_eq(shell_run("%s", command), 0);
    char *text = shell_read("out.txt", &size);
    json_t *plan = json_loads(text, 0, NULL), *words_told = json_object_get(plan, "command");
    ck_assert_uint_eq(json_array_size(words_told), COUNT + 1);
    for (int i = 0; i < COUNT; i++)
        ck_assert_str_eq(json_string_value(json_array_get(words_told, (size_t)i + 1)), given[i]);
    json_decref(plan);
    free(text);
    shell_leave();
}
END_TEST

START_TEST(a_plan_shows_the_mesh)
{
    static const char *const parts[] = { "  rank   host  slot  replica  shard  tp\n",
                                         "  1      a     1     0        0      1\n",
                                         "  3      b     0     0        1      1\n",
                                         "  7      b     4     1        1      1\n",
                                         "\nwarning   tensor-parallel groups that are not on one host: 1 of 4 (ranks 2 "
                                         "to 3 are on a to b); their layers wait for the network, so start a multiple "
                                         "of tp 2 ranks on each host\n" };
    shell_enter();
    shell_write("ds.json", "{\"train_micro_batch_size_per_gpu\": 1, \"zero_optimization\": {\"stage\": 3}, "
                           "\"tensor_parallel\": {\"autotp_size\": 4}}");
    ck_assert_int_eq(shell_run("%s/cspeed --hosts a:3,b:5 plan ./train --config ds.json --tp 2 --set "
                               "cspeed.mesh.dp_shard=2",
                               CS_BIN),
                     127);
    char *text = shell_read("out.txt", NULL);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ck_assert_msg(strstr(text, parts[i]) != NULL, "\"%s\" is not in\n%s", parts[i], text);
    free(text);
    ck_assert_int_eq(shell_run("%s/cspeed --hosts a:4,b:4 plan ./train --config ds.json", CS_BIN), 127);
    text = shell_read("out.txt", NULL);
    ck_assert(strstr(text, "  7      b     3     0        1      3\n") && !strstr(text, "warning"));
    free(text);
    ck_assert_int_eq(shell_run("%s/cspeed --hosts a:4,b:4 plan /bin/true --config ds.json --tp 1", CS_BIN), 0);
    text = shell_read("out.txt", NULL); /* --tp is an option of train alone */
    ck_assert(strstr(text, "  7      b     3     0        1      3\n"));
    free(text);
    shell_leave();
}
END_TEST

START_TEST(a_plan_is_printed_as_text)
{
    static const char *const parts[] = { "hosts     hf\n",
                                         "  0     a     10.0.0.1  0-1         0-1\n",
                                         "  1     b     b         2           4\n",
                                         "  HF_TOKEN=(secret)    # --env (caller)\n",
                                         "  Y=$'a\\011b'    # job.env:1\n",
                                         "  Z='it'\\''s'    # --env\n",
                                         "  IF=ens5    # a alone (hf)\n",
                                         "  --hostfile hf    # -H\n",
                                         "  --master_port 7    # CSPEED_MASTER_PORT\n",
                                         "  --env 'API_TOKEN=(secret)'    # --env\n",
                                         "command   train 'c d' 'X_KEY=(secret)' --api_key '(secret)' 'e f'\n" };
    size_t size;
    shell_enter();
    shell_write("hf", "a slots=2 addr=10.0.0.1 env.IF=ens5\nb gpus=4\n");
    shell_write("job.env", "Y=\"a\\tb\"\n");
    int code =
        shell_run("HOME=. HF_TOKEN=hidden CSPEED_MASTER_PORT=7 %s/cspeed -H hf --env HF_TOKEN --env_file job.env "
                  "--env \"Z=it's\" --env API_TOKEN=hidden plan train 'c d' X_KEY=hidden --api_key hidden 'e f' 2>&1",
                  CS_BIN);
    char *text = shell_read("out.txt", &size);
    ck_assert_msg(code == 0, "%s", text);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ck_assert_msg(strstr(text, parts[i]) != NULL, "\"%s\" is not in\n%s", parts[i], text);
    ck_assert_ptr_null(strstr(text, "hidden"));
    free(text);
    ck_assert_int_eq(shell_run("%s/cspeed --env API_TOKEN=hidden plan --json train --api_key=hidden", CS_BIN), 0);
    text = shell_read("out.txt", &size);
    ck_assert_ptr_nonnull(strstr(text, "[\"train\", \"--api_key=(secret)\"]"));
    ck_assert_ptr_null(strstr(text, "hidden"));
    free(text);
    ck_assert_int_eq(shell_run("%s/cspeed --num_gpus 1 --dry_run ./x a | grep -q 'WORLD_SIZE=1 '", CS_BIN), 0);
    ck_assert_int_eq(shell_run("HOME=. NCCL_DEBUG=INFO HF_TOKEN=hidden %s/cspeed --env HF_TOKEN env", CS_BIN), 0);
    text = shell_read("out.txt", &size);
    ck_assert_ptr_nonnull(strstr(text, "caller (NCCL*)           NCCL_DEBUG=\"INFO\"\n"));
    ck_assert_ptr_nonnull(strstr(text, "HF_TOKEN=(secret)\n"));
    free(text);
    shell_leave();
}
END_TEST

SUITE_MAIN("plan_print", a_plan_is_printed_as_json, flags_may_follow_the_command_word,
           arguments_are_printed_byte_for_byte, a_plan_is_printed_as_text, a_plan_shows_the_mesh)
