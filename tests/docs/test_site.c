/* test_site.c - the site of the documents: mkdocs builds the site without a warning and with its search, and the pages
 * load nothing from other servers. The tests are skipped if mkdocs is not installed. The search is tested only if
 * chromium is installed. */
#include "shell.h"
#include "suite.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    /* each script with the attribute `defer` exists; a script without this attribute is for Internet Explorer only */
    ck_assert_int_eq(shell_run("cd site && for file in $(sed -n 's/.*<script src=\"\\([^\"]*\\)\" defer.*/\\1/p' "
                               "index.html); do echo $file; test -e $file || exit 1; done"),
                     0);
    ck_assert_int_eq(shell_run("test -s site/index.html && test -s site/configs/kubernetes.yaml"), 0);
    shell_leave();
}
END_TEST

/* The search page needs a server and a second thread. The test uses a page of its own instead: in it, the same scripts
 * build the index and search it, and the browser prints each word with the places where it was found. */
START_TEST(the_search_finds_english_and_chinese_words)
{
    static const char page[] = "<meta charset=utf-8><script src=search/lunr.js></script><script src=search/lunr.zh.js>"
                               "</script><script src=data.js></script><p></p><script>"
                               "const index = lunr(function () { this.use(lunr.zh); this.field('title'); "
                               "this.field('text'); this.ref('location'); data.docs.forEach(d => this.add(d)); });"
                               "for (const word of ['gradients', '\u68c0\u67e5\u70b9', '\u90a3\u68c0'])"
                               "  document.body.append(word, '=', index.search(word).map(r => r.ref).join(), ';');"
                               "</script>";
    shell_enter();
    ck_assert_int_eq(shell_run("mkdocs build --quiet -f " CS_SOURCE "/mkdocs.yml -d $PWD/site"), 0);
    ck_assert_int_eq(shell_run("(printf 'const data = '; cat site/search/search_index.json) >site/data.js"), 0);
    shell_write("site/try.html", page);
    ck_assert_int_eq(shell_run("chromium --headless --no-sandbox --disable-gpu --user-data-dir=$PWD/browser --dump-dom "
                               "file://$PWD/site/try.html 2>log.txt"),
                     0);
    char *found = shell_read("out.txt", NULL);
    ck_assert_msg(strstr(found, "memory.html#which-stage") != NULL, "%s", found);
    ck_assert_msg(strstr(found, "检查点=first-hour.zh.html") != NULL, "%s", found);
    ck_assert_msg(strstr(found, "那检=;") != NULL, "%s", found);
    free(found);
    shell_leave();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { the_site_is_built_from_the_pages, the_search_finds_english_and_chinese_words };
    bool browser = system("command -v chromium > /dev/null") == 0;
    if (system("command -v mkdocs > /dev/null") != 0) {
        puts("site: skipped, mkdocs is not installed");
        return SUITE_SKIPPED;
    }
    return suite_run("site", tests, browser ? 2 : 1);
}
