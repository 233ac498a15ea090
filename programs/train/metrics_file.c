/* metrics_file.c - the file metrics.jsonl: one line for each optimizer step. A resumed run continues the file. */
#include "base/must.h"
#include "train.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Removes the lines of steps after the checkpoint from which the run resumes, so that no step appears twice. */
static void keep_lines(const char *path, int64_t step)
{
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) /* a pipe or a device contains no old lines */
        return;
    CE_FREED char *part = ce_must_print("%s.part", path);
    CE_FREED char *line = NULL;
    size_t capacity = 0;
    FILE *in = fopen(path, "r"), *out = in ? fopen(part, "w") : NULL;
    bool good = out != NULL;
    while (good && getline(&line, &capacity, in) > 0) {
        long long at = 0;
        if (sscanf(line, "{\"step\": %lld", &at) == 1 && at <= step && line[strlen(line) - 1] == '\n')
            good = fputs(line, out) >= 0;
    }
    good = good && !ferror(in);
    int why = errno;
    if (in)
        fclose(in);
    if (out && fclose(out) != 0 && good) {
        why = errno;
        good = false;
    }
    if (!good || rename(part, path) != 0) {
        complain("cannot write %s again through %s: %s; lines of steps after %" PRId64 " remain in it", path, part,
                 strerror(good ? errno : why), step);
        unlink(part);
    }
}

char *metrics_file_path(const char *output, const char *name)
{
    if (!name)
        return NULL;
    return name[0] == '/' ? ce_must_copy(name) : ce_must_print("%s/%s", output, name);
}

void metrics_file_open(metrics_file *file, char *path, int64_t step)
{
    *file = (metrics_file){ .path = path, .descriptor = -1 };
    if (!is_rank_zero() || !path)
        return;
    outdir_make_above(path); /* errors are not checked here, because the file cannot be opened then */
    keep_lines(path, step);
}

void metrics_file_close(const metrics_file *file)
{
    if (file->lost > 0)
        complain("%s lacks the lines of %" PRId64 " step%s: they could not be written", file->path, file->lost,
                 file->lost > 1 ? "s" : "");
    if (file->descriptor >= 0 && close(file->descriptor) != 0)
        complain("the last lines of %s may be lost: %s", file->path, strerror(errno));
    free(file->path);
}

/* Writes nine significant digits of a measurement, and all digits of a whole number, for example of a loss scale. */
static void put_number(FILE *file, const char *name, double value)
{
    if (isfinite(value))
        fprintf(file, ", \"%s\": %.*g", name, value == trunc(value) ? 17 : 9, value);
    else
        fprintf(file, ", \"%s\": null", name);
}

/* Writes the metrics of preference training, with the names that TRL gives them. */
static void put_preference(FILE *file, const char *before, const cs_preference *p)
{
    const struct {
        const char *name;
        double value;
    } numbers[] = { { "rewards/chosen", p->chosen_reward }, { "rewards/rejected", p->rejected_reward },
                    { "rewards/accuracies", p->accuracy },  { "rewards/margins", p->margin },
                    { "logps/chosen", p->chosen_logp },     { "logps/rejected", p->rejected_logp } };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char *name = ce_must_print("%s%s", before, numbers[i].name);
        put_number(file, name, numbers[i].value);
        free(name);
    }
}

static void put_tokens(FILE *file, const cs_expert_load *load)
{
    fputs(", \"experts/tokens\": [", file);
    for (int64_t i = 0; i < load->layers * load->experts; i++)
        fprintf(file, "%s%" PRId64 "%s",
                i % load->experts ? ", "
                : i               ? ", ["
                                  : "[",
                load->tokens[i], (i + 1) % load->experts ? "" : "]");
    fputs("]", file);
}

static void put_load(FILE *file, const cs_expert_load *load, bool whole)
{
    if (load->layers == 0)
        return;
    put_number(file, "experts/imbalance", load->imbalance);
    put_number(file, "experts/imbalance_max", load->worst);
    fprintf(file, ", \"experts/unused\": %" PRId64, load->unused);
    if (whole)
        put_tokens(file, load);
}

static void put_line(FILE *file, const cs_metrics *m, const cs_scores *valid, bool pairs, const cs_expert_load *load,
                     bool whole)
{
    fprintf(file, "{\"step\": %" PRId64, m->step);
    put_number(file, "epoch", m->epoch);
    put_number(file, "loss", m->loss);
    put_number(file, "lr", m->learning_rate);
    put_number(file, "grad_norm", m->grad_norm);
    put_number(file, "loss_scale", m->loss_scale);
    fprintf(file, ", \"skipped\": %" PRId64 ", \"samples\": %" PRId64 ", \"tokens\": %" PRId64, m->skipped, m->samples,
            m->tokens);
    put_number(file, "tokens_per_s", m->tokens_per_second);
    put_number(file, "step_ms", 1e3 * m->step_seconds);
    put_number(file, "peak_share", m->peak_share);
    if (pairs)
        put_preference(file, "", &m->preference);
    put_load(file, load, whole);
    if (!isnan(valid->loss))
        put_number(file, "valid_loss", valid->loss);
    if (pairs && valid->pairs > 0)
        put_preference(file, "valid_", &valid->preference);
    fputs("}\n", file);
}

/* Writes the whole line or, on a regular file, nothing of it. A regular file that cannot be written is closed, and opened
 * again for the next line, because a descriptor stays unusable after its file server has restarted (ESTALE). */
static bool append(metrics_file *file, const char *line, size_t bytes)
{
    struct stat before = { .st_mode = S_IFREG };
    if (file->descriptor < 0)
        file->descriptor = open(file->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    bool good = file->descriptor >= 0 && fstat(file->descriptor, &before) == 0;
    size_t done = 0;
    while (good && done < bytes) {
        ssize_t put = write(file->descriptor, line + done, bytes - done);
        good = put >= 0 || errno == EINTR;
        done += put > 0 ? (size_t)put : 0;
    }
    if (good || file->descriptor < 0 || !S_ISREG(before.st_mode))
        return good;
    int why = errno;
    if (done > 0 && ftruncate(file->descriptor, before.st_size) != 0)
        complain("an incomplete line remains in %s: %s", file->path, strerror(errno));
    close(file->descriptor);
    file->descriptor = -1;
    errno = why;
    return false;
}

void metrics_file_write(metrics_file *file, const cs_metrics *m, const cs_scores *valid, bool pairs,
                        const cs_expert_load *load, bool whole)
{
    CE_FREED char *line = NULL;
    size_t bytes = 0;
    FILE *memory = is_rank_zero() && file->path ? open_memstream(&line, &bytes) : NULL;
    if (!memory)
        return;
    put_line(memory, m, valid, pairs, load, whole);
    fclose(memory);
    if (!append(file, line, bytes)) {
        if (!file->fails)
            complain("cannot write the metrics of step %" PRId64 " to %s: %s; the next step tries again", m->step,
                     file->path, strerror(errno));
        file->fails = true;
        file->lost++;
    } else if (file->fails) {
        complain("%s is written again at step %" PRId64, file->path, m->step);
        file->fails = false;
    }
}
