#!/usr/bin/env python3
"""What 1.0 promised is still there: each function with its types, each struct's fields in
their order, each constant with its value, as tests/core/api-1.txt has them. Fields may be
added behind the others, but not to what programs write by position; the rest may only grow.
The part for backends has a version number of its own.

   python3 tests/core/api.py [--write]     --write adds what is new, if nothing breaks
"""
import re
import sys
import textwrap

from misuse import declared, split

LIST = "tests/core/api-1.txt"
HEADERS = ["hcq.h", "hcq_cpu.h", "hcq_vulkan.h", "hcq_cuda.h", "hcq_check.h", "hcq_kernel.h"]
TESTS = ["HCQ_VULKAN_ONE", "HCQ_VULKAN_NO_", "HCQ_VULKAN_STAGED", "HCQ_CPU_ONE", "HCQ_CUDA_ONE",
         "HCQ_CUDA_NO_GRAPHS", "HCQ_CUDA_NO_POOLS", "HCQ_CUDA_NO_JIT", "HCQ_CUDA_NO_IMPORT"]
CLOSED = ["hcq_buffer", "hcq_point", "hcq_dims", "hcq_value"]  # passed and written as values


def types(params):
    return ", ".join(p if p in ("void", "...") else re.sub(r"\b\w+((?:\[.*\])?)$", r"\1", p).strip()
                     if "(*" not in p else re.sub(r"\(\*\w+\)", "(*)", p)
                     for p in split(params, ","))


def values(body):
    """An enumeration's names and values; what has none of its own counts on."""
    last, beyond = "-1", 0
    for item in split(body, ","):
        name, _, value = (part.strip() for part in item.partition("="))
        last, beyond = (value, 0) if value else (last, beyond + 1)
        number = str(int(last, 0) + beyond) if re.fullmatch(r"-?(0x)?[\da-fA-F]+", last) else last
        if re.fullmatch(r"HCQ_\w+", name) and not name.startswith(tuple(TESTS)):
            yield name, number


def public(text):
    """Name to declaration."""
    end = re.search(r"#endif /\* HCQ_\w*H \*/", text)
    text = text[:end.start()] if end else text
    begin, end = text.find(">>backend - */"), text.find(">>implementation - */")
    if begin > 0 and end < 0:
        text = text[:begin]
    if text.startswith("/* hcq_kernel.h"):  # whose words are macros in one language or another
        text += "".join(f"\ntypedef struct {w} {w};"
                        for w in re.findall(r"\b(hcq_[a-z]\w*)\b", text[:text.index("*/")]))
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = text.replace("\\\n", " ")
    found = {}
    for name, value in re.findall(r"^#define (HCQ_\w+(?:\([^)]*\))?)[ \t]*(.*)$", text, flags=re.M):
        at = name.find("(")
        takes = f"({len(split(name[at + 1:-1], ','))} arguments)" if at > 0 else ""
        if name == "HCQ_RESULTS(X)":
            for code, number in re.findall(r"X\((\w+), (-?\d+),", value):
                found[code] = f"{code} = {number}"
        key = name[:at] if at > 0 else name
        if not key.endswith("_H") and not key.startswith(("HCQ_VERSION_", "HCQ_MAX_")):
            found[key] = f"macro {key}{takes}" if takes or not re.match(r"[\d(]", value) \
                else f"{key} = {value.strip()}"
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    text = re.sub(r"\s+", " ", text)
    for result, name, params in re.findall(r"(?:HCQ_API|HCQI_INLINE) ([^;(]*?)(\w+) ?\((.*?)\)"
                                           r"(?: \w+\(\d, \d\))?(?:;| \{)", text):
        found[name] = f"{result}{name}({types(params)})"
    for name, body in re.findall(r"struct (hcq_\w+) \{((?:[^{}]|\{[^{}]*\})*)\}", text):
        fields = []
        for field in split(body, ";"):
            first, *more = split(field, ",")
            kind = declared(first)[0]
            fields += [first] + [f"{kind.rstrip(' *')} {m}" for m in more]
        found[name] = f"struct {name}: " + "; ".join(fields)
    for body in re.findall(r"enum(?: \w+)? \{(.*?)\}", text):
        for name, number in values(body):
            found[name] = f"{name} = {number}"
    for name in re.findall(r"typedef (?:struct|enum) \w+ (hcq_\w+);|typedef enum (hcq_\w+)", text):
        found.setdefault("".join(name), "name " + "".join(name))
    for what, params in re.findall(r"typedef ([^;{}]*?\(\*\w+\))\((.*?)\);", text):
        name = re.search(r"\(\*(\w+)\)", what).group(1)
        found[name] = f"type {what}({types(params)})"
    return found


def wrong(old, new):
    """Why the declaration `new`, or None, breaks programs written for `old`."""
    if new is None:
        return "is gone"
    if old == new:
        return None
    name = re.match(r"struct (\w+):", old)
    if name and name.group(1) not in CLOSED and new.startswith(old + "; "):
        return None
    return "was:\n    " + old + "\nand is:\n    " + new


NAMES = (r"(?:struct|macro|name) (\w+)", r"type .*?\(\*(\w+)\)", r"(\w+) = ", r".*?(\w+)\(")


def read_list():
    text = re.sub(r"\n    ", " ", re.sub(r"^#.*\n", "", open(LIST).read(), flags=re.M))
    lines = [line for row in text.splitlines()
             for line in (row.split(", ") if row.startswith(("HCQ_", "name ")) else [row])]
    return {next(m.group(1) for n in NAMES if (m := re.match(n, line))): line for line in lines}


def write_list(now):
    """Constants that follow each other share lines, and names do."""
    rows = []
    for line in now.values():
        if rows and line[:4] in ("HCQ_", "name") and rows[-1].startswith(line[:4]):
            rows[-1] += ", " + line
        else:
            rows.append(line)
    with open(LIST, "w") as out:
        out.write("# What every hcq 1.x has; core/api.py compares. Nothing in it may change.\n")
        for row in rows:
            out.write("\n    ".join(textwrap.wrap(row, 96, break_long_words=False)) + "\n")


def faults(promised, now):
    found = [f"{name} {why}" for name, old in promised.items() if (why := wrong(old, now.get(name)))]
    return found + [f"{name} is not in {LIST}: python3 tests/core/api.py --write" for name in now
                    if name not in promised]


def breaks_are_seen(promised, header):
    """What would break a program must not pass."""
    for old, new in (("HCQ_TIMEOUT, 1,", "HCQ_TIMEOUT, 3,"), ("HCQ_OVERLAP = 1", "HCQ_OVERLAP = 16"),
                     ("hcq_signal_set(hcq_signal signal, ", "hcq_signal_set(hcq_signal signal, int x, "),
                     ("uint64_t explain_ns;", ""), ("} hcq_buffer;", "int more; } hcq_buffer;"),
                     ("uint64_t timeout_ns;", "int first; uint64_t timeout_ns;")):
        if old not in header or not faults(promised, public(header.replace(old, new))):
            sys.exit("api: nobody noticed " + new)


def main(args):
    texts = [open(header).read() for header in HEADERS]
    now = {}
    for text in texts:
        for name, line in public(text).items():
            now.setdefault(name, line)
    promised = read_list()
    breaks_are_seen({name: promised[name] for name in public(texts[0]) if name in promised}, texts[0])
    found = faults(promised, now)
    if args == ["--write"] and all(f.split(" ")[0] not in promised for f in found):
        return write_list(now)
    print(f"{len(promised)} declarations")
    if found:
        sys.exit("api: " + "\napi: ".join(found))


main(sys.argv[1:])
