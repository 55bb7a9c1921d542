// Fibers: a stack each, and a switch that saves what the C calling convention says a function keeps.

#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace host {

#if defined(__x86_64__)
extern "C" void hunkwise_switch(void** save, void* to);
asm(R"(
.text
.globl hunkwise_switch
.type hunkwise_switch, @function
hunkwise_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size hunkwise_switch, .-hunkwise_switch
)");
#elif defined(__aarch64__)
extern "C" void hunkwise_switch(void** save, void* to);
asm(R"(
.text
.globl hunkwise_switch
.type hunkwise_switch, %function
hunkwise_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size hunkwise_switch, .-hunkwise_switch
)");
#else
#error "kernels/host knows x86-64 and AArch64"
#endif

// Stacks of fibers, below each a page that may not be touched.
class Stacks {
public:
    static constexpr size_t size = 128 << 10;

    // The first address past the stack of fiber `i`.
    char* top(size_t i) {
        if (i >= count) grow(i + 1);
        return base + (i + 1) * size;
    }
    ~Stacks() {
        if (base) munmap(base, count * size);
    }

private:
    static constexpr size_t page = 4 << 10;
    char* base = nullptr;
    size_t count = 0;

    void grow(size_t n) {
        if (base) munmap(base, count * size);
        void* memory = mmap(nullptr, n * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED) {
            std::perror("stacks of the emulated threads");
            std::abort();
        }
        base = static_cast<char*>(memory);
        count = n;
        for (size_t i = 0; i < n; i++) mprotect(base + i * size, page, PROT_NONE);
    }
};

// One fiber, or the thread that runs them all.
struct Context {
    void* stack_pointer = nullptr;
    const void* bottom = nullptr;
    size_t size = 0;

    // A context that begins with `entry` on the stack below `top`.
    void prepare(char* top, void (*entry)()) {
        bottom = top - Stacks::size;
        size = Stacks::size;
        auto* at = reinterpret_cast<void**>(top);
#if defined(__x86_64__)
        // As after a call: the stack pointer is 8 past a multiple of 16 when `entry` begins.
        *--at = nullptr;
        *--at = reinterpret_cast<void*>(entry);
        for (int i = 0; i < 6; i++) *--at = nullptr;
#else
        at -= 20;
        for (int i = 0; i < 20; i++) at[i] = nullptr;
        at[11] = reinterpret_cast<void*>(entry);
#endif
        stack_pointer = at;
    }

    // Leaves `from` for `to`. `is_last`: `from` is never come back to.
    static void change(Context& from, Context& to, [[maybe_unused]] bool is_last = false) {
#if defined(__SANITIZE_ADDRESS__)
        void* fake = nullptr;
        __sanitizer_start_switch_fiber(is_last ? nullptr : &fake, to.bottom, to.size);
        hunkwise_switch(&from.stack_pointer, to.stack_pointer);
        __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#else
        hunkwise_switch(&from.stack_pointer, to.stack_pointer);
#endif
    }
};

}  // namespace host
