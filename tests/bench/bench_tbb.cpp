// bench_tbb.cpp - the chain of tiny kernels as a oneTBB flow graph.

#include "bench.h"

#include <memory>
#include <oneapi/tbb/flow_graph.h>
#include <vector>

namespace flow = oneapi::tbb::flow;

namespace {

using message = flow::continue_msg;
using chain_node = flow::continue_node<message, flow::lightweight>;

struct chain {
    flow::graph graph;
    std::vector<bench_tiny_args> args;
    std::vector<std::unique_ptr<chain_node>> nodes;
};

} // namespace

void *bench_tbb_open(uint32_t count, uint64_t *counter) {
    chain *c = new chain;
    c->args.resize(count);
    hcq_cpu_fn volatile hidden = bench_tiny; // the call must stay indirect, as it is for us
    hcq_cpu_fn fn = hidden;
    for (uint32_t i = 0; i < count; i++) {
        c->args[i].counter = (uint64_t)(uintptr_t)counter;
        const bench_tiny_args *args = &c->args[i];
        c->nodes.emplace_back(new chain_node(c->graph, [fn, args](const message &m) {
            hcq_block block = {{0, 0, 0}, {1, 1, 1}, {1, 1, 1}, nullptr};
            fn(args, &block);
            return m;
        }));
        if (i > 0) {
            flow::make_edge(*c->nodes[i - 1], *c->nodes[i]);
        }
    }
    return c;
}

void bench_tbb_replay(void *tbb, uint64_t n) {
    chain *c = static_cast<chain *>(tbb);
    for (uint64_t i = 0; i < n; i++) {
        c->nodes[0]->try_put(message());
        c->graph.wait_for_all();
    }
}

void bench_tbb_close(void *tbb) {
    delete static_cast<chain *>(tbb);
}
