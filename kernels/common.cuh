// What every kernel uses: names for the language's parts that differ between NVRTC and kernels/host, conversions, and
// sums in a fixed order.
//
// No CUDA header is included, since NVRTC may come without them: half-precision types, cluster operations and copies are
// inline PTX below, each beside its C++ version for kernels/host.

#pragma once

#if defined(HUNKWISE_HOST)
#include "host/cuda.hpp"
#else
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif

// A kernel takes one struct by value, which the Rust side has with the same layout; `threads` is its largest block.
#if defined(HUNKWISE_HOST)
#define KERNEL(threads, name, Args)                                                                    \
    static void name(const Args& args);                                                                \
    static const host::Kernel name##_kernel(#name, threads, sizeof(Args),                             \
                                            [](const void* args) { name(*static_cast<const Args*>(args)); }); \
    static void name(const Args& args)
#else
#define KERNEL(threads, name, Args) \
    extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ Args args)
#endif

// The same with room for at least this many blocks on a multiprocessor, so with so many registers as that leaves.
#if defined(HUNKWISE_HOST)
#define KERNEL_OF_BLOCKS(threads, blocks, name, Args) KERNEL(threads, name, Args)
#else
#define KERNEL_OF_BLOCKS(threads, blocks, name, Args) \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ Args args)
#endif

// SHARED(float[8], partial): a shared variable. DYNAMIC_SHARED(float, row): that of the launch, as a pointer.
#if defined(HUNKWISE_HOST)
#define SHARED(Type, name)                                                                                \
    std::remove_reference_t<Type>& name = *reinterpret_cast<std::remove_reference_t<Type>*>(              \
        host::shared_variable(__COUNTER__, sizeof(Type), 16, #name))
#define DYNAMIC_SHARED(Type, name) Type* name = static_cast<Type*>(host::dynamic_shared())
#else
template <class T>
struct Same {
    using Type = T;
};
#define SHARED(T, name) __shared__ __align__(16) typename Same<T>::Type name
#define DYNAMIC_SHARED(T, name)                                    \
    extern __shared__ __align__(1024) unsigned char dynamic_shared[]; \
    T* name = reinterpret_cast<T*>(dynamic_shared)
#endif

#if defined(HUNKWISE_HOST)
#define UNROLL
#else
#define UNROLL _Pragma("unroll")
#endif

constexpr unsigned WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

// Half-precision numbers as they lie in memory.
struct bf16 {
    uint16_t bits;
};
struct f16 {
    uint16_t bits;
};

__device__ __forceinline__ bool is_finite(float x) { return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u; }
__device__ __forceinline__ bool is_nan(float x) { return (__float_as_uint(x) & 0x7fffffffu) > 0x7f800000u; }

__device__ __forceinline__ uint64_t bits_of(double x) {
#if defined(HUNKWISE_HOST)
    return __builtin_bit_cast(uint64_t, x);
#else
    return uint64_t(__double_as_longlong(x));
#endif
}

__device__ __forceinline__ float to_float(float x) { return x; }

__device__ __forceinline__ float to_float(bf16 x) { return __uint_as_float(uint32_t(x.bits) << 16); }

__device__ __forceinline__ float to_float(f16 x) {
#if defined(HUNKWISE_HOST)
    // The exponent has 5 bits and a bias of 15 where that of an f32 has a bias of 127.
    uint32_t sign = uint32_t(x.bits & 0x8000) << 16, exponent = x.bits >> 10 & 31, fraction = x.bits & 0x3ff;
    if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | fraction << 13);
    if (exponent == 0) return std::copysign(std::ldexp(float(fraction), -24), sign ? -1.0f : 1.0f);
    return __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
#else
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
    return wide;
#endif
}

template <class T>
__device__ __forceinline__ T from_float(float x);

template <>
__device__ __forceinline__ float from_float<float>(float x) {
    return x;
}

// To nearest, ties to even.
template <>
__device__ __forceinline__ bf16 from_float<bf16>(float x) {
#if defined(HUNKWISE_HOST)
    uint32_t bits = __float_as_uint(x);
    if (is_nan(x)) return bf16{uint16_t(bits >> 16 | 0x40)};
    return bf16{uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
#else
    bf16 narrow;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(x));
    return narrow;
#endif
}

template <>
__device__ __forceinline__ f16 from_float<f16>(float x) {
    f16 narrow;
#if defined(HUNKWISE_HOST)
    uint16_t sign = uint16_t(__float_as_uint(x) >> 16 & 0x8000);
    float size = std::fabs(x);
    if (is_nan(x)) {
        narrow.bits = uint16_t(sign | 0x7e00);
    } else if (size >= 65520.0f) {
        narrow.bits = uint16_t(sign | 0x7c00);
    } else {
        // Steps of the result at this size: rounding to a whole number of them carries into the exponent by itself.
        int exponent = size < 6.103515625e-5f ? -14 : std::ilogb(size);
        auto steps = uint16_t(std::nearbyint(std::ldexp(size, 10 - exponent)));
        narrow.bits = uint16_t(sign | (steps + ((exponent + 14) << 10)));
    }
#else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(x));
#endif
    return narrow;
}

// Sums of a warp and of a block, the same bits in every run: a tree over lanes, then the warps in order. All threads of
// the block call it, and thread 0 has the result. `partial` has room for one value of each warp.
template <class T, class Join>
__device__ __forceinline__ T warp_join(T value, Join join) {
    for (unsigned step = WARP / 2; step > 0; step /= 2) {
        value = join(value, __shfl_down_sync(ALL_LANES, value, step));
    }
    return value;
}

template <class T, class Join>
__device__ __forceinline__ T block_join(T value, T* partial, Join join) {
    value = warp_join(value, join);
    if (threadIdx.x % WARP == 0) partial[threadIdx.x / WARP] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned warp = 1; warp < (blockDim.x + WARP - 1) / WARP; warp++) value = join(value, partial[warp]);
    }
    __syncthreads();
    return value;
}

// 2^x: within 2 ulp on a device, and 0 where the result would be subnormal.
__device__ __forceinline__ float exp2_of(float x) {
#if defined(HUNKWISE_HOST)
    float y = std::exp2(x);
    return y < 1.17549435e-38f ? 0.0f : y;
#else
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#endif
}

// 16 bytes of an array, as a load or a store moves them.
template <class T>
struct alignas(16) Pack {
    static constexpr unsigned N = 16 / sizeof(T);
    T at[N];
};

// Values before the first that is 16-byte aligned.
template <class T>
__device__ __forceinline__ int64_t until_aligned(const T* from) {
    return int64_t((16 - reinterpret_cast<uint64_t>(from) % 16) % 16 / sizeof(T));
}

// Thread-block clusters: sm_90 and later, and kernels/host. Elsewhere a block is alone.
#if defined(HUNKWISE_HOST)
__device__ __forceinline__ unsigned cluster_rank() { return host::cluster_rank(); }
__device__ __forceinline__ unsigned cluster_size() { return host::cluster_size(); }
__device__ __forceinline__ void cluster_sync() { host::cluster_together(); }
// The value that another block of the cluster has in the same place of its shared memory.
template <class T>
__device__ __forceinline__ T of_block(const T* shared, unsigned rank) {
    return *static_cast<const T*>(host::in_block(shared, rank));
}
#elif __CUDA_ARCH__ >= 900
__device__ __forceinline__ unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
__device__ __forceinline__ unsigned cluster_size() {
    unsigned size;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}
__device__ __forceinline__ void cluster_sync() {
    // Not `.aligned`: lanes of a warp may come here apart.
    asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}
template <class T>
__device__ __forceinline__ T of_block(const T* shared, unsigned rank) {
    static_assert(sizeof(T) % 4 == 0, "read in words");
    union {
        T value;
        uint32_t words[sizeof(T) / 4];
    } there;
    uint32_t here = uint32_t(__cvta_generic_to_shared(shared)), address;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(here), "r"(rank));
    UNROLL
    for (unsigned i = 0; i < sizeof(T) / 4; i++) {
        asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(there.words[i]) : "r"(address + 4 * i) : "memory");
    }
    return there.value;
}
#else
__device__ __forceinline__ unsigned cluster_rank() { return 0; }
__device__ __forceinline__ unsigned cluster_size() { return 1; }
__device__ __forceinline__ void cluster_sync() { __syncthreads(); }
template <class T>
__device__ __forceinline__ T of_block(const T* shared, unsigned) {
    return *shared;
}
#endif

// Arrays of any of the dtypes, told apart when the kernel runs: the branch is the same for all threads.
enum Dtype : uint32_t { F32 = 0, BF16 = 1, F16 = 2 };

__device__ __forceinline__ float load(const void* from, uint32_t dtype, int64_t at) {
    if (dtype == F32) return static_cast<const float*>(from)[at];
    if (dtype == BF16) return to_float(static_cast<const bf16*>(from)[at]);
    return to_float(static_cast<const f16*>(from)[at]);
}

__device__ __forceinline__ void store(void* to, uint32_t dtype, int64_t at, float value) {
    if (dtype == F32) {
        static_cast<float*>(to)[at] = value;
    } else if (dtype == BF16) {
        static_cast<bf16*>(to)[at] = from_float<bf16>(value);
    } else {
        static_cast<f16*>(to)[at] = from_float<f16>(value);
    }
}

struct Add {
    template <class T>
    __device__ __forceinline__ T operator()(T a, T b) const {
        return a + b;
    }
};
