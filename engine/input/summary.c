/* summary.c - prints what the windows of a split contain: documents, fill, steps an epoch, and what is cut or left out.
 */
#include "input/loader.h"
#include "input/input.h"
#include "base/log.h"
#include "base/plural.h"
#include "data/places.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FEW_STEPS = 20 };

typedef struct {
    const ce_settings *settings;
    const ce_data_counts *counts;
    const char *split;   /* "train" or "valid" */
    const char *what;    /* "document" or "pair" */
    const char *example; /* the text of the first document that is longer than seq_len */
    int64_t windows, seq_len;
    bool pairs, documents, train;
} summary;

static void print_size(const summary *self)
{
    const ce_data_counts *counts = self->counts;
    char documents[64] = "", steps[64] = "";
    double rows = (double)self->windows * (double)self->seq_len * (self->pairs ? CE_ANSWERS : 1);
    if (counts->documents > 0)
        snprintf(documents, sizeof documents, "%" PRId64 " %s%s, ", counts->documents, self->what,
                 ce_plural(counts->documents));
    if (self->train)
        snprintf(steps, sizeof steps, "; %.1f steps an epoch",
                 (double)self->windows / (double)self->settings->train_batch_size);
    ce_log(CE_LOG_INFO, "cspeed.data.%s: %s%" PRId64 " %s%s of %s%" PRId64 " tokens, filled to %.1f %%%s", self->split,
           documents, self->windows, self->pairs ? "sample" : "window", ce_plural(self->windows),
           self->pairs ? "2 x " : "", self->seq_len, 100 * (double)counts->rows / rows, steps);
}

/* Reports the documents, or pairs, that are longer than seq_len. */
static void print_long(const summary *self)
{
    const ce_data_counts *counts = self->counts;
    char done[128], lost[64] = "", place[CE_PLACES_TEXT];
    int64_t first = self->pairs ? CE_ANSWERS * counts->example_number - 1 : counts->example_number;
    if (!ce_places_find(place, counts->example, first))
        snprintf(place, sizeof place, "number %" PRId64 " of %s", counts->example_number, self->example);
    if (counts->divided > 0)
        snprintf(done, sizeof done, "divided into samples of their own");
    else if (self->documents && self->settings->longer == CE_LONG_DROP)
        snprintf(done, sizeof done, "left out");
    else
        snprintf(done, sizeof done, "cut after %" PRId64 " tokens", self->seq_len);
    if (counts->lost > 0)
        snprintf(lost, sizeof lost, ", which loses %" PRId64 " target%s", counts->lost, ce_plural(counts->lost));
    ce_log(counts->lost > 0 ? CE_LOG_WARNING : CE_LOG_INFO,
           "cspeed.data.%s: %" PRId64 " of %" PRId64 " %ss are longer than seq_len, %" PRId64 ", and are %s%s%s; the "
           "first is %s, with %" PRId64 " tokens",
           self->split, counts->longer, counts->documents, self->what, self->seq_len, done, lost,
           self->documents && self->train ? " (cspeed.data.long)" : "", place, counts->example_length);
}

/* Reports what windows that begin at multiples of seq_len do to documents, and to the last tokens of a shard. */
static void print_plain(const summary *self)
{
    const ce_data_counts *counts = self->counts;
    if (counts->divided > 0)
        ce_log(self->settings->template ? CE_LOG_WARNING : CE_LOG_INFO,
               "cspeed.data.%s: %" PRId64 " of %" PRId64 " document%s %s divided at the borders of windows; "
               "cspeed.data.packing \"documents\" keeps documents whole",
               self->split, counts->divided, counts->documents, ce_plural(counts->documents),
               counts->divided == 1 ? "is" : "are");
    if (counts->lost > 0)
        ce_log(CE_LOG_INFO, "cspeed.data.%s: %" PRId64 " target%s after the last complete window %s not used",
               self->split, counts->lost, ce_plural(counts->lost), counts->lost == 1 ? "is" : "are");
}

static void print_bare(const summary *self)
{
    int64_t count = self->counts->bare;
    ce_log(CE_LOG_WARNING, "cspeed.data.%s: %" PRId64 " %s%s %s left out, because %s", self->split, count, self->what,
           ce_plural(count), count == 1 ? "is" : "are",
           self->pairs   ? "the prompt alone has seq_len tokens or more"
           : self->train ? "no token of the part that is read counts in the loss"
                         : "no token counts in the loss");
}

/* Reports how often an epoch reads the windows of each set of a mixture. */
static void print_mixture(const summary *self, const ce_windows *windows)
{
    for (int i = 0; i < self->settings->train_count; i++)
        ce_log(CE_LOG_INFO, "cspeed.data.weights: an epoch reads the windows of %s %.2f times",
               self->settings->train[i], ce_windows_times(windows, i));
}

/* Returns the name in cspeed.data whose text became the shard `path`, or the path if the name is that of shards. */
static const char *source_of(const cs_data *data, bool train, const char *path)
{
    const ce_settings *settings = data->engine->settings;
    for (int i = 0; path && i < data->cache.count; i++) {
        const char *shards = data->cache.names[i], *slash = strrchr(shards, '/');
        if (data->cache.held[i] >= 0 && slash && strncmp(shards, path, (size_t)(slash - shards) + 1) == 0)
            return train ? settings->train[i] : settings->valid[i];
    }
    return path;
}

void ce_summary_print(const cs_data *data, bool train)
{
    const ce_settings *settings = data->engine->settings;
    summary self = { .settings = settings,
                     .counts = ce_windows_counts(data->windows),
                     .split = train ? "train" : "valid",
                     .windows = ce_windows_count(data->windows),
                     .seq_len = data->engine->length,
                     .pairs = ce_preference_is_on(data->engine),
                     .documents = settings->packing == CE_PACK_DOCUMENTS,
                     .train = train };
    self.what = self.pairs ? "pair" : "document";
    self.example = source_of(data, train, self.counts->example);
    print_size(&self);
    if (self.counts->longer > 0)
        print_long(&self);
    if (!self.pairs && !self.documents)
        print_plain(&self);
    if (self.counts->bare > 0)
        print_bare(&self);
    if (train && settings->weighted)
        print_mixture(&self, data->windows);
    if (train && settings->epochs > 0 && settings->steps < FEW_STEPS)
        ce_log(CE_LOG_WARNING,
               "the whole training has %" PRId64 " step%s, which is few: more epochs, a smaller train_batch_size or a "
               "smaller cspeed.data.seq_len give more",
               settings->steps, ce_plural(settings->steps));
}
