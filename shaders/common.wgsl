// What every shader uses. SIZE, a constant, is put before this file.

const ABSENT: u32 = 0xffffffffu;
const LARGEST: f32 = 3.4028234e38;
const NAN_BITS: u32 = 0x7fc00000u;

// Comparisons with NaN and infinity may be compiled away, so both are found by their bits.
fn is_finite_bits(bits: u32) -> bool {
    return (bits & 0x7f800000u) != 0x7f800000u;
}

fn is_nan_bits(bits: u32) -> bool {
    return (bits & 0x7fffffffu) > 0x7f800000u;
}

fn hold(x: f32, least: f32, most: f32) -> f32 {
    return select(select(x, most, x > most), least, x < least);
}

// exp(x) for |x| <= 88, within two units in the last place: the built-in may be off by more, the more the larger x.
fn exp_of(x: f32) -> f32 {
    let n = round(x * 1.44269504);
    let r = fma(n, -1.42860677e-6, fma(n, -0.693145752, x));
    var series = 1.0 / 5040.0;
    series = fma(series, r, 1.0 / 720.0);
    series = fma(series, r, 1.0 / 120.0);
    series = fma(series, r, 1.0 / 24.0);
    series = fma(series, r, 1.0 / 6.0);
    series = fma(series, r, 0.5);
    series = fma(series, r, 1.0);
    series = fma(series, r, 1.0);
    // 2^n in two factors, for n = 128 is no exponent.
    let half = i32(n) / 2;
    let rest = i32(n) - half;
    return series * bitcast<f32>(u32(half + 127) << 23u) * bitcast<f32>(u32(rest + 127) << 23u);
}

// exp(x) - 1 - x: from the series where x is small, for there the difference cancels.
fn k3_of(x: f32) -> f32 {
    if abs(x) > 0.5 {
        return exp_of(x) - 1.0 - x;
    }
    var series = 1.0 / 40320.0;
    series = fma(series, x, 1.0 / 5040.0);
    series = fma(series, x, 1.0 / 720.0);
    series = fma(series, x, 1.0 / 120.0);
    series = fma(series, x, 1.0 / 24.0);
    series = fma(series, x, 1.0 / 6.0);
    series = fma(series, x, 0.5);
    return series * x * x;
}

// The bits of an f32 from those of an f16, without flushing small ones.
fn widened(half: u32) -> u32 {
    let sign = (half & 0x8000u) << 16u;
    let exponent = (half >> 10u) & 31u;
    let fraction = half & 1023u;
    if exponent == 0u {
        return sign | bitcast<u32>(f32(fraction) * 5.96046448e-8);
    }
    if exponent == 31u {
        return sign | 0x7f800000u | (fraction << 13u);
    }
    return sign | ((exponent + 112u) << 23u) | (fraction << 13u);
}

// The nearest bf16, ties to even, of the bits of an f32.
fn narrowed_to_bf16(bits: u32) -> u32 {
    let rounded = (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
    return select(rounded, (bits >> 16u) | 0x40u, is_nan_bits(bits));
}

// The nearest f16, ties to even, of the bits of an f32.
fn narrowed_to_f16(bits: u32) -> u32 {
    let sign = (bits >> 16u) & 0x8000u;
    let magnitude = bits & 0x7fffffffu;
    if magnitude > 0x7f800000u {
        return sign | 0x7e00u;
    }
    if magnitude >= 0x477ff000u {
        return sign | 0x7c00u;
    }
    if magnitude >= 0x38800000u {
        return sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13u) & 1u)) >> 13u);
    }
    // A subnormal: a multiple of 2^-24.
    let exponent = magnitude >> 23u;
    if exponent < 102u {
        return sign;
    }
    let fraction = (magnitude & 0x7fffffu) | 0x800000u;
    let shift = 126u - exponent;
    let whole = fraction >> shift;
    let rest = fraction & ((1u << shift) - 1u);
    let middle = 1u << (shift - 1u);
    let is_up = rest > middle || (rest == middle && (whole & 1u) != 0u);
    return sign | (whole + select(0u, 1u, is_up));
}

// The bits of one value of a word as f32: `k` is 0, or 1 for the upper half of a word of bf16 (dtype 1) or f16 (dtype 2).
fn unpacked(word: u32, dtype: u32, k: u32) -> u32 {
    if dtype == 0u {
        return word;
    }
    let short = (word >> (k * 16u)) & 0xffffu;
    return select(widened(short), short << 16u, dtype == 1u);
}
