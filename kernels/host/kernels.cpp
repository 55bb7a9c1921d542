// Every kernel for the CPU, and the two functions that the Rust side calls.

#include "../common.cuh"
#include "run.hpp"

#include "../anchor_gain.cu"
#include "../linear_loss.cu"
#include "../logits_loss.cu"
#include "../pair_similarity.cu"
#include "../policy_loss.cu"
#include "../token_advantage.cu"
#include "../window_similarity.cu"
#include "faults.cpp"

#include <cstdio>

extern "C" {

struct hunkwise_launch {
    const char* kernel;
    const void* args;
    uint64_t args_size;
    unsigned grid, block, cluster, dynamic_shared;
    uint64_t seed;
};

// Runs clusters `first..first + n` of a launch. 0, or 1 with what went wrong in `message`.
int hunkwise_host_run(const hunkwise_launch* launch, unsigned first, unsigned n, char* message, uint64_t size) {
    auto say = [&](const std::string& what) {
        std::snprintf(message, size, "%s", what.c_str());
        return 1;
    };
    const host::Kernel* kernel = host::Kernel::first;
    while (kernel && std::strcmp(kernel->name, launch->kernel) != 0) kernel = kernel->next;
    if (!kernel) return say(std::string("no kernel `") + launch->kernel + "`");
    if (kernel->args_size != launch->args_size) {
        return say(kernel->name + std::string(": arguments of ") + std::to_string(launch->args_size) + " bytes, not " +
                   std::to_string(kernel->args_size));
    }
    if (launch->block == 0 || launch->block > kernel->threads) return say(kernel->name + std::string(": too many threads"));
    host::Launch whole{kernel, launch->args, launch->grid, launch->block, launch->cluster, launch->dynamic_shared, launch->seed};
    for (unsigned i = first; i < first + n; i++) {
        std::string error = host::Cluster(whole, i).run();
        if (!error.empty()) return say(error);
    }
    return 0;
}

}
