#!/bin/sh
# Breaks the library on purpose, one small change at a time, and demands that the tests
# see it: a comparison turned, a statement left out, a constant off by one, a condition
# negated, && for ||, + for -, another result, a weaker order of memory, an unlock one
# statement early.
#
#   sh tests/mutants.sh [PART ...]   core, cpu, vulkan, cuda; a room: core/submit; one
#                                    change: core/submit-2; fixed: mutants/fixed.txt
#   --list                           names the changes: file, line, what becomes of it
#   --seed N [1]  --count N [150]    which, and how many in all parts together
#   --jobs N                         at a time [the number of CPUs]
#   --folder DIR                     results and builds; by default one in TMPDIR for
#                                    each state of the files
#
# The places are drawn from all lines that a default build compiles, in proportion to
# the rooms' lines. Results stay in the folder: what was tried there is not tried again.
# What no test can see stands in mutants/equivalent.txt with the reason. Ends with 1 if
# anything else was not seen.

cd "$(dirname "$0")/.." || exit 1
for tool in python3 gcc; do
    command -v $tool >/dev/null 2>&1 || { echo "no $tool"; exit 77; }
done
exec python3 -B tests/mutants/mutants.py "$@"
