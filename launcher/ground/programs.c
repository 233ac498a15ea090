/* programs.c - finds the folder of cspeed's own programs. */
#include "ground/programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool cl_programs_self(char path[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    return length > 0;
}

bool cl_programs_folder(char path[PATH_MAX])
{
    char self[PATH_MAX], beside[2 * PATH_MAX];
    if (!cl_programs_self(self))
        return false;
    *strrchr(self, '/') = '\0';
    snprintf(beside, sizeof beside, "%s/" CL_PROGRAMS_FROM_BIN, self);
    if (!realpath(beside, path))
        memcpy(path, self, sizeof self);
    return true;
}
