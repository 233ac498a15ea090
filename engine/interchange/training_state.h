/* training_state.h - the state of a training that began in another program, as tools/from_deepspeed.py writes it.
 *
 *     FOLDER/state.json                         numbers: the fields of ce_training_state
 *     FOLDER/weights/model.safetensors          fp32 master weights; keys as in a Hugging Face folder
 *     FOLDER/exp_avg/model.safetensors, ...     for each slot of the optimizer a folder of its name, with the same keys
 *
 * The tensors become pieces of a checkpoint, which are read from the files while the checkpoint is written. Memory use
 * does not depend on the size of the tensors. */
#ifndef CE_INTERCHANGE_TRAINING_STATE_H
#define CE_INTERCHANGE_TRAINING_STATE_H

#include "checkpoint/checkpoint.h"
#include "interchange/huggingface.h"

#define CE_TRAINING_STATE_FILE "state.json"

enum { CE_TRAINING_STATE_SLOTS = 2 };

typedef struct {
    const char *folder;        /* path of the folder, owned by the caller; the other texts belong to `root` */
    json_t *root;              /* contents of state.json */
    const char *origin;        /* program that trained, for messages, such as "DeepSpeed 0.19.8" */
    int world_size, tp, stage; /* `tp` ranks of the world were a lane, in which tensor parallelism cut the tensors */
    /* the number of all steps, of all samples, and of the skipped steps, in which no parameter changed */
    int64_t step, samples, skipped;
    /* number of steps that the optimizer has made, and that the learning-rate schedule has made */
    int64_t updates, scheduled;
    const json_t *loss_scale; /* value of "loss_scale", in the form that it has in a manifest's "engine" */
    /* name that the optimizer has in cspeed; NULL if the training's own code made the optimizer */
    const char *optimizer;
    const char *slots[CE_TRAINING_STATE_SLOTS];
    int slot_count;
    const json_t *groups; /* [{"params": [names], "weight_decay": 0.1, ...}, ...]; every parameter is in one group */
    /* DeepSpeed's client_state (values that the program saved with the checkpoint), or NULL */
    const json_t *client_state;

    ce_source sources[1 + CE_TRAINING_STATE_SLOTS]; /* source of the weights, and then one source for each slot */
    ce_piece *pieces;                               /* pieces, which ce_training_state_match lists */
    int64_t piece_count;
    ce_checkpoint_device_copy reader; /* function by which a save reads the pieces */
    void *addresses; /* a range of addresses without memory behind them; the address of a piece identifies the piece */
    size_t address_bytes;
} ce_training_state;

/* Reads state.json and opens all files of tensors. Returns CS_BAD_FILE, with the name of what is missing or wrong. */
cs_status ce_training_state_open(ce_training_state *state, const char *folder);
/* Compares the tensors with the model's parameters (ce_huggingface_check), and lists the pieces. */
cs_status ce_training_state_match(ce_training_state *state, const cs_model *model, const ce_model_facts *facts);
void ce_training_state_close(ce_training_state *state); /* must also be called after a failure */

#endif
