// Double precision from 32-bit integers: IEEE 754 binary64, rounded to nearest, ties to even, bit for bit what a processor
// with f64 gives. A number is vec2(low word, high word); any NaN becomes one NaN.

const F64_NAN: vec2<u32> = vec2<u32>(0u, 0x7ff80000u);
const F64_ONE: vec2<u32> = vec2<u32>(0u, 0x3ff00000u);
const F64_INFINITY: vec2<u32> = vec2<u32>(0u, 0x7ff00000u);

// 64-bit integers: low word, high word.

fn u64_add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}

fn u64_sub(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}

fn u64_less(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.y < b.y || (a.y == b.y && a.x < b.x);
}

fn u64_is_zero(a: vec2<u32>) -> bool {
    return (a.x | a.y) == 0u;
}

// For n below 64.
fn u64_left(a: vec2<u32>, n: u32) -> vec2<u32> {
    if n == 0u {
        return a;
    }
    if n >= 32u {
        return vec2<u32>(0u, a.x << (n - 32u));
    }
    return vec2<u32>(a.x << n, (a.y << n) | (a.x >> (32u - n)));
}

// To the right; the last bit is set if a bit that falls out is.
fn u64_right_sticky(a: vec2<u32>, n: u32) -> vec2<u32> {
    if n == 0u {
        return a;
    }
    if n >= 64u {
        return vec2<u32>(select(1u, 0u, u64_is_zero(a)), 0u);
    }
    if n == 32u {
        return vec2<u32>(a.y | select(0u, 1u, a.x != 0u), 0u);
    }
    if n > 32u {
        let out = (a.y << (64u - n)) | a.x;
        return vec2<u32>((a.y >> (n - 32u)) | select(0u, 1u, out != 0u), 0u);
    }
    let out = a.x << (32u - n);
    let low = (a.x >> n) | (a.y << (32u - n));
    return vec2<u32>(low | select(0u, 1u, out != 0u), a.y >> n);
}

fn u64_leading_zeros(a: vec2<u32>) -> u32 {
    return select(countLeadingZeros(a.y), 32u + countLeadingZeros(a.x), a.y == 0u);
}

// The product of two words.
fn u32_product(a: u32, b: u32) -> vec2<u32> {
    let a0 = a & 0xffffu;
    let a1 = a >> 16u;
    let b0 = b & 0xffffu;
    let b1 = b >> 16u;
    let low = a0 * b0;
    let middle = a1 * b0 + (low >> 16u);
    let other = a0 * b1 + (middle & 0xffffu);
    return vec2<u32>((other << 16u) | (low & 0xffffu), a1 * b1 + (middle >> 16u) + (other >> 16u));
}

// The upper half of a product, the last bit set if a bit of the lower half is.
fn u64_product_sticky(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = u32_product(a.x, b.x);
    let middle = u64_add(u32_product(a.x, b.y), vec2<u32>(low.y, 0u));
    let other = u64_add(u32_product(a.y, b.x), vec2<u32>(middle.x, 0u));
    let high = u64_add(u64_add(u32_product(a.y, b.y), vec2<u32>(middle.y, 0u)), vec2<u32>(other.y, 0u));
    return vec2<u32>(high.x | select(0u, 1u, (low.x | other.x) != 0u), high.y);
}

fn f64_magnitude(a: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(a.x, a.y & 0x7fffffffu);
}

fn f64_is_finite(a: vec2<u32>) -> bool {
    return (a.y & 0x7ff00000u) != 0x7ff00000u;
}

fn f64_is_nan(a: vec2<u32>) -> bool {
    return u64_less(F64_INFINITY, f64_magnitude(a));
}

fn f64_is_zero(a: vec2<u32>) -> bool {
    return u64_is_zero(f64_magnitude(a));
}

fn f64_negative(a: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(a.x, a.y ^ 0x80000000u);
}

// a < b; neither is NaN.
fn f64_less(a: vec2<u32>, b: vec2<u32>) -> bool {
    if f64_is_zero(a) && f64_is_zero(b) {
        return false;
    }
    let a_is_negative = (a.y >> 31u) != 0u;
    let b_is_negative = (b.y >> 31u) != 0u;
    if a_is_negative != b_is_negative {
        return a_is_negative;
    }
    let magnitudes = u64_less(f64_magnitude(a), f64_magnitude(b));
    return select(magnitudes, u64_less(f64_magnitude(b), f64_magnitude(a)), a_is_negative);
}

// Biased exponent, that of the subnormals 1, and the 53 bits of the fraction.
fn f64_exponent(a: vec2<u32>) -> i32 {
    return max(i32((a.y >> 20u) & 0x7ffu), 1);
}

fn f64_fraction(a: vec2<u32>) -> vec2<u32> {
    let is_normal = (a.y & 0x7ff00000u) != 0u;
    return vec2<u32>(a.x, (a.y & 0xfffffu) | select(0u, 0x100000u, is_normal));
}

// Rounds a fraction with 10 more bits: bit 62 has the weight of the exponent, and is 0 only with the least exponent.
fn f64_round(sign: u32, exponent: i32, fraction: vec2<u32>) -> vec2<u32> {
    var e = exponent;
    var m = fraction;
    if e < 1 {
        m = u64_right_sticky(m, u32(min(1 - e, 64)));
        e = 1;
    }
    let rest = m.x & 0x3ffu;
    m = vec2<u32>((m.x >> 10u) | (m.y << 22u), m.y >> 10u);
    if rest > 0x200u || (rest == 0x200u && (m.x & 1u) != 0u) {
        m = u64_add(m, vec2<u32>(1u, 0u));
    }
    // The leading bit of the fraction adds 1 to the exponent.
    if e >= 0x7ff {
        return vec2<u32>(0u, sign | 0x7ff00000u);
    }
    let high = (u32(e - 1) << 20u) + m.y;
    if high >= 0x7ff00000u {
        return vec2<u32>(0u, sign | 0x7ff00000u);
    }
    return vec2<u32>(m.x, sign | high);
}

fn f64_add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let is_swapped = u64_less(f64_magnitude(a), f64_magnitude(b));
    let large = select(a, b, is_swapped);
    let small = select(b, a, is_swapped);
    let sign = large.y & 0x80000000u;
    let is_sum = ((a.y ^ b.y) >> 31u) == 0u;
    if !f64_is_finite(large) {
        let opposite = !is_sum && !f64_is_finite(small);
        return select(large, F64_NAN, opposite || f64_is_nan(large));
    }
    var e = f64_exponent(large);
    let m = u64_left(f64_fraction(large), 10u);
    let n = u64_right_sticky(
        u64_left(f64_fraction(small), 10u),
        u32(min(e - f64_exponent(small), 64)),
    );
    if is_sum {
        var sum = u64_add(m, n);
        if (sum.y >> 31u) != 0u {
            sum = u64_right_sticky(sum, 1u);
            e += 1;
        }
        return f64_round(sign, e, sum);
    }
    let difference = u64_sub(m, n);
    if u64_is_zero(difference) {
        return vec2<u32>(0u, 0u);
    }
    let shift = min(i32(u64_leading_zeros(difference)) - 1, e - 1);
    return f64_round(sign, e - shift, u64_left(difference, u32(shift)));
}

fn f64_sub(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return f64_add(a, f64_negative(b));
}

// A fraction with bit 52 set, and its exponent.
struct Normal {
    fraction: vec2<u32>,
    exponent: i32,
}

fn f64_normal(a: vec2<u32>) -> Normal {
    let fraction = f64_fraction(a);
    let shift = u64_leading_zeros(fraction) - 11u;
    return Normal(u64_left(fraction, shift), f64_exponent(a) - i32(shift));
}

fn f64_mul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let sign = (a.y ^ b.y) & 0x80000000u;
    if f64_is_nan(a) || f64_is_nan(b) {
        return F64_NAN;
    }
    let has_zero = f64_is_zero(a) || f64_is_zero(b);
    if !f64_is_finite(a) || !f64_is_finite(b) {
        return select(vec2<u32>(0u, sign | 0x7ff00000u), F64_NAN, has_zero);
    }
    if has_zero {
        return vec2<u32>(0u, sign);
    }
    let x = f64_normal(a);
    let y = f64_normal(b);
    var e = x.exponent + y.exponent - 1022;
    var m = u64_product_sticky(u64_left(x.fraction, 10u), u64_left(y.fraction, 11u));
    if (m.y & 0x40000000u) == 0u {
        m = u64_left(m, 1u);
        e -= 1;
    }
    return f64_round(sign, e, m);
}

// 63 turns.
fn f64_div(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let sign = (a.y ^ b.y) & 0x80000000u;
    let a_is_finite = f64_is_finite(a);
    let b_is_finite = f64_is_finite(b);
    if f64_is_nan(a) || f64_is_nan(b) || (!a_is_finite && !b_is_finite) || (f64_is_zero(a) && f64_is_zero(b)) {
        return F64_NAN;
    }
    if !a_is_finite || f64_is_zero(b) {
        return vec2<u32>(0u, sign | 0x7ff00000u);
    }
    if !b_is_finite || f64_is_zero(a) {
        return vec2<u32>(0u, sign);
    }
    let x = f64_normal(a);
    let y = f64_normal(b);
    var e = x.exponent - y.exponent + 1023;
    var rest = x.fraction;
    if u64_less(rest, y.fraction) {
        rest = u64_left(rest, 1u);
        e -= 1;
    }
    var quotient = vec2<u32>(0u, 0u);
    for (var i = 0u; i < 63u; i++) {
        quotient = u64_left(quotient, 1u);
        if !u64_less(rest, y.fraction) {
            rest = u64_sub(rest, y.fraction);
            quotient.x |= 1u;
        }
        rest = u64_left(rest, 1u);
    }
    quotient.x |= select(1u, 0u, u64_is_zero(rest));
    return f64_round(sign, e, quotient);
}

// Of a number that is not negative. 56 turns.
fn f64_sqrt(a: vec2<u32>) -> vec2<u32> {
    if f64_is_zero(a) || !f64_is_finite(a) {
        return select(a, F64_NAN, f64_is_nan(a));
    }
    let x = f64_normal(a);
    // a = m 2^e with e even.
    var e = x.exponent - 1075;
    var m = x.fraction;
    if (e & 1) != 0 {
        m = u64_left(m, 1u);
        e -= 1;
    }
    // Two bits of m a turn, from bits 53 and 52 on.
    m = u64_left(m, 10u);
    var rest = vec2<u32>(0u, 0u);
    var root = vec2<u32>(0u, 0u);
    for (var i = 0u; i < 56u; i++) {
        rest = u64_left(rest, 2u);
        rest.x |= m.y >> 30u;
        m = u64_left(m, 2u);
        var trial = u64_left(root, 2u);
        trial.x |= 1u;
        root = u64_left(root, 1u);
        if !u64_less(rest, trial) {
            rest = u64_sub(rest, trial);
            root.x |= 1u;
        }
    }
    root = u64_left(root, 7u);
    root.x |= select(1u, 0u, u64_is_zero(rest));
    return f64_round(0u, 1023 + 26 + e / 2, root);
}

// The bits of the nearest f32.
fn f64_to_f32(a: vec2<u32>) -> u32 {
    let sign = a.y & 0x80000000u;
    if f64_is_nan(a) {
        return NAN_BITS;
    }
    if !f64_is_finite(a) {
        return sign | 0x7f800000u;
    }
    var e = f64_exponent(a) - 1023 + 127;
    var m = u64_right_sticky(f64_fraction(a), 22u).x;
    if e >= 255 {
        return sign | 0x7f800000u;
    }
    if e < 1 {
        m = u64_right_sticky(vec2<u32>(m, 0u), u32(min(1 - e, 64))).x;
        e = 1;
    }
    let rest = m & 0x7fu;
    m >>= 7u;
    m += select(0u, 1u, rest > 0x40u || (rest == 0x40u && (m & 1u) != 0u));
    return sign | ((u32(e - 1) << 23u) + m);
}
