/* test_messages.c - what a message may be, what it may ask for, and which samples a conversation becomes. */
#include "chat/chat.h"
#include "shell.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

static ce_tokenizer *tokenizer;

static void enter(void)
{
    shell_enter();
    CS_MUST(ce_tokenizer_open(&tokenizer, NULL));
}

static void leave(void)
{
    ce_tokenizer_close(tokenizer);
    shell_leave();
}

/* Writes the samples of a conversation, each followed by a line feed, with every answer in the brackets « and ». */
static cs_status write(ce_text *shown, const char *template, const char *conversation, ce_chat_turns turns)
{
    ce_chat *chat;
    ce_chat_lines lines = { 0 };
    json_t *document = json_loads(conversation, 0, NULL);
    ck_assert_msg(document != NULL, "%s", conversation);
    bool built_in = strchr(template, '{') == NULL;
    if (!built_in)
        shell_write("t.jinja", template);
    CS_MUST(ce_chat_open(&chat, built_in ? template : "t.jinja", tokenizer));
    cs_status status = ce_chat_write(chat, document, turns, &lines);
    shown->size = 0;
    for (int64_t i = 0, answer = 0; i < lines.samples.count && status == CS_OK; i++) {
        for (int64_t at = lines.samples.list[i].from; at <= lines.samples.list[i].to; at++) {
            if (answer < lines.answers.count && lines.answers.list[answer].to == at) {
                ce_unicode_append(shown, "»", strlen("»"));
                answer++;
            }
            if (answer < lines.answers.count && lines.answers.list[answer].from == at)
                ce_unicode_append(shown, "«", strlen("«"));
            if (at < lines.samples.list[i].to)
                ce_unicode_append(shown, lines.text.bytes + at, 1);
        }
        ce_unicode_append(shown, "\n", 1);
    }
    ce_unicode_append(shown, "", 1);
    ce_chat_lines_free(&lines);
    ce_chat_close(chat);
    json_decref(document);
    return status;
}

typedef struct {
    const char *template, *conversation;
    const char *wanted; /* the samples as `write` shows them, or '!' and a part of the error */
} example;

static void check(const example *examples, size_t count, ce_chat_turns turns)
{
    ce_text shown = { 0 };
    for (size_t i = 0; i < count; i++) {
        const example *e = &examples[i];
        cs_status status = write(&shown, e->template, e->conversation, turns);
        if (*e->wanted == '!')
            ck_assert_msg(status != CS_OK && strstr(cs_error(), e->wanted + 1), "%s: %d, %s", e->conversation, status,
                          status == CS_OK ? shown.bytes : cs_error());
        else
            ck_assert_msg(status == CS_OK && strcmp(shown.bytes, e->wanted) == 0, "%s: %s", e->conversation,
                          status == CS_OK ? shown.bytes : cs_error());
    }
    ce_unicode_free(&shown);
}

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define ANSWER(members)                                                                                                \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", " members "}]}"
#define TEXT(text) "{\"type\": \"text\", \"text\": \"" text "\"}"

/* Writes every message as [ROLE:CONTENT] and the calls of tools. */
#define SIMPLE                                                                                                         \
    "{% for m in messages %}[{{ m.role[0] }}:{{ m.content }}{% if m.tool_calls is defined %}"                          \
    "{{ m.tool_calls | tojson }}{% endif %}]{% endfor %}{% if add_generation_prompt %}[a:{% endif %}"
/* Writes contents that are lists too, with a hyphen between the parts. */
#define PARTS                                                                                                          \
    "{% for m in messages %}[{{ m.role[0] }}:{% if m.content is string %}{{ m.content }}{% else %}"                    \
    "{{ m.content | map(attribute='text') | join('-') }}{% endif %}]{% endfor %}"                                      \
    "{% if add_generation_prompt %}[a:{% endif %}"

START_TEST(contents_are_texts)
{
    static const example examples[] = {
        { SIMPLE, ANSWER("\"content\": \"a\""), "[u:q][a:«a]»\n" },
        { SIMPLE, ANSWER("\"content\": [" TEXT("a ") ", " TEXT("b") "]"), "[u:q][a:«a b]»\n" },
        { PARTS, ANSWER("\"content\": [" TEXT("a") ", " TEXT("b") "]"), "[u:q][a:«a-b]»\n" },
        { "plain", ANSWER("\"content\": [" TEXT("a") ", " TEXT("b") "]"), "User: q\n\nAssistant:« ab\n\n»\n" },
        { SIMPLE, ANSWER("\"content\": null"), "!message 2 (assistant): its content is null or missing and must be" },
        { SIMPLE, ANSWER("\"name\": \"x\""), "!message 2 (assistant): its content is null or missing" },
        { SIMPLE, ANSWER("\"content\": 3.5"), "!message 2 (assistant): its content is a number" },
        { SIMPLE, ANSWER("\"content\": {\"text\": \"a\"}"), "!message 2 (assistant): its content is an object" },
        { SIMPLE, ANSWER("\"content\": true"), "!message 2 (assistant): its content is true or false" },
        { SIMPLE, ANSWER("\"content\": []"), "!its content is an empty list" },
        { SIMPLE, ANSWER("\"content\": [\"a\"]"),
          "!message 2 (assistant): part 1 of its content is a text; only parts" },
        { PARTS, ANSWER("\"content\": [" TEXT("a") ", {\"type\": \"image_url\", \"image_url\": {}}]"),
          "!message 2 (assistant): part 2 of its content is of type image_url; only parts" },
        { SIMPLE, ANSWER("\"content\": null, \"tool_calls\": [{\"id\": \"1\"}]"), "[u:q][a:«[{\"id\": \"1\"}]]»\n" },
        { SIMPLE, ANSWER("\"content\": \"a\", \"tool_calls\": null"), "[u:q][a:«a]»\n" },
        { SIMPLE, ANSWER("\"content\": null, \"tool_calls\": []"), "!its content is null or missing" },
        { "plain", ANSWER("\"content\": null"), "!message 2 (assistant): its content is null or missing" },
        { SIMPLE, "{\"messages\": [\"hello\"]}", "!message 1 is a text and must be an object" },
        { SIMPLE, "{\"messages\": [{\"content\": \"a\"}]}", "!message 1 has no \"role\"" },
        { SIMPLE,
          "{\"messages\": [{\"role\": \"human\", \"content\": \"q\"}, {\"role\": \"bot\", \"content\": \"a\"}]}",
          "!the roles here are \"human\", \"bot\"" },
        { "plain",
          "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"bot\", \"content\": \"a\"}]}",
          "!a message of role bot, because only system, user (human) and assistant (gpt) are supported; the roles "
          "here are \"user\", \"bot\"" },
    };
    enter();
    check(examples, COUNT(examples), CE_TURNS_AUTO);
    leave();
}
END_TEST

/* The names of the reasoning fill one another as in transformers 5.24. */
START_TEST(reasoning_is_read_by_any_of_its_names)
{
    static const char standard[] = "{% for m in messages %}<{{ m.reasoning_content }}>{{ m.content }}{% endfor %}";
    static const char older[] = "{% for m in messages %}<{{ m.thinking }}>{{ m.content }}{% endfor %}";
    static const example examples[] = {
        { standard, ANSWER("\"content\": \"a\", \"reasoning\": \"R\""), "<>q«<R>a»\n" },
        { standard, ANSWER("\"content\": \"a\", \"thinking\": \"T\""), "<>q«<T>a»\n" },
        { standard, ANSWER("\"content\": \"a\", \"thinking\": \"T\", \"reasoning\": \"R\""), "<>q«<T>a»\n" },
        { standard, ANSWER("\"content\": \"a\", \"reasoning_content\": null, \"reasoning\": \"R\""), "<>q«<R>a»\n" },
        { older, ANSWER("\"content\": \"a\", \"reasoning_content\": \"C\""), "<>q«<C>a»\n" },
        { older, ANSWER("\"content\": \"a\", \"thinking\": \"T\", \"reasoning_content\": \"C\""), "<>q«<T>a»\n" },
        { standard, ANSWER("\"content\": \"a\", \"thinking\": [\"T\"]"), "!its \"thinking\" is a list" },
        { "plain", ANSWER("\"content\": \"a\", \"reasoning\": \"R\""), "!a conversation with \"reasoning_content\"" },
    };
    enter();
    check(examples, COUNT(examples), CE_TURNS_AUTO);
    leave();
}
END_TEST

/* A conversation of two answers; FIRST and SECOND are further members of them. */
#define TWO(first, second)                                                                                             \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"p\"}, {\"role\": \"assistant\", \"content\": \"a\"" first     \
    "}, {\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"b\"" second "}]}"

#define CHAT                                                                                                           \
    ", \"messages\": [{\"role\": \"user\", \"content\": \"q\"}, {\"role\": \"assistant\", \"content\": \"a\"}]}"

START_TEST(rows_say_what_is_learnt)
{
    static const char marked[] = "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
                                 "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
    static const char tools[] = "{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% endfor %}";
    static const char variable[] = "{% if think %}T{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}";
    static const example examples[] = {
        { SIMPLE, TWO("", ""), "[u:p][a:«a]»[u:q][a:«b]»\n" },
        { SIMPLE, TWO(", \"loss\": false", ""), "[u:p][a:a][u:q][a:«b]»\n" },
        { SIMPLE, TWO(", \"train\": true", ", \"train\": false"), "[u:p][a:«a]»[u:q][a:b]\n" },
        { SIMPLE, TWO(", \"weight\": 0", ", \"weight\": 1"), "[u:p][a:a][u:q][a:«b]»\n" },
        { marked, TWO(", \"training\": false", ""), "paq«b»\n" },
        { marked, TWO("", ""), "p«a»q«b»\n" },
        { "plain", TWO(", \"loss\": false", ""), "User: p\n\nAssistant: a\n\nUser: q\n\nAssistant:« b\n\n»\n" },
        { SIMPLE, TWO(", \"loss\": false", ", \"weight\": 0.0"),
          "!counts in the loss: each is excluded, for example by \"train\": false" },
        { SIMPLE, TWO(", \"weight\": 0.5", ""), "!message 2 (assistant) has a \"weight\" that is not true, false," },
        { SIMPLE, TWO(", \"mask\": 1", ""), "!message 2 (assistant) has \"mask\", which has several meanings" },
        { SIMPLE, TWO(", \"function_call\": {\"name\": \"f\"}", ""), "!message 2 (assistant) has \"function_call\"" },
        { SIMPLE, "{\"messages\": [{\"role\": \"user\", \"content\": \"q\", \"train\": true}]}",
          "!message 1 (user) has \"train\", and only messages of the assistant can count in the loss" },
        { variable, "{\"chat_template_kwargs\": {\"think\": true}" CHAT, "Tq«a»\n" },
        { tools, "{\"tools\": [{\"a\": 1}]" CHAT, "[{\"a\": 1}]q«a»\n" },
        { tools, "{\"tools\": \"[{\\\"a\\\": 1}]\"" CHAT, "[{\"a\": 1}]q«a»\n" },
        { tools, "{\"tools\": \"\"" CHAT, "nullq«a»\n" },
        { tools, "{\"tools\": \"none\"" CHAT, "!\"tools\" must be a list, or a text" },
        { tools, "{\"tools\": {}" CHAT, "!\"tools\" must be a list, or a text" },
        { variable, "{\"chat_template_kwargs\": \"{\\\"think\\\": 1}\"" CHAT, "Tq«a»\n" },
        { variable, "{\"chat_template_kwargs\": []" CHAT, "!\"chat_template_kwargs\" must be an object" },
        { SIMPLE, "{\"chat_template_kwargs\": {\"messages\": []}, \"messages\": [{\"role\": \"user\"}]}",
          "!\"chat_template_kwargs\" has \"messages\"" },
        { "plain",
          "{\"chat_template_kwargs\": {\"think\": true}, \"messages\": [{\"role\": \"user\", \"content\": \"q\"}]}",
          "!a conversation with \"chat_template_kwargs\"" },
        { "plain", "{\"tools\": [{}]" CHAT, "!a conversation with \"tools\"" },
        { "plain", "{\"tools\": \"[]\"" CHAT, "User: q\n\nAssistant:« a\n\n»\n" },
        { tools, "{\"tools\": \"null\"" CHAT, "nullq«a»\n" },
        { tools, "{\"tools\": \"[]\"" CHAT, "[]q«a»\n" },
        { SIMPLE, TWO(", \"learn\": false", ", \"loss_weight\": 1"), "[u:p][a:a][u:q][a:«b]»\n" },
        { SIMPLE, TWO("", ", \"trainable\": 0"), "[u:p][a:«a]»[u:q][a:b]\n" },
        { SIMPLE, TWO(", \"train_detail\": [{}]", ""),
          "!message 2 (assistant) has \"train_detail\", with which axolotl" },
        { SIMPLE, TWO(", \"training_detail\": []", ""), "!message 2 (assistant) has \"training_detail\"" },
        { SIMPLE, TWO(", \"value\": \"other\"", ""),
          "!message 2 (assistant) has both \"value\" and \"content\", and they differ" },
        { SIMPLE, TWO(", \"value\": \"a\", \"from\": \"gpt\"", ""), "[u:p][a:«a]»[u:q][a:«b]»\n" },
        { SIMPLE, TWO(", \"from\": \"human\"", ""), "!has both \"from\" and \"role\", and they differ" },
        { SIMPLE, "{\"messages\": [{\"role\": \"user\", \"value\": \"q\"}, {\"from\": \"gpt\", \"content\": \"a\"}]}",
          "[u:q][a:«a]»\n" },
    };
    enter();
    check(examples, COUNT(examples), CE_TURNS_AUTO);
    leave();
}
END_TEST

/* As Qwen3's template does, writes a thought only into the last answer. */
#define REWRITING                                                                                                       \
    "{% for m in messages %}[{{ m.role[0] }}:{% if loop.last and m.role == 'assistant' %}<>{% endif %}{{ m.content }}]" \
    "{% endfor %}{% if add_generation_prompt %}[a:{% endif %}"

START_TEST(answers_become_samples)
{
    static const char changed[] = "{% for m in messages %}{{ messages | length if not add_generation_prompt }}"
                                  "{{ m.content }}{% endfor %}";
    static const example examples[] = {
        { REWRITING, TWO("", ""), "[u:p][a:«<>a]»\n[u:p][a:a][u:q][a:«<>b]»\n" },
        { REWRITING, TWO(", \"loss\": false", ""), "[u:p][a:a][u:q][a:«<>b]»\n" },
        { REWRITING, TWO("", ", \"loss\": false"), "[u:p][a:«<>a]»\n" },
        { changed, TWO("", ""), "!to train on message 2 with this template," },
    };
    static const example all[] = {
        { SIMPLE, TWO("", ""), "[u:p][a:«a]»\n[u:p][a:a][u:q][a:«b]»\n" },
    };
    static const example last[] = {
        { REWRITING, TWO("", ""), "[u:p][a:a][u:q][a:«<>b]»\n" },
        { SIMPLE, TWO("", ""), "[u:p][a:a][u:q][a:«b]»\n" },
        { SIMPLE, TWO("", ", \"loss\": false"), "[u:p][a:«a]»\n" },
    };
    enter();
    check(examples, COUNT(examples), CE_TURNS_AUTO);
    check(all, COUNT(all), CE_TURNS_ALL);
    check(last, COUNT(last), CE_TURNS_LAST);
    leave();
}
END_TEST

/* golden/turns.golden has what transformers makes of conversations (tests/peers/turns_golden.py). */
START_TEST(samples_are_those_of_transformers)
{
    static const char *const names[] = { [CE_TURNS_AUTO] = "auto", [CE_TURNS_ALL] = "all", [CE_TURNS_LAST] = "last" };
    json_t *golden = json_load_file(CS_TESTS "/golden/turns.golden", 0, NULL), *row;
    size_t index;
    ck_assert_ptr_nonnull(golden);
    enter();
    json_array_foreach (json_object_get(golden, "rows"), index, row) {
        char *conversation = json_dumps(json_object_get(row, "row"), 0);
        for (int turns = CE_TURNS_AUTO; turns <= CE_TURNS_LAST; turns++) {
            example one = { json_string_value(json_object_get(golden, "template")), conversation,
                            json_string_value(json_object_get(row, names[turns])) };
            check(&one, 1, (ce_chat_turns)turns);
        }
        free(conversation);
    }
    ck_assert_uint_eq(index, 12);
    leave();
    json_decref(golden);
}
END_TEST

SUITE_MAIN("messages", samples_are_those_of_transformers, contents_are_texts, reasoning_is_read_by_any_of_its_names,
           rows_say_what_is_learnt, answers_become_samples)
