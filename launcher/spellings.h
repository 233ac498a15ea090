/* spellings.h - flags whose value is more than one field: checks, and what other launchers' flags mean here. */
#ifndef CS_LAUNCHER_SPELLINGS_H
#define CS_LAUNCHER_SPELLINGS_H

#include "options.h"

/* Each 0, or CS_CODE_USAGE with a sentence that begins with `flag`. */
int cs_spellings_nodes(const char *flag, const char *value);   /* N, MIN:MAX, -1          */
int cs_spellings_ranks(const char *flag, const char *value);   /* N, gpu, cpu, auto, -1   */
int cs_spellings_node(const char *flag, const char *value);    /* N, auto, -1             */
int cs_spellings_signals(const char *flag, const char *value); /* USR1,USR2; none         */
int cs_spellings_codes(const char *flag, const char *value);   /* any; 1,75,137           */
int cs_spellings_size(const char *flag, const char *value);    /* 100M                    */
int cs_spellings_console(const char *flag, const char *value); /* a word or ranks         */
int cs_spellings_color(const char *flag, const char *value);
int cs_spellings_job(const char *flag, const char *value);   /* what may be in a job id */
int cs_spellings_range(const char *flag, const char *value); /* 0,2-4: ascending        */

int cs_spellings_launcher(cs_options *options, const char *flag, const char *value);
int cs_spellings_bind(cs_options *options, const char *flag, const char *value);
int cs_spellings_numa(cs_options *options, const char *flag, const char *value);
int cs_spellings_format(cs_options *options, const char *flag, const char *value);
int cs_spellings_level(cs_options *options, const char *flag, const char *value);
int cs_spellings_rank_log(cs_options *options, const char *flag, const char *value);
int cs_spellings_redirects(cs_options *options, const char *flag, const char *value);
int cs_spellings_endpoint(cs_options *options, const char *flag, const char *value);
int cs_spellings_conf(cs_options *options, const char *flag, const char *value);

/* Helpers that options.c needs too. */
int cs_spellings_whole(const char *flag, const char *value, long from, long to, int *field);
int cs_spellings_seconds(const char *flag, const char *value, double *field);

#endif
