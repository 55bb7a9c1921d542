//! What a sequence must satisfy before any stage may see it.

use super::Sequence;
use crate::error::{Error, Result};

impl Sequence {
    /// Checks that turns are sorted, disjoint and inside the text; that token byte-ends do not decrease and end at the
    /// end of the text; that the mask is as long as the tokens.
    ///
    /// # Errors
    /// [`Error::Input`] at the place of the sequence, with the field and both figures. Rewards are not checked here:
    /// a reward that is not finite leaves the row usable and the trajectory unscored.
    pub fn validate(&self) -> Result<()> {
        let length = self.text.len();
        if u32::try_from(length).is_err() {
            return Err(self.fault(
                "text",
                format!("holds {length} bytes; at most {} are possible", u32::MAX),
            ));
        }
        let mut previous_end = 0;
        for (i, turn) in self.turns.iter().enumerate() {
            let (start, end) = (turn.bytes.start, turn.bytes.end);
            let what = if end < start {
                format!("ends at byte {end}, before its start at byte {start}")
            } else if end > length {
                format!("ends at byte {end}; the text has {length} bytes")
            } else if start < previous_end {
                format!(
                    "starts at byte {start}, before the end of the turn before it at byte {previous_end}; turns must be \
                     sorted and disjoint"
                )
            } else {
                previous_end = end;
                continue;
            };
            return Err(self.fault(&format!("turns[{i}]"), what));
        }
        let Some(tokens) = &self.tokens else { return Ok(()) };
        let n_tokens = tokens.byte_ends.len();
        if tokens.mask.len() != n_tokens {
            let what = format!(
                "has {} entries for {n_tokens} tokens; it must have one for each",
                tokens.mask.len()
            );
            return Err(self.fault("mask", what));
        }
        let mut previous_end = 0;
        for (i, &end) in tokens.byte_ends.iter().enumerate() {
            if end < previous_end {
                let what = format!(
                    "decreases from {previous_end} to {end} at entry {i}; byte-ends must not decrease"
                );
                return Err(self.fault("token_ends", what));
            }
            previous_end = end;
        }
        if previous_end as usize != length {
            let what = format!(
                "ends at byte {previous_end}; the text has {length} bytes, and they must agree"
            );
            return Err(self.fault("token_ends", what));
        }
        Ok(())
    }

    fn fault(&self, field: &str, what: String) -> Error {
        Error::input(self.place.at(field), what)
    }
}
