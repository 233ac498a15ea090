/* train.h - the functions that the files of this program share. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "base/clock.h"
#include "cspeed/cspeed.h"
#include "line.h"

#include <stdio.h>

/* messages.c */
bool is_rank_zero(void);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* arguments.c: reads the command line and resolves the configuration. Does not return after options such as --help. */
cs_config *arguments_read(char **argument, train_line *line);

/* plan.c: prints the memory plan; takes ownership of the configuration */
void plan_show(cs_config *config, int64_t world_size, bool json);
/* prints the units of sharding instead of the memory plan; takes ownership of the configuration too */
void plan_show_units(cs_config *config);
/* cuts.c: prints what each rank of a tensor-parallel group holds of each parameter. */
void plan_show_cuts(cs_config *config);

/* outdir.c */
/* creates the folders that `path` names before its last slash; returns the errno value of the last error, or 0 */
int outdir_make_above(char *path);
/* creates the output folder if it does not exist, and makes this run its owner; call it before anything in the folder
 * is read or written. Exits the process on an error. */
void outdir_claim(const char *output, bool force);
void outdir_prepare(cs_engine *engine, const char *output, bool fresh);
/* creates the parent folders of `folder`; prints the reason and returns false if `folder` cannot be created in them */
bool outdir_prepare_parent(const char *folder);
/* Returns true if an earlier attempt of this job (--max_restarts) has already returned to the checkpoint of --tag, so
 * that the caller does not discard newer checkpoints a second time. outdir_mark_back records that this attempt has
 * returned there. */
bool outdir_went_back(cs_engine *engine, const char *output);
void outdir_mark_back(const char *output);

/* owner.c: ensures that only one run at a time writes to an output folder. A program that saves without these calls is
 * not protected. */
#define OWNER_FILE ".cspeed-owner"
/* Makes this process the owner of the folder until the process ends; called on rank 0. If another run owns the folder,
 * the function prints a message and returns an exit code; otherwise it returns 0. `made` is true if this run created
 * the folder, which is then removed at the end if it is empty. */
int owner_take(const char *output, bool made, bool force);
void owner_check(cs_engine *engine); /* ends this run if another run has taken the folder; collective */

/* progress.c */
typedef struct {
    bool terminal; /* true: the progress line is redrawn in place; false: a new line is printed every two seconds */
    double last;
} progress;
void progress_open(progress *bar, const cs_config *config);
/* `seconds_a_step` is the mean time from which the rate and the remaining time are computed; `elapsed` is the time since
 * this run began to train, in seconds. */
void progress_draw(progress *bar, const cs_metrics *m, int64_t steps, double seconds_a_step, double elapsed);

/* metrics_file.c: the file of metrics. If a line cannot be written, the next step tries again. */
typedef struct {
    char *path;     /* NULL: no metrics are written */
    int descriptor; /* -1 until the file is open */
    bool fails;     /* the last line could not be written */
    int64_t lost;   /* number of lines that could not be written */
} metrics_file;
/* returns the malloc'ed path of the file `name`, which may be relative to `output`; NULL if `name` is NULL */
char *metrics_file_path(const char *output, const char *name);
void metrics_file_open(metrics_file *file, char *path, int64_t step); /* the file then owns `path` */
void metrics_file_close(const metrics_file *file);
/* `valid` is the result of the validation after this step; its loss is NaN if there was no validation. `pairs` is true
 * in preference training. `load` is the load of the experts in this step. If `whole` is true, the tokens of each expert
 * are written too. */
void metrics_file_write(metrics_file *file, const cs_metrics *m, const cs_scores *valid, bool pairs,
                        const cs_expert_load *load, bool whole);

/* sample_text.c */
void sample_text_print(cs_engine *engine, const cs_config *config);

/* time_budget.c: cspeed.fit_seconds. The budget covers optimizer steps, validation and saves, in all attempts of a run,
 * but not the start of a process and the work after the last step. */
typedef struct {
    double seconds; /* the budget in seconds; 0 if there is none */
    double spent;   /* seconds of the budget that are used, earlier attempts included */
    double step;    /* seconds of a step, without validation and saves: a moving average of about 16 steps */
    double pauses;  /* seconds of this attempt in which validation or a save stopped the training */
    int64_t steps;  /* number of steps of this attempt */
    int64_t warmup; /* number of first steps whose learning rates do not depend on the number of steps; at most 64 */
} time_budget;
void time_budget_step(time_budget *budget, double seconds); /* adds the seconds of a step; call it after each step */
/* adds the seconds of a validation or a save; call it after each validation and save */
void time_budget_pause(time_budget *budget, double seconds);
/* Returns the mean seconds of a step, with its share of validations and saves; 0 before the second step. */
double time_budget_pace(const time_budget *budget);
/* Returns true if the number of steps may be computed after step `done` of `total`. `planned` is true if it was computed
 * before. */
bool time_budget_due(const time_budget *budget, bool planned, int64_t done, int64_t total, int64_t save_interval);
/* Returns true if the measured times suffice for the first plan. Ranks may have different clocks: ask rank 0. */
bool time_budget_knows(const time_budget *budget, int64_t done);
/* Returns the number of steps that fits into the budget: at least `done` and at most `max`. Returns `total` if the
 * result would differ little from `total`. */
int64_t time_budget_fit(const time_budget *budget, int64_t done, int64_t total, int64_t max);

/* best.c: the best evaluation so far */
typedef struct {
    double value;   /* the value of cspeed.best_metric; NaN if there was no evaluation */
    int64_t step;   /* the step of this evaluation; 0 if there was none */
    int64_t waited; /* number of evaluations in a row that do not count as better, see cspeed.early_stopping_patience */
} best_record;

/* session.c: one training run */
typedef struct {
    cs_engine *engine;
    cs_config *config;
    cs_data *train, *valid; /* valid is NULL if there is no validation */
    train_line options;
    metrics_file metrics;
    progress progress;
    char *output;
    const char *source;   /* the folder of the checkpoint from which this run resumed; NULL if it did not resume */
    const char *exported; /* the Hugging Face folder to write at the end; NULL if there is none */
    /* steps: the number of steps of this training, computed from the time budget if there is one; max_steps: as
     * configured */
    int64_t steps, max_steps;
    int64_t first;   /* the number of steps that were done before this run began */
    int64_t skipped; /* how many of these were skipped */
    bool fitted;     /* true: `steps` was computed from the time budget and the speed of this machine */
    bool planned;    /* true: it was computed, or the computation gave the configured number */
    time_budget budget;
    int64_t saved;            /* the last step whose checkpoint was reported; -1 if there is none */
    best_record best, former; /* `former` is the record before the last evaluation */
    double started;
    double marked; /* time, as from ce_clock_seconds(), at which seconds were last added to `budget` */
} session;
session session_open(char **argument);
void session_step(session *run); /* call after each optimizer step */
void session_close(session *run);

/* fit_steps.c: the number of steps of a run with a time budget. fit_steps_begin reads the budget, and fit_steps_take sets
 * the number that a checkpoint records. fit_steps_again, called after each step, computes the number from the speed of
 * this machine. Once the learning rate falls towards the planned end, the number stays: another one would bend the rate. */
void fit_steps_begin(session *run);
void fit_steps_take(session *run, int64_t steps);
void fit_steps_again(session *run);

/* Records an evaluation. Returns true if it is the best so far and its checkpoint is to be saved (cspeed.keep_best). */
bool best_take(session *run, const cs_scores *scores);
/* The checkpoint of the last evaluation, for which best_take has returned true, was not saved: the checkpoint that was
 * the best before stays the best. */
void best_withdraw(session *run);
bool best_ends(const session *run); /* true if the training ends early, by cspeed.early_stopping_patience */
void best_say_end(const session *run);
/* Returns the malloc'ed tag of the best checkpoint; NULL without cspeed.keep_best, or if there is none yet. */
char *best_tag(const session *run);
/* Returns the record as members of a JSON object, malloc'ed; best_resume reads it by `number`. */
char *best_text(const session *run);
void best_resume(session *run, const char *client,
                 double (*number)(const char *json, const char *key, double fallback));
/* Loads the parameters of the best checkpoint at the end of a training. Collective. */
void best_load(session *run);

/* ending.c: prints the output folder, and commands that continue, plot, export or use the training. On a terminal it
 * also draws the curve of the loss. */
void ending_print(const session *run);

#endif
