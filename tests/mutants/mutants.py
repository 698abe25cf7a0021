"""Breaks hcq on purpose, one small change at a time, and tells which tests see it.
Run by tests/mutants.sh, whose head says how. Which tests enter a function is measured
on the unbroken library, so each change meets the tests that could see it, the fastest
first, and no others."""
import argparse
import concurrent.futures
import fcntl
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import places

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
DEFINES = ['-DHCQ_TEST_VULKAN', '-DHCQ_TEST_CUDA', '-D_GNU_SOURCE',
           '-DTEST_BOUND_S=10']
IMPLEMENTATION = 'tests/support/implementation.c'
CONFIGS = {
    'plain': ['-O0'],
    'tsan': ['-O1', '-g', '-fsanitize=thread'],
    'asan': ['-O1', '-g', '-fsanitize=address,undefined', '-fno-sanitize-recover=all'],
}
# Those that are asked after the plain tests, by the kind of change.
SANITIZERS = {'order': 'tsan', 'unlock': 'tsan'}
# program, private: compiled with the library, whose insides it knows; shared: linked
# to it. Its arguments; its variants: those of the first round, and of the second.
PROGRAMS = [
    ('unit', 'private', '', [''], []),
    ('spirv', 'private', '', [''], []),
    ('conformance', 'shared', '--quick', ['cpu', 'cpu-seeded', 'mock', 'vkmock', 'cumock'],
     ['cpu-narrow', 'cpu-no-native-wait', 'mock-map', 'trace', 'vkmock-one', 'vkmock-low',
      'cumock-events', 'cumock-plain']),
    ('misuse', 'shared', '--quick', ['cpu', 'mock', 'vkmock', 'cumock'], []),
    ('alloc', 'shared', '--quick', ['cpu', 'mock', 'vkmock-one', 'cumock'], ['cumock-events']),
    ('cuda', 'private', '--quick', ['cumock'], ['cumock-events', 'cumock-plain']),
    ('vulkan_check', 'private', '--quick', [''], []),
    ('graph', 'private', '--seeds 100', ['cpu', 'mock-map'], ['vkmock', 'cumock']),
    ('answers', 'shared', '--quick', ['cpu', 'mock'], ['vkmock', 'cumock']),
    ('faults', 'shared', '--quick', ['cpu', 'mock'], ['vkmock', 'cumock']),
    ('flat', 'shared', '--quick', [], ['cpu', 'mock']),
    ('stack', 'shared', '', [], ['cpu']),
    ('vulkan', 'shared', '--quick', [], ['vulkan']),
]
# Steps that build for themselves, in the rooms that they look at.
SCRIPTS = [
    ('profile', 'sh tests/core/profile.sh', r'core/(reporting|profiling|scheduling)'),
    ('schedules', 'gcc -std=gnu11 -O2 -w -c tests/cpu/scheduler.c -o scheduler.o && gcc '
     '-std=gnu11 -O0 -gdwarf-4 -w -fsanitize=thread -fno-pie -I. -c tests/cpu/schedules.c -o '
     'schedules.o && gcc -no-pie scheduler.o schedules.o -o schedules -ldl && ./schedules',
     r'cpu/|core/(atomics|lock)'),
]
TUNABLES = ('glibc.malloc.mmap_threshold=1073741824:glibc.malloc.trim_threshold=4294967296:'
            'glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1:'
            'glibc.pthread.stack_cache_size=0')  # as in run.sh
# Their threads take turns: on one processor, as in run.sh, they wake each other for less.
# ThreadSanitizer wants them to meet.
ON_ONE = re.compile('(alloc|faults|cuda|vulkan_check|misuse) |conformance (vk|cu)mock|graph (vk|cu)')
WORKER = threading.local()              # its processor: WORKER.cpu
WORDS = re.compile(r'hangs|MOCK|Sanitizer|runtime error|teardown:|hook:|Assertion|\.[ch]:\d+: ')


def base_of(variant, first):
    """The variant whose tests enter the same functions, None if there is none."""
    name = {'trace': 'cpu'}.get(variant, variant)
    return next((v for v in first if v and name.startswith(v)), None)


def compile_with(tree, config, args):
    compiler = 'clang' if config == 'plain' and shutil.which('clang') else 'gcc'  # is faster
    command = [compiler, '-std=c11', '-w', *CONFIGS[config], *DEFINES, '-I.', '-Itests', *args]
    return subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def must(done):
    if done.returncode != 0:
        sys.exit('does not compile: %s\n%s' % (done.args, done.stdout.decode(errors='replace')))


def source_of(tree, name):
    return glob.glob(os.path.join(tree, 'tests/**/%s.c' % name), recursive=True)[0]


class Case:
    """One test of one program on one variant."""

    def __init__(self, program, variant, test, seconds=0.0, owners=()):
        self.program, self.variant, self.test = program, variant, test
        self.seconds, self.owners = seconds, set(owners)
        name, self.how, self.args, first, _ = next(p for p in PROGRAMS if p[0] == program)
        self.round = 0 if variant in first else 1

    def __str__(self):
        return ' '.join(w for w in (self.program, self.variant, self.test) if w)

    def run(self, bench, binary, library, config, **extra):
        """None if it passes, else what one reads of it."""
        command = [binary, *self.variant.split(), *self.args.split()]
        if self.how == 'shared':
            command += ['--library', bench.file('kernels.so')]
        if config == 'tsan':
            command = ['setarch', '-R', *command]
        environment = dict(os.environ, LD_LIBRARY_PATH=library, HCQ_TEST_CUDA_MOCK=bench.folder,
                           GLIBC_TUNABLES=TUNABLES,
                           TSAN_OPTIONS='halt_on_error=1', ASAN_OPTIONS='detect_leaks=0',
                           MUTANTS_TEST=self.test, **extra)
        limit = 30 + self.seconds * (20 if config == 'plain' else 200)
        with tempfile.TemporaryFile() as out:
            child = subprocess.Popen(command, cwd=bench.folder, env=environment, stdout=out,
                                     stderr=out, stdin=subprocess.DEVNULL,
                                     start_new_session=True)
            if config != 'tsan' and ON_ONE.match(str(self) + ' ') and hasattr(WORKER, 'cpu'):
                os.sched_setaffinity(child.pid, [WORKER.cpu])
            try:
                status = child.wait(limit)
            except subprocess.TimeoutExpired:
                status = 'no end after %d s' % limit
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            child.wait()
            out.seek(0)
            text = out.read().decode(errors='replace')
        if 'MUTANTS_LIST' in extra or status == 0:
            return text if extra.get('MUTANTS_LIST') else None
        lines = [line for line in text.splitlines() if WORDS.search(line)]
        return (lines[0] if lines else 'status %s' % status).strip()[:100]


class Script:
    """Whole steps of run.sh, with a tree in place of a binary."""
    variant, test, seconds, round, how = '', '', 20.0, 1, 'script'

    def __init__(self, program, command, rooms):
        self.program, self.command, self.rooms = program, command, rooms
        self.owners = set()

    __str__ = Case.__str__

    def run(self, bench, tree, *_):
        done = subprocess.run(['timeout', '500', 'sh', '-c', self.command], cwd=tree,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        text = done.stdout.decode(errors='replace').strip().splitlines() or ['']
        return None if done.returncode in (0, 77) else text[-1][:100]


class Bench:
    """The unbroken library, the programs and what each test enters; made once for a
    state of the files, kept in a folder."""

    def __init__(self, folder, jobs):
        self.folder, self.jobs = folder, jobs
        self.famous = {}  # how many changes a test saw
        self.tables = {}  # of a file, the names of its functions by their places
        self.tree = self.file('tree')
        self.lock = threading.Lock()
        if not os.path.isdir(self.tree):
            copy_tree(ROOT, self.tree)

    def file(self, *names):
        return os.path.join(self.folder, *names)

    def library(self, tree, config, out, *extra):
        os.makedirs(out, exist_ok=True)
        return compile_with(tree, config, ['-shared', '-fPIC', *extra, IMPLEMENTATION, '-o',
                                           os.path.join(out, 'libhcq.so')])

    def program(self, tree, config, name, how, out, *extra):
        wrap = [self.file('cover.o'), '-Wl,--wrap=_cmocka_run_group_tests']
        if how == 'shared':
            wrap += ['-include', 'tests/support/apart.h', '-L' + self.file(config), '-lhcq']
        return compile_with(tree, config, [*extra, source_of(tree, name), *wrap, '-o', out,
                                           '-lcmocka', '-pthread', '-ldl', '-lm'])

    def once(self, name, make):
        """Makes what a name stands for, whoever wants it first."""
        with self.lock:
            if not os.path.exists(self.file(name + '.made')):
                make()
                open(self.file(name + '.made'), 'w').close()

    def unbroken(self, config, name, how):
        """A program with the unbroken library."""
        if how == 'script':
            return self.tree
        cover = ['-finstrument-functions'] if config == 'plain' else []
        self.once(config, lambda: must(self.library(self.tree, config, self.file(config), *cover)))
        out = self.file('%s-%s' % (config, name))
        more = cover if how == 'private' else []
        self.once('%s-%s' % (config, name), lambda: must(self.program(
            self.tree, config, name, how, out, *more)))
        return out

    def prepare(self):
        os.makedirs(self.folder, exist_ok=True)
        must(compile_with(self.tree, 'plain', ['-c', 'tests/mutants/cover.c', '-o',
                                               self.file('cover.o')]))
        must(compile_with(self.tree, 'plain', ['-shared', '-fPIC', source_of(
            self.tree, 'kernel_library'), '-o', self.file('kernels.so')]))
        with open(os.path.join(self.tree, 'misuse_cases.h'), 'w') as f:
            subprocess.run(['python3', 'tests/core/misuse.py', 'hcq.h', 'hcq_vulkan.h',
                            'hcq_cuda.h', 'hcq_check.h', 'tests/core/misuse.txt'],
                           cwd=self.tree, stdout=f, check=True)
        subprocess.run(['sh', 'hcq_kernel.sh', 'tests/support/shared.k', 'tests/graph/mixing.k'],
                       cwd=self.tree, check=True)
        for header, sources in (('vulkan/spirv_modules', 'vulkan/spirv/*'),
                                ('support/shaders', 'support/shaders/*.comp')):
            with open(os.path.join(self.tree, 'tests', header + '.h'), 'w') as f:
                subprocess.run(['sh', '-c', 'sh tests/vulkan/spirv_modules.sh tests/' + sources],
                               cwd=self.tree, stdout=f, check=True)
        for version in '', '-11040':
            more = ['-DMOCK_CUDA_VERSION=' + version[1:]] if version else []
            must(compile_with(self.tree, 'plain', [
                '-O1', '-shared', '-fPIC', *more, source_of(self.tree, 'libcuda'), '-o',
                self.file('libcuda%s.so.1' % version), '-pthread', '-ldl']))

    def cases(self):
        """All tests, each with its time and the functions it enters."""
        path = self.file('cases')
        if not os.path.exists(path + '.made'):
            if os.path.exists(path):
                os.remove(path)
            with open(path, 'a') as f, concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
                for case in pool.map(self.measure, self.listed()):
                    fields = [case.program, case.variant, case.test, case.seconds,
                              sorted(case.owners)]
                    f.write(json.dumps(fields) + '\n')
            open(path + '.made', 'w').close()
        with open(path) as f:
            cases = [Case(*json.loads(line)) for line in f]
        more = [Case(name, variant, c.test, c.seconds, c.owners)
                for name, _, _, first, second in PROGRAMS for variant in second
                for c in cases if c.program == name and c.variant == base_of(variant, first)]
        return [c for c in cases + more if c.owners] + [Script(*s) for s in SCRIPTS]

    def listed(self):
        """The tests that are measured."""
        self.once('prepared', self.prepare)
        cases = []
        for program, how, _, first, second in PROGRAMS:
            binary = self.unbroken('plain', program, how)
            for variant in first + [v for v in second if not base_of(v, first)]:
                text = Case(program, variant, '').run(self, binary, self.file('plain'), 'plain',
                                                      MUTANTS_LIST='1')
                cases += [Case(program, variant, name)
                          for name in re.findall(r'^test: (\w+)', text, re.M)]
        print('%d tests, each once on the unbroken library' % len(cases), flush=True)
        return cases

    def measure(self, case):
        binary = self.file('plain-' + case.program)
        case.seconds = 15.0  # so that its limit is generous
        with tempfile.NamedTemporaryFile(dir=self.folder) as cover:
            began = time.time()
            bad = case.run(self, binary, self.file('plain'), 'plain', MUTANTS_COVER=cover.name)
            case.seconds = round(time.time() - began, 3)
            entered = cover.read()
        if bad:
            print('%s fails on the unbroken library: %s' % (case, bad), flush=True)
            return case
        names = self.symbols(binary if case.how == 'private' else self.file('plain/libhcq.so'))
        at = entered.find(1)
        while at >= 0:
            case.owners.update(names.get(at, ()))
            at = entered.find(1, at + 1)
        return case

    def symbols(self, file):
        with self.lock:
            if file not in self.tables:
                table = self.tables[file] = {}
                text = subprocess.run(['nm', file], stdout=subprocess.PIPE, text=True).stdout
                for at, name in re.findall(r'^([0-9a-f]+) [tTwW] (\w+)', text, re.M):
                    table.setdefault(int(at, 16), []).append(name)
            return self.tables[file]


def copy_tree(source, target):
    """What a build reads."""
    new = target + '.new'
    shutil.rmtree(new, ignore_errors=True)
    os.makedirs(new)
    for name in glob.glob(os.path.join(source, 'hcq*.*h')):
        shutil.copy(name, new)
    for name in 'tests', 'examples':
        shutil.copytree(os.path.join(source, name), os.path.join(new, name))
    os.rename(new, target)


class Trial:
    """One change in a worker's own copy of the files, before the tests."""

    def __init__(self, bench, tree, source, mutant):
        self.bench, self.tree, self.mutant = bench, tree, mutant
        self.source, self.built = source, {}

    def __enter__(self):
        self.write(self.mutant.apply(self.source.lines))
        return self

    def __exit__(self, *_):
        self.write(''.join(self.source.lines))

    def write(self, text):
        with open(os.path.join(self.tree, self.source.file), 'w') as f:
            f.write(text)

    def build(self, config, case):
        """The program and the folder of the library, broken; None: does not compile."""
        if case.how == 'script':
            return self.tree, None
        name = case.program if case.how == 'private' else 'library'
        out = os.path.join(self.tree, 'broken-%s-%s' % (config, name))
        if (config, name) not in self.built:
            if case.how == 'private':
                done = self.bench.program(self.tree, config, name, 'private', out)
            else:
                done = self.bench.library(self.tree, config, out)
            self.built[config, name] = done.returncode == 0
        if not self.built[config, name]:
            return None
        if case.how == 'private':
            return out, self.bench.file(config)
        return self.bench.unbroken(config, case.program, case.how), out

    def same_code(self):
        """Does the compiler make the same of both?"""
        out = os.path.join(self.tree, 'code.o')
        codes = []
        for tree in self.bench.tree, self.tree:
            compile_with(tree, 'plain', ['-O2', '-c', IMPLEMENTATION, '-o', out])
            with open(out, 'rb') as f:
                codes.append(f.read())
        return codes[0] == codes[1]

    def judge(self, cases):
        """(status, why): invalid, seen, same, unseen."""
        first = next(c for c in cases if c.how == 'shared')
        if not self.build('plain', first):
            return 'invalid', 'does not compile'
        sanitizer = SANITIZERS.get(self.mutant.kind, 'asan')
        for config in 'plain', sanitizer:
            for case in self.those_that_enter(cases, config):
                found = self.build(config, case)
                bad = case.run(self.bench, *found, config) if found else None
                if bad and not case.run(self.bench, self.bench.unbroken(
                        config, case.program, case.how), self.bench.file(config), config):
                    self.bench.famous[case.test] = self.bench.famous.get(case.test, 0) + 1
                    return 'seen', '%s%s: %s' % (
                        case, '' if config == 'plain' else ', ' + config, bad)
            if config == 'plain' and self.same_code():
                return 'same', 'the compiler makes the same code of it'
        return 'unseen', '%d tests pass' % len(self.those_that_enter(cases, 'plain'))

    def those_that_enter(self, cases, config):
        """Their order: what is fast first. The core's changes meet what the GPUs' backends
        add to it in the short tests of the first round only."""
        owner, part = self.mutant.owner, self.mutant.part
        owners = {owner} if any(owner in c.owners for c in cases) else self.source.users(owner)

        def fits(case):
            abroad = part in ('core', 'cpu') and re.match('vk|cu|vulkan', case.variant)
            if case.how == 'script':
                return config == 'plain' and re.match(case.rooms, self.mutant.room)
            if owner and not case.owners & owners or abroad and (case.round or case.seconds > 1):
                return False
            meanwhile = config == 'tsan' and case.test.startswith('meanwhile_')
            return config == 'plain' or meanwhile or (
                case.round == 0 and case.how == 'shared' and not abroad and
                case.program in ('conformance', 'answers', 'alloc'))

        def price(case):  # a private program is compiled first; what saw much is likely to
            building = 3 if case.how == 'private' else 0
            return case.round, (case.seconds + building) / (1 + self.bench.famous.get(case.test, 0))
        return sorted(filter(fits, cases), key=price)


# ---- which mutants, and what was found about them -----------------------------------


def sources_of(tree):
    command = ['gcc', '-E', '-dD', '-std=c11', *DEFINES, '-I.', '-Itests', IMPLEMENTATION]
    active = places.active_lines(tree, command)
    return {part: places.Source(part, tree, active[file]) for part, file in places.PARTS.items()}


def fixed_mutants(sources):
    """Mistakes that one makes, by name: tests/mutants/fixed.txt."""
    with open(os.path.join(HERE, 'fixed.txt')) as f:
        entries = [line.split(None, 2) for line in f if line.strip() and line[0] != '#']
    mutants, stale = [], []
    for name, part, script in entries:
        source = sources[part]
        text = subprocess.run(['sed', script.strip()], input=''.join(source.lines), text=True,
                              stdout=subprocess.PIPE, check=True).stdout.splitlines(True)
        edits = {i: new for i, (old, new) in enumerate(zip(source.lines, text), 1) if old != new}
        if not edits or len(text) != len(source.lines):
            stale.append(name)
            continue
        line = min(edits)
        place = ('fixed', 'fixed', source.file, source.owners[line], source.lines[line - 1].strip())
        mutants.append(places.Mutant(place, line, 'fixed', name, edits))
        mutants[-1].name, mutants[-1].part = 'fixed/' + name, part
    if stale:
        sys.exit('mutants/fixed.txt: these match no line any more: %s' % ' '.join(stale))
    return mutants


def equivalents():
    """The keys of tests/mutants/equivalent.txt: changes that no test can see, each with why."""
    with open(os.path.join(HERE, 'equivalent.txt')) as f:
        lines = [line.strip() for line in f if line.strip() and line[0] != '#']
    return set(lines[::2])


class Results:
    """A line for each change that was tried; what is in the file is not tried again."""

    def __init__(self, path):
        self.path, self.lock, self.found = path, threading.Lock(), {}
        if os.path.exists(path):
            with open(path) as f:
                for line in f:
                    key, status, why = json.loads(line)
                    self.found[key] = status, why

    def add(self, key, status, why):
        with self.lock:
            self.found[key] = status, why
            with open(self.path, 'a') as f:
                f.write(json.dumps([key, status, why]) + '\n')


def draw(sources, results, options):
    """The changes to try, in the order of the rooms: what was found not to compile makes
    room for the next one."""
    chosen = []
    shares = places.quotas(sources.values(), options.seed, options.count)
    for source in sources.values():
        for room in source.rooms:
            number = 0
            for mutant in places.candidates(source, room, options.seed):
                if number == shares[room]:
                    break
                if results.found.get(mutant.key(), [''])[0] not in ('invalid', 'same'):
                    number += 1
                    mutant.name = '%s-%d' % (room, number)
                    chosen.append(mutant)
    if any(p.startswith('fixed') for p in options.parts):
        chosen += fixed_mutants(sources)
    return [m for m in chosen if not options.parts or m.name in options.parts or
            any(m.name.startswith(p + '/') or m.name.startswith(p + '-') for p in options.parts)]


def table(mutants, sources, results, excused):
    """By rooms; the percentage of those seen among those that can be."""
    rows, total = {}, [0, 0, 0, 0]
    for m in mutants:
        at = 2 if m.key() in excused else 1 if results.found[m.key()][0] == 'seen' else 3
        for r in rows.setdefault(m.room, [0, 0, 0, 0]), total:
            r[0] += 1
            r[at] += 1
        if at == 3:
            print('not seen: %s  %s\n    key: %s' % (m.name, m, m.key()))
    lines = {room: len(of) for s in sources.values() for room, of in s.rooms.items()}
    print('\n%-32s %6s %8s %6s %11s %9s' % ('room', 'lines', 'changes', 'seen', 'equivalent',
                                            'not seen'))
    for room, row in list(rows.items()) + [('all', total)]:
        print('%-32s %6s %8d %6d %11d %9d' % (room, lines.get(room, ''), *row))
    percent = 100.0 * total[1] / max(total[0] - total[2], 1)
    print('seen: %.1f %% of those that can be' % percent)
    return percent


def digest():
    """Of every file that a result depends on."""
    h = hashlib.sha256()
    names = glob.glob(os.path.join(ROOT, 'hcq*.h')) + [
        f for folder in ('tests', 'examples')
        for f in glob.glob(os.path.join(ROOT, folder, '**/*.[chk]'), recursive=True)]
    for name in sorted(names):
        with open(name, 'rb') as f:
            h.update(name.encode() + f.read())
    return h.hexdigest()[:12]


def main():
    p = argparse.ArgumentParser(prog='tests/mutants.sh')
    p.add_argument('parts', nargs='*', metavar='PART')
    p.add_argument('--list', action='store_true')
    p.add_argument('--seed', type=int, default=1)
    p.add_argument('--count', type=int, default=150)
    p.add_argument('--jobs', type=int, default=os.cpu_count())
    p.add_argument('--folder', default=os.path.join(
        tempfile.gettempdir(), 'hcq-mutants-%d' % os.getuid(), digest()))
    p.add_argument('--least', type=float, default=100.0)
    options = p.parse_args()
    os.makedirs(options.folder, exist_ok=True)
    alone = open(os.path.join(options.folder, 'lock'), 'w')
    fcntl.flock(alone, fcntl.LOCK_EX)
    bench = Bench(options.folder, options.jobs)
    sources = sources_of(bench.tree)
    results = Results(bench.file('results'))
    excused = equivalents()
    if options.list:
        for m in draw(sources, results, options):
            print(m.name, m, sep='  ')
        return 0
    print('seed %d, folder %s' % (options.seed, options.folder), flush=True)
    cases = bench.cases()
    trees = [bench.file('tree-%d' % i) for i in range(options.jobs)]
    for tree in trees:
        shutil.rmtree(tree, ignore_errors=True)
        copy_tree(bench.tree, tree)

    def try_one(mutant):
        began = time.time()
        with results.lock:
            tree = trees.pop()
        WORKER.cpu = int(tree.rpartition('-')[2]) % os.cpu_count()
        try:
            with Trial(bench, tree, sources[mutant.part], mutant) as trial:
                status, why = trial.judge(cases)
        finally:
            trees.append(tree)
        results.add(mutant.key(), status, why)
        print('%-8s %s  %s\n    %s [%d s]' % (status, mutant.name, mutant, why,
                                                    time.time() - began), flush=True)

    while True:
        mutants = draw(sources, results, options)
        todo = [m for m in mutants if m.key() not in results.found and m.key() not in excused]
        if not todo:
            break
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(try_one, todo))
    return 0 if table(mutants, sources, results, excused) >= options.least else 1


sys.exit(main())
