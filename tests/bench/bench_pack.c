/* bench_pack.c - MB/s of text that is tokenized, compared with Hugging Face's tokenizers in the same run.
 *
 *     [CSPEED_PEER_PYTHON=python] bench_pack [MEGABYTES]
 *
 * The input is English text and code from this machine. The tokenizer comes from the tests' golden file: it is small,
 * and has the structure of Llama 3's tokenizer. The packer runs with one thread, and then with one thread for each
 * core. If CSPEED_PEER_PYTHON names a Python that has the package tokenizers, Tokenizer.encode() of that package gets
 * the same bytes, one megabyte at a time, in alternating rounds. */
#include "bench.h"
#include "json/json.h"
#include "base/must.h"
#include "data/packing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 3 };

static double pack(int threads)
{
    static char text[] = "text";
    static char *const paths[] = { text };
    ce_packing_settings settings = { .paths = paths,
                                     .path_count = 1,
                                     .output = "out",
                                     .tokenizer = "tokenizer.json",
                                     .shard_tokens = 100000000,
                                     .threads = threads };
    ce_packing_counts counts;
    CS_MUST(ce_packing_run(&settings, &counts));
    return 1e-6 * (double)counts.bytes / counts.seconds;
}

static double peer(const char *python)
{
    static const char program[] = "import time, tokenizers\n"
                                  "t = tokenizers.Tokenizer.from_file('tokenizer.json')\n"
                                  "d = open('text', 'rb').read().decode(errors='replace')\n"
                                  "s = time.time()\n"
                                  "for i in range(0, len(d), 10**6):\n"
                                  "    t.encode(d[i:i + 10**6])\n"
                                  "print(len(d.encode()) / 1e6 / (time.time() - s))\n";
    char command[2048];
    double rate = 0;
    snprintf(command, sizeof command, "'%s' -c \"%s\"", python, program);
    FILE *out = popen(command, "r");
    CE_ASSERT(out);
    if (fscanf(out, "%lf", &rate) != 1)
        printf("  tokenizers did not run\n");
    pclose(out);
    return rate;
}

/* Writes the tokenizer `name` of the tests' golden file to tokenizer.json. */
static void write_tokenizer(const char *name)
{
    size_t index;
    json_t *golden = json_load_file(CS_TESTS "/golden/tokenizer.golden", 0, NULL), *entry;
    CE_ASSERT(golden);
    json_array_foreach (golden, index, entry)
        if (strcmp(json_string_value(json_object_get(entry, "name")), name) == 0)
            CE_ASSERT(json_dump_file(json_object_get(entry, "tokenizer"), "tokenizer.json", 0) == 0);
    json_decref(golden);
}

static void run(const char *command)
{
    int code = system(command);
    if (code != 0)
        printf("  code %d from: %s\n", code, command);
}

int main(int argc, char **argv)
{
    const char *python = getenv("CSPEED_PEER_PYTHON");
    int size = 8;
    char folder[] = "/tmp/bench_pack.XXXXXX", command[512];
    bench_arguments(argc, argv,
                    (const bench_option[]){ { "MEGABYTES", .number = &size, .min = 1, .max = 1000 },
                                            { .name = NULL } });
    CE_ASSERT(mkdtemp(folder));
    CE_ASSERT(chdir(folder) == 0);
    write_tokenizer("llama3");
    snprintf(
        command, sizeof command,
        "find /usr/share/common-licenses /usr/share/perl /usr/share/games /usr/lib/python3 -type f -name '*.p[lmy]' -o "
        "-type f ! -name '*.*' | sort | xargs -d '\\n' cat 2>/dev/null | head -c %d000000 >text",
        size);
    run(command);
    printf("pack, %d MB of English and code\n", size);
    for (int round = 0; round < ROUNDS; round++) {
        double one = pack(1), all = pack(0), theirs = python ? peer(python) : 0;
        printf("  1 thread %.1f MB/s, all cores %.1f MB/s", one, all);
        if (theirs > 0)
            printf("; tokenizers %.2f MB/s: 1 thread here is %.1f x", theirs, one / theirs);
        printf("\n");
    }
    run("rm -rf \"$PWD\"");
    return 0;
}
