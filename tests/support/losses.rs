//! Made-up batches for the tests of losses.

use hunkwise::loss::{
    AdvantageSpan, Advantages, Floats, Kl, Layout, PolicyBatch, PolicyLossConfig, RatioLevel,
    Reduction, RolloutCorrection, RolloutLevel, Surrogate,
};

/// splitmix64: numbers that are the same on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// A number in `least..most`.
    pub(crate) fn between(&mut self, least: f32, most: f32) -> f32 {
        let unit = (self.next() >> 40) as f32 / (1u64 << 24) as f32;
        least + (most - least) * unit
    }
}

/// How the advantages of a [`Made`] are given.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Form {
    Dense,
    Rows,
    Spans,
}

/// A batch with every array, owned. Advantages of both signs and zero, ragged masks, an empty row, a row without mask.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) log_prob: Vec<f32>,
    pub(crate) old: Vec<f32>,
    pub(crate) reference: Vec<f32>,
    pub(crate) rollout: Vec<f32>,
    pub(crate) entropy: Vec<f32>,
    pub(crate) mask: Vec<bool>,
    pub(crate) dense: Vec<f32>,
    pub(crate) episode: Vec<f32>,
    pub(crate) spans: Vec<AdvantageSpan>,
    pub(crate) span_offsets: Vec<usize>,
    /// Of the packed layout.
    pub(crate) offsets: Vec<usize>,
    pub(crate) form: Form,
    /// Which optional arrays are given.
    pub(crate) has_old: bool,
    pub(crate) has_reference: bool,
    pub(crate) has_rollout: bool,
    pub(crate) has_entropy: bool,
}

impl Made {
    /// Rows of these lengths; log-probs differ from the old ones by at most `drift`.
    pub(crate) fn new(seed: u64, lengths: &[usize], drift: f32) -> Self {
        let mut random = Random(seed);
        let n: usize = lengths.iter().sum();
        let near = |random: &mut Random, of: &[f32], by: f32| -> Vec<f32> {
            of.iter().map(|x| x + random.between(-by, by)).collect()
        };
        let old: Vec<f32> = (0..n).map(|_| random.between(-6.0, -0.01)).collect();
        let log_prob = near(&mut random, &old, drift);
        let reference = near(&mut random, &log_prob, 1.5);
        let rollout = near(&mut random, &old, 0.5);
        let entropy = (0..n).map(|_| random.between(0.0, 3.0)).collect();
        let mut mask: Vec<bool> = (0..n).map(|_| random.below(5) > 0).collect();
        let mut offsets = vec![0];
        let (mut spans, mut span_offsets) = (vec![], vec![0]);
        for (row, length) in lengths.iter().enumerate() {
            let start = offsets[row];
            offsets.push(start + length);
            if row % 5 == 3 {
                mask[start..start + length].fill(false);
            }
            let mut at = 0;
            while at < *length {
                let end = (at + 1 + random.below(40)).min(*length);
                if random.below(2) == 0 {
                    let advantage = random.between(-1.0, 1.0);
                    spans.push(AdvantageSpan { tokens: at as u32..end as u32, advantage });
                }
                at = end + random.below(30);
            }
            span_offsets.push(spans.len());
        }
        let some_zero = |random: &mut Random| match random.below(6) {
            0 => 0.0,
            _ => random.between(-2.0, 2.0),
        };
        Made {
            dense: (0..n).map(|_| some_zero(&mut random)).collect(),
            episode: lengths.iter().map(|_| some_zero(&mut random)).collect(),
            log_prob,
            old,
            reference,
            rollout,
            entropy,
            mask,
            spans,
            span_offsets,
            offsets,
            form: Form::Dense,
            has_old: true,
            has_reference: true,
            has_rollout: true,
            has_entropy: true,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.log_prob.len()
    }

    /// The batch, packed.
    pub(crate) fn batch(&self) -> PolicyBatch<'_> {
        let given = |has: bool, values| has.then_some(Floats::F32(values));
        PolicyBatch {
            log_prob: Floats::F32(&self.log_prob),
            old: given(self.has_old, &self.old),
            reference: given(self.has_reference, &self.reference),
            rollout: given(self.has_rollout, &self.rollout),
            entropy: given(self.has_entropy, &self.entropy),
            mask: &self.mask,
            advantages: match self.form {
                Form::Dense => Advantages::Dense(Floats::F32(&self.dense)),
                Form::Rows => Advantages::Rows(&self.episode),
                Form::Spans => Advantages::Spans {
                    episode: &self.episode,
                    spans: &self.spans,
                    offsets: &self.span_offsets,
                },
            },
            layout: Layout::Packed { offsets: &self.offsets },
            denominator: None,
        }
    }
}

/// Every surrogate at every ratio level, every reduction, KL estimator and correction at least once.
pub(crate) fn configs() -> Vec<(String, PolicyLossConfig)> {
    let mut configs: Vec<(String, PolicyLossConfig)> = hunkwise::loss::PRESETS
        .iter()
        .map(|name| ((*name).to_owned(), PolicyLossConfig::preset(name).unwrap()))
        .collect();
    let surrogates = [
        Surrogate::Clip { low: 0.1, high: 0.3, dual: Some(1.5) },
        Surrogate::Cispo { min: 0.7, max: 1.4 },
        Surrogate::Sapo { tau_positive: 1.3, tau_negative: 0.8 },
    ];
    let levels = [RatioLevel::Token, RatioLevel::Sequence, RatioLevel::SequenceToken];
    let kls =
        [Kl::K1, Kl::K2, Kl::K3, Kl::K1StraightThrough, Kl::K3StraightThrough, Kl::K3Corrected];
    let reductions = [
        Reduction::TokenMean,
        Reduction::SeqMeanTokenMean,
        Reduction::SeqMeanTokenSum,
        Reduction::SeqMeanTokenSumNorm { length: 77 },
        Reduction::TokenSum,
    ];
    let token = RolloutLevel::Token;
    let sequence = RolloutLevel::Sequence;
    let corrections = [
        RolloutCorrection::None,
        RolloutCorrection::Truncate { level: token, max: 1.2 },
        RolloutCorrection::Truncate { level: sequence, max: 2.0 },
        RolloutCorrection::Mask { level: token, min: 0.8, max: 1.3 },
        RolloutCorrection::Mask { level: sequence, min: 0.2, max: 5.0 },
    ];
    for at in 0..30 {
        let config = PolicyLossConfig {
            surrogate: surrogates[at % 3],
            ratio: levels[at / 3 % 3],
            reduction: reductions[at % 5],
            count_empty_rows: at % 2 == 0,
            max_log_ratio: 20.0,
            kl: kls[at % 6],
            beta: 0.3,
            entropy_coef: if at % 4 == 0 { 0.0 } else { 0.01 },
            rollout: corrections[(at + at / 5) % 5],
            ..PolicyLossConfig::default()
        };
        configs.push((format!("{at}: {config:?}"), config));
    }
    configs
}
