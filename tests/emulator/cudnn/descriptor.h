/* descriptor.h - the fake cuDNN's implementation of cudnnBackendDescriptor_t. */
#ifndef CS_EMULATOR_CUDNN_DESCRIPTOR_H
#define CS_EMULATOR_CUDNN_DESCRIPTOR_H

#include "graph.h"

#include <memory>
#include <string.h>

struct attribute {
    cudnnBackendAttributeType_t type;
    int64_t count;
    std::vector<unsigned char> bytes;
};

struct descriptor {
    cudnnBackendDescriptorType_t type;
    bool finished = false;
    std::map<int, attribute> has;
    std::shared_ptr<graph> whole; /* the operation graph; shared by its descriptor and the descriptors made from it */
    int engine = 0;               /* the engine's index, in descriptors of engines, configurations and plans */

    template <typename T> T get(int name, int64_t at = 0) const
    {
        T value;
        memcpy(&value, has.at(name).bytes.data() + (size_t)at * sizeof value, sizeof value);
        return value;
    }
    template <typename T> T get_or(int name, T otherwise) const
    {
        return has.count(name) ? get<T>(name) : otherwise;
    }
    const descriptor &part(int name, int64_t at = 0) const
    {
        return *(const descriptor *)get<void *>(name, at);
    }
};

bool descriptor_is_whole(const descriptor &it); /* whether all required attributes are set */

#endif
