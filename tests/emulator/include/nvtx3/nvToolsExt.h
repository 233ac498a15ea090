/* nvToolsExt.h - emulated NVTX API: ranges that have no effect. */
#ifndef CS_EMULATOR_NVTX_H
#define CS_EMULATOR_NVTX_H

static inline int nvtxRangePushA(const char *name)
{
    (void)name;
    return 0;
}

static inline int nvtxRangePop(void)
{
    return 0;
}

#endif
