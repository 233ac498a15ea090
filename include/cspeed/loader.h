/* loader.h - threads that fill the next batches while the program computes with the current batch, as PyTorch's
 * DataLoader with num_workers does. (public)
 *
 *     cs_loader *loader;
 *     CS_MUST(cs_loader_open(&loader, &(cs_loader_settings){ .fill = fill, .bytes = sizeof(my_batch), .workers = 2 }));
 *     for (int64_t step = 0; step < steps; step++) {
 *         my_batch *mine = cs_loader_next(loader);
 *         ...
 *     }
 *     cs_loader_close(loader);
 *
 * Batches come in the order 0, 1, 2, ... for any number of workers, and each batch is filled by one call of `fill`. So
 * the results of a training do not depend on the number of workers. A program whose data is tokens needs no loader: the
 * token files are mapped into memory, and cs_data_next copies nothing from these files. */
#ifndef CSPEED_LOADER_H
#define CSPEED_LOADER_H

#include "cspeed/cspeed.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cs_loader cs_loader;

typedef struct {
    /* Writes batch number `index`, counted from 0, to `batch`. With workers, `fill` is called in several threads at the
     * same time, for different batches. The loader does not clear `batch` before the call: `batch` may still contain
     * what an earlier call wrote. */
    void (*fill)(void *argument, int64_t index, void *batch);
    void *argument;
    /* bytes of a batch, above 0. A batch's memory is aligned to 64 bytes and filled with zeros at first. */
    size_t bytes;
    int workers; /* number of threads that fill batches; 0: cs_loader_next fills the batches itself */
    /* number of batches that are filled ahead of the current batch; 0: as many batches as workers. The loader has
     * memory for 1 + prefetch batches, so one worker and prefetch 0 give double buffering. Not read if `workers` is 0.
     */
    int prefetch;
    int64_t count; /* number of batches; no batch is filled after the last one. 0: there is no last batch */
} cs_loader_settings;

/* Opens a loader and copies the settings. CS_NO_MEMORY: memory could not be allocated or threads could not be started.
 * CS_MISUSE: a setting has no meaning. */
cs_status cs_loader_open(cs_loader **loader, const cs_loader_settings *settings);
/* Returns the next batch, and waits for the batch if needed. The batch's memory is valid until the next call with this
 * loader. If the settings limit the number of batches (`count`), a call after the last batch ends the process. */
void *cs_loader_next(cs_loader *loader);
/* waits for calls of `fill` that have begun, and frees the loader, which may be NULL */
void cs_loader_close(cs_loader *loader);

#ifdef __cplusplus
}
#endif
#endif
