/* test_shape.c - rows of JSON are recognised by their keys: texts, pairs, conversations of every kind, tokens. */
#include "data/shape.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *row;
    const char *expected; /* the shape as `show` writes it; or '!' and a part of the error message */
} example;

static const ce_shape_columns no_columns;

/* Writes the shape as JSON; the caller frees it. */
static char *show(const ce_shape *shape)
{
    json_t *shown = NULL;
    switch (shape->kind) {
    case CE_SHAPE_TEXT:
        shown = json_pack("[s, O]", "text", shape->text);
        break;
    case CE_SHAPE_PAIR:
        shown = json_pack("[s, O, O]", "pair", shape->text, shape->completion);
        break;
    case CE_SHAPE_CHAT:
        shown = json_pack("[s, O]", "chat", shape->chat);
        break;
    case CE_SHAPE_TOKENS:
        shown = json_pack("[s, O, O*, O*, O*, O*]", "tokens", shape->tokens, shape->labels, shape->mask,
                          shape->learnt[0], shape->learnt[1]);
        break;
    }
    char *text = json_dumps(shown, JSON_COMPACT);
    json_decref(shown);
    ck_assert_ptr_nonnull(text);
    return text;
}

static void check(const example *examples, size_t count, const ce_shape_columns *columns, const char *field, bool chats)
{
    for (size_t i = 0; i < count; i++) {
        ce_shape shape;
        json_t *row = json_loads(examples[i].row, 0, NULL);
        const char *expected = examples[i].expected;
        ck_assert_msg(row != NULL, "%s", examples[i].row);
        cs_status status = ce_shape_read(&shape, row, columns, field, chats);
        if (*expected == '!') {
            ck_assert_msg(status != CS_OK && strstr(cs_error(), expected + 1), "%s: %d, %s", examples[i].row, status,
                          cs_error());
        } else {
            ck_assert_msg(status == CS_OK, "%s: %s", examples[i].row, cs_error());
            char *shown = show(&shape);
            ck_assert_str_eq(shown, expected);
            free(shown);
        }
        ce_shape_free(&shape);
        json_decref(row);
    }
}
#define CHECK(examples, columns, field, chats)                                                                         \
    check(examples, sizeof examples / sizeof *examples, columns, field, chats)

#define USER "{\"role\":\"user\",\"content\":\"a\"}"
#define ANSWER "{\"role\":\"assistant\",\"content\":\"b\"}"
#define SYSTEM "{\"role\":\"system\",\"content\":\"s\"}"

START_TEST(conversations_are_recognised)
{
    static const example examples[] = {
        { "{\"messages\": [" USER ", " ANSWER "], \"text\": \"t\", \"id\": 7}",
          "[\"chat\",{\"messages\":[" USER "," ANSWER "]}]" },
        { "{\"messages\": null, \"conversations\": [{\"from\": \"human\", \"value\": \"a\"}], \"system\": \"s\"}",
          "[\"chat\",{\"messages\":[" SYSTEM ",{\"from\":\"human\",\"value\":\"a\"}]}]" },
        { "{\"messages\": [" USER "], \"tools\": [1], \"documents\": [2], \"system\": \"\"}",
          "[\"chat\",{\"messages\":[" USER "],\"tools\":[1],\"documents\":[2]}]" },
        { "{\"prompt\": \"a\", \"completion\": \"b\"}", "[\"chat\",{\"messages\":[" USER "," ANSWER "]}]" },
        { "{\"prompt\": [" USER "], \"completion\": [" ANSWER "]}", "[\"chat\",{\"messages\":[" USER "," ANSWER "]}]" },
        { "{\"instruction\": \"a\", \"output\": \"b\"}", "[\"chat\",{\"messages\":[" USER "," ANSWER "]}]" },
        { "{\"instruction\": \"a\", \"input\": \"\", \"output\": \"b\", \"text\": \"Below is\"}",
          "[\"chat\",{\"messages\":[" USER "," ANSWER "]}]" },
        { "{\"instruction\": \"add\", \"input\": \"1 2\", \"output\": \"b\", \"system\": \"s\", \"history\": []}",
          "[\"chat\",{\"messages\":[" SYSTEM ",{\"role\":\"user\",\"content\":\"add\\n1 2\"}," ANSWER "]}]" },
        { "{\"text\": \"t\"}", "[\"text\",\"t\"]" },
        { "{\"input_ids\": [1, 2]}", "[\"tokens\",[1,2]]" },
        { "{\"messages\": \"a\"}", "!\"messages\" is not a list of messages" },
        { "{\"prompt\": [" USER "], \"completion\": [" USER "]}", "[\"chat\",{\"messages\":[" USER "," USER "]}]" },
        { "{\"messages\": [], \"conversations\": [" USER "]}", "[\"chat\",{\"messages\":[" USER "]}]" },
        { "{\"messages\": [" USER "], \"conversations\": []}", "[\"chat\",{\"messages\":[" USER "]}]" },
        { "{\"messages\": [" USER "], \"conversations\": [" USER "]}", "[\"chat\",{\"messages\":[" USER "]}]" },
        { "{\"messages\": [" USER "], \"conversations\": [" ANSWER "]}",
          "!both \"messages\" and \"conversations\", and they differ" },
        { "{\"prompt\": \"a\", \"completion\": [" ANSWER "]}", "!two texts or two lists of messages" },
        { "{\"prompt\": [{\"from\": \"human\", \"value\": \"a\"}], \"completion\": [{\"from\": \"gpt\", \"value\": \"b\"}]}",
          "[\"chat\",{\"messages\":[{\"from\":\"human\",\"value\":\"a\"},{\"from\":\"gpt\",\"value\":\"b\"}]}]" },
        { "{\"messages\": [" USER "], \"system\": [\"s\"]}", "!\"system\" is not text" },
        { "{\"messages\": [" ANSWER "], \"weight\": 0.5}", "!a row with a \"weight\" other than 1" },
        { "{\"messages\": [" ANSWER "], \"loss_weight\": 2}", "!a \"loss_weight\" other than 1" },
        { "{\"messages\": [" ANSWER "], \"train\": false}", "!a \"train\" other than 1 or true" },
        { "{\"messages\": [" ANSWER "], \"loss\": 0}", "!a \"loss\" other than 1" },
        { "{\"messages\": [" ANSWER "], \"training\": false}", "!a \"training\" other than 1" },
        { "{\"messages\": [" ANSWER "], \"learn\": false}", "!a \"learn\" other than 1" },
        { "{\"messages\": [" ANSWER "], \"trainable\": 0}", "!a \"trainable\" other than 1" },
        { "{\"messages\": [" ANSWER "], \"weight\": \"0\"}", "!a \"weight\" other than 1" },
        { "{\"messages\": [" ANSWER "], \"functions\": \"[{}]\"}", "!a conversation with \"functions\"" },
        { "{\"messages\": [" ANSWER "], \"mask\": \"User\"}", "!with a \"mask\"" },
        { "{\"messages\": [" ANSWER "], \"functions\": [{\"name\": \"f\"}]}", "!a conversation with \"functions\"" },
        { "{\"messages\": [" ANSWER "], \"weight\": 1, \"loss\": 0.5, \"functions\": [], \"function_call\": null}",
          "[\"chat\",{\"messages\":[" ANSWER "]}]" },
        { "{\"messages\": [" USER "], \"chat_template_kwargs\": {\"x\": 1}}",
          "[\"chat\",{\"messages\":[" USER "],\"chat_template_kwargs\":{\"x\":1}}]" },
        { "{\"prompt\": null, \"completion\": \"b\"}", "!\"prompt\" is null" },
        { "{\"prompt\": \"a\", \"completion\": null}", "!\"completion\" is null" },
        { "{\"text\": null}", "!\"text\" is null" },
        { "{\"messages\": [{\"role\": \"user\", \"weight\": 1}]}",
          "[\"chat\",{\"messages\":[{\"role\":\"user\",\"weight\":1}]}]" },
        { "{\"instruction\": 1, \"output\": \"b\"}", "!must be texts" },
        { "{\"instruction\": \"a\", \"output\": \"b\", \"history\": [[\"c\", \"d\"]]}", "!with a \"history\"" },
        { "{\"prompt\": \"a\", \"answer\": \"b\"}", "!its keys: \"prompt\", \"answer\"" },
        { "{}", "!its keys: none" },
        { "[]", "!not a JSON object" },
    };
    CHECK(examples, &no_columns, "text", true);
}
END_TEST

START_TEST(texts_come_first_without_a_template)
{
    static const example examples[] = {
        { "{\"body\": \"t\", \"messages\": [" USER "], \"prompt\": \"a\", \"completion\": \"b\"}", "[\"text\",\"t\"]" },
        { "{\"prompt\": \"a\", \"completion\": \"b\"}", "[\"pair\",\"a\",\"b\"]" },
        { "{\"prompt\": [" USER "], \"completion\": [" ANSWER "]}", "!need \"template\"" },
        { "{\"input_ids\": [5, 6, 7], \"labels\": [-100, 6, 7], \"attention_mask\": [1, 1, 0]}",
          "[\"tokens\",[5,6,7],[-100,6,7],[1,1,0]]" },
        { "{\"input_ids\": [5, 6], \"completion_mask\": [0, 1], \"assistant_masks\": [1, 1]}",
          "[\"tokens\",[5,6],[0,1],[1,1]]" },
        { "{\"input_ids\": [5, 6], \"completion_mask\": [1]}", "!\"completion_mask\" is not a list of 2 numbers" },
        { "{\"input_ids\": [5, 6], \"labels\": [5]}", "!\"labels\" is not a list of 2 numbers" },
        { "{\"input_ids\": [5, \"6\"]}", "!an element that is not an integer, at 1" },
        { "{\"input_ids\": 5}", "!\"input_ids\" is not a list" },
        { "{\"input_ids\": [5, 6], \"mask\": [0, 1]}", "!a row with a \"mask\"" },
        { "{\"input_ids\": [5, 6], \"train\": 0}", "!a row with a \"train\" other than 1" },
        { "{\"prompt\": \"a\", \"completion\": \"b\", \"weight\": 0.5}", "!a row with a \"weight\" other than 1" },
        { "{\"prompt\": \"a\", \"completion\": \"b\", \"weight\": 1}", "[\"pair\",\"a\",\"b\"]" },
        { "{\"body\": 5}", "!the value of \"body\" is not text" },
        { "{\"messages\": [" USER "]}", "!a conversation, but no chat template is set:" },
        { "{\"instruction\": \"a\", \"output\": \"b\"}", "!a conversation, but no chat template is set:" },
        { "{\"instruction\": \"a\"}", "!there is no key \"body\"" },
    };
    CHECK(examples, &no_columns, "body", false);
}
END_TEST

START_TEST(columns_have_other_names)
{
    static const example examples[] = {
        { "{\"question\": \"a\", \"answer\": \"b\", \"text\": \"t\", \"messages\": []}",
          "[\"chat\",{\"messages\":[" USER "," ANSWER "]}]" },
        { "{\"question\": \"a\", \"completion\": \"b\"}", "!there is no key \"text\"" },
        { "{\"prompt\": \"a\", \"completion\": \"b\"}", "[\"chat\",{\"messages\":[" USER "," ANSWER "]}]" },
        { "{\"text\": \"t\"}", "[\"text\",\"t\"]" },
        { "{\"question\": \"a\", \"answer\": \"b\", \"system_prompt\": \"s\"}",
          "[\"chat\",{\"messages\":[" SYSTEM "," USER "," ANSWER "]}]" },
        { "{\"messages\": [" USER "], \"system_prompt\": \"s\"}", "[\"chat\",{\"messages\":[" SYSTEM "," USER "]}]" },
        { "{\"messages\": [" USER "], \"system\": \"s\"}", "[\"chat\",{\"messages\":[" SYSTEM "," USER "]}]" },
        { "{\"question\": \"a\", \"answer\": \"b\", \"tools\": [1]}",
          "[\"chat\",{\"messages\":[" USER "," ANSWER "],\"tools\":[1]}]" },
    };
    ce_shape_columns columns = { 0 };
    const char *names[CE_SHAPE_NAMES];
    ck_assert_int_eq(ce_shape_column(&columns, "prompt", "question"), CS_OK);
    ck_assert_int_eq(ce_shape_column(&columns, "completion", "answer"), CS_OK);
    ck_assert_int_eq(ce_shape_column(&columns, "system", "system_prompt"), CS_OK);
    CHECK(examples, &columns, "text", true);
    ck_assert_int_eq(ce_shape_column(&columns, "prompt", "other"), CS_BAD_CONFIG);
    ck_assert_int_eq(ce_shape_column(&columns, "text", "other"), CS_BAD_CONFIG);
    ck_assert_msg(strstr(cs_error(), "\"field\" names the column of a text"), "%s", cs_error());

    int known = 0;
    ce_shape_names(names, &columns, "body");
    ck_assert_str_eq(names[0], "body");
    for (int i = 0; names[i]; i++)
        known +=
            strcmp(names[i], "answer") == 0 || strcmp(names[i], "messages") == 0 || strcmp(names[i], "history") == 0;
    /* the names also contain "history", so that ce_shape_read sees this column and can refuse rows with a history */
    ck_assert_int_eq(known, 3);
}
END_TEST

SUITE_MAIN("shape", conversations_are_recognised, texts_come_first_without_a_template, columns_have_other_names)
