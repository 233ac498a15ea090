/* saving.h - the functions of saving/ that other files call, in this room or outside: saving and loading of
 * checkpoints, of pretrained weights and of adapters. */
#ifndef CE_SAVING_SAVING_H
#define CE_SAVING_SAVING_H

#include "core/engine.h"
#include "checkpoint/background.h"
#include "checkpoint/checkpoint.h"

/* The checkpoint that is being saved, and the results of earlier saves. Strings are malloc'ed. */
typedef struct {
    ce_background *work; /* writes checkpoints; NULL until the first save in the background */
    int64_t step;
    double stall; /* seconds for which the save stopped the training */
    cs_status status;
    /* the message about a failed save; NULL if no save has failed, or if a call has returned the failure */
    char *why;
    char *resume_dir; /* the folder whose latest checkpoint the program loads at its start; NULL if there is none */
    /* "TAG in DIR" of the save in progress; NULL if there is none, or if the loss or the gradient norm of the last step
     * before the save is not finite (ce_finite) */
    char *in_progress;
    char *good;   /* "TAG in DIR" of the last checkpoint completely saved or loaded; NULL if there is none */
    bool resumes; /* the save in progress writes to resume_dir */
} ce_async_save;

/* The checkpoints that the current state descends from. A key identifies a folder of checkpoints. */
typedef struct {
    json_t *lines;   /* maps a key to its list of ancestors, newest first (checkpoint/line.h); complete on rank 0 */
    json_t *parent;  /* the checkpoint that the state was last saved to or loaded from; NULL if there is none */
    json_t *damaged; /* maps a key to the names of damaged checkpoints that loading skipped */
    char saving[64]; /* the key of the save in progress */
} ce_ancestry;

typedef struct ce_average ce_average; /* the averages of cspeed.ema_decay */

struct ce_saving {
    ce_async_save async;
    ce_average *average; /* NULL without cspeed.ema_decay */
    ce_ancestry ancestry;
    int64_t kept_step; /* the step of cs_keep_checkpoint; 0 if there is none */
    struct {
        ce_schedule_settings schedule; /* the schedule of the checkpoint from which the training resumed */
        bool known;                    /* `schedule` is set, and has not yet been compared with this run's schedule */
    } resumed;
};

/* async_save.c: saves checkpoints, in the foreground or in the background */
cs_status ce_async_save_open(cs_engine *engine);
void ce_async_save_close(cs_engine *engine);
/* Starts a save. `begun` is the time at which training stopped for this save. */
cs_status ce_async_save_start(cs_engine *engine, const char *dir, const ce_checkpoint_content *content, double begun);
/* Waits for the save in progress and returns its status, or the unreported failure of an earlier save. Collective. */
cs_status ce_async_save_finish(cs_engine *engine);
/* Returns the bytes of the copy of the state that a save in the background makes; 0 without cspeed.async_save. */
size_t ce_async_save_copy(const cs_engine *engine);
void ce_async_save_trust(cs_engine *engine, const char *dir, const char *tag); /* records a loaded checkpoint as good */
/* Continues the save in progress when all ranks have written their parts, waits before an update until the state is
 * copied, and completes the save at the end of the run. */
extern const ce_observer ce_async_save_observer;

/* scales.c: returns the scales of the blocks of `codes`. They are a tensor with a scale for each block of the whole
 * parameter: a matrix if the blocks divide its rows, otherwise a vector. */
ce_piece ce_scales_piece(ce_piece codes, const char *name, float *scales);

/* average.c: cspeed.ema_decay. ce_average_open returns NULL without the key. */
ce_average *ce_average_open(cs_engine *engine);
void ce_average_close(cs_engine *engine);
/* Returns the bytes of device memory of a rank at the place that `zero` says. */
size_t ce_average_bytes(const ce_zero *zero, const cs_model *model);
/* Takes the last update into the averages, unless they contain it. Call it before parameters or averages are read or
 * changed. */
void ce_average_take(cs_engine *engine);
/* The state was loaded, with averages if `begun` is true; otherwise they begin at the parameters. */
void ce_average_loaded(cs_engine *engine, bool begun);
/* The pieces of which this rank keeps averages; *data is the address of those of a piece, fp32, laid out as the piece's
 * master values. ce_average_pieces returns 0 if `average` is NULL. */
int64_t ce_average_pieces(const ce_average *average);
const ce_shard_piece *ce_average_piece(const ce_average *average, int64_t index, void **data);

/* ancestry.c: records which checkpoints the state descends from. ce_ancestry_offer is called before a save,
 * ce_ancestry_saved after it, and ce_ancestry_loaded after a load. */
void ce_ancestry_loaded(cs_engine *engine, const char *dir, ce_checkpoint_reader *reader, bool module_only);
void ce_ancestry_offer(cs_engine *engine, const char *dir, ce_checkpoint_content *content);
void ce_ancestry_saved(cs_engine *engine);
void ce_ancestry_close(cs_engine *engine);
/* Writes the name of the loaded checkpoint into dir/latest. If dir has checkpoints of later steps, logs their names,
 * because the training does not continue from them. Collective. */
cs_status ce_ancestry_rewind(cs_engine *engine, const char *dir, const ce_checkpoint_reader *reader);

/* values.c: fails if the public function `verb` is called within a step, and waits for the work of the last one. */
cs_status ce_values_settle(cs_engine *engine, const char *verb);

/* transfer.c: copies state between a device with its own memory and checkpoint files, through pinned buffers */
/* Called before state is saved or loaded. *device_copy becomes the copy functions, or NULL if the device uses host
 * memory. A copy function first waits for all operations that were queued on the compute stream and on the
 * communication stream when ce_transfer_begin was called. */
void ce_transfer_begin(cs_engine *engine, const ce_checkpoint_device_copy **device_copy);
void ce_transfer_end(cs_engine *engine);       /* waits until all copies to the device are complete */
size_t ce_transfer_bytes(void);                /* bytes of pinned memory, which the first ce_transfer_begin allocates */
void ce_transfer_close(ce_transfer *transfer); /* accepts NULL */

/* schedule_change.c: logs a message if the learning-rate schedule differs from the checkpoint's.
 * ce_schedule_change_read keeps the schedule of the open checkpoint; ce_schedule_change_say compares both schedules
 * before the first update. Only rank 0 does something. */
void ce_schedule_change_read(cs_engine *engine, const ce_checkpoint_reader *reader);
void ce_schedule_change_say(cs_engine *engine);

/* pretrained.c: sets initial values from the weights in a Hugging Face folder, if the folder has any. Does nothing if
 * `folder` is NULL. Collective. */
cs_status ce_pretrained_load(cs_engine *engine, const char *folder);
/* Reads the weights of another folder of the same model, in the same way as ce_pretrained_load. Collective. */
cs_status ce_pretrained_reference(cs_engine *engine, const char *folder);
/* Reads parameters of unit i from a source. If `adapter` is true, they are the parameters that a folder of PEFT has;
 * otherwise the model's parameters, and the norms that are the initial magnitudes of DoRA. */
struct ce_source;
cs_status ce_pretrained_read(cs_engine *engine, struct ce_source *source, int i, bool adapter);
/* four_bit.c: sets the 4-bit weights of unit i from a source, which has them as numbers or as 4-bit weights. */
cs_status ce_four_bit_load(cs_engine *engine, struct ce_source *source, int i);
/* Takes the member quantization_config out of the config.json of a model's folder if it describes 4-bit weights of
 * bitsandbytes; the table of the keys of config.json refuses all others. cspeed.quantization_config gets its values. */
cs_status ce_four_bit_take(cs_engine *engine, json_t *root, const char *folder);
/* Returns true if a folder of PEFT has this parameter: if the parameter is part of an adapter, or is not frozen. */
bool ce_adapter_has(const ce_unit_entry *entry);
/* Opens the model that the config.json of a Hugging Face folder describes, and logs the warnings about it. If the folder
 * has no config.json, the message says what the folder is and how to use it. */
cs_status ce_pretrained_open(cs_engine *engine, const char *folder);

/* adapter.c: cspeed.lora.adapter, a folder of PEFT. ce_adapter_describe sets r, alpha, rslora, dora, bias, targets, `peft`
 * and, if `dropout` is true, dropout; *config owns the JSON values, also after a failure. ce_adapter_load reads the values of the adapters
 * from the folder if the configuration names one; it is collective. */
cs_status ce_adapter_describe(ce_lora_settings *settings, json_t **config, bool dropout);
cs_status ce_adapter_load(cs_engine *engine);
/* Returns the settings as an object for interchange/peft_names.h; settings->targets is not NULL. The caller owns the
 * result. */
json_t *ce_lora_describe(const ce_lora_settings *settings);
/* Returns the facts about the adapters that a checkpoint records in its provenance; an export needs these facts. NULL
 * if there are no adapters. The caller owns the result. */
json_t *ce_lora_record(const cs_engine *engine);

/* ends.c: reads the ids of the tokens that end a text (cs_ends_text) if the engine was opened with cs_reopen's
 * configuration. */
cs_status ce_ends_load(cs_engine *engine);

/* base.c: engine->base_digest, the digest of the weight files that the adapters extend. ce_base_note computes the
 * digest from the files in `folder` if adapters are trained; collective. ce_base_check refuses, with CS_BAD_CONFIG, a
 * checkpoint whose adapters were trained with other weights. */
cs_status ce_base_note(cs_engine *engine, const char *folder);
cs_status ce_base_check(const cs_engine *engine, const json_t *provenance);

/* names.c: returns an error if a parameter of the model has a name that no tensor of a checkpoint may have, or that another
 * parameter has. */
cs_status ce_names_check(const cs_model *model);

#endif
