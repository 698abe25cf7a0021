#!/usr/bin/env python3
"""page.py [--object OBJECT] [OUT.html]: makes docs/index.html, a page to show.

Builds examples and docs/schedule.c in a temporary folder with $CC [cc], by the commands that
the page names, runs them, and writes what they said and drew into one file that loads nothing.
The particles, and hello on VULKAN, are left out where Vulkan is not: that is said on stderr.
With --object the examples are linked with that implementation, of all backends, and not each
with its own, which takes longest to compile: for tests.

What differs from run to run or from machine to machine stands in elements of class
"measured"; the rest of the words is the same everywhere (tests/examples/page.py)."""
import base64
import html
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PHOTO_WIDTH = 456                      # of the photograph, before it is filtered
PARTICLES_WIDTH = 640                  # of the particles' picture
ROWS = ('cpu.replay_1000', 'cpu.replay_1000_tbb', 'cpu.roundtrip_spin', 'cpu.grid_saxpy_16m',
        'graph.replay_1000_tbb', 'vulkan.replay_1000', 'cuda.replay_1000', 'cuda.submit_one')
APART = ('-DHCQI_IMPLEMENTED -DHCQI_CPU_IMPLEMENTED -DHCQI_VULKAN_IMPLEMENTED '
         '-DHCQI_CUDA_IMPLEMENTED -DHCQ_API=extern').split()
CC = os.environ.get('CC', 'cc')


class Failed(Exception):
    pass


def read(*names):
    with open(os.path.join(ROOT, *names), encoding='utf-8') as file:
        return file.read()


# ---- running ---------------------------------------------------------------------


class Shell:
    """Runs command lines in a folder that looks like the repository's, and keeps what
    they said. Programs are told that nobody's locale counts."""

    def __init__(self, folder, implementation):
        self.folder, self.implementation = folder, implementation
        for name in os.listdir(ROOT):
            if name.endswith('.h') or name in ('examples', 'docs'):
                os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))

    def words(self, command, whole):
        words = command.split()
        if words[0] != 'cc':
            return words
        words = CC.split() + words[1:]
        if self.implementation and not whole:
            words += APART + [self.implementation, '-ldl']
        return words

    def run(self, line, whole=False):
        """Says what `A && B` says; `whole`: compiled with its own implementation always."""
        said = ''
        for command in line.split(' && '):
            done = subprocess.run(self.words(command, whole), cwd=self.folder, text=True,
                                  encoding='utf-8', stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, env=dict(os.environ, LC_ALL='C'))
            if done.returncode != 0:
                raise Failed(f'{command}: ended with {done.returncode}: '
                             f'{done.stdout[-2000:]}{done.stderr[-2000:]}')
            said += done.stdout
        return said

    def path(self, name):
        return os.path.join(self.folder, name)

    def text(self, name):
        with open(self.path(name), encoding='utf-8') as file:
            return file.read()


# ---- pictures --------------------------------------------------------------------
# A picture is its width, its height, and its pixels, three bytes each.


def read_ppm(path):
    with open(path, 'rb') as file:
        data = file.read()
    head = re.match(rb'P6\s+(\d+)\s+(\d+)\s+255\s', data)
    width, height = int(head[1]), int(head[2])
    return width, height, data[head.end():]


def write_ppm(path, picture):
    with open(path, 'wb') as file:
        file.write(b'P6\n%d %d\n255\n' % picture[:2] + picture[2])


def shrink_rows(rows, count):
    """As many rows of bytes, each the mean of those that it covers."""
    step, out = len(rows) / count, []
    for n in range(count):
        first, last = n * step, (n + 1) * step
        parts = [(rows[y], round(256 * (min(last, y + 1) - max(first, y)) / step))
                 for y in range(int(first), min(len(rows), -int(-last // 1)))]
        parts = [(row, weight) for row, weight in parts if weight > 0]
        whole = sum(weight for _, weight in parts)
        if len(parts) == 1:
            out.append(bytes(parts[0][0]))
            continue
        weights = [weight for _, weight in parts]
        out.append(bytes(sum(map(int.__mul__, values, weights)) // whole
                         for values in zip(*(row for row, _ in parts))))
    return out


def turn(rows):
    """Columns of pixels as rows, one below the other."""
    width = len(rows[0]) // 3
    return [b''.join(row[3 * x:3 * x + 3] for row in rows) for x in range(width)]


def shrink(picture, width):
    height = round(picture[1] * width / picture[0])
    rows = [picture[2][y * picture[0] * 3:(y + 1) * picture[0] * 3] for y in range(picture[1])]
    rows = turn(shrink_rows(turn(shrink_rows(rows, height)), width))
    return width, height, b''.join(rows)


def chunk(kind, data):
    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))


def png(width, height, colour, rows, palette=b''):
    head = struct.pack('>IIBBBBB', width, height, 8, colour, 0, 0, 0)
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head) +
            (chunk(b'PLTE', palette) if palette else b'') +
            chunk(b'IDAT', zlib.compress(b''.join(rows), 9)) + chunk(b'IEND', b''))


def paeth(row, above):
    """A row of RGB as what is left when the nearest of three neighbours is taken off."""
    out = bytearray([4])
    for here, left, up, corner in zip(row, bytes(3) + row, above, bytes(3) + above):
        a, b, c = abs(up - corner), abs(left - corner), abs(left + up - 2 * corner)
        out.append((here - (left if a <= b and a <= c else up if b <= c else corner)) & 255)
    return out


def png_of_photo(picture):
    width, height, pixels = picture
    above, rows = bytes(3 * width), []
    for y in range(height):
        row = pixels[y * 3 * width:(y + 1) * 3 * width]
        rows.append(paeth(row, above))
        above = row
    return png(width, height, 2, rows)


def png_of_few_colours(picture):
    """Colours that share their leading bits become one, their mean, so that there are 256."""
    width, height, pixels = picture
    all_pixels = list(zip(pixels[0::3], pixels[1::3], pixels[2::3]))
    for drop in range(8):
        keys = [r >> drop << 16 | g >> drop << 8 | b >> drop for r, g, b in all_pixels]
        if len(set(keys)) <= 256:
            break
    sums = {}
    for key, pixel in zip(keys, all_pixels):
        total = sums.setdefault(key, [0, 0, 0, 0])
        for n in range(3):
            total[n] += pixel[n]
        total[3] += 1
    order = {key: n for n, key in enumerate(sorted(sums))}
    palette = bytes(sums[key][n] // sums[key][3] for key in order for n in range(3))
    indexes = bytes(map(order.__getitem__, keys))
    rows = [b'\0' + indexes[y * width:(y + 1) * width] for y in range(height)]
    return png(width, height, 3, rows, palette)


def image(data, picture, alt):
    uri = 'data:image/png;base64,' + base64.b64encode(data).decode('ascii')
    return (f'<img src="{uri}" width="{picture[0]}" height="{picture[1]}" '
            f'alt="{html.escape(alt)}">')


# ---- the schedule, drawn ---------------------------------------------------------


class Node:
    def __init__(self, lane, text, kind):
        self.lane, self.text, self.kind = lane, text, kind
        self.before, self.level = [], None


def parse_dot(dot):
    """Lanes, nodes by name in the order of the text, and the arrows between lanes."""
    lanes, nodes, arrows = [], {}, []
    for line in dot.splitlines():
        lane = re.match(r'    label="(.*)";', line)
        node = re.match(r'    (n\d+) \[label="(\d+): (.*?)"(, shape=ellipse)?\];', line)
        edge = re.match(r' +(n\d+) -> (n\d+)( \[style=dashed.*\])?;', line)
        if lane:
            lanes.append(lane[1])
        elif node:
            text = re.sub(r' \(\d+ waiting\)$', '', node[3])
            kind = text.split()[0] if node[4] else 'call'
            nodes[node[1]] = Node(len(lanes) - 1, text, kind)
        elif edge:
            arrows.append((edge[1], edge[2], bool(edge[3])))
    for one, other, _ in arrows:
        nodes[other].before.append(nodes[one])
    return lanes, nodes, [(nodes[a], nodes[b]) for a, b, dashed in arrows if dashed]


def place(node):
    """A level below all that comes before it."""
    if node.level is None:
        node.level = 1 + max((place(one) for one in node.before), default=-1)
    return node.level


LANE, TALL, HEAD = 190, 28, 36         # the width of a lane, the height of a level, the names'


def box(node, x, y):
    half, high = (70, 11) if node.kind == 'call' else (30, 8)
    text = node.text.split(' ', 1)[1] if node.kind == 'call' else node.kind.lower()
    return (f'<g class="{node.kind.lower()}"><rect x="{x - half}" y="{y - high}" '
            f'width="{2 * half}" height="{2 * high}" rx="{4 if node.kind == "call" else high}"/>'
            f'<text x="{x}" y="{y + 4}">{html.escape(text)}</text></g>')


def draw(dot):
    """An SVG with a column for each list, time going down."""
    lanes, nodes, arrows = parse_dot(dot)
    height = HEAD + TALL * (1 + max(map(place, nodes.values()))) + 8

    def at(node):
        return LANE * node.lane + LANE // 2, HEAD + TALL * node.level + TALL // 2
    out = [f'<svg viewBox="0 0 {LANE * len(lanes)} {height}" role="img" '
           'aria-label="the schedule as a graph">',
           '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
           'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z"/></marker></defs>']
    for n, lane in enumerate(lanes):
        out.append(f'<rect class="lane" x="{LANE * n + 6}" y="2" width="{LANE - 12}" '
                   f'height="{height - 4}" rx="6"/><text class="name" '
                   f'x="{LANE * n + LANE // 2}" y="26">{html.escape(lane)}</text>')
    for n in range(len(lanes)):
        mine = [node for node in nodes.values() if node.lane == n]
        for one, other in zip(mine, mine[1:]):
            out.append('<path class="line" d="M{} {}V{}"/>'.format(*at(one), at(other)[1]))
    for one, other in arrows:
        (x, y), (to_x, to_y) = at(one), at(other)
        side = 30 if to_x > x else -30
        out.append(f'<path class="arrow" d="M{x + side} {y}C{(x + to_x) // 2} {y} '
                   f'{(x + to_x) // 2} {to_y} {to_x - side} {to_y}"/>')
    out += [box(node, *at(node)) for node in nodes.values()]
    return '\n'.join(out) + '</svg>'


# ---- texts -----------------------------------------------------------------------


def code(text):
    """C with its comments, strings and preprocessor lines marked."""
    parts = re.split(r'(/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|^ *#(?:[^\n/]|/(?!\*))*)',
                     text, flags=re.S | re.M)
    for n in range(1, len(parts), 2):
        kind = {'/': 'c', '"': 's'}.get(parts[n][0], 'p')
        parts[n] = f'<i class="{kind}">{html.escape(parts[n], quote=False)}</i>'
    parts[0::2] = [html.escape(part, quote=False) for part in parts[0::2]]
    return '<pre class="code">' + ''.join(parts).rstrip() + '</pre>'


def terminal(*runs):
    """Commands and what they said; lines with times are measured."""
    out = []
    for command, said in runs:
        out += ['<b>$ ' + html.escape(part, quote=False) + '</b>'
                for part in command.split(' && ')]
        for line in said.rstrip().splitlines():
            line = html.escape(line, quote=False)
            out.append(f'<span class="measured">{line}</span>' if re.search(r'\d ms\b', line)
                       else line)
    return '<pre class="terminal">' + '\n'.join(out) + '</pre>'


def part_of(text, begin, end, what):
    """From the line that begins with `begin` to the next that is `end`."""
    found = re.search(f'^{re.escape(begin)}.*?^{re.escape(end)}$', text, re.S | re.M)
    if not found:
        raise Failed(f'{what}: no "{begin}" to "{end}"')
    lines = found[0].splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    return '\n'.join(line[indent:] for line in lines)


def source(path):
    return f'<a href="../{path}">{path}</a>'


def inline(text):
    return re.sub('`(.*?)`', r'<code>\1</code>', html.escape(text, quote=False))


def tables_of(text):
    """Tables of Markdown with the paragraph before each: words and rows of cells."""
    words = ''
    for block in re.split(r'\n\s*\n', text):
        if not block.startswith('|'):
            words = block
            continue
        rows = [[cell.strip() for cell in line.strip('|').split('|')]
                for line in block.splitlines()]
        yield ' '.join(words.split()).strip('# :'), rows


def chosen(rows, left):
    """Those rows of ROWS that nobody has shown yet."""
    for row in rows:
        name = re.match('`([^`]*)`', row[0])
        if name and name[1] in left and len(row) >= 4:
            left.remove(name[1])
            yield row[:4]


# ---- sections --------------------------------------------------------------------


def section(name, title, *parts):
    return f'<section id="{name}">\n<h2>{title}</h2>\n' + '\n'.join(parts) + '\n</section>\n'


def hello(shell):
    command = 'cc examples/hello.c -pthread && ./a.out'
    said = shell.run(command, whole=True)
    parts = [f'<p>{source("examples/hello.c")}, as it is:</p>', code(read('examples', 'hello.c')),
             f'<p>{source("examples/hello.k")}, its kernel, is C, GLSL and CUDA C++ at once:</p>',
             code(read('examples', 'hello.k')),
             '<p>No build system, nothing to link, and it says what happened:</p>',
             terminal((command, said))]
    return section('hello', 'A whole program', *parts)


def hello_on_vulkan(shell):
    command = 'cc -DHCQ_VULKAN examples/hello.c -pthread && ./a.out VULKAN'
    return section('vulkan', 'The same on Vulkan',
                   '<p>The backends that are compiled in stand beside each other, and the device '
                   'is chosen when the program runs. libvulkan is opened then, not linked.</p>',
                   terminal((command, shell.run(command))))


def photo(shell):
    before = shrink(read_ppm(os.path.join(ROOT, 'examples', 'data', 'flower_640x427.ppm')),
                    PHOTO_WIDTH)
    write_ppm(shell.path('flower.ppm'), before)
    build = 'cc -O2 examples/photo.c -o photo -pthread'
    shell.run(build)
    command = './photo flower.ppm edges.ppm'
    said = shell.run(command)
    after = read_ppm(shell.path('edges.ppm'))
    return section(
        'photo', 'A photograph in bands',
        f'<p>{source("examples/photo.c")} softens a photograph and inks its edges, band by band: '
        'while three kernels work on one band, the next is uploaded and the last downloaded. '
        'Only signals order the lanes.</p>',
        '<div class="pair">',
        '<figure>' + image(png_of_photo(before), before, 'a dahlia before green leaves') +
        '<figcaption>before</figcaption></figure>',
        '<figure>' + image(png_of_photo(after), after,
                           'the same dahlia, each petal outlined in black') +
        '<figcaption>after, byte for byte what plain C makes of it</figcaption></figure>',
        '</div>', terminal((build, ''), (command, said)),
        '<p class="small">Photograph by vultilion, '
        '<a href="https://creativecommons.org/licenses/by/2.0/">CC BY 2.0</a>, scaled down here '
        'and filtered.</p>')


def particles(shell):
    build = 'cc -O2 examples/engine.c -o engine -pthread -lvulkan'
    shell.run(build)
    command = './engine engine.ppm'
    said = shell.run(command)
    drawn = read_ppm(shell.path('engine.ppm'))
    small = shrink(drawn, PARTICLES_WIDTH)
    return section(
        'particles', 'Particles in an engine&rsquo;s own buffer',
        f'<p>In {source("examples/engine.c")} an engine lends its Vulkan device. hcq moves the '
        'particles in the engine&rsquo;s <code>VkBuffer</code> and on its one queue, the engine '
        'adds them to the picture as points of light. Each waits for the other on the device; '
        'the host waits for none of the frames.</p>',
        '<figure>' + image(png_of_few_colours(small), small,
                           'streams of blue and amber light that turn around whirls') +
        f'<figcaption>what {said.split(",")[0].split(": ")[1]} have added up to, checked against '
        f'plain C; drawn with {drawn[0]} &times; {drawn[1]} pixels, scaled down here'
        '</figcaption></figure>',
        terminal((build, ''), (command, said)))


def schedule(shell):
    """Two sections: the plan, and how it ran."""
    build = 'cc -O2 docs/schedule.c -o schedule -pthread'
    shell.run(build)
    command = './schedule schedule.dot profile.html'
    said = shell.run(command)
    record = part_of(read('docs', 'schedule.c'), '/* What waits for what', '}', 'schedule.c')
    page = html.escape(shell.text('profile.html'))
    return section(
        'schedule', 'A graph, and its schedule',
        '<p>A graph is recorded like a queue, over buffers of any devices. Three bands of numbers '
        f'go through two devices here ({source("docs/schedule.c")}):</p>', code(record),
        '<p><code>hcq_graph_dot</code> writes the schedule of one step at a time: a list for each '
        'device and one for its copies, a sync where another list waits. Read from above; dashed: '
        'who waits for whom. A launch needs fewer waits than these.</p>',
        '<div class="wide">' + draw(shell.text('schedule.dot')) + '</div>',
        terminal((build, ''), (command, said))), section(
        'profile', 'The same graph, as it ran',
        '<p>This is the page that <code>hcq_profile_save</code> wrote for the fastest of its '
        'launches, as it is: one file that needs nothing else. Copies have left their '
        'device&rsquo;s compute lane where they can run beside a kernel.</p>',
        '<input type="checkbox" id="live"><label for="live"> use it (then the wheel zooms)'
        '</label>',
        f'<iframe title="a profile" srcdoc="{page}"></iframe>')


def race(shell):
    build = 'cc -pthread examples/race.c -o race'
    shell.run(build, whole=True)
    command = './race'
    said = shell.run(command)
    loop = part_of(read('examples', 'race.c'), '    for (uint32_t f = 0; f < FRAMES', '    }',
                   'race.c')
    return section(
        'race', 'A wait that is missing',
        f'<p>{source("examples/race.c")} has three frames in flight, and leaves out the wait that '
        'keeps a frame&rsquo;s slot until it is free:</p>', code(loop),
        '<p>The checker (<code>hcq_check.h</code>) goes by what orders commands, not by when they '
        'ran: it tells on the first run, whether or not they met this time. Then the frames run in '
        'other orders that a device may choose, and two queues that wait for each other are '
        'proven to be a deadlock instead of hanging.</p>',
        terminal((build, ''), (command, said)))


def figures():
    """Rows of the benchmark, as its tables in the documentation have them; '': none."""
    left, parts = list(ROWS), []
    names = [name for name in ('docs/benchmarks.md', 'README.md')
             if os.path.exists(os.path.join(ROOT, name))]
    for name in names:
        for words, rows in tables_of(read(*name.split('/'))):
            mine = list(chosen(rows, left))
            if not mine:
                continue
            parts.append(f'<p>{inline(words)}:</p>\n<div class="wide"><table>\n<tr>' +
                         ''.join(f'<th>{inline(cell)}</th>' for cell in rows[0][:4]) + '</tr>')
            parts += ['<tr>' + ''.join(f'<td>{inline(cell)}</td>' for cell in row) + '</tr>'
                      for row in mine]
            parts.append('</table></div>')
        if parts:
            break
    if not parts:
        return ''
    return section('figures', 'What it costs',
                   '<p>hcq next to the other side, both measured in one run; ratio: hcq&rsquo;s '
                   f'cost over the other side&rsquo;s. Some of the rows in {source(name)}.</p>',
                   *parts)


# ---- the page --------------------------------------------------------------------

STYLE = '''
:root { color-scheme: light dark; --back: #fdfdfb; --text: #1d2126; --soft: #626a73;
  --line: #dcdcd6; --panel: #f4f4ef; --link: #0b5cad; --note: #6d7b3c; --string: #9a4b00;
  --call: #dfe9f6; --edge: #3c6ea8; --lane: #f4f4ef }
@media (prefers-color-scheme: dark) { :root { --back: #15181b; --text: #e2e4e6; --soft: #9aa2aa;
  --line: #32373c; --panel: #1d2125; --link: #7db8f5; --note: #a3b26a; --string: #e0a36b;
  --call: #23384f; --edge: #6fa3dc; --lane: #1d2125 } }
* { box-sizing: border-box }
html { -webkit-text-size-adjust: 100% }
body { margin: 0 auto; max-width: 60rem; padding: 0 1.25rem 3rem; background: var(--back);
  color: var(--text); font: 1rem/1.6 system-ui, sans-serif }
header { padding: 3.5rem 0 .5rem }
h1 { font-size: 3rem; line-height: 1.1; margin: 0 0 .75rem; letter-spacing: -.02em }
h2 { font-size: 1.4rem; line-height: 1.3; margin: 3.25rem 0 .75rem; letter-spacing: -.01em }
p { max-width: 42rem; margin: .75rem 0 }
header p { font-size: 1.15rem }
a { color: var(--link); text-underline-offset: .15em }
nav { color: var(--soft); font-size: .95rem; line-height: 2 }
nav a { margin-right: 1.1rem; white-space: nowrap }
code, pre { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace }
code { font-size: .9em }
pre { font-size: .8rem; line-height: 1.5; margin: .75rem 0; padding: .8rem 1rem; overflow-x: auto;
  background: var(--panel); border: 1px solid var(--line); border-radius: 6px; tab-size: 4 }
.code i { font-style: normal }
.code .c { color: var(--note) }
.code .s { color: var(--string) }
.code .p { color: var(--edge) }
.terminal { border-left: 3px solid var(--edge); white-space: pre-wrap; overflow-wrap: anywhere }
figure { margin: 1rem 0 }
figcaption, .small, footer { color: var(--soft); font-size: .875rem }
figcaption { margin-top: .35rem }
img { display: block; width: 100%; height: auto; border-radius: 4px }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem }
.pair figure { margin: .25rem 0 }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-size: .9rem; line-height: 1.45; min-width: 36rem;
  font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .4rem 1rem .4rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top }
th { font-weight: 600; color: var(--soft) }
svg { display: block; width: 100%; min-width: 34rem; max-width: 48rem; height: auto;
  font: 12.5px system-ui, sans-serif; fill: var(--text); text-anchor: middle; margin: 1rem 0 }
svg .lane { fill: var(--lane); stroke: var(--line) }
svg .name { font-weight: 600; font-size: 14px }
svg rect { stroke: var(--edge); fill: var(--call) }
svg .sync rect, svg .wait rect { fill: var(--back); stroke: var(--soft) }
svg .sync text, svg .wait text { font-size: 11px; fill: var(--soft) }
svg path { fill: none; stroke: var(--soft) }
svg .arrow { stroke: var(--edge); stroke-width: 1.4; stroke-dasharray: 5 3;
  marker-end: url(#tip) }
svg marker path { fill: var(--edge); stroke: none }
iframe { display: block; width: 100%; height: 44rem; margin: .75rem 0; background: Canvas;
  border: 1px solid var(--line); border-radius: 6px }
#live { margin: 0 .2rem 0 0; vertical-align: -.1em }
#live + label { font-size: .9rem; color: var(--soft) }
#live:not(:checked) ~ iframe { pointer-events: none }
footer { border-top: 1px solid var(--line); margin-top: 3.5rem; padding-top: .75rem }
@media (max-width: 40rem) { body { padding: 0 1rem 2rem } header { padding-top: 2rem }
  .pair { grid-template-columns: 1fr } h1 { font-size: 2.5rem } pre { font-size: .75rem } }
'''


def version():
    numbers = re.findall(r'#define HCQ_VERSION_(?:MAJOR|MINOR|PATCH) +(\d+)', read('hcq.h'))
    return '.'.join(numbers[:3])


def compiler():
    done = subprocess.run(CC.split() + ['--version'], text=True, stdout=subprocess.PIPE, check=True)
    return done.stdout.splitlines()[0]


def write_page(sections):
    contents = [re.search('<section id="(.*?)">\n<h2>(.*?)</h2>', one) for one in sections]
    links = '\n'.join(f'<a href="#{found[1]}">{found[2]}</a>' for found in contents)
    machine = f'{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, {compiler()}'
    return f'''<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>hcq</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="description" content="Command queues for CPUs, Vulkan and CUDA, in a C header.">
<link rel="icon" href="data:,">
<style>{STYLE}</style></head><body>
<header><h1>hcq</h1>
<p>Command queues for CPUs, Vulkan and CUDA, in one C header. Queues are recorded once and
submitted many times; 64-bit signals order everything; an allocator follows them; graphs know
from what is read and written what has to wait for what. The same program runs on each of them,
kernels included.</p>
<p class="small">Version {version()}. MIT or public domain. The
<a href="../README.md">README</a> explains it, the header part of
<a href="../hcq.h">hcq.h</a> is the reference.</p>
<nav>{links}</nav></header>
{''.join(sections)}<footer>Made by {source("docs/page.py")}, which built and ran the programs
that are shown and took what they wrote as it is:
<span class="measured">{html.escape(machine)}</span>.</footer>
</body></html>
'''


def has_vulkan(shell):
    """Headers and a library to link with: are they there?"""
    probe = shell.path('probe.c')
    with open(probe, 'w', encoding='utf-8') as file:
        file.write('#include <vulkan/vulkan.h>\nint main(void) { return 0; }\n')
    done = subprocess.run([*CC.split(), probe, '-o', shell.path('probe'), '-lvulkan'],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode == 0


def on_vulkan(shell, make):
    """A section, or none where there is no Vulkan, said on stderr."""
    try:
        if has_vulkan(shell):
            return [make(shell)]
        why = 'no Vulkan to compile with'
    except Failed as failed:
        if not re.search('no such device|no Vulkan|no queue', str(failed)):
            raise
        why = str(failed).strip().splitlines()[-1]
    print(f'page.py: without "{make.__name__}": {why}', file=sys.stderr)
    return []


def make(shell):
    sections = [hello(shell)]
    sections += on_vulkan(shell, hello_on_vulkan)
    sections.append(photo(shell))
    sections += on_vulkan(shell, particles)
    sections += schedule(shell)
    sections.append(race(shell))
    sections += filter(None, [figures()])
    return write_page(sections)


def main(arguments):
    implementation = None
    if arguments[:1] == ['--object'] and len(arguments) > 1:
        implementation, arguments = os.path.abspath(arguments[1]), arguments[2:]
    if len(arguments) > 1 or arguments[:1] and arguments[0].startswith('-'):
        print(__doc__.split(':')[0], file=sys.stderr)
        return 2
    path = arguments[0] if arguments else os.path.join(ROOT, 'docs', 'index.html')
    folder = tempfile.mkdtemp()
    try:
        page = make(Shell(folder, implementation))
    except Failed as failed:
        print('page.py:', failed, file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(folder)
    with open(path, 'w', encoding='utf-8', newline='\n') as file:
        file.write(page)
    print(f'{path}: {len(page.encode("utf-8"))} bytes')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
