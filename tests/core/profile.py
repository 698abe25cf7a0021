#!/usr/bin/env python3
"""profile.py DIRECTORY [--big]: opens what profile.c wrote there. The trace is read by a
strict JSON parser: lanes, bars in order, arrows from the right bar to the right bar.
The page is drawn by Chromium without a window: lanes, bars and arrows are counted in
what it made of it, its table is sorted, keys are pressed, a link is followed. The
summary's rows are those of the trace."""
import atexit
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
import types

LANES = [(device, kind, '0') for device in ('CPU', 'CPU:1')
         for kind in ('compute', 'copy', 'host')]
SYNCS = 3                              # two on the first device, one on the other
ODD, SNOW = '</script>"\\<b>&\'\t\x01', '\u2603 \U0001f600'
CUT = 'thirty-one bytes end before a-'  # character that would be cut
COMMANDS = (('fill', 'fill', 1, 65536), ('mix', 'exec', 1, 0), ('add', 'exec', 2, 0),
            ('to the other one', 'copy', 1, 65536), ('and back', 'copy', 1, 65536),
            (ODD, 'exec', 1, 0), (SNOW, 'exec', 1, 0), ('write', 'write', 1, 8),
            (CUT, 'host', 1, 0))       # names, kinds, calls of a launch, bytes
WAITS = ((1, 2), (2, 4), (4, 5), (5, 7))  # of commands for others on another lane
SIZES = {'few': 3, 'many': 400}        # launches
RACES = 2
GRIDS = {'mix': '4x1x1', 'add': '4x1x1', ODD: '4x1x1', SNOW: '4x1x1'}


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
    seen, shown = {}, [e for e in events if e['ph'] == 'X']
    for number, begin in begins.items():
        end = ends[number]
        assert end['bp'] == 'e' and begin['ts'] <= end['ts'], (begin, end)
        assert begin['cat'] == end['cat'] and begin['name'] == end['name'], (begin, end)
        bar, later = bar_at(lanes, begin), bar_at(lanes, end)
        assert [shown[begin['args'][at]] for at in ('from', 'to')] == [bar, later], begin
        commands = bar['args']['command'], later['args']['command']
        seen[commands] = seen.get(commands, 0) + 1
    assert seen == {wait: launches for wait in WAITS}, seen


def check_bars(bars, launches):
    names = {}
    for bar in bars:
        names.setdefault((bar['name'], bar['cat']), []).append(bar)
        assert bar['args']['queue'] == 'the "graph"', bar
        assert bar['args'].get('grid') == GRIDS.get(bar['name']), bar
        if bar['args'].get('bytes') and ns(bar['dur']):
            assert abs(bar['args']['GB/s'] - bar['args']['bytes'] / ns(bar['dur'])) < .001, bar
        else:
            assert 'GB/s' not in bar['args'], bar
    for name, kind, calls, size in COMMANDS:
        found = names.pop((name, kind), [])
        assert len(found) == calls * launches, (name, len(found))
        assert all(bar['args'].get('bytes', 0) == size for bar in found), name
    assert not names, names.keys()


def table_of(bars):
    """What the table is to say: name, grid, and in nanoseconds total, median, min, max."""
    rows = {}
    for bar in bars:
        rows.setdefault((bar['name'], bar['args'].get('grid', '')), []).append(ns(bar['dur']))
    rows = [(name, grid, sorted(t)) for (name, grid), t in rows.items()]
    rows.sort(key=lambda row: (-sum(row[2]), row[0].encode()))
    return [(name, grid, len(t), sum(t), t[(len(t) - 1) // 2], t[0], t[-1])
            for name, grid, t in rows]


def check_summary(text, bars):
    """A row per name and grid, the largest total first."""
    want = []
    for name, grid, count, total, *times in table_of(bars):
        want.append((re.sub('[\x00-\x1f\x7f\ufffd]', '?', name), grid, str(count),
                     '%d.%03d' % (total // 10**6, total % 10**6 // 1000),
                     *('%d.%03d' % (time // 1000, time % 1000) for time in times)))
    lines = text.splitlines()
    got = [(line[:32].rstrip(), line[100:], *line[32:].split()[:5])
           for line in lines[1:1 + len(want)]]
    assert got == want, (got, want)
    assert all(line == line.rstrip() for line in lines), lines
    assert re.fullmatch(r'%d events on 6 lanes in [0-9.]+ ms, %d dependencies, events lost: 0, '
                        r'clocks: \+-\d+ ns' % (len(bars), len(WAITS) * ((len(bars) - SYNCS) // 10)),
                        lines[-1]), lines


def check_page(text, trace):
    """Nothing from elsewhere, no name that ends the script that it stands in."""
    places = set(re.findall('[a-z]+://[^\'" ]*', text))
    assert places <= {'http://www.w3.org/2000/svg'}, places
    assert not re.search('<link[^>]*href=.(?!data:)|@import|src=', text)
    assert len(re.findall('<script', text)) == len(re.findall('</script', text)) == 2
    data = re.search("<script type='application/json' id='data'>\n(.*?)</script>", text, re.S)
    assert json.loads(data.group(1), parse_constant=no_constant) == trace


def check_files(name, launches):
    trace = json.loads(read(name + '.json'), parse_constant=no_constant)
    events, other = trace['traceEvents'], trace['otherData']
    lanes = check_lanes(events)
    bars = [e for e in events if e['ph'] == 'X' and e['cat'] != 'synchronize']
    assert min(bar['ts'] for bar in bars) == 0
    check_bars(bars, launches)
    check_arrows(events, lanes, launches)
    assert other['lost_events'] == 0, other
    assert 0 <= other['clock_error_ns'] < 10**9
    check_summary(read(name + '.txt'), [e for e in events if e['ph'] == 'X'])
    check_page(read(name + '.html'), trace)


def check_races():
    """Both, from the command itself to the other one; of CPU:1, which did nothing, not a word."""
    events = json.loads(read('race.json'), parse_constant=no_constant)['traceEvents']
    names = [e['args']['name'] for e in events if e['ph'] == 'M' and 'name' in e['args']]
    assert names == ['CPU', 'compute 0', 'CPU', 'copy 0', 'CPU', 'host 0'], names
    bars = [e for e in events if e['ph'] == 'X']
    assert (bars[0]['name'], bars[0]['args']['bytes']) == ('copyin', 65536), bars[0]
    races = [(bars[e['args']['from']], bars[e['args']['to']])
             for e in events if e['ph'] == 's' and e['cat'] == 'race']
    ends = [(one['name'], one['args']['submission'], other['name'], other['args']['submission'])
            for one, other in races]
    assert ends == [('left', 2 * i + 1, 'right', 2 * i + 2) for i in range(RACES)], ends
    assert f', 0 dependencies, {RACES} races, ' in read('race.txt'), read('race.txt')


# ---- the page as it is drawn


class Browser:
    """Chromium, told through a pipe what to do (the DevTools protocol: JSON, ended by a zero
    byte), so that a page is looked at when it is there, not after some time."""

    def __init__(self):
        name = next(filter(None, map(shutil.which, ('chromium', 'chromium-browser',
                                                    'google-chrome'))), None)
        if not name:
            print('no chromium')
            sys.exit(77)
        reads, self.asks = os.pipe()
        answers, writes = os.pipe()
        self.answers, self.asked = os.fdopen(answers, 'rb'), 0
        self.process = subprocess.Popen(
            ['sh', '-c', f'exec "$@" 3<&{reads} 4>&{writes}', 'sh', name, '--headless',
             '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
             f'--user-data-dir={folder}/browser', '--hide-scrollbars',
             '--remote-debugging-pipe'],
            pass_fds=(reads, writes), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(reads)
        os.close(writes)

    def ask(self, method, session=None, **params):
        self.asked += 1
        of = {'sessionId': session} if session else {}
        os.write(self.asks, json.dumps(
            {'id': self.asked, 'method': method, 'params': params, **of}).encode() + b'\0')
        message = bytearray()
        while True:
            message += self.answers.read(1) or sys.exit('Chromium has ended')
            if message[-1] == 0:
                answer = json.loads(message[:-1])
                if answer.get('id') == self.asked:
                    return answer.get('result', {})
                message.clear()

    def say(self, address, width, script):
        """What a script says of a page in a window of this width when it has been loaded."""
        page = self.ask('Target.createTarget', url=address, newWindow=True,
                        width=width, height=900)['targetId']
        session = self.ask('Target.attachToTarget', targetId=page, flatten=True)['sessionId']
        said = None
        while said is None:
            time.sleep(.02)
            said = self.ask(
                'Runtime.evaluate', session, awaitPromise=True, returnByValue=True,
                expression="document.readyState !== 'complete' || location.href === "
                f"'about:blank' ? null : (async () => {{ {script} }})()"
            ).get('result', {}).get('value')
        self.ask('Target.closeTarget', targetId=page)
        return said

    def end(self):
        os.close(self.asks)            # at which it ends
        self.process.wait()


USE = """draw();
const seen = [];
const all = (what, of = document) => [...of.querySelectorAll(what)];
const facts = e => Object.fromEntries([...e.attributes].map(a => [a.name, a.value]));
const rows = () => all('tr').map(row => [...row.cells].map(cell => cell.textContent));
const press = key => dispatchEvent(new KeyboardEvent('keydown', { key }));
const followed = () => new Promise(done => addEventListener('hashchange', done));
%s
draw();
return { seen, rows: rows(), lanes: all('.lane').map(e => [facts(e), all('.bar', e).map(facts)]),
  bars: all('.bar').length, arrows: all('.arrow').map(facts), subs: all('.sub').map(facts),
  links: all('a').map(facts), texts: Object.fromEntries(
    ['facts', 'note', 'info', 'axis', 'tick', 'label', 'time'].map(
      name => [name, all('#' + name + ', .' + name).map(e => e.textContent)])) };"""


def draw(name, width, script='', place=''):
    """What Chromium makes of a page in a window of this width, after what a user may do: the
    attributes of lanes with their bars, of arrows, submissions and links, rows, and texts."""
    said = browser.say(f'file://{folder}/{name}.html{place}', width, USE % script)
    drawn = types.SimpleNamespace(**said)
    assert drawn.bars == sum(len(bars) for _, bars in drawn.lanes), 'a bar outside of any lane'
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
    note = ''.join(drawn.texts['note'])
    arrows = sum(int(a['data-count']) for a in drawn.arrows)
    assert arrows == len(WAITS) * launches or (
        name == 'many' and not arrows and note.startswith('Zoom in')), (arrows, note)
    assert not any('NaN' in a['d'] for a in drawn.arrows)
    names = [row[0] for row in drawn.rows]
    for label, *_ in COMMANDS:
        assert any(label.split('\t')[0] in shown for shown in names), (label, names)
    facts = ''.join(drawn.texts['facts'])
    for part in ('2 devices', '6 lanes', f'{10 * launches + SYNCS:,} events'):
        assert part in facts, (part, facts)
    assert drawn.texts['tick'], 'no axis'
    # One bar is most of the picture, so that there is room for its name.
    assert CUT in drawn.texts['label'], 'no label'
    assert drawn.texts['time'], 'no duration'


def bars_of(name):
    events = json.loads(read(name + '.json'))['traceEvents']
    return [e for e in events if e['ph'] == 'X'], [e['args'] for e in events if e['ph'] == 's']


def check_submissions(drawn, bars):
    """Each is in a bracket over its bars."""
    shown = {number for sub in drawn.subs
             for number in range(int(sub['data-first']), int(sub['data-last']) + 1)}
    assert {bar['args']['submission'] for bar in bars if bar['cat'] != 'synchronize'} <= shown, shown


def check_table(bars):
    """The largest total first; a click on a head sorts by that, a second one turns it."""
    want = {(name.split('\t')[0], grid, count): (place, low)
            for place, (name, grid, count, _, _, low, _) in enumerate(table_of(bars))}
    keys = (lambda row: want[row][0], lambda row: row[0].encode('utf-16-be'),
            lambda row: -want[row][1], lambda row: want[row][1])
    tables = draw('few', 1400, """seen.push(rows());
        for (const i of [0, 4, 4]) {
          document.querySelectorAll('th')[i].click();
          seen.push(rows());
        }""").seen
    assert len(tables) == len(keys)
    for (head, *rows), key in zip(tables, keys):
        assert [title.split(' ')[0] for title in head] == [
            'name', 'count', 'total', 'median', 'min', 'max', 'GB/s', 'grid'], head
        rows = [(row[0].split('\t')[0], row[7], int(row[1])) for row in rows]
        assert sorted(rows) == sorted(want), rows
        assert list(map(key, rows)) == sorted(map(key, want)), rows


def check_keys():
    """Plus and minus, arrows, Home; the field finds names; no key in it moves anything."""
    drawn = draw('few', 1400, """for (const key of ['', '+', 'ArrowLeft', 'ArrowRight', '-',
          '+', 'Home']) {
          press(key);
          draw();
          seen.push(axis.textContent);
        }
        find.value = 'MIX';
        find.oninput();
        find.dispatchEvent(new KeyboardEvent('keydown', { key: '+', bubbles: true }));""")
    whole, near, left, right, back, again, home = drawn.seen
    assert whole == back == home and near == right == again, drawn.seen
    assert len({whole, near, left}) == 3, drawn.seen
    assert ''.join(drawn.texts['axis']) == whole, drawn.texts['axis']
    lit = [bar for _, bars in drawn.lanes for bar in bars if 'dim' not in bar['class'].split()]
    assert lit and sum(int(bar['data-count']) for bar in lit) == SIZES['few'], lit


def check_links(bars, waits):
    """The address names a command; the details lead to the one that it waited for."""
    wait = waits[0]
    one, other = bars[wait['from']], bars[wait['to']]
    drawn = draw('few', 1400, """const there = followed();
        seen.push(info.textContent);
        document.querySelector('#info a').click();
        await there;""", f'#{wait["to"]}')
    before, after = drawn.seen[0], ''.join(drawn.texts['info'])
    name = f'{one["name"]} of #{one["args"]["submission"]}'
    assert before.startswith(other['name']) and 'waited for ' + name in before, before
    assert after.startswith(one['name']) and 'waited for it ' + other['name'] in after, after
    assert f'#{wait["to"]}' in [link['href'] for link in drawn.links], drawn.links
    assert any('hot' in a['class'] and a['data-from'] == str(wait['from']) for a in drawn.arrows)


def check_races_drawn():
    waits = bars_of('race')[1]
    drawn = draw('race', 1400, '', f'#{waits[0]["from"]}')
    assert [(a['data-kind'], len(bars) > 0) for a, bars in drawn.lanes] == [
        ('compute', True), ('copy', True), ('host', True)], drawn.lanes
    arrows = [a for a in drawn.arrows if 'race' in a['class'].split()]
    races = {(str(race['from']), str(race['to'])) for race in waits}
    assert {(a['data-from'], a['data-to']) for a in arrows} == races and len(races) == RACES, arrows
    assert f'{RACES} races' in ''.join(drawn.texts['facts']), drawn.texts
    assert 'races with right of #2' in ''.join(drawn.texts['info']), drawn.texts


def check_shares():
    """Of a grid that three threads shared, with a bar for each; of one block: none."""
    bars, _ = bars_of('shares')
    assert [bar['args'].get('shares') for bar in bars] == [None, [33, 33, 34]] * 4, bars
    for number, want in (0, []), (1, ['11.6471px', '11.6471px', '12px']):
        drawn = draw('shares', 1400, """seen.push(
            [...document.querySelectorAll('#info u')].map(bar => bar.style.height));""",
                     f'#{number}')
        assert drawn.seen == [want], drawn.seen
        assert ('threads 33, 33, 34 %' in ''.join(drawn.texts['info'])) == bool(want), drawn.texts


def open_big():
    """Seconds of all CPUs that opening the page of 100,000 events takes, above an empty one."""
    with open(os.path.join(folder, 'empty.html'), 'w', encoding='utf-8') as file:
        file.write('<!doctype html>')
    seconds = {'empty': [], 'big': []}
    for name in list(seconds) * 2:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        one = Browser()
        facts = one.say(f'file://{folder}/{name}.html', 1400,
                        "return (document.getElementById('facts') || {textContent: ''}).textContent;")
        one.end()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert ('100,000 events' in facts) == (name == 'big'), facts
    return min(seconds['big']) - min(seconds['empty'])


folder = os.path.abspath(sys.argv[1])
if '--big' in sys.argv:
    took = open_big()
    assert took < 3, took
    print(f'ok: 100,000 events in {took:.2f} s')
    sys.exit()
browser = Browser()
atexit.register(browser.end)
for base, count in SIZES.items():
    check_files(base, count)
    # The few bars and arrows are drawn one by one; the many, in a narrow window, lie
    # upon each other.
    page = draw(base, 1400 if base == 'few' else 500)
    check_drawn(page, base, count)
    check_submissions(page, bars_of(base)[0])
check_races()
check_table(bars_of('few')[0])
check_keys()
check_links(*bars_of('few'))
check_races_drawn()
check_shares()
print('ok:', ', '.join(f'{base}: {10 * count} bars' for base, count in SIZES.items()))
