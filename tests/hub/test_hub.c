/* test_hub.c - models by their names on the Hugging Face Hub: downloads from a server that answers as the Hub does, also
 * with faults. Everything runs as a user runs it, with the programs and the variables of the Hub's own programs. */
#include "hub_server.h"
#include "shell.h"
#include "suite.h"
#include "training.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SNAPSHOT "cache/models--org--tiny/snapshots/" HUB_COMMIT

static hub_server *server;

/* Makes the folder `first`, a trained model, and serves it. */
static void begin(void)
{
    training_prepare();
    training_config("bf16", "", 0);
    training_run(1, "--export first --steps 2");
    server = hub_server_start("first");
    ck_assert_int_eq(setenv("HF_HUB_CACHE", "cache", 1) | unsetenv("HF_HUB_OFFLINE") | unsetenv("HF_TOKEN") |
                         unsetenv("HF_HOME"),
                     0);
}

/* Another test may not see what the last one downloaded. */
static void forget(void)
{
    ck_assert_int_eq(shell_run("rm -rf cache new"), 0);
    server->listings = server->small_files = server->large_files = 0;
    server->large_bytes = 0;
}

static void expect_download(const char *words)
{
    shell_expect(0, words, "import org/tiny new");
    ck_assert_int_eq(shell_run("cmp first/model.safetensors " SNAPSHOT "/model.safetensors"), 0);
    ck_assert_int_eq(shell_run("cmp first/config.json " SNAPSHOT "/config.json"), 0);
}

static int64_t size_of_weights(void)
{
    size_t bytes;
    free(shell_read("first/model.safetensors", &bytes));
    return (int64_t)bytes;
}

static void check_download(void)
{
    char pattern[64];
    expect_download("downloading org/tiny at commit 0123456789ab");
    ck_assert_int_eq(server->large_files, 1);
    ck_assert(!shell_says("README"));
    /* The layout is that of huggingface_hub. */
    ck_assert_int_eq(shell_run("test \"$(cat cache/models--org--tiny/refs/main)\" = " HUB_COMMIT), 0);
    ck_assert_int_eq(shell_run("readlink " SNAPSHOT "/model.safetensors | grep -Ex '../../blobs/[0-9a-f]{64}'"), 0);
    ck_assert_int_eq(shell_run("readlink " SNAPSHOT "/config.json | grep -Ex '../../blobs/[0-9a-f]{40}'"), 0);
    ck_assert_int_ne(shell_run("ls cache/models--org--tiny/blobs/*incomplete " SNAPSHOT "/README.md outside"), 0);
    /* The second time nothing is asked. */
    shell_expect(0, "tensors", "import org/tiny new2");
    ck_assert(!shell_says("downloading"));
    ck_assert_int_eq(server->listings, 2);
    snprintf(pattern, sizeof pattern, "import org/tiny@%s new3", HUB_COMMIT);
    shell_expect(0, "tensors", pattern);
    ck_assert_int_eq(server->listings, 2);
    shell_expect(0, "tensors", "import org/tiny@refs/pr/1 new4");
    ck_assert_int_eq(server->listings, 3);
    ck_assert_int_eq(server->large_files, 1);
}

START_TEST(a_model_is_downloaded_once)
{
    begin();
    check_download();
    hub_server_stop();
    shell_leave();
}
END_TEST

/* A command that does not read weights downloads only the description; ranks of one host download once. */
START_TEST(parts_are_downloaded_when_they_are_needed)
{
    begin();
    training_expect(0, shell_run("%s/cspeed config config.json --set cspeed.model=org/tiny", CS_BIN));
    ck_assert(training_says(SNAPSHOT));
    ck_assert_int_eq(server->large_files, 0);
    ck_assert_int_gt(server->small_files, 0);
    training_run(2, "--model org/tiny --output again --steps 2");
    ck_assert_int_eq(server->large_files, 1);
    forget();
    training_run(2, "--model org/tiny --output third --steps 2");
    ck_assert_int_eq(server->large_files, 1);
    ck_assert_int_eq(shell_run("printf x | %s/generate org/tiny --max_tokens 2", CS_BIN), 0);
    hub_server_stop();
    shell_leave();
}
END_TEST

/* ---- faults ---- */

START_TEST(a_download_continues)
{
    begin();
    int64_t whole = size_of_weights();
    server->cut_at = 1000; /* the connection is cut once */
    expect_download("tensors");
    ck_assert_int_eq(server->large_files, 2);
    ck_assert_int_eq(server->large_bytes, whole);
    forget();
    server->no_ranges = true;
    server->cut_at = 1000;
    expect_download("tensors");
    ck_assert_int_eq(server->large_bytes, whole + 1000);
    server->no_ranges = false;
    forget();
    server->wrong_times = 1; /* The digest shows that the bytes are wrong. */
    expect_download("tensors");
    ck_assert_int_eq(server->large_files, 2);
    forget();
    /* A part of a file that an earlier process left: of this file, or of another one. */
    ck_assert_int_eq(shell_run("mkdir -p cache/models--org--tiny/blobs && d=$(sha256sum < first/model.safetensors) && "
                               "head -c 500 first/model.safetensors > "
                               "cache/models--org--tiny/blobs/${d%%%% *}.$(hostname).cspeed.incomplete"),
                     0);
    expect_download("tensors");
    ck_assert_int_eq(server->large_bytes, whole - 500);
    forget();
    ck_assert_int_eq(shell_run("mkdir -p cache/models--org--tiny/blobs && d=$(sha256sum < first/model.safetensors) && "
                               "head -c 500 config.json > "
                               "cache/models--org--tiny/blobs/${d%%%% *}.$(hostname).cspeed.incomplete"),
                     0);
    expect_download("tensors");
    ck_assert_int_eq(server->large_files, 2);
    /* A link whose blob is missing. */
    ck_assert_int_eq(shell_run("rm -rf new cache/models--org--tiny/blobs/*"), 0);
    server->large_files = 0;
    expect_download("tensors");
    ck_assert_int_eq(server->large_files, 1);
    hub_server_stop();
    shell_leave();
}
END_TEST

START_TEST(a_busy_server_is_asked_again)
{
    begin();
    server->fail_with = 429;
    server->retry_after = 1;
    server->fail_times = 2;
    expect_download("tensors");
    forget();
    server->fail_with = 503;
    server->retry_after = 0;
    server->fail_times = 1;
    expect_download("tensors");
    forget();
    server->retry_after = 1;
    server->fail_times = 100;
    shell_expect(66, "the list of files: status 503", "import org/tiny new");
    ck_assert_int_eq(server->fail_times, 96);
    hub_server_stop();
    shell_leave();
}
END_TEST

START_TEST(refusals_say_what_to_do)
{
    begin();
    shell_expect(66, "org/other at main: the list of files: status 404: Repository not found", "import org/other new");
    ck_assert_int_eq(setenv("HF_HUB_OFFLINE", "1", 1), 0);
    shell_expect(66, "nothing is downloaded, because HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE is set",
                 "import org/tiny new");
    ck_assert_int_eq(unsetenv("HF_HUB_OFFLINE"), 0);
    /* The description is there, and the weights are not: training from random values would be another training. */
    training_expect(0, shell_run("%s/cspeed config config.json --set cspeed.model=org/tiny", CS_BIN));
    training_expect(66, shell_run("HF_HUB_OFFLINE=1 %s/cspeed --num_gpus 1 train --config config.json --model org/tiny "
                                  "--output other",
                                  CS_BIN));
    ck_assert(training_says("has no weights yet, and nothing is downloaded"));
    server->wrong_times = 2;
    shell_expect(65, "model.safetensors of org/tiny: the downloaded bytes do not have the digest",
                 "import org/tiny new");
    forget();
    ck_assert_int_eq(setenv("CSPEED_CURL", "nowhere/libcurl.so.4", 1), 0);
    shell_expect(66, "libcurl is missing", "import org/tiny new");
    ck_assert_int_eq(unsetenv("CSPEED_CURL"), 0);
    ck_assert_int_eq(shell_run("mv first/model.safetensors first/model.bin"), 0);
    shell_expect(78, "not supported: org/tiny, because it has no weights in safetensors files", "import org/tiny new");
    hub_server_stop();
    ck_assert_int_eq(shell_run("rm -rf cache"), 0);
    shell_expect(66, "no answer from http://127.0.0.1:", "import org/tiny new");
    shell_leave();
}
END_TEST

/* The token goes to the Hub, and not to the host to which the Hub redirects. */
START_TEST(a_gated_model_needs_a_token)
{
    begin();
    server->token = "hf_right";
    shell_expect(66, "Access to model org/tiny is restricted.: the name is wrong, or the model is private or gated",
                 "import org/tiny new");
    ck_assert_int_eq(setenv("HF_TOKEN", "hf_wrong", 1), 0);
    shell_expect(66, "the token has no access", "import org/tiny new");
    ck_assert_int_eq(setenv("HF_TOKEN", "hf_right", 1), 0);
    expect_download("tensors");
    ck_assert(!server->token_to_storage);
    forget();
    ck_assert_int_eq(unsetenv("HF_TOKEN"), 0);
    shell_write("token", "hf_right\n");
    ck_assert_int_eq(setenv("HF_HOME", ".", 1), 0);
    expect_download("tensors");
    hub_server_stop();
    shell_leave();
}
END_TEST

SUITE_MAIN("hub", a_model_is_downloaded_once, parts_are_downloaded_when_they_are_needed, a_download_continues,
           a_busy_server_is_asked_again, refusals_say_what_to_do, a_gated_model_needs_a_token)
