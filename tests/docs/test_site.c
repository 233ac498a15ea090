/* test_site.c - the site of the documents: mkdocs builds the site without a warning and with its search, and the pages
 * load nothing from other servers. The tests are skipped if mkdocs-material is not installed. The search is tested only
 * if chromium is installed. */
#include "shell.h"
#include "suite.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(the_site_is_built_from_the_pages)
{
    shell_enter();
    ck_assert_int_eq(shell_run(CS_SOURCE "/.ci/site site"), 0);
    ck_assert_int_eq(shell_run("for page in " CS_SOURCE "/docs/*.md; do name=$(basename $page .md); "
                               "grep -q \"<h1\" site/$name.html || exit 1; "
                               "grep -q \"href=\\\"$name.html\\\"\" site/index.html || exit 2; done"),
                     0);
    ck_assert_int_eq(shell_run("grep -q 'When memory runs out' site/search/search_index.json"), 0);
    /* scripts, styles, fonts and pictures are the site's own files */
    ck_assert_int_eq(shell_run("! grep -rE '(src=|<link[^>]*href=|url\\()[\"'\\'']?(https?:)?//[A-Za-z0-9]' site"), 0);
    ck_assert_int_eq(shell_run(
                         "cd site && for file in $(sed -n 's/.*<script src=\"\\([^\"]*\\)\".*/\\1/p' index.html); do "
                         "echo $file; test -s $file || exit 1; done && test -s site.js"),
                     0);
    /* no link is left that leads to a source of a page */
    ck_assert_int_eq(shell_run("! grep -rnE 'href=\"[^\":]*\\.md[\"#]' site --include='*.html'"), 0);
    /* copy buttons, dark mode, pictures as a part of the page, names of files */
    ck_assert_int_eq(shell_run("grep -q content.code.copy site/index.html && "
                               "grep -q 'prefers-color-scheme: dark' site/index.html && "
                               "grep -q '<svg [^>]*class=\"figure\"' site/memory.html && "
                               "grep -q 'class=\"filename\">base.json<' site/fine-tuning.html"),
                     0);
    /* on a phone each cell names its column */
    ck_assert_int_eq(shell_run("grep -q '<td data-title=\"DeepSpeed\">' site/row-by-row.html"), 0);
    ck_assert_int_eq(shell_run("test -s site/index.html && test -s site/configs/kubernetes.yaml"), 0);
    shell_leave();
}
END_TEST

/* A tool that is missing is named in one sentence. */
START_TEST(what_the_site_needs_is_named)
{
    shell_enter();
    ck_assert_int_eq(shell_run(
                         "mkdir bin && for name in bash dirname realpath sed; do ln -s $(command -v $name) bin; done"),
                     0);
    ck_assert_int_eq(shell_run("PATH=$PWD/bin " CS_SOURCE "/.ci/site site 2>missing.txt"), 69);
    ck_assert_int_eq(shell_run("grep -c '^the site needs mkdocs-material: .*pip install' missing.txt"), 0);
    ck_assert_int_eq(shell_run("test $(wc -l <missing.txt) = 1"), 0);
    shell_leave();
}
END_TEST

/* The search needs a server and a second thread. The test uses a page of its own instead: in it, the same scripts build
 * the index and search it, and the browser prints each word with the places where it was found. */
START_TEST(the_search_finds_english_and_chinese_words)
{
    static const char page[] =
        "<meta charset=utf-8><body><script>"
        "function importScripts(...urls) { return Promise.all(urls.map(url => new Promise(done => {"
        "  const script = document.createElement('script'); script.src = url; script.onload = done;"
        "  document.body.append(script); }))); }"
        "const words = ['gradients', 'bfloat16', '\u68c0\u67e5\u70b9', '\u90a3\u68c0']; let next = 0;"
        "addEventListener('message', ({ data }) => {" /* 0: documents; 1: ready; 2: a query; 3: the result */
        "  if (data.type === 3)"
        "    document.body.append(words[next++], '=', data.data.items.flat().map(r => r.location).join(), ';');"
        "  if (data.type % 2 === 1 && next < words.length) postMessage({ type: 2, data: words[next] }); });"
        "</script><script src=search.js></script><script src=data.js></script>";
    shell_enter();
    ck_assert_int_eq(shell_run(CS_SOURCE
                               "/.ci/site site && cd site/assets/javascripts/workers && mv search.*.js search.js &&"
                               "(printf 'postMessage({ type: 0, data: { options: {}, ...';"
                               " cat ../../../search/search_index.json; echo '}})') >data.js"),
                     0);
    shell_write("site/assets/javascripts/workers/try.html", page);
    ck_assert_int_eq(shell_run("chromium --headless --no-sandbox --disable-gpu --user-data-dir=$PWD/browser --dump-dom "
                               "--virtual-time-budget=60000 "
                               "file://$PWD/site/assets/javascripts/workers/try.html 2>log.txt"),
                     0);
    char *found = shell_read("out.txt", NULL);
    ck_assert_msg(strstr(found, "memory.html#which-stage") != NULL, "%s", found);
    ck_assert_msg(strstr(found, "bfloat16=keys.html") != NULL, "%s", found);
    ck_assert_msg(strstr(found, "检查点=first-hour.zh.html") != NULL, "%s", found);
    ck_assert_msg(strstr(found, "那检=;") != NULL, "%s", found);
    free(found);
    shell_leave();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { what_the_site_needs_is_named, the_site_is_built_from_the_pages,
                                   the_search_finds_english_and_chinese_words };
    bool browser = system("command -v chromium > /dev/null") == 0;
    if (system(CS_SOURCE "/.ci/site 2> /dev/null") != 0) {
        puts("site: skipped, mkdocs-material is not installed");
        return SUITE_SKIPPED;
    }
    return suite_run("site", tests, browser ? 3 : 2);
}
