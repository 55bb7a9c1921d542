// CUDA on the CPU: what the kernels need of the language and the device, as C++.
//
// A thread is a fiber. The fibers of a thread-block cluster share one thread of the host and run one at a time, each until
// it waits; who runs next is drawn from a seed, so that a barrier that is missing gives other results. Blocks are independent and may
// run on several threads of the host. What is checked: barriers and warp collectives that not every thread reaches,
// stores beside shared arrays, misaligned vector loads. Shared memory starts as noise. With -fsanitize=address every access
// to global and shared memory is checked.
//
// Not modelled: time, caches, and memory that becomes visible late (a missing __threadfence is not seen).

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __restrict__ __restrict

struct dim3 {
    unsigned x = 1, y = 1, z = 1;
};

struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};

// Of the thread that runs.
inline thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace host {

using KernelBody = void (*)(const void* args);

// A kernel under its name; made by KERNEL in common.cuh.
struct Kernel {
    const char* name;
    unsigned threads;
    size_t args_size;
    KernelBody body;
    const Kernel* next;

    Kernel(const char* name, unsigned threads, size_t args_size, KernelBody body)
        : name(name), threads(threads), args_size(args_size), body(body), next(first) {
        first = this;
    }
    static inline const Kernel* first = nullptr;
};

// What a warp or a block does together: every thread brings a value and sees those of all.
enum class Together { sync, shuffle, ballot, match, mma, block_sync, block_count, cluster_sync };

// Waits until every thread of the mask has come. What each brought, 16 bytes apart, until `leave` is called.
struct Meeting;
Meeting* warp_together(Together what, unsigned mask, const void* value, size_t size);
const char* values_of(const Meeting* meeting);
void leave(Meeting* meeting);
// Waits for the block, and gives the sum of `value` over its threads.
unsigned block_together(Together what, unsigned value);
void cluster_together();
// A shared variable of the block: the same for all its threads, of noise at first. `id` tells variables apart.
void* shared_variable(int id, size_t size, size_t align, const char* name);
void* dynamic_shared();
// The same place in the shared memory of another block of the cluster.
void* in_block(const void* shared, unsigned rank);
unsigned cluster_rank();
unsigned cluster_size();
// Ends the launch with an error.
[[noreturn]] void fail(const char* what);

// The values of the 32 lanes.
template <class T>
class Lanes {
public:
    Lanes(Together what, unsigned mask, T value) : meeting(warp_together(what, mask, &value, sizeof(T))) {
        static_assert(sizeof(T) <= 16 && std::is_trivially_copyable_v<T>);
    }
    ~Lanes() { leave(meeting); }
    Lanes(const Lanes&) = delete;

    T operator[](unsigned lane) const {
        T value;
        std::memcpy(&value, values_of(meeting) + 16 * lane, sizeof(T));
        return value;
    }

private:
    Meeting* meeting;
};

inline unsigned lane() { return threadIdx.x & 31; }

}  // namespace host

inline void __syncthreads() { host::block_together(host::Together::block_sync, 0); }
inline int __syncthreads_count(int is_true) {
    return int(host::block_together(host::Together::block_count, is_true != 0));
}
inline int __syncthreads_or(int is_true) { return __syncthreads_count(is_true) != 0; }
inline void __syncwarp(unsigned mask = 0xffffffffu) { host::Lanes<int>(host::Together::sync, mask, 0); }
inline void __threadfence() {}

template <class T>
T __shfl_sync(unsigned mask, T value, int from) {
    return host::Lanes<T>(host::Together::shuffle, mask, value)[unsigned(from) & 31];
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits) {
    return host::Lanes<T>(host::Together::shuffle, mask, value)[(host::lane() ^ unsigned(bits)) & 31];
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta) {
    host::Lanes<T> lanes(host::Together::shuffle, mask, value);
    return host::lane() + delta < 32 ? lanes[host::lane() + delta] : value;
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta) {
    host::Lanes<T> lanes(host::Together::shuffle, mask, value);
    return host::lane() >= delta ? lanes[host::lane() - delta] : value;
}
inline unsigned __ballot_sync(unsigned mask, int is_true) {
    host::Lanes<bool> lanes(host::Together::ballot, mask, is_true != 0);
    unsigned ballot = 0;
    for (unsigned i = 0; i < 32; i++) ballot |= unsigned((mask >> i & 1) && lanes[i]) << i;
    return ballot;
}
inline int __any_sync(unsigned mask, int is_true) { return __ballot_sync(mask, is_true) != 0; }
inline int __all_sync(unsigned mask, int is_true) { return __ballot_sync(mask, !is_true) == 0; }

template <class T, class F>
T host_atomic(T* at, F next) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    T old, wanted;
    __atomic_load(at, &old, __ATOMIC_RELAXED);
    do {
        wanted = next(old);
    } while (!__atomic_compare_exchange(at, &old, &wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return old;
}
template <class T>
T atomicAdd(T* at, T value) {
    static_assert(std::is_integral_v<T>, "a float sum in any order is not the same from run to run");
    return host_atomic(at, [=](T old) { return T(old + value); });
}
template <class T>
T atomicMax(T* at, T value) {
    return host_atomic(at, [=](T old) { return old > value ? old : value; });
}
template <class T>
T atomicMin(T* at, T value) {
    return host_atomic(at, [=](T old) { return old < value ? old : value; });
}
template <class T>
T atomicOr(T* at, T value) {
    return host_atomic(at, [=](T old) { return T(old | value); });
}
template <class T>
T atomicExch(T* at, T value) {
    return host_atomic(at, [=](T) { return value; });
}
template <class T>
T atomicCAS(T* at, T expected, T value) {
    return host_atomic(at, [=](T old) { return old == expected ? value : old; });
}

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __brev(unsigned x) {
    unsigned y = 0;
    for (int i = 0; i < 32; i++) y |= (x >> i & 1) << (31 - i);
    return y;
}
inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++) c += int(int8_t(a >> 8 * i)) * int(int8_t(b >> 8 * i));
    return c;
}
template <class T>
T __ldg(const T* at) {
    return *at;
}
using std::exp;
using std::exp2;
using std::isfinite;
using std::isnan;
using std::log;
