#!/bin/sh
# Builds the examples as a user would and checks what they say and write:
#
#     sh tests/examples/examples.sh [CC]                   on the CPU [$CC, else cc]
#     sh tests/examples/examples.sh --vulkan|--cuda [CC]   those with code for it, on a GPU;
#                                                          77 without one; --cuda on the mock driver
#                                                          in $HCQ_TEST_CUDA_MOCK if that is set
#     sh tests/examples/examples.sh --learn [CC]           words.c alone, to its end: a minute
#
# Each as C99 and as C++11 with -Wall -Wextra -Werror, linked with one implementation,
# in C, which takes longest ($HCQ_OBJECT if that is set: one with all backends). As C++
# only hello is linked and runs: the rest would say the same. photo.c has to produce known pictures
# (checksums of a third version of the filter, written in another language). backend.c
# has to write down what it ran, whoever does the work. digits.c has to learn, to say the
# same numbers every time, on a GPU after ten epochs about those of the CPU, and to notice
# if it learnt nothing; words.c the same in a few steps, and with --learn enough within a
# minute of two CPUs; frames.c has to draw what plain C draws. Whatever they refuse, they say
# why in one line on stderr.
set -eu
gpu='' epochs=150 learn='' mock=${HCQ_TEST_CUDA_MOCK:-}
case ${1:-} in
--learn) learn=1 && shift ;;
--vulkan) gpu=VULKAN epochs=10 && shift ;;
--cuda) gpu=CUDA epochs=10 && shift ;;
esac
cc=${1:-${CC:-cc}}
. "$(dirname "$0")/shared.sh"
data=$root/examples/data

# ---- building ------------------------------------------------------------------

build() { # c|c++ NAME
    case $1 in c++) standard=c++11 ;; *) standard='c99' ;; esac
    case $2 in words) level=-O3 ;; *) level=-O1 ;; esac # as its head says: it computes for long
    source=$dir/$2.c
    # Fewer epochs where each takes long.
    sed "s/EPOCHS = 150,/EPOCHS = $epochs,/; s,\"../hcq.h\",\"hcq.h\"," "$root/examples/$2.c" \
        > "$source"
    [ "$1:$gpu:$mock" != "c:CUDA:${mock:-none}" ] || on_cuda_mock "$2" >> "$source"
    look=''
    [ "$1:$2" = c++:hello ] || [ "$1" = c ] || look=-fsyntax-only
    "$cc" -x "$1" -std=$standard $apart ${gpu:+"-DHCQ_$gpu"} $warnings $level \
        -I"$root/examples" -I"$root" $look -c "$source" -o "$dir/$2.o" ||
        fail "$2.c does not compile as $standard: $cc"
    [ -z "$look" ] || return 0
    "$cc" "$dir/$2.o" "$hcq" -o "$dir/$2" -pthread -ldl -lm || fail "$2.c does not link: $cc"
}

# The mock of CUDA's driver, which knows the kernel of hello, runs the others as the CPU does.
on_cuda_mock() { # NAME
    echo '#include "tests/mocks/cuda_example.h"'
    [ "$1" = hello ] ||
        sed -nE 's/^HCQ_(BLOCK_)?KERNEL\(([a-z_]+),.*/MOCK_CUDA_TELL(\2)/p' "$root/examples/$1.k"
}

# The same source on a backend that encodes what is submitted and is given it.
on_mock() { # builds backend_on_mock
    cat > "$dir/backend_on_mock.c" <<END
#define main backend_main
#include "examples/backend.c"
#undef main
#include "tests/mocks/mock.h"
int main(int argc, char **argv) {
    return mock_register() == HCQ_OK ? backend_main(argc, argv) : 2;
}
END
    "$cc" -std=c11 -O1 $apart -I"$root" "$dir/backend_on_mock.c" "$hcq" \
        -o "$dir/backend_on_mock" -pthread -ldl || fail "backend.c does not compile with the mock"
}

# ---- running -------------------------------------------------------------------

run() { # PROGRAM ARGUMENTS: its $status; output in $dir/out and $dir/err
    program=$1
    shift
    status=0
    "$dir/$program" "$@" > "$dir/out" 2> "$dir/err" || status=$?
}

good() { # PROGRAM ARGUMENTS: ends with 0
    run "$@"
    [ "$status" -eq 0 ] || fail "$* ended with $status: $(cat "$dir/out" "$dir/err")"
}

says() { # FILE TEXTS: all are in it
    file=$1
    shift
    for text in "$@"; do
        grep -qF -- "$text" "$file" || fail "'$text' is missing in $file: $(head -c 4000 "$file")"
    done
}

refused() { # TEXT PROGRAM ARGUMENTS: exit status 1, one line with TEXT, and hcq's own
    wanted=$1 lines=1
    shift
    run "$@"
    [ "$status" -eq 1 ] || fail "$* ended with $status, not 1, where '$wanted' was due"
    [ "$1" != backend ] || lines=2         # its usage, and why
    [ "$(grep -vc '^hcq' "$dir/err")" -eq $lines ] || fail "not one line: $(cat "$dir/err")"
    says "$dir/err" "$wanted"
}

all_refused() { # a line of stdin for each: TEXT|PROGRAM ARGUMENTS
    while IFS='|' read -r text arguments; do
        refused "$text" $arguments
    done
}

# ---- hello, replay, backend ----------------------------------------------------

check_backend() { # NAME PROGRAM ARGUMENTS: it traces the backend NAME
    traced=$1
    shift
    good "$@"
    says "$dir/out" "program_create 'saxpy', 4 arguments" "submit compute 0 'saxpy': 1 packets" \
        "submit copy 0 'copy': 1 packets" "ns a call" \
        "ok: TRACE of $traced, 1000 of 1000 right, " "submits, all given back"
}

check_usage() {
    refused "hello: no such device" hello TOASTER
    says "$dir/err" "hcq: name: 'TOASTER': no backend has it; there are "
    all_refused <<'END'
usage|replay 0
usage|replay -1
usage|replay words
usage|replay 100000001
usage|backend NOSUCH
usage|backend TRACE
usage|backend CPU more
END
}

# ---- photo ---------------------------------------------------------------------

photo_good() { # PICTURE [CHECKSUM [DEVICE]]
    rm -f "$dir/edges.ppm"
    good photo "$1" "$dir/edges.ppm" ${3:+"$3"}
    [ -n "$gpu" ] || [ ! -s "$dir/err" ] || fail "photo $1 complains: $(cat "$dir/err")"
    says "$dir/out" upload compute download sum wall overlap "every byte is that of plain C" \
        "pixels on ${3:-CPU}"
    sum=$(cksum < "$dir/edges.ppm")
    [ "${2:-$sum}" = "$sum" ] || fail "photo $1 wrote another picture: $sum, not $2"
}

picture() { # WIDTH HEIGHT HEADER: a picture of text, its file name on stdout
    printf "$3" > "$dir/$1x$2.ppm"
    awk -v n="$(($1 * $2 * 3))" 'BEGIN {
        for (i = 0; i < n; i++) { printf "%c", 33 + i * i * 7 % 94 }
    }' >> "$dir/$1x$2.ppm"
    echo "$dir/$1x$2.ppm"
}

check_pictures() {
    photo_good "$data/flower_160x107.ppm" "395795883 51375"
    photo_good "$(picture 1 1 'P6\n1 1\n255\n')"
    photo_good "$(picture 1 40 'P6 1 40 255 ')"
    photo_good "$(picture 300 2 'P6\r\n300\t2 # wide\n#\n# and low\n255\n')"
    photo_good "$(picture 2 1100 'P6#high\n2 1100 255#narrow\n')"
}

photo_bad() { # TEXT PICTURE
    rm -f "$dir/edges.ppm"
    refused "$1" photo "$2" "$dir/edges.ppm"
    says "$dir/err" "$(basename "$2")"
    [ ! -e "$dir/edges.ppm" ] || fail "photo wrote a picture in spite of '$1'"
}

check_bad_pictures() {
    photo_bad "No such file" "$dir/nowhere.ppm"
    photo_bad "Is a directory" "$dir"
    # What it says, and the file, as a format of printf.
    while read -r line; do
        printf "${line#*|}" > "$dir/bad.ppm"
        photo_bad "${line%%|*}" "$dir/bad.ppm"
    done <<'END'
the file is empty|
does not begin with P6|P5\n1 1\n255\n...
does not begin with P6|P
must be three numbers|P6\n
must be three numbers|P6\n1 -1\n255\n...
must be three numbers|P6\n1 1x\n255\n...
must be three numbers|P6\n1 1\n255
bad header: 0 x 5 pixels|P6\n0 5\n255\n
too large|P6\n16385 1\n255\n
too large|P6\n99999999999999999999999 99999999999999999999999\n255\n
must be 255, it is 65535|P6\n1 1\n65535\n......
truncated: 12 bytes of pixels expected, 11 found|P6\n2 2\n255\n01234567890
data behind the last of 2 x 2 pixels|P6\n2 2\n255\n0123456789ab.
END
    small=$(picture 1 1 'P6\n1 1\n255\n')
    all_refused <<END
usage: photo IN.ppm OUT.ppm [DEVICE]|photo
usage|photo $small
usage|photo $small $dir/edges.ppm CPU more
nowhere/edges.ppm: No such file|photo $small $dir/nowhere/edges.ppm
TOASTER: no such device|photo $small $dir/edges.ppm TOASTER
END
    [ ! -c /dev/full ] ||
        refused "/dev/full: cannot write: No space left" photo "$data/flower_160x107.ppm" /dev/full
}

# ---- digits --------------------------------------------------------------------

train() { # DEVICE: what it says but for the time it took, into $dir/numbers.DEVICE
    run digits "$data/digits.csv" "$dir/a trace.json" "$dir/a trace.html" "$1"
    progress='^epoch .*: loss .* right, .* of the test, .* steps per second$'
    [ "$(grep -c "$progress" "$dir/out")" -eq $((epochs / 10)) ] ||
        fail "not a line of progress for ten epochs: $(cat "$dir/out")"
    grep -qE '^(\{|\[)' "$dir/a trace.json" || fail "no JSON: $(head -c 200 "$dir/a trace.json")"
    says "$dir/a trace.html" "<svg"
    for file in "$dir/a trace.json" "$dir/a trace.html"; do
        says "$file" hidden output back "update output" "update hidden"
    done
    sed 's/, *[0-9]* steps per second$//; /of the last epoch: /d' "$dir/out" > "$dir/numbers.$1"
}

check_digits() { # twice the same, and enough
    train CPU
    mv "$dir/numbers.CPU" "$dir/first"
    train CPU
    cmp "$dir/first" "$dir/numbers.CPU" >&2 || fail "digits learns something else each time"
    awk 'END { exit $0 !~ /^[0-9.]+ % of 297 test digits are right: enough$/ || $1 < 93 || $1 > 100 }' \
        "$dir/first" || fail "not enough: $(tail -n 1 "$dir/first")"
    [ "$status" -eq 0 ] || fail "digits ended with $status: $(cat "$dir/out" "$dir/err")"
}

# A device may round in its own way, so that every number may differ: a loss by 0.01,
# percents by 1. Ten epochs are too few for digits itself, which says so.
check_digits_as_on_cpu() {
    train CPU
    train "$gpu"
    [ "$status" -le 1 ] || fail "digits ended with $status: $(cat "$dir/out" "$dir/err")"
    paste -d ' ' "$dir/numbers.CPU" "$dir/numbers.$gpu" | awk '
        { half = NF / 2
          for (i = 1; i <= half; i++) {
              off = $i - $(i + half)
              most = $(i - 1) == "loss" ? 0.01 : 1
              bad = bad || off > most || -off > most
          } }
        END { exit bad || NR != 2 }' ||
        fail "digits learns something else: $(cat "$dir/numbers.CPU" "$dir/numbers.$gpu")"
}

digits_bad() { # TEXT AWK: lines of the data as the awk program prints them
    awk -F, -v OFS=, "$2" "$data/digits.csv" > "$dir/bad.csv"
    refused "$1" digits "$dir/bad.csv" "$dir/bad.json" "$dir/bad.html"
    says "$dir/err" "bad.csv"
    [ ! -e "$dir/bad.json" ] || fail "digits wrote a trace in spite of '$1'"
}

check_bad_digits() {
    digits_bad "0 lines, not 1797" '0'
    digits_bad "1796 lines, not 1797" 'NR > 1'
    digits_bad "more than 1797 lines" '{ print } NR == 1'
    for change in '$64 = 17' '$65 = 10' '$1 = -1' '$2 = ""' '$2 = "x"' '$65 = $65 ",1"' '$0 = ""'; do
        digits_bad "line 7 is not 64 numbers" "NR == 7 { $change } { print }"
    done
    digits_bad "line 1797 is not 64 numbers" 'NR == 1797 { $0 = $1 OFS $2 } { print }'
    digits=$data/digits.csv
    all_refused <<END
nowhere.csv: No such file|digits $dir/nowhere.csv
usage: digits [DIGITS.csv [TRACE.json TRACE.html [DEVICE]]]|digits $digits $dir/only.json
usage|digits $digits $dir/a.json $dir/a.html CPU more
TOASTER: no such device|digits $digits $dir/a.json $dir/a.html TOASTER
nowhere/a.json: |digits $digits $dir/nowhere/a.json $dir/a.html
END
}

# The test digits are given the label of the next digit. Without other arguments.
check_digits_that_lie() {
    mkdir -p "$dir/examples/data"
    awk -F, -v OFS=, 'NR > 1500 { $65 = ($65 + 1) % 10 } { print }' "$data/digits.csv" \
        > "$dir/examples/data/digits.csv"
    cd "$dir"
    run digits
    cd "$root"
    [ "$status" -eq 1 ] || fail "digits ended with $status, not 1: $(cat "$dir/out" "$dir/err")"
    tail -n 1 "$dir/out" | grep -q 'TOO FEW$' || fail "digits believes lies: $(cat "$dir/out")"
    says "$dir/digits.html" "<svg"
}

# ---- words ---------------------------------------------------------------------

spell() { # DEVICE ARGUMENTS: what it says but for the time it took, into $dir/words.DEVICE
    device=$1
    shift
    good words "$@" "$root/README.md" "$device" "$dir/a page.html"
    says "$dir/a page.html" "<svg" "look up" ask attend mix "back to weights" "key back" adam
    sed 's/, *[0-9]* steps per second$//' "$dir/out" > "$dir/words.$device"
}

spell_again() { # ARGUMENTS: on the CPU, the same as before
    mv "$dir/words.CPU" "$dir/first"
    spell CPU "$@"
    cmp "$dir/first" "$dir/words.CPU" >&2 || fail "words says something else each time: $*"
}

check_words() { # learns, the same each time, and something else of another seed
    spell CPU --steps 20 --letters 100
    spell_again --steps 20 --letters 100
    tail -n 1 "$dir/first" | awk '{ exit !(/^loss .*: enough$/ && $2 > 4 && $5 < 0.95 * $2) }' ||
        fail "words learns nothing: $(cat "$dir/first")"
    spell CPU --steps 20 --letters 100 --seed 2
    ! cmp -s "$dir/first" "$dir/words.CPU" || fail "words does not know its seeds"
    run words --steps 1 --letters 1 "$root/README.md" CPU "$dir/a page.html"
    [ "$status" -eq 1 ] || fail "words ended with $status, not 1, after one step"
    says "$dir/out" "100 %: TOO MUCH"
}

# A GPU divides and takes roots in its own way, and Adam's first steps are as large for
# slopes that are nearly 0: weights may differ in their third digit after a step, losses
# hardly, by up to 0.01. What is written may be other letters: chance may sit on an edge.
check_words_as_on_cpu() { # few steps: of a second each where shared memory is slow
    spell CPU --steps 3 --letters 8
    spell "$gpu" --steps 3 --letters 8
    tail -n 1 "$dir/words.CPU" "$dir/words.$gpu" | awk '
        /^loss/ { first[n + 0] = $2; last[n++ + 0] = $5 }
        function off(a, b) { return a - b > 0.01 || b - a > 0.01 }
        END { exit n != 2 || off(first[0], first[1]) || off(last[0], last[1]) }' ||
        fail "words learns something else: $(cat "$dir/words.CPU" "$dir/words.$gpu")"
}

check_bad_words() {
    printf '%064d' 0 > "$dir/short.txt"
    words="--steps 1 --letters 1"
    all_refused <<END
usage: words [--steps N] [--seed N] [--letters N] [TEXT [DEVICE [PAGE.html]]]|words --steps
usage|words --steps 0
usage|words --seed -1
usage|words --letters 100001
usage|words --step 1
usage|words $root/README.md CPU page.html more
nowhere.txt: No such file|words $dir/nowhere.txt
Is a directory|words $dir
short.txt: 64 letters, more than 64 are needed|words $dir/short.txt
TOASTER: no such device|words $root/README.md TOASTER
nowhere/page.html: |words $words $root/README.md CPU $dir/nowhere/page.html
END
}

cpu_seconds() { # sets $seconds: of all children so far, so not in a subshell
    times > "$dir/times"
    seconds=$(awk 'NR == 2 { split($1 "m" $2, t, "m"); print int((t[1] + t[3]) * 60 + t[2] + t[4]) }' \
        "$dir/times")
}

# Below 60 % of its first loss, which it checks itself. A minute of two CPUs is 120 seconds of
# their time, however long they are kept busy by others.
check_words_to_the_end() {
    cpu_seconds
    before=$seconds
    spell CPU
    cpu_seconds
    spent=$((seconds - before))
    [ "$spent" -le 120 ] || fail "words takes $spent seconds of CPU time, more than a minute of two"
    spell_again
    cat "$dir/first"
    echo "ok: words, $spent seconds of CPU time"
}

# ---- frames --------------------------------------------------------------------

check_few_frames() {
    for frames in 1 2 3 4; do
        good frames "$frames"
        says "$dir/out" "$frames images, twice"
    done
    usage="usage: frames [FRAMES [DEVICE [PAGE.html]]], 1 to 4000 frames"
    all_refused <<END
$usage|frames 0
$usage|frames -1
$usage|frames words
$usage|frames 4001
$usage|frames 9 CPU page.html more
nowhere/page.html: |frames 9 CPU $dir/nowhere/page.html
TOASTER: no such device|frames 9 TOASTER
END
}

# ---- race ----------------------------------------------------------------------

check_race() { # with an implementation of its own, which has the checker
    for standard in c99 c++11; do
        case $standard in c++*) language=c++ ;; *) language=c ;; esac
        case " $languages " in *" $language "*) ;; *) continue ;; esac
        case $language in c++) how=-fsyntax-only ;; c) how="-o $dir/race" ;; esac
        "$cc" -x $language -std=$standard $warnings -O0 "$root/examples/race.c" $how \
            -pthread -ldl || fail "race.c does not compile as $standard: $cc"
    done
    good race
    says "$dir/out" "race: command 0 (copy) of 'frame'" "nothing orders the two" "to add: " \
        "ok: 1 race without the wait, 0 with it" \
        "explored, without the wait: HCQ_ERROR_RACE in run 1; with it: HCQ_OK in 20 runs" \
        "HCQ_ERROR_DEADLOCK, and mended: HCQ_OK"
    sed -n '/^\*\*A wait that is missing/,/^`hcq_explore/s/^    //p' "$root/README.md" > "$dir/shown"
    [ "$(grep -c . "$dir/shown")" = 8 ] || fail "README shows something else of race.c"
    while IFS= read -r line; do
        says "$dir/out" "hcq CPU: $line"
    done < "$dir/shown"
}

# ---- all -----------------------------------------------------------------------

check_device() { # DEVICE SUBMISSIONS: on any the pictures are the same
    good replay "$2" "$1"
    says "$dir/out" "$2 submissions of 1000 kernels" "the same"
    photo_good "$data/flower_640x427.ppm" "1951925314 819855" "$1"
    good frames 60 "$1" "$dir/page.html"
    says "$dir/out" "60 frames on $1" "one at a time    frame time" "three in flight  frame time" \
        upload clear draw simulate "overlap: " "60 images, twice: every one is that of plain C"
    says "$dir/page.html" "<svg" upload clear draw
}

check_cpu() {
    check_backend CPU backend
    check_backend CPU backend CPU
    on_mock
    check_backend MOCK backend_on_mock MOCK
    says "$dir/out" "encode 'saxpy', 1 packets"
    check_usage
    check_pictures
    check_bad_pictures
    check_digits_that_lie
    check_digits
    epochs=10                          # the last of the bad is told once it has learnt
    build c digits
    check_bad_digits
    check_words
    check_bad_words
    check_few_frames
    check_race
}

languages="c++ c"
echo 'int main(void) { return 0; }' | "$cc" -x c++ -c - -o "$dir/probe.o" 2>/dev/null || {
    echo "$cc compiles no C++"
    languages='c'
}
[ "$gpu" != VULKAN ] || vulkan_headers || skip "no vulkan/vulkan.h"
[ "$gpu:$mock" != "CUDA:${mock:-none}" ] ||
    export LD_LIBRARY_PATH="$mock${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
implementation
if [ -n "$learn" ]; then
    build c words
    check_words_to_the_end
    exit
fi
examples="hello photo replay digits words frames"
[ -n "$gpu" ] || examples="$examples backend"
for language in $languages; do
    for example in $examples; do
        build "$language" "$example"
    done
    run hello ${gpu:+"$gpu"}
    ! grep -q 'hello: no such device' "$dir/err" || skip "no device: $(head -n 1 "$dir/err")"
    good hello ${gpu:+"$gpu"}
    says "$dir/out" "ok: 2 * 20 + 1 = 41, 1000 of 1000 right"
done
if [ -n "$gpu" ]; then
    check_device "$gpu" 25
    check_digits_as_on_cpu
    check_words_as_on_cpu
else
    check_device CPU 2500
    check_cpu
fi
echo "ok on ${gpu:-CPU}, as $languages"
