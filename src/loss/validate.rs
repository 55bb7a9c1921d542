//! Checks of parameters and arrays, before anything is computed.

use super::{
    Advantages, Floats, Layout, PolicyBatch, PolicyLossConfig, PolicyOutputs, Reduction,
    RolloutCorrection, Surrogate, Upstream,
};
use crate::error::{Error, Result};

const OP: &str = "policy_loss";
/// exp of a larger bound has squares beyond f32.
const LARGEST_LOG_RATIO: f64 = 80.0;

fn ensure(good: bool, name: &'static str, got: f64, expected: &'static str) -> Result<()> {
    if good { Ok(()) } else { Err(Error::Config { op: OP, name, got: got.to_string(), expected }) }
}

fn shape<T>(what: String) -> Result<T> {
    Err(Error::Shape { op: OP, what })
}

impl PolicyLossConfig {
    /// Checks each parameter against its range.
    ///
    /// # Errors
    /// [`Error::Config`] with the name of the first one that is out of its range.
    pub fn validate(&self) -> Result<()> {
        self.surrogate.validate()?;
        if let Reduction::SeqMeanTokenSumNorm { length } = self.reduction {
            ensure(length > 0, "reduction.length", length.into(), "above 0")?;
        }
        let bound = self.max_log_ratio;
        ensure(bound > 0.0 && bound <= LARGEST_LOG_RATIO, "max_log_ratio", bound, "in (0, 80]")?;
        ensure(
            self.beta.is_finite() && self.beta >= 0.0,
            "beta",
            self.beta,
            "finite and at least 0",
        )?;
        ensure(self.entropy_coef.is_finite(), "entropy_coef", self.entropy_coef, "finite")?;
        match self.rollout {
            RolloutCorrection::None => Ok(()),
            RolloutCorrection::Truncate { max, .. } => {
                ensure(max > 0.0 && max.is_finite(), "rollout.max", max, "finite and above 0")
            }
            RolloutCorrection::Mask { min, max, .. } => {
                ensure(min >= 0.0 && min.is_finite(), "rollout.min", min, "finite and at least 0")?;
                ensure(
                    max > min && max.is_finite(),
                    "rollout.max",
                    max,
                    "finite and above `rollout.min`",
                )
            }
        }
    }
}

impl Surrogate {
    fn validate(&self) -> Result<()> {
        match *self {
            Surrogate::Clip { low, high, dual } => {
                ensure((0.0..1.0).contains(&low), "surrogate.low", low, "in [0, 1)")?;
                ensure(
                    high >= 0.0 && high.is_finite(),
                    "surrogate.high",
                    high,
                    "finite and at least 0",
                )?;
                let c = dual.unwrap_or(2.0);
                ensure(c > 1.0 && c.is_finite(), "surrogate.dual", c, "finite and above 1")
            }
            Surrogate::Cispo { min, max } => {
                ensure(
                    min >= 0.0 && min.is_finite(),
                    "surrogate.min",
                    min,
                    "finite and at least 0",
                )?;
                ensure(
                    max >= min && max.is_finite(),
                    "surrogate.max",
                    max,
                    "finite and at least `surrogate.min`",
                )
            }
            Surrogate::Sapo { tau_positive, tau_negative } => {
                let above = |tau: f64| tau > 0.0 && tau.is_finite();
                ensure(
                    above(tau_positive),
                    "surrogate.tau_positive",
                    tau_positive,
                    "finite and above 0",
                )?;
                ensure(
                    above(tau_negative),
                    "surrogate.tau_negative",
                    tau_negative,
                    "finite and above 0",
                )
            }
        }
    }
}

/// Offsets of a list of lists: from 0, ascending, to `total`.
fn check_offsets(name: &str, offsets: &[usize], total: usize, entries: &str) -> Result<()> {
    if offsets.first() != Some(&0) {
        return shape(format!("`{name}` must begin with 0"));
    }
    if let Some(i) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
        let (before, after) = (offsets[i], offsets[i + 1]);
        return shape(format!("`{name}` falls from {before} to {after} at entry {}", i + 1));
    }
    match offsets.last() {
        Some(&last) if last != total => {
            shape(format!("`{name}` ends with {last}, but {entries} has {total} entries"))
        }
        _ => Ok(()),
    }
}

impl Layout<'_> {
    fn validate(&self, n_tokens: usize) -> Result<()> {
        match *self {
            Layout::Padded { n_rows, n_columns } => match n_rows.checked_mul(n_columns) {
                Some(n) if n == n_tokens => Ok(()),
                _ => shape(format!(
                    "`layout` is {n_rows} rows of {n_columns} columns, but `log_prob` has {n_tokens} values"
                )),
            },
            Layout::Packed { offsets } => {
                check_offsets("layout.offsets", offsets, n_tokens, "`log_prob`")
            }
        }
    }
}

impl PolicyBatch<'_> {
    /// Checks every shape against that of `log_prob`, and that the arrays that `config` needs are there.
    ///
    /// # Errors
    /// [`Error::Shape`] with both names and lengths; [`Error::Config`] for a denominator that is not above 0 and for a
    /// parameter whose array is missing.
    pub fn validate(&self, config: &PolicyLossConfig) -> Result<()> {
        let n = self.log_prob.len();
        self.layout.validate(n)?;
        if self.mask.len() != n {
            return shape(format!("`mask` has {} values, `log_prob` has {n}", self.mask.len()));
        }
        let same = |name: &str, values: Option<Floats<'_>>| match values {
            Some(values) if values.len() != n => {
                shape(format!("`{name}` has {} values, `log_prob` has {n}", values.len()))
            }
            _ => Ok(()),
        };
        same("old", self.old)?;
        same("reference", self.reference)?;
        same("rollout", self.rollout)?;
        same("entropy", self.entropy)?;
        self.check_advantages()?;
        let needs = |absent: bool, name: &'static str, got: String, expected: &'static str| {
            if absent { Err(Error::Config { op: OP, name, got, expected }) } else { Ok(()) }
        };
        let (beta, entropy_coef) = (config.beta, config.entropy_coef);
        needs(
            beta != 0.0 && self.reference.is_none(),
            "beta",
            beta.to_string(),
            "0 without `reference` log-probs",
        )?;
        needs(
            entropy_coef != 0.0 && self.entropy.is_none(),
            "entropy_coef",
            entropy_coef.to_string(),
            "0 without `entropy`",
        )?;
        needs(
            config.rollout != RolloutCorrection::None && self.rollout.is_none(),
            "rollout",
            format!("{:?}", config.rollout),
            "`none` without `rollout` log-probs",
        )?;
        match self.denominator {
            Some(d) => ensure(d > 0.0 && d.is_finite(), "denominator", d, "finite and above 0"),
            None => Ok(()),
        }
    }

    fn check_advantages(&self) -> Result<()> {
        let (n, n_rows) = (self.log_prob.len(), self.layout.n_rows());
        let per_row = |name: &str, values: &[f32]| {
            if values.len() == n_rows {
                return Ok(());
            }
            shape(format!("`{name}` has {} values for {n_rows} rows", values.len()))
        };
        match self.advantages {
            Advantages::Dense(values) if values.len() != n => {
                shape(format!("`advantages` has {} values, `log_prob` has {n}", values.len()))
            }
            Advantages::Dense(_) => Ok(()),
            Advantages::Rows(values) => per_row("advantages", values),
            Advantages::Spans { episode, spans, offsets } => {
                per_row("advantages.episode", episode)?;
                if offsets.len() != n_rows + 1 {
                    let given = offsets.len();
                    return shape(format!(
                        "`advantages.offsets` has {given} entries for {n_rows} rows"
                    ));
                }
                check_offsets("advantages.offsets", offsets, spans.len(), "`advantages.spans`")?;
                (0..n_rows).try_for_each(|row| self.check_spans(row))
            }
        }
    }

    fn check_spans(&self, row: usize) -> Result<()> {
        let Advantages::Spans { spans, offsets, .. } = self.advantages else { return Ok(()) };
        let n_tokens = self.layout.tokens(row).len();
        let mut from = 0;
        for (i, span) in spans[offsets[row]..offsets[row + 1]].iter().enumerate() {
            let (start, end) = (span.tokens.start, span.tokens.end);
            if start < from || end < start || end as usize > n_tokens {
                return shape(format!(
                    "span {i} of row {row} is {start}..{end}; spans are sorted, disjoint and inside the row's \
                     {n_tokens} tokens"
                ));
            }
            from = end;
        }
        Ok(())
    }
}

impl Upstream<'_> {
    pub(super) fn validate(&self, layout: Layout<'_>, n_tokens: usize) -> Result<()> {
        let Upstream::Tokens { values, row_stride, token_stride } = *self else { return Ok(()) };
        if n_tokens == 0 {
            return Ok(());
        }
        let (rows, columns) = match layout {
            Layout::Padded { n_rows, n_columns } => (n_rows, n_columns),
            Layout::Packed { .. } => (1, n_tokens),
        };
        let reach = |steps: usize, stride: usize| (steps - 1).checked_mul(stride);
        let last = reach(rows, row_stride)
            .zip(reach(columns, token_stride))
            .and_then(|(row, token)| row.checked_add(token));
        match last {
            Some(last) if last < values.len() => Ok(()),
            _ => shape(format!(
                "the strides {row_stride} and {token_stride} of the upstream gradient reach past its {} values",
                values.len()
            )),
        }
    }
}

impl PolicyOutputs<'_> {
    pub(super) fn validate(&self, n_tokens: usize) -> Result<()> {
        for (name, output) in [
            ("grad_log_prob", &self.grad_log_prob),
            ("grad_entropy", &self.grad_entropy),
            ("token_loss", &self.token_loss),
        ] {
            if let Some(output) = output
                && output.len() != n_tokens
            {
                let given = output.len();
                return shape(format!("`{name}` has {given} values, `log_prob` has {n_tokens}"));
            }
        }
        Ok(())
    }
}
