/* background.cc - asynchronous copies to shared memory (cp.async), executed when their group is waited for. */
#include "emulator.h"

#include "device/cuda/tensor.cuh"

#include <vector>

enum { WIDTH = 16 };

struct copy {
    unsigned char *to;
    const unsigned char *from; /* NULL: the copy writes zeros */
};

/* Groups of copies by thread, the oldest first; the last one is still open. */
static std::vector<std::deque<std::vector<copy>>> groups(EMULATOR_BLOCK_THREADS);

static std::deque<std::vector<copy>> &mine()
{
    return groups[emulator_self->number];
}

void emulator_copies_forget()
{
    for (auto &of_thread : groups)
        if (of_thread.size() != 1 || !of_thread[0].empty())
            of_thread.assign(1, {});
}

void emulator_check_aligned(const char *what, const void *address)
{
    if ((uintptr_t)address % WIDTH != 0)
        emulator_fatal("%s: the address %p is not aligned to %d bytes", what, address, (int)WIDTH);
}

void emulator_copy_begin(void *shared, const void *global, bool there)
{
    emulator_check_aligned("ce_tensor_copy's target", shared);
    emulator_check_aligned("ce_tensor_copy's source", global);
    memset(shared, 0xff, WIDTH);
    emulator_saw(shared, WIDTH, EMULATOR_WRITE);
    if (there)
        emulator_saw(global, WIDTH, EMULATOR_READ);
    mine().back().push_back({ (unsigned char *)shared, there ? (const unsigned char *)global : nullptr });
}

void emulator_copy_commit()
{
    mine().emplace_back();
}

static void finish(const std::vector<copy> &group)
{
    for (copy one : group) {
        emulator_saw(one.to, WIDTH, EMULATOR_WRITE);
        if (one.from)
            memcpy(one.to, one.from, WIDTH);
        else
            memset(one.to, 0, WIDTH);
    }
}

void emulator_copy_wait(size_t open)
{
    while (mine().size() - 1 > open) {
        finish(mine().front());
        mine().pop_front();
    }
}
