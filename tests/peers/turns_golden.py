"""turns_golden.py [--write] - what transformers makes of conversations by a template that writes earlier messages differently.

    python tests/peers/turns_golden.py            holds tests/golden/turns.golden to what comes now
    python tests/peers/turns_golden.py --write    writes it

HISTORY behaves as Qwen3's template: it drops the thoughts of answers before the last question, writes results of tools into one
message of the user, and lists tools in the system message. turns.golden has, for each row and value of cspeed.data.turns, the
samples, each with a line feed behind it and its answers between the marks « and », or ! and a part of the error where the template
writes the messages before an answer differently when it follows; test_messages compares them. Needs transformers.
"""
import json
import os
import sys

from transformers.utils.chat_template_utils import _normalize_chat_messages, render_jinja_template

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden/turns.golden")

HISTORY = """\
{%- if tools %}
<|system|>
{{ messages[0].content + '\\n\\n' if messages[0].role == 'system' }}tools:
{%- for tool in tools %}
{{ '\\n' + (tool | tojson) }}
{%- endfor %}
<|end|>
{% elif messages[0].role == 'system' %}
{{- '<|system|>\\n' + messages[0].content + '<|end|>\\n' }}
{%- endif %}
{%- set ns = namespace(open=true, last=messages | length - 1) %}
{%- for m in messages[::-1] %}
    {%- set index = messages | length - 1 - loop.index0 %}
    {%- if ns.open and m.role == 'user' and m.content is string and not m.content.startswith('<result>') %}
        {%- set ns.open = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for m in messages %}
    {%- set content = m.content if m.content is string else '' %}
    {%- if m.role == 'user' or (m.role == 'system' and not loop.first) %}
        {{- '<|' + m.role + '|>\\n' + content + '<|end|>\\n' }}
    {%- elif m.role == 'assistant' %}
        {%- set thought = '' %}
        {%- if m.reasoning_content is string %}
            {%- set thought = m.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|assistant|>\\n' }}
        {%- if loop.index0 > ns.last and (loop.last or thought) %}
            {{- '<think>\\n' + thought.strip('\\n') + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- content }}
        {%- for call in m.tool_calls or [] %}
            {%- set call = call.function or call %}
            {{- ('\\n' if content or not loop.first else '') + '<call>' + call.name + ' ' }}
            {{- call.arguments if call.arguments is string else call.arguments | tojson }}
            {{- '</call>' }}
        {%- endfor %}
        {{- '<|end|>\\n' }}
    {%- elif m.role == 'tool' %}
        {{- '<|user|>' if loop.first or messages[loop.index0 - 1].role != 'tool' }}
        {{- '\\n<result>' + content + '</result>' }}
        {{- '<|end|>\\n' if loop.last or messages[loop.index0 + 1].role != 'tool' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>\\n' }}
    {{- '<think>\\n\\n</think>\\n\\n' if enable_thinking is defined and enable_thinking is false }}
{%- endif %}
"""


def say(role, content, **more):
    return {"role": role, "content": content, **more}


def user(content):
    return say("user", content)


def answer(content, **more):
    return say("assistant", content, **more)


def call(arguments):
    return {"type": "function", "function": {"name": "add", "arguments": arguments}}


TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "required": ["a"]}}}]
USES = [user("1 + 2?"), answer("<think>\nadd them\n</think>\n\nI add.", tool_calls=[call({"a": 1, "b": 2})]), say("tool", "3"),
        answer("It is 3.")]
ROWS = [
    {"messages": [user("q"), answer("a")]},
    {"messages": [say("system", "be kind"), user("q"), answer("<think>\nwhy\n</think>\n\na")]},
    {"messages": [user("p"), answer("a"), user("q"), answer("b")]},
    {"messages": [user("p"), answer("<think>\none\n</think>\n\na"), user("q"), answer("<think>\ntwo\n</think>\n\nb")]},
    {"messages": [user("p"), answer("a", reasoning="one"), user("q"), answer("b", thinking="two"), user("r"), answer("c")]},
    {"messages": [user("p"), answer("a"), answer("b")]},
    {"messages": [user("q"), answer("a"), user("and?")]},
    {"messages": USES, "tools": TOOLS},
    {"messages": USES + [user("thanks"), answer("<think>\npolite\n</think>\n\nWith pleasure.")], "tools": TOOLS},
    {"messages": [user("two"), answer(None, tool_calls=[call('{"a": 1}'), call({"a": "é"})]), say("tool", "1"), say("tool", "é"),
                  answer("both")]},
    {"messages": [say("system", "s"), say("system", "t"), user("日本\n"), answer(" 語 😀")]},
    {"messages": [user("q"), answer("a")], "chat_template_kwargs": {"enable_thinking": True}},
]


def render(row, count, asks=False):
    messages = _normalize_chat_messages(row["messages"][:count])
    return render_jinja_template([messages], tools=row.get("tools"), chat_template=HISTORY, add_generation_prompt=asks,
                                 **row.get("chat_template_kwargs", {}))[0][0]


def show(text, spans):
    """A sample with its answers between marks."""
    for begin, end in reversed(spans):
        text = text[:begin] + "«" + text[begin:end] + "»" + text[end:]
    return text + "\n"


def samples(row):
    places = [i for i, message in enumerate(row["messages"]) if message["role"] == "assistant"]
    asked = [render(row, i, asks=True) for i in places]
    until = [render(row, i + 1) for i in places]
    lost = [i + 1 for i, prompt, text in zip(places, asked, until) if not text.startswith(prompt)]
    if lost:
        return {"row": row, **dict.fromkeys(("auto", "all", "last"), f"!to train on message {lost[0]} with this template")}
    spans = [(len(prompt), len(text.rstrip())) for prompt, text in zip(asked, until)]
    spans = [(a - len(text[:a]) + len(text[:a].rstrip(" ")), b) for (a, b), text in zip(spans, until)]
    each = [show(text, [span]) for text, span in zip(until, spans)]
    whole = render(row, len(row["messages"]))
    one = all(whole.startswith(text) for text in until)
    return {"row": row, "auto": show(whole, spans) if one else "".join(each), "all": "".join(each), "last": each[-1]}


def main():
    made = {"template": HISTORY, "rows": [samples(row) for row in ROWS]}
    if "--write" in sys.argv:
        with open(GOLDEN, "w", encoding="utf-8") as file:
            json.dump(made, file, ensure_ascii=False, indent=1)
            file.write("\n")
    with open(GOLDEN, encoding="utf-8") as file:
        same = json.load(file) == made
    print("the same" if same else "turns.golden is not what transformers makes now")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
