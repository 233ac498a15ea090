"""chat_same.py [--write] - the texts of the built-in chat templates (engine/chat/templates.h), written a second time in Python.

    python tests/peers/chat_same.py            holds tests/golden/chat.golden to what comes now
    python tests/peers/chat_same.py --write    writes it

SHAPES say what each built-in template writes; test_chat holds the templates to the texts of SHAPES for every conversation below,
which chat.golden has. What Llama 2's and Mistral's own templates write is compared with SHAPES too, by Jinja2 in the environment
of transformers' apply_chat_template. Needs jinja2.
"""
import datetime
import json
import os
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "../golden/chat.golden")

# ---- the shapes, as engine/chat/templates.h has them ----


def chatml(begin="", system=None):
    return {"begin": begin, "system": system,
            "frames": {role: (f"<|im_start|>{role}\n", "<|im_end|>", "\n") for role in ("system", "user", "assistant")}}


def llama3(system=None, lead=""):
    return {"begin": "{bos}", "system": system, "lead": lead, "trims": True,
            "frames": {role: (f"<|start_header_id|>{role}<|end_header_id|>\n\n", "<|eot_id|>", "")
                       for role in ("system", "user", "assistant")}}


def other(system, user, assistant, **rest):
    return {"begin": "", "system": None, "frames": {"system": system, "user": user, "assistant": assistant}, **rest}


SHAPES = {
    "chatml": chatml(),
    "chatml-bos": chatml("{bos}"),
    "qwen2": chatml(system="You are a helpful assistant."),
    "qwen2.5": chatml(system="You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
    "smollm2": chatml(system="You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
    "llama3": llama3(),
    "llama3.1": llama3("", "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"),
    "llama2": other(("<<SYS>>\n", "\n<</SYS>>\n\n", ""), ("{bos}[INST] ", " [/INST]", ""), (" ", " {eos}", ""),
                    system_in_user=True, trims=True),
    "mistral": other(("", "\n\n", ""), ("[INST]", "[/INST]", ""), ("", "{eos}", ""), begin="{bos}", system_in_user=True),
    "mistral-v7": other(("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", ""), ("[INST]", "[/INST]", ""), ("", "{eos}", ""), begin="{bos}"),
    "zephyr": other(("<|system|>\n", "{eos}", "\n"), ("<|user|>\n", "{eos}", "\n"), ("<|assistant|>\n", "{eos}", "\n")),
    "plain": other(("System: ", "\n\n", ""), ("User: ", "\n\n", ""), ("Assistant: ", "\n\n", "{eos}"), trims=True),
}


def shape_text(shape, messages, prompt, tokens):
    """The text, or None where the shape refuses the conversation. A prompt ends before a space that begins an answer."""
    def fill(words):
        return words.replace("{bos}", tokens.get("bos_token", "")).replace("{eos}", tokens.get("eos_token", ""))

    def content(text):
        return text.strip() if shape.get("trims") else text
    if shape["system"] is not None and messages[0]["role"] != "system":
        messages = [say("system", shape["system"])] + messages
    text, waits = fill(shape["begin"]), None
    for index, message in enumerate(messages):
        role, said = message["role"], message["content"]
        if role == "system" and shape.get("system_in_user"):
            if waits is not None:
                return None
            waits = said
            continue
        before, behind, after = shape["frames"][role]
        text += fill(before)
        if role == "user" and waits is not None:
            text += fill(shape["frames"]["system"][0]) + content(waits) + fill(shape["frames"]["system"][1])
            waits = None
        text += (shape.get("lead", "") if index == 0 and role == "system" else "") + content(said) + fill(behind) + fill(after)
    return None if waits is not None else text + (fill(shape["frames"]["assistant"][0]).rstrip(" ") if prompt else "")


# ---- conversations ----

def say(role, content):
    return {"role": role, "content": content}


def talk(*words):
    """s..., u... and a...: what the system, the user and the assistant say."""
    return [say({"s": "system", "u": "user", "a": "assistant"}[word[0]], word[1:]) for word in words]


ODD = "  \n\t a\u00a0b \u200b\u3000\r\n\u2028\x1c\n"
ORDERLY = [
    talk("uHello, who are you?"), talk("u  spaces around,\n\nand two lines  "), talk("sYou answer briefly.", "u1 + 1?"),
    talk("uWie geht's?", "aGut, danke.", "u你好 👋"), talk("u" + ODD), talk("s" + ODD, "u" + ODD, "a" + ODD, "u" + ODD),
    talk("sBe kind.", "ua", "ab\n", "uc", "ad", "ue <s> f"), talk("uq", "aa"), talk("sx", "uq", "aa1", "uq2", "aa2"),
    talk("s", "ua", "ab"), talk("u", "a", "u"), talk("uq", "a<think>\nhm\n</think>\n\nyes", "uz", "a<think>\n\n</think>\n\nno"),
    talk("uq", "ahm\n</think>\n\nyes", "uz"), talk("u<tool_response>x</tool_response>", "ay", "uz"),
    talk("u[INST] <|im_start|> <|eot_id|>{{ x }}", "a{% y %}", "u/no_think"),
    talk(*[f"{'ua'[i % 2]}{i}" for i in range(13)]),
]
DISORDERLY = [
    talk("aa"), talk("ua", "ub", "ac"), talk("ua", "ab", "ac"), talk("ua", "ss", "ab"), talk("sa", "sb", "uc"), talk("sonly"),
    talk("ss", "aa", "uu"), talk("ua", "ab", "ss", "uc"), talk("ua", "ab", "uc", "ss"),
]

# ---- templates, as transformers runs them ----


class Generation(jinja2.ext.Extension):
    """{% generation %}: what stands within is an answer, and is written as it is."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller):
        return caller()


class Refusal(Exception):
    pass


def refuse(message):
    raise Refusal(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                       extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = refuse
    return env


ENVIRONMENT = environment()


def template_text(template, messages, prompt, tokens, year):
    """The text, or None where the template refuses the conversation."""
    ENVIRONMENT.globals["strftime_now"] = datetime.datetime(year, 3, 7, 14, 5, 9).strftime
    try:
        return template.render(messages=json.loads(json.dumps(messages)), tools=None, documents=None, add_generation_prompt=prompt,
                               **tokens)
    except Exception:
        return None


def settings_of(shape):
    """(tokens, year): a tokenizer that names no bos_token (eos_token) tells nothing of a shape that writes it."""
    written = json.dumps(shape)
    yield {"bos_token": "<s>", "eos_token": "</s>"}, 2025
    yield {"bos_token": "[B]", "eos_token": "[E]", "pad_token": "[P]", "unk_token": "[U]"}, 2031
    for word in ("bos", "eos"):
        if "{" + word + "}" not in written:
            yield {key: "[T]" for key in ("bos_token", "eos_token") if word not in key}, 2025


def is_shape(source, shape, conversations):
    try:
        template = ENVIRONMENT.from_string(source)
    except jinja2.TemplateSyntaxError:
        return False
    for tokens, year in settings_of(shape):
        for messages in conversations:
            for prompt in (False, True) if messages[-1]["role"] == "user" else (False,):
                wanted = shape_text(shape, messages, prompt, tokens)
                if wanted is None or template_text(template, messages, prompt, tokens, year) != wanted:
                    return False
    return True


# Templates of the project's own, for tests and as models have them; then what the shapes of Llama 2 and Mistral were made of.
CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
LLAMA3 = ("{% for m in messages %}{{ (bos_token + '' if loop.first else '') + '<|start_header_id|>' + m.role + "
          "'<|end_header_id|>\n\n' + (m.content | trim) + '<|eot_id|>' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")
OWN = {"chatml": CHATML, "llama3": LLAMA3}
LLAMA2 = ("{% if messages[0].role == 'system' %}{% set said = '<<SYS>>\n' + (messages[0].content | trim) + '\n<</SYS>>\n\n' %}"
          "{% set rest = messages[1:] %}{% else %}{% set said = '' %}{% set rest = messages %}{% endif %}"
          "{% for m in rest %}{% if m.role == 'user' %}{{ bos_token + '[INST] ' + (said if loop.first else '') + (m.content | trim) + "
          "' [/INST]' }}{% else %}{{ ' ' + (m.content | trim) + ' ' + eos_token }}{% endif %}{% endfor %}")
MISTRAL = ("{% if messages[0].role == 'system' %}{% set said = messages[0].content + '\n\n' %}{% set rest = messages[1:] %}"
           "{% else %}{% set said = '' %}{% set rest = messages %}{% endif %}{{ bos_token }}"
           "{% for m in rest %}{% if m.role == 'user' %}{{ '[INST]' + (said if loop.first else '') + m.content + '[/INST]' }}"
           "{% else %}{{ m.content + eos_token }}{% endif %}{% endfor %}")


# ---- the file ----

def golden():
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    talks = ORDERLY + DISORDERLY
    return {"templates": OWN, "conversations": talks, "shapes": [
        {"name": name, "texts": [shape_text(shape, messages, messages[-1]["role"] == "user", tokens) for messages in talks]}
        for name, shape in SHAPES.items()]}


def main():
    assert is_shape(LLAMA2, SHAPES["llama2"], ORDERLY) and is_shape(MISTRAL, SHAPES["mistral"], ORDERLY)
    made = golden()
    if "--write" in sys.argv:
        with open(GOLDEN, "w", encoding="utf-8") as file:
            json.dump(made, file, ensure_ascii=False, indent=0)
            file.write("\n")
        return 0
    with open(GOLDEN, encoding="utf-8") as file:
        same = json.load(file) == made
    print("the same" if same else "differs from tests/golden/chat.golden")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
