#!/usr/bin/env python3
"""Every number in the headers at which the library does something else, with the tests
that go one below, to and one above it, or why there is none. A new #define, enumerator
or default of a description, or one with another value, that is not in the table fails.

   python3 tests/core/limits.py
"""
import fnmatch
import glob
import re
import sys

HEADERS = ["hcq.h", "hcq_cpu.h", "hcq_vulkan.h", "hcq_cuda.h", "hcq_check.h"]

# TESTS or - REASON: NAME or NAME=VALUE ... ; '*' in a name: any. The first row counts.
TABLE = """
- flags, keys, kinds, marks, versions: HCQI_CHECKED HCQI_CHECK_KNOWN HCQ_VERSION_* HCQ_FEATURE_* HCQ_DEVICE_* HCQ_CPU_*
    HCQI_IN_LAUNCH HCQI_IN_EPOCH HCQI_RACE HCQI_IMPORTED HCQI_VK_NEEDS_* HCQ_PACKET_* HCQ_HOST_VISIBLE HCQ_HOST_WRITES HCQ_NO_CACHE HCQ_ZEROED
    HCQ_EXPLORE_* HCQI_CPU_ALONE HCQI_PLAN_FORGETS
    HCQI_READ HCQI_WRITE HCQI_RELATIVE HCQI_SECOND HCQI_FAR HCQI_SILENT
    HCQ_GRID_INDIRECT HCQ_OVERLAP HCQ_UNORDERED HCQ_STEP HCQ_COPY_LISTS
    HCQ_VALIDATE HCQI_MAGIC_* HCQI_PARTS HCQI_TAG HCQI_IN_BLOCK HCQ_PART_* HCQ_COMMAND_WAIT
    HCQ_CUDA_* HCQ_VULKAN_* HCQ_PROGRAM_* HCQ_QUERY_BACKEND HCQ_BACKEND_VERSION HCQI_CUDA_POOLED
- numbers of others: the CUDA driver's, Linux's, SPIR-V's: HCQI_CU_*
    HCQI_SYS_CPU_WORDS HCQI_VK_OP_* HCQI_VK_CLASS_* HCQI_VK_LISTS_ALL HCQI_VK_SPEC_ID
    HCQI_VK_BLOCK HCQI_VK_BUFFER_BLOCK HCQI_VK_ROW_MAJOR HCQI_VK_*_STRIDE HCQI_VK_COMPUTE
    HCQI_VK_HEADER HCQI_VK_BUILT_IN HCQI_VK_LOCAL_SIZE* HCQI_VK_WORKGROUP_*
    HCQI_VK_BINDING HCQI_VK_SET HCQI_VK_OFFSET HCQI_VK_NO_CAPABILITY
- bits of the gate; cpu/ has its model: HCQI_CPU_GENERATION* HCQI_CPU_O[PW]*
- its place: placeholders of 2^43 bytes do not meet: HCQI_TAG_SHIFT=43
- the size of an enumeration, a sum of macros: HCQI_RESULT_MAX HCQI_VK_*_NEEDED
    HCQI_CUDA_NEEDED_COUNT HCQI_CUDA_NVRTC_* HCQI_CUDA_FULL HCQI_CUDA_ALL_LANES HCQI_VALUE_WORDS
- sizeof and alignment of a uvec3; grids_beyond_65535 runs it: HCQI_VK_BASE_*
- how memory is laid out: HCQI_PIECE_HEAD
- a label's length, escaped: HCQI_NAME_BYTES
- how fast: .spin_ns .cache_bytes HCQI_BLOBS HCQI_SHELVES HCQI_PASSED HCQI_SYS_BUCKETS HCQI_CPU_LINE HCQI_CPU_CHUNKS HCQI_CPU_AHEAD
    HCQI_CPU_LAP HCQI_CPU_T[A-QS-Z]* HCQI_CPU_ROOM HCQI_CPU_LOST_* HCQI_CPU_*_PS
    HCQI_CUDA_POOL_KEEP HCQI_CUDA_WORD_BYTES HCQI_VK_BUCKETS HCQI_READERS
copyin_beyond_staging copyin_beside_held_work: .staging_count=32
copies_around_every_size: .staging_bytes=2MiB HCQI_STAGE_ALIGN=16
    HCQI_DIRECT_BYTES=65536
- how often a wait looks up, counters are asked; how long is explained: HCQI_SLICE_* HCQI_LOOK*
answers_stay: HCQI_FAILURES=64
heap_sorts_bursts: HCQI_SORT_*
pools_give_back_what_a_burst_took: HCQI_CHUNK*
any_number_of_commands: HCQI_CUDA_GRAPH_MIN=2
any_number_in_flight freed_blocks_cost_the_same: HCQI_BREATH=128
deadlines short_waits_are_silent: HCQI_SYS_FOREVER
spinner_who_lost_his_turn_sends_all_to_sleep: HCQI_CPU_TRIAL=4 HCQI_CPU_TRIALS=64
any_number_in_flight: HCQI_CUDA_RECORDS=256 HCQI_CPU_CHUNK=1024 HCQI_POSTS=64
    HCQI_VK_CALL=32
any_number_in_flight events_go_back_to_their_pool: HCQI_CUDA_EVENTS_FIRST=256
memory_has_limits large_allocations_have_their_own: HCQI_VK_BLOCK_M*
as_many_arguments_as_fit: HCQ_MAX_ARGS=64
numbers_of_values: HCQ_MAX_VALUES=256 HCQI_VALUE_POOLS=9
grids_of_each_run: HCQI_GRID_BYTES=12
writes_of_every_size: HCQI_WRITE_BYTES=65536
many_devices: HCQI_MAX_DEVICES=64
register_limits: HCQI_MAX_BACKENDS=8
as_many_lanes_as_fit: HCQI_MAX_LANES=16 HCQI_CPU_LANES=8 HCQI_CUDA_LANES=8 HCQI_CUDA_COPY_LANES=4
    HCQI_VK_LANES=8 HCQI_VK_COPY_LANES=4
as_many_empties_as_fit: HCQI_MAX_EMPTIES=4000
graphs_on_as_many_lanes_as_fit: HCQI_MAX_SLICES=64 HCQI_COPY_BYTES=16384
any_number_of_earlier_launches: HCQI_MAX_EARLIER=8
profile_of_a_queue profile_overflows: HCQI_REPORT_STEP=256
signal_values: HCQI_MAX_VALUE
any_number_of_waits any_number_of_running_lanes sixteen_queues_at_most: HCQI_BATCH_WAITS=16
waits_of_many_points: HCQI_SLEEPER_POINTS=16
promises_in_one_place: HCQI_PROMISES=16384
explain_long_chains: HCQI_PATH=64
zeros_around_every_size: HCQI_ZERO_BYTES=16384
handles_never_come_again: HCQI_SLOT_BITS=20 HCQI_SERIAL_MASK
chain_on_a_small_stack held_values_are_small: .held_pool=4096
parked_limit_refuses: .held_limit=4194304
forgotten_answers_say_so: .failure_ranges=65536
temporaries_stay_bounded: .inflight=4096
version_with_least_work_is_taken versions_of_those_that_wait: .versions=2
times_that_nobody_gave: .timeout_ns=30s .explain_ns=5s
profile_overflows: .events=65536
profile_outlives_its_objects: .names=1024
ordinals_of_the_cpu: HCQI_CPU_ORDINALS=64
grids_and_copies_in_parts: HCQI_CPU_PARTS=4
as_many_overlap_as_change_places: HCQI_CPU_OVERLAPS=64
pieces_beyond_those_looked_at: HCQI_CPU_PIECES=256
as_many_ranges_as_are_told_apart: HCQI_TRAIL=8
as_many_pieces_as_are_told_apart: HCQI_PICKS=64
- how long is tried: HCQI_RUN HCQI_SHORTER
findings_end_it: .seed=1
any_number_of_running_lanes: HCQI_CPU_WAITS=2
- 65535 threads are too many for a test: only a wish is cut there: HCQI_CPU_INSIDE=0xffff
events_of_others: HCQI_CUDA_IMPORTED=4
thousands_are_pending: HCQI_CUDA_PENDING=900 HCQI_CUDA_MARK=256
any_number_of_waits: HCQI_POST_WAITS=128 HCQI_VK_CALL_WAITS=64
stores_beside_events: HCQI_CUDA_UNSTORED=64
copies_between_hosts_wait_for_nobody: HCQI_CUDA_RELAY_BYTES=65536
too_many_arguments: HCQI_CUDA_ARGS_BYTES*
imports_of_more_than_one_range: HCQI_CUDA_RANGE_MOST
pieces_of_pinned_memory: HCQI_CUDA_PIECE_LEAST=4096 HCQI_CUDA_PIECE_MOST=65536 HCQI_CUDA_SLAB_BYTES=262144
devices_that_are_listed: HCQI_CUDA_DEVICES=64
- cuda/no_cuda.c has an older driver: HCQI_CUDA_OLDEST
broken_modules: HCQI_CUDA_LOG_BYTES=4096
- a text that is cut: HCQI_CUDA_TEXT
points_of_an_engine: HCQI_VK_IMPORTED=4
profile_of_a_queue: HCQI_VK_USES=4
fills_of_all_kinds: HCQI_VK_PATTERN=256
grids_in_parts: HCQI_VK_PARTS=4096
modules_say_what_they_are: HCQI_VK_MAX_PUSH=256
misaligned_bindings_are_refused: HCQI_VK_ALIGN=256
nests_end_soon: HCQI_VK_MAX_[BDI]* HCQI_VK_BUDGET
entry_points_by_name: HCQI_VK_MAX_NAME=64
- no device has more families than 16, of which 2 are used: HCQI_VK_QUEUES=16
    HCQI_VK_ALL_FAMILIES=16
lanes_have_queues: HCQI_VK_FAMILIES=2
- devices beyond are not listed; no mock has so many: HCQI_VK_DEVICES=16
texts_are_cut: HCQI_VK_MESSAGE=512
pairs_that_are_told: HCQI_RACES=32
lines_are_whole: HCQI_RACE_LINE=448 HCQI_RACE_TEXT=1792
pairs_that_are_told possible_pairs_that_are_told: HCQI_PAIRS=4096
raises_that_a_wait_looks_at: HCQI_CANDIDATES=16
hints_that_are_told: HCQI_NEEDLESS=64
waits_held_against_each_other: HCQI_WAITS=16
ranges_that_a_kernel_is_watched_at: HCQI_WATCHES=64
- a submission of 2^24 commands takes more than a gigabyte: HCQI_TICKS=24
"""


def constants():
    """Names and values; flags that are given as 1, 2, 4 ... too."""
    found = {}
    for header in HEADERS:
        text = open(header, encoding="utf-8").read()
        for name, value in re.findall(
                r"^#define (HCQI?_\w+) +(\(*[\d(][^/\n]*?) *(?:/\*.*)?$", text, re.M):
            found[name] = value
        for name, value in re.findall(
                r"\b(HCQI?_[A-Z0-9_]+) = (-?\d\w*(?: *[<*/|] *<? *[\w()]+)*)", text):
            found[name] = value
        for name, comment in re.findall(
                r"\buint(?:32|64)_t (\w+); +/\*((?:[^*]|\*(?!/))*)\*/", text):
            default = re.search(r"\[([1-9][\w ]*)\]", comment)
            if default:
                found["." + name] = default.group(1)
    return found


def main():
    rows = [line.rpartition(": ") for line in TABLE.strip().replace("\n    ", " ").splitlines()]
    table = [(*one.partition("=")[::2], how) for how, _, names in rows for one in names.split()]
    tests = "".join(open(f, encoding="utf-8").read() for f in glob.glob("tests/*/*.[ch]"))
    tests = set(re.findall(r"^(?:TEST\w*\(|static void )(\w+)\)?(?:\(TEST_ARGS\))? \{", tests, re.M))
    wrong, used = [], set()
    for name, value in sorted(constants().items()):
        row = next((r for r in table if fnmatch.fnmatchcase(name, r[0])), None)
        used.add(row)
        if row is None:
            wrong.append(f"{name} is {value}: no test is named for it")
        elif row[1] not in ("", value.replace(" ", "")):
            wrong.append(f"{name} is {value}, not {row[1]}: do its tests know?")
    for row in table:
        if row not in used:
            wrong.append(f"{row[0]} is in no header")
        for test in [] if row[2].startswith("- ") else row[2].split():
            if test not in tests:
                wrong.append(f"{row[0]}: there is no test {test}")
    print("\n".join(wrong))
    return len(wrong) != 0


if __name__ == "__main__":
    sys.exit(main())
