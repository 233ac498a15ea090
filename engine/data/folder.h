/* folder.h - folders of token shards as pack makes them: FOLDER/train-00000.bin ... and FOLDER/valid.bin. */
#ifndef CS_DATA_FOLDER_H
#define CS_DATA_FOLDER_H

#include <stddef.h>

/* Returns the pattern of the folder's shards to train on, or the name of its shard to validate with, malloc'ed; NULL:
 * the folder does not exist or has none. Characters of the folder's name that a pattern gives a meaning are quoted. */
char *ce_folder_train(const char *folder);
char *ce_folder_valid(const char *folder);

/* Writes `name` into `pattern`, of `room` bytes, so that as a pattern it matches this name only. */
void ce_folder_quote(char *pattern, size_t room, const char *name);

#endif
