/* eval.c - evaluates a model on a data set: mean loss, perplexity, and the share of tokens predicted correctly.
 *
 * The results have the same bits for any number of ranks. */
#include "use.h"

#include "base/asked.h"

#include <inttypes.h>
#include <math.h>

/* ---- the command line ---- */

typedef struct {
    const char *source, *tag, *data, *micro_batch, *seq_len, *reference, *beta;
    cs_option_list set;
    int64_t batches;
    bool json, lenient;
} options;

static const cs_option table[] = {
    { CS_OPTION(RAW, "tag", options, tag, "T",
                "read the checkpoint with the tag T. Default: the one that the file latest names") },
    { CS_OPTION(RAW, "data", options, data, "PATH",
                "data to evaluate: a folder that `cspeed pack` wrote (its valid.bin, or its train shards if it has "
                "none), token shards, or files of text. Default: the validation data of the training") },
    { CS_OPTION(WHOLE, "batches", options, batches, "N",
                "evaluate only the first N micro-batches; 0: all. Default: 0") },
    { CS_OPTION(RAW, "micro_batch", options, micro_batch, "N",
                "number of sequences in a micro-batch. Default: as in the training") },
    { CS_OPTION(RAW, "seq_len", options, seq_len, "N", "length of a sequence in tokens. Default: as in the training") },
    { CS_OPTION(RAW, "reference", options, reference, "FOLDER",
                "evaluate preferences: the data are pairs of answers (prompt, chosen, rejected), and the model of "
                "this Hugging Face folder is the reference. Prints loss, rewards and accuracy") },
    { CS_OPTION(RAW, "beta", options, beta, "X",
                "with --reference, the factor beta of DPO, by which differences of log-probabilities are multiplied. "
                "Default: 0.1") },
    { CS_OPTION(SWITCH, "json", options, json, NULL, "print the result as one JSON object") },
    COMMON_OPTIONS,
};

static const char usage[] = "usage: cspeed [LAUNCH FLAGS] eval SOURCE [OPTIONS]\n\n"
                            "  SOURCE\n"
                            "        the output folder of a training, one checkpoint in it, a Hugging Face\n"
                            "        folder, or ORG/NAME[@REVISION] of a model on the Hugging Face Hub\n";

static void read_options(options *given, char **argv)
{
    given->source = read_command_line(table, sizeof table / sizeof *table, usage, given, argv);
}

/* ---- the model and the data ---- */

/* Applies the assignment "PATH=VALUE" that `before`, `value` and `after` form together. A `value` of NULL means that
 * the option was not given, and nothing is set. */
static void set(cs_config *config, const char *before, const char *value, const char *after)
{
    if (!value)
        return;
    CE_FREED char *assignment = ce_must_print("%s%s%s", before, value, after);
    CS_MUST(cs_config_set(config, assignment));
}

/* Opens the model and the data. The data is opened before the model's parameters are loaded, because for pairs of
 * answers (cspeed.dpo) cs_data_open loads the reference model's parameters into the engine. */
static cs_engine *open_model(const options *given, cs_data **data)
{
    cs_config *config;
    cs_engine *engine;
    CS_MUST(cs_reopen(&config, given->source, given->tag));
    set(config, "cspeed.data.valid=[\"", given->data, "\"]");
    set(config, "train_micro_batch_size_per_gpu=", given->micro_batch, "");
    set(config, "cspeed.data.seq_len=", given->seq_len, "");
    set(config, "cspeed.dpo.reference=\"", given->reference, "\"");
    if (given->reference)
        set(config, "cspeed.dpo.beta=", given->beta ? given->beta : "0.1", "");
    set_items(config, &given->set, given->lenient);
    CS_MUST(cs_config_finish(config));
    if (!cs_config_get_string(config, "cspeed.data.valid"))
        leave(WRONG_USAGE, "%s has no validation data in its configuration; give --data PATH", given->source);
    CS_MUST(cs_initialize(&engine, config, NULL));
    CS_MUST(cs_data_open(data, engine, "valid"));
    load_trained(engine, config);
    return engine;
}

/* ---- the results ---- */

static void put_number(const char *name, double value)
{
    printf(isfinite(value) ? ", \"%s\": %.17g" : ", \"%s\": null", name, value);
}

static void print_pairs_json(const cs_scores *scores)
{
    const cs_preference *p = &scores->preference;
    printf("{\"tokens\": %" PRId64 ", \"pairs\": %" PRId64, scores->tokens, scores->pairs);
    put_number("loss", scores->loss);
    put_number("rewards/chosen", p->chosen_reward);
    put_number("rewards/rejected", p->rejected_reward);
    put_number("rewards/accuracies", p->accuracy);
    put_number("rewards/margins", p->margin);
    put_number("logps/chosen", p->chosen_logp);
    put_number("logps/rejected", p->rejected_logp);
    puts("}");
}

static void print_pairs(const cs_scores *scores, double seconds)
{
    const cs_preference *p = &scores->preference;
    printf("loss %.6f  accuracy %.2f%% of %" PRId64 " pairs  margin %.6f  rewards: chosen %.6f, rejected %.6f  "
           "%.0f tokens/s\n",
           scores->loss, 100 * p->accuracy, scores->pairs, p->margin, p->chosen_reward, p->rejected_reward,
           (double)scores->tokens / seconds);
}

static void print_json(const cs_scores *scores, int64_t windows)
{
    if (scores->pairs > 0) {
        print_pairs_json(scores);
        return;
    }
    printf("{\"tokens\": %" PRId64 ", \"windows\": %" PRId64, scores->tokens, windows);
    put_number("loss", scores->loss);
    put_number("perplexity", exp(scores->loss));
    put_number("accuracy", scores->correct < 0 ? (double)NAN : (double)scores->correct / (double)scores->tokens);
    puts("}");
}

static void print_text(const cs_scores *scores, double seconds)
{
    if (scores->pairs > 0) {
        print_pairs(scores, seconds);
        return;
    }
    printf("loss %.6f  perplexity %.4f", scores->loss, exp(scores->loss));
    if (scores->correct >= 0)
        printf("  accuracy %.2f%% (%" PRId64 " of %" PRId64 " tokens)",
               100 * (double)scores->correct / (double)scores->tokens, scores->correct, scores->tokens);
    printf("  %.0f tokens/s\n", (double)scores->tokens / seconds);
}

int main(int argc, char **argv)
{
    static options given; /* static: the assignments that options make (use.h) are held until the process ends */
    cs_scores scores;
    cs_data *data;
    (void)argc;
    ce_asked_ignore_saves();
    read_options(&given, argv);
    cs_engine *engine = open_model(&given, &data);
    double started = ce_clock_seconds();
    CS_MUST(cs_score(engine, data, given.batches, &scores));
    if (scores.tokens == 0)
        leave(WRONG_CONTENT, "there is nothing to evaluate: all targets are masked");
    if (is_rank_zero() && given.json)
        print_json(&scores, cs_data_windows(data));
    else if (is_rank_zero())
        print_text(&scores, ce_clock_seconds() - started);
    cs_data_close(data);
    cs_destroy(engine);
    return 0;
}
