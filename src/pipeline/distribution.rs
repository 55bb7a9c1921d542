//! Least, mean and greatest of values that come one by one. O(1) a value.

use serde::Serialize;

/// Least, mean and greatest of some values; all 0 when there are none.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Distribution {
    /// How many values.
    pub n: u64,
    /// Least.
    pub min: f64,
    /// Mean; 0 for none.
    pub mean: f64,
    /// Greatest.
    pub max: f64,
    #[serde(skip)]
    sum: f64,
}

impl Distribution {
    /// Takes one value in; one that is not finite (a spread of rewards near the largest floats) is left out.
    pub fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.min = if self.n == 0 { value } else { self.min.min(value) };
        self.max = if self.n == 0 { value } else { self.max.max(value) };
        self.n += 1;
        self.sum += value;
        self.mean = self.sum / self.n as f64;
    }

    /// Takes the values of another in.
    pub fn merge(&mut self, other: &Distribution) {
        if other.n == 0 {
            return;
        }
        self.min = if self.n == 0 { other.min } else { self.min.min(other.min) };
        self.max = if self.n == 0 { other.max } else { self.max.max(other.max) };
        self.n += other.n;
        self.sum += other.sum;
        self.mean = self.sum / self.n as f64;
    }
}
