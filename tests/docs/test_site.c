/* test_site.c - the site of the documents: mkdocs builds it without a warning, with its search, and it takes nothing from
 * other servers. Skipped where mkdocs is not installed. */
#include "shell.h"
#include "suite.h"

START_TEST(the_site_is_built_from_the_pages)
{
    shell_enter();
    ck_assert_int_eq(shell_run("mkdocs build --strict --quiet -f " CS_SOURCE "/mkdocs.yml -d $PWD/site"), 0);
    ck_assert_int_eq(shell_run("for page in " CS_SOURCE "/docs/*.md; do name=$(basename $page .md); "
                               "grep -q \"<h1\" site/$name.html || exit 1; "
                               "grep -q \"href=\\\"$name.html\\\"\" site/index.html || exit 2; done"),
                     0);
    ck_assert_int_eq(shell_run("grep -q 'When memory runs out' site/search/search_index.json"), 0);
    /* scripts, styles, fonts and pictures are the site's own files */
    ck_assert_int_eq(shell_run("! grep -rE '(src=|<link[^>]*href=|url\\()[\"'\\'']?(https?:)?//[A-Za-z0-9]' site"), 0);
    /* the scripts that every browser loads; one for Internet Explorer alone has no such word */
    ck_assert_int_eq(shell_run("cd site && for file in $(sed -n 's/.*<script src=\"\\([^\"]*\\)\" defer.*/\\1/p' "
                               "index.html); do echo $file; test -e $file || exit 1; done"),
                     0);
    ck_assert_int_eq(shell_run("test -s site/index.html && test -s site/configs/kubernetes.yaml"), 0);
    shell_leave();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { the_site_is_built_from_the_pages };
    if (system("command -v mkdocs > /dev/null") != 0) {
        puts("site: skipped, mkdocs is not installed");
        return SUITE_SKIPPED;
    }
    return suite_run("site", tests, 1);
}
