/* mark_point.c - replaces a function of Check that each assertion calls if its condition is true.
 *
 * Check's function writes the assertion's place to a file, so that Check can name the last assertion before a crash.
 * It can do this only if it runs each test in a process of its own, which CK_FORK=no turns off. With the writes
 * test_ops, which has ten million assertions, needs 17 seconds of CPU time instead of 5. */
void __wrap__mark_point(const char *file, int line);

void __wrap__mark_point(const char *file, int line)
{
    (void)file;
    (void)line;
}
