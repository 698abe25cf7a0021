#!/usr/bin/env python3
"""profile.py DIRECTORY: opens what profile.c wrote there. The trace is read by a
strict JSON parser: lanes, bars in order, arrows from the right bar to the right bar.
The page is drawn by Chromium without a window: lanes, bars and arrows are counted in
what it made of it. The summary's sums are those of the trace."""
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys

LANES = [(device, kind, '0') for device in ('CPU', 'CPU:1')
         for kind in ('compute', 'copy', 'host')]
SYNCS = 3                              # two on the first device, one on the other
ODD, SNOW = '</script>"\\<b>&\'\t\x01', '\u2603 \U0001f600'
CUT = 'thirty-one bytes end inside a \ufffd'  # in a character
COMMANDS = (('fill', 'fill', 1, 65536), ('mix', 'exec', 1, 0), ('add', 'exec', 2, 0),
            ('to the other one', 'copy', 1, 65536), ('and back', 'copy', 1, 65536),
            (ODD, 'exec', 1, 0), (SNOW, 'exec', 1, 0), ('write', 'write', 1, 8),
            (CUT, 'host', 1, 0))       # names, kinds, calls of a launch, bytes
WAITS = ((1, 2), (2, 4), (4, 5), (5, 7))  # of commands for others on another lane
SIZES = {'few': 3, 'many': 400}        # launches


def no_constant(name):
    raise ValueError('not JSON: ' + name)


def read(name):
    with open(os.path.join(folder, name), 'rb') as file:
        return file.read().decode('utf-8')


def ns(microseconds):
    return round(microseconds * 1000)


# ---- the trace


def check_lanes(events):
    """Names of all lanes; bars by lane, in order, none over its neighbour."""
    meta = [e for e in events if e['ph'] == 'M']
    process = {e['pid']: e['args']['name'] for e in meta if e['name'] == 'process_name'}
    thread = {(e['pid'], e['tid']): e['args']['name'] for e in meta if e['name'] == 'thread_name'}
    lanes = {lane: [] for lane in thread}
    for bar in (e for e in events if e['ph'] == 'X'):
        lanes[bar['pid'], bar['tid']].append(bar)
        assert (thread[bar['pid'], bar['tid']] == 'host 0') == (bar['cat'] == 'synchronize'), bar
    for bars in lanes.values():
        bars.sort(key=lambda bar: (bar['ts'], bar['dur']))
        for one, next_one in zip(bars, bars[1:]):
            assert ns(one['ts']) + ns(one['dur']) <= ns(next_one['ts']), (one, next_one)
    names = sorted((process[pid], name) for (pid, tid), name in thread.items())
    assert names == [(device, f'{kind} {number}') for device, kind, number in LANES], names
    return lanes


def bar_at(lanes, end):
    """The bar that an arrow's end is bound to: the last that has begun by then."""
    begun = [bar for bar in lanes[end['pid'], end['tid']] if ns(bar['ts']) <= ns(end['ts'])]
    assert begun, end
    assert ns(end['ts']) <= ns(begun[-1]['ts']) + ns(begun[-1]['dur']), (end, begun[-1])
    return begun[-1]


def check_arrows(events, lanes, launches):
    begins = {e['id']: e for e in events if e['ph'] == 's'}
    ends = {e['id']: e for e in events if e['ph'] == 'f'}
    assert sum(e['ph'] in 'sf' for e in events) == 2 * len(begins)
    assert begins.keys() == ends.keys()
    seen = {}
    for number, begin in begins.items():
        end = ends[number]
        assert end['bp'] == 'e' and begin['ts'] <= end['ts'], (begin, end)
        assert begin['cat'] == end['cat'] and begin['name'] == end['name'], (begin, end)
        bar, later = bar_at(lanes, begin), bar_at(lanes, end)
        commands = bar['args']['command'], later['args']['command']
        seen[commands] = seen.get(commands, 0) + 1
    assert seen == {wait: launches for wait in WAITS}, seen


def check_bars(bars, launches):
    names = {}
    for bar in bars:
        names.setdefault((bar['name'], bar['cat']), []).append(bar)
        assert bar['args']['queue'] == 'the "graph"', bar
        assert bar['args']['kind'] == bar['cat'], bar
        if bar['args']['bytes'] and ns(bar['dur']):
            assert abs(bar['args']['GB/s'] - bar['args']['bytes'] / ns(bar['dur'])) < .001, bar
        else:
            assert 'GB/s' not in bar['args'], bar
    for name, kind, calls, size in COMMANDS:
        found = names.pop((name, kind), [])
        assert len(found) == calls * launches, (name, len(found))
        assert all(bar['args']['bytes'] == size for bar in found), name
    assert not names, names.keys()


def check_summary(text, bars):
    """A row per name: calls, total, median; the largest total first."""
    times = {}
    for bar in bars:
        times.setdefault(bar['name'], []).append(ns(bar['dur']))
    want = []
    for _, _, name, t in sorted((-sum(t), name.encode(), name, t) for name, t in times.items()):
        total, median = sum(t), sorted(t)[(len(t) - 1) // 2]
        want.append((re.sub('[\x00-\x1f\x7f\ufffd]', '?', name), str(len(t)),
                     '%d.%03d' % (total // 10**6, total % 10**6 // 1000),
                     '%d.%03d' % (median // 1000, median % 1000)))
    lines = text.splitlines()
    rows, last = lines[1:1 + len(want)], lines[1 + len(want):]
    got = [(line[:32].rstrip(), *line[32:].split()[:3]) for line in rows]
    assert got == want, (got, want)
    shares = [float(line[32:].split()[3]) for line in rows]
    assert abs(sum(shares) - 100) < 1, shares
    assert last[0].startswith('%d commands on 4 lanes' % len(bars)), last
    assert re.match(r'synchronizations: 2 on CPU in \d+\.\d{3} ms, 1 on CPU:1 in \d+\.\d{3} ms, '
                    'events lost: 0, ', last[-1]), last


def check_page(text, bars, arrows):
    """Nothing from elsewhere, no name that ends the script that it stands in."""
    places = set(re.findall('[a-z]+://[^\'" ]*', text))
    assert places <= {'http://www.w3.org/2000/svg'}, places
    assert not re.search('<link[^>]*href=.(?!data:)|@import|src=', text)
    assert len(re.findall('<script', text)) == len(re.findall('</script', text)) == 2
    data = re.search("<script type='application/json' id='data'>\n(.*?)</script>", text, re.S)
    events = json.loads(data.group(1), parse_constant=no_constant)['traceEvents']
    shown = [e for e in events if e['ph'] == 'X']
    waits = [e['args'] for e in events if e['ph'] == 's']
    assert len(shown) == bars + SYNCS and len(waits) == arrows
    for wait in waits:                 # bars by their places
        commands = shown[wait['from']]['args']['command'], shown[wait['to']]['args']['command']
        assert commands in WAITS, commands


def check_files(name, launches):
    trace = json.loads(read(name + '.json'), parse_constant=no_constant)
    events, other = trace['traceEvents'], trace['otherData']
    lanes = check_lanes(events)
    bars = [e for e in events if e['ph'] == 'X' and e['cat'] != 'synchronize']
    assert min(bar['ts'] for bar in bars) == 0
    check_bars(bars, launches)
    check_arrows(events, lanes, launches)
    assert other['lost_events'] == 0 and other['synchronizations'] == SYNCS, other
    assert 0 <= other['clock_error_ns'] < 10**9
    check_summary(read(name + '.txt'), bars)
    check_page(read(name + '.html'), len(bars), len(WAITS) * launches)


# ---- the page as it is drawn


class Drawn(html.parser.HTMLParser):
    """Lanes with their bars, arrows, and texts by the id or class around them."""

    def __init__(self):
        super().__init__()
        self.lanes, self.arrows, self.texts, self.open = [], [], {}, []

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        names = (a.get('class') or '').split()
        if 'lane' in names:
            self.lanes.append((a, []))
        if 'bar' in names:
            assert any('lane' in names for _, names in self.open), 'a bar outside of any lane'
            self.lanes[-1][1].append(a)
        if 'arrow' in names:
            self.arrows.append(a)
        if tag not in ('meta', 'link', 'input', 'br'):
            self.open.append((tag, names + [a.get('id')]))

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        for name in {name for _, names in self.open for name in names}:
            self.texts.setdefault(name, []).append(data)


def draw(browser, name, width):
    """What Chromium makes of a page in a window of this width."""
    drawn = Drawn()
    drawn.feed(subprocess.run(
        [browser, '--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
         '--no-first-run', f'--user-data-dir={folder}/browser', '--hide-scrollbars',
         f'--window-size={width},900', '--dump-dom', f'file://{folder}/{name}.html'],
        stdout=subprocess.PIPE, check=True).stdout.decode('utf-8'))
    return drawn


def check_drawn(drawn, name, launches):
    assert [(a['data-device'], a['data-kind'], a['data-lane']) for a, _ in drawn.lanes] == LANES
    bars = 10 * launches + SYNCS
    for lane, rects in drawn.lanes:
        assert rects, lane
        bars -= sum(int(rect['data-count']) for rect in rects)
        for one, next_one in zip(rects, rects[1:]):
            assert float(one['x']) <= float(next_one['x']), (one, next_one)
            assert float(one['x']) + float(one['width']) < float(next_one['x']) + 1.1, next_one
        assert len({rect['y'] for rect in rects}) == 1, lane  # nothing overlaps: one row
    assert bars == 0, bars
    note = ''.join(drawn.texts.get('note', []))
    arrows = sum(int(a['data-count']) for a in drawn.arrows)
    assert arrows == len(WAITS) * launches or (
        name == 'many' and not arrows and note.startswith('Zoom in')), (arrows, note)
    assert not any('NaN' in a['d'] for a in drawn.arrows)
    legend = ''.join(drawn.texts['legend'])
    for label, *_ in COMMANDS:
        assert label.split('\t')[0] in legend, (label, legend)
    assert 'synchronize' not in legend, legend
    facts = ''.join(drawn.texts['facts'])
    for part in ('2 devices', '4 lanes', f'{10 * launches:,} commands', '3 synchronizations'):
        assert part in facts, (part, facts)
    assert drawn.texts.get('tick'), 'no axis'
    # One bar is most of the picture, so that there is room for its name.
    assert CUT in drawn.texts.get('label', []), 'no label'
    assert drawn.texts.get('time'), 'no duration'


folder = os.path.abspath(sys.argv[1])
for base, count in SIZES.items():
    check_files(base, count)
chromium = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser', 'google-chrome'))),
                None)
if not chromium:
    print('no chromium')
    sys.exit(77)
# The few bars and arrows are drawn one by one; the many, in a narrow window, lie
# upon each other.
check_drawn(draw(chromium, 'few', 1400), 'few', SIZES['few'])
check_drawn(draw(chromium, 'many', 500), 'many', SIZES['many'])
print('ok:', ', '.join(f'{base}: {10 * count} bars' for base, count in SIZES.items()))
