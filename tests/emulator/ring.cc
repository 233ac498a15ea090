/* ring.cc - collectives and messages between processes of one host through shared memory, in pieces. Reductions add
 * in the order of ranks, in fp32. */
#include "shadow.h"
#include "ring.h"

#include <type_traits>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

/* ---- the segment ---- */

std::string ring_make()
{
    static std::atomic<int> made;
    std::string name = "/cspeed-emulator-" + std::to_string(getpid()) + "-" + std::to_string(made++);
    shm_unlink(name.c_str()); /* removes a segment that a dead process with the same pid left */
    int file = shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR, 0600);
    if (file < 0)
        return "";
    bool sized = ftruncate(file, sizeof(ring_segment)) == 0;
    close(file);
    return sized ? name : "";
}

/* Opens the segment. The last rank that opens the segment removes the segment's name. */
bool ring_join(ring *ring)
{
    int file = shm_open(ring->name.c_str(), O_RDWR, 0600);
    if (file < 0)
        return false;
    void *memory = mmap(nullptr, sizeof(ring_segment), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED)
        return false;
    ring->shared = (ring_segment *)memory;
    if (++ring->shared->joined == ring->size)
        shm_unlink(ring->name.c_str());
    return true;
}

bool ring_is_whole(ring *ring)
{
    return ring->shared->joined >= ring->size;
}

ring::~ring()
{
    if (shared && !ring_is_whole(this))
        shm_unlink(name.c_str());
    if (shared)
        munmap(shared, sizeof *shared);
}

static bool connect_message(ring *ring, const ring_call &call)
{
    bool sends = call.kind == RING_SEND;
    ring_slot *slots = ring->shared->slot;
    ring_mailbox *letter = sends ? &slots[ring->rank].to[call.rank] : &slots[call.rank].to[ring->rank];
    (sends ? letter->sender : letter->receiver) = true;
    while (!(sends ? letter->receiver : letter->sender) && !ring->aborted)
        emulator_pause();
    return !ring->aborted;
}

bool ring_connect(ring *ring, const ring_call &call)
{
    if (call.kind == RING_SEND || call.kind == RING_RECEIVE)
        return connect_message(ring, call);
    ring->shared->connected[call.kind]++;
    while (ring->shared->connected[call.kind] < ring->size && !ring->aborted)
        emulator_pause();
    return !ring->aborted;
}

/* ---- barrier ---- */

static bool meet(ring *ring)
{
    uint64_t mine = ++ring->shared->slot[ring->rank].arrived;
    for (int rank = 0; rank < ring->size; rank++) {
        for (int turns = 0; ring->shared->slot[rank].arrived < mine; turns++) {
            if (ring->aborted)
                return false;
            if (turns > 100)
                emulator_pause();
        }
    }
    return true;
}

static const char *const names[] = { "all-reduce", "reduce-scatter", "all-gather", "broadcast", "send", "receive" };

/* Checks that all ranks make the same call. */
static bool agree(ring *ring, const ring_call &call)
{
    ring->shared->slot[ring->rank].call = call;
    if (!meet(ring))
        return false;
    for (int rank = 0; rank < ring->size; rank++) {
        const ring_call &other = ring->shared->slot[rank].call;
        if (other.kind != call.kind || other.count != call.count || other.type != call.type || other.op != call.op ||
            other.rank != call.rank)
            emulator_fatal("rank %d calls NCCL's %s of %zu elements of type %d while rank %d calls its %s of %zu of "
                           "type %d",
                           ring->rank, names[call.kind], call.count, (int)call.type, rank, names[other.kind],
                           other.count, (int)other.type);
        if (other.captured != call.captured)
            emulator_fatal("NCCL's %s is captured by rank %d and not by rank %d", names[call.kind],
                           call.captured ? ring->rank : rank, call.captured ? rank : ring->rank);
    }
    return meet(ring);
}

/* ---- sums ---- */

static size_t bytes_of(ncclDataType_t type)
{
    static const size_t bytes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2 };
    return bytes[type];
}

/* Integer sums wrap around, as NCCL's do. */
template <typename T> static T wrapped_sum(T a, T b)
{
    if constexpr (std::is_integral_v<T>)
        return (T)((std::make_unsigned_t<T>)a + (std::make_unsigned_t<T>)b);
    else
        return a + b;
}

template <typename Stored, typename Summed>
static void join(void *out, const std::vector<const char *> &from, size_t count, ncclRedOp_t op)
{
    for (size_t i = 0; i < count; i++) {
        Summed sum = (Summed)((const Stored *)from[0])[i];
        for (size_t rank = 1; rank < from.size(); rank++) {
            Summed one = (Summed)((const Stored *)from[rank])[i];
            switch (op) {
            case ncclProd:
                sum = sum * one;
                break;
            case ncclMax:
                sum = sum > one ? sum : one;
                break;
            case ncclMin:
                sum = sum < one ? sum : one;
                break;
            default:
                sum = wrapped_sum(sum, one);
                break;
            }
        }
        ((Stored *)out)[i] = (Stored)(op == ncclAvg ? sum / (Summed)from.size() : sum);
    }
}

static void join_all(ring *ring, void *out, size_t count, const ring_call &call)
{
    std::vector<const char *> from;
    for (int rank = 0; rank < ring->size; rank++)
        from.push_back(ring->shared->slot[rank].data);
    switch (call.type) {
    case ncclInt8:
        join<int8_t, int8_t>(out, from, count, call.op);
        break;
    case ncclUint8:
        join<uint8_t, uint8_t>(out, from, count, call.op);
        break;
    case ncclInt32:
        join<int32_t, int32_t>(out, from, count, call.op);
        break;
    case ncclUint32:
        join<uint32_t, uint32_t>(out, from, count, call.op);
        break;
    case ncclInt64:
        join<int64_t, int64_t>(out, from, count, call.op);
        break;
    case ncclUint64:
        join<uint64_t, uint64_t>(out, from, count, call.op);
        break;
    case ncclFloat16:
        join<__half, float>(out, from, count, call.op);
        break;
    case ncclFloat32:
        join<float, float>(out, from, count, call.op);
        break;
    case ncclFloat64:
        join<double, double>(out, from, count, call.op);
        break;
    case ncclBfloat16:
        join<__nv_bfloat16, float>(out, from, count, call.op);
        break;
    }
}

/* ---- collectives ---- */

/* If `from` is not NULL, copies [from, from + bytes) to this rank's part of the segment. Then waits for all ranks,
 * calls `use`, and waits until `use` has returned on all ranks. Returns false if the communicator was aborted. */
template <typename Use> static bool show(ring *ring, const char *from, size_t bytes, Use use)
{
    if (from)
        memcpy(ring->shared->slot[ring->rank].data, from, bytes);
    if (!meet(ring))
        return false;
    use();
    return meet(ring);
}

template <typename Piece> static bool by_pieces(size_t bytes, Piece piece)
{
    for (size_t at = 0; at < bytes; at += RING_PIECE)
        if (!piece(at, bytes - at < (size_t)RING_PIECE ? bytes - at : (size_t)RING_PIECE))
            return false;
    return true;
}

static void all_reduce(ring *ring, const ring_call &call)
{
    size_t width = bytes_of(call.type);
    by_pieces(call.count * width, [&](size_t at, size_t bytes) {
        return show(ring, (const char *)call.in + at, bytes,
                    [&] { join_all(ring, (char *)call.out + at, bytes / width, call); });
    });
}

static void reduce_scatter(ring *ring, const ring_call &call)
{
    size_t width = bytes_of(call.type), part = call.count * width;
    for (int rank = 0; rank < ring->size; rank++)
        by_pieces(part, [&](size_t at, size_t bytes) {
            return show(ring, (const char *)call.in + (size_t)rank * part + at, bytes, [&] {
                if (rank == ring->rank)
                    join_all(ring, (char *)call.out + at, bytes / width, call);
            });
        });
}

static void all_gather(ring *ring, const ring_call &call)
{
    size_t part = call.count * bytes_of(call.type);
    by_pieces(part, [&](size_t at, size_t bytes) {
        return show(ring, (const char *)call.in + at, bytes, [&] {
            for (int rank = 0; rank < ring->size; rank++)
                memcpy((char *)call.out + (size_t)rank * part + at, ring->shared->slot[rank].data, bytes);
        });
    });
}

static void broadcast(ring *ring, const ring_call &call)
{
    by_pieces(call.count * bytes_of(call.type), [&](size_t at, size_t bytes) {
        return show(ring, ring->rank == call.rank ? (const char *)call.in + at : nullptr, bytes,
                    [&] { memcpy((char *)call.out + at, ring->shared->slot[call.rank].data, bytes); });
    });
}

/* ---- point-to-point messages: each proceeds as far as the buffer allows ---- */

struct message {
    ring_call call;
    size_t bytes, moved = 0;
};

static bool move_on(ring *ring, message &it)
{
    bool sends = it.call.kind == RING_SEND;
    ring_slot *slots = ring->shared->slot;
    ring_mailbox *letter = sends ? &slots[ring->rank].to[it.call.rank] : &slots[it.call.rank].to[ring->rank];
    size_t left = it.bytes - it.moved, piece = left < (size_t)RING_MAILBOX ? left : (size_t)RING_MAILBOX;
    if (left == 0 || (letter->written == letter->read) != sends)
        return false;
    if (sends) {
        memcpy(letter->data, (const char *)it.call.in + it.moved, piece);
        letter->written++;
    } else {
        memcpy((char *)it.call.out + it.moved, letter->data, piece);
        letter->read++;
    }
    it.moved += piece;
    return true;
}

static void move_messages(ring *ring, std::vector<message> &messages)
{
    for (bool done = false; !done && !ring->aborted;) {
        bool moved = false;
        done = true;
        for (message &it : messages) {
            moved = move_on(ring, it) || moved;
            done = done && it.moved == it.bytes;
        }
        if (!moved && !done)
            emulator_pause();
    }
}

/* ---- running ---- */

static void check_memory(ring *ring, const ring_call &call)
{
    size_t bytes = call.count * bytes_of(call.type), all = bytes * (size_t)ring->size;
    for (const void *pointer : { call.in, (const void *)call.out })
        if (pointer && bytes && !emulator_is_device(pointer))
            emulator_fatal("NCCL's %s is given %p, which is host memory", names[call.kind], pointer);
    size_t in = call.kind == RING_REDUCE_SCATTER ? all : bytes, out = call.kind == RING_ALL_GATHER ? all : bytes;
    if (call.in)
        emulator_check_range("NCCL's input", call.in, in);
    if (call.out)
        emulator_check_range("NCCL's output", call.out, out);
    shadow_touch(names[call.kind], call.in, in, EMULATOR_READ);
    shadow_touch(names[call.kind], call.out, out, EMULATOR_WRITE);
}

void ring_run(ring *ring, const std::deque<ring_call> &calls)
{
    std::vector<message> messages;
    for (const ring_call &call : calls)
        check_memory(ring, call);
    for (const ring_call &call : calls) {
        if (call.kind == RING_SEND || call.kind == RING_RECEIVE) {
            messages.push_back({ call, call.count * bytes_of(call.type) });
            continue;
        }
        if (!agree(ring, call))
            return;
        switch (call.kind) {
        case RING_ALL_REDUCE:
            all_reduce(ring, call);
            break;
        case RING_REDUCE_SCATTER:
            reduce_scatter(ring, call);
            break;
        case RING_ALL_GATHER:
            all_gather(ring, call);
            break;
        default:
            broadcast(ring, call);
            break;
        }
    }
    move_messages(ring, messages);
}
