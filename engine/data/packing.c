/* packing.c - tokenizes texts into token shards with several threads.
 *
 * Packing works in rounds. In each round the documents are cut into enough jobs to keep all threads busy, the threads
 * process the jobs, and the results are written in order. */
#include "data/packing.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/must.h"
#include "base/plural.h"
#include "base/processors.h"
#include "base/progress.h"
#include "base/thread_pool.h"
#include "data/job.h"
#include "data/shards.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { JOB_BYTES = 1 << 20, MAX_THREADS = CE_THREAD_POOL_MAX_THREADS, JOBS_A_THREAD = 4 };

typedef struct {
    ce_job_plan plan;
    ce_job_workspace *workspaces; /* one element for each thread */
    int threads;
    ce_job_work *jobs; /* threads * JOBS_A_THREAD elements */
    int job_count;
    atomic_int next_job;
    int64_t document, place; /* document and the byte offset in it at which the next job begins */
    int64_t learnt, skipped, unsupported, bare, repeated, wide; /* as in ce_job_work */
    char *bare_sentence;
    ce_column_counts columns;
    int64_t seq_len, length; /* length: number of tokens of the document that is being written */
    int64_t longest, longer; /* as in ce_packing_counts */
    char *first_longer;      /* the place of the first of the documents that `longer` counts */
    ce_progress progress;
} packer;

/* ---- jobs ---- */

/* Returns the offset at which the next part of a long text ends. The function searches the first JOB_BYTES bytes for a
 * place where the text may be cut, then twice as many, and so on. If there is no such place, the part ends with the
 * document. */
static int64_t cut_at(const packer *self, const ce_document *document)
{
    size_t left = (size_t)(document->length - self->place);
    for (size_t size = JOB_BYTES; size < left; size *= 2) {
        size_t cut = ce_tokenizer_cut(self->plan.tokenizer, document->bytes + self->place, size);
        if (cut > 0)
            return self->place + (int64_t)cut;
    }
    return document->length;
}

/* Makes the next job. If the next document is longer than JOB_BYTES and is a text, the job is a part of this document.
 * Otherwise the job is whole documents: documents are added until the job has JOB_BYTES bytes or more, but a document
 * of more than JOB_BYTES bytes is not added to other documents. A document of JSON is never divided. */
static void cut_job(packer *self, ce_job_work *job)
{
    ce_document document = ce_job_part(&self->plan, self->document);
    *job = (ce_job_work){ .first = self->document, .count = 1, .from = self->place };
    if (document.length > JOB_BYTES && !document.is_json) {
        job->to = self->place = cut_at(self, &document);
        if (job->to < document.length)
            return;
        self->place = 0;
        self->document++;
        return;
    }
    job->to = document.length;
    job->count = 0;
    for (int64_t size = 0; self->document < self->plan.corpus->document_count && size < JOB_BYTES; self->document++) {
        int64_t length = ce_job_part(&self->plan, self->document).length;
        if (job->count > 0 && length > JOB_BYTES)
            break;
        size += length;
        job->count++;
    }
}

/* The function that the thread pool runs. The call with index `workspace` uses self->workspaces[workspace], and
 * processes jobs until no job is left. */
static cs_status work(void *argument, int64_t workspace)
{
    packer *self = argument;
    for (int i; (i = atomic_fetch_add(&self->next_job, 1)) < self->job_count;)
        ce_job_make(&self->jobs[i], &self->plan, &self->workspaces[workspace]);
    return CS_OK; /* Each job records its own status. */
}

static void run_jobs(packer *self)
{
    self->next_job = 0;
    ce_thread_pool_run(self->threads, self->threads, work, self);
}

/* ---- writing ---- */

/* Returns the failure of a job. For a faulty line the message explains the key skip_bad. */
static cs_status refuse(const packer *self, cs_status status, const char *sentence)
{
    if (status != CS_BAD_FILE && status != CS_UNSUPPORTED)
        return ce_fail(status, "%s", sentence);
    return ce_fail(status, "%s; \"skip_bad\", the number of such lines that may be left out, is %" PRId64, sentence,
                   self->plan.skip_bad);
}

/* Warns about the lines that a job has skipped, in the order of the lines. Fails if more lines were skipped than
 * skip_bad allows. */
static cs_status report_skipped(packer *self, const ce_job_work *job)
{
    for (int64_t i = 0; i < job->skip_count; i++) {
        if (self->skipped == self->plan.skip_bad)
            return refuse(self, CS_BAD_FILE, job->skipped[i]);
        self->skipped++;
        ce_log(CE_LOG_WARNING, "left out: %s", job->skipped[i]);
    }
    return job->status == CS_OK ? CS_OK : refuse(self, job->status, job->sentence);
}

/* Counts the tokens of a job that belong to the current document of the shards. `ends` is true if the document ends
 * with them. */
static void count_document(packer *self, const ce_shards *shards, int64_t tokens, bool ends)
{
    self->length += tokens;
    if (!ends)
        return;
    self->longest = self->length > self->longest ? self->length : self->longest;
    if (self->seq_len > 0 && self->length > self->seq_len && self->longer++ == 0)
        ce_places_show(self->first_longer, shards->text, shards->line);
    self->length = 0;
}

/* Adds what a job has counted of its rows. */
static void count_rows(packer *self, ce_job_work *job)
{
    self->unsupported += job->unsupported;
    self->bare += job->bare;
    self->repeated += job->repeated;
    self->wide += job->wide;
    if (!self->bare_sentence) {
        self->bare_sentence = job->bare_sentence;
        job->bare_sentence = NULL;
    }
    ce_columns_add(&self->columns, &job->columns);
}

static void report_rows(const packer *self)
{
    ce_columns_report(&self->columns);
    if (self->bare > 0)
        ce_log(CE_LOG_WARNING, "%" PRId64 " conversation%s no answer to train on and %s left out; the first is %s",
               self->bare, self->bare == 1 ? " has" : "s have", self->bare == 1 ? "is" : "are", self->bare_sentence);
    if (self->wide > 0)
        ce_log(CE_LOG_WARNING,
               "%" PRId64 " row%s an integer of more than 64 bits, which is read as a floating-point number",
               self->wide, self->wide == 1 ? " has" : "s have");
    if (self->repeated > 0)
        ce_log(CE_LOG_WARNING,
               "%" PRId64 " pair%s the prompt at the beginning of both answers, so it is written twice (TRL does the "
               "same): remove \"prompt\", or the repetition",
               self->repeated, self->repeated == 1 ? " repeats" : "s repeat");
}

static cs_status write_job(packer *self, ce_job_work *job, ce_shards *shards)
{
    int64_t done = 0;
    CE_TRY(report_skipped(self, job));
    count_rows(self, job);
    for (int64_t i = 0; i < job->start_count; i++) {
        int64_t begin = job->starts[i].token;
        int64_t end = i + 1 < job->start_count ? job->starts[i + 1].token : job->token_count;
        const ce_document *document = &self->plan.corpus->documents[job->starts[i].document];
        count_document(self, shards, begin - done, true);
        CE_TRY(ce_shards_append(shards, job->ids + done, job->learnt + done, begin - done));
        CE_TRY(ce_shards_document(shards, end - begin, self->plan.corpus->texts[document->text].path, document->line));
        done = begin;
    }
    for (int64_t i = 0; i < job->token_count; i++)
        self->learnt += job->learnt[i];
    count_document(self, shards, job->token_count - done, false);
    return ce_shards_append(shards, job->ids + done, job->learnt + done, job->token_count - done);
}

static void count_job(packer *self, const ce_job_work *job)
{
    for (int64_t i = 0; i < job->count; i++) {
        int64_t length = ce_job_part(&self->plan, job->first + i).length;
        ce_progress_add(&self->progress, job->count == 1 && job->to > 0 ? job->to - job->from : length);
    }
}

static cs_status run_round(packer *self, ce_shards *shards)
{
    cs_status status = CS_OK;
    for (self->job_count = 0; self->job_count < self->threads * JOBS_A_THREAD; self->job_count++) {
        if (self->document == self->plan.corpus->document_count)
            break;
        cut_job(self, &self->jobs[self->job_count]);
    }
    run_jobs(self);
    for (int i = 0; i < self->job_count; i++) {
        if (status == CS_OK)
            status = write_job(self, &self->jobs[i], shards);
        count_job(self, &self->jobs[i]);
        ce_job_free(&self->jobs[i]);
    }
    return status;
}

/* Writes one set. If `held_out` is false, the set is the training parts of all documents; otherwise the set is the
 * held-out parts of all documents. */
static cs_status write_set(packer *self, ce_shards *shards, bool held_out)
{
    self->plan.held_out = held_out;
    self->document = self->place = 0;
    while (self->document < self->plan.corpus->document_count)
        CE_TRY(run_round(self, shards));
    count_document(self, shards, 0, true);
    return ce_shards_finish(shards);
}

/* ---- opening ---- */

/* Moves the beginning of each held-out part back to the first byte of a UTF-8 character. */
static void keep_characters(ce_corpus *corpus)
{
    for (int64_t i = 0; i < corpus->document_count; i++) {
        ce_document *document = &corpus->documents[i];
        for (int back = 0; back < 3 && document->train_length > 0 && document->train_length < document->length; back++)
            document->train_length -= ((unsigned char)document->bytes[document->train_length] & 0xc0) == 0x80;
    }
}

static cs_status read_plan(ce_job_plan *plan, const ce_packing_settings *settings, const ce_tokenizer *tokenizer)
{
    plan->tokenizer = tokenizer;
    plan->field = settings->field ? settings->field : "text";
    plan->columns = &settings->columns;
    plan->skip_bad = settings->skip_bad;
    plan->newline = settings->separator && !settings->tokenizer;
    plan->end = ce_tokenizer_end(tokenizer);
    if (settings->end) {
        plan->end = ce_tokenizer_find(tokenizer, settings->end);
        if (plan->end < 0)
            return ce_fail(CS_BAD_CONFIG, "--end %s: the tokenizer has no such token", settings->end);
    }
    plan->pairs = settings->pairs;
    plan->turns = (ce_chat_turns)settings->turns;
    const char *chat = settings->chat;
    if (settings->pairs && !chat && ce_tokenizer_template(tokenizer, "default"))
        chat = "auto";
    return chat ? ce_chat_open(&plan->chat, chat, tokenizer) : CS_OK;
}

static int count_threads(int wanted)
{
    int count = wanted > 0 ? wanted : ce_processors_allowed();
    return count < MAX_THREADS ? count : MAX_THREADS;
}

static void open_workspaces(packer *self, int threads)
{
    self->threads = count_threads(threads);
    self->workspaces = ce_must_alloc((size_t)self->threads * sizeof *self->workspaces);
    self->jobs = ce_must_alloc((size_t)(self->threads * JOBS_A_THREAD) * sizeof *self->jobs);
    for (int i = 0; i < self->threads; i++)
        self->workspaces[i].encoder = ce_encoder_open(self->plan.tokenizer);
}

static int64_t close_workspaces(packer *self)
{
    int64_t repaired = 0;
    for (int i = 0; i < self->threads; i++) {
        repaired += self->workspaces[i].repaired + ce_encoder_text(self->workspaces[i].encoder, "", 0)->repaired;
        ce_encoder_close(self->workspaces[i].encoder);
        ce_unicode_free(&self->workspaces[i].line);
        ce_chat_lines_free(&self->workspaces[i].chat);
        ce_pair_free(&self->workspaces[i].pair);
    }
    free(self->workspaces);
    free(self->jobs);
    return repaired;
}

/* ---- packing ---- */

static cs_status write_sets(packer *self, const ce_packing_settings *settings, ce_packing_counts *counts)
{
    ce_shards train = { .folder = settings->output, .name = "train", .limit = settings->shard_tokens },
              valid = { .folder = settings->output, .name = "valid", .limit = INT64_MAX };
    train.vocab_size = valid.vocab_size = ce_tokenizer_size(self->plan.tokenizer);
    cs_status status = write_set(self, &train, false);
    if (status == CS_OK)
        status = write_set(self, &valid, true);
    counts->train_tokens = train.total;
    counts->train_shards = train.shards;
    counts->valid_tokens = valid.total;
    counts->learnt = self->learnt;
    counts->longest = self->longest;
    counts->longer = self->longer;
    counts->skipped = self->skipped;
    counts->unsupported = self->unsupported;
    counts->bare = self->bare;
    counts->documents -= self->skipped + self->bare;
    if (status == CS_OK && self->skipped + self->bare > 0 && train.total == 0)
        status = ce_fail(CS_BAD_FILE, "%s: nothing is left to train on; left out: %" PRId64 " line%s%s%s",
                         settings->paths[0], self->skipped + self->bare, ce_plural(self->skipped + self->bare),
                         self->bare > 0 ? ", the first is " : "", self->bare > 0 ? self->bare_sentence : "");
    if (status == CS_OK && settings->seq_len > 0 && train.total <= settings->seq_len)
        status =
            ce_fail(CS_BAD_FILE,
                    "%s: too short: %" PRId64 " tokens to train on, and one sequence needs %" PRId64 " (seq_len + 1)",
                    settings->paths[0], train.total, settings->seq_len + 1);
    if (status != CS_OK) {
        ce_shards_remove(&train);
        ce_shards_remove(&valid);
    }
    return status;
}

/* Opens the texts. The output folder must exist already: compressed texts and tables are decoded into temporary files
 * in this folder. */
static cs_status open_corpus(packer *self, ce_corpus *corpus, const ce_packing_settings *settings)
{
    const char *columns[CE_SHAPE_NAMES], *pair_columns[CE_PAIR_NAMES];
    ce_corpus_files files = { settings->paths,
                              settings->path_count,
                              settings->separator,
                              !settings->by_name && (settings->field || settings->chat),
                              { settings->output, settings->pairs ? pair_columns : columns, self->columns.unread } };
    ce_pair_names(pair_columns);
    ce_shape_names(columns, &settings->columns, self->plan.field);
    CE_TRY(ce_corpus_open(corpus, &files));
    CE_TRY(ce_corpus_split(corpus, settings->valid, settings->seq_len > 0 ? settings->seq_len + 1 : 1));
    if (settings->tokenizer)
        keep_characters(corpus);
    for (int64_t i = 0; settings->pairs && i < corpus->document_count; i++)
        if (!corpus->documents[i].is_json)
            return ce_fail(CS_BAD_FILE, "%s: pairs of answers must be in rows: a file named .jsonl, .parquet or .arrow",
                           corpus->texts[corpus->documents[i].text].path);
    self->plan.corpus = corpus;
    return CS_OK;
}

static cs_status pack(packer *self, ce_corpus *corpus, const ce_packing_settings *settings, ce_packing_counts *counts)
{
    CE_TRY(open_corpus(self, corpus, settings));
    counts->bytes = corpus->bytes;
    counts->documents = corpus->document_count;
    open_workspaces(self, (int)settings->threads);
    ce_progress_begin(&self->progress, "making tokens", NULL, corpus->bytes);
    cs_status status = write_sets(self, settings, counts);
    ce_progress_end(&self->progress);
    counts->repaired = close_workspaces(self);
    return status;
}

cs_status ce_packing_run(const ce_packing_settings *settings, ce_packing_counts *counts)
{
    double started = ce_clock_seconds();
    packer self = { .seq_len = settings->seq_len, .first_longer = counts->first_longer };
    CE_CLOSED(ce_corpus_close) ce_corpus corpus = { 0 };
    ce_tokenizer *tokenizer;
    *counts = (ce_packing_counts){ 0 };
    CE_TRY(ce_tokenizer_open(&tokenizer, settings->tokenizer));
    self.columns.unread = json_object();
    size_t made = 0;
    cs_status status = read_plan(&self.plan, settings, tokenizer);
    if (status == CS_OK)
        status = ce_shards_folder(settings->output, &made);
    if (status == CS_OK)
        status = pack(&self, &corpus, settings, counts);
    if (status != CS_OK)
        ce_shards_remove_folder(settings->output, made);
    else
        report_rows(&self);
    if (status == CS_OK && self.plan.chat)
        ce_chat_report(self.plan.chat);
    free(self.bare_sentence);
    ce_columns_free(&self.columns);
    ce_chat_close(self.plan.chat);
    ce_tokenizer_close(tokenizer);
    counts->seconds = ce_clock_seconds() - started;
    return status;
}
