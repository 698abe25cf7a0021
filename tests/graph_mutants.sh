#!/bin/sh
# Breaks the planner of graphs on purpose, in copies, and demands that the tests
# of graphs notice each time.
#
#   sh tests/graph_mutants.sh [NAME ...]
#
# A pattern that does not match any more is a failure: the code has changed, so
# the line here has to follow.

set -u
cd "$(dirname "$0")/.." || exit 1

# name, what becomes of a line: a sed script.
mutants() {
    cat <<'END'
write-after-read    s/!hcqi_plan_edge(q, plan->readers\[k\]\.call, c)/0/
after-the-writer    s/!hcqi_plan_edge(q, r->writer, c)/0/
a-byte-short        s/: t->first + size;/: t->first + size - (size > 1);/
a-byte-long         s/: t->first + size;/: t->first + size + 1;/
a-wait-less         s/if (implied) { continue; }/if (implied || i % 8 == 7) { continue; }/
too-transitive      s/\(implied = hcqi_need_clock.*\)\[m\] >= need\[m\]/\1[m] + 1 >= need[m]/
not-transitive      s/implied = hcqi_need_clock(/implied = 0 \&\& hcqi_need_clock(/
a-signal-more       s/\(calls\[need\[m\] - 1\]\]\.signals = 1;\)/\1 c->signals = 1;/
overlap-too-much    s/own < group\[c->slice\]/own <= group[c->slice]/
no-fences           s/ok && k < i; k++) {$/ok \&\& k < 0; k++) {/
no-stated-edges     s/k = q->metas\[i\]\.orders; k != 0;/k = 0; k != 0;/
next-launch         s/x->always = 1;/x->always = 0;/
next-launch-inputs  s/x->inputs |= (uint64_t)1 << number;/x->inputs |= 0;/
swapped-inputs      s/(hcqi_spots_meet(&now\[n\], &then))/(0)/
updated-launch      s/m->plan != plan->serial/0/
earlier-work        s/launch->numbers\[d\] - 1 > dev->done_prefix/launch->numbers[d] == 0/
inputs-as-before    s/had && v->inputs\[use->number\] == inputs\[use->number\]/had/
aliased-inputs      s/(hcqi_spots_meet(&spots\[n\], &spots\[k\]))/(0)/
aliased-buffers     s/if (hcqi_spot_meets_base(plan, base, &spots\[n\], written))/if (0)/
schedule-edges      s/if (from == list || hcqi_schedule_covers(sched, list, item))/if (1)/
sync-too-early      s/} else if (hcqi_walk_only_syncs(sched, walk)) {/} else {/
END
}

work=$(mktemp -d "${TMPDIR:-/tmp}/hcq-mutants.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT INT TERM
cp hcq_cpu.h "$work" || exit 1
ulimit -c 0

build() { # the copy of hcq.h with the tests of graphs
    gcc -std=c11 -O1 -w -pthread -I"$work" -Itests -DHCQ_TEST_HEADER="\"$work/hcq.h\"" \
        tests/graph/graph.c -o "$work/graph" -lcmocka -ldl
}

notices() {
    ! timeout 100 "$work/graph" cpu --seeds 250 --quick >"$work/log" 2>&1
}

cp hcq.h "$work/hcq.h" && build || exit 1
if notices; then
    tail -n 40 "$work/log"
    echo "FAIL: the tests fail on unbroken code"
    exit 1
fi

failures=0
wanted=" $* "
mutants >"$work/list"
while read -r name script; do
    case $wanted in
    "  " | *" $name "*) ;;
    *) continue ;;
    esac
    sed "$script" hcq.h >"$work/hcq.h" || exit 1
    if cmp -s hcq.h "$work/hcq.h"; then
        echo "FAIL $name: the pattern does not match any more"
        failures=$((failures + 1))
    elif ! build; then
        echo "FAIL $name: does not compile"
        failures=$((failures + 1))
    elif notices; then
        echo "ok   $name: $(grep -a -m 1 -e '^graph: ' -e 'FAILED  \]' -e 'ERROR   \]' "$work/log")"
    else
        echo "FAIL $name: nobody notices"
        failures=$((failures + 1))
    fi
done <"$work/list"
[ "$failures" -eq 0 ]
