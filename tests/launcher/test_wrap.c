/* test_wrap.c - wrapping a command's help to the width of the terminal. */
#include "show/wrap.h"
#include "suite.h"

static void must_wrap(const char *text, int columns, const char *wanted)
{
    char *found = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&found, &length);
    ck_assert_ptr_nonnull(file);
    cl_wrap_print(file, text, columns);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_msg(strcmp(found, wanted) == 0, "\"%s\", not \"%s\"", found, wanted);
    free(found);
}

START_TEST(paragraphs_are_divided_anew)
{
    must_wrap("one two\nthree four\n", 9, "one two\nthree\nfour\n");
    must_wrap("one two\nthree four\n", 100, "one two three four\n");
    must_wrap("one\n\ntwo\n", 100, "one\n\ntwo\n");
    must_wrap("one\n  a row\n  another\ntwo\nthree\n", 9, "one\n  a row\n  another\ntwo three\n");
    must_wrap("unbreakable\n", 4, "unbreakable\n");
    must_wrap("\u00e9\u00e9\u00e9 \u00e9\u00e9\u00e9\n", 7, "\u00e9\u00e9\u00e9 \u00e9\u00e9\u00e9\n");
    must_wrap("no line feed", 100, "no line feed\n");
    must_wrap("", 100, "");
}
END_TEST

SUITE_MAIN("wrap", paragraphs_are_divided_anew)
