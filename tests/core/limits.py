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

HEADERS = ["hcq.h", "hcq_cpu.h", "hcq_vulkan.h", "hcq_cuda.h"]

# NAME,NAME... VALUE TESTS... or - REASON; '*' in a name or value: any. The first row counts.
TABLE = """
# numbers of others, flags, kinds, tags: no number of things
HCQ_VERSION_* * - the version
HCQI_CU_* * - the CUDA driver's
HCQ_FEATURE_*,HCQ_DEVICE_*,HCQ_CPU_*,HCQI_JOB_*,HCQI_VK_NEEDS_*,HCQ_PACKET_CHANGES * - flags
HCQ_HOST_VISIBLE,HCQ_NO_CACHE,HCQ_ZEROED,HCQI_READ,HCQI_WRITE,HCQI_RELATIVE * - flags
HCQ_OVERLAP,HCQ_UNORDERED,HCQ_STEP,HCQ_COPY_LISTS,HCQ_VALIDATE * - flags
HCQI_MAGIC_*,HCQI_PACKET_*,HCQI_TAG * - marks
HCQI_PART_*,HCQ_PART_*,HCQ_COMMAND_WAIT * - kinds
HCQI_CPU_GENERATION* * - bits of the gate; cpu/ has its model
HCQI_CPU_O[PW]* * - bits of the gate; cpu/ has its model
HCQ_CUDA_* * - flags, a key
HCQ_VULKAN_* * - flags, a key
HCQ_QUERY_BACKEND 1000 - a key
HCQ_BACKEND_VERSION 5 - the version
HCQI_TAG_SHIFT 44 - its place: placeholders of 2^44 bytes do not meet
HCQI_RESULT_MAX * - the size of an enumeration
HCQI_SYS_FUTEX_*,HCQI_SYS_CPU_WORDS * - Linux's
HCQI_VK_OP_*,HCQI_VK_CLASS_*,HCQI_VK_LISTS_ALL * - SPIR-V's
HCQI_VK_SPEC_ID,HCQI_VK_BLOCK,HCQI_VK_BUFFER_BLOCK,HCQI_VK_ROW_MAJOR,HCQI_VK_*_STRIDE * - SPIR-V's
HCQI_VK_COMPUTE,HCQI_VK_HEADER,HCQI_VK_BUILT_IN,HCQI_VK_LOCAL_SIZE*,HCQI_VK_GLOBAL_ID * - SPIR-V's
HCQI_VK_NUM_WORKGROUPS,HCQI_VK_WORKGROUP_*,HCQI_VK_BINDING,HCQI_VK_SET,HCQI_VK_OFFSET * - SPIR-V's
HCQI_VK_*_NEEDED 0 - counted by macros
HCQI_CUDA_NEEDED_COUNT 0 - counted by macros
HCQI_CUDA_POOLED 1 - a kind
HCQI_VK_REBASED 3 - the layout of what is put into a module; grids_beyond_limits runs it
HCQI_VK_PART_BYTES 44 - sizeof; grids_beyond_limits runs it
# only how fast or how often: another value gives the same answers
.spin_ns * - how fast
.cache_bytes * - how fast; cache_gives_up_the_oldest_first has bounds of its own
.staging_count 32 copyin_beyond_staging copyin_beside_held_work
.staging_bytes 2MiB copies_around_every_size
HCQI_SLICE_* * - how often a wait looks up
HCQI_LOOK* * - how often counters are asked; how long is explained
HCQI_FAILURES 64 answers_stay
HCQI_SHELVES 64 - buckets
HCQI_SORT_* * heap_sorts_bursts
HCQI_CHUNK* * pools_give_back_what_a_burst_took
HCQI_GROW_BYTES 65536 any_number_of_commands
HCQI_SETTLE 128 any_number_in_flight freed_blocks_cost_the_same
HCQI_STAGE_ALIGN 16 copies_around_every_size
HCQI_SYS_SECONDS_MAX * deadlines short_waits_are_silent
HCQI_CPU_LINE 128 - a distance
HCQI_CPU_CHUNKS 8 - memory that is there beforehand
HCQI_CPU_AHEAD 512 - how fast
HCQI_CPU_LAP 4 - how fast
HCQI_CPU_T[A-QS-Z]* * - how fast
HCQI_CPU_TRIALS 64 - how fast; spinner_who_lost_his_turn_sends_all_to_sleep
HCQI_CPU_ROOM 128 - how fast
HCQI_CPU_LOST_* * - how fast
HCQI_CPU_*_PS * - how fast
HCQI_CUDA_POOL_KEEP * - how fast
HCQI_CUDA_WORD_BYTES 128 - a distance
HCQI_CUDA_RECORDS 256 any_number_in_flight
HCQI_CUDA_EVENTS_FIRST 256 any_number_in_flight events_go_back_to_their_pool
HCQI_VK_BUCKETS 64 - buckets
HCQI_VK_BLOCK_M* * memory_has_limits large_allocations_have_their_own
# how many there may be, how large
HCQ_MAX_ARGS 32 as_many_arguments_as_fit
HCQ_MAX_INPUTS 64 numbers_of_inputs_and_variables
HCQI_MAX_VARIABLES 64 numbers_of_inputs_and_variables
HCQI_MAX_DEVICES 64 many_devices
HCQI_MAX_BACKENDS 8 register_limits
HCQI_MAX_LANES 16 as_many_lanes_as_fit
HCQI_MAX_EMPTIES 4000 as_many_empties_as_fit
HCQI_MAX_SLICES 64 graphs_on_as_many_lanes_as_fit
HCQI_MAX_EARLIER 8 any_number_of_earlier_launches
HCQI_MAX_VALUE * signal_values
HCQI_BATCH_WAITS 16 any_number_of_waits any_number_of_running_lanes sixteen_queues_at_most
HCQI_SLEEPER_POINTS 16 waits_of_many_points
HCQI_PROMISES 16384 promises_in_one_place
HCQI_LOG 64 any_number_of_updates
HCQI_PATH 64 explain_long_chains
HCQI_AHEAD 64 copies_around_every_size
HCQI_COPY_BYTES 16384 graphs_on_as_many_lanes_as_fit
HCQI_DIRECT_BYTES 65536 copies_around_every_size
HCQI_ZERO_BYTES 16384 zeros_around_every_size
HCQI_SLOT_BITS 20 handles_never_come_again
HCQI_SERIAL_MASK * handles_never_come_again
.parked 4096 chain_on_a_small_stack held_values_are_small
.parked_limit 4194304 parked_limit_refuses
.failure_ranges 65536 forgotten_answers_say_so
.inflight 4096 temporaries_stay_bounded
.slots 2 version_with_least_work_is_taken versions_of_those_that_wait
.timeout_ns 30s long_waits_explain_themselves
.explain_ns 5s long_waits_explain_themselves
.events 65536 profile_overflows
.names 1024 profile_outlives_its_objects
HCQI_CPU_LANES 8 as_many_lanes_as_fit
HCQI_CPU_ORDINALS 64 ordinals_of_the_cpu
HCQI_CPU_CHUNK 1024 any_number_in_flight
HCQI_CPU_WAITS 2 any_number_of_running_lanes
HCQI_CPU_INSIDE 0xffff - 65535 threads are too many for a test: only a wish is cut there
HCQI_CUDA_LANES 8 as_many_lanes_as_fit
HCQI_CUDA_COPY_LANES 4 as_many_lanes_as_fit
HCQI_CUDA_IMPORTED 4 events_of_others
HCQI_CUDA_CHUNK_POSTS 64 any_number_in_flight
HCQI_CUDA_CHUNK_WAITS 128 any_number_of_waits
HCQI_CUDA_GRAPH_MIN 2 any_number_of_commands
HCQI_CUDA_ARGS_BYTES* * too_many_arguments
HCQI_CUDA_DEVICES 64 devices_that_are_listed
HCQI_CUDA_OLDEST 11040 - cuda/no_cuda.c has an older driver
HCQI_CUDA_LOG_BYTES 4096 broken_modules
HCQI_CUDA_TEXT 160 - a text that is cut
HCQI_VK_LANES 8 as_many_lanes_as_fit
HCQI_VK_COPY_LANES 4 as_many_lanes_as_fit
HCQI_VK_IMPORTED 4 points_of_an_engine
HCQI_VK_CALL 32 any_number_in_flight
HCQI_VK_CALL_WAITS 64 any_number_of_waits
HCQI_VK_CHUNK_POSTS 64 any_number_in_flight
HCQI_VK_CHUNK_WAITS 128 any_number_of_waits
HCQI_VK_USES 4 profile_of_a_queue
HCQI_VK_PATTERN 256 fills_of_all_kinds
HCQI_VK_PARTS 4096 grids_in_parts
HCQI_VK_BUFFERS 32 - as many as arguments; a module's bindings are checked before
HCQI_VK_MAX_PUSH 256 modules_say_what_they_are
HCQI_VK_ALIGN 256 misaligned_bindings_are_refused
HCQI_VK_MAX_[BDIPW]* * nests_end_soon
HCQI_VK_BUDGET * nests_end_soon
HCQI_VK_QUEUES 16 - no device has more families than 16, of which 2 are used
HCQI_VK_ALL_FAMILIES 16 - as above
HCQI_VK_FAMILIES 2 lanes_have_queues
HCQI_VK_DEVICES 16 - devices beyond are not listed; no mock has so many
HCQI_VK_MESSAGE 512 texts_are_cut
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
    rows = [line.split(None, 2) for line in TABLE.strip().splitlines() if line[0] != "#"]
    tests = "".join(open(f, encoding="utf-8").read() for f in glob.glob("tests/*/*.[ch]"))
    tests = set(re.findall(r"\bvoid (\w+)\((?:void \*\*state|TEST_ARGS)\)", tests))
    used, bad = set(), 0
    for name, value in sorted(constants().items()):
        row = next((r for r in rows
                    if any(fnmatch.fnmatchcase(name, one) for one in r[0].split(","))), None)
        if row is None:
            print(f"{name} is {value}: no test is named for it")
            bad = 1
            continue
        used.add(row[0])
        if not fnmatch.fnmatchcase(value.replace(" ", ""), row[1]):
            print(f"{name} is {value}, not {row[1]}: do its tests know?")
            bad = 1
    for name, _, how in rows:
        if name not in used:
            print(f"{name} is in no header")
            bad = 1
        for test in [] if how.startswith("- ") else how.split():
            if test not in tests:
                print(f"{name}: there is no test {test}")
                bad = 1
    return bad


if __name__ == "__main__":
    sys.exit(main())
