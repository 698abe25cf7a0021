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
commit=
only=
passes=15
bound=1.05

usage() {
    sed -n '4,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    --rows | --passes | --bound)
        [ $# -gt 1 ] || usage
        case $1 in
        --rows) only=$2 ;;
        --passes) passes=$2 ;;
        --bound) bound=$2 ;;
        esac
        shift
        ;;
    -*) usage ;;
    *) commit=$1 ;;
    esac
    shift
done
[ -n "$commit" ] || usage
[ "$passes" -ge 1 ] 2> /dev/null || usage

tmp=$(mktemp -d "${TMPDIR:-/tmp}/hcq-compare.XXXXXX") || exit 2
finish() {
    git -C "$root" worktree remove --force "$tmp/tree" > /dev/null 2>&1
    rm -rf "$tmp"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP
git -C "$root" worktree add --quiet --detach "$tmp/tree" "$commit" || exit 2

# ---- building ----------------------------------------------------------------

# run.sh throws away what it built. This compiler keeps a copy of the program,
# and so gets at it in every commit's run.sh, whatever that one builds and how.
cat > "$tmp/cc" <<'END'
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

build() { # side, its tree
    mkdir -p "$tmp/$1/pocl" || exit 2
    if ! COMPARE_KEEP=$tmp/$1/ CC=$tmp/cc sh "$2/tests/bench/run.sh" --smoke \
        --only cpu.wait_reached > "$tmp/$1/log" 2>&1; then
        cat "$tmp/$1/log" >&2
        echo "compare: the $1 bench does not build or run" >&2
        exit 2
    fi
    sed -n 's/^ *{"\([a-z0-9_.]*\)", ".*/\1/p' "$2/tests/bench/bench.c" > "$tmp/$1/rows"
}

# ---- turns -------------------------------------------------------------------

# Runs rows on one side; each figure becomes a line "row side turn figure".
run_side() { # side, its tree, turn, start of the rows' names
    BENCH_ROOT=$2 BENCH_TMP=$tmp/$1 BENCH_CC=$COMPARE_CC POCL_CACHE_DIR=$tmp/$1/pocl \
        "$tmp/$1/bench" --quick --only "$4" --json "$tmp/json" \
        < /dev/null > /dev/null 2>&1
    sed -n 's/.*"name": "\([^"]*\)", "ours": \([^,]*\),.*/\1 '"$1 $3"' \2/p' "$tmp/json" \
        2> /dev/null >> "$tmp/figures"
    rm -f "$tmp/json"
}

# All turns of some rows, into `figures`.
turns() { # start of the rows' names
    : > "$tmp/figures"
    turn=1
    while [ "$turn" -le "$passes" ]; do
        [ $((turn % 2)) = 0 ] || run_side old "$tmp/tree" "$turn" "$1"
        run_side new "$root" "$turn" "$1"
        [ $((turn % 2)) = 1 ] || run_side old "$tmp/tree" "$turn" "$1"
        turn=$((turn + 1))
    done
}

# Prints "row old new ratio low high verdict" of all rows in `figures`, "-" for
# a number that there is not, nothing for a row without any figure.
judge() {
    awk -v bound="$bound" '
    function draw(n) { # 1 to n, the same in every awk
        seed = seed * 16807 % 2147483647
        return 1 + int(seed / 2147483647 * n)
    }
    function sort(list, n, gap, i, j, kept) {
        for (gap = int(n / 2); gap > 0; gap = int(gap / 2)) {
            for (i = gap + 1; i <= n; i++) {
                kept = list[i]
                for (j = i - gap; j >= 1 && list[j] > kept; j -= gap) {
                    list[j + gap] = list[j]
                }
                list[j + gap] = kept
            }
        }
    }
    function median(list, n) {
        sort(list, n)
        return (list[int((n + 1) / 2)] + list[int(n / 2) + 1]) / 2
    }
    function pairs(row, turn, n) { # of the turns in which both sides gave a figure
        n = 0
        for (turn = 1; turn <= last; turn++) {
            if ((row, "old", turn) in figure && (row, "new", turn) in figure) {
                n++
                old[n] = figure[row, "old", turn]
                new[n] = figure[row, "new", turn]
            }
        }
        return n
    }
    function interval(n, draws, i, k, at) { # into `low` and `high`
        seed = 20110
        draws = 2000
        for (i = 1; i <= draws; i++) {
            for (k = 1; k <= n; k++) {
                at = draw(n)
                old_drawn[k] = old[at]
                new_drawn[k] = new[at]
            }
            ratios[i] = median(new_drawn, n) / median(old_drawn, n)
        }
        sort(ratios, draws)
        low = ratios[draws / 40]
        high = ratios[draws - draws / 40 + 1]
    }
    function side_only(row, side, turn, n) {
        n = 0
        for (turn = 1; turn <= last; turn++) {
            if ((row, side, turn) in figure) { old[++n] = figure[row, side, turn] }
        }
        return n ? median(old, n) : "-"
    }
    function report(row, n, verdict, from, to) {
        if (count[row, "old"] + count[row, "new"] == 0) { return }
        n = pairs(row)
        if (n == 0 || count[row, "new"] < count[row, "old"]) {
            verdict = count[row, "old"] ? "failed" : "new"
            print row, side_only(row, "old"), side_only(row, "new"), "-", "-", "-", verdict
            return
        }
        interval(n)
        from = median(old, n)
        to = median(new, n)
        verdict = low > bound ? "worse" : high < 1 ? "better" : "same"
        print row, from, to, to / from, low, high, verdict
    }
    !($1 in seen) { seen[$1] = 1; order[++rows] = $1 }
    $4 + 0 > 0 { figure[$1, $2, $3] = $4 + 0; count[$1, $2]++ }
    $3 > last { last = $3 + 0 }
    END { for (i = 1; i <= rows; i++) { report(order[i]) } }' "$tmp/figures"
}

number() { # format, number or "-"
    if [ "$2" = - ]; then
        printf '%11s' -
    else
        # shellcheck disable=SC2059
        printf "$1" "$2"
    fi
}

show() { # row old new ratio low high verdict
    verdict=$7
    if [ "$verdict" = failed ] && ! grep -qx "$1" "$tmp/new/rows"; then
        verdict=gone
    fi
    printf '%-30s' "$1"
    number ' %11.3f' "$2"
    number ' %11.3f' "$3"
    number ' %7.3f' "$4"
    number '  %6.3f' "$5"
    number ' %6.3f' "$6"
    printf '  %s\n' "$verdict"
    [ "$verdict" != failed ] || echo "$1" >> "$tmp/failed"
}

# ---- all of it ---------------------------------------------------------------

build old "$tmp/tree"
build new "$root"

# The bench runs every row whose name starts with what it is given: of rows "a"
# and "a_b" the first name stands for both.
cat "$tmp/new/rows" "$tmp/old/rows" > "$tmp/rows"
awk -v only="$only" '
    index($1, only) == 1 && !($1 in seen) { seen[$1] = 1; row[++n] = $1 }
    END {
        for (i = 1; i <= n; i++) {
            covered = 0
            for (k = 1; k <= n; k++) {
                covered = covered || k != i && index(row[i], row[k]) == 1
            }
            if (!covered) { print row[i] }
        }
    }' "$tmp/rows" > "$tmp/starts"
if [ ! -s "$tmp/starts" ]; then
    echo "compare: no row is called \"$only\"" >&2
    exit 2
fi

# Runs and shows rows; those that are worse are in `worse`, failed ones in `failed`.
compare() { # file with starts of names, file with the rows that are asked for
    : > "$tmp/worse"
    while read -r start; do
        turns "$start"
        judge | awk 'NR == FNR { asked[$1]; next } $1 in asked' "$2" - > "$tmp/judged"
        while read -r line; do
            # shellcheck disable=SC2086
            show $line
        done < "$tmp/judged"
        awk -v start="$start" '$7 == "worse" { print $1, start }' "$tmp/judged" >> "$tmp/worse"
    done < "$1"
}

printf '%-30s %11s %11s %7s  %6s %6s\n' row old new ratio from to
: > "$tmp/failed"
compare "$tmp/starts" "$tmp/rows"
if [ -s "$tmp/worse" ]; then
    echo "once more, what was worse:"
    cut -d ' ' -f 1 "$tmp/worse" > "$tmp/rows"
    cut -d ' ' -f 2 "$tmp/worse" | uniq > "$tmp/starts"
    compare "$tmp/starts" "$tmp/rows"
fi
[ ! -s "$tmp/worse" ] && [ ! -s "$tmp/failed" ]
