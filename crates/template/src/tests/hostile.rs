//! Templates that ask for too much, each in its own way; the fuzzer's seeds are made of them too.

/// Name and template.
pub const HOSTILE: &[(&str, &str)] = &[
    (
        "concat",
        "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
    ),
    (
        "plus",
        "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
    ),
    ("times", "{{ 'a' * 10 ** 9 }}"),
    ("times-huge", "{{ 'ab' * 10 ** 30 }}"),
    ("list-times", "{{ ([1] * 10 ** 9) | length }}"),
    ("list-times-list", "{{ (range(100000) * 1000)[99999999:] }}"),
    ("list-unpacked", "{% set a, b = [1] * 100000000 %}"),
    (
        "list-plus",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
    ),
    (
        "list-grown",
        "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = ns.x + [i] %}{% endfor %}{{ ns.x }}",
    ),
    (
        "map-grown",
        "{% set ns = namespace(x={}) %}{% for i in range(100000) %}{% set ns.x = dict(ns.x, **{i ~ '': i}) %}{% endfor %}",
    ),
    (
        "names-grown",
        "{% set ns = namespace() %}{% for i in range(100000) %}{% set ns.x = namespace(a='b' * 10000) %}{% endfor %}",
    ),
    (
        "replace",
        "{{ ('a' * 1000000) | replace('a', 'b' * 1000000) }}",
    ),
    (
        "replace-empty",
        "{{ ('a' * 1000000).replace('', 'b' * 1000) }}",
    ),
    ("indent", "{{ 'a\nb' | indent(1000000000) }}"),
    (
        "indent-lines",
        "{{ ('\n' * 1000000) | indent(1000000, blank=true) }}",
    ),
    ("join", "{{ range(100000) | join('x' * 100000) }}"),
    ("join-method", "{{ ('x' * 100000).join(['a'] * 100000) }}"),
    ("percent-width", "{{ '%1000000000d' % 1 }}"),
    ("percent-precision", "{{ '%.1000000000f' % 1.5 }}"),
    ("format-filter", "{{ '%1000000000s' | format('a') }}"),
    ("format-width", "{{ '{:>1000000000}'.format(1) }}"),
    (
        "format-fields",
        "{{ ('{0}' * 100000).format('a' * 100000) }}",
    ),
    ("center", "{{ 'a' | center(1000000000) }}"),
    (
        "just",
        "{{ 'a'.ljust(1000000000) }}{{ 'a'.rjust(1000000000) }}",
    ),
    ("zfill", "{{ '1'.zfill(1000000000) }}"),
    ("tabs", "{{ ('\t' * 100000).expandtabs(1000000) }}"),
    (
        "wrap",
        "{{ ('a-b-c--d ' * 1000000) | wordwrap(1, wrapstring='x' * 100000) }}",
    ),
    (
        "wrap-dashes",
        "{% for i in range(100000) %}{{ ('-' * 10000000) | wordwrap(5) | length }}{% endfor %}",
    ),
    (
        "references",
        "{% for i in range(100000) %}{{ ('&aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' * 100000) | striptags | length }}{% endfor %}",
    ),
    (
        "nested-joiner",
        "{% set ns = namespace(x=1) %}{% for i in range(100000) %}{% set ns.x = joiner(ns.x) %}{% endfor %}",
    ),
    (
        "nested-cycler",
        "{% set ns = namespace(x=1) %}{% for i in range(100000) %}{% set ns.x = cycler(ns.x) %}{% endfor %}",
    ),
    ("batch", "{{ [1] | batch(1000000000, 'x') }}"),
    ("slices", "{{ [1] | slice(1000000000, 'x') }}"),
    ("json-indent", "{{ [[[1]]] | tojson(indent=1000000000) }}"),
    (
        "json-separator",
        "{{ ([1] * 100000) | tojson(separators=('x' * 100000, ':')) }}",
    ),
    (
        "escape",
        "{{ ('<' * 10000000) | escape | escape | escape | escape }}",
    ),
    (
        "upper",
        "{% for i in range(100000) %}{{ ('ŉ' * 1000000) | upper | length }}{% endfor %}",
    ),
    ("characters", "{{ ('a' * 10000000) | list | length }}"),
    ("split", "{{ ('a ' * 5000000).split() | length }}"),
    ("lines", "{{ ('\n' * 10000000).splitlines() | length }}"),
    ("strftime", "{{ strftime_now('%A' * 10000000) }}"),
    (
        "tree-printed",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
    ),
    (
        "tree-concat",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ (ns.x ~ '') | length }}",
    ),
    (
        "tree-compared",
        "{% set a = namespace(x=[1]) %}{% set b = namespace(x=[1]) %}{% for i in range(60) %}{% set a.x = [a.x, a.x] %}{% set b.x = [b.x, b.x] %}{% endfor %}{{ a.x == b.x }}{{ a.x in [b.x] }}{{ a.x < b.x }}",
    ),
    (
        "tree-json",
        "{% set ns = namespace(x={'a': 1}) %}{% for i in range(60) %}{% set ns.x = {'a': ns.x, 'b': ns.x} %}{% endfor %}{{ ns.x | tojson }}",
    ),
    (
        "tree-unique",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ [ns.x, [ns.x]] | unique }}",
    ),
    (
        "deep",
        "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
    ),
    (
        "deep-map",
        "{% set ns = namespace(x={}) %}{% for i in range(100000) %}{% set ns.x = {'a': ns.x} %}{% endfor %}{{ ns.x }}",
    ),
    (
        "cycle",
        "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
    ),
    (
        "cycle-in-list",
        "{% set ns = namespace() %}{% set ns.x = [{'a': ns}] %}{{ ns }}",
    ),
    (
        "cycle-method",
        "{% set ns = namespace() %}{% set ns.x = [ns].count %}{{ ns }}",
    ),
    (
        "cycle-loop",
        "{% set ns = namespace() %}{% for i in [ns] %}{% set ns.x = loop %}{{ ns }}{{ loop.changed(loop) }}{% endfor %}",
    ),
    ("macro", "{% macro f() %}x{{ f() }}{% endmacro %}{{ f() }}"),
    (
        "macro-pair",
        "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}",
    ),
    (
        "macro-wide",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}x{% endmacro %}{{ f(50) }}",
    ),
    (
        "macro-arguments",
        "{% set big = range(100000) %}{% macro f() %}{{ f(*big, *varargs) }}{{ f(*varargs) }}{% endmacro %}{{ f(*big) }}",
    ),
    (
        "macro-default",
        "{% macro f(a=f()) %}{% endmacro %}{{ f() }}",
    ),
    (
        "call",
        "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{{ caller() }}{% endmacro %}{% call f() %}x{% endcall %}",
    ),
    (
        "loop-recursive",
        "{% for i in [1, 2] recursive %}{{ i }}{{ loop([1, 2]) }}{% endfor %}",
    ),
    (
        "loops",
        "{% for a in range(10000) %}{% for b in range(10000) %}{% for c in range(10000) %}{% endfor %}{% endfor %}{% endfor %}",
    ),
    (
        "loops-written",
        "{% for a in range(10000) %}{% for b in range(10000) %}{{ 'x' * 1000 }}{% endfor %}{% endfor %}",
    ),
    (
        "loops-searched",
        "{% set t = 'a' * 10000000 %}{% for a in range(100000) %}{{ 'b' in t }}{{ t.count('b') }}{{ t | length }}{{ t[9999999] }}{% endfor %}",
    ),
    (
        "loops-compared",
        "{% set a = 'a' * 10000000 %}{% set b = 'a' * 10000000 %}{% for i in range(100000) %}{{ a == b }}{% endfor %}",
    ),
    (
        "methods-chained",
        "{{ 'a'.strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip().strip() }}",
    ),
    (
        "methods",
        "{% set ns = namespace(x=[]) %}{% for i in range(100000) %}{% set ns.x = [ns.x, 'a'.strip, 'a'.upper, 'a'.lower] if i % 100 else [] %}{% endfor %}{{ [ns.x] * 1000000 }}",
    ),
    ("maps", "{{ [[1]] | map(*(['map'] * 100000)) }}"),
    (
        "sorted",
        "{% set t = 'a' * 10000000 %}{{ ([t, t ~ 'b'] * 50000) | sort(case_sensitive=true) | length }}",
    ),
    (
        "sorted-folded",
        "{{ (['A' * 100000] * 100000) | sort | length }}",
    ),
    (
        "stripped",
        "{{ ('a' * 3000000).strip('b' * 3000000 ~ 'a') | length }}",
    ),
    (
        "searched-worst",
        "{{ ('a' * 10000000).count('a' * 5000000 ~ 'b') }}{{ ('a' * 10000000).find('b' ~ 'a' * 5000000) }}",
    ),
    ("unique", "{{ range(100000) | unique | list | length }}"),
    ("power", "{{ 10 ** 10 ** 10 }}"),
    ("range", "{{ range(10 ** 38, -(10 ** 38), -1) }}"),
    (
        "slice-edges",
        "{{ 'abc'[-(10 ** 38):10 ** 38:10 ** 38] }}{{ [1, 2][10 ** 38:-(10 ** 38):-(10 ** 38)] }}{{ 'abc'[10 ** 38] }}",
    ),
    (
        "numbers",
        "{{ (-(2 ** 126) * 2) // -1 }}{{ (-(2 ** 126) * 2) | abs }}{{ (-(2 ** 126) * 2) % -1 }}",
    ),
    (
        "round",
        "{{ 1.5 | round(300) }}{{ 1e308 | round(-300) }}{{ 1.5 | round(10 ** 30) }}",
    ),
    ("raised", "{{ raise_exception('a' * 10 ** 7) }}"),
    (
        "arguments",
        "{{ dict(**{'a': 1}, **{'a': 2}) }}{{ 'a'.format(*([1] * 1000000)) }}",
    ),
    (
        "regex-like",
        "{{ ('a' * 1000000 ~ '!') | wordwrap(3, break_long_words=false) | length }}{{ ('(a+)+$' * 200000) | urlize | length }}",
    ),
    ("urls", "{{ ('http://' * 1000000) | urlize | length }}"),
    (
        "titles",
        "{% for i in range(100000) %}{{ ('a-b ' * 1000000) | title | capitalize | length }}{% endfor %}",
    ),
    (
        "reversed",
        "{% for i in range(100000) %}{{ ('é' * 1000000) | reverse | length }}{% endfor %}",
    ),
    (
        "sliced",
        "{% set t = 'é' * 1000000 %}{% for i in range(100000) %}{{ t[::-1] | length }}{{ t[999999] }}{% endfor %}",
    ),
    (
        "sums",
        "{{ ([[1] * 1000] * 10000) | sum(start=[]) | length }}",
    ),
    (
        "products",
        "{% for a in range(100000) %}{{ [1, 2] | map('string') | map('int') | map('float') | list }}{% endfor %}",
    ),
    (
        "generation",
        "{% for a in range(10000) %}{% generation %}{% for b in range(10000) %}x{% endfor %}{% endgeneration %}{% endfor %}",
    ),
    (
        "set-blocks",
        "{% set ns = namespace(x='a') %}{% for a in range(100) %}{% set b %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = b %}{% endfor %}",
    ),
    (
        "filter-blocks",
        "{% for a in range(100000) %}{% filter upper %}{{ 'ß' * 100000 }}{% endfilter %}{% endfor %}",
    ),
    (
        "float-format",
        "{{ '%.400f' % 1e308 }}{{ '{:.1000000000}'.format(1.5) }}{{ '%*d' % (1000000000, 1) }}",
    ),
    (
        "marks",
        "{% set t = 'e\u{301}\u{200d}\u{202e}' * 1000000 %}{% for i in range(100000) %}{{ t | upper | lower | length }}{% endfor %}",
    ),
    (
        "groups",
        "{{ ([{'a': 'B' * 1000}] * 100000) | groupby('a') | length }}",
    ),
];

/// Ways out of the inputs, as they are tried on Python's Jinja: none may show anything.
pub const ESCAPES: &[(&str, &str)] = &[
    ("class", "{{ ''.__class__ }}"),
    ("class-item", "{{ ''['__class__'] }}"),
    ("class-filter", "{{ '' | attr('__class__') }}"),
    ("class-tree", "{{ ().__class__.__base__.__subclasses__() }}"),
    (
        "class-mapped",
        "{{ [''] | map(attribute='__class__') | join }}",
    ),
    (
        "class-dotted",
        "{{ [''] | map(attribute='__class__.__mro__.1') | join }}",
    ),
    (
        "class-split",
        "{{ '' | attr('_' ~ '_' ~ 'class' ~ '_' ~ '_') }}",
    ),
    ("class-escaped", "{{ ''['\\x5f\\x5fclass\\x5f\\x5f'] }}"),
    ("class-wide", "{{ ''['＿＿class＿＿'] }}{{ ''.__class__ }}"),
    ("class-combined", "{{ ''['__cla\u{301}ss__'] }}"),
    (
        "class-hidden",
        "{{ ''['__class__\u{200b}'] }}{{ ''['\u{202e}__ssalc__'] }}",
    ),
    ("class-format", "{{ '{0.__class__}'.format(1) }}"),
    (
        "class-format-deep",
        "{{ '{0.__init__.__globals__}'.format(cycler) }}",
    ),
    (
        "class-format-map",
        "{{ '{a.__class__}'.format_map({'a': 1}) }}",
    ),
    (
        "class-selected",
        "{{ [1] | selectattr('__class__') | list | join }}",
    ),
    (
        "class-grouped",
        "{{ [1] | groupby('__class__') | first | first }}",
    ),
    (
        "class-sorted",
        "{{ [[1]] | sort(attribute='__class__') | first | first | attr('real') }}",
    ),
    (
        "globals",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    ),
    ("globals-joiner", "{{ joiner.__init__.__globals__ }}"),
    (
        "globals-namespace",
        "{{ namespace.__init__.__globals__ }}{{ namespace().__dict__ }}",
    ),
    (
        "globals-range",
        "{{ range.__class__ }}{{ dict.__class__.mro() }}",
    ),
    ("globals-lipsum", "{{ lipsum.__globals__ }}"),
    (
        "globals-macro",
        "{% macro f() %}{% endmacro %}{{ f.__globals__ }}{{ f.__code__ }}",
    ),
    (
        "globals-loop",
        "{% for i in [1] %}{{ loop.__class__ }}{{ loop._iterator }}{% endfor %}",
    ),
    (
        "globals-method",
        "{{ ''.upper.__self__ }}{{ [].append.__func__ }}",
    ),
    (
        "globals-raise",
        "{{ raise_exception.__globals__ }}{{ strftime_now.__closure__ }}",
    ),
    ("context", "{{ self._TemplateReference__context }}"),
    ("context-self", "{{ self.__init__ }}{{ self }}"),
    (
        "context-names",
        "{{ config }}{{ request }}{{ environ }}{{ os }}{{ __builtins__ }}",
    ),
    ("import", "{% import 'os' as os %}"),
    ("include", "{% include '/etc/passwd' %}"),
    ("extends", "{% extends '/etc/passwd' %}"),
    ("from", "{% from 'os' import environ %}"),
    ("built-in", "{{ __import__('os').environ }}"),
    ("open", "{{ open('/etc/passwd').read() }}"),
    ("eval", "{{ eval('1+1') }}"),
    ("debug", "{% debug %}"),
    ("debug-filter", "{{ [] | pprint | attr('__doc__') }}"),
    ("mutation", "{% set x = [] %}{{ x.append(1) }}"),
    ("mutation-map", "{% set x = {} %}{{ x.update({'a': 1}) }}"),
    ("mutation-input", "{% set a.x = 1 %}"),
];

/// Nesting of what the parser reads, as a part to repeat, `n` times.
#[allow(dead_code)] // the seeds are too short for it
pub const NESTED: &[(&str, &str, &str)] = &[
    ("{{ ", "(", "1 }}"),
    ("{{ ", "[", "1 }}"),
    ("{{ ", "{1:", "1 }}"),
    ("{{ ", "not ", "1 }}"),
    ("{{ ", "-", "1 }}"),
    ("{{ ", "- - ", "1 }}"),
    ("{{ a", ".b", " }}"),
    ("{{ a", "[0]", " }}"),
    ("{{ a", "[a", " }}"),
    ("{{ a", "()", " }}"),
    ("{{ a", "(a", " }}"),
    ("{{ a", " ~ a", " }}"),
    ("{{ a", " + a", " }}"),
    ("{{ a", " ** a", " }}"),
    ("{{ a", " and a", " }}"),
    ("{{ a", " or a", " }}"),
    ("{{ a", " == a", " }}"),
    ("{{ a", "|f", " }}"),
    ("{{ a", "|f(a", " }}"),
    ("{{ a", " is f", " }}"),
    ("{{ a", " is f(a", " }}"),
    ("{{ a", " if a else a", " }}"),
    ("{{ a", " if a", " }}"),
    ("{{ 1", ", 1", " }}"),
    ("", "{% if a %}", ""),
    ("", "{% for a in a %}", ""),
    ("", "{% macro a() %}", ""),
    ("", "{% set a %}", ""),
    ("", "{% call a() %}", ""),
    ("{% if a %}", "{% elif a %}", "{% endif %}"),
    ("{% for ", "(", "a in b %}"),
    ("{% set ", "a, ", "= 1 %}"),
    ("", "{{ a }}", ""),
    ("", "{%", ""),
    ("", "{#", ""),
    ("", "{% raw %}", ""),
    ("{% raw %}", "{% ", ""),
    ("", "{%- ", ""),
    ("{{ ", "\"a\" ", "}}"),
    ("", "{{ 'a' }}\n", ""),
];
