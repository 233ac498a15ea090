"""templates_same.py FOLDER [--program build/bin/jinja_lines] - compares renderings of published chat templates with transformers'.

FOLDER holds NAME.jinja files and expected.json: {"cases": {case: {"messages", "tools"}}, "templates": {NAME: {"tokens",
"results": {case: [text, text with add_generation_prompt]}, "assistant_spans": {case: [[from, to]]}}}}. The second text may be
{"append": TEXT} or {"same": true}; an error is {"error": class, "message"}. probes.json, if it is there, has {"vars", "probes":
[[source, text or error]]}. Errors are compared by whether there is one, and those of raise_exception by their message. The
renderings were made at 2025-03-07 14:05:09. Standard library only.
"""
import argparse
import calendar
import json
import os
import subprocess
import sys

NOW = calendar.timegm((2025, 3, 7, 14, 5, 9))


class Renderer:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8",
                                        env=dict(os.environ, TZ="UTC"))

    def __call__(self, source, variables):
        self.process.stdin.write(json.dumps({"source": source, "variables": variables, "now": NOW}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"the program ended at {source[:200]!r}")
        return json.loads(line)


def same(wanted, got):
    if isinstance(wanted, dict) and "error" in wanted:
        told = wanted["error"] == "TemplateError"
        return "error" in got and (not told or got["error"].replace("\n", " ") == wanted["message"])
    return isinstance(wanted, dict) or got.get("text") == wanted


def points(text, spans):
    """Spans of bytes as spans of code points."""
    data = text.encode()
    return [[len(data[:place].decode()) for place in span] for span in spans]


def templates(folder, render):
    with open(os.path.join(folder, "expected.json"), encoding="utf-8") as file:
        expected = json.load(file)
    for name, template in expected["templates"].items():
        with open(os.path.join(folder, name + ".jinja"), encoding="utf-8", newline="") as file:
            source = file.read()
        for case, (first, second) in template["results"].items():
            if isinstance(second, dict) and "append" in second:
                second = first + second["append"]
            elif isinstance(second, dict) and second.get("same"):
                second = first
            for prompt, wanted in ((False, first), (True, second)):
                got = render(source, {**expected["cases"][case], "documents": None, "add_generation_prompt": prompt,
                                      **template["tokens"]})
                spans = template.get("assistant_spans", {}).get(case, [])
                right = same(wanted, got) and (prompt or "error" in got or points(got["text"], got["spans"]) == spans)
                yield right, f"{name}, {case}, add_generation_prompt {prompt}", wanted, got


def probes(folder, render):
    path = os.path.join(folder, "probes.json")
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as file:
        told = json.load(file)
    variables = {name: value for name, value in told["vars"].items() if not (isinstance(value, int) and value >= 2 ** 63)}
    for source, wanted in told["probes"]:
        got = render(source, variables)
        yield same(wanted, got), source, wanted, got


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--program", default="build/bin/jinja_lines")
    given = parser.parse_args()
    render, failed = Renderer(given.program), 0
    for what, results in (("renderings", templates(given.folder, render)), ("probes", probes(given.folder, render))):
        count = wrong = 0
        for right, where, wanted, got in results:
            count += 1
            wrong += not right
            if not right:
                print(f"{where}\n  wanted {str(wanted)[-300:]}\n  got    {str(got)[-300:]}")
        print(f"{count - wrong} of {count} {what} are the same")
        failed += wrong
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
