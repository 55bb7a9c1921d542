//! The files of `shaders/`.

use super::linear_loss::product;
use super::{anchor_gain, logits_loss, policy_loss, token_advantage, window_similarity};

/// What a binding holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    Parameters,
    Read,
    Write,
}

/// A file of `shaders/`.
#[derive(Debug)]
pub(super) struct Shader {
    pub(super) name: &'static str,
    /// Put between the common file and this one: [`F64`] or nothing.
    pub(super) before: &'static str,
    pub(super) source: &'static str,
    pub(super) bindings: &'static [Binding],
    /// Sizes that it is compiled for.
    pub(super) sizes: &'static [u32],
}

/// Put before every file.
const COMMON: &str = include_str!("../../../shaders/common.wgsl");

/// Double precision.
pub(super) const F64: &str = include_str!("../../../shaders/f64.wgsl");

impl Shader {
    /// The whole shader. `size` becomes its constant SIZE: the length of an array that registers hold.
    pub(super) fn text(&self, size: u32) -> String {
        format!("const SIZE: u32 = {size}u;\n{COMMON}\n{}\n{}", self.before, self.source)
    }
}

const ALL: [&Shader; 6] = [
    &product::SHADER,
    &logits_loss::SHADER,
    &policy_loss::SHADER,
    &window_similarity::SHADER,
    &anchor_gain::SHADER,
    &token_advantage::SHADER,
];

/// A shader as the driver gets it.
#[derive(Debug)]
pub struct ShaderText {
    /// File in `shaders/`, and the size that it is compiled for.
    pub name: String,
    /// WGSL.
    pub text: String,
}

/// Every shader in every size, for tools that look at them.
pub fn shader_texts() -> Vec<ShaderText> {
    let of_shader = |shader: &'static Shader| {
        shader.sizes.iter().map(move |&size| ShaderText {
            name: format!("{}, size {size}", shader.name),
            text: shader.text(size),
        })
    };
    ALL.into_iter().flat_map(of_shader).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::wgpu::driver::Step;
    use crate::backend::wgpu::{AdapterChoice, Wgpu};

    const PROBE: Shader = Shader {
        name: "probe",
        before: F64,
        source: "
            @group(0) @binding(0) var<storage, read> given: array<vec4<u32>>;
            @group(0) @binding(1) var<storage, read_write> found: array<vec2<u32>>;
            @compute @workgroup_size(64)
            fn probe(@builtin(global_invocation_id) id: vec3<u32>) {
                let i = id.x;
                if i >= arrayLength(&given) { return; }
                let a = given[i].xy;
                let b = given[i].zw;
                found[i * 6u] = f64_add(a, b);
                found[i * 6u + 1u] = f64_sub(a, b);
                found[i * 6u + 2u] = f64_mul(a, b);
                found[i * 6u + 3u] = f64_div(a, b);
                found[i * 6u + 4u] = f64_sqrt(f64_magnitude(a));
                found[i * 6u + 5u] = vec2<u32>(f64_to_f32(a), 0u);
            }",
        bindings: &[Binding::Read, Binding::Write],
        sizes: &[1],
    };

    /// Every sum, product, quotient, root and conversion has the bits that the processor gives.
    #[test]
    fn doubles_of_the_shaders_are_those_of_the_processor() {
        let device = match Wgpu::new(AdapterChoice::BestOrSoftware) {
            Ok(device) => device,
            Err(reason) => {
                assert!(std::env::var_os("HUNKWISE_REQUIRE_WGPU").is_none(), "{reason}");
                eprintln!("skipped: {reason}");
                return;
            }
        };
        let mut state = 1u64;
        let mut draw = move || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let x = (state ^ (state >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
            x ^ (x >> 33)
        };
        let special = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            f64::MIN_POSITIVE,
            5e-324,
            -5e-324,
            2.5e-323,
            f64::MAX,
            f64::MIN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            1.0 + f64::EPSILON,
            f64::from(f32::MAX) * (1.0 + 2f64.powi(-25)),
            f64::from(f32::MIN_POSITIVE) / 3.0,
            1e-46,
        ];
        let mut pairs: Vec<(f64, f64)> =
            special.iter().flat_map(|&a| special.iter().map(move |&b| (a, b))).collect();
        for round in 0..20_000 {
            let (x, y) = (draw(), draw());
            pairs.push(match round % 4 {
                // Any bits; near one another; small integers; near in size, far in bits.
                0 => (f64::from_bits(x), f64::from_bits(y)),
                1 => (f64::from_bits(x), f64::from_bits(x ^ (y >> (12 + y % 52)))),
                2 => ((x % 1000) as f64 / 8.0, (y % 1000) as f64 / 8.0 - 50.0),
                _ => {
                    let exponent = (1000 + x % 40) << 52;
                    (
                        f64::from_bits(exponent | y >> 12),
                        f64::from_bits((x & !(0x7ff << 52)) | 1010 << 52),
                    )
                }
            });
        }
        let words: Vec<u64> = pairs.iter().flat_map(|(a, b)| [a.to_bits(), b.to_bits()]).collect();
        let given = device.upload(&words).unwrap();
        let n_bytes = 48 * pairs.len() as u64;
        let found = device.zeros(n_bytes).unwrap();
        let step = Step {
            shader: &PROBE,
            size: 1,
            entry: "probe",
            memory: &[&given, &found],
            workgroups: pairs.len().div_ceil(64) as u32,
        };
        let read = device.run(&[step], &[(&found, n_bytes)]).unwrap();
        for ((a, b), found) in pairs.iter().zip(read[0].as_chunks::<12>().0) {
            let wide = |i: usize| u64::from(found[2 * i]) | u64::from(found[2 * i + 1]) << 32;
            let expected = [a + b, a - b, a * b, a / b, a.abs().sqrt()];
            for (i, (expected, name)) in
                expected.into_iter().zip(["+", "-", "*", "/", "root"]).enumerate()
            {
                let found = f64::from_bits(wide(i));
                let same =
                    found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
                assert!(same, "{a:e} {name} {b:e}: {found:e}, processor {expected:e}");
            }
            let (found, expected) = (f32::from_bits(found[10]), *a as f32);
            let same =
                found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
            assert!(same, "{a:e} as f32: {found:e}, processor {expected:e}");
        }
    }
}
