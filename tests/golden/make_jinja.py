"""make_jinja.py [--check] - writes tests/golden/jinja.golden: what Jinja2 makes of small templates, one for each construct.

The environment is that of transformers' apply_chat_template, with a frozen clock. An error is {"error": true}; that of
raise_exception holds its message. Needs jinja2 3.1.
"""
import datetime
import json
import os
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jinja.golden")
NOW = datetime.datetime(2025, 3, 7, 14, 5, 9)
VARIABLES = {
    "name": "Ada", "empty": "", "nothing": None, "yes": True, "three": 3, "half": 0.5, "list": [3, 1, 2],
    "talk": [{"role": "user", "content": " Grüße, 世界! "}, {"role": "assistant", "content": "b", "score": 2}],
    "map": {"b": 1, "A": [1, {"k": None}], "items": 7}, "quotes": "it's \"so\"\\\n\t\u00a0\u200bé", "html": "<a & 'b'>",
}
SOURCES = r'''
{# a comment #}text {{ name }}{# another #}
{{ name }}|{{ nothing }}|{{ yes }}|{{ half }}|{{ list }}|{{ map }}|{{ missing }}|{{ quotes }}
{{ [quotes, html, 1.0, 1e16, 1e-5, -0.0, 1/3] }}
{% if three > 2 and not empty or missing %}a{% elif yes %}b{% else %}c{% endif %}{% if empty %}a{% elif three == 3 %}b{% endif %}
{% for m in talk %}{{ loop.index0 }}{{ loop.index }}{{ loop.revindex }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ m.role }};{% endfor %}
{% for x in list if x > 1 %}{{ x }}{{ loop.last }}{% else %}none{% endfor %}{% for x in [] %}a{% else %}none{% endfor %}
{% for x in list %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% if x == 2 %}{% break %}{% endif %}{% endfor %}
{% for k, v in map.items() %}{{ k }}={{ v }},{% endfor %}{% for a, (b, c) in [[1, [2, 3]]] %}{{ a + b * c }}{% endfor %}
{% for x in list %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{{ loop.previtem }}{{ loop.nextitem is defined }} {% endfor %}
{% set a = 1 %}{% for x in list %}{% set a = x %}{% endfor %}{{ a }}{% if yes %}{% set a = 9 %}{% endif %}{{ a }}
{% set ns = namespace(n=0, s='') %}{% for x in list %}{% set ns.n = ns.n + x %}{% set ns.s = ns.s ~ x %}{% endfor %}{{ ns.n }}{{ ns.s }}{{ ns.no }}
{% set b %} a {{ three }} {% endset %}[{{ b }}]{% set b | trim | upper %} a {% endset %}[{{ b }}]{% set p, q = 1, [2] %}{{ p }}{{ q }}
{% macro greet(who, mark='!', *rest) %}x{% endmacro %}
{% macro greet(who, mark='!') %}<{{ who }}{{ mark }}{{ later }}>{% endmacro %}{% set later = 'L' %}{{ greet('a') }}{{ greet(mark='?', who='b') }}{{ greet() }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, k=3) }}{{ m(*[4, 5], **{'z': 6}) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro wrap(x) %}[{{ caller(x) }}]{% endmacro %}{% call(v) wrap(three) %}{{ v }}{{ name }}{% endcall %}
{% macro down(n) %}{{ n }}{% if n %}{{ down(n - 1) }}{% endif %}{% endmacro %}{{ down(3) }}
{% filter upper | replace('A', 'o') %}{{ name }}{% endfilter %}{% with a = 2, b = three %}{{ a + b }}{% endwith %}{{ a }}
{% raw %}{{ name }}{% if %}{% endraw %}|{%- raw -%} x {%- endraw -%} y
a{% generation %}{{ name }}{% endgeneration %}b{% generation %}Grüße{% endgeneration %}
{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 7.5 % -2 }} {{ 1 + 2 * 3 - 4 }} {{ true + 1 }} {{ 0x1f + 0b11 + 0o17 + 1_000 }}
{{ 'a' ~ 1 ~ none ~ 2.0 }} {{ 'ab' * 2 }} {{ [1] + [2] }} {{ (1,) }} {{ () }} {{ 'a' 'b' }} {{ "\x41\u00e9\101\q\n" }}
{{ 1 < 2 < 3 }} {{ 1 == true }} {{ 1 == 1.0 }} {{ '1' == 1 }} {{ 'a' in 'abc' }} {{ 5 not in list }} {{ 'b' in map }} {{ not 1 in list }} {{ [1, 2] < [1, 3] }}
{{ 1 if yes else 2 }}{{ 1 if empty }}{{ 'a' if empty else 'b' if nothing else 'c' }}
{{ talk[0].role }}{{ talk[-1]['role'] }}{{ talk[9] }}{{ map.zz }}{{ map['items'] }}{{ map.items is callable }}{{ talk.0.role }}{{ name[0] }}{{ name[-1:] }}{{ name[::-1] }}{{ list[1:][::2] }}
{{ missing.deeper }}
{{ nothing.attribute }}|{{ nothing.one.two }}
{{ missing + 1 }}
{{ name + 1 }}
{{ list.append(1) }}
{{ map.update({'a': 1}) }}
{{ missing() }}
{{ 1 // 0 }}
{{ raise_exception('this model wants ' ~ name) }}
{{ strftime_now('%d %b %Y %H:%M') }}
{{ range(5, 0, -2) | list }}{{ range(3) }}{{ dict(a=1, b=[2]) }}{{ dict([('k', 1)]) }}
{{ name is string }}{{ three is number }}{{ half is float }}{{ map is mapping }}{{ list is sequence }}{{ map is iterable }}{{ missing is defined }}{{ nothing is none }}{{ yes is boolean }}{{ three is odd }}{{ three is divisibleby 3 }}{{ three is in list }}{{ name is not lower }}{{ 4 is gt 3 }}{{ 3 is sameas 3 }}
{{ talk | map(attribute='role') | join(', ') }}{{ talk | selectattr('role', 'equalto', 'user') | list | length }}{{ talk | rejectattr('score') | map(attribute='content') | first | trim }}{{ list | select('odd') | list }}{{ list | reject('gt', 2) | list }}{{ talk | map(attribute='score', default=0) | sum }}
{{ list | sort }}{{ list | sort(reverse=true) }}{{ ['b', 'A'] | sort }}{{ map | dictsort }}{{ [1, 1, 2] | unique | list }}{{ list | min }}{{ list | max }}{{ list | reverse | list }}{{ 'abc' | reverse }}{{ list | batch(2, 0) | list }}{{ list | last }}{{ [] | first }}
{{ '  a  ' | trim }}{{ 'xax' | trim('x') }}{{ 'ab' | upper }}{{ 'AB' | lower }}{{ "it's a-b" | title }}{{ 'aB' | capitalize }}{{ 'aXa' | replace('a', 'b', 1) }}{{ 'a\nb\n\nc' | indent(2) }}{{ 'a\nb' | indent(2, true) }}{{ '%s-%03d' | format('a', 7) }}
{{ '12' | int + 1 }}{{ 'x' | int(5) }}{{ 3.9 | int }}{{ '1.5' | float }}{{ 2.5 | round }}{{ 2.567 | round(2) }}{{ 2.1 | round(0, 'ceil') }}{{ -3 | abs }}{{ missing | default('d') }}{{ empty | default('d', true) }}{{ list | length }}{{ 'äö' | length }}
{{ map | tojson }}{{ quotes | tojson }}{{ quotes | tojson(ensure_ascii=true) }}{{ map | tojson(indent=2) }}{{ list | tojson(separators=(',', ':')) }}{{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }}{{ half | tojson }}
{{ missing | tojson }}
{{ html | e }}{{ (html | safe) + html }}{{ (html | safe) ~ html }}
{{ ' a b '.strip() }}{{ 'xa'.lstrip('x') }}{{ 'ax'.rstrip('x') }}{{ 'a,b,c'.split(',', 1) }}{{ ' a  b '.split() }}{{ 'a-b'.partition('-') }}{{ 'abc'.startswith('a') }}{{ 'abc'.endswith(('x', 'c')) }}{{ 'aa'.replace('a', 'b') }}{{ 'a\r\nb'.splitlines() }}{{ 'abcb'.find('b') }}{{ 'abcb'.rfind('b') }}{{ 'aa'.count('a') }}{{ '-'.join(['a', 'b']) }}{{ '{} {n}'.format(1, n=2) }}{{ "it's".title() }}{{ 'a,b'.rsplit(',', 1) }}{{ 'abc'.removeprefix('a') }}{{ '12'.isdigit() }}
{{ map.get('b') }}{{ map.get('x', 5) }}{{ map.keys() | list }}{{ map.values() | list }}{{ 'äÖ'.upper() }}{{ 'ß'.upper() }}
{% if yes %}{{ 1 }}{% else %}{{ 1 | nosuchfilter }}{% endif %}
{{ 1 | nosuchfilter if empty else 2 }}{{ [(3 is nosuchtest) if empty else 4, 5] }}{{ 2 if yes else (1 | nosuchfilter) }}{{ ((1 | nosuchfilter) if empty else 6) + 1 }}
{{ 1 | nosuchfilter }}
{{ 1 is nosuchtest }}
{% for x in three %}{% endfor %}
{% set map.a = 1 %}
{% if yes %}
{{ 'open }}
{% endfor %}
{{ 1 + }}
{{ (1, 2] }}
'''
# Templates of several lines, about white space.
BLOCKS = [
    "a\n{% if yes %}\n  b\n  {% endif %}\nc\n", "  {%- if yes -%}  a  {%- endif -%}  b\n\n", "\n  {%+ if yes %}a{% endif +%}\nb",
    "x\n  {# comment #}\n  {{ name }}  \ny {#- c -#} z", "a\r\n{% if yes %}\r\nb\r{% endif %}\r\n", "{{- 1 -}}  {{ 2 }}\n\n  {{- 3 }}",
    "{% set x = 'two\nlines' %}{{ x }}", "\t{% for x in list %}\n{{ x }}\n{% endfor %}\nend",
]


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller):
        return caller()


def refuse(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                       extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals.update(raise_exception=refuse, strftime_now=NOW.strftime)
    return env


def answer(env, source):
    try:
        return env.from_string(source).render(**json.loads(json.dumps(VARIABLES)))
    except Exception as error:
        told = type(error) is jinja2.exceptions.TemplateError
        return {"error": str(error) if told else True}


def main():
    env = environment()
    sources = SOURCES.strip("\n").split("\n") + BLOCKS
    text = json.dumps({"variables": VARIABLES, "cases": [[source, answer(env, source)] for source in sources]},
                      ensure_ascii=False, indent=0) + "\n"
    if sys.argv[1:] == ["--check"]:
        with open(GOLDEN, encoding="utf-8") as file:
            return 0 if file.read() == text else 1
    with open(GOLDEN, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
