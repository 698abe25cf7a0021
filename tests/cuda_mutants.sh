#!/bin/sh
# Makes, in copies of the CUDA backend, the mistakes that one makes with CUDA, and
# demands that its tests on the mock driver notice each.
#
#   sh tests/cuda_mutants.sh [--quick] [NAME ...]
#
# --quick: the first few. A pattern that does not match any more is a failure: the
# code has changed, so the line here has to follow.

set -u
cd "$(dirname "$0")/.." || exit 1

# name, variant, tests that notice (any one of them), a sed script for hcq_cuda.h.
mutants() {
    cat <<'END'
never-recorded cumock waits_are_exact,all_directions s/int r = d->api->EventRecord(event->handle, lane->stream);/int r = HCQI_CU_OK;/
waits-for-newest cumock waits_are_exact s/if (\*event || \*done || hcqi_atomic_load64(&lane->handed) != epoch) {/if (*event || *done) {/
early-return cumock events_for_others,acquired_events_stay s/hcqi_atomic_add32(&e->refs, UINT32_MAX) != 1) { return; }/hcqi_atomic_add32(\&e->refs, UINT32_MAX) == 0) { return; }/
early-epoch cumock all_directions,host_waits_are_exact s/if (r == HCQI_CU_OK) { r = hcqi_cuda_give_batch(&g); }/if (d->memops) { (void)d->write_value(post->lane->stream, post->lane->word_address, post->done.epoch, 0); } &/
no-context cumock all_directions s/int r = d->api->CtxPushCurrent(d->context);/int r = HCQI_CU_OK;/
one-patch-less cumock one_patch_is_one_node,patched_behind_a_running_one s/while (!piece->stale && piece->dirty != 0) {/while (0) {/
value-equal cumock waits_for_the_past s/HCQI_CU_WAIT_GEQ = 0,/HCQI_CU_WAIT_GEQ = 1,/
no-event-each cumock no_value_waits s/(records != 0 || !d->value_waits)/(records != 0)/
no-wait cumock waits_are_exact,all_directions s/if (other->stream == stream || hcqi_cuda_look(other) >= wait->epoch)/if (1)/
done-too-early cumock all_directions,host_waits_are_exact s/if (hcqi_cuda_look(lane) >= epoch) { return 1; }/if (hcqi_cuda_look(lane) + 1 >= epoch) { return 1; }/
ignored-event cumock-events all_directions,host_waits_are_exact s/done = r == HCQI_CU_OK;/done = 1;/
retired-early cumock-events events_go_back_to_their_pool,host_waits_are_exact s/if (r != HCQI_CU_OK) { break; }/if (hcqi_cuda_is_sticky(r)) { break; }/
host-function cumock no_value_waits s/^    if (d->memops) {$/    { static void *h; void *f; if (!h) { h = hcq_sys_library_open(test_cuda_library); } f = hcq_sys_library_symbol(h, "cuLaunchHostFunc"); (void)((int (*)(void *, void (*)(void *), void *))f)(lane->stream, free, NULL); } &/
lost-unnoticed cumock errors_that_end_a_context s/default: return r >= HCQI_CU_STACK \&\& r <= HCQI_CU_LAUNCH_FAILED;/default: return 0; } switch (r) { case -77: return 1; default: return 0;/;s/^    case HCQI_CU_ILLEGAL_ADDRESS:$//
arguments-short cumock arguments_of_all_kinds s/^    x->size = size;/    x->size = size - (size > 8 ? 4 : 0);/
pool-unordered cumock zeroed_memory_is_zero,host_visible_memory s/if (r == HCQI_CU_NOT_READY) { r = hcqi_cuda_zero_mark(d); }/if (r == HCQI_CU_NOT_READY) { r = HCQI_CU_OK; }/
zeros-unordered cumock zeroed_memory_is_zero s/if (lane->zeroed == hcqi_atomic_load64(&d->zeroed)) { return r; }/if (1) { return r; }/
free-at-once cumock freeing_never_waits s/int keeps = kind == HCQI_CUDA_PLAIN || kind == HCQI_CUDA_PINNED;/int keeps = 0;/
all-nodes cumock one_patch_is_one_node s/if (c->dirty || !hcqi_cuda_command_differs(list, c, p)) { return HCQ_OK; }/if (c->dirty) { return HCQ_OK; }/
edge-less cumock a_graph_is_one_launch,graphs_over_devices s/^            list->edges\[kept++\] = before;/            if (kept == first) { list->edges[kept++] = before; }/
context-stays cumock contexts_are_left_as_they_were s/(void)d->api->CtxPopCurrent(&popped);/(void)popped;/
import-unwaited cumock events_of_others s/return g->d->api->StreamWaitEvent(post->lane->stream, post->import, 0);/return HCQI_CU_OK;/
blocks-unchecked cumock blocks_that_do_not_fit s/if (block\[0\] > most\[0\] || block\[1\]/if (0 \&\& block[0] > most[0] || 0 \&\& block[1]/;s/(uint64_t)block\[0\] \* block\[1\] \* block\[2\] > p->max_threads) {/0) {/
trail-off cumock errors_name_the_command s/r = d->api->MemsetD32Async(lane->trail_address, i + 1, 1, lane->stream);/r = d->api->MemsetD32Async(lane->trail_address, i, 1, lane->stream);/
peers-shut cumock memory_of_another_device s/r = owner->pool ? d->api->MemPoolSetAccess(owner->pool, &access, 1)/r = owner->pool ? HCQI_CU_OK/
END
}

work=$(mktemp -d "${TMPDIR:-/tmp}/hcq-mutants.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT INT TERM
cp hcq.h hcq_cpu.h "$work" || exit 1
ulimit -c 0

build() { # the copy of hcq_cuda.h with its tests
    gcc -std=gnu11 -O0 -w -pthread -I"$work" -I. -Itests -DHCQ_TEST_CUDA \
        -DHCQ_TEST_HEADER="\"$work/hcq.h\"" tests/cuda/cuda.c -o "$work/cuda" -lcmocka -ldl
}

passes() { # VARIANT TESTS: all of them
    for test in $(echo "$2" | tr , ' '); do
        HCQ_TEST_CUDA_MOCK=$work timeout 45 "$work/cuda" "$1" --quick --filter "$test" \
            >"$work/log" 2>&1 || return 1
    done
}

reason() {
    grep -a -m 1 -e '^CUMOCK' -e 'cuda_[a-z]*\.h:[0-9]*: ' -e 'the test hangs' -e 'teardown: ' \
        "$work/log" || echo "$test: no end, or a crash"
}

for version in 11040 13000; do
    gcc -std=c11 -O1 -w -shared -fPIC -I. -Itests -DMOCK_CUDA_VERSION=$version \
        tests/mocks/libcuda.c -o "$work/libcuda-$version.so.1" -pthread -ldl || exit 1
done
cp "$work/libcuda-13000.so.1" "$work/libcuda.so.1"

mutants >"$work/list"
if [ "${1:-}" = --quick ]; then
    shift
    head -n 5 "$work/list" >"$work/few" && mv "$work/few" "$work/list"
fi
wanted=" $* "
cp hcq_cuda.h "$work/hcq_cuda.h" && build || exit 1
failures=0
while read -r name variant tests script; do
    case $wanted in
    "  " | *" $name "*) ;;
    *) continue ;;
    esac
    passes "$variant" "$tests" && continue
    echo "FAIL $name: $test fails on unbroken code: $(reason)"
    failures=$((failures + 1))
done <"$work/list"
[ "$failures" -eq 0 ] || exit 1

while read -r name variant tests script; do
    case $wanted in
    "  " | *" $name "*) ;;
    *) continue ;;
    esac
    sed "$script" hcq_cuda.h >"$work/hcq_cuda.h" || exit 1
    if cmp -s hcq_cuda.h "$work/hcq_cuda.h"; then
        echo "FAIL $name: the pattern does not match any more"
        failures=$((failures + 1))
    elif ! build 2>"$work/errors"; then
        echo "FAIL $name: does not compile: $(grep -m 1 error "$work/errors")"
        failures=$((failures + 1))
    elif passes "$variant" "$tests"; then
        echo "FAIL $name: nobody notices"
        failures=$((failures + 1))
    else
        echo "ok   $name: $(reason)"
    fi
done <"$work/list"
[ "$failures" -eq 0 ]
