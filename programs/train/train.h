/* train.h - what the files of this program say to each other. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "cspeed/cspeed.h"

#include <stdio.h>

/* messages.c */
bool is_rank_zero(void);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *text(const char *format, ...) __attribute__((format(printf, 1, 2))); /* malloc'ed */
double now(void);                                                          /* seconds */

/* arguments.c: the resolved configuration; what ends here, like --help, does not return */
typedef struct {
    bool fresh, force_output, steps_given, plan, json; /* json: the plan is */
    int64_t world_size;                                /* of the plan */
} command_line;
cs_config *arguments_read(int count, char **argument, command_line *options);

/* plan.c: takes the configuration over */
_Noreturn void preview_show(cs_config *config, int64_t world_size, bool json);

/* outdir.c */
int outdir_make_above(char *path); /* every folder above the last slash; errno of the last that could not be, or 0 */
void outdir_claim(const char *output, bool force); /* before anything of it is read or written; may not return */
void outdir_prepare(cs_engine *engine, const char *output, bool fresh);
bool outdir_prepare_parent(const char *folder); /* else says why */
/* Whether an attempt of this job before this one (--max_restarts) has gone back to the tag already, so that what was
 * saved since is not given up again; outdir_mark_back says that this one has. */
bool outdir_went_back(cs_engine *engine, const char *output);
void outdir_mark_back(const char *output);

/* owner.c: one run at a time writes an output folder. A program of yours that saves without this is not protected. */
#define OWNER_FILE ".cspeed-owner"
/* Rank 0's: this process has the folder from now to its end; 0, or an exit code when another run has it, which was said
 * then. `made`: this run has made the folder, and nothing is lost if it is removed while it is empty. */
int owner_take(const char *output, bool made, bool force);
void owner_check(cs_engine *engine); /* ends the run if another one has taken the folder. Collective */

/* progress.c */
typedef struct {
    bool terminal, open; /* open: a line is drawn and not ended */
    double last;
} progress;
void progress_open(progress *bar, const cs_config *config);
void progress_draw(progress *bar, const cs_metrics *m, int64_t steps, double seconds_a_step);
void progress_end(progress *bar);

/* metrics_file.c: NULL is none */
FILE *journal_open(const char *output, const char *name, int64_t step);
void journal_write(FILE **file, const cs_metrics *m, double valid_loss);

/* sample_text.c */
void taste_print(cs_engine *engine, const cs_config *config);

/* session.c: a training from its first line to its last */
typedef struct {
    cs_engine *engine;
    cs_config *config;
    cs_data *train, *valid; /* valid NULL: no validation */
    command_line options;
    FILE *metrics;
    progress progress;
    char *output;
    const char *source;   /* the folder of the checkpoint that this run began with; NULL: none */
    const char *exported; /* the Hugging Face folder to write at the end; NULL: none */
    int64_t steps;
    int64_t first; /* the step this run began at */
    bool fitted;   /* steps follow from this machine's speed */
    int64_t saved; /* the step last said to be saved; -1: none */
    double best, started, warm;
} session;
session session_open(int count, char **argument);
void session_step(session *run); /* behind each optimizer step */
void session_close(session *run);

#endif
