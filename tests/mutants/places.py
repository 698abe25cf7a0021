"""Where hcq can be broken: the headers' lines that a build compiles, by room, and the
small changes that each of them allows. Nothing here compiles or runs anything but
the preprocessor."""
import hashlib
import os
import random
import re
import subprocess

PARTS = {'core': 'hcq.h', 'cpu': 'hcq_cpu.h', 'vulkan': 'hcq_vulkan.h', 'cuda': 'hcq_cuda.h'}
BANNER = re.compile(r'/\* ---- (.+?) -{2,}( >>(\w+) -)? ?-*')
LITERAL = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DEFINITION = re.compile(r'(?:static HCQI_PRINTF\(\d, \d\) )?[\w* ]*?\b(\w+)\(|#define (\w+)|'
                        r'[\w* ]*?\b(\w+)\[')
DECLARED = re.compile(r'(?!return\b|goto\b)(const |struct |unsigned |'
                      r'[A-Za-z_]\w* [*]*\w+( =|;|\[|,))')
RELEASE = re.compile(r'\w*(unlock|leave)\w*\(.*\);')
NUMBER = re.compile(r'(?<![\w.])(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)(?![\w.])')
TURNED = {'<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=', '!=': '=='}
ERRORS = ['HCQ_ERROR_INVALID', 'HCQ_ERROR_LIMIT']


def blanked(text):
    """The text without what comments and strings say, each character in its place."""
    def spaces(match):
        s = match.group()
        if s[0] == '/':
            return re.sub(r'[^\n]', ' ', s)
        return s[0] + ' ' * (len(s) - 2) + s[-1]
    return LITERAL.sub(spaces, text)


def closing(text, at):
    """Where the parenthesis at `at` is closed, -1 if not in this text."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in '({') - (text[i] in ')}')
        if depth == 0:
            return i
    return -1


class Mutant:
    """One change: `edits` has the new text of each changed line, by its number."""

    def __init__(self, place, line, kind, change, edits):
        self.part, self.room, self.file, self.owner, self.text = place
        self.line, self.kind, self.change, self.edits = line, kind, change, edits
        self.name = None

    def key(self):
        return '%s | %s | %s | %s' % (self.file, self.owner, self.text, self.change)

    def apply(self, lines):
        return ''.join(self.edits.get(i, line) for i, line in enumerate(lines, 1))

    def __str__(self):
        return '%s:%d  %s: %s\n    %s' % (self.file, self.line, self.kind, self.change, self.text)


class Source:
    """A header: its lines, which of them are compiled, their rooms and owners."""

    def __init__(self, part, root, active):
        self.part, self.file = part, PARTS[part]
        with open(os.path.join(root, self.file)) as f:
            text = f.read()
        self.lines = text.splitlines(True)
        self.code = blanked(text).splitlines()
        self.active = active
        self.rooms, self.owners = {}, {}
        self.survey()

    def survey(self):
        room, owner, macro, started = None, '', None, self.part != 'core'
        for number, line in enumerate(self.lines, 1):
            banner = BANNER.match(line)
            if banner:
                started = started or banner.group(3) == 'implementation'
                if banner.group(3) or self.lines[number - 2].startswith('/* ===='):
                    name = banner.group(3) or re.sub(r'\W+', '-', banner.group(1).split(',')[0])
                    room = '%s/%s' % (self.part, name.lower().strip('-'))
                if room.endswith('/licence'):
                    started = False
            code = self.code[number - 1]
            if code[:1].isalpha() or code.startswith('#define'):
                match = DEFINITION.match(code)
                name = next((g for g in match.groups() if g), '') if match else ''
                if code.startswith('#define'):  # may stand in a function
                    macro = name
                else:
                    owner = name
            self.owners[number] = owner if macro is None else macro
            if not line.endswith('\\\n'):
                macro = None
            if started and room and number in self.active and re.search(r'\w', code):
                self.rooms.setdefault(room, []).append(number)
            if code.startswith('}'):
                owner = ''

    def users(self, owner):
        """The functions that name what is not a function itself: a constant, a table."""
        word = re.compile(r'\b%s\b' % re.escape(owner))
        return {self.owners[i] for i, code in enumerate(self.code, 1) if word.search(code)}

    # ---- what one line allows

    def mutants(self, room, number):
        code, line = self.code[number - 1], self.lines[number - 1]
        place = (self.part, room, self.file, self.owners[number], line.strip())
        constant = re.match(r'#define HCQ\w+ +\W*(\(uint64_t\)|\(size_t\))?\d', code)
        if code.startswith('#') and not constant:
            return
        seen = {}
        for kind, start, end, new in self.tokens(code, constant):
            old = line[start:end]
            change = '%s -> %s' % (old, new) if new else '%s negated' % old
            new = new or '(!%s)' % old
            seen[change] = seen.get(change, 0) + 1
            if seen[change] > 1:
                change += ' #%d' % seen[change]
            yield Mutant(place, number, kind, change, {number: line[:start] + new + line[end:]})
        if not code.startswith('#') and self.owners[number]:
            yield from self.whole_lines(place, number, code)

    def tokens(self, code, constant):
        if not constant:
            for m in re.finditer(r' ([<>]=?|[=!]=) ', code):
                yield 'compare', m.start(1), m.end(1), TURNED[m.group(1)]
            for m in re.finditer(r' (&&|\|\|)( |$)', code):
                yield 'logic', m.start(1), m.end(1), '||' if m.group(1) == '&&' else '&&'
            for m in re.finditer(r' ([+-]) | ([+-])= |(\w)([+-])\2', code):
                group = 1 if m.group(1) else 2
                if m.group(group):
                    new = '-' if m.group(group) == '+' else '+'
                    yield 'arith', m.start(group), m.end(group), new
            for m in re.finditer(r'\b(?:if|while) (\()', code):
                end = closing(code, m.start(1))
                if end > 0:
                    yield 'negate', m.start(1), end + 1, None
            for m in re.finditer(r'\breturn (0|1|HCQ_OK);|\b(HCQ_ERROR_\w+)', code):
                old = m.group(1) or m.group(2)
                new = {'0': '1', '1': '0', 'HCQ_OK': ERRORS[0]}.get(old, ERRORS[old == ERRORS[0]])
                yield 'result', m.start(1 if m.group(1) else 2), m.end(1 if m.group(1) else 2), new
            yield from self.orders(code)
        text = re.match(r' +(static |const )*char \w+\[', code)  # long enough, whatever it is
        for m in () if text else re.finditer(NUMBER, code):
            value = int(m.group(1), 0)
            array = code[m.start() - 1] == '[' and DECLARED.match(code.strip())
            room = array or re.search(r'HCQI_(GROW|TAKE)\(', code)
            for new in sorted({value + 1, max(value - 1, 0)} - {value}):
                if room and new > value or array and value == 1:
                    continue  # room for one more changes nothing
                text = hex(new) if m.group(1)[:2] in ('0x', '0X') else str(new)
                yield 'constant', m.start(1), m.end(1), text

    def orders(self, code):
        for m in re.finditer(r'__ATOMIC_(SEQ_CST|ACQUIRE|RELEASE|ACQ_REL)', code):
            yield 'order', m.start(), m.end(), '__ATOMIC_RELAXED'
        for m in re.finditer(r'^ +\(void\)(hcqi_atomic_swap(32|64))\(', code):
            yield 'order', m.start(1), m.end(1), 'hcqi_atomic_store' + m.group(2)
        for m in re.finditer(r'\bhcqi_atomic_(load|store)(32|64)(\()', code):
            end = closing(code, m.start(3))
            if end > 0 and not code.startswith('static'):
                new = '__atomic_%s_n%s, __ATOMIC_RELAXED)' % (m.group(1), code[m.start(3):end])
                yield 'order', m.start(), end + 1, new

    def whole_lines(self, place, number, code):
        stripped = code.strip()
        before = self.code[number - 2].strip()
        indent = len(code) - len(code.lstrip())
        if indent == 0:
            return
        last = self.statement(number, stripped, before)
        if last:
            edits = {i: '\n' for i in range(number, last + 1)}
            edits[number] = ' ' * indent + ';\n'
            yield Mutant(place, number, 'statement', 'left out', edits)
        same = len(self.lines[number - 2]) - len(self.lines[number - 2].lstrip()) == indent
        if RELEASE.fullmatch(stripped) and before.endswith(';') and same:
            edits = {number - 1: self.lines[number - 1], number: self.lines[number - 2]}
            yield Mutant(place, number, 'unlock', 'a statement earlier', edits)

    def statement(self, number, stripped, before):
        """The last line of a statement that begins here and can be left out, or None."""
        if before and before[-1] not in ';{}:' or not re.match(r'[\w*(+-]', stripped):
            return None
        if re.match(r'return\b|case\b|default\b|else\b|for\b|do\b|HCQ_ASSERT|\(void\)\w+;|\w+:$',
                    stripped) or DECLARED.match(stripped):
            return None
        if re.match(r'(if|while) ', stripped):
            following = self.code[number].strip() if number < len(self.code) else ''
            whole = stripped.endswith('; }') and not following.startswith('else')
            return number if whole else None
        text = ''
        for last in range(number, min(number + 8, len(self.code))):
            text += self.code[last - 1]
            if '{' in text:
                return None
            if text.rstrip().endswith(';'):
                return last if text.count('(') == text.count(')') else None
        return None


def active_lines(root, command):
    """By file: the numbers of the lines that the preprocessor leaves."""
    text = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True, text=True).stdout
    active, file, number = {}, '', 0
    for line in text.splitlines():
        marker = re.match(r'# (\d+) "([^"]*)"', line)
        if marker:
            number, file = int(marker.group(1)), os.path.basename(marker.group(2))
            continue
        if line.strip():
            active.setdefault(file, set()).add(number)
        number += 1
    return active


def candidates(source, room, seed):
    """The room's changes without end in the order in which they are drawn: first a
    kind, then one of that kind, which one by a hash of its own: so an edit elsewhere
    in the room draws no others, and what was found about these still counts."""
    def rank(mutant):
        return hashlib.sha256(('%s %s' % (seed, mutant.key())).encode()).digest()
    draw = random.Random('%s %s' % (seed, room))
    kinds = {}
    for number in source.rooms[room]:
        for mutant in source.mutants(room, number):
            kinds.setdefault(mutant.kind, []).append(mutant)
    for those in kinds.values():
        those.sort(key=rank)
    while kinds:
        kind = draw.choice(sorted(kinds))
        mutant = kinds[kind].pop()
        if not kinds[kind]:
            del kinds[kind]
        if kind == 'order' and mutant.part == 'core' and '__ATOMIC' not in mutant.change[:9]:
            continue  # the core's own are under its lock; their orders stand in >>atomics
        if kind == 'order' and mutant.owner.endswith('_query'):
            continue  # counts for statistics
        yield mutant


def quotas(sources, seed, count):
    """How many changes each room gets: `count` in all, in proportion to its lines."""
    sizes = [(room, len(lines)) for s in sources for room, lines in s.rooms.items()]
    step = sum(size for _, size in sizes) / count
    at = random.Random(seed).random() * step
    shares = {}
    for room, size in sizes:
        shares[room] = 0
        while at < size:
            shares[room] += 1
            at += step
        at -= size
    return shares
