/* train_minimal.c - the shortest complete training program: the training loop of the README, and a checkpoint from
 * which the same command continues the training.
 *
 *     cspeed --num_gpus 2 train_minimal ds_config.json
 *
 * The configuration names the model, the data, the number of steps and the folder of checkpoints in its section
 * "cspeed". The program `train` (programs/train) also evaluates, saves during the training, exports and writes
 * metrics. */
#include "cspeed/cspeed.h"

#include <inttypes.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    cs_config *config;
    cs_engine *engine;
    cs_data *data;
    if (argc != 2) {
        fprintf(stderr, "usage: train_minimal ds_config.json\n");
        return 64;
    }
    CS_MUST(cs_config_open(&config, argv[1]));
    CS_MUST(cs_initialize(&engine, config, NULL));
    CS_MUST(cs_data_open(&data, engine, "train"));
    const char *folder = cs_config_get_string(config, "cspeed.output");
    int64_t steps = cs_config_get_int(config, "cspeed.steps");

    cs_status status = cs_load_checkpoint(engine, folder, NULL, NULL, NULL);
    if (status != CS_NOT_FOUND) /* at the first start there is no checkpoint */
        CS_MUST(status);
    while (cs_last_step(engine).step < steps) {
        cs_batch batch = cs_data_next(data);
        cs_forward(engine, &batch);
        cs_backward(engine);
        if (cs_step(engine) && cs_rank(engine) == 0) /* true at a gradient accumulation boundary */
            printf("step %" PRId64 "  loss %.5f\n", cs_last_step(engine).step, (double)cs_loss(engine));
    }
    CS_MUST(cs_save_checkpoint(engine, folder, NULL, NULL));

    cs_data_close(data);
    cs_destroy(engine);
    return 0;
}
