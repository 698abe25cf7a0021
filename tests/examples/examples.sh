#!/bin/sh
# Builds the examples as a user would and checks what they say and write:
#
#     sh tests/examples/examples.sh [CC]      [$CC, else cc]
#     sh tests/examples/examples.sh --vulkan [--all] [CC]
#     sh tests/examples/examples.sh --cuda [--all] [CC]
#
# Each as C99 and as C++11 with -Wall -Wextra -Werror: hello.c whole, the others
# with the implementation of one file that all share, as it takes longest. photo.c has to produce
# known pictures (checksums of a third version of the filter, written in another
# language) and to refuse bad files with one line on stderr that says why.
# backend.c has to write down what it ran, whoever does the work. digits.c has to
# learn, to say the same numbers every time, and to notice if it learnt nothing;
# frames.c has to draw what plain C draws.
# With --vulkan those with shaders are built with them and run on the device VULKAN,
# where the same is asked of them; 77 without such a device. With --cuda the same on
# CUDA: on the mock driver in the folder $HCQ_TEST_CUDA_MOCK if that is set, on a GPU
# if there is one, else on a mock driver that is built for it. As C++ only hello runs,
# with --all every one.
# RUNNER, if set, is put before every program: RUNNER=valgrind, say.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
gpu='' all=''
while :; do
    case ${1:-} in
        --vulkan) gpu=VULKAN ;;
        --cuda) gpu=CUDA ;;
        --all) all=yes ;;
        *) break ;;
    esac
    shift
done
cc=${1:-${CC:-cc}}
runner=${RUNNER:-}
warnings="-Wall -Wextra -Werror"
data=$root/examples/data
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM

fail() {
    echo "examples: FAIL: $*" >&2
    exit 1
}

# What a file is told whose implementation stands elsewhere.
apart="-DHCQI_IMPLEMENTED -DHCQI_CPU_IMPLEMENTED -DHCQI_VULKAN_IMPLEMENTED -DHCQI_CUDA_IMPLEMENTED"

implementation() { # makes $dir/hcq.o
    printf '#define HCQ_IMPLEMENTATION\n#include "hcq.h"\n' > "$dir/hcq.c"
    "$cc" -std=c99 $warnings -O2 -DHCQ_CPU ${gpu:+"-DHCQ_$gpu"} -I"$root" -c "$dir/hcq.c" \
        -o "$dir/hcq.o" || fail "hcq.h does not compile: $cc"
}

build() { # LANGUAGE NAME
    case $1:$2 in
        c:hello) set -- "$2" '' -x c -std=c99 ;;
        c:*) set -- "$2" "$dir/hcq.o" -x c -std=c99 $apart ;;
        c++:hello) set -- "$2" '' -x c++ -std=c++11 ;;
        c++:*) set -- "$2" "$dir/hcq.o" -x c++ -std=c++11 $apart ;;
    esac
    name=$1 object=$2
    shift 2
    [ -z "$gpu" ] || set -- "$@" "-DHCQ_$gpu"
    "$cc" "$@" $warnings -O2 -c "$root/examples/$name.c" -o "$dir/$name.o" ||
        fail "$name.c does not compile: $cc $*"
    "$cc" "$dir/$name.o" $object -o "$dir/$name" -pthread || fail "$name.c does not link: $cc $*"
}

# The same source on a backend shaped like a GPU: memory that the host cannot
# see, one queue under all lanes. Only the registration is added.
on_mock() { # NAME: builds NAME_on_mock
    cat > "$dir/$1_on_mock.c" <<END
#define main $1_main
#include "examples/$1.c"
#undef main
#include "tests/mocks/mock.h"
int main(int argc, char **argv) {
    return mock_register() == HCQ_OK ? $1_main(argc, argv) : 2;
}
END
    "$cc" -std=c11 -O2 $apart -I"$root" "$dir/$1_on_mock.c" "$dir/hcq.o" -o "$dir/$1_on_mock" \
        -pthread ||
        fail "$1.c does not compile with the mock"
}

run() { # PROGRAM ARGUMENTS: its status; output in $dir/out and $dir/err
    program=$1
    shift
    if command -v timeout >/dev/null 2>&1; then
        set -- timeout 120 $runner "$dir/$program" "$@"
    else
        set -- $runner "$dir/$program" "$@"
    fi
    status=0
    "$@" > "$dir/out" 2> "$dir/err" || status=$?
    return "$status"
}

says() { # FILE TEXT: out or err must contain it
    grep -qF -- "$2" "$dir/$1" || fail "'$2' is missing in: $(cat "$dir/$1")"
}

# ---- hello and replay ----------------------------------------------------------

check_hello() {
    run hello || fail "hello ended with $?: $(cat "$dir/out" "$dir/err")"
    says out "ok: 2 * 20 + 1 = 41, 1000 of 1000 right"
    ! run hello TOASTER || fail "hello works on TOASTER"
    says err "hello: no such device"
    says err "hcq: name: 'TOASTER': no backend has it; there are CPU"
}

check_hello_on() { # DEVICE
    run hello "$1" || fail "hello on $1 ended with $?: $(cat "$dir/out" "$dir/err")"
    says out "ok: 2 * 20 + 1 = 41, 1000 of 1000 right"
}

check_replay_on() { # DEVICE
    run replay 25 "$1" || fail "replay on $1 ended with $?: $(cat "$dir/out" "$dir/err")"
    says out "25 submissions of 1000 kernels"
    says out "the same"
}

check_replay() {
    run replay 2500 || fail "replay ended with $?: $(cat "$dir/out" "$dir/err")"
    says out "2500 submissions of 1000 kernels"
    says out "the same"
    for argument in 0 -1 words 100000001; do
        ! run replay "$argument" || fail "replay accepts '$argument'"
        says err "usage"
    done
}

# ---- backend -------------------------------------------------------------------

backend_good() { # NAME PROGRAM ARGUMENTS: it traces the backend NAME
    traced=$1
    shift
    run "$@" || fail "$* ended with $status: $(cat "$dir/out" "$dir/err")"
    for text in "program_create 'saxpy', 4 arguments" "submit compute 0 'saxpy': 1 packets" \
        "submit copy 0 'copy': 1 packets" "ns a call" \
        "ok: TRACE of $traced, 1000 of 1000 right, " "submits, all given back"; do
        says out "$text"
    done
}

check_backend() {
    backend_good CPU backend
    backend_good CPU backend CPU
    for arguments in NOSUCH TRACE "CPU more"; do
        ! run backend $arguments || fail "backend accepts '$arguments'"
        says err "usage"
    done
}

# Around the backend that is shaped like a GPU, which encodes what is submitted
# and wants to be flushed.
check_backend_on_mock() {
    on_mock backend
    backend_good MOCK backend_on_mock MOCK
    says out "encode 'saxpy', 1 packets"
}

# ---- photo ---------------------------------------------------------------------

photo_good() { # PICTURE [CHECKSUM]
    rm -f "$dir/edges.ppm"
    run photo "$1" "$dir/edges.ppm" ||
        fail "photo $1 ended with $status: $(cat "$dir/out" "$dir/err")"
    [ -n "$runner" ] || [ ! -s "$dir/err" ] || fail "photo $1 complains: $(cat "$dir/err")"
    for part in upload compute download sum wall overlap "every byte is that of plain C"; do
        says out "$part"
    done
    [ $# -eq 1 ] || [ "$(cksum < "$dir/edges.ppm")" = "$2" ] ||
        fail "photo $1 wrote another picture: $(cksum < "$dir/edges.ppm"), not $2"
}

refused() { # TEXT, of what run just ran: exit status 1, one line with TEXT, and hcq's own
    [ "$status" -eq 1 ] || fail "$program ended with $status, not 1, where '$1' was due"
    [ -n "$runner" ] || [ "$(grep -vc '^hcq' "$dir/err")" -eq 1 ] ||
        fail "not one line: $(cat "$dir/err")"
    says err "$1"
}

photo_bad() { # TEXT PICTURE
    rm -f "$dir/edges.ppm"
    run photo "$2" "$dir/edges.ppm" || true
    refused "$1"
    says err "$(basename "$2")"
    [ ! -e "$dir/edges.ppm" ] || fail "photo wrote a picture in spite of '$1'"
}

picture() { # WIDTH HEIGHT HEADER: a picture of text, its file name on stdout
    printf "$3" > "$dir/$1x$2.ppm"
    awk -v n="$(($1 * $2 * 3))" 'BEGIN {
        for (i = 0; i < n; i++) { printf "%c", 33 + i * i * 7 % 94 }
    }' >> "$dir/$1x$2.ppm"
    echo "$dir/$1x$2.ppm"
}

check_photo_on_mock() {
    on_mock photo
    run photo_on_mock "$data/flower_160x107.ppm" "$dir/edges.ppm" MOCK ||
        fail "photo on the mock ended with $status: $(cat "$dir/out" "$dir/err")"
    says out "pixels on MOCK"
    says out "every byte is that of plain C"
}

check_photo_on() { # DEVICE: it comes to the bytes of the CPU
    run photo "$data/flower_640x427.ppm" "$dir/edges.ppm" "$1" ||
        fail "photo on $1 ended with $status: $(cat "$dir/out" "$dir/err")"
    says out "pixels on $1"
    says out "every byte is that of plain C"
    [ "$(cksum < "$dir/edges.ppm")" = "1951925314 819855" ] ||
        fail "photo on $1 wrote another picture: $(cksum < "$dir/edges.ppm")"
}

check_good_pictures() {
    photo_good "$data/flower_640x427.ppm" "1951925314 819855"
    photo_good "$data/flower_160x107.ppm" "395795883 51375"
    photo_good "$(picture 1 1 'P6\n1 1\n255\n')"
    photo_good "$(picture 1 40 'P6 1 40 255 ')"
    photo_good "$(picture 300 2 'P6\r\n300\t2 # wide\n#\n# and low\n255\n')"
    photo_good "$(picture 2 1100 'P6#high\n2 1100 255#narrow\n')"
}

bad() { # TEXT CONTENT: the content as a format of printf
    printf "$2" > "$dir/bad.ppm"
    photo_bad "$1" "$dir/bad.ppm"
}

check_bad_pictures() {
    photo_bad "No such file" "$dir/nowhere.ppm"
    photo_bad "Is a directory" "$dir"
    bad "the file is empty" ''
    bad "does not begin with P6" 'P5\n1 1\n255\n...'
    bad "does not begin with P6" 'P'
    bad "does not begin with P6" '<html>'
    bad "must be three numbers" 'P6'
    bad "must be three numbers" 'P6\n'
    bad "must be three numbers" 'P6\n1 1\n# 255\n'
    bad "must be three numbers" 'P6\n1 -1\n255\n...'
    bad "must be three numbers" 'P6\n1 1x\n255\n...'
    bad "must be three numbers" 'P6\n1 1\n255'
    bad "bad header: 0 x 5 pixels" 'P6\n0 5\n255\n'
    bad "bad header: 5 x 0 pixels" 'P6\n5 0\n255\n'
    bad "too large" 'P6\n16385 1\n255\n'
    bad "too large" 'P6\n1 4294967297\n255\n...'
    bad "too large" 'P6\n99999999999999999999999 99999999999999999999999\n255\n'
    bad "must be 255, it is 65535" 'P6\n1 1\n65535\n......'
    bad "must be 255, it is 0" 'P6\n1 1\n0\n...'
    bad "truncated: 12 bytes of pixels expected, 11 found" 'P6\n2 2\n255\n01234567890'
    bad "truncated: 12 bytes of pixels expected, 0 found" 'P6\n2 2\n255\n'
    bad "data behind the last of 2 x 2 pixels" 'P6\n2 2\n255\n0123456789ab.'
    dd if="$data/flower_640x427.ppm" of="$dir/half.ppm" bs=1000 count=700 2>/dev/null
    photo_bad "truncated: 819840 bytes of pixels expected, 699985 found" "$dir/half.ppm"
}

check_bad_arguments() {
    small=$(picture 1 1 'P6\n1 1\n255\n')
    run photo || true
    refused "usage: photo IN.ppm OUT.ppm [DEVICE]"
    run photo "$small" || true
    refused "usage"
    run photo "$small" "$dir/edges.ppm" CPU more || true
    refused "usage"
    run photo "$small" "$dir/nowhere/edges.ppm" || true
    refused "nowhere/edges.ppm: No such file"
    run photo "$small" "$dir/edges.ppm" TOASTER || true
    refused "TOASTER: no such device"
    run photo "$small" "$dir/edges.ppm" CPU:0 || fail "photo does not know CPU:0"
    if [ -c /dev/full ]; then
        run photo "$data/flower_160x107.ppm" /dev/full || true
        refused "/dev/full: cannot write: No space left"
    fi
}

# ---- digits --------------------------------------------------------------------

# What digits says but for the time it took and the names of files.
digits_numbers() {
    sed -e 's/, *[0-9]* steps per second$//' -e '/of the last epoch: /d' "$dir/out"
}

digits_good() { # JSON HTML: what it wrote
    progress='^epoch .*: loss .* right, .* of the test, .* steps per second$'
    [ "$(grep -c "$progress" "$dir/out")" -eq 15 ] ||
        fail "not 15 lines of progress: $(cat "$dir/out")"
    tail -n 1 "$dir/out" | grep -qE '^[0-9]+\.[0-9]+ % of 297 test digits are right: enough$' ||
        fail "the last line is not the accuracy: $(tail -n 1 "$dir/out")"
    tail -n 1 "$dir/out" | awk '$1 < 93 || $1 > 100 { exit 1 }' ||
        fail "below 93 %: $(tail -n 1 "$dir/out")"
    [ "$(grep -cE '^(\{|\[)' "$1")" -ge 1 ] || fail "$1 is no JSON: $(head -c 200 "$1")"
    grep -q '<svg' "$2" || fail "$2 has no timeline: $(head -c 200 "$2")"
    for file in "$1" "$2"; do
        for name in hidden output back "update output" "update hidden"; do
            grep -qF "$name" "$file" || fail "'$name' is missing in $file"
        done
    done
}

check_digits() {
    rm -rf "$dir/examples" "$dir/digits.json" "$dir/digits.html"
    mkdir "$dir/examples"
    cp -R "$data" "$dir/examples/data"
    cd "$dir"
    run digits || fail "digits ended with $status: $(cat "$dir/out" "$dir/err")"
    cd "$root"
    digits_good "$dir/digits.json" "$dir/digits.html"
    digits_numbers > "$dir/numbers-$language"
    run digits "$data/digits.csv" "$dir/a trace.json" "$dir/a trace.html" CPU:0 ||
        fail "digits with arguments ended with $status: $(cat "$dir/out" "$dir/err")"
    digits_good "$dir/a trace.json" "$dir/a trace.html"
    digits_numbers | cmp - "$dir/numbers-$language" >&2 ||
        fail "digits says other numbers the second time"
}

# The test digits are given the label of the next digit.
check_digits_that_lie() {
    awk -F, -v OFS=, 'NR > 1500 { $65 = ($65 + 1) % 10 } { print }' "$data/digits.csv" \
        > "$dir/lies.csv"
    ! run digits "$dir/lies.csv" "$dir/lies.json" "$dir/lies.html" ||
        fail "digits finds lies good enough: $(cat "$dir/out")"
    [ "$status" -eq 1 ] || fail "digits ended with $status, not 1: $(cat "$dir/err")"
    tail -n 1 "$dir/out" | grep -q 'TOO FEW$' || fail "digits believes lies: $(cat "$dir/out")"
}

digits_bad() { # TEXT AWK: lines of the data as the awk program prints them
    awk -F, -v OFS=, "$2" "$data/digits.csv" > "$dir/bad.csv"
    run digits "$dir/bad.csv" "$dir/bad.json" "$dir/bad.html" || true
    refused "$1"
    says err "bad.csv"
    [ ! -e "$dir/bad.json" ] || fail "digits wrote a trace in spite of '$1'"
}

check_bad_digits() {
    digits_bad "0 lines, not 1797" '0'
    digits_bad "1796 lines, not 1797" 'NR > 1'
    digits_bad "more than 1797 lines" '{ print } NR == 1'
    digits_bad "line 7 is not 64 numbers" 'NR == 7 { $64 = 17 } { print }'
    digits_bad "line 7 is not 64 numbers" 'NR == 7 { $65 = 10 } { print }'
    digits_bad "line 7 is not 64 numbers" 'NR == 7 { $1 = -1 } { print }'
    digits_bad "line 7 is not 64 numbers" 'NR == 7 { $2 = "" } { print }'
    digits_bad "line 7 is not 64 numbers" 'NR == 7 { $2 = "x" } { print }'
    digits_bad "line 7 is not 64 numbers" 'NR == 7 { $65 = $65 ",1" } { print }'
    digits_bad "line 7 is not 64 numbers" 'NR == 7 { $0 = "" } { print }'
    digits_bad "line 1797 is not 64 numbers" 'NR == 1797 { $0 = $1 OFS $2 } { print }'
    run digits "$dir/nowhere.csv" || true
    refused "nowhere.csv: No such file"
    run digits "$data/digits.csv" "$dir/only.json" || true
    refused "usage: digits [DIGITS.csv [TRACE.json TRACE.html [DEVICE]]]"
    run digits "$data/digits.csv" "$dir/a.json" "$dir/a.html" CPU more || true
    refused "usage"
    run digits "$data/digits.csv" "$dir/a.json" "$dir/a.html" TOASTER || true
    refused "TOASTER: no such device"
    run digits "$data/digits.csv" "$dir/nowhere/a.json" "$dir/a.html" || true
    refused "nowhere/a.json: "
}

# Does it say the numbers of the CPU?
check_same_digits() {
    digits_numbers > "$dir/numbers-$gpu"
    run digits "$data/digits.csv" "$dir/on.json" "$dir/on.html" CPU ||
        fail "digits ended with $status: $(cat "$dir/out" "$dir/err")"
    digits_numbers | cmp - "$dir/numbers-$gpu" >&2 ||
        fail "digits learns something else on $gpu"
}

# What it learns is compared with nothing: a device may round in its own way.
check_digits_on() { # DEVICE
    run digits "$data/digits.csv" "$dir/on.json" "$dir/on.html" "$1" ||
        fail "digits on $1 ended with $status: $(cat "$dir/out" "$dir/err")"
    digits_good "$dir/on.json" "$dir/on.html"
}

check_digits_on_mock() {
    on_mock digits
    run digits_on_mock "$data/digits.csv" "$dir/mock.json" "$dir/mock.html" MOCK ||
        fail "digits on the mock ended with $status: $(cat "$dir/out" "$dir/err")"
    digits_good "$dir/mock.json" "$dir/mock.html"
    digits_numbers | cmp - "$dir/numbers-c" >&2 ||
        fail "digits learns something else on the mock"
}

# ---- frames --------------------------------------------------------------------

frames_good() { # PROGRAM DEVICE
    rm -f "$dir/page.html"
    run "$1" 60 "$2" "$dir/page.html" ||
        fail "$1 on $2 ended with $status: $(cat "$dir/out" "$dir/err")"
    for text in "60 frames on $2" "one at a time    frame time" "three in flight  frame time" \
        "upload" "clear" "draw" "simulate" "overlap: " \
        "60 images, twice: every one is that of plain C"; do
        says out "$text"
    done
    for text in "<svg" upload clear draw; do
        grep -qF -- "$text" "$dir/page.html" || fail "'$text' is missing in frames' page"
    done
}

check_frames() {
    frames_good frames CPU
    for frames in 1 2 3 4; do
        run frames "$frames" || fail "frames $frames ended with $status: $(cat "$dir/err")"
        says out "$frames images, twice"
    done
    for arguments in 0 -1 words 4001 "9 CPU page.html more"; do
        run frames $arguments || true
        refused "usage: frames [FRAMES [DEVICE [PAGE.html]]], 1 to 4000 frames"
    done
    run frames 9 CPU "$dir/nowhere/page.html" || true
    refused "nowhere/page.html: "
    run frames 9 TOASTER || true
    refused "TOASTER: no such device"
}

check_frames_on_mock() {
    on_mock frames
    frames_good frames_on_mock MOCK
}

if ! echo 'int main(void) { return 0; }' | "$cc" -x c++ -c - -o "$dir/probe.o" 2>/dev/null; then
    echo "$cc compiles no C++"
    exit 77
fi
# ---- on a GPU ------------------------------------------------------------------

gpu_device() { # is there one? Says why not
    cat > "$dir/probe.c" <<END
#define HCQ_IMPLEMENTATION
#define HCQ_$gpu
#include "hcq.h"
#include <stdio.h>
int main(void) {
    hcq_device *device = NULL;
    hcq_result result = hcq_open("$gpu", NULL, &device);
    printf("no $gpu device: %s\n", hcq_result_text(result));
    return hcq_close(device) != HCQ_OK || result != HCQ_OK;
}
END
    "$cc" -I"$root" "$dir/probe.c" -o "$dir/probe" -pthread || fail "hcq does not compile: $cc"
    "$dir/probe" > "$dir/out"
}

vulkan_device() {
    echo '#include <vulkan/vulkan.h>' | "$cc" -E -x c - > /dev/null 2>&1 || {
        echo "no vulkan/vulkan.h" > "$dir/out"
        return 1
    }
    gpu_device
}

cuda_device() { # a mock's if there is no other
    if [ -z "${HCQ_TEST_CUDA_MOCK:-}" ]; then
        ! gpu_device || return 0
        HCQ_TEST_CUDA_MOCK=$dir/mock
        mkdir "$HCQ_TEST_CUDA_MOCK"
        "$cc" -std=c11 -O2 -shared -fPIC -I"$root/tests" "$root/tests/mocks/libcuda.c" \
            -o "$HCQ_TEST_CUDA_MOCK/libcuda.so.1" -pthread -ldl || fail "no mock of CUDA: $cc"
    fi
    LD_LIBRARY_PATH=$HCQ_TEST_CUDA_MOCK${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    export LD_LIBRARY_PATH
    mocked=yes
    gpu_device
}

check_all_on() { # DEVICE
    check_replay_on "$1"
    check_photo_on "$1"
    frames_good frames "$1"
    check_digits_on "$1"
    [ -z "$mocked" ] || check_same_digits
}

if [ -n "$gpu" ]; then
    mocked=
    "$(echo "$gpu" | tr '[:upper:]' '[:lower:]')_device" || {
        cat "$dir/out"
        exit 77
    }
    implementation
    for language in c c++; do
        for example in hello photo replay digits frames; do
            build "$language" "$example"
        done
        check_hello_on "$gpu"
        [ "$language$all" = c++ ] || check_all_on "$gpu"
        echo "ok $language on $gpu${mocked:+, the mock}"
    done
    exit 0
fi

implementation
for language in c c++; do
    for example in hello photo replay backend digits frames; do
        build "$language" "$example"
    done
    check_hello
    if [ "$language$all" = c++ ]; then
        echo "ok $language, hello"
        continue
    fi
    check_replay
    check_backend
    check_good_pictures
    check_bad_pictures
    check_bad_arguments
    check_digits
    check_digits_that_lie
    check_bad_digits
    check_frames
    echo "ok $language"
done
check_photo_on_mock
check_backend_on_mock
check_digits_on_mock
check_frames_on_mock
echo "ok photo, backend, digits and frames on the mock"
