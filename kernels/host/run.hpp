// Runs the clusters of a launch: fibers, barriers, warp collectives and shared memory.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cuda.hpp"
#include "fibers.hpp"

namespace host {

struct Launch {
    const Kernel* kernel;
    const void* args;
    // Blocks, threads of a block, blocks of a cluster.
    unsigned grid, block, cluster;
    size_t dynamic_shared;
    uint64_t seed;
};

// Numbers that look random: SplitMix64.
struct Random {
    uint64_t state;
    uint64_t next() {
        uint64_t z = state += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        return z ^ z >> 31;
    }
    unsigned below(unsigned n) { return unsigned((next() >> 32) * n >> 32); }
};

// Memory of a block, with a strip on either side that nobody may write to.
class Guarded {
public:
    Guarded(size_t size, size_t align, const char* name, Random& random)
        : name(name), size(size), whole(size + 2 * strip + align) {
        for (auto& byte : whole) byte = uint8_t(random.next());
        auto at = reinterpret_cast<uintptr_t>(whole.data()) + strip;
        data = reinterpret_cast<char*>((at + align - 1) / align * align);
        std::memset(data - strip, sign, strip);
        std::memset(data + size, sign, strip);
#if defined(__SANITIZE_ADDRESS__)
        __asan_poison_memory_region(data - strip, strip);
        __asan_poison_memory_region(data + size, strip);
#endif
    }
    ~Guarded() { unlock(); }
    Guarded(const Guarded&) = delete;

    bool is_whole() {
        unlock();
        for (size_t i = 0; i < strip; i++) {
            if (data[i - strip] != sign || data[size + i] != sign) return false;
        }
        return true;
    }

    const char* name;
    size_t size;
    char* data;

private:
    static constexpr size_t strip = 64;
    static constexpr char sign = 0x5a;
    std::vector<uint8_t> whole;

    void unlock() {
#if defined(__SANITIZE_ADDRESS__)
        __asan_unpoison_memory_region(whole.data(), whole.size());
#endif
    }
};

// Threads that come together: in a warp, a block or a cluster.
struct Meeting {
    Together what;
    unsigned mask, n_arrived, n_expected, n_left, sum;
    char values[32][16];
    std::vector<unsigned> waiting;
    // The list that it is in.
    std::vector<Meeting*>* open;
};

class Cluster;
inline thread_local Cluster* running = nullptr;

class Cluster {
public:
    Cluster(const Launch& launch, unsigned index)
        : launch(launch), n_blocks(launch.cluster), first_block(index * launch.cluster),
          random{launch.seed * 0x9e3779b97f4a7c15u + index}, blocks(n_blocks) {}

    // An error in words, empty if all went well.
    std::string run() {
        static thread_local Stacks stacks;
        unsigned n_fibers = n_blocks * launch.block;
        fibers.resize(n_fibers);
        stacks.top(n_fibers - 1);
        for (unsigned i = 0; i < n_fibers; i++) {
            fibers[i].prepare(stacks.top(i), [] { running->thread(); });
            ready.push_back(i);
        }
        n_running = n_fibers;
        for (auto& block : blocks) {
            block.warps.resize((launch.block + 31) / 32);
            block.dynamic = std::make_unique<Guarded>(launch.dynamic_shared, 1024, "dynamic shared memory", random);
        }
        running = this;
        blockDim = {launch.block, 1, 1};
        gridDim = {launch.grid, 1, 1};
        while (!ready.empty() && error.empty()) {
            unsigned pick = random.below(unsigned(ready.size()));
            std::swap(ready[pick], ready.back());
            current = ready.back();
            ready.pop_back();
            threadIdx = {current % launch.block, 0, 0};
            blockIdx = {first_block + current / launch.block, 0, 0};
            Context::change(host_context, fibers[current]);
        }
        running = nullptr;
        if (error.empty() && n_running > 0) error = waiting_for_ever();
        for (auto& block : blocks) check_strips(block);
        return error.empty() ? error : std::string(launch.kernel->name) + ": " + error;
    }

    void thread() {
#if defined(__SANITIZE_ADDRESS__)
        __sanitizer_finish_switch_fiber(nullptr, &host_context.bottom, &host_context.size);
#endif
        launch.kernel->body(launch.args);
        n_running--;
        Context::change(fibers[current], host_context, true);
        std::abort();
    }

    // The meeting that still waits for this thread, or a new one.
    Meeting& meet(std::vector<Meeting*>& open, Together what, unsigned mask, unsigned n_expected) {
        for (Meeting* one : open) {
            if (one->mask == mask && one->n_arrived < one->n_expected) {
                if (one->what != what) fail("threads of one warp or block wait at different operations");
                return *one;
            }
        }
        if (spare.empty()) {
            all.push_back(std::make_unique<Meeting>());
            spare.push_back(all.back().get());
        }
        Meeting* meeting = spare.back();
        spare.pop_back();
        meeting->what = what;
        meeting->mask = mask;
        meeting->n_arrived = meeting->sum = 0;
        meeting->n_expected = meeting->n_left = n_expected;
        meeting->waiting.clear();
        meeting->open = &open;
        open.push_back(meeting);
        return *meeting;
    }

    // Counts the thread in, and comes back when all are there.
    void wait(Meeting& meeting) {
        if (++meeting.n_arrived == meeting.n_expected) {
            ready.insert(ready.end(), meeting.waiting.begin(), meeting.waiting.end());
            return;
        }
        meeting.waiting.push_back(current);
        yield();
    }

    // The last to leave takes the meeting away.
    void leave(Meeting& meeting) {
        if (--meeting.n_left > 0) return;
        auto& open = *meeting.open;
        for (auto& one : open) {
            if (one == &meeting) {
                std::swap(one, open.back());
                open.pop_back();
                break;
            }
        }
        spare.push_back(&meeting);
    }

    void yield() {
        unsigned mine = current;
        Context::change(fibers[mine], host_context);
    }

    struct Block {
        std::vector<std::unique_ptr<Guarded>> shared;
        std::unique_ptr<Guarded> dynamic;
        std::vector<std::vector<Meeting*>> warps;
        std::vector<Meeting*> meetings;
    };

    Block& block() { return blocks[rank()]; }
    unsigned rank() const { return current / launch.block; }

    const Launch& launch;
    unsigned n_blocks, first_block, current = 0, n_running = 0;
    Random random;
    std::vector<Block> blocks;
    std::vector<Meeting*> cluster_meetings;
    std::string error;
    Context host_context;

private:
    std::vector<Context> fibers;
    std::vector<unsigned> ready;
    std::vector<std::unique_ptr<Meeting>> all;
    std::vector<Meeting*> spare;

    std::string waiting_for_ever() const {
        return std::to_string(n_running) + " threads wait for others that never come (a barrier or a warp operation that not all reach)";
    }

    void check_strips(Block& block) {
        if (block.dynamic && !block.dynamic->is_whole() && error.empty()) {
            error = "a store beside the dynamic shared memory";
        }
        for (auto& one : block.shared) {
            if (one && !one->is_whole() && error.empty()) {
                error = std::string("a store beside the shared variable `") + one->name + "`";
            }
        }
    }
};

inline void fail(const char* what) {
    running->error = what;
    running->yield();
    std::abort();
}

inline Meeting* warp_together(Together what, unsigned mask, const void* value, size_t size) {
    auto& cluster = *running;
    unsigned lane = threadIdx.x % 32;
    if (!(mask >> lane & 1)) fail("a warp operation whose mask leaves out the thread itself");
    Meeting& meeting = cluster.meet(cluster.block().warps[threadIdx.x / 32], what, mask, unsigned(__builtin_popcount(mask)));
    std::memcpy(meeting.values[lane], value, size);
    cluster.wait(meeting);
    return &meeting;
}

inline const char* values_of(const Meeting* meeting) { return meeting->values[0]; }

inline void leave(Meeting* meeting) { running->leave(*meeting); }

inline unsigned block_together(Together what, unsigned value) {
    auto& cluster = *running;
    Meeting& meeting = cluster.meet(cluster.block().meetings, what, 0, cluster.launch.block);
    meeting.sum += value;
    cluster.wait(meeting);
    unsigned sum = meeting.sum;
    cluster.leave(meeting);
    return sum;
}

inline void cluster_together() {
    auto& cluster = *running;
    unsigned n = cluster.n_blocks * cluster.launch.block;
    Meeting& meeting = cluster.meet(cluster.cluster_meetings, Together::cluster_sync, 0, n);
    cluster.wait(meeting);
    cluster.leave(meeting);
}

inline void* shared_variable(int id, size_t size, size_t align, const char* name) {
    auto& shared = running->block().shared;
    if (shared.size() <= size_t(id)) shared.resize(size_t(id) + 1);
    if (!shared[id]) shared[id] = std::make_unique<Guarded>(size, align, name, running->random);
    return shared[id]->data;
}

inline void* dynamic_shared() { return running->block().dynamic->data; }

inline void* in_block(const void* shared, unsigned rank) {
    if (rank >= running->n_blocks) fail("a block beyond the cluster");
    auto at = static_cast<const char*>(shared);
    auto& own = running->block();
    auto& other = running->blocks[rank];
    if (at >= own.dynamic->data && at < own.dynamic->data + own.dynamic->size) {
        return other.dynamic->data + (at - own.dynamic->data);
    }
    for (size_t i = 0; i < own.shared.size(); i++) {
        if (!own.shared[i] || at < own.shared[i]->data || at >= own.shared[i]->data + own.shared[i]->size) continue;
        if (other.shared.size() <= i) other.shared.resize(i + 1);
        if (!other.shared[i]) {
            other.shared[i] = std::make_unique<Guarded>(own.shared[i]->size, 1024, own.shared[i]->name, running->random);
        }
        return other.shared[i]->data + (at - own.shared[i]->data);
    }
    fail("an address that is not in shared memory");
}

inline unsigned cluster_rank() { return running->rank(); }
inline unsigned cluster_size() { return running->n_blocks; }

}  // namespace host
