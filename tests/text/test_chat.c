/* test_chat.c - conversations are written exactly as the models' chat templates write them, and `generate --chat`
 * answers. */
#include "near.h"
#include "shell.h"
#include "suite.h"
#include "tokenizers.h"

#include "chat/chat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- compared with golden/chat.golden (tests/peers/chat_same.py) ---- */

/* Writes the GPT-2 tokenizer of golden/tokenizer.golden, with the special tokens of all templates added. */
static void write_tokenizer(void)
{
    static const char *const words[] = { "<|im_start|>",      "<|im_end|>", "<|start_header_id|>",
                                         "<|end_header_id|>", "<|eot_id|>", "[SYSTEM_PROMPT]",
                                         "[/SYSTEM_PROMPT]",  "<s>",        "</s>" };
    tokenizers_write("gpt2", "tokenizer.json");
    json_t *root = json_load_file("tokenizer.json", 0, NULL);
    for (int i = 0; i < (int)(sizeof words / sizeof *words); i++)
        json_array_append_new(json_object_get(root, "added_tokens"),
                              json_pack("{s:i, s:s, s:b}", "id", 5000 + i, "content", words[i], "special", 1));
    ck_assert_int_eq(json_dump_file(root, "tokenizer.json", 0), 0);
    json_decref(root);
}

static ce_tokenizer *open_tokenizer(const char *template, const char *begin)
{
    ce_tokenizer *tokenizer;
    json_t *config = json_pack("{s:s*, s:s, s:s*}", "bos_token", begin, "eos_token", "</s>", "chat_template", template);
    ck_assert_int_eq(json_dump_file(config, "tokenizer_config.json", 0), 0);
    json_decref(config);
    ck_assert_msg(ce_tokenizer_open(&tokenizer, ".") == CS_OK, "%s", cs_error());
    return tokenizer;
}

static bool says(const json_t *messages, size_t index, const char *role)
{
    return strcmp(json_string_value(json_object_get(json_array_get(messages, index), "role")), role) == 0;
}

/* Writes a conversation. A conversation that ends with a user message is written as a prompt for the answer. Any other
 * conversation is written as a training sample. */
static cs_status write_one(ce_chat *chat, json_t *messages, ce_chat_lines *lines)
{
    json_t *document = json_pack("{s:O}", "messages", messages);
    bool prompt = says(messages, json_array_size(messages) - 1, "user");
    cs_status status =
        prompt ? ce_chat_prompt(chat, document, &lines->text) : ce_chat_write(chat, document, CE_TURNS_AUTO, lines);
    json_decref(document);
    return status;
}

/* Compares the text of each conversation with the text of the template. Checks that the shape refuses a conversation
 * that it cannot express, and a conversation that has neither an answer nor a question. */
static void check_shape(const json_t *shape_texts, const json_t *conversations, const ce_tokenizer *tokenizer)
{
    const char *name = json_string_value(json_object_get(shape_texts, "name"));
    ce_chat *chat;
    ce_chat_lines lines = { 0 };
    size_t index;
    json_t *messages;
    ck_assert_msg(ce_chat_open(&chat, name, tokenizer) == CS_OK, "%s", cs_error());
    json_array_foreach (conversations, index, messages) {
        const char *wanted = json_string_value(json_array_get(json_object_get(shape_texts, "texts"), index));
        bool silent = json_array_size(messages) == 1 && says(messages, 0, "system");
        cs_status status = write_one(chat, messages, &lines);
        ck_assert_msg(status == (silent   ? CS_NOT_FOUND
                                 : wanted ? CS_OK
                                          : CS_BAD_FILE),
                      "%s, conversation %zu: status %d", name, index, status);
        ck_assert_msg(status != CS_OK ||
                          (strlen(wanted) == lines.text.size && memcmp(wanted, lines.text.bytes, lines.text.size) == 0),
                      "%s, conversation %zu is written as\n%.*s\nand should be\n%s", name, index, (int)lines.text.size,
                      lines.text.bytes, wanted);
    }
    ce_chat_lines_free(&lines);
    ce_chat_close(chat);
}

START_TEST(shapes_write_what_templates_write)
{
    size_t index;
    json_t *all = tokenizers_chats(), *shape;
    shell_enter();
    write_tokenizer();
    ce_tokenizer *tokenizer = open_tokenizer(NULL, "<s>");
    json_array_foreach (json_object_get(all, "shapes"), index, shape)
        check_shape(shape, json_object_get(all, "conversations"), tokenizer);
    ck_assert_uint_eq(index, 12);
    ce_tokenizer_close(tokenizer);
    json_decref(all);
    shell_leave();
}
END_TEST

/* Writes a conversation with the tokenizer's own template. */
static cs_status write_auto(const char *template, const char *conversation, bool prompt, ce_chat_lines *lines)
{
    ce_chat *chat = NULL;
    ce_tokenizer *tokenizer = open_tokenizer(template, "<s>");
    json_t *document = json_loads(conversation, 0, NULL);
    ck_assert_ptr_nonnull(document);
    cs_status status = ce_chat_open(&chat, "auto", tokenizer);
    if (status == CS_OK)
        status =
            prompt ? ce_chat_prompt(chat, document, &lines->text) : ce_chat_write(chat, document, CE_TURNS_AUTO, lines);
    ce_chat_close(chat);
    json_decref(document);
    ce_tokenizer_close(tokenizer);
    return status;
}

static const char two_turns[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"q1\"}, {\"role\": \"assistant\", "
                                "\"content\": \"a1\"}, {\"from\": \"human\", \"value\": \"q2\"}, {\"from\": \"gpt\", "
                                "\"value\": \"a2\"}], \"tools\": [{\"name\": \"add\", \"most\": 3}]}";

static void check_answers(const ce_chat_lines *lines, const char *first, const char *second)
{
    const char *const wanted[] = { first, second };
    ck_assert_int_eq(lines->answers.count, 2);
    for (int i = 0; i < 2; i++) {
        const ce_chat_span *at = &lines->answers.list[i];
        ck_assert_msg((size_t)(at->to - at->from) == strlen(wanted[i]) &&
                          memcmp(lines->text.bytes + at->from, wanted[i], strlen(wanted[i])) == 0,
                      "answer %d is \"%.*s\"", i, (int)(at->to - at->from), lines->text.bytes + at->from);
    }
}

/* In a template without {% generation %} blocks, an answer begins after the prompt that add_generation_prompt writes.
 * The end token after the answer belongs to the answer; white space after the end token does not. */
START_TEST(answers_of_the_tokenizers_template_are_found)
{
    ce_chat_lines lines = { 0 };
    const char *plain =
        "{{ bos_token }}{{ tools | tojson }}{% for m in messages %}[{{ m.role }}]\n{{ m.content }}</s>\n"
        "{% endfor %}{% if add_generation_prompt %}[assistant]\n{% endif %}";
    const char *marked = "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}<{{ m.content }}>"
                         "{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
    shell_enter();
    write_tokenizer();
    ck_assert_msg(write_auto(plain, two_turns, false, &lines) == CS_OK, "%s", cs_error());
    ck_assert_int_eq(strncmp(lines.text.bytes, "<s>[{\"name\": \"add\", \"most\": 3}][user]\nq1</s>\n", 44), 0);
    check_answers(&lines, "a1</s>", "a2</s>");
    ck_assert_msg(write_auto(marked, two_turns, false, &lines) == CS_OK, "%s", cs_error());
    check_answers(&lines, "<a1>", "<a2>");
    ck_assert_msg(write_auto("{% for m in messages %}{{ m.content }}: {% endfor %}",
                             "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}]}", true, &lines) == CS_OK,
                  "%s", cs_error());
    ck_assert_int_eq(strncmp(lines.text.bytes, "q:", lines.text.size), 0);
    ce_chat_lines_free(&lines);
    shell_leave();
}
END_TEST

/* As in transformers, the template "tool_use" writes conversations with tools. */
START_TEST(the_template_of_a_row_is_the_one_of_transformers)
{
    ce_chat_lines lines = { 0 };
    static const char said[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}]%s}";
    char with[200], without[200];
    const char *bare = strchr(said, '%');
    snprintf(with, sizeof with, "%.*s, \"tools\": [{\"a\": 1}]}", (int)(bare - said), said);
    snprintf(without, sizeof without, "%.*s}", (int)(bare - said), said);
    shell_enter();
    write_tokenizer();
    ck_assert_int_eq(shell_run("mkdir additional_chat_templates"), 0);
    shell_write("additional_chat_templates/tool_use.jinja", "tools: {{ messages[0].content }}");
    shell_write("chat_template.jinja", "plain: {{ messages[0].content }}");
    ck_assert_msg(write_auto("config", with, true, &lines) == CS_OK, "%s", cs_error());
    ck_assert_int_eq(strncmp(lines.text.bytes, "tools: q", lines.text.size), 0);
    ck_assert_msg(write_auto("config", without, true, &lines) == CS_OK, "%s", cs_error());
    ck_assert_int_eq(strncmp(lines.text.bytes, "plain: q", lines.text.size), 0);
    ck_assert_int_eq(shell_run("rm -r additional_chat_templates chat_template.jinja"), 0);
    shell_write("chat_template.json", "{\"chat_template\": \"processor: {{ messages[0].content }}\"}");
    ck_assert_msg(write_auto(NULL, with, true, &lines) == CS_OK, "%s", cs_error());
    ck_assert_int_eq(strncmp(lines.text.bytes, "processor: q", lines.text.size), 0);
    ck_assert_msg(write_auto("config", with, true, &lines) == CS_OK, "%s", cs_error());
    ck_assert_int_eq(strncmp(lines.text.bytes, "config", lines.text.size), 0);
    ce_chat_lines_free(&lines);
    shell_leave();
}
END_TEST

/* "auto:NAME" is apply_chat_template's chat_template=NAME. */
START_TEST(a_template_of_several_is_chosen_by_name)
{
    static const struct {
        const char *name, *wanted; /* the text, or '!' and a part of the error */
    } cases[] = {
        { "auto", "T:q" },
        { "auto:default", "D:q" },
        { "auto:rag", "R:q7" },
        { "auto:tool_use", "T:q" },
        { "auto:web", "!\"auto:web\": the tokenizer has no chat_template of this name, neither in "
                      "tokenizer_config.json nor in chat_template.jinja (it has \"default\", \"tool_use\", \"rag\", "
                      "which \"auto:NAME\" chooses)" },
    };
    static const char said[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}], \"tools\": [{}], "
                               "\"documents\": [{\"id\": 7}]}";
    json_t *document = json_loads(said, 0, NULL);
    ce_tokenizer *tokenizer;
    ce_text text = { 0 };
    shell_enter();
    write_tokenizer();
    shell_write("tokenizer_config.json",
                "{\"chat_template\": [{\"name\": \"default\", \"template\": \"D:{{ messages[0].content }}\"}, "
                "{\"name\": \"tool_use\", \"template\": \"T:{{ messages[0].content }}\"}, {\"name\": \"rag\", "
                "\"template\": \"R:{{ messages[0].content }}{{ documents[0].id }}\"}]}");
    CS_MUST(ce_tokenizer_open(&tokenizer, "."));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ce_chat *chat;
        cs_status status = ce_chat_open(&chat, cases[i].name, tokenizer);
        if (status == CS_OK)
            status = ce_chat_prompt(chat, document, &text);
        if (*cases[i].wanted == '!')
            ck_assert_msg(status == CS_BAD_CONFIG && strstr(cs_error(), cases[i].wanted + 1), "%s", cs_error());
        else
            ck_assert_msg(status == CS_OK && text.size == strlen(cases[i].wanted) &&
                              memcmp(text.bytes, cases[i].wanted, text.size) == 0,
                          "%s: %.*s", cases[i].name, (int)text.size, text.bytes);
        ce_chat_close(chat);
    }
    ce_unicode_free(&text);
    ce_tokenizer_close(tokenizer);
    json_decref(document);
    shell_leave();
}
END_TEST

START_TEST(templates_that_cannot_be_followed_are_refused)
{
    ce_chat_lines lines = { 0 };
    shell_enter();
    write_tokenizer();
    ck_assert_int_eq(write_auto("a\n{% for m in", two_turns, false, &lines), CS_BAD_CONFIG);
    ck_assert_msg(strstr(cs_error(), "the tokenizer's chat_template, line 2: ") && strstr(cs_error(), "\"plain\""),
                  "%s", cs_error());
    ck_assert_int_eq(write_auto("{% include 'x' %}", two_turns, false, &lines), CS_BAD_CONFIG);
    ck_assert_ptr_nonnull(strstr(cs_error(), "line 1: not supported: the tag {% include %}"));
    ck_assert_int_eq(write_auto("{{ raise_exception('only one turn') }}", two_turns, false, &lines), CS_BAD_FILE);
    ck_assert_str_eq(cs_error(), "only one turn");
    ce_chat_lines_free(&lines);
    shell_leave();
}
END_TEST

/* ---- the program ---- */

static const char *const config =
    "{ \"train_batch_size\": 8, \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 1e-2 } },\n"
    "  \"cspeed\": { \"steps\": 60, \"seed\": 5, \"output\": \"out\",\n"
    "    \"data\": { \"train\": \"chats.jsonl\", \"template\": \"plain\", \"packing\": \"documents\",\n"
    "      \"seq_len\": 32 },\n"
    "    \"model\": { \"model_type\": \"llama\", \"num_hidden_layers\": 2, \"num_attention_heads\": 2,\n"
    "      \"hidden_size\": 32, \"intermediate_size\": 64, \"max_position_embeddings\": 96,\n"
    "      \"vocab_size\": 256 } } }\n";

static void prepare(void)
{
    shell_enter();
    setenv("OMP_NUM_THREADS", "1", 1);
    shell_write("config.json", config);
    FILE *file = fopen("chats.jsonl", "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 40; i++)
        fprintf(file,
                "{\"messages\": [{\"role\": \"user\", \"content\": \"%s\"}, {\"role\": \"assistant\", "
                "\"content\": \"%s\"}]}\n",
                i % 2 ? "ping" : "tick", i % 2 ? "pong" : "tock");
    ck_assert_int_eq(fclose(file), 0);
}

/* Trains a model with byte tokens until it knows two answers. */
static void train(const char *arguments)
{
    ck_assert_int_eq(shell_run("%s/train --config config.json --set cspeed.device=%s %s", CS_BIN, near_device(),
                               arguments),
                     0);
}

static void expect(int code, const char *words, const char *arguments)
{
    int got = shell_run("%s/generate %s --max_tokens 12 --temperature 0 2>err.txt", CS_BIN, arguments);
    char *text = shell_read(code ? "err.txt" : "out.txt", NULL);
    size_t length = strlen(words);
    bool same = code ? strstr(text, words) != NULL : strncmp(text, words, length) == 0 && !strcmp(text + length, "\n");
    ck_assert_msg(got == code && same, "%s: exit code %d, and it printed \"%s\"", arguments, got, text);
    free(text);
}

START_TEST(a_chat_is_answered)
{
    prepare();
    train("");
    expect(0, "pong", "out --chat --prompt ping");
    expect(0, "tock", "out --prompt '  tick ' --chat");
    shell_write("said.txt", "tick\n");
    expect(0, "tock", "out --chat < said.txt");
    shell_write("said.txt", "{\"messages\": [{\"role\": \"user\", \"content\": \"ping\"}]}\n");
    expect(0, "pong", "out --chat < said.txt");
    shell_write("said.txt", "{\"messages\": [{\"role\": \"assistant\", \"content\": \"tock\"}]}");
    expect(65, "ends with an answer", "out --chat < said.txt");
    shell_write("said.txt", "{\"messages\": 3}");
    expect(65, "\"messages\" is not a list of messages", "out --chat < said.txt");
    shell_write("said.txt", "{ is not a conversation");
    expect(65, "--chat: standard input", "out --chat < said.txt");
    shell_write("said.txt", "{\"tools\": [{}], \"messages\": [{\"role\": \"user\", \"content\": \"ping\"}]}\n");
    expect(78, "not supported: a conversation with \"tools\"", "out --chat < said.txt");
    static const char lines[] = "{\"prompt\":\"tick\",\"text\":\"tock\",\"tokens\":7,\"finish\":\"stop\"}\n"
                                "{\"prompt\":\"ping\",\"text\":\"pong\",\"tokens\":7,\"finish\":\"stop\"}";
    shell_write("said.jsonl", "{\"prompt\": \"tick\"}\n{\"prompt\": \"ping\"}\n");
    expect(0, lines, "out --chat --prompts said.jsonl");
    shell_write("said.jsonl", "{\"messages\": [{\"role\": \"user\", \"content\": \"tick\"}]}\n"
                              "{\"conversations\": [{\"from\": \"human\", \"value\": \"ping\"}], \"messages\": null}\n"
                              "{\"prompt\": [{\"role\": \"user\", \"content\": \"ping\"}], \"id\": 7}\n");
    expect(
        0,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"tick\"}],\"text\":\"tock\",\"tokens\":7,\"finish\":\"stop\"}\n"
        "{\"conversations\":[{\"from\":\"human\",\"value\":\"ping\"}],\"messages\":null,\"text\":\"pong\",\"tokens\":7,"
        "\"finish\":\"stop\"}\n"
        "{\"prompt\":[{\"role\":\"user\",\"content\":\"ping\"}],\"id\":7,\"text\":\"pong\",\"tokens\":7,"
        "\"finish\":\"stop\"}",
        "out --chat --prompts said.jsonl");
    expect(65, "said.jsonl:1: a line must be {\"prompt\": \"...\"} (with --chat also {\"messages\": [...]})",
           "out --prompts said.jsonl");
    shell_write("said.jsonl", "\n{\"messages\": [{\"role\": \"assistant\", \"content\": \"tock\"}]}\n");
    expect(65, "said.jsonl:2: the conversation ends with an answer", "out --chat --prompts said.jsonl");
    shell_write("said.jsonl", "{\"prompt\": \"tick\", \"messages\": [{\"role\": \"user\", \"content\": \"ping\"}]}\n");
    expect(65, "said.jsonl:1: the row has \"prompt\" and a conversation", "out --chat --prompts said.jsonl");
    /* The answer repeats the keys of its row, and a double would change this number. */
    shell_write("said.jsonl", "{\"prompt\": \"tick\", \"id\": 18446744073709551617}\n");
    expect(65, "too big integer near '18446744073709551617'", "out --chat --prompts said.jsonl");
    shell_write("said.txt", "tick\nping\n");
    expect(0, lines, "out --chat --prompts said.txt");
    expect(78, "--chat: the template chatml writes <|im_start|>, for which this tokenizer has no token",
           "out --chat --prompt ping --set cspeed.data.template=chatml");
    expect(78, "the tokenizer has no chat_template, neither",
           "out --chat --prompt ping --set cspeed.data.template=auto");
    shell_leave();
}
END_TEST

static const char bracket_template[] =
    "{% for message in messages %}<{{ message.role[0] }}>{% if message.role == 'assistant' %}{% generation %}"
    "{{ message.content }}.{% endgeneration %}{% else %}{{ message.content }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}";

START_TEST(a_template_may_be_a_file)
{
    prepare();
    shell_write("bracket.jinja", bracket_template);
    train("--set cspeed.data.template=bracket.jinja --export exported");
    expect(0, "tock", "out --chat --prompt tick");
    char *text = shell_read("exported/chat_template.jinja", NULL);
    ck_assert_str_eq(text, bracket_template);
    free(text);
    shell_write("said.jsonl", "{\"prompt\": \"tick\", \"tools\": [{}]}\n");
    expect(0, "{\"prompt\":\"tick\",\"tools\":[{}],\"text\":\"tock\",\"tokens\":5,\"finish\":\"stop\"}",
           "out --chat --prompts said.jsonl");
    text = shell_read("err.txt", NULL);
    ck_assert_msg(strstr(text, "the chat template does not read \"tools\", which 1 conversation has"), "%s", text);
    free(text);
    shell_write("bracket.jinja", "{{ messages[0].content }}\n{% for %}");
    expect(78, "bracket.jinja: line 2: ", "out --chat --prompt tick");
    ck_assert_int_eq(unlink("bracket.jinja"), 0);
    expect(66, "bracket.jinja: no such file; cspeed.data.template names it", "out --chat --prompt tick");
    /* The checkpoint has the text of the template. */
    ck_assert_int_eq(shell_run("%s/cspeed export out other", CS_BIN), 0);
    expect(0, "tock", "other --chat --prompt tick");
    shell_leave();
}
END_TEST

/* ---- exported folders ---- */

/* Returns what the model answers, malloc'ed. */
static char *answer_of(const char *source, const char *mode)
{
    int code = shell_run("%s/generate %s --prompt 'Hello 1' --max_tokens 20 --temperature 0 %s 2>err.txt", CS_BIN,
                         source, mode);
    char *errors = shell_read("err.txt", NULL);
    ck_assert_msg(code == 0, "%s %s: %s", source, mode, errors);
    free(errors);
    return shell_read("out.txt", NULL);
}

/* What is trained, what `cspeed export` is told, and how `generate` opens the exported folder. */
static const struct {
    const char *train, *export, *folder;
} exports[] = { { "", "", "exported" },
                { "--set cspeed.lora.r=2", "", "base --adapter exported" },
                { "--set cspeed.lora.r=2", "--merge", "exported" } };

/* Checks that the run and the exported folder answer alike. If `ends` is true, every token ends an answer. */
static void check_export(const char *template, int kind, bool ends)
{
    ck_assert_int_eq(shell_run("rm -rf run exported"), 0);
    ck_assert_int_eq(shell_run("%s/train --config base.json --set cspeed.device=%s %s %s%s", CS_BIN, near_device(),
                               exports[kind].train, *template ? "--set cspeed.data.template=" : "--data plain.jsonl",
                               template),
                     0);
    ck_assert_int_eq(shell_run("%s/cspeed export run exported %s", CS_BIN, exports[kind].export), 0);
    for (int chat = 0; chat < (*template ? 2 : 1); chat++) {
        const char *mode = *template && !chat ? "--chat" : "";
        char *run = answer_of("run", mode), *folder = answer_of(exports[kind].folder, mode);
        ck_assert_msg(strcmp(run, folder) == 0, "%s %s%s: the run says %s, and the folder %s", template, mode,
                      exports[kind].train, run, folder);
        ck_assert_msg(!ends || strcmp(run, "\n") == 0, "%s %s: a token that ends an answer does not: %s", template,
                      mode, run);
        free(run);
        free(folder);
    }
}

/* Writes the generation_config.json of the base model that names every token as one that ends a text. */
static void write_ends(void)
{
    json_t *ids = json_array(), *root = json_pack("{s:o}", "eos_token_id", ids);
    for (int id = 0; id < 5016; id++)
        json_array_append_new(ids, json_integer(id));
    ck_assert_int_eq(json_dump_file(root, "base/generation_config.json", 0), 0);
    json_decref(root);
}

/* Reads the number of ids that generation_config.json names; the last one is *last. */
static size_t count_ends(json_int_t *last)
{
    json_t *root = json_load_file("exported/generation_config.json", 0, NULL);
    json_t *ends = json_object_get(root, "eos_token_id");
    size_t count = json_is_integer(ends) ? 1 : json_array_size(ends);
    *last = json_integer_value(json_is_integer(ends) ? ends : json_array_get(ends, count - 1));
    json_decref(root);
    return count;
}

START_TEST(an_exported_folder_answers_as_the_run)
{
    static const char *const templates[] = { "chatml", "chatml-bos", "qwen2",  "qwen2.5",   "smollm2",
                                             "llama3", "llama3.1",   "llama2", "mistral",   "mistral-v7",
                                             "zephyr", "plain",      "auto",   "own.jinja", "" };
    json_int_t end;
    prepare();
    ck_assert_int_eq(shell_run("mkdir -p base"), 0);
    write_tokenizer();
    ce_tokenizer_close(
        open_tokenizer("{% for m in messages %}{{ m.role + ': ' + m.content + '<|im_end|>' }}{% endfor %}"
                       "{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}",
                       "<s>"));
    shell_write("own.jinja", bracket_template);
    shell_write("plain.jsonl", "{\"text\": \"one two three four five six seven eight nine ten\"}\n"
                               "{\"text\": \"one two three four five six seven eight nine ten\"}\n");
    shell_write("base.json",
                "{ \"train_batch_size\": 4, \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 1e-2 } },\n"
                "  \"cspeed\": { \"steps\": 3, \"seed\": 5, \"output\": \"run\",\n"
                "    \"data\": { \"train\": \"chats.jsonl\", \"tokenizer\": \".\", \"seq_len\": 16 },\n"
                "    \"model\": { \"model_type\": \"llama\", \"num_hidden_layers\": 1, \"num_attention_heads\": 2,\n"
                "      \"hidden_size\": 16, \"intermediate_size\": 16, \"max_position_embeddings\": 256,\n"
                "      \"vocab_size\": 5016 } } }\n");
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        check_export(templates[i], 0, false);
        if (strcmp(templates[i], "chatml") == 0 || strcmp(templates[i], "auto") == 0) {
            ck_assert_uint_eq(count_ends(&end), 2); /* <|im_end|> and </s> */
            ck_assert_int_eq(end, 5008);
        }
    }
    /* A base model with a template and a generation_config.json of its own. */
    check_export("chatml", 0, false);
    ck_assert_int_eq(shell_run("rm -rf base && mv exported base"), 0);
    shell_write("base.json",
                "{ \"train_batch_size\": 4, \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 1e-2 } },\n"
                "  \"cspeed\": { \"steps\": 3, \"seed\": 5, \"output\": \"run\", \"model\": \"base\",\n"
                "    \"data\": { \"train\": \"chats.jsonl\", \"seq_len\": 16 } } }\n");
    static const char *const again[] = { "auto", "zephyr", "own.jinja", "" };
    for (size_t i = 0; i < sizeof again / sizeof *again; i++) {
        check_export(again[i], 0, false);
        ck_assert_uint_ge(count_ends(&end), 2);
    }
    for (int kind = 0; kind < 3; kind++)
        check_export(kind == 1 ? "own.jinja" : "auto", kind, false);
    write_ends();
    for (int kind = 0; kind < 3; kind++)
        check_export(kind ? "own.jinja" : "", kind, true);
    shell_leave();
}
END_TEST

SUITE_MAIN("chat", shapes_write_what_templates_write, answers_of_the_tokenizers_template_are_found,
           the_template_of_a_row_is_the_one_of_transformers, a_template_of_several_is_chosen_by_name,
           templates_that_cannot_be_followed_are_refused, a_chat_is_answered, a_template_may_be_a_file,
           an_exported_folder_answers_as_the_run)
