/* train.h - the functions that the files of this program share. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "base/clock.h"
#include "cspeed/cspeed.h"

#include <stdio.h>

/* messages.c */
bool is_rank_zero(void);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *text(const char *format, ...) __attribute__((format(printf, 1, 2))); /* malloc'ed */

/* arguments.c: reads the command line and resolves the configuration; does not return after options such as --help */
typedef struct {
    bool fresh, force_output, steps_given, plan, json, units; /* json, units: what the plan prints */
    int64_t world_size, local_size;                           /* for the plan: the number of all ranks, and of the ranks
                                                               * on one host */
} command_line;
cs_config *arguments_read(int count, char **argument, command_line *options);

/* plan.c: prints the memory plan; takes ownership of the configuration */
_Noreturn void plan_show(cs_config *config, int64_t world_size, bool json);
_Noreturn void plan_show_units(cs_config *config); /* prints the units of sharding instead of the plan; also takes
                                                    * ownership of the configuration */

/* outdir.c */
/* creates the folders above the last slash; returns the errno value of the last error, or 0 */
int outdir_make_above(char *path);
/* call before anything in the folder is read or written; exits the process on an error */
void outdir_claim(const char *output, bool force);
void outdir_prepare(cs_engine *engine, const char *output, bool fresh);
/* creates the parent folders; prints the reason and returns false if the folder cannot be created in them */
bool outdir_prepare_parent(const char *folder);
/* Returns true if an earlier attempt of this job (--max_restarts) has already returned to the checkpoint of --tag, so
 * that newer checkpoints are not discarded a second time. outdir_mark_back records that this attempt has done so. */
bool outdir_went_back(cs_engine *engine, const char *output);
void outdir_mark_back(const char *output);

/* owner.c: ensures that only one run at a time writes to an output folder. A program that saves without these calls is
 * not protected. */
#define OWNER_FILE ".cspeed-owner"
/* To be called on rank 0. This process then owns the folder until the process ends. Returns 0, or an exit code if
 * another run owns it, after printing a message. `made`: this run created the folder, so it is removed at the end if it
 * is empty. */
int owner_take(const char *output, bool made, bool force);
void owner_check(cs_engine *engine); /* ends the run if another run has taken the folder; collective */

/* progress.c */
typedef struct {
    bool terminal; /* true: the line is redrawn in place; false: a line is printed every two seconds */
    double last;
} progress;
void progress_open(progress *bar, const cs_config *config);
void progress_draw(progress *bar, const cs_metrics *m, int64_t steps, double seconds_a_step);

/* metrics_file.c: a NULL file means that no metrics are written */
char *metrics_file_path(const char *output, const char *name); /* malloc'ed; NULL for a NULL name */
FILE *metrics_file_open(char *path, int64_t step);             /* NULL for a NULL path */
/* valid: the result of the validation after this step; its loss is NaN if there was no validation. pairs: true in
 * preference training. load: that of the step. `whole`: the tokens of each expert are written too. */
void metrics_file_write(FILE **file, const cs_metrics *m, const cs_scores *valid, bool pairs,
                        const cs_expert_load *load, bool whole);

/* sample_text.c */
void sample_text_print(cs_engine *engine, const cs_config *config);

/* time_budget.c: cspeed.fit_seconds. The budget covers optimizer steps, validation and saves, in all attempts of a run,
 * but not the start of a process and the work after the last step. */
typedef struct {
    double seconds; /* the budget; 0: none */
    double spent;   /* seconds used, earlier attempts included */
    double step;    /* recent mean of the seconds of a step, without pauses */
    double pauses;  /* seconds of this attempt in which validation or a save stopped the training */
    int64_t steps;  /* steps of this attempt */
} time_budget;
void time_budget_step(time_budget *budget, double seconds);  /* call after each step */
void time_budget_pause(time_budget *budget, double seconds); /* call after each validation and save */
/* Returns true if the number of steps is to be fitted after step `done` of `total`. `fitted` says whether `total` is
 * the result of an earlier fit. */
bool time_budget_due(const time_budget *budget, bool fitted, int64_t done, int64_t total, int64_t save_interval);
/* Returns the number of steps that fits into the budget: at least `done` and at most `max`. Returns `total` if the
 * difference would be small. */
int64_t time_budget_fit(const time_budget *budget, int64_t done, int64_t total, int64_t max);

/* session.c: one training run */
typedef struct {
    cs_engine *engine;
    cs_config *config;
    cs_data *train, *valid; /* valid NULL: no validation */
    command_line options;
    FILE *metrics;
    char *metrics_path;
    progress progress;
    char *output;
    const char *source;       /* the folder of the checkpoint from which this run resumed; NULL: none */
    const char *exported;     /* the Hugging Face folder to write at the end; NULL: none */
    int64_t steps, max_steps; /* steps: of this training, after a fit; max_steps: as configured */
    int64_t first;            /* the number of steps that were done before this run */
    bool fitted;              /* the number of steps is derived from the speed of this machine */
    time_budget budget;
    int64_t saved; /* the last step whose checkpoint was reported; -1: none */
    double best, started;
    double marked; /* the time, as ce_clock_seconds() gives it, up to which the budget has counted */
} session;
session session_open(int count, char **argument);
void session_step(session *run); /* call after each optimizer step */
void session_close(session *run);

/* mode_costs.c: prints what cspeed.mode "ps" or "dp" has cost; collective */
void mode_costs_print(cs_engine *engine);

/* ending.c: prints where the run is and what can be done with it; on a terminal it also draws the loss. */
void ending_print(const session *run);

#endif
