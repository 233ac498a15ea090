/* folder.c - folders of token shards that the program pack makes: FOLDER/train-00000.bin ... and FOLDER/valid.bin. */
#include "data/folder.h"
#include "base/files.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 8192 };

void ce_folder_quote(char *pattern, size_t capacity, const char *name)
{
    size_t at = 0;
    for (; *name && at + 2 < capacity; name++) {
        if (strchr("*?[]\\", *name))
            pattern[at++] = '\\';
        pattern[at++] = *name;
    }
    pattern[at] = 0;
}

/* Returns the pattern FOLDER/INSIDE, which the caller frees, or NULL if no file matches the pattern. */
static char *find(const char *folder, const char *inside)
{
    char quoted[NAME_BYTES];
    glob_t found;
    ce_folder_quote(quoted, sizeof quoted, folder);
    for (size_t end = strlen(quoted); end > 1 && quoted[end - 1] == '/'; end--)
        quoted[end - 1] = 0;
    char *pattern = ce_files_join(quoted, inside);
    int outcome = glob(pattern, 0, NULL, &found);
    globfree(&found);
    if (outcome == 0)
        return pattern;
    free(pattern);
    return NULL;
}

char *ce_folder_train(const char *folder)
{
    return find(folder, "train-*.bin");
}

char *ce_folder_valid(const char *folder)
{
    return find(folder, "valid.bin");
}
