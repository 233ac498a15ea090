/* transport.h - the interface of a transport, and the struct of an open comm. For the files of engine/comm.
 *
 * comm.c checks and counts the calls and keeps the heartbeat; a transport moves the bytes. Its functions may assume
 * that only one thread calls them at a time, that counts are not negative and that ranks are valid.
 *
 * A comm with a GPU has two sides. The host's side is opened first and moves host memory. The device side
 * (`device_side`) is a second comm inside it, whose transport moves GPU memory. It uses the host's side to let the
 * ranks find each other and to detect lost ranks. The transport of the device side is never called with a count of
 * 0. */
#ifndef CS_COMM_TRANSPORT_H
#define CS_COMM_TRANSPORT_H

#include "device/device.h"
#include "cspeed/comm.h"
#include "comm/comms_logger.h"

#include <stdatomic.h>

enum { CS_TRANSPORT_GPU_NAME = 96 };

typedef struct ce_transport {
    size_t edition; /* in a transport from a module: CS_TRANSPORT_EDITION, which the program compares with its own */
    const char *name;
    bool (*fits)(const cs_world *world); /* true if it can serve this world; "auto" takes the first that fits */
    cs_status (*open)(cs_comm *comm, const cs_comm_settings *settings);
    void (*close)(cs_comm *comm); /* also after an open that failed */
    void (*all_reduce)(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op);
    void (*reduce_scatter)(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op);
    void (*all_gather)(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
    void (*broadcast)(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root);
    void (*barrier)(cs_comm *comm);
    void (*send)(cs_comm *comm, const void *data, size_t bytes, int to);
    void (*receive)(cs_comm *comm, void *data, size_t bytes, int from);
    /* Returns a rank that has ended, or -1; *closed is true if it had closed its comm before. If several have ended, it
     * prefers one that did not close, and of those one that did not end because of another's failure. Any thread may
     * call it at any time. NULL: there are no other ranks. */
    int (*missing)(cs_comm *comm, bool *closed);
    /* Returns the address in this process of rank 0's memory at the place that `own`, from cs_comm_alloc, has in this
     * rank's memory. NULL: ranks do not see each other's memory. */
    void *(*first)(cs_comm *comm, void *own);
    void (*reduce_scatter_add)(cs_comm *comm, float *sum, const float *in, int64_t count); /* or NULL: common.h */
    /* Only in a transport of GPU memory, or NULL. Writes a name of this rank's GPU; two ranks may not share one. */
    void (*gpu_name)(char gpu_name[CS_TRANSPORT_GPU_NAME]);
} ce_transport;

struct cs_comm {
    const ce_transport *transport;
    cs_world world;
    void *private_data; /* private to the transport */
    char *heap;         /* memory for cs_comm_alloc; the transport allocates and frees it */
    size_t heap_bytes;
    size_t heap_used;
    int doing; /* the collective that runs, an index into ce_beat_names, for error messages */
    atomic_flag busy;
    cs_comm_traffic traffic;
    ce_comms_logger *logger; /* NULL: comms_logger is off */
    cs_comm *device_side;    /* the device side; NULL: there is no GPU */
    /* The following are set in a device side only. */
    cs_comm *host; /* the comm that contains it */
    cs_device *device;
    void **blocks; /* GPU memory that cs_comm_alloc returned; freed when the comm closes */
    size_t block_count, block_room;
};

/* Changes with the sizes of the structs that a module shares with the program. */
#define CS_TRANSPORT_EDITION (sizeof(ce_transport) + 4096 * sizeof(struct cs_comm))

extern const ce_transport ce_comm_self, ce_comm_shm, ce_comm_tcp, ce_comm_device_staging;
extern const ce_transport ce_comm_nccl; /* in the CUDA module, if that was built with NCCL */

/* heap_bytes of the settings or, if that is 0, the machine's memory, limited by what this process may map or write. */
size_t ce_comm_heap_wish(const cs_comm_settings *settings);

#endif
