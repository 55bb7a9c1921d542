//! What a file says about a loss: each tensor under the name of its meaning, checked against the others.

use hunkwise::error::{Error, Place, Result};
use hunkwise::loss::{AdvantageSpan, Advantages, Layout, PolicyBatch};
use serde_json::Value;

use super::tensor::{Dtype, FloatVec, Shape, Tensor};

/// A span of a row whose advantage is added to that of the row.
pub(super) type Span = AdvantageSpan;

/// Every name with those that trainers use for it.
const NAMES: [(&str, &[&str]); 13] = [
    ("log_prob", &["log_probs", "logprobs", "per_token_logps"]),
    ("old", &["old_log_prob", "old_log_probs", "old_per_token_logps"]),
    ("reference", &["ref_log_prob", "ref_log_probs", "ref_per_token_logps"]),
    ("rollout", &["rollout_log_prob", "rollout_log_probs", "sampling_per_token_logps"]),
    ("entropy", &["entropies", "entropys"]),
    ("mask", &["response_mask", "completion_mask", "loss_mask"]),
    ("advantages", &["advantage"]),
    ("offsets", &["cu_seqlens"]),
    ("denominator", &["num_items_in_batch"]),
    ("upstream", &[]),
    ("trainer.loss", &[]),
    ("trainer.grad_log_prob", &[]),
    ("trainer.token_loss", &[]),
];

/// The tensors of a file by their names, not yet checked.
pub(super) struct Input {
    pub(super) config: Option<Value>,
    pub(super) spans: Option<Vec<Vec<Span>>>,
    place: Place,
    tensors: Vec<(&'static str, String, Tensor)>,
}

impl Input {
    pub(super) fn new(place: Place) -> Self {
        Input { config: None, spans: None, place, tensors: Vec::new() }
    }

    /// Takes a tensor under any of its names.
    pub(super) fn put(&mut self, name: &str, tensor: Tensor) -> Result<()> {
        let place = self.place.at(name);
        let known = NAMES.iter().find(|(field, others)| *field == name || others.contains(&name));
        let Some(&(field, _)) = known else {
            let fields: Vec<&str> = NAMES.iter().map(|(field, _)| *field).collect();
            let what = format!("is not known; known are {}", fields.join(", "));
            return Err(Error::input(place, what));
        };
        if let Some((_, other, _)) = self.tensors.iter().find(|(taken, _, _)| *taken == field) {
            return Err(Error::input(
                place,
                format!("is given twice, the other time as `{other}`"),
            ));
        }
        self.tensors.push((field, name.to_string(), tensor));
        Ok(())
    }

    /// Everything in its place, or what does not fit.
    pub(super) fn check(mut self) -> Result<Tensors> {
        let offsets =
            self.take("offsets").map(|(name, tensor)| self.offsets(&name, &tensor)).transpose()?;
        let (name, log_prob) = self.required("log_prob")?;
        let rows = self.rows(&name, &log_prob, offsets)?;
        let mask = self.mask(&rows)?;
        let advantages = self.advantages(&rows)?;
        let tokens = |input: &mut Self, field| match input.take(field) {
            None => Ok(None),
            Some((name, tensor)) => input.fits(&name, &tensor, &rows).map(|()| Some(tensor)),
        };
        Ok(Tensors {
            old: tokens(&mut self, "old")?.map(|tensor| tensor.to_floats()),
            reference: tokens(&mut self, "reference")?.map(|tensor| tensor.to_floats()),
            rollout: tokens(&mut self, "rollout")?.map(|tensor| tensor.to_floats()),
            entropy: tokens(&mut self, "entropy")?.map(|tensor| tensor.to_floats()),
            trainer: Trainer {
                loss: self.number("trainer.loss")?,
                grad_log_prob: tokens(&mut self, "trainer.grad_log_prob")?.map(|t| t.values),
                token_loss: tokens(&mut self, "trainer.token_loss")?.map(|t| t.values),
            },
            denominator: self.number("denominator")?,
            upstream: self.number("upstream")?.unwrap_or(1.0) as f32,
            config: self.config,
            dtype: log_prob.dtype,
            log_prob: log_prob.to_floats(),
            mask,
            advantages,
            rows,
        })
    }

    fn take(&mut self, field: &str) -> Option<(String, Tensor)> {
        let at = self.tensors.iter().position(|(taken, _, _)| *taken == field)?;
        let (_, name, tensor) = self.tensors.swap_remove(at);
        Some((name, tensor))
    }

    fn required(&mut self, field: &str) -> Result<(String, Tensor)> {
        self.take(field).ok_or_else(|| Error::input(self.place.at(field), "is missing"))
    }

    fn wrong(&self, name: &str, what: String) -> Error {
        Error::input(self.place.at(name), what)
    }

    fn number(&mut self, field: &str) -> Result<Option<f64>> {
        match self.take(field) {
            None => Ok(None),
            Some((_, tensor)) if tensor.values.len() == 1 => Ok(Some(tensor.values[0])),
            Some((name, tensor)) => {
                let what = format!("has {}; it must be one number", tensor.shape_name());
                Err(self.wrong(&name, what))
            }
        }
    }

    fn offsets(&self, name: &str, tensor: &Tensor) -> Result<Vec<usize>> {
        let whole = |value: f64| value >= 0.0 && value.fract() == 0.0 && value < 1e15;
        let is_sorted = tensor.values.windows(2).all(|pair| pair[0] <= pair[1]);
        if !matches!(tensor.shape, Shape::Vector)
            || tensor.values.first() != Some(&0.0)
            || !is_sorted
            || !tensor.values.iter().all(|&value| whole(value))
        {
            let what =
                "must be whole numbers from 0 to the number of tokens, none below the one before";
            return Err(self.wrong(name, what.to_string()));
        }
        Ok(tensor.values.iter().map(|&value| value as usize).collect())
    }

    /// How the tokens lie, from the shape of the log-probs.
    fn rows(&self, name: &str, log_prob: &Tensor, offsets: Option<Vec<usize>>) -> Result<Rows> {
        let n_tokens = log_prob.values.len();
        match (&log_prob.shape, offsets) {
            (Shape::Number, _) => {
                Err(self.wrong(name, "is one number; it must be a tensor".to_string()))
            }
            (Shape::Vector | Shape::Matrix { n_rows: 1, .. }, Some(offsets)) => {
                if offsets.last() != Some(&n_tokens) {
                    let end = offsets.last().copied().unwrap_or(0);
                    let what = format!("has {n_tokens} values, but `offsets` end at {end}");
                    return Err(self.wrong(name, what));
                }
                Ok(Rows::Packed(offsets))
            }
            (_, Some(_)) => {
                let what = format!(
                    "has {}; with `offsets` it must be one packed row",
                    log_prob.shape_name()
                );
                Err(self.wrong(name, what))
            }
            (Shape::Vector, None) => Ok(Rows::Padded { n_rows: 1, n_columns: n_tokens }),
            (&Shape::Matrix { n_rows, n_columns }, None) => Ok(Rows::Padded { n_rows, n_columns }),
            (Shape::Ragged { offsets }, None) => Ok(Rows::Packed(offsets.clone())),
        }
    }

    /// One value for each token, in the rows of the log-probs.
    fn fits(&self, name: &str, tensor: &Tensor, rows: &Rows) -> Result<()> {
        if rows.fit(tensor) {
            return Ok(());
        }
        let what = format!("has {}, but log_prob has {}", tensor.shape_name(), rows.name());
        Err(self.wrong(name, what))
    }

    /// Exactly 0 or 1: a tensor of other numbers is another tensor in the place of the mask.
    fn mask(&mut self, rows: &Rows) -> Result<Vec<bool>> {
        let (name, tensor) = self.required("mask")?;
        self.fits(&name, &tensor, rows)?;
        if let Some(at) = tensor.values.iter().position(|&value| value != 0.0 && value != 1.0) {
            let (row, token) = rows.place_of(at);
            let field = format!("{name}[{row}][{token}]");
            let what = format!("is {}; a mask is 0 or 1", tensor.values[at]);
            return Err(self.wrong(&field, what));
        }
        Ok(tensor.values.iter().map(|&value| value == 1.0).collect())
    }

    fn advantages(&mut self, rows: &Rows) -> Result<AdvantageVec> {
        let (name, tensor) = self.required("advantages")?;
        let n_rows = rows.n_rows();
        let is_column = match tensor.shape {
            Shape::Vector => true,
            Shape::Matrix { n_columns, .. } => n_columns == 1,
            _ => false,
        };
        let by_row = || tensor.values.iter().map(|&value| value as f32).collect();
        if let Some(spans) = self.spans.take() {
            if !is_column || tensor.values.len() != n_rows {
                let what = format!(
                    "has {}; `episode` must have one value for each of {n_rows} rows",
                    tensor.shape_name()
                );
                return Err(self.wrong(&name, what));
            }
            return self.spans(by_row(), spans, rows);
        }
        if is_column && tensor.values.len() == n_rows {
            return Ok(AdvantageVec::Rows(by_row()));
        }
        if !rows.fit(&tensor) {
            let what = format!(
                "has {}; advantages are one for each token or each row, and log_prob has {}",
                tensor.shape_name(),
                rows.name()
            );
            return Err(self.wrong(&name, what));
        }
        Ok(AdvantageVec::Dense(tensor.to_floats()))
    }

    fn spans(
        &self,
        episode: Vec<f32>,
        by_row: Vec<Vec<Span>>,
        rows: &Rows,
    ) -> Result<AdvantageVec> {
        if by_row.len() != rows.n_rows() {
            let what = format!("has {} rows, but log_prob has {}", by_row.len(), rows.n_rows());
            return Err(self.wrong("advantages.spans", what));
        }
        for (row, of_row) in by_row.iter().enumerate() {
            let mut end = 0;
            for (i, span) in of_row.iter().enumerate() {
                let tokens = &span.tokens;
                if tokens.start < end
                    || tokens.start > tokens.end
                    || tokens.end as usize > rows.length(row)
                {
                    let what = format!(
                        "is {}..{}; spans are sorted, do not overlap and end at {} at most",
                        tokens.start,
                        tokens.end,
                        rows.length(row)
                    );
                    return Err(self.wrong(&format!("advantages.spans[{row}][{i}]"), what));
                }
                end = tokens.end;
            }
        }
        let mut offsets = vec![0];
        offsets.extend(by_row.iter().scan(0, |sum, of_row| {
            *sum += of_row.len();
            Some(*sum)
        }));
        Ok(AdvantageVec::Spans { episode, spans: by_row.into_iter().flatten().collect(), offsets })
    }
}

/// Which tokens make a row.
pub(super) enum Rows {
    Padded { n_rows: usize, n_columns: usize },
    Packed(Vec<usize>),
}

impl Rows {
    pub(super) fn layout(&self) -> Layout<'_> {
        match self {
            &Rows::Padded { n_rows, n_columns } => Layout::Padded { n_rows, n_columns },
            Rows::Packed(offsets) => Layout::Packed { offsets },
        }
    }

    pub(super) fn n_rows(&self) -> usize {
        self.layout().n_rows()
    }

    fn length(&self, row: usize) -> usize {
        self.layout().tokens(row).len()
    }

    fn n_tokens(&self) -> usize {
        match self {
            Rows::Padded { n_rows, n_columns } => n_rows * n_columns,
            Rows::Packed(offsets) => offsets.last().copied().unwrap_or(0),
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Rows::Padded { n_rows, n_columns } => format!("shape [{n_rows}, {n_columns}]"),
            Rows::Packed(_) => {
                format!("{} tokens packed in {} rows", self.n_tokens(), self.n_rows())
            }
        }
    }

    /// True for a tensor with one value for each token, in these rows.
    fn fit(&self, tensor: &Tensor) -> bool {
        tensor.values.len() == self.n_tokens()
            && match &tensor.shape {
                Shape::Number => false,
                Shape::Vector => self.is_flat(),
                Shape::Matrix { n_rows: 1, .. } if self.is_flat() => true,
                &Shape::Matrix { n_rows, n_columns } => {
                    n_rows == self.n_rows() && (0..n_rows).all(|row| self.length(row) == n_columns)
                }
                Shape::Ragged { offsets } => match self {
                    Rows::Padded { .. } => false,
                    Rows::Packed(of_rows) => offsets == of_rows,
                },
            }
    }

    /// One row, or several packed into one.
    fn is_flat(&self) -> bool {
        matches!(self, Rows::Padded { n_rows: 1, .. } | Rows::Packed(_))
    }

    /// Row, and token in it, of a position in the arrays.
    pub(super) fn place_of(&self, at: usize) -> (usize, usize) {
        match self {
            Rows::Padded { n_columns, .. } => (at / n_columns, at % n_columns),
            Rows::Packed(offsets) => {
                let row = offsets.partition_point(|&offset| offset <= at) - 1;
                (row, at - offsets[row])
            }
        }
    }
}

/// Advantages with their values.
pub(super) enum AdvantageVec {
    Dense(FloatVec),
    Rows(Vec<f32>),
    Spans { episode: Vec<f32>, spans: Vec<Span>, offsets: Vec<usize> },
}

/// What the trainer computed from the same tensors.
pub(super) struct Trainer {
    pub(super) loss: Option<f64>,
    pub(super) grad_log_prob: Option<Vec<f64>>,
    pub(super) token_loss: Option<Vec<f64>>,
}

/// Tensors that fit each other.
pub(super) struct Tensors {
    pub(super) config: Option<Value>,
    pub(super) trainer: Trainer,
    pub(super) rows: Rows,
    pub(super) dtype: Dtype,
    pub(super) upstream: f32,
    denominator: Option<f64>,
    log_prob: FloatVec,
    old: Option<FloatVec>,
    reference: Option<FloatVec>,
    rollout: Option<FloatVec>,
    entropy: Option<FloatVec>,
    mask: Vec<bool>,
    advantages: AdvantageVec,
}

impl Tensors {
    pub(super) fn batch(&self) -> PolicyBatch<'_> {
        PolicyBatch {
            log_prob: self.log_prob.as_floats(),
            old: self.old.as_ref().map(FloatVec::as_floats),
            reference: self.reference.as_ref().map(FloatVec::as_floats),
            rollout: self.rollout.as_ref().map(FloatVec::as_floats),
            entropy: self.entropy.as_ref().map(FloatVec::as_floats),
            mask: &self.mask,
            advantages: match &self.advantages {
                AdvantageVec::Dense(values) => Advantages::Dense(values.as_floats()),
                AdvantageVec::Rows(values) => Advantages::Rows(values),
                AdvantageVec::Spans { episode, spans, offsets } => {
                    Advantages::Spans { episode, spans, offsets }
                }
            },
            layout: self.rows.layout(),
            denominator: self.denominator,
        }
    }

    /// Advantage of a token: of position `at` in the arrays, which is `token` of `row`.
    pub(super) fn advantage(&self, at: usize, row: usize, token: usize) -> f32 {
        match &self.advantages {
            AdvantageVec::Dense(values) => values.as_floats().get(at),
            AdvantageVec::Rows(values) => values[row],
            AdvantageVec::Spans { episode, spans, offsets } => {
                let of_row = &spans[offsets[row]..offsets[row + 1]];
                let has_token = |span: &&Span| span.tokens.contains(&(token as u32));
                episode[row] + of_row.iter().find(has_token).map_or(0.0, |span| span.advantage)
            }
        }
    }
}
