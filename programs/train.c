/* train.c - the training program that `cspeed train --config ds_config.json` starts.
 *
 * This file contains the training loop. The folder train/ reads the command line, resumes an earlier run, prints
 * progress, validates and saves; it also uses headers of engine/base. A program of your own that uses the public headers
 * only begins better with examples/train_minimal.c. */
#include "train/train.h"

int main(int argc, char **argv)
{
    (void)argc;
    session run = session_open(argv);
    while (cs_last_step(run.engine).step < run.steps) {
        cs_batch batch = cs_data_next(run.train);
        cs_forward(run.engine, &batch);
        cs_backward(run.engine);
        if (cs_step(run.engine))
            session_step(&run);
    }
    session_close(&run);
    return 0;
}
