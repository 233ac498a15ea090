/* templates.h - the built-in chat templates, as rows of a table: BUILT_IN(name, source).
 *
 * The templates support the roles "system", "user" and "assistant", and only plain text as the content of a message.
 * chat.c refuses all other roles and contents. tests/peers/chat_same.py has the same templates in Python. */

/* Writes one block for each message. If the conversation has no system message, a default one is written first. */
#define CHATML(name, begin, system)                                                                                    \
    BUILT_IN(name, begin "{% if " system " and messages[0].role != 'system' %}"                                        \
                         "{{ '<|im_start|>system\\n' + " system " + '<|im_end|>\\n' }}{% endif %}"                     \
                         "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}"                                \
                         "{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}"                \
                         "{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}"           \
                         "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")

/* If the first message is a system message, the text `lead` is written before its content. If the first message has
 * another role and `always` is true, `lead` is written as a system message of its own. */
#define LLAMA3(name, always, lead)                                                                                     \
    BUILT_IN(name,                                                                                                     \
             "{% macro open(role) %}{{ '<|start_header_id|>' + role + '<|end_header_id|>\\n\\n' }}{% endmacro %}"      \
             "{{ bos_token }}{% if " always " and messages[0].role != 'system' %}"                                     \
             "{{ open('system') + " lead " + '<|eot_id|>' }}{% endif %}"                                               \
             "{% for m in messages %}{{ open(m.role) }}"                                                               \
             "{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim + '<|eot_id|>' }}"                     \
             "{% endgeneration %}{% else %}"                                                                           \
             "{{ " lead " if loop.first and m.role == 'system' }}{{ m.content | trim + '<|eot_id|>' }}"                \
             "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ open('assistant') }}{% endif %}")

/* Writes the content of each system message into the user message that follows it. A system message without a following
 * user message is refused. */
#define SYSTEM_IN_USER(open, close, content, user, assistant)                                                           \
    "{% set ns = namespace(system=none) %}{% for m in messages %}{% if m.role == 'system' %}"                           \
    "{% if ns.system is not none %}{{ raise_exception('two system messages and no user\\'s between them; this template" \
    " writes one, into the user\\'s') }}{% endif %}{% set ns.system = " content " %}{% elif m.role == 'user' %}"        \
    "{{ " user "[0] + (" open " + ns.system + " close " if ns.system is not none else '') + " content " + " user        \
    "[1] }}{% set ns.system = none %}{% else %}{% generation %}" assistant                                              \
    "{% endgeneration %}{% endif %}{% endfor %}"                                                                        \
    "{% if ns.system is not none %}{{ raise_exception('a system message and no user\\'s behind it, into which this "    \
    "template writes it') }}{% endif %}"

CHATML("chatml", "", "none")
CHATML("chatml-bos", "{{ bos_token }}", "none")
CHATML("qwen2", "", "'You are a helpful assistant.'")
CHATML("qwen2.5", "", "'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.'")
CHATML("smollm2", "", "'You are a helpful AI assistant named SmolLM, trained by Hugging Face'")
LLAMA3("llama3", "false", "''")
LLAMA3("llama3.1", "true", "'Cutting Knowledge Date: December 2023\\nToday Date: 26 Jul 2024\\n\\n'")
BUILT_IN("llama2", SYSTEM_IN_USER("'<<SYS>>\\n'", "'\\n<</SYS>>\\n\\n'", "m.content | trim",
                                  "[(bos_token | string) + '[INST] ', ' [/INST]']",
                                  "{{ ' ' + m.content | trim + ' ' + eos_token }}"))
BUILT_IN("mistral", "{{ bos_token }}" SYSTEM_IN_USER("''", "'\\n\\n'", "m.content", "['[INST]', '[/INST]']",
                                                     "{{ m.content + eos_token }}"))
BUILT_IN("mistral-v7", "{{ bos_token }}{% for m in messages %}{% if m.role == 'system' %}"
                       "{{ '[SYSTEM_PROMPT]' + m.content + '[/SYSTEM_PROMPT]' }}{% elif m.role == 'user' %}"
                       "{{ '[INST]' + m.content + '[/INST]' }}{% else %}{% generation %}{{ m.content + eos_token }}"
                       "{% endgeneration %}{% endif %}{% endfor %}")
BUILT_IN("zephyr", "{% for m in messages %}{{ '<|' + m.role + '|>\\n' }}{% if m.role == 'assistant' %}"
                   "{% generation %}{{ m.content + eos_token }}{% endgeneration %}{% else %}"
                   "{{ m.content + eos_token }}{% endif %}{{ '\\n' }}{% endfor %}"
                   "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}")
BUILT_IN("plain", "{% for m in messages %}{{ m.role | capitalize + ':' }}{% if m.role == 'assistant' %}"
                  "{% generation %}{{ ' ' + m.content | trim + '\\n\\n' }}{% endgeneration %}{{ eos_token }}"
                  "{% else %}{{ ' ' + m.content | trim + '\\n\\n' }}{% endif %}{% endfor %}"
                  "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}")

#undef CHATML
#undef LLAMA3
#undef SYSTEM_IN_USER
