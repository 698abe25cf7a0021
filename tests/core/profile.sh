#!/bin/sh
# Profiles a graph on two devices and opens what is written as others would:
#
#     sh tests/core/profile.sh [CC]      [$CC, else cc]
#
# tests/core/profile.c checks the events and says what the files must show. The trace
# is read by a strict JSON parser: lanes, bars in order, arrows from the right bar
# to the right bar. The page is drawn by Chromium without a window: lanes, bars
# and arrows are counted in what it made of it. The summary's sums are those of
# the trace.
#
# Without python3 or chromium the rest is skipped; with CI=true it is a failure.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
cc=${1:-${CC:-cc}}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM

fail() {
    echo "profile: FAIL: $*" >&2
    exit 1
}

lacks() { # TOOL: ends as skipped, but not where everything has to be there
    [ "${CI:-}" != true ] || fail "no $1"
    echo "no $1"
    exit 77
}

# ---- the program ---------------------------------------------------------------

"$cc" -std=c11 -O2 -Wall -Wextra -Werror -I"$root" "$root/tests/core/profile.c" -o "$dir/profile" \
    -pthread || fail "profile.c does not compile"
"$dir/profile" "$dir" > "$dir/expected" || fail "profile ended with $?"
cat "$dir/expected"
for file in trace.json page.html summary.txt many.json many.html many.txt; do
    [ -s "$dir/$file" ] || fail "$file is empty"
done

# ---- trace and summary ---------------------------------------------------------

command -v python3 >/dev/null 2>&1 || lacks python3
cat > "$dir/files.py" <<'END_OF_PYTHON'
import json
import os
import re
import sys

folder = sys.argv[1]
expected, waits = {}, {}
for line in open(os.path.join(folder, 'expected')):
    word = line.split()
    if word[0] == 'wait':  # COMMAND is waited for by COMMAND
        waits[int(word[2])] = int(word[1])
    else:
        expected[word[0]] = dict(zip(word[1::2], map(int, word[2::2])))
ODD, SNOW = '</script>"\\<b>&\'\t\x01', '\u2603 \U0001f600'
CUT = 'thirty-one bytes end inside a \ufffd'  # in a character


def no_constant(name):
    raise ValueError('not JSON: ' + name)


def read(name):
    with open(os.path.join(folder, name), 'rb') as file:
        return file.read().decode('utf-8')


def ns(microseconds):
    return round(microseconds * 1000)


def check_lanes(events):
    """Names of all lanes; bars by lane, in order, none over its neighbour."""
    meta = [e for e in events if e['ph'] == 'M']
    process = {e['pid']: e['args']['name'] for e in meta if e['name'] == 'process_name'}
    thread = {(e['pid'], e['tid']): e['args']['name'] for e in meta if e['name'] == 'thread_name'}
    lanes = {lane: [] for lane in thread}
    for bar in (e for e in events if e['ph'] == 'X'):
        lanes[bar['pid'], bar['tid']].append(bar)
    for bars in lanes.values():
        bars.sort(key=lambda bar: (bar['ts'], bar['dur']))
        for one, next_one in zip(bars, bars[1:]):
            assert ns(one['ts']) + ns(one['dur']) <= ns(next_one['ts']), (one, next_one)
    names = sorted((process[pid], name) for (pid, tid), name in thread.items())
    assert names == [(d, k) for d in ('CPU:0', 'CPU:1') for k in ('compute 0', 'copy 0')], names
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
    assert seen == {(waits[c], c): launches for c in waits}, seen


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
    for name, kind, calls, size in (
            ('fill', 'fill', 1, 65536), ('mix', 'exec', 1, 0), ('add', 'exec', 2, 0),
            ('to the other one', 'copy', 1, 65536), ('and back', 'copy', 1, 65536),
            (ODD, 'exec', 1, 0), (SNOW, 'exec', 1, 0), ('write', 'write', 1, 8),
            (CUT, 'host', 1, 0)):
        found = names.pop((name, kind), [])
        assert len(found) == calls * launches, (name, len(found))
        assert all(bar['args']['bytes'] == size for bar in found), name
    assert not names, names.keys()


def check_summary(text, bars, other):
    """A row per name: calls, total, median; the largest total first."""
    times = {}
    for bar in bars:
        times.setdefault(bar['name'], []).append(ns(bar['dur']))
    rows = sorted((-sum(t), name.encode(), name, t) for name, t in times.items())
    want = []
    for _, _, name, t in rows:
        name = re.sub('[\x00-\x1f\x7f\ufffd]', '?', name)
        total, median = sum(t), sorted(t)[(len(t) - 1) // 2]
        want.append((name, str(len(t)), '%d.%03d' % (total // 10**6, total % 10**6 // 1000),
                     '%d.%03d' % (median // 1000, median % 1000)))
    lines = text.splitlines()
    got = [(line[:32].rstrip(), *line[32:].split()[:3]) for line in lines[1:1 + len(want)]]
    assert got == want, (got, want)
    shares = [float(line[32:].split()[3]) for line in lines[1:1 + len(want)]]
    assert abs(sum(shares) - 100) < 1, shares
    assert lines[1 + len(want)].startswith('%d commands on 4 lanes' % len(bars)), lines
    assert 'synchronizations: %d,' % other['synchronizations'] in lines[-1], lines
    assert 'events lost: 0' in lines[-1], lines


def check_page(text):
    """Nothing from elsewhere, no name that ends the script that it stands in."""
    places = set(re.findall('[a-z]+://[^\'" ]*', text))
    assert places <= {'http://www.w3.org/2000/svg'}, places
    assert not re.search('<link[^>]*href=.(?!data:)|@import|src=', text)
    assert len(re.findall('<script', text)) == len(re.findall('</script', text)) == 2
    data = re.search("<script type='application/json' id='data'>\n(.*?)</script>", text, re.S)
    return json.loads(data.group(1), parse_constant=no_constant)


for base, page, table in (('trace.json', 'page.html', 'summary.txt'),
                          ('many.json', 'many.html', 'many.txt')):
    trace = json.loads(read(base), parse_constant=no_constant)
    events, launches = trace['traceEvents'], expected[base]['launches']
    lanes = check_lanes(events)
    bars = [e for e in events if e['ph'] == 'X']
    assert len(bars) == expected[base]['bars'] and len(lanes) == expected[base]['lanes']
    assert min(bar['ts'] for bar in bars) == 0
    check_bars(bars, launches)
    check_arrows(events, lanes, launches)
    assert trace['otherData']['lost_events'] == 0
    assert trace['otherData']['synchronizations'] == expected[base]['synchronizations']
    assert 0 <= trace['otherData']['clock_error_ns'] < 10**9
    check_summary(read(table), bars, trace['otherData'])
    data = check_page(read(page))
    assert len(data['spans']) == len(bars)
    assert len(data['arrows']) == expected[base]['arrows']
    print('ok %s: %d bars on %d lanes, %d arrows' % (base, len(bars), len(lanes),
                                                     expected[base]['arrows']))
END_OF_PYTHON
python3 "$dir/files.py" "$dir" || fail "trace, summary or page are wrong"

# ---- the page ------------------------------------------------------------------

browser=
for name in chromium chromium-browser google-chrome; do
    [ -n "$browser" ] || browser=$(command -v "$name" || true)
done
[ -n "$browser" ] || lacks chromium

draw() { # PAGE OPTIONS...: what Chromium makes of it, on stdout
    page=$1
    shift
    "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --no-first-run --user-data-dir="$dir/browser" --hide-scrollbars "$@" \
        "file://$page" 2> "$dir/browser.err" || fail "$browser: $(tail -n 3 "$dir/browser.err")"
}

cat > "$dir/drawn.py" <<'END_OF_PYTHON'
import html.parser
import os
import sys

folder, page, base = sys.argv[1:4]
for line in open(os.path.join(folder, 'expected')):
    if line.startswith(base):
        word = line.split()
        expected = dict(zip(word[1::2], map(int, word[2::2])))


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


drawn = Drawn()
drawn.feed(open(page, encoding='utf-8').read())
assert len(drawn.lanes) == expected['lanes'], len(drawn.lanes)
assert [(a['data-device'], a['data-kind'], a['data-lane']) for a, _ in drawn.lanes] == [
    (d, k, '0') for d in ('CPU:0', 'CPU:1') for k in ('compute', 'copy')]
bars = 0
for lane, rects in drawn.lanes:
    assert rects, lane
    bars += sum(int(rect['data-count']) for rect in rects)
    for one, next_one in zip(rects, rects[1:]):
        assert float(one['x']) <= float(next_one['x']), (one, next_one)
        assert float(one['x']) + float(one['width']) < float(next_one['x']) + 1.1, next_one
    assert len({rect['y'] for rect in rects}) == 1, lane  # nothing overlaps: one row
assert bars == expected['bars'], bars
note = ''.join(drawn.texts.get('note', []))
arrows = sum(int(a['data-count']) for a in drawn.arrows)
assert arrows == expected['arrows'] or (not arrows and note.startswith('Zoom in')), (arrows, note)
assert base != 'trace.json' or arrows == expected['arrows'], arrows
for a in drawn.arrows:
    assert 'NaN' not in a['d'], a
legend = ''.join(drawn.texts['legend'])
for name in ('mix', 'add', 'fill', 'to the other one', '</script>"\\<b>&\'', '\u2603 \U0001f600',
             'thirty-one bytes end inside a \ufffd'):
    assert name in legend, (name, legend)
facts = ''.join(drawn.texts['facts'])
for part in ('2 devices', '4 lanes', '{:,} commands'.format(expected['bars']),
             '3 synchronizations'):
    assert part in facts, (part, facts)
assert drawn.texts.get('tick'), 'no axis'
# One bar is most of the picture, so that there is room for its name.
assert 'thirty-one bytes end inside a \ufffd' in drawn.texts.get('label', []), 'no label'
assert drawn.texts.get('time'), 'no duration'
print('ok %s: %d lanes, %d rectangles for %d bars, %d arrows' % (
    os.path.basename(page), len(drawn.lanes), sum(len(r) for _, r in drawn.lanes), bars, arrows))
END_OF_PYTHON

# The few bars and arrows are drawn one by one; the many, in a narrow window, lie
# upon each other.
for case in page:trace:1400 many:many:500; do
    name=${case%%:*}
    draw "$dir/$name.html" --window-size="${case##*:},900" --dump-dom > "$dir/$name.dom"
    base=${case#*:}
    python3 "$dir/drawn.py" "$dir" "$dir/$name.dom" "${base%:*}.json" ||
        fail "$name.html is drawn wrongly"
done
