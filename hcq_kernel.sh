#!/bin/sh
# Compiles kernels for GPUs: writes FILE.k.h, SPIR-V and PTX as C, for FILE.k.
#
#   sh hcq_kernel.sh [OPTION]... FILE.k ...
#
#   --check      writes nothing: compiles for the CPU, Vulkan and CUDA, and fails where
#                FILE.k.h was made of another source
#   --spirv      for Vulkan only; --ptx: for CUDA only
#   -o FOLDER    writes and looks there, not beside FILE.k
#   --arch sm_80 the oldest NVIDIA GPU that will run it [sm_60; nvcc's oldest]
#   -I FOLDER    where #include looks, too; -D NAME=VALUE
#
# It needs glslangValidator or glslc for Vulkan, clang 11 or nvcc for CUDA (clang needs
# nothing of CUDA's), and uses spirv-opt, spirv-val and ptxas where they are. The same
# tools write the same bytes. hcq_kernel.h tells what a kernel may be.

# Flags are split on purpose.
# shellcheck disable=SC2086
set -eu
export LC_ALL=C
home=$(cd "$(dirname "$0")" && pwd)
check='' spirv=1 ptx=1 flags='' out='' arch=''
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' HUP INT TERM

fail() {
    echo "hcq_kernel.sh: $*" >&2
    exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

first_of() { # TOOL...: the first that is here
    for tool in "$@"; do
        ! have "$tool" || { echo "$tool"; return; }
    done
}

version() { # TOOL: its name and version in a few words
    case $1 in
    glslangValidator) "$1" --version | sed -n 's/^Glslang Version: */glslang /p' ;;
    nvcc) nvcc --version | sed -n 's/^Cuda.*, V/nvcc /p' ;;
    spirv-opt | glslc) "$1" --version 2>&1 | awk 'NR == 1 { print $1, $2 }' ;;
    *) "$1" --version | sed -n '1s/^.* version \([^ ]*\).*/clang \1/p' ;;
    esac
}

# ---- SPIR-V ------------------------------------------------------------------

shader() { # FILE KERNEL: the shader that has the kernel as its main
    cat <<END
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_atomic_int64 : require
#define HCQI_K_GLSL
#include "$(basename "$1")"
layout(push_constant) uniform hcqi_k_push { $2_args hcqi_k_args; uvec3 hcqi_k_base; };
void main() { $2_main(hcqi_k_args, hcqi_k_base); }
END
}

# No product and sum become one: each is decorated with NoContraction. A pointer is loaded
# with its own alignment, which glslang takes for that of what it points to. What is marked
# as unrolled, the loops of one turn, becomes a selection. Words in decimal come in, bytes in
# octal go out.
decorate='
    function put(word, i) {
        for (i = 0; i < 4; i++) { printf "\\%03o", word % 256; word = int(word / 256) }
    }
    { for (i = 1; i <= NF; i++) { w[n++] = $i } }
    END {
        for (at = 5; at < n; at += int(w[at] / 65536)) {
            op = w[at] % 65536
            if (op >= 19 && op < 60 && !types) { types = at }
            if (op == 32) { pointer[w[at + 1]] = 1 }
            if (op == 61 && w[at + 4] == 2 && w[at + 1] in pointer) { w[at + 5] = 8 }
            if (op ~ /^(127|129|131|133|136|140|141)$/) { id[count++] = w[at + 2] }
            if (op == 248) { label = w[at + 1] }
            if (op == 246 && w[at + 3] == 1) { gone[at] = end = once[label] = w[at + 1] }
            if (op == 250 && end) { select[at] = end; end = 0 }
            if (op == 249 && w[at + 1] in once) { w[at + 1] = once[w[at + 1]] }
        }
        for (at = 0; at < n; at++) {
            if (at in gone) { at += 4 }
            if (at in select) { put(196855); put(select[at]); put(0) }
            for (i = 0; at == types && i < count; i++) { put(196679); put(id[i]); put(42) }
            put(at == 2 ? 0 : w[at])
        }
    }'

array='
    { for (i = 1; i <= NF; i++) {
        word = $i
        sub(/^0+/, "", word)
        word = "0x" (word == "" ? "0" : word) ","
        if (length(line) + length(word) > 99) { print line; line = "" }
        line = line word
    } }
    END { sub(/,$/, "", line); print line }'

spirv_of() { # FILE KERNEL: into $dir/code
    shader "$1" "$2" >"$dir/kernel.comp"
    file=$1 kernel=$2
    set -- "-I$(dirname "$1")" $flags "-I$home" "$dir/kernel.comp" -o "$dir/full"
    case $glsl in
    glslc) glslc -fshader-stage=comp --target-env=vulkan1.2 "$@" >"$dir/said" 2>&1 ;;
    *) glslangValidator --quiet --target-env vulkan1.2 "$@" >"$dir/said" 2>&1 ;;
    esac || {
        sed 's/^ERROR: \(.*:[0-9]*\): /\1: error: /' "$dir/said" >"$dir/errors"
        grep ':[0-9]*: error: ' "$dir/errors" | grep -v "^$dir" >&2 || cat "$dir/said" >&2
        fail "$file: '$kernel' is not GLSL"
    }
    # The text is octal escapes alone.
    # shellcheck disable=SC2059
    printf "$(od -An -v -tu4 "$dir/full" | awk "$decorate")" >"$dir/code"
    if have spirv-opt; then
        spirv-opt --target-env=vulkan1.2 -O --strip-debug "$dir/code" \
            -o "$dir/full" || fail "$file: '$kernel' stops spirv-opt"
        cp "$dir/full" "$dir/code"
    fi
    ! have spirv-val || spirv-val --target-env vulkan1.2 "$dir/code" ||
        fail "$file: '$kernel' is not valid SPIR-V"
}

# ---- PTX ---------------------------------------------------------------------

ptx_of() { # FILE: into $dir/text
    file=$1
    set -- -DHCQI_K_CUDA "-I$(dirname "$1")" $flags "-I$home" "$1" -o "$dir/ptx"
    case $cuda in
    nvcc) nvcc -ptx -x cu ${arch:+"-arch=$arch"} --fmad=false "$@" ;;
    *)
        "$cuda" -x cuda --cuda-device-only -nocudainc -nocudalib -Wno-unknown-cuda-version \
            "--cuda-gpu-arch=${arch:-sm_60}" -O3 -ffp-contract=off -S "$@"
        ;;
    esac || fail "$file is not CUDA C++"
    awk '{ sub(/\/\/.*/, ""); gsub(/[ \t]+/, " "); sub(/^ /, ""); sub(/ $/, "") }
        /^$/ || /^\.(loc|file) / { next }
        { gsub(/"/, "\\\""); print }' "$dir/ptx" >"$dir/text"
    ! have ptxas || {
        known=$(ptxas --help | grep -o "'sm_[0-9]*'" | tr -d "'" | sort -u -t_ -k2n)
        device=$(echo "$known" | grep -x "${arch:-none}" || echo "$known" | head -n 1)
        ptxas -arch="$device" -o "$dir/cubin" "$dir/ptx" || fail "$file: ptxas refuses its PTX"
    }
}

# ---- C -----------------------------------------------------------------------

# What a thread's code may not do shows in C++ where phases and loops of threads are
# functions of their own, which see copies of what is around them: after the bracket that
# ends one comes a semicolon, and return is no word in it, nor what a macro becomes: the
# function's type is one that cannot be made.
phases='
    function refuse(text) { print file ":" NR ": error: " text >"/dev/stderr"; bad = 1 }
    function number(text) { # one that C and GLSL read differently
        if (text !~ /^0[xX]/ && text ~ /[.eE]/ && text !~ /[fF]$/) {
            refuse(text " is double in C, float in GLSL: " text "f")
        }
        if (text ~ /^0[xX]0*[89a-fA-F].......$/ && text !~ /[uU]$/ || \
            text ~ /^[0-9]+$/ && text + 0 > 2147483647) {
            refuse(text " is unsigned or long in C, int in GLSL: " text "u")
        }
    }
    BEGIN { print "#line 1 \"" file "\"" }
    {
        macro = !comment && /^[ \t]*#/ || more; more = macro && /\\$/
        rest = $0; line = ""
        while (rest != "") {
            if (comment) {
                n = index(rest, "*/"); comment = n == 0
                n = n ? n + 1 : length(rest)
            } else if (rest ~ /^\/\*/) { comment = 1; n = 2
            } else if (rest ~ /^\/\//) { n = length(rest)
            } else if (match(rest, /^"[^"]*"/)) { n = RLENGTH
            } else if (match(rest, /^\.?[0-9]([eEpP][-+]|[A-Za-z_0-9.])*/)) {
                n = RLENGTH; number(substr(rest, 1, n))
            } else if (match(rest, /^[A-Za-z_0-9]+/)) {
                n = RLENGTH; word = substr(rest, 1, n)
                if (word ~ /^HCQ_(BLOCK_)?KERNEL$/) {
                    fors = phases = 0
                    if (macro || line ~ /[^ ]/ || rest !~ /^[A-Z_]+ *\( *[A-Za-z_0-9]+ *,/) {
                        refuse("begin a line with " word "(name, ARGS)")
                    }
                }
                if (word ~ /^HCQ_(FOR|PHASE)_/ && !macro) {
                    if (inside || waiting) { refuse(word " inside of another") }
                    if (word ~ /FOR/ ? fors++ + phases : fors + !++phases) {
                        refuse("one HCQ_FOR, or phases alone")
                    }
                    waiting = 1
                }
                if (word ~ /^HCQ_(STRUCT|BUFFERS)$/ && !macro) { data = 1 }
                if (data && word == "bool") { refuse("bool has 1 byte in C, 4 in GLSL: u32") }
                if (inside && word == "return" && !macro) {
                    refuse("return out of a loop of threads")
                }
            } else {
                n = 1; sign = macro ? " " : substr(rest, 1, 1)
                if (sign == "{") { if (++depth && waiting) { inside = depth; waiting = 0 } }
                if (sign == ";" && !depth) { data = 0 }
                if (sign == ";" && waiting) { refuse("a loop of threads without { }") }
                if (sign == "}" && depth-- == inside) { inside = 0; line = line "};"; sign = "" }
                if (sign == "") { rest = substr(rest, 2); continue }
            }
            line = line substr(rest, 1, n); rest = substr(rest, n + 1)
        }
        print line
    }
    END { exit bad }'

check_c() { # FILE
    awk -v file="$1" "$phases" "$1" >"$dir/check.cc" || fail "$1: see above"
    for language in c c++; do
        case $language in
        c) text=$1 more= ;;
        *) text=$dir/check.cc more="-DHCQI_K_CHECK -Wno-return-type" ;;
        esac
        "$cc" -x $language -fsyntax-only $more "-I$(dirname "$1")" $flags "-I$home" "$text" ||
            fail "$1 is not $language"
    done
}

# ---- files -------------------------------------------------------------------

sources() { # FILE: it and what it includes of its user's, each once
    set -- "$(cd "$(dirname "$1")" && pwd)/$(basename "$1")"
    ! grep -qxF "$1" "$dir/seen" || return 0
    echo "$1" | tee -a "$dir/seen"
    sed -n 's/^#include "\([^"]*\)".*/\1/p' "$1" | while read -r name; do
        case $name in *hcq_kernel.h) continue ;; esac
        for flag in "-I$(dirname "$1")" $flags "-I$home"; do
            case $flag in -I*) [ ! -e "${flag#-I}/$name" ] || break ;; esac
        done
        sources "${flag#-I}/$name"
    done
}

sum() { # FILE
    : >"$dir/seen"
    sources "$1" | while read -r file; do cat "$file"; done | cksum
}

header() { # FILE
    name=$(basename "$1" .k | tr -c 'A-Za-z0-9_\n' _ | sed 's/^[0-9]/k_&/')
    kernels=$(sed -n 's/^ *HCQ_\(BLOCK_\)\{0,1\}KERNEL *( *\([A-Za-z0-9_]*\) *,.*/\2/p' "$1")
    [ -n "$kernels" ] || fail "$1 has no line that begins with HCQ_KERNEL"
    cat <<END
/* $(basename "$1").h - the kernels of $(basename "$1") for GPUs, to be included behind it.
   Made by hcq_kernel.sh with $made,
   of a source with the sum $(sum "$1"). */
#pragma once
#ifdef __GNUC__
#pragma GCC diagnostic ignored "-Woverlength-strings"
#endif
END
    for kernel in $kernels; do
        [ -n "$spirv" ] || break
        spirv_of "$1" "$kernel"
        printf '\nHCQ_KERNEL_SPIRV(%s) = {\n' "$kernel"
        od -An -v -tx4 "$dir/code" | awk "$array"
        echo "};"
    done
    if [ -n "$ptx" ]; then
        ptx_of "$1"
        printf '\nHCQ_KERNEL_PTX(%s) =\n' "$name"
        sed -e 's/.*/    "&\\n"/' -e '$s/$/;/' "$dir/text"
    fi
    echo
    for kernel in $kernels; do
        echo "#define HCQ_KERNEL_HAS_$kernel ~, ${kernel}_gpu"
        code="NULL, 0" text=NULL
        [ -z "$spirv" ] || code="${kernel}_spirv, sizeof ${kernel}_spirv"
        [ -z "$ptx" ] || text=${name}_ptx
        echo "HCQ_KERNEL_GPU($kernel, $code, $text);"
    done
}

while [ $# -gt 0 ]; do
    case $1 in
    --check) check=1 ;;
    --spirv) ptx='' ;;
    --ptx) spirv='' ;;
    --arch) arch=$2 && shift ;;
    -o) out=$2 && shift ;;
    -I | -D) flags="$flags $1$2" && shift ;;
    -I* | -D*) flags="$flags $1" ;;
    -*) fail "unknown option $1" ;;
    *) break ;;
    esac
    shift
done
[ $# -gt 0 ] || fail "usage: hcq_kernel.sh [--check] [--spirv | --ptx] FILE.k ..."
glsl=$(first_of glslangValidator glslc) cuda=$(first_of clang nvcc) cc=$(first_of clang gcc)
missing=
[ -z "$spirv" ] || [ -n "$glsl" ] || missing=" glslangValidator (or glslc)"
[ -z "$ptx" ] || [ -n "$cuda" ] || missing="$missing clang (or nvcc)"
[ -z "$missing" ] || { echo "hcq_kernel.sh: no$missing" >&2; exit 77; }
made=
for tool in ${spirv:+"$glsl" $(first_of spirv-opt)} ${ptx:+"$cuda"}; do
    made="$made${made:+, }$(version "$tool")"
done
for file in "$@"; do
    [ -z "$cc" ] || check_c "$file"
    header "$file" >"$dir/header"
    made_of=${out:-$(dirname "$file")}/$(basename "$file").h
    if [ -n "$check" ]; then
        [ ! -e "$made_of" ] || grep -qF "with the sum $(sum "$file"). */" "$made_of" ||
            fail "$made_of was made of another $file"
        continue
    fi
    mv "$dir/header" "$made_of"
done
