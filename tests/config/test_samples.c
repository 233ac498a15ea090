/* test_samples.c - a table of configurations as users write them: which are accepted, and which are refused and why.
 *
 * The first line of each file in tests/configs says what is expected. CSPEED_DS_CONFIGS=FOLDER adds the files of
 * another folder, each of which must be either accepted or refused with a message. */
#include "config/config.h"
#include "suite.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cs_status resolve(const char *path, int world)
{
    cs_config *config;
    cs_status status = cs_config_open(&config, path);
    if (status != CS_OK)
        return status;
    cs_config_for_world(config, world, world);
    status = cs_config_finish(config);
    if (status == CS_OK) {
        const ce_settings *s = &config->settings;
        ck_assert_msg(s->train_batch_size == s->micro_batch * s->accumulation * world && s->micro_batch > 0, "%s",
                      path);
        ck_assert_msg(!strstr(config->text, ": \"auto\"") || strstr(config->text, "\"cspeed\""), "%s: auto is left",
                      path);
    }
    cs_config_close(config);
    return status;
}

static void expect(const char *path, char *first_line, cs_status status)
{
    char *refused = strstr(first_line, "refused: ");
    first_line[strcspn(first_line, "\n")] = 0;
    if (refused)
        ck_assert_msg(status == CS_BAD_CONFIG && strstr(cs_error(), refused + 9), "%s: %s", path,
                      status == CS_OK ? "was accepted" : cs_error());
    else
        ck_assert_msg(status == CS_OK, "%s: %s", path, cs_error());
}

START_TEST(test_ours)
{
    glob_t files;
    char first_line[256];
    ck_assert_int_eq(glob(CS_TESTS "/configs/*.json", 0, NULL, &files), 0);
    ck_assert_uint_ge(files.gl_pathc, 25);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        FILE *file = fopen(files.gl_pathv[i], "r");
        ck_assert(file && fgets(first_line, sizeof first_line, file));
        fclose(file);
        expect(files.gl_pathv[i], first_line, resolve(files.gl_pathv[i], 1));
    }
    globfree(&files);
}
END_TEST

/* Returns the world size that the refusal names, or 0. */
static int fitting_world(const char *sentence)
{
    const char *hint = strstr(sentence, "; world size ");
    return hint ? atoi(hint + 13) : 0;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Prints the refusal as one line, without the path of the file, which the name identifies. */
static void print_refusal(const char *name, int world)
{
    char text[160];
    const char *sentence = strstr(cs_error(), ".json:") ? strstr(cs_error(), ".json:") + 6 : cs_error();
    snprintf(text, sizeof text, "%.*s", (int)strcspn(sentence, "\n"), sentence);
    printf("%-28s refused at world size %d   %s%s\n", name, world, text, strchr(sentence, '\n') ? " ..." : "");
}

typedef struct {
    int accepted, elsewhere, refused;
} counts;

static void print_row(const char *path, counts *so_far)
{
    cs_status status = resolve(path, 1);
    int world = status == CS_OK ? 1 : fitting_world(cs_error());
    if (status != CS_OK && world > 1)
        status = resolve(path, world);
    if (status == CS_OK)
        printf("%-28s accepted at world size %d\n", base_name(path), world);
    else
        print_refusal(base_name(path), world > 1 ? world : 1);
    so_far->accepted += status == CS_OK && world == 1;
    so_far->elsewhere += status == CS_OK && world > 1;
    so_far->refused += status != CS_OK;
}

static void print_table(const char *folder)
{
    char pattern[1024];
    glob_t files;
    counts all = { 0 };
    snprintf(pattern, sizeof pattern, "%s/*.json", folder);
    ck_assert_int_eq(glob(pattern, 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++)
        print_row(files.gl_pathv[i], &all);
    printf("%zu files: %d accepted at world size 1, %d at the world size they are written for, %d refused\n",
           files.gl_pathc, all.accepted, all.elsewhere, all.refused);
    globfree(&files);
}

START_TEST(test_tables)
{
    print_table(CS_TESTS "/configs");
    if (getenv("CSPEED_DS_CONFIGS"))
        print_table(getenv("CSPEED_DS_CONFIGS"));
}
END_TEST

SUITE_MAIN("samples", test_ours, test_tables)
