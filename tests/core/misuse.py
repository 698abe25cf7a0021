#!/usr/bin/env python3
"""misuse.py HEADERS TABLE: writes C that calls every function of the header parts
with each parameter wrong, one at a time, as the table says what is wrong for its
type and name. Fails where a function, a parameter or a field has no line there,
which is shown first, with one more of each."""
import re
import sys


# As a first parameter these have a logger, which gets the lines about the others.
LOGGERS = ("hcq_device *", "hcq_queue *", "hcq_program *", "hcq_signal", "hcq_point", "hcq_buffer")


class Missing(Exception):
    pass


def need(condition, *words):
    if not condition:
        raise Missing(" ".join(words))


def split(text, mark):
    """Splits where no bracket is open."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "([{") - (c in ")]}")
        if c == mark and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [p.strip() for p in parts if p.strip()]


# ---- the header: functions, structs, results


def backend_of(function):
    """Whose header has it; empty: hcq.h, or hcq_check.h."""
    return next((b for b in ("vulkan", "cuda") if function.startswith(f"hcq_{b}_")), "")


def macro_of(function):
    """With which it is there."""
    backend = backend_of(function)
    checks = function.startswith("hcq_check_") or function == "hcq_explore"
    return "HCQ_CHECK" if checks else f"HCQ_TEST_{backend.upper()}" if backend else ""


def declared(text):
    """A declaration's type and name; of a function pointer or an array, too."""
    pointer = re.match(r"(.*)\(\*(\w+)\)", text)
    if pointer:
        return "fn", pointer.group(2)
    kind, name = re.match(r"(.*?)(\w+)(?:\[.*\])?$", text, re.S).groups()
    return kind.replace("struct hcq_", "hcq_").strip(), name


def read_header(text):
    text = text[:re.search(r"#endif /\* HCQ_\w*H \*/", text).start()]
    results = re.findall(r"X\(HCQ_ERROR_(\w+),", text)
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^#.*?(?<!\\)$", "", text, flags=re.S | re.M)
    text = re.sub(r"\s+", " ", text)
    functions, structs = {}, {}
    for result, name, params in re.findall(r"(?:HCQ_API|HCQI_INLINE) ([^;(]*?)(\w+) ?\((.*?)\)"
                                           r"(?: \w+\(\d, \d\))?(?:;| \{)", text):
        params = [p for p in split(params, ",") if p not in ("void", "...")]
        functions[name] = (result.strip(), [declared(p) for p in params])
    for start in re.finditer(r"typedef struct (\w+) \{", text):
        body = text[start.end():]
        body = body[:body.index("} " + start.group(1) + ";")]
        structs[start.group(1)] = [declared(d if k == 0 else "int " + d.lstrip("* "))[1]
                                   for field in split(body, ";")
                                   for k, d in enumerate(split(field, ","))]
    return functions, structs, results


# ---- the table


class Row:
    """NAME = GOOD ; BAD RESULT[/WORD] ; ...  |  NAME - reason"""

    def __init__(self, op, rest, results):
        self.good, *entries = [e.strip() for e in rest.split(";")] if op == "=" else [rest]
        self.bad, self.reason, self.used = [], rest if op == "-" else None, False
        self.more = "..." in entries   # beside what the type has
        for e in entries:
            if e.startswith("- "):
                self.reason = e
            if e.startswith("- ") or e == "...":
                continue
            at = re.match(r"(.*) ([A-Z_]+)(?:/(\S+))?$", e)
            need(at and at.group(2) in results, "not 'VALUE RESULT':", e)
            self.bad.append(at.groups())


class Block:
    def __init__(self, words):
        self.rows, self.words = {}, words


def read_table(text, results):
    blocks, row = {}, re.compile(r"  (\S.*?) ([=-])(?: (.*))?$")
    text = re.sub(r";\n +", "; ", text)
    for line in re.sub(r"(^|  )#.*$", "", text, flags=re.M).split("\n"):
        if line.startswith("  ") and line.strip():
            at = row.match(line)
            need(at, "not a row:", line)
            for key in at.group(1).split(", "):
                need(key not in block.rows, "twice:", key)
                block.rows[key] = Row(at.group(2), at.group(3) or "", results)
        elif line.strip():
            block = Block(line.strip())
            names = re.match(r"(struct )?[\w@]+(, [\w@]+)*", line).group().split(", ")
            for name in names:
                need(name not in blocks, "twice:", name)
                blocks[name] = block
    return blocks


# ---- the cases


class Maker:
    def __init__(self, headers, table):
        self.functions, self.structs, self.results = read_header(headers[0])
        for header in headers[1:]:     # a backend's, the checker's
            functions, structs, _ = read_header(header)
            self.functions.update(functions)
            self.structs.update(structs)
        self.blocks = read_table(table, self.results)
        self.types = self.blocks["types"].rows
        self.out, self.count, self.tests = [], 0, 0

    def row(self, scene, own, kind, name):
        rows = [r for r in (self.types.get(kind + ("" if kind.endswith("*") else " ") + name),
                            own.get(name)) if r]
        need(rows, scene + ": no line for", kind, name)
        for r in rows:
            r.used = True
        if len(rows) == 1:
            return rows[0]
        whole = Row("=", rows[1].good or rows[0].good, self.results)
        whole.bad = rows[0].bad * rows[1].more + rows[1].bad
        whole.reason = rows[1].reason or (rows[0].reason if rows[1].more else None)
        return whole

    def fields(self, kind, own, name):
        """(path, row, names its parameter) of what a struct parameter has in it."""
        base = kind.replace("const ", "").rstrip(" *")
        if base not in self.structs or kind.count("*") > ("const " in kind) or name + ".*" in own:
            own.get(name + ".*", Row("-", "", [])).used = True
            return
        block = self.blocks.get("struct " + base)
        need(block, "no lines for struct", base)
        if " - " in block.words:
            return
        known = {re.split(r"[.[]", path)[0] for path in block.rows}
        for field in self.structs[base]:
            need(field in known, "no line for", base + "." + field)
        need(known <= set(self.structs[base]), "not in", base + ":", str(known))
        given = {k[len(name) + 1:] for k in own if k.startswith(name + ".")}
        for path in [*block.rows, *sorted(given - set(block.rows))]:
            row, mine = block.rows.get(path), own.get(name + "." + path)
            for r in (row, mine):
                if r:
                    r.used = True
            if row and mine and mine.more:
                whole = Row("=", "", self.results)
                whole.bad = row.bad + mine.bad
                mine = whole
            yield path, mine or row, "by parameter" in block.words and not mine

    def call(self, name, args):
        result = self.functions[name][0]
        call = f"{name}({', '.join(args)})"
        if result == "void":
            return f"({call}, 0)"
        if result in self.structs:
            return f"has_bytes(({result}[1]){{{call}}}, sizeof({result}))"
        return f"{call} != NULL" if result.endswith("*") else f"(int64_t){call}"

    def bad(self, scene, what, value, result, word, before=""):
        name, args, record, outs, queue = scene
        wanted = f"HCQ_ERROR_{result}"
        returns = wanted if self.functions[name][0] in ("hcq_result", "int32_t") else "0"
        first = self.functions[name][1][0]
        logs = first[0].replace("const ", "") in LOGGERS and what.split(".")[0] != first[1] \
            and not backend_of(name)
        text = value.replace("\\", "\\\\").replace('"', '\\"')
        self.out.append(f'    {{ {before}C.logs = {int(logs)};\n'
                        f'      BAD("{what} = {text}", {wanted}, {returns}, "{word}",\n'
                        f"        {self.call(name, args)});")
        for out, how in outs:
            if args[out[0]] == out[1]:
                self.out.append(f"      left(&O.{out[2]}, sizeof O.{out[2]}, '{how}');")
        if record:
            self.out.append(f"      sticky({args[queue]}, {wanted});")
        self.out.append("      GOOD(); }")
        self.count += 1

    def function(self, scene):
        block = self.blocks[scene]
        name, (head, _, undo) = scene.split("@")[0], block.words.partition(" | ")
        need(name in self.functions, "no such function:", name)
        params = self.functions[name][1]
        rows = [self.row(scene, block.rows, kind, p) for kind, p in params]
        goods, outs, decls = [], [], []
        for i, ((kind, p), row) in enumerate(zip(params, rows)):
            need(row.good, f"{scene}: nothing good for", p)
            goods.append(row.good)
            if row.good.startswith("out "):
                array = "[64]" if row.good == "out text" else ""
                goods[i] = f"O.{p}" if array else f"&O.{p}"
                decls.append(f"{kind[:-1].strip()} {p}{array};")
                outs.append(((i, goods[i], p), row.good[4]))
        record, queue = " record" in head, [k for k, _ in params].index("hcq_queue *") \
            if " record" in head else 0
        test = "misuse_" + scene.replace("@", "_")
        self.tests += 1
        answer = {"hcq_result": "r", "int32_t": "i", "void": "v"}.get(self.functions[name][0], "n")
        also = re.findall(r" or (\w+)", head)
        backend = backend_of(name)
        only = [f'    if (!is_{backend}()) {{ SKIP("not on it"); }}'] if backend else []
        macro = macro_of(name)
        self.out += [f"#ifdef {macro}"] if macro else []
        self.out += [f"TEST_BARE({test}) {{",
                     f"    struct {{ char none; {' '.join(decls)} }} O;",
                     *only, f'    start("{scene}", &O, sizeof O);',
                     f"#define GOOD() do {{ if (fine({self.call(name, goods)}, '{answer}', "
                     + (f"HCQ_ERROR_{also[0]}" if also else "HCQ_OK") + ")) { "
                     + (f"again({goods[queue]});" if record else undo.strip() + ";")
                     + " } } while (0)",
                     "    GOOD();"]
        for i, ((kind, p), row) in enumerate(zip(params, rows)):
            fields = list(self.fields(kind, block.rows, p)) if goods[i] != "NULL" else []
            need(row.bad or fields or row.reason, f"{scene}: nothing wrong with", p)
            for value, result, word in row.bad:
                args = goods[:i] + [value] + goods[i + 1:]
                self.bad((name, args, record, outs, queue), p, value, result, word or p)
            base, pointer = kind.replace("const ", "").rstrip(" *"), "*" in kind
            for path, row, by_param in fields:
                for value, result, word in row.bad:
                    sets = value[1:].split(", .") if value[0] == "." else [f"{path} = {value}"]
                    start = f"*({goods[i]})" if pointer else goods[i]
                    before = f"{base} s = {start}; " + "".join(f"s.{s}; " for s in sets)
                    args = goods[:i] + ["&s" if pointer else "s"] + goods[i + 1:]
                    self.bad((name, args, record, outs, queue), f"{p}.{path}", value, result,
                             word or (p if by_param else re.split(r"[.[]", path)[0]), before)
        self.out += ["#undef GOOD", "    finish();", "}", *["#endif"] * bool(macro), ""]

    def make(self):
        free = [w for w in self.blocks["except"].rows]
        for name in self.functions:
            scenes = [b for b in self.blocks if b.split("@")[0] == name]
            need(scenes or any(re.fullmatch(f.replace("*", ".*"), name) for f in free),
                 "no lines for the function", name)
            for scene in scenes:
                self.function(scene)
        for name, block in self.blocks.items():
            for key, row in block.rows.items():
                need(row.used or name == "except", name + ": nobody asks for", key)
            need(name in ("types", "except") or name.startswith("struct ") or
                 name.split("@")[0] in self.functions, "no such function:", name)
        return "\n".join(self.out)


def check(headers, table):
    """A prototype, a parameter or a field more than the table has must not pass."""
    header = headers[0]
    Maker(headers, table).make()
    bind = "hcq_queue_bind(hcq_queue *queue, hcq_device *device"
    for old, new in ((bind, "hcq_new(int more);\nHCQ_API hcq_result " + bind),
                     (bind, bind + ", int more"),
                     ("} hcq_submission;", "int more; } hcq_submission;"),
                     ("hcq_driver_info *info)", "hcq_dims *dims)")):
        need(old in header, "not in the header:", old)
        try:
            Maker([header.replace(old, new), *headers[1:]], table).make()
        except Missing as found:
            print("noticed:", found, file=sys.stderr)
            continue
        raise Missing("not noticed: " + new)


def main(args):
    texts = [open(path).read() for path in args]
    check(texts[:-1], texts[-1])
    maker = Maker(texts[:-1], texts[-1])
    print(maker.make())
    print(f"{maker.count} cases of {maker.tests} functions", file=sys.stderr)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Missing as missing:
        sys.exit(f"misuse: {missing}")
