/* test_packing.c - training and evaluation on whole documents: the loss is that of the same documents one in each window,
 * a run continues at any number of ranks, and the first lines count what is cut or left out. */
#include "shell.h"
#include "suite.h"
#include "training.h"

#include <math.h>

enum { CHATS = 14, STEPS = 4 };

/* The chats have 40 to 122 tokens (bytes) by the template "plain"; one of them is longer than 112 tokens. */
static void enter(void)
{
    shell_enter();
    shell_write("model.json", "{ \"model_type\": \"llama\", \"vocab_size\": 256, \"hidden_size\": 32,\n"
                              "  \"intermediate_size\": 48, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,\n"
                              "  \"num_key_value_heads\": 2, \"max_position_embeddings\": 512 }\n");
    shell_write("c.json",
                "{ \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 1e-3 } },\n"
                "  \"cspeed\": { \"model\": \"model\", \"output\": \"out\", \"products\": \"fixed\", \"data\": {\n"
                "    \"train\": \"chats.jsonl\", \"valid\": [], \"template\": \"plain\", \"cache\": \"cache\",\n"
                "    \"packing\": \"documents\" } } }\n");
    ck_assert_int_eq(shell_run("mkdir model && mv model.json model/config.json"), 0);
    FILE *file = fopen("chats.jsonl", "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < CHATS; i++)
        fprintf(file,
                "{\"messages\": [{\"role\": \"user\", \"content\": \"What is %d?\"}, "
                "{\"role\": \"assistant\", \"content\": \"%.*s\"}]}\n",
                i, 10 + 6 * i,
                "It is a number, and there are many numbers of this kind, so that an answer may be long.......");
    ck_assert_int_eq(fclose(file), 0);
}

/* A batch has all documents. Their losses, and so the gradients and all later losses, are the same if each document has
 * a window of its own. */
START_TEST(a_packed_run_has_the_losses_of_single_documents)
{
    char list[512], line[1024];
    double packed[STEPS], single[STEPS];
    int at = 0;
    enter();
    shell_ended(0, training_try(1, "c.json --steps 4 --seq_len 512 --set train_batch_size=3 --output packed"),
                "14 documents, 3 windows of 512 tokens, filled to");
    ck_assert_int_eq(shell_run("split -l 1 -d --additional-suffix=.jsonl chats.jsonl one-"), 0);
    for (int i = 0; i < CHATS; i++)
        at += sprintf(list + at, "%c\"one-%02d.jsonl\"", i == 0 ? '[' : ',', i);
    snprintf(line, sizeof line,
             "c.json --steps 4 --seq_len 512 --set train_batch_size=14 --output single --set 'cspeed.data.train=%s]'",
             list);
    shell_ended(0, training_try(2, line), "14 documents, 14 windows of 512 tokens, filled to");
    training_losses("packed/metrics.jsonl", packed, STEPS);
    training_losses("single/metrics.jsonl", single, STEPS);
    for (int i = 0; i < STEPS; i++)
        ck_assert_msg(fabs(packed[i] - single[i]) <= 1e-6 * single[i], "step %d: packed %.9g, single %.9g", i + 1,
                      packed[i], single[i]);
    ck_assert(packed[3] < packed[0] - 1e-3);
    shell_leave();
}
END_TEST

/* The order of the windows does not depend on the number of ranks, and is the same after a resume. */
START_TEST(a_packed_run_continues_at_any_number_of_ranks)
{
    double whole[STEPS], parts[STEPS];
    enter();
    shell_ended(0, training_try(2, "c.json --steps 4 --seq_len 128 --set train_batch_size=4 --output whole"),
                "14 documents");
    shell_ended(0, training_try(1, "c.json --steps 2 --seq_len 128 --set train_batch_size=4 --output parts"),
                "14 documents");
    shell_ended(0, training_try(4, "c.json --steps 4 --seq_len 128 --set train_batch_size=4 --output parts"),
                "continuing at step 2");
    training_losses("whole/metrics.jsonl", whole, STEPS);
    training_losses("parts/metrics.jsonl", parts, STEPS);
    for (int i = 0; i < STEPS; i++)
        ck_assert_msg(fabs(parts[i] - whole[i]) <= 1e-6 * whole[i], "step %d: %.9g, not %.9g", i + 1, parts[i],
                      whole[i]);
    shell_leave();
}
END_TEST

START_TEST(the_first_lines_count_what_is_lost)
{
    static const struct {
        const char *arguments;
        int code;
        const char *words;
    } rows[] = {
        { "--seq_len 113", 0,
          "train: 1 of 14 documents are longer than seq_len, 113, and are cut after 113 tokens, which "
          "loses 7 targets (cspeed.data.long); the first is chats.jsonl, line 14, with 120 tokens" },
        { "--seq_len 113 --set cspeed.data.long=drop", 0,
          "and are left out, which loses 91 targets (cspeed.data.long)" },
        { "--seq_len 113 --set cspeed.data.long=split", 0, "and are divided into samples of their own (cspeed.data." },
        { "--seq_len 113 --set cspeed.data.long=refuse", 65, "chats.jsonl, line 14: 120 tokens, more than" },
        { "--seq_len 113 --set cspeed.data.long=split --set cspeed.data.packing=windows", 78,
          "cspeed.data.long: has no effect without cspeed.data.packing" },
        { "--seq_len 29", 0,
          "train: 4 documents are left out, because no token of the part that is read counts in the loss" },
        { "--seq_len 8", 65,
          "nothing to train on: of 14 documents, 14 are longer than seq_len, 8 tokens, and 14 have no" },
        { "--seq_len 113 --set cspeed.data.packing=windows", 0,
          "8 of 14 documents are divided at the borders of windo" },
        { "--seq_len 113 --set cspeed.data.packing=windows", 0,
          "train: 91 targets after the last complete window are not" },
        { "--seq_len 113 --set cspeed.steps=0 --set cspeed.epochs=3", 0,
          "the whole training has 17 steps, which is few" },
        { "--seq_len 113 --set cspeed.data.valid=chats.jsonl --set cspeed.eval_batches=2", 0,
          "an evaluation reads the first 4 of 11 samples of the validation data (cspeed.eval_batches; 0: all)" },
        { "--seq_len 113 --set 'cspeed.data.train=[\"chats.jsonl\",\"more.jsonl\"]' --set cspeed.data.weights=[1,2]", 0,
          "cspeed.data.weights: an epoch reads the windows of more.jsonl" },
    };
    enter();
    ck_assert_int_eq(shell_run("head -3 chats.jsonl > more.jsonl"), 0);
    shell_ended(0, training_try(1, "c.json --steps 1 --set train_batch_size=2"), "making tokens of chats.jsonl");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char line[512];
        snprintf(line, sizeof line, "c.json --steps 1 --set train_batch_size=2 --fresh %s", rows[i].arguments);
        shell_ended(rows[i].code, training_try(1, line), rows[i].words);
    }
    /* A folder that an earlier version made has no places. */
    ck_assert_int_eq(shell_run("rm cache/*/.train-00000.places"), 0);
    shell_ended(0, training_try(1, "c.json --steps 1 --set train_batch_size=2 --fresh --seq_len 113"),
                "(cspeed.data.long); the first is number 14 of chats.jsonl, with 120 tokens");
    shell_leave();
}
END_TEST

/* Evaluation reads every target once, however long the documents and the windows are. */
START_TEST(evaluation_reads_every_target)
{
    enter();
    shell_ended(0, training_try(1, "c.json --steps 1 --set train_batch_size=2"),
                "725 of them count in the loss, at most 120 in a document");
    for (int i = 0; i < 10; i++) {
        static const int lengths[] = { 17, 32, 112, 256, 512 };
        char line[512];
        snprintf(line, sizeof line, "'%s/eval' out --data chats.jsonl --json --seq_len %d --set cspeed.data.packing=%s",
                 CS_BIN, lengths[i / 2], i % 2 ? "windows" : "documents");
        shell_ended(0, shell_run("%s", line), "{\"tokens\": 725, ");
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("packing", a_packed_run_has_the_losses_of_single_documents, a_packed_run_continues_at_any_number_of_ranks,
           the_first_lines_count_what_is_lost, evaluation_reads_every_target)
