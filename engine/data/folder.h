/* folder.h - folders of token shards that the program pack makes: FOLDER/train-00000.bin ... and FOLDER/valid.bin. */
#ifndef CE_DATA_FOLDER_H
#define CE_DATA_FOLDER_H

#include <stddef.h>

/* ce_folder_train returns the pattern of the training shards in the folder, and ce_folder_valid returns the pattern of
 * the validation shard. The result is NULL if the folder does not exist or has no such shard. Characters of the
 * folder's name that have a meaning in a pattern are quoted. The caller frees the result. */
char *ce_folder_train(const char *folder);
char *ce_folder_valid(const char *folder);

/* Writes `name` into `pattern`, which has `capacity` bytes, quoted so that the pattern matches only this name. */
void ce_folder_quote(char *pattern, size_t capacity, const char *name);

#endif
