/* world_sizes.h - the world sizes that the `elasticity` section of the program's configuration allows. */
#ifndef CS_LAUNCHER_WORLD_SIZES_H
#define CS_LAUNCHER_WORLD_SIZES_H

#include <stdbool.h>

typedef struct {
    int *list; /* ascending; NULL: any size */
    int  count;
} cs_world_sizes;

/* Looks for --config or --deepspeed_config among the program's arguments and reads that file's elasticity section;
 * without one every size is allowed. 0, or CS_CODE_FILE, CS_CODE_NO_FILE with the sentence. */
int  cs_world_sizes_read(cs_world_sizes *sizes, char **arguments);
void cs_world_sizes_free(cs_world_sizes *sizes);
bool cs_world_sizes_allow(const cs_world_sizes *sizes, int world_size);

#endif
