/* wrap.h - what the libraries for LD_PRELOAD share: they define functions of the C library and call its own ones. */
#ifndef CS_TESTS_WRAP_H
#define CS_TESTS_WRAP_H

#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/types.h>

#define EXPORT __attribute__((visibility("default")))
#define NEXT(name) ((__typeof__(&name))(intptr_t)dlsym(RTLD_NEXT, #name))

/* Defines `name`, which is open or open64. The call fails, with the errno that is set, if REFUSES(path, flags) is true. */
#define WRAP_OPEN(name, REFUSES)                                                                                       \
    EXPORT int name(const char *path, int flags, ...)                                                                  \
    {                                                                                                                  \
        va_list list;                                                                                                  \
        va_start(list, flags);                                                                                         \
        mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;                                                      \
        va_end(list);                                                                                                  \
        return REFUSES(path, flags) ? -1 : NEXT(name)(path, flags, mode);                                              \
    }

#endif
