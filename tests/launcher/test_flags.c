/* test_flags.c - launch flags: the spellings of DeepSpeed and torchrun, environment variables, errors, and where a
 * value comes from.
 *
 * Also checks that the manual page and the shell completions contain every flag and command. */
#include "suite.h"
#include "shell.h"

#include "ground/codes.h"
#include "ground/options.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 64 };

static char line[4096];
static char *words[MAX_WORDS];

/* Reads the flags of a command line that is split at spaces. */
static int read_flags(cl_options *options, const char *text)
{
    int count = 1;
    words[0] = (char *)(size_t) "cspeed";
    snprintf(line, sizeof line, "%s", text);
    for (char *rest, *word = strtok_r(line, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    words[count] = NULL;
    return cl_options_read(options, words);
}

static void expect(cl_options *options, const char *text)
{
    ck_assert_msg(read_flags(options, text) == 0, "%s: %s", text, cs_error());
}

START_TEST(defaults)
{
    cl_options o;
    expect(&o, "");
    ck_assert(!o.hostfile && !o.ranks && !o.nodes && !o.master_addr && !o.job_id && !o.node_rank && !o.save_pid);
    ck_assert_int_eq(o.master_port, -1);
    ck_assert(o.rdzv_timeout == 600 && o.last_call == 30 && o.heartbeat == 5 && o.dead_after == 15);
    ck_assert(o.grace_seconds == 30 && o.stall_timeout == 600 && o.timeout_seconds == 0 && o.restart_delay == 5);
    ck_assert_int_eq(o.stop_signal, SIGTERM);
    ck_assert_str_eq(o.forward, "USR1,USR2");
    ck_assert_str_eq(o.restart_on, "any");
    ck_assert_str_eq(cl_options_origin("grace"), "default");
    ck_assert_ptr_null(o.program[0]);
}
END_TEST

START_TEST(deepspeed)
{
    cl_options o;
    expect(&o, "-H hf -i w0:0,1@w1 -e w1:1 --num_gpus=3 --master_port 29501 --master_addr a --node_rank 1 "
               "--no_ssh --launcher PDSH --launcher_args --x --no_ssh_check --force_multi --save_pid "
               "--enable_each_rank_log logs --bind_cores_to_rank --bind_core_list 0,2-4 --ssh_port 2222 "
               "--venv_script v.sh --log_level error --no_python --no_local_rank train --hostfile other");
    ck_assert_str_eq(o.hostfile, "hf");
    ck_assert_str_eq(o.include, "w0:0,1@w1");
    ck_assert_str_eq(o.exclude, "w1:1");
    ck_assert_str_eq(o.ranks, "3");
    ck_assert_int_eq(o.master_port, 29501);
    ck_assert_str_eq(o.master_addr, "a");
    ck_assert_str_eq(o.node_rank, "1");
    ck_assert_int_eq(o.launcher, CL_BY_SSH);
    ck_assert_str_eq(o.launcher_args, "--x");
    ck_assert(o.no_ssh && o.no_ssh_check && o.force_multi && o.quiet);
    ck_assert_str_eq(o.save_pid, "");
    ck_assert_str_eq(o.log_dir, "logs");
    ck_assert_str_eq(o.console, "none");
    ck_assert_int_eq(o.bind, CL_BIND_CORE);
    ck_assert_str_eq(o.bind_core_list, "0,2-4");
    ck_assert_int_eq(o.ssh_port, 2222);
    ck_assert_str_eq(o.program[0], "train");
    ck_assert_str_eq(o.program[1], "--hostfile");
    ck_assert_str_eq(cl_options_origin("hostfile"), "-H");
    ck_assert_str_eq(cl_options_origin("log_dir"), "--enable_each_rank_log");
    expect(&o, "--num_nodes 2 --num_accelerators 4 --min_elastic_nodes 1 --max_elastic_nodes 3 --elastic_training");
    ck_assert_str_eq(o.nodes, "2");
    ck_assert_str_eq(o.ranks, "4");
    ck_assert_int_eq(o.min_elastic_nodes, 1);
    ck_assert_int_eq(o.max_elastic_nodes, 3);
    /* flags with the values that are DeepSpeed's defaults have no effect */
    expect(&o, "--num_nodes -1 --num_gpus -1 --min_elastic_nodes -1 --max_elastic_nodes -1 --node_rank -1 --include= "
               "--exclude= --master_addr= --launcher_args=");
    ck_assert(!o.nodes && !o.ranks && !o.node_rank && !o.include && !o.master_addr && o.max_elastic_nodes == 0);
}
END_TEST

START_TEST(torchrun)
{
    cl_options o;
    expect(&o, "--nnodes=2:4 --nproc-per-node=gpu --max-restarts=3 --rdzv-backend=c10d --rdzv-endpoint=h:29400 "
               "--rdzv-id=7 --rdzv-conf=join_timeout=60,last_call_timeout=5 --no-python --monitor-interval 5 "
               "--log-dir d --redirects 3 --numa-binding node --shutdown-timeout 10 -- -x.py");
    ck_assert_str_eq(o.nodes, "2:4");
    ck_assert_str_eq(o.ranks, "gpu");
    ck_assert_int_eq(o.max_restarts, 3);
    ck_assert_str_eq(o.master_addr, "h");
    ck_assert_int_eq(o.master_port, 29400);
    ck_assert_str_eq(cl_options_origin("master_addr"), "--rdzv-endpoint");
    ck_assert_str_eq(o.job_id, "7");
    ck_assert(o.rdzv_timeout == 60 && o.last_call == 5 && o.grace_seconds == 10);
    ck_assert(!o.console);
    ck_assert_str_eq(o.redirects, "3");
    ck_assert_int_eq(o.bind, CL_BIND_NUMA);
    ck_assert_str_eq(o.program[0], "-x.py");
    expect(&o, "--rdzv_endpoint [::1]:5 --rdzv_backend static --tee 3 --role default");
    ck_assert_str_eq(o.master_addr, "::1");
    ck_assert_int_eq(o.master_port, 5);
    expect(&o, "--rdzv_endpoint h");
    ck_assert_int_eq(o.master_port, 29400);
    expect(&o, "--standalone --nproc_per_node auto");
    ck_assert(o.standalone);
    expect(&o, "--devices 0,2,");
    ck_assert_str_eq(o.include, "localhost:0,2");
    expect(&o, "--devices 2");
    ck_assert_str_eq(o.ranks, "2");
    expect(&o, "--devices auto");
    ck_assert(!o.ranks && !o.include);
}
END_TEST

START_TEST(values)
{
    cl_options o;
    expect(&o,
           "--bind list:0-1 --log_format json --log_level debug --timeout 1.5h --stall_action dump --stop_signal INT "
           "--forward none --restart_on 75,137 --log_max 100M --console 0,4-7 --color never --save_pid=f "
           "--env A=1 --env B --env_file e --stage s --master_port 0 --prefix= --host_key strict --preflight full");
    ck_assert_str_eq(o.bind_core_list, "0-1");
    ck_assert_int_eq(o.bind, CL_BIND_CORE);
    ck_assert(o.log_json && o.verbose && o.timeout_seconds == 5400);
    ck_assert_int_eq(o.stall_action, CL_STALL_DUMP);
    ck_assert_int_eq(o.stop_signal, SIGINT);
    ck_assert_int_eq(o.host_key, CL_HOST_KEY_STRICT);
    ck_assert_int_eq(o.preflight, CL_PREFLIGHT_FULL);
    ck_assert_str_eq(o.save_pid, "f");
    ck_assert_int_eq(o.env.count, 2);
    ck_assert_str_eq(o.env.list[1], "B");
    ck_assert_str_eq(o.env_files.list[0], "e");
    ck_assert_str_eq(o.stage.list[0], "s");
    ck_assert_int_eq(o.master_port, 0);
    ck_assert_str_eq(o.prefix, "");
    expect(&o, "--launcher mpich");
    ck_assert_int_eq(o.launcher, CL_BY_MPICH);
    expect(&o, "--launcher slurm --grace 1 --grace 2"); /* if a flag has two values, the last one is used */
    ck_assert(o.launcher == CL_BY_SLURM && o.grace_seconds == 2);
}
END_TEST

START_TEST(environment)
{
    cl_options o;
    setenv("PET_NNODES", "2", 1);
    setenv("PET_MASTER_ADDR", "pet", 1);
    setenv("PET_GRACE", "1", 1); /* torchrun has no such flag, so its variable has no effect */
    setenv("PET_STANDALONE", "0", 1);
    setenv("CSPEED_MASTER_ADDR", "ours", 1);
    setenv("CSPEED_HOSTFILE", "hf", 1);
    setenv("CSPEED_NO_SSH", "yes", 1);
    setenv("CSPEED_QUIET", "0", 1);
    setenv("CSPEED_GRACE", "", 1);
    setenv("CSPEED_JOB_ID", "j", 1);
    setenv("CSPEED_ENV_FILE", "x", 1); /* CSPEED_ENV_FILE is a variable only: it sets no flag */
    expect(&o, "--nproc_per_node 2");
    ck_assert_str_eq(o.nodes, "2");
    ck_assert_str_eq(cl_options_origin("num_nodes"), "PET_NNODES");
    ck_assert_str_eq(cl_options_origin("nnodes"), "PET_NNODES");
    ck_assert_str_eq(o.master_addr, "ours");
    ck_assert_str_eq(cl_options_origin("master_addr"), "CSPEED_MASTER_ADDR");
    ck_assert_str_eq(o.hostfile, "hf");
    ck_assert(o.no_ssh && !o.standalone && !o.quiet && o.grace_seconds == 30 && o.env_files.count == 0);
    ck_assert_str_eq(o.job_id, "j");
    ck_assert_str_eq(cl_options_origin("num_gpus"), "--nproc_per_node");
    setenv("CSPEED_ATTEMPT", "0", 1); /* in a process that is a rank, the id is that of the outer job */
    expect(&o, "--master_addr flag --rdzv_timeout 5");
    ck_assert_str_eq(o.master_addr, "flag");
    ck_assert_ptr_null(o.job_id);
    setenv("PET_RDZV_ENDPOINT", "end:1", 1); /* a flag takes precedence over the variable of another flag */
    expect(&o, "--master_addr flag");
    ck_assert_str_eq(o.master_addr, "flag");
    ck_assert_str_eq(cl_options_origin("master_addr"), "--master_addr");
    setenv("CSPEED_NO_SSH", "perhaps", 1);
    ck_assert_int_eq(read_flags(&o, ""), CL_CODE_USAGE);
    ck_assert_str_eq(cs_error(), "CSPEED_NO_SSH must be 1 or 0, not \"perhaps\"");
    static const char *const all[] = { "PET_NNODES",         "PET_MASTER_ADDR", "PET_GRACE",       "PET_STANDALONE",
                                       "CSPEED_MASTER_ADDR", "CSPEED_HOSTFILE", "CSPEED_NO_SSH",   "CSPEED_QUIET",
                                       "CSPEED_GRACE",       "CSPEED_JOB_ID",   "CSPEED_ENV_FILE", "CSPEED_ATTEMPT",
                                       "PET_RDZV_ENDPOINT" };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        unsetenv(all[i]);
}
END_TEST

START_TEST(refusals)
{
    static const struct {
        const char *line, *sentence;
    } rows[] = {
        { "--autotuning tune", "not supported: --autotuning tune, because there is no tuner" },
        { "--module x", "not supported: --module, because programs are executed directly; write python3 -m" },
        { "-m x", "not supported: -m, because" },
        { "--run-path x", "not supported: --run-path, because" },
        { "--rdzv_backend etcd", "not supported: --rdzv_backend etcd, because" },
        { "--spare 1", "not supported: --spare 1, because" },
        { "--restart_dead_node", "not supported: --restart_dead_node, because" },
        { "--health_port 80", "not supported: --health_port 80" },
        { "--launcher impi", "not supported: --launcher impi, because" },
        { "--launcher mvapich", "not supported: --launcher mvapich, because" },
        { "--launcher rsh", "--launcher is one of auto|local|ssh|openmpi|mpich|slurm, not \"rsh\"" },
        { "--redirects 4", "--redirects takes 0, 1 (stdout), 2 (stderr) or 3 (both)" },
        { "--redirects 0:1,1", "such as 0:1,1:2; not \"0:1,1\"" },
        { "-t 0:", "-t takes 0, 1 (stdout)" },
        { "--stdin all", "not supported: --stdin all" },
        { "--rdzv_conf is_host=1", "not supported: --rdzv_conf is_host" },
        { "--hostfil x", "unknown launch flag --hostfil; did you mean --hostfile?" },
        { "--num_g 1", "unknown launch flag --num_g; did you mean --num_gpus?" },
        { "--abcdefgh", "unknown launch flag --abcdefgh; `cspeed help flags`" },
        { "--num_processes 2", "unknown launch flag --num_processes: a word of Accelerate; here it is --num_gpus (" },
        { "-x", "unknown launch flag -x" },
        { "-hostfile x", "unknown launch flag -hostfile" },
        { "--H x", "unknown launch flag --H" },
        { "--hostfile", "--hostfile needs a value" },
        { "--hostfile=", "--hostfile has an empty value" },
        { "--quiet=1", "--quiet takes no value" },
        { "--num_nodes 0", "--num_nodes takes a whole number from 1" },
        { "--nnodes 4:2", "--nnodes 4:2: in MIN:MAX, MIN must not be greater than MAX" },
        { "--nnodes 2:", "--nnodes takes a whole number" },
        { "--num_gpus 0", "--num_gpus takes a whole number from 1" },
        { "--num_gpus many", "--num_gpus takes a number, gpu, cpu or auto" },
        { "--node_rank x", "--node_rank takes a whole number from 0" },
        { "--master_port 70000", "--master_port takes a whole number from 0 to 65535" },
        { "--grace -1", "--grace takes a time" },
        { "--grace 5x", "--grace takes a time" },
        { "--stop_signal NOPE", "--stop_signal takes a signal" },
        { "--forward USR1,NOPE", "there is no \"NOPE\"" },
        { "--restart_on 0", "--restart_on takes any, or exit codes" },
        { "--log_max 0", "--log_max takes a size" },
        { "--console some", "--console is all, dedup, first, none, or ranks" },
        { "--color red", "--color is one of" },
        { "--bind core2", "--bind is one of auto|none|core|numa|socket|l3|list:CORES" },
        { "--bind list:3,1", "--bind takes cores and ranges" },
        { "--bind_core_list 8,2-6", "--bind_core_list takes cores and ranges" },
        { "--job_id a/b", "--job_id takes at most 63 letters" },
        { "--rdzv_endpoint :5", "--rdzv_endpoint takes HOST, HOST:PORT or [IPv6]:PORT" },
        { "--hostfile a --hosts b", "--hosts and --hostfile both name the hosts" },
        { "--num_nodes 1 -i a", "--num_nodes 1 and -i both select hosts" },
        { "--exclude a --nnodes=2", "--nnodes 2 and --exclude both select hosts" },
        { "--devices 0,1 -i a", "--devices selects slots of this machine" },
        { "--devices 2 --num_gpus 1", "--devices selects slots of this machine" },
        { "--hosts a --devices 2", "--devices selects slots of this machine" },
        { "--devices 1.5", "--devices takes a number of devices, a list such as 0,1, or auto; not \"1.5\"" },
        { "--devices 0,,1", "--devices takes a number of devices" },
        { "--backend gloo", "not supported: --backend gloo, because" },
        { "--standalone --no_ssh", "--standalone means one machine, but --no_ssh means one of several" },
        { "--heartbeat 20", "--dead_after must be longer" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cl_options o;
        ck_assert_msg(read_flags(&o, rows[i].line) == CL_CODE_USAGE, "%s", rows[i].line);
        ck_assert_msg(strstr(cs_error(), rows[i].sentence), "%s: %s", rows[i].line, cs_error());
    }
}
END_TEST

START_TEST(flags_without_effect_are_accepted)
{
    static const char *const rows[] = { "--autotuning=",
                                        "--rdzv_backend c10d",
                                        "--stdin none",
                                        "--launcher local",
                                        "--tee 0",
                                        "--redirects 0",
                                        "--signals_to_handle SIGTERM,SIGINT,SIGHUP,SIGQUIT",
                                        "--use_env",
                                        "--no_local_rank",
                                        "--enable_each_rank_log None" };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cl_options o;
        expect(&o, rows[i]);
    }
}
END_TEST

static void note_given(const char *name, const char *value, const char *origin, void *argument)
{
    char *text = argument;
    sprintf(text + strlen(text), "%s=%s(%s) ", name, value ? value : "", origin);
}

START_TEST(given_flags_have_their_origin)
{
    cl_options o;
    char text[512] = "";
    setenv("CSPEED_GRACE", "3", 1);
    expect(&o, "-q --nproc_per_node 2");
    cl_options_given(note_given, text);
    ck_assert_str_eq(text, "--num_gpus=2(--nproc_per_node) --grace=3(CSPEED_GRACE) --quiet=(-q) ");
    unsetenv("CSPEED_GRACE");
}
END_TEST

START_TEST(nearest)
{
    static const char *const names[] = { "plan", "status", "stop", NULL };
    ck_assert_str_eq(cs_nearest("plam", names), "plan");
    ck_assert_str_eq(cs_nearest("statu", names), "status");
    ck_assert_str_eq(cs_nearest("mod", (const char *const[]){ "model", "mode", "modes", NULL }), "mode");
    ck_assert_ptr_null(cs_nearest("xyzxyzxyz", names));
    char longest[4096];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    ck_assert_ptr_null(cs_nearest(longest, names));
}
END_TEST

/* ---- manual and completions ---- */

static void look_up(const char *name, const cs_option *option, void *argument)
{
    char flag[80], *plain = argument;
    ck_assert_int_gt((int)strlen(option->text), 3);
    snprintf(flag, sizeof flag, name[1] ? "--%s" : "-%s", name);
    ck_assert_msg(strstr(plain, flag) != NULL, "`cspeed help flags` does not know %s", flag);
}

/* `cspeed help flags` has every flag. The manual page has its text in place of a line of the template. */
START_TEST(the_manual_is_whole)
{
    size_t size;
    char *template = shell_read(CS_SOURCE "/launcher/cspeed.1", &size);
    ck_assert_ptr_nonnull(strstr(template, "\n.\\\" FLAGS\n"));
    free(template);
    shell_enter();
    ck_assert_int_eq(shell_run("%s/cspeed help flags", CS_BIN), 0);
    char *flags = shell_read("out.txt", NULL);
    cl_options_each(look_up, flags);
    free(flags);
    shell_leave();
}
END_TEST

/* `words` is a command line whose last word is being typed. `offers` must be among its completions, or, after a '!',
 * must not be. */
static const struct {
    const char *words, *offers;
} typed[] = {
    { "--hostf", "--hostfile" },
    { "--host_key s", "strict" },
    { "--num_gpus 2 --no_", "--no_ssh" },
    { "--log_dir = logs --no_", "--no_ssh" }, /* bash splits --log_dir=logs into three words */
    { "run --no_", "--no_ssh" },
    { "train --no_", "!--no_ssh" }, /* launch flags are not flags of train */
    { "--num_gpus 2 ps --no_", "!--no_ssh" },
    { "--stop", "--stop_signal" },
    { "--autotun", "!--autotuning" }, /* an unsupported flag is not offered */
    { "--node_rank ", "!R" },         /* R in the help is a placeholder for a number */
};

START_TEST(completions_exist)
{
    shell_enter();
    ck_assert_int_eq(shell_run("%s/cspeed completion bash > c.bash; cp c.bash kept.bash", CS_BIN), 0);
    for (size_t i = 0; i < sizeof typed / sizeof *typed; i++) {
        bool absent = *typed[i].offers == '!';
        int code = shell_run("bash -c '. ./kept.bash; COMP_WORDS=(cspeed %s%s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); "
                             "_cspeed; printf \"%%s\\n\" \"${COMPREPLY[@]}\" | grep -qx -e %s'",
                             typed[i].words, typed[i].words[strlen(typed[i].words) - 1] == ' ' ? "\"\"" : "",
                             typed[i].offers + absent);
        ck_assert_msg(code == absent, "cspeed %s: %s", typed[i].words, typed[i].offers);
    }
    shell_leave();
}
END_TEST

START_TEST(completions_are_scripts)
{
    shell_enter();
    ck_assert_int_eq(shell_run("%s/cspeed completion bash > c.bash && bash -n c.bash", CS_BIN), 0);
    ck_assert_int_eq(shell_run("%s/cspeed completion zsh > c.zsh && { ! command -v zsh || zsh -n c.zsh; }", CS_BIN), 0);
    ck_assert_int_eq(shell_run("%s/cspeed completion fish > c.fish && { ! command -v fish || fish -n c.fish; }",
                               CS_BIN),
                     0);
    ck_assert_int_eq(shell_run("%s/cspeed completion tcsh", CS_BIN), CL_CODE_USAGE);
    shell_leave();
}
END_TEST

START_TEST(help_fits_a_screen)
{
    size_t size;
    int lines = 0, column = 0;
    shell_enter();
    ck_assert_int_eq(shell_run("%s/cspeed -h", CS_BIN), 0);
    char *text = shell_read("out.txt", &size);
    for (const char *c = text; *c; c++) {
        column = *c == '\n' ? 0 : column + 1;
        lines += *c == '\n';
        ck_assert_int_le(column, 100);
    }
    ck_assert_int_le(lines, 50);
    free(text);
    ck_assert_int_eq(shell_run("%s/cspeed help flags | grep -q -- --nproc_per_node", CS_BIN), 0);
    ck_assert_int_eq(shell_run("%s/cspeed help plan | grep -q example", CS_BIN), 0);
    ck_assert_int_eq(shell_run("%s/cspeed help oom | grep -q 'exit code 137'", CS_BIN), 0);
    ck_assert_int_eq(shell_run("%s/cspeed help plam 2>&1 | grep -q 'nearest is plan'", CS_BIN), 0);
    shell_leave();
}
END_TEST

START_TEST(programs_name_the_flag_that_was_meant)
{
    static const char *const rows[][2] = {
        { "generate x --tempurature 3", "generate: unknown flag --tempurature; did you mean --temperature?" },
        { "generate x --top-kk=3", "unknown flag --top-kk; did you mean --top_k?" },
        { "eval x --jsn", "eval: unknown flag --jsn; did you mean --json?" },
        { "eval x --zzzzzzz", "unknown flag --zzzzzzz; --help lists those of eval" },
        { "train --config c.json --stepps=3", "train: unknown flag --stepps; did you mean --steps?" },
        { "train --config c.json --lenint", "did you mean --lenient?" },
        { "train --confg c.json", "train: unknown flag --confg; did you mean --config?" },
        { "train --steps=3 --seq-len 2 --world_size=2 --lenient", "--config FILE is missing" },
        { "train --config c.json --num_gpus 2", "--help lists those of train, and launch flags stand before it" },
        { "train --config c.json more", "unknown argument more" },
        { "pack --seq-len 0 x", "pack: --seq-len takes a whole number from 1 to 1000000000, not \"0\"" },
        { "pack --vocab words x", "not supported: --vocab words, because" },
        /* A flag cannot be abbreviated. */
        { "pack --thr 0 x", "unknown flag --thr; did you mean --threads?" },
        { "pack --threads 0 x", "--threads takes a whole number from 1 to 256" },
        { "train --config c.json --plan=xml",
          "--plan=xml: possible are --plan, --plan=json, --plan=units and --plan=cuts" },
        { "train --config c.json --world_size 2", "--world_size and --local_size need --plan" },
        { "cspeed plan --jsn", "plan: unknown flag --jsn; did you mean --json?" },
        { "cspeed ssh --help-me ls", "ssh: unknown flag --help-me" },
        { "pack --zzzzzzz x", "unknown flag --zzzzzzz; --help lists" },
        { "pack -x", "unknown flag -x" },
        { "pack --output", "--output needs a value" },
        { "cspeed verify x --jsn", "cspeed: verify: unknown flag --jsn; did you mean --json?" },
        { "cspeed export a b --dtyp bf16", "did you mean --dtype?" },
        { "cspeed import a b --tag t", "unknown flag --tag" },
    };
    shell_enter();
    shell_write("c.json", "{\"train_batch_size\": 1}");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int code = shell_run("%s/%s", CS_BIN, rows[i][0]);
        char *said = shell_read("out.txt", NULL);
        ck_assert_msg(code == 64 && strstr(said, rows[i][1]), "%s: exit code %d, and it says\n%s", rows[i][0], code,
                      said);
        free(said);
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("flags", defaults, deepspeed, torchrun, values, environment, refusals, flags_without_effect_are_accepted,
           given_flags_have_their_origin, nearest, the_manual_is_whole, completions_are_scripts, completions_exist,
           help_fits_a_screen, programs_name_the_flag_that_was_meant)
