/* test_install.c - the installed tree: which files it has, how its parts find each other after it was moved, how other
 * programs are built with it, and that uninstalling removes all its files. */
#include "cluster.h"
#include "ports.h"
#include "shell.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODULE CS_BIN "/libcspeed_cuda_emulated.so"
#define MPI_MODULE CS_BIN "/libcspeed_mpi.so"

static char before[4096]; /* PATH before the tests */

/* Runs a command in which $T is the path of the installed tree. If the command fails, the test fails and prints its
 * output. */
static void must(const char *command)
{
    if (shell_run("%s", command) != 0)
        ck_abort_msg("%s\n%s", command, shell_read("out.txt", NULL));
}

static void check_says(const char *text)
{
    char *said = shell_read("out.txt", NULL);
    ck_assert_msg(strstr(said, text) != NULL, "\"%s\" is not in:\n%s", text, said);
    free(said);
}

static void write_configurations(void)
{
    shell_write("tiny.json", "{ \"train_batch_size\": 4, \"optimizer\": { \"type\": \"AdamW\" },"
                             "  \"cspeed\": { \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 2,"
                             "                             \"n_embd\": 16, \"n_positions\": 16, \"vocab_size\": 256 },"
                             "    \"data\": { \"train\": [\"data/train-*.bin\"], \"valid\": [\"data/valid.bin\"],"
                             "                \"seq_len\": 16 }, \"steps\": 3, \"output\": \"runs/tiny\" } }");
    shell_write("own.json", "{ \"train_micro_batch_size_per_gpu\": 64, \"optimizer\": { \"type\": \"AdamW\" },"
                            "  \"zero_optimization\": { \"stage\": 3 }, \"cspeed\": { \"steps\": 100 } }");
    shell_write("gpu.json", "{ \"train_micro_batch_size_per_gpu\": 64, \"optimizer\": { \"type\": \"AdamW\" },"
                            "  \"cspeed\": { \"steps\": 100, \"device\": \"cuda\" } }");
}

/* Enters a test folder, installs cspeed in its folder "first", and renames that folder to "moved". Installing replaces
 * the build folder's install_manifest.txt, the list of installed files; end() restores the earlier list. */
static void begin(void)
{
    char folder[2048], path[8192];
    shell_enter();
    ck_assert_ptr_nonnull(getcwd(folder, sizeof folder));
    snprintf(path, sizeof path, "%s/moved/bin:%s", folder, before);
    setenv("PATH", path, 1);
    snprintf(path, sizeof path, "%s/moved/lib/pkgconfig", folder);
    setenv("PKG_CONFIG_PATH", path, 1);
    snprintf(path, sizeof path, "%s/moved", folder);
    setenv("T", path, 1);
    must("[ ! -e $BUILD/install_manifest.txt ] || mv $BUILD/install_manifest.txt kept");
    must("\"$CMAKE\" --install $BUILD --prefix $PWD/first && mv first moved");
    must("seq 4000 > text.txt && cspeed pack --output data text.txt");
    write_configurations();
}

static void end(void)
{
    must("rm -f $BUILD/install_manifest.txt; [ ! -e kept ] || mv kept $BUILD/install_manifest.txt");
    shell_leave();
}

/* ---- the programs ---- */

START_TEST(programs_are_commands)
{
    begin();
    must("cspeed --num_gpus 2 --oversubscribe train --config tiny.json");
    check_says("`cspeed generate runs/tiny --prompt TEXT`");
    must("cspeed plan train");
    check_says("/moved/libexec/cspeed/train");
    must("cspeed report");
    check_says("train pack generate eval bench in ");
    must("cspeed eval runs/tiny --json");
    must("cspeed --num_gpus 2 --oversubscribe -q eval runs/tiny --json");
    must("echo abc | cspeed generate runs/tiny --max_tokens 5"); /* one process alone reads the standard input */
    must("cspeed eval --help");
    check_says("usage: cspeed [LAUNCH FLAGS] eval SOURCE");
    ck_assert_int_eq(shell_run("cspeed --num_gpus 2 pack text.txt"), 64);
    check_says("no launch flags");
    must("for name in train eval pack generate; do ! test -e $T/bin/$name || exit 1; done");
    /* A program in the tree's bin folder that does not belong to cspeed is not a command of cspeed. */
    ck_assert_int_eq(shell_run("cp /bin/ls $T/bin/lst; cspeed lst"), 64);
    check_says("`cspeed run lst` starts");
    end();
}
END_TEST

static void write_greeting(const char *name)
{
    char command[512];
    snprintf(command, sizeof command,
             "cp -a $T %s && printf '#!/bin/sh\\necho hello from rank $RANK in %s\\n' > %s/libexec/cspeed/hello && "
             "chmod +x %s/libexec/cspeed/hello",
             name, name, name, name);
    must(command);
}

START_TEST(each_node_has_its_own_tree)
{
    char port[16];
    begin();
    write_greeting("a");
    write_greeting("b");
    snprintf(port, sizeof port, "%d", ports_free("127.0.0.1"));
    setenv("PORT", port, 1);
    setenv("CSPEED_SECRET", "a secret of 16 bytes or more", 1);
    must("flags=\"--hosts=a:1,b:1 --no_ssh --master_addr=127.0.0.1 --master_port=$PORT --oversubscribe\"; "
         "b/bin/cspeed $flags --node_rank 1 hello & a/bin/cspeed $flags --node_rank 0 hello && wait $!");
    check_says("hello from rank 0 in a\n");
    check_says("hello from rank 1 in b\n");
    must("flags=\"--hosts=a:1,b:1 --no_ssh --master_addr=127.0.0.1 --master_port=$PORT --oversubscribe\"; "
         "b/bin/cspeed $flags --node_rank 1 train --config tiny.json & "
         "a/bin/cspeed $flags --node_rank 0 train --config tiny.json && wait $!");
    unsetenv("CSPEED_SECRET");
    if (cluster_start(2, NULL)) {
        cluster_write_hostfile("hosts", 1);
        must("a/bin/cspeed --hostfile hosts --agent_path $PWD/b/bin/cspeed hello");
        check_says("hello from rank 1 in b\n");
        must("rm -r runs; cspeed --hostfile hosts --oversubscribe train --config tiny.json");
        cluster_stop();
    }
    end();
}
END_TEST

/* ---- the library ---- */

static const char *const trained = "step 100  loss ";

START_TEST(a_model_is_compiled_with_pkg_config)
{
    begin();
    must("cp $T/share/cspeed/examples/own_model.c . && "
         "cc own_model.c $(pkg-config --cflags --libs cspeed) -o own_model && readelf -d own_model");
    check_says("[libcspeed.so." CS_SOVERSION "]");
    must("cspeed --num_gpus 2 --oversubscribe ./own_model own.json");
    check_says(trained);
    shell_write("model.cc", "#include <cspeed/comm.h>\n#include <cspeed/layer.h>\n#include <cspeed/ops.h>\n"
                            "int main() { return cs_exit_code(CS_OK) + (cs_op_gelu == nullptr); }\n");
    must("! command -v c++ || { c++ model.cc $(pkg-config --cflags --libs cspeed) -o model && ./model; }");
    must("cc own_model.c $T/lib/libcspeed.a $(pkg-config --cflags cspeed) -Wl,--as-needed "
         "$(pkg-config --static --libs cspeed) -o whole && ! readelf -d whole | grep libcspeed");
    must("cspeed --num_gpus 2 --oversubscribe ./whole own.json");
    check_says(trained);
    must("cc $T/share/cspeed/examples/ddp_toy.c $T/lib/libcspeed_extras.a $T/lib/libcspeed.a "
         "$(pkg-config --cflags cspeed) -Wl,--as-needed $(pkg-config --static --libs cspeed) -o toy && "
         "! readelf -d toy | grep libcspeed");
    end();
}
END_TEST

START_TEST(a_model_is_compiled_with_find_package)
{
    begin();
    must("\"$CMAKE\" -S " CS_TESTS "/install/consumer -B consumer -DCMAKE_PREFIX_PATH=$T "
         "-DOWN_MODEL=$T/share/cspeed/examples/own_model.c && \"$CMAKE\" --build consumer");
    must("cspeed --num_gpus 2 --oversubscribe consumer/own_model own.json");
    check_says(trained);
    end();
}
END_TEST

START_TEST(a_project_contains_cspeed)
{
    begin();
    must("\"$CMAKE\" -S " CS_TESTS "/install/subproject -B sub -DCSPEED=" CS_SOURCE " -DCSPEED_CUDA=OFF "
         "$LAUNCHER && \"$CMAKE\" --build sub -j 2 --target train cspeed_command");
    must("$(find sub -name cspeed -type f -perm -1) --num_gpus 2 --oversubscribe sub/train own.json");
    check_says(trained);
    end();
}
END_TEST

/* Modules are found in the folder of the library; an installed program finds them in the library folder of its tree. */
START_TEST(modules_are_found)
{
    begin();
    if (access(MODULE, F_OK) == 0) {
        must("cp $T/share/cspeed/examples/own_model.c . && "
             "cc own_model.c $(pkg-config --cflags --libs cspeed) -o own_model");
        ck_assert_int_eq(shell_run("./own_model gpu.json"), 69);
        must("sed \"s/" CE_RELEASE "/$(echo " CE_RELEASE " | tr 0-9 x)/\" " MODULE " > $T/lib/libcspeed_cuda.so");
        ck_assert_int_eq(shell_run("./own_model gpu.json"), 69);
        check_says("was built with another version of this program");
        must("cp " MODULE " $T/lib/libcspeed_cuda.so && ./own_model gpu.json");
        check_says(trained);
        must("cspeed --num_gpus 1 train --config tiny.json --device cuda");
    } else {
        puts("install: skipped, modules: the emulated one is not built");
    }
    end();
}
END_TEST

/* Writes sorted names, one a line, to a file. */
static const char exported[] =
    "nm -D --defined-only $T/lib/libcspeed.so | awk '$2 != \"A\" {print $3}' | sort > exported";

START_TEST(symbols_are_those_of_the_headers)
{
    begin();
    must(exported);
    must("for header in $T/include/cspeed/*.h; do echo \"#include <cspeed/${header##*/}>\"; done > all.c && "
         "cc -E -P -I$T/include all.c | grep -oE '\\bcs_[a-z0-9_]+\\(' | tr -d '(' | sort -u > declared");
    must("grep '@@CSPEED_" CS_SOVERSION "$' exported | sed 's/@@.*//' | diff declared -");
    must("grep -v '@@CSPEED_" CS_SOVERSION "$' exported | sed -n 's/@@CSPEED_PRIVATE_" CE_RELEASE "$//p' > private; "
         "[ $(cat declared private | wc -l) = $(cat exported | wc -l) ]");
    if (access(MODULE, F_OK) == 0 && access(MPI_MODULE, F_OK) == 0)
        must("for module in " MODULE " " MPI_MODULE "; do nm -D "
             "--undefined-only $module | awk '$2 ~ /^ce_/ {print $2}'; done | sort -u | diff private -");
    end();
}
END_TEST

/* ---- documents ---- */

START_TEST(every_command_has_a_page)
{
    begin();
    must(
        "cspeed completion fish | sed -n \"s/.*use_subcommand -a '\\([a-z]*\\)' -d.*/\\1/p\" > names && "
        "[ $(cat names | wc -l) -gt 20 ] && for name in $(cat names); do test -s $T/share/man/man1/cspeed-$name.1; done");
    must(
        "! command -v groff || for page in $T/share/man/man1/*; do "
        "said=$(groff -ww -man -Tascii $page 2>&1 > /dev/null); [ -z \"$said\" ] || { echo $page: $said; exit 1; }; done");
    must("grep -qF '.B \\-\\-hostfile, \\-H FILE' $T/share/man/man1/cspeed.1");
    must("for name in $(cat names); do grep -qx \".SS $name\" $T/share/man/man1/cspeed.1 || exit 1; done");
    must("cd $T/share && test -s bash-completion/completions/cspeed -a -s zsh/site-functions/_cspeed -a "
         "-s fish/vendor_completions.d/cspeed.fish -a -s cspeed/configs/reference.json -a -s doc/cspeed/README.md");
    end();
}
END_TEST

/* ---- removal ---- */

START_TEST(uninstalling_leaves_nothing)
{
    begin();
    must("\"$CMAKE\" --install $BUILD --prefix $PWD/here && \"$CMAKE\" --build $BUILD --target uninstall");
    must("find here ! -type d -o -name cspeed > left && ! test -s left");
    ck_assert_int_ne(shell_run("\"$CMAKE\" --build $BUILD --target uninstall"), 0);
    check_says("install_manifest.txt is not there");
    must("DESTDIR=$PWD/stage \"$CMAKE\" --install $BUILD --prefix /opt/tree && test -x stage/opt/tree/bin/cspeed");
    must("stage/opt/tree/bin/cspeed plan train");
    check_says("/stage/opt/tree/libexec/cspeed/train");
    must("echo mine > stage/opt/tree/share/cspeed/mine && "
         "DESTDIR=$PWD/stage \"$CMAKE\" --build $BUILD --target uninstall");
    /* a file that the user added is not removed */
    must("[ \"$(find stage ! -type d)\" = stage/opt/tree/share/cspeed/mine ]");
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        programs_are_commands,
        each_node_has_its_own_tree,
        a_model_is_compiled_with_pkg_config,
        a_model_is_compiled_with_find_package,
        a_project_contains_cspeed,
        modules_are_found,
        symbols_are_those_of_the_headers,
        every_command_has_a_page,
        uninstalling_leaves_nothing,
    };
    snprintf(before, sizeof before, "%s", getenv("PATH"));
    return suite_run("install", tests, (int)(sizeof tests / sizeof *tests));
}
