/* engine.h - what an open engine is made of; for the files beside it only. */
#ifndef CS_ENGINE_H
#define CS_ENGINE_H

#include "base/clock.h"
#include "config/config.h"
#include "models/models.h"
#include "unit/pass.h"
#include "zero/zero.h"

/* Where in an iteration the program is: the verbs must come in order. */
typedef enum { CS_EXPECT_FORWARD, CS_EXPECT_BACKWARD, CS_EXPECT_STEP } cs_phase;

struct cs_engine {
    cs_config         *config;
    const cs_settings *settings;
    cs_world           world;
    cs_device         *device;
    cs_comm           *comm;
    cs_model          *model;
    cs_model_facts     facts;
    int64_t            length; /* T: positions of a sample; 1 without a sequence */

    cs_zero    zero;
    cs_pool   *values, *grads;
    cs_shard **shards;
    void      *block;
    cs_pass   *pass;
    cs_memory  memory;

    /* one micro-batch going down and up */
    cs_phase   phase;
    int        ahead;     /* the last unit whose gathering was started */
    cs_tensor *inputs;    /* of each unit, held while recomputing wants them */
    cs_tensor  loss_rows; /* (rows, 1) */
    cs_tensor  prediction;
    uint64_t  *keys;      /* of the batch's samples */
    int64_t   *samples;

    /* one optimizer step */
    int64_t          micro; /* micro-batches since the last boundary */
    cs_exact         loss_sum;
    int64_t          loss_rows_counted;
    double           started; /* wall clock */
    double           flops_before;
    cs_phase_seconds seconds, last_seconds; /* so far; of the last whole step */

    /* the training so far */
    int64_t    updates;   /* applied optimizer steps: Adam's t */
    int64_t    scheduled; /* the same, as the schedule counts    */
    cs_scaler  scaler;
    cs_metrics metrics;
    int64_t    windows; /* of the training data, once it is open */
};

/* walk.c: entering and leaving unit i */
typedef enum { CS_DOWN = 1, CS_UP = -1 } cs_direction;
cs_unit *cs_walk_enter(cs_engine *engine, int i, cs_direction direction);
void     cs_walk_leave(cs_engine *engine, int i, bool release);
/* Nothing is under way on either stream: due before the program's own thread talks to other ranks, and before closing. */
void     cs_walk_settle(cs_engine *engine);

/* forward.c */
typedef struct {
    cs_pass_mode mode;
    cs_tensor    inputs, targets;
    bool         predict; /* the last unit's prediction instead of its loss */
} cs_descent;
/* Runs the list; returns the last unit's output, held. In training the last unit stays gathered for the turn. */
cs_tensor cs_forward_descend(cs_engine *engine, const cs_descent *descent);
void      cs_forward_expect(cs_engine *engine, cs_phase phase, const char *verb);
void      cs_forward_settle(cs_engine *engine); /* lets go of a borrowed prediction */

/* backward.c */
void cs_backward_ascend(cs_engine *engine);

/* measure.c: walks the list on the dry device, so that all memory can be taken at once */
cs_status cs_measure_run(cs_engine *engine);

void    cs_report_step(cs_engine *engine);
int64_t cs_loader_sample(const cs_engine *engine, int64_t b); /* loader.c: number of this micro-batch's sample b */

#endif
