//! The host: rayon over blocks, SIMD sets chosen at run time, and a scalar fallback that gives the same results.

pub(crate) mod anchor_gain;
pub(crate) mod linear_loss;
pub(crate) mod logits_loss;
pub(crate) mod pair_similarity;
pub(crate) mod policy_loss;
pub(crate) mod token_advantage;
mod vectorized;
pub(crate) mod window_similarity;

/// A set of SIMD instructions; the widest one present is chosen at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Simd {
    /// Plain Rust, on every architecture.
    Scalar,
    /// x86-64 with AVX2, FMA, POPCNT, BMI1 and BMI2.
    Avx2,
    /// x86-64 with AVX-512 F, BW and VPOPCNTDQ on top.
    Avx512,
}

impl Simd {
    /// The widest set that this processor has.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2");
            let avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vpopcntdq");
            if avx2 {
                return if avx512 { Simd::Avx512 } else { Simd::Avx2 };
            }
        }
        Simd::Scalar
    }
}

/// The host device. Operations run on the rayon pool they are called in; `simd` limits the instructions they use.
#[derive(Debug, Clone)]
pub struct Cpu {
    simd: Simd,
}

impl Cpu {
    /// The widest SIMD set detected.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Cpu { simd: Simd::detect() }
    }

    /// At most the given SIMD set; one that the processor lacks is narrowed to what it has.
    pub fn with_simd(simd: Simd) -> Self {
        Cpu { simd: simd.min(Simd::detect()) }
    }

    /// The SIMD set in use.
    pub fn simd(&self) -> Simd {
        self.simd
    }
}
