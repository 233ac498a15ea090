"""chat_same.py [--write] - prompts of chats as transformers' apply_chat_template(add_generation_prompt=True) makes them.

    python tests/peers/chat_same.py            compares tests/golden/chat.golden, which test_chat reads, with what comes now
    python tests/peers/chat_same.py --write    writes it

The templates say in Jinja what the formats are; the tokenizer is golden/tokenizer.golden's of GPT-2, with their words."""
import json
import os
import sys

import tokenizers
import transformers

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "../golden/chat.golden")
WORDS = ["<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<s>", "</s>"]

CHATML = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>' + '\n' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
LLAMA3 = ("{{ bos_token }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + "
          "(m.content | trim) + '<|eot_id|>' }}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}")
LLAMA2 = ("{% if messages[0].role == 'system' %}{% set said = '<<SYS>>\n' + (messages[0].content | trim) + '\n<</SYS>>\n\n' %}"
          "{% set rest = messages[1:] %}{% else %}{% set said = '' %}{% set rest = messages %}{% endif %}"
          "{% for m in rest %}{% if m.role == 'user' %}{{ bos_token + '[INST] ' + (said if loop.first else '') + (m.content | trim) + "
          "' [/INST]' }}{% else %}{{ ' ' + (m.content | trim) + ' ' + eos_token }}{% endif %}{% endfor %}")
MISTRAL = ("{% if messages[0].role == 'system' %}{% set said = messages[0].content + '\n\n' %}{% set rest = messages[1:] %}"
           "{% else %}{% set said = '' %}{% set rest = messages %}{% endif %}{{ bos_token }}"
           "{% for m in rest %}{% if m.role == 'user' %}{{ '[INST]' + (said if loop.first else '') + m.content + '[/INST]' }}"
           "{% else %}{{ m.content + eos_token }}{% endif %}{% endfor %}")
TEMPLATES = {"chatml": CHATML, "llama3": LLAMA3, "llama2": LLAMA2, "mistral": MISTRAL}


def say(role, content):
    return {"role": role, "content": content}


CHATS = [
    [say("user", "Hello, who are you?")],
    [say("user", "  spaces around,\n\nand two lines  ")],
    [say("system", "You answer briefly."), say("user", "1 + 1?")],
    [say("user", "Wie geht's?"), say("assistant", "Gut, danke."), say("user", "你好 👋")],
    [say("system", "Be kind."), say("user", "a"), say("assistant", "b\n"), say("user", "c"), say("assistant", "d"), say("user", "e <s> f")],
]


def tokenizer_with(template):
    with open(os.path.join(HERE, "../golden/tokenizer.golden"), encoding="utf-8") as file:
        plain = next(entry["tokenizer"] for entry in json.load(file) if entry["name"] == "gpt2")
    inner = tokenizers.Tokenizer.from_str(json.dumps(plain))
    inner.add_special_tokens(WORDS)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>", chat_template=template)


def ids_of(tokenizer, messages):
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)


def main():
    made = {"words": [], "templates": []}
    for name, template in TEMPLATES.items():
        tokenizer = tokenizer_with(template)
        made["words"] = [{"content": word, "id": tokenizer.convert_tokens_to_ids(word)} for word in WORDS]
        made["templates"].append({"name": name, "chat_template": template, "cases": [
            {"messages": messages, "ids": ids_of(tokenizer, messages)} for messages in CHATS]})
    if "--write" in sys.argv:
        with open(GOLDEN, "w", encoding="utf-8") as file:
            json.dump(made, file, ensure_ascii=False, separators=(",", ":"))
            file.write("\n")
        return 0
    with open(GOLDEN, encoding="utf-8") as file:
        same = json.load(file) == made
    print("the same" if same else "differs from tests/golden/chat.golden")
    return 0 if same else 1


sys.exit(main())
