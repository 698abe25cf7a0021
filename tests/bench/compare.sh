#!/bin/sh
# Benchmarks of two commits, taking turns on one machine.
#
#   sh tests/bench/compare.sh COMMIT [--rows NAME] [--passes N] [--bound X]
#
# COMMIT        the old side; the new one is the tree as it stands, with what is
#               not committed
# --rows NAME   only rows whose name starts with NAME, "cpu.grid" say
# --passes N    turns [15]
# --bound X     the ratio new / old above which a row is worse [1.05]
#
# Each side builds its own bench, COMMIT's in a worktree that goes away again.
# In a turn each side runs a row once, in a process of its own with `--quick`;
# a row that pins its threads does so on both sides, and who begins changes with
# every turn. The ratio is that of the medians over all turns. Its 95 % interval
# comes from drawing turns again and again, with a seed that never changes. A
# row is worse if all of the interval lies above the bound, and does so again in
# a second set of turns; it is better if all of it lies below 1. A row that only
# one side has is "new" or "gone".
#
# Fifteen turns of all rows take some 35 minutes on two idle cores. Exit status:
# 0, 1 if a row is worse or failed, 2 if nothing could be compared.

set -u
root=$(cd "$(dirname "$0")/../.." && pwd) || exit 2
commit='' rows='' passes=15 bound=1.05

usage() {
    sed -n '4,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    --rows) rows=${2:-} ;;
    --passes) passes=${2:-} ;;
    --bound) bound=${2:-} ;;
    -*) usage ;;
    *)
        commit=$1
        shift
        continue
        ;;
    esac
    [ $# -gt 1 ] || usage
    shift 2
done
[ -n "$commit" ] || usage
[ "$passes" -ge 1 ] 2>/dev/null || usage

tmp=$(mktemp -d "${TMPDIR:-/tmp}/hcq-compare.XXXXXX") || exit 2
finish() {
    git -C "$root" worktree remove --force "$tmp/tree" >/dev/null 2>&1
    rm -rf "$tmp"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP
git -C "$root" worktree add --quiet --detach "$tmp/tree" "$commit" || exit 2

# run.sh throws away what it built. This compiler keeps a copy of the program,
# and so gets at it in every commit's run.sh, whatever that one builds and how.
cat >"$tmp/cc" <<'END'
#!/bin/sh
$COMPARE_CC "$@" || exit
while [ $# -gt 1 ]; do
    case $1:$2 in
    -o:*/bench) exec cp "$2" "$COMPARE_KEEP" ;;
    esac
    shift
done
END
chmod +x "$tmp/cc" || exit 2
COMPARE_CC=${CC:-gcc}
export COMPARE_CC

build() { # SIDE TREE
    mkdir -p "$tmp/$1/pocl" || exit 2
    if ! COMPARE_KEEP=$tmp/$1/ CC=$tmp/cc sh "$2/tests/bench/run.sh" --quick \
        --only cpu.wait_reached >"$tmp/$1/log" 2>&1; then
        cat "$tmp/$1/log" >&2
        echo "compare: the $1 bench does not build or run" >&2
        exit 2
    fi
    sed -n 's/.*{"\([a-z0-9_]*\.[a-z0-9_]*\)", ".*/\1/p' "$2"/tests/bench/bench*.c \
        >"$tmp/$1/rows"
}

build old "$tmp/tree"
build new "$root"
cat >"$tmp/compare.py" <<'END'
import json, os, random, statistics, subprocess, sys

tmp, root, wanted, passes, bound = sys.argv[1:4] + [int(sys.argv[4]), float(sys.argv[5])]
trees = {'old': tmp + '/tree', 'new': root}


def rows_of(side):
    return open('%s/%s/rows' % (tmp, side)).read().split()


def run(side, start):
    """A figure by row, of all rows whose name begins like that."""
    out = tmp + '/json'
    env = dict(os.environ, BENCH_ROOT=trees[side], BENCH_TMP=tmp + '/' + side,
               BENCH_CC=os.environ['COMPARE_CC'], POCL_CACHE_DIR='%s/%s/pocl' % (tmp, side))
    subprocess.run([tmp + '/%s/bench' % side, '--quick', '--only', start, '--json', out], env=env,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    if not os.path.exists(out):
        return {}
    with open(out) as f:
        figures = {r['name']: r['ours'] for r in json.load(f)}
    os.remove(out)
    return {name: ours for name, ours in figures.items() if ours}


def interval(pairs):
    """Of the ratio of medians: 95 % of what 2000 drawn sets of turns give."""
    draw, ratios = random.Random(20110), []
    for _ in range(2000):
        drawn = draw.choices(pairs, k=len(pairs))
        ratios.append(statistics.median(n for _, n in drawn) /
                      statistics.median(o for o, _ in drawn))
    ratios.sort()
    return ratios[49], ratios[1950]


def judge(row, turns):
    """Prints the row's line; returns its verdict."""
    old = [t['old'][row] for t in turns if row in t['old']]
    new = [t['new'][row] for t in turns if row in t['new']]
    pairs = [(t['old'][row], t['new'][row]) for t in turns if row in t['old'] and row in t['new']]
    numbers = [statistics.median(side) if side else None for side in (old, new)] + [None] * 3
    if not old and not new:
        return 'none'
    if not pairs or len(new) < len(old):
        verdict = 'new' if not old else 'failed' if row in rows_of('new') else 'gone'
    else:
        numbers = [statistics.median(side) for side in zip(*pairs)]
        low, high = interval(pairs)
        numbers += [numbers[1] / numbers[0], low, high]
        verdict = 'worse' if low > bound else 'better' if high < 1 else 'same'
    cells = zip(('%11.3f', '%11.3f', '%7.3f', '%7.3f', '%6.3f'), numbers)
    print('%-30s' % row, *(f % n if n is not None else '%*s' % (int(f[1:].split('.')[0]), '-')
                           for f, n in cells), ' ' + verdict, flush=True)
    return verdict


def compare(starts, asked):
    """All turns of some rows; returns the verdicts by row."""
    verdicts = {}
    for start in starts:
        turns = []
        for turn in range(passes):
            order = ('new', 'old') if turn % 2 else ('old', 'new')
            turns.append({side: run(side, start) for side in order})
        for row in asked:
            if row.startswith(start):
                verdicts[row] = judge(row, turns)
    return verdicts


asked = [r for r in dict.fromkeys(rows_of('new') + rows_of('old')) if r.startswith(wanted)]
# Of rows "a" and "a_b" the first name stands for both.
starts = [r for r in asked if not any(o != r and r.startswith(o) for o in asked)]
if not starts:
    print('compare: no row is called "%s"' % wanted, file=sys.stderr)
    sys.exit(2)
print('%-30s %11s %11s %7s %7s %6s' % ('row', 'old', 'new', 'ratio', 'from', 'to'), flush=True)
first = compare(starts, asked)
worse = [row for row, verdict in first.items() if verdict == 'worse']
if worse:
    print('once more, what was worse:', flush=True)
    again = compare([s for s in starts if any(r.startswith(s) for r in worse)], worse)
    worse = [row for row, verdict in again.items() if verdict in ('worse', 'failed')]
sys.exit(1 if worse or 'failed' in first.values() else 0)
END
python3 "$tmp/compare.py" "$tmp" "$root" "$rows" "$passes" "$bound"
