/* test_products_cache.c - the cache of measured product methods on disk: an entry is read back; entries of another key
 * and damaged ones are not used; a folder that cannot be written; two writers. */
#include "shell.h"
#include "suite.h"

#include "products/products_cache.h"

#include <glob.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char key[] = "cspeed 1, some CPU, AVX2, oneDNN 2.6.3, 2 threads";

static ce_products_measured some(const char *choice, double share)
{
    ce_products_measured measured = { .share = share, .roof = 123e9 };
    ck_assert(ce_products_read(&measured.choice, choice));
    return measured;
}

static void check_kept(const char *of, const char *choice, double share)
{
    char text[CE_PRODUCTS_TEXT];
    ce_products_measured got = { 0 };
    ck_assert(ce_products_cache_get(of, &got));
    ce_products_print(text, &got.choice);
    ck_assert_str_eq(text, choice);
    ck_assert(got.cached);
    ck_assert_double_eq_tol(got.share, share, 1e-6);
    ck_assert_double_eq_tol(got.roof, 123e9, 1e5);
}

static bool is_kept(const char *of)
{
    ce_products_measured got = { .share = -1 };
    bool there = ce_products_cache_get(of, &got);
    ck_assert(there || got.share == -1); /* an entry that is not used does not change `got` */
    return there;
}

static const char one[] = "fp32: nn 10x20 native, others fixed", other[] = "fp32: others sgemm";

static void begin(void)
{
    char here[4096];
    shell_enter();
    ck_assert_ptr_nonnull(getcwd(here, sizeof here - 16));
    strcat(here, "/cache");
    setenv("XDG_CACHE_HOME", here, 1);
}

/* Writes the path of the only file in the cache to `path`. Fails the test unless there is exactly one file. */
static void only_file(char path[256])
{
    glob_t found;
    ck_assert_int_eq(glob("cache/cspeed/*", 0, NULL, &found), 0);
    ck_assert_uint_eq(found.gl_pathc, 1);
    snprintf(path, 256, "%s", found.gl_pathv[0]);
    globfree(&found);
}

static void put(const char *of, const char *choice, double share)
{
    ce_products_measured measured = some(choice, share);
    ce_products_cache_put(of, &measured);
}

START_TEST(a_choice_is_kept)
{
    char path[256];
    begin();
    ck_assert(!is_kept(key));
    put(key, one, 0.5);
    check_kept(key, one, 0.5);
    only_file(path); /* checks that the cache has exactly one file */
    ck_assert(!is_kept("cspeed 1, another CPU, AVX2, oneDNN 2.6.3, 2 threads"));
    shell_leave();
}
END_TEST

/* If two runs measure at the same time, both use the choice of the run that writes first. */
START_TEST(the_first_to_write_decides)
{
    begin();
    put(key, one, 0.5);
    ce_products_measured second = some(other, 0.25);
    ce_products_cache_put(key, &second);
    ck_assert(second.cached && second.share == 0.5 && second.choice.count == 1);
    check_kept(key, one, 0.5);
    shell_leave();
}
END_TEST

START_TEST(a_damaged_file_is_no_result)
{
    char path[256];
    size_t bytes;
    begin();
    put(key, one, 0.5);
    only_file(path);
    char *whole = shell_read(path, &bytes);
    for (size_t length = 0; length < bytes; length++) {
        ck_assert_int_eq(truncate(path, (off_t)length), 0);
        ck_assert_msg(!is_kept(key), "read after %zu of %zu bytes", length, bytes);
        shell_write(path, whole);
    }
    shell_write(path, "cspeed 1, another CPU of the same hash\nfp32: others sgemm\n0.5 1e9\nwhole\n");
    ck_assert(!is_kept(key));
    put(key, other, 0.25); /* replaces the damaged entry */
    check_kept(key, other, 0.25);
    free(whole);
    shell_leave();
}
END_TEST

START_TEST(a_cache_that_cannot_be_written_is_none)
{
    begin();
    shell_write("cache", "a file where the folder should be");
    put(key, one, 0.5);
    ck_assert(!is_kept(key));
    setenv("XDG_CACHE_HOME", "relative", 1); /* the XDG specification says that relative paths are ignored */
    setenv("HOME", "", 1);
    put(key, one, 0.5);
    ck_assert(!is_kept(key));
    ck_assert_int_ne(access("relative", F_OK), 0);
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    put(key, one, 0.5);
    ck_assert(!is_kept(key));
    shell_leave();
}
END_TEST

START_TEST(without_xdg_it_is_in_the_home_folder)
{
    char here[4096];
    begin();
    ck_assert_ptr_nonnull(getcwd(here, sizeof here));
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", here, 1);
    put(key, one, 0.5);
    check_kept(key, one, 0.5);
    ck_assert_int_eq(access(".cache/cspeed", F_OK), 0);
    shell_leave();
}
END_TEST

SUITE_MAIN("products cache", a_choice_is_kept, the_first_to_write_decides, a_damaged_file_is_no_result,
           a_cache_that_cannot_be_written_is_none, without_xdg_it_is_in_the_home_folder)
