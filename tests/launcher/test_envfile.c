/* test_envfile.c - environment files, and other variables that are sent to ranks, with corrections to DeepSpeed's
 * rules. */
#include "suite.h"
#include "shell.h"

#include "ground/codes.h"
#include "plan/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *text, *result, *fault; /* result: "NAME=value|NAME=value" */
} table[] = {
    { "A=1", "A=1", NULL },
    { "A = 1", "A=1", NULL },
    { "A=x=y", "A=x=y", NULL },
    { "\n# comment\n   # another\nA=1\n\n", "A=1", NULL },
    { "export A=1", "A=1", NULL },
    { "export\tA=1", "A=1", NULL },
    { "A=\"x y\"", "A=x y", NULL },
    { "A='x y'", "A=x y", NULL },
    { "A=1 # c", "A=1", NULL },
    { "A=1\t# c", "A=1", NULL },
    { "A=1#c", "A=1#c", NULL },
    { "A=#c", "A=#c", NULL },
    { "A= #c", "A=", NULL },
    { "A=", "A=", NULL },
    { "A=\"\"", "A=", NULL },
    { "A='a b' # c", "A=a b", NULL },
    { "A='$HOME `id` \\n'", "A=$HOME `id` \\n", NULL },
    { "A=\"$HOME `id` 64(x2)\"", "A=$HOME `id` 64(x2)", NULL },
    { "A=a$HOME", "A=a$HOME", NULL },
    { "A=say \"hi\"", "A=say \"hi\"", NULL },
    { "A=\"say \\\"hi\\\"\"", "A=say \"hi\"", NULL },
    { "A=\"a\\nb\\tc\\\\d\\$e\\qf\"", "A=a\nb\tc\\d$e\\qf", NULL },
    { "A=\"two\nlines\"\nB='and\nthree\nmore'\n", "A=two\nlines|B=and\nthree\nmore", NULL },
    { "A=1\r\nB=\"2\"\r\n", "A=1|B=2", NULL },
    { "A=1\nA=2\n", "A=2", NULL },
    { "B=2\nA=1\n", "A=1|B=2", NULL },
    { "\xef\xbb\xbf"
      "A=1",
      "A=1", NULL },
    { "A=\xff\x01\x7f", "A=\xff\x01\x7f", NULL },
    { "CS_TEST_OWN", "CS_TEST_OWN=own value", NULL },
    { "CS_TEST_OWN # as it is here", "CS_TEST_OWN=own value", NULL },
    { "export CS_TEST_OWN\n", "CS_TEST_OWN=own value", NULL },
    { "exported=1", "exported=1", NULL },
    { "A=\"${CS_TEST_OWN}\"", "A=${CS_TEST_OWN}", NULL },

    { "CS_TEST_NOT_THERE", NULL,
      "f:1:18: CS_TEST_NOT_THERE without a value copies the variable of this machine, but it is not set here" },
    { "1A=2", NULL, "f:1:1: a line is NAME=value" },
    { "A-B=2", NULL, "f:1:2: A is not followed by '='" },
    { "A B=2", NULL, "f:1:3: A is not followed by '='" },
    { "=2", NULL, "f:1:1: a line is NAME=value" },
    { "A='never", NULL, "f:1:3: the closing quote is missing" },
    { "B=1\n  A=\"never\nhere\n", NULL, "f:2:5: the closing quote is missing" },
    { "A='x'y", NULL, "f:1:6: only a comment may follow the closing quote" },
    { "A=\"x\nz\" y", NULL, "f:2:4: only a comment may follow" },
    { "1\nA=1\n2\n", NULL,
      "f:1:1: a line is NAME=value; a name consists of letters, digits and _ and does not begin with a digit\nf:3:1: "
      "a line" },
};

static void write_env(const cl_env *env, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < env->count; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s=%s", i ? "|" : "", env->list[i].name, env->list[i].value);
}

static int parse(cl_env *env, const char *file, const char *text, size_t length, bool expand)
{
    ce_faults faults = { .count = 0 };
    cl_envfile_read(env, file, text, length, expand, &faults);
    return ce_faults_verdict(&faults, CL_CODE_FILE);
}

START_TEST(lines_are_parsed_or_refused)
{
    setenv("CS_TEST_OWN", "own value", 1);
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        cl_env env = { 0 };
        char text[512];
        int code = parse(&env, "f", table[i].text, strlen(table[i].text), false);
        if (table[i].result) {
            ck_assert_msg(code == 0, "%s: %s", table[i].text, cs_error());
            write_env(&env, text, sizeof text);
            ck_assert_str_eq(text, table[i].result);
        } else {
            ck_assert_msg(code == CL_CODE_FILE && strstr(cs_error(), table[i].fault), "%s: %d %s", table[i].text, code,
                          cs_error());
        }
        cl_env_free(&env);
    }
}
END_TEST

START_TEST(a_nul_byte_is_refused)
{
    cl_env env = { 0 };
    ck_assert_int_eq(parse(&env, "f", "A=1\nB=\0\n", 8, false), CL_CODE_FILE);
    ck_assert_str_eq(cs_error(), "f:2:3: there is a NUL byte in this file");
    cl_env_free(&env);
}
END_TEST

START_TEST(variables_are_expanded)
{
    static const struct {
        const char *text, *result, *fault;
    } rows[] = {
        { "A=\"<${CS_TEST_OWN}>\"", "A=<own value>", NULL },
        { "A=1\nB=\"${A}${A}\"", "A=1|B=11", NULL },
        { "A='${CS_TEST_OWN}'\nB=${CS_TEST_OWN}", "A=${CS_TEST_OWN}|B=${CS_TEST_OWN}", NULL },
        { "A=\"\\${CS_TEST_OWN} $CS_TEST_OWN\"", "A=${CS_TEST_OWN} $CS_TEST_OWN", NULL },
        { "A=\"${CS_TEST_NOT_THERE}\"", NULL, "f:1:4: ${CS_TEST_NOT_THERE}: there is no such variable" },
        { "A=\"${\"", NULL, "f:1:4: ${ is not followed by a name and }" },
        { "A=\"${A:-x}\"", NULL, "f:1:4: ${ is not followed by a name and }" },
    };
    setenv("CS_TEST_OWN", "own value", 1);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cl_env env = { 0 };
        char text[256];
        int code = parse(&env, "f", rows[i].text, strlen(rows[i].text), true);
        write_env(&env, text, sizeof text);
        if (rows[i].result)
            ck_assert_str_eq(text, rows[i].result);
        else
            ck_assert_msg(code == CL_CODE_FILE && strstr(cs_error(), rows[i].fault), "%s", cs_error());
        cl_env_free(&env);
    }
}
END_TEST

/* ---- collecting ---- */

static const cl_env_entry *find(const cl_env *env, const char *name)
{
    for (int i = 0; i < env->count; i++)
        if (strcmp(env->list[i].name, name) == 0)
            return &env->list[i];
    return NULL;
}

static void check_entry(const cl_env *env, const char *name, const char *value, const char *origin)
{
    const cl_env_entry *entry = find(env, name);
    if (!value) {
        ck_assert_msg(!entry, "%s is sent", name);
        return;
    }
    ck_assert_msg(entry != NULL, "%s is not sent", name);
    ck_assert_str_eq(entry->value, value);
    ck_assert_str_eq(entry->origin, origin);
}

static char *own_home;

static void enter(void)
{
    shell_enter();
    ck_assert_int_eq(system("mkdir home"), 0);
    own_home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    char path[512], full[600];
    ck_assert_ptr_nonnull(getcwd(path, sizeof path));
    snprintf(full, sizeof full, "%s/home", path);
    setenv("HOME", full, 1);
    unsetenv("DS_ENV_FILE");
    unsetenv("CSPEED_ENV_FILE");
}

static void leave(void)
{
    if (own_home)
        setenv("HOME", own_home, 1);
    free(own_home);
    shell_leave();
}

START_TEST(files_and_their_order)
{
    enter();
    shell_write("home/.deepspeed_env", "A=home ds\nB=home ds\nC=home ds\nD=home ds\nE=home ds\n");
    shell_write("home/.cspeed_env", "B=home cs\n");
    shell_write(".deepspeed_env", "C=here ds\n");
    shell_write(".cspeed_env", "D=here cs\n");
    shell_write("job.env", "E=job\nF=job\n");
    cl_options options = { .env = { { "F=flag", "G=a b=c\n'\"$" }, 2 }, .env_files = { { "job.env" }, 1 } };
    cl_env env;
    char origin[700];
    ck_assert_int_eq(cl_env_collect(&env, &options), 0);
    snprintf(origin, sizeof origin, "%s/.deepspeed_env:1", getenv("HOME"));
    check_entry(&env, "A", "home ds", origin);
    snprintf(origin, sizeof origin, "%s/.cspeed_env:1", getenv("HOME"));
    check_entry(&env, "B", "home cs", origin);
    check_entry(&env, "C", "here ds", ".deepspeed_env:1");
    check_entry(&env, "D", "here cs", ".cspeed_env:1");
    check_entry(&env, "E", "job", "job.env:1");
    check_entry(&env, "F", "flag", "--env");
    check_entry(&env, "G", "a b=c\n'\"$", "--env");
    cl_env_free(&env);
    options.no_env_defaults = true;
    ck_assert_int_eq(cl_env_collect(&env, &options), 0);
    check_entry(&env, "A", NULL, NULL);
    check_entry(&env, "E", "job", "job.env:1");
    cl_env_free(&env);
    leave();
}
END_TEST

START_TEST(another_file_can_be_named)
{
    enter();
    cl_options options = { 0 };
    cl_env env;
    shell_write(".deepspeed_env", "A=usual\n");
    shell_write("home/mine", "B=home\n");
    shell_write("mine", "C=here\n");
    setenv("DS_ENV_FILE", "mine", 1);
    ck_assert_int_eq(cl_env_collect(&env, &options), 0);
    check_entry(&env, "A", NULL, NULL);
    ck_assert_ptr_nonnull(find(&env, "B"));
    check_entry(&env, "C", "here", "mine:1");
    cl_env_free(&env);
    setenv("CSPEED_ENV_FILE", ".deepspeed_env", 1); /* the file that CSPEED_ENV_FILE names takes precedence */
    ck_assert_int_eq(cl_env_collect(&env, &options), 0);
    check_entry(&env, "A", "usual", ".deepspeed_env:1");
    check_entry(&env, "C", NULL, NULL);
    cl_env_free(&env);
    setenv("CSPEED_ENV_FILE", "/nowhere/env", 1);
    ck_assert_int_eq(cl_env_collect(&env, &options), CL_CODE_NO_FILE);
    setenv("CSPEED_ENV_FILE", "nowhere.env", 1);
    ck_assert_int_eq(cl_env_collect(&env, &options), CL_CODE_NO_FILE);
    ck_assert_ptr_nonnull(strstr(cs_error(), "nowhere.env: CSPEED_ENV_FILE names this environment file"));
    leave();
}
END_TEST

START_TEST(prefixes_and_secrets)
{
    static const char *const sent[] = { "NCCL_DEBUG", "UCX_TLS", "MLFLOW_URI",  "PYTHONPATH",  "MV2_X",
                                        "CSPEED_X",   "OMP_X",   "GLOO_SOCKET", "FI_PROVIDER", "CUDA_LAUNCH_BLOCKING" };
    static const char *const kept[] = { "LD_LIBRARY_PATH",       "PATH2",         "CUDA_VISIBLE_DEVICES",
                                        "CSPEED_JOB_ID",         "CSPEED_SECRET", "NCCL_API_KEY",
                                        "MLFLOW_TRACKING_TOKEN", "UCX_password",  "CSPEED_BOUND" };
    enter();
    cl_options options = { 0 };
    cl_env env;
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++)
        setenv(sent[i], "x y", 1);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        setenv(kept[i], "x y", 1);
    ck_assert_int_eq(cl_env_collect(&env, &options), 0);
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++)
        ck_assert_msg(find(&env, sent[i]) != NULL, "%s", sent[i]);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        ck_assert_msg(find(&env, kept[i]) == NULL, "%s", kept[i]);
    check_entry(&env, "NCCL_DEBUG", "x y", "caller (NCCL*)");
    cl_env_free(&env);

    options.env = (cs_option_list){ { "NCCL_API_KEY", "LD_LIBRARY_PATH", "MLFLOW*", "CSPEED_J*" }, 4 };
    ck_assert_int_eq(cl_env_collect(&env, &options), 0);
    check_entry(&env, "NCCL_API_KEY", "x y", "--env (caller)");
    check_entry(&env, "LD_LIBRARY_PATH", "x y", "--env (caller)");
    check_entry(&env, "MLFLOW_URI", "x y", "--env (pattern)");
    check_entry(&env, "MLFLOW_TRACKING_TOKEN", NULL, NULL); /* a pattern like MLFLOW* does not select secrets */
    check_entry(&env, "CSPEED_JOB_ID", NULL, NULL);
    cl_env_free(&env);
    options.env = (cs_option_list){ { "*TOKEN*" }, 1 };
    ck_assert_int_eq(cl_env_collect(&env, &options), 0);
    check_entry(&env, "MLFLOW_TRACKING_TOKEN", "x y", "--env (pattern)");
    cl_env_free(&env);

    setenv("AISC_JOB_NAME", "x", 1);
    setenv("NCCL_IB_HCA", "mlx5_0", 1);
    options.env.count = 0;
    ck_assert_int_eq(cl_env_collect(&env, &options), 0);
    check_entry(&env, "NCCL_IB_HCA", NULL, NULL);
    cl_env_free(&env);
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++)
        unsetenv(sent[i]);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        unsetenv(kept[i]);
    unsetenv("AISC_JOB_NAME");
    unsetenv("NCCL_IB_HCA");
    leave();
}
END_TEST

START_TEST(faults_of_all_sources)
{
    enter();
    shell_write(".cspeed_env", "1\n");
    shell_write("job.env", "A='\n");
    cl_options options = { .env = { { "1A=2", "CS_TEST_NOT_THERE", "=x" }, 3 }, .env_files = { { "job.env" }, 1 } };
    cl_env env;
    ck_assert_int_eq(cl_env_collect(&env, &options), CL_CODE_FILE);
    static const char *const parts[] = { ".cspeed_env:1:1: ", "job.env:1:3: the closing quote",
                                         "--env: \"1A\" is not the name of a variable",
                                         "--env: CS_TEST_NOT_THERE without a value",
                                         "--env: \"\" is not the name of a variable" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        ck_assert_msg(strstr(cs_error(), parts[i]) != NULL, "%s not in %s", parts[i], cs_error());
    options.env_files.list[0] = "nowhere.env";
    ck_assert_int_eq(cl_env_collect(&env, &options), CL_CODE_NO_FILE);
    leave();
}
END_TEST

/* ds_env.example can be read, and it has a line for every case of the grammar. */
START_TEST(the_example)
{
    size_t size;
    cl_env env = { 0 };
    char *text = shell_read(CS_SOURCE "/ds_env.example", &size);
    ck_assert_msg(parse(&env, "ds_env.example", text, size, false) == 0, "%s", cs_error());
    ck_assert_str_eq(find(&env, "NCCL_DEBUG")->value, "WARN");
    ck_assert_str_eq(find(&env, "CS_EXAMPLE_LINES")->value, "first\nsecond");
    ck_assert_str_eq(find(&env, "CS_EXAMPLE_JSON")->value, "{\n  \"a\": 1\n}");
    ck_assert_str_eq(find(&env, "PATH")->value, getenv("PATH"));
    cl_env_free(&env);
    free(text);
}
END_TEST

START_TEST(names_of_secrets)
{
    ck_assert(cl_env_is_secret("HF_TOKEN") && cl_env_is_secret("AWS_SECRET_ACCESS") && cl_env_is_secret("api_key") &&
              cl_env_is_secret("DB_PASSWORD") && cl_env_is_secret("CSPEED_SECRET"));
    ck_assert(!cl_env_is_secret("PATH") && !cl_env_is_secret("NCCL_DEBUG"));
}
END_TEST

SUITE_MAIN("envfile", lines_are_parsed_or_refused, a_nul_byte_is_refused, variables_are_expanded, files_and_their_order,
           another_file_can_be_named, prefixes_and_secrets, faults_of_all_sources, the_example, names_of_secrets)
