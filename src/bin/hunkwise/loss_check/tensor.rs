//! Tensors as a file has them, before it is known what they mean.

use half::{bf16, f16};
use hunkwise::loss::Floats;

/// Numbers with a shape.
pub(super) struct Tensor {
    /// Every value, row after row; exact for all dtypes up to 52 bits.
    pub(super) values: Vec<f64>,
    pub(super) shape: Shape,
    pub(super) dtype: Dtype,
}

pub(super) enum Shape {
    Number,
    Vector,
    Matrix {
        n_rows: usize,
        n_columns: usize,
    },
    /// Rows of different lengths: row `i` has the values `offsets[i]..offsets[i + 1]`.
    Ragged {
        offsets: Vec<usize>,
    },
}

/// The dtypes that a loss computes from; what is neither of the half ones is read as f32.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dtype {
    F32,
    Bf16,
    F16,
}

impl Dtype {
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "f32" | "float32" => Some(Dtype::F32),
            "bf16" | "bfloat16" => Some(Dtype::Bf16),
            "f16" | "float16" => Some(Dtype::F16),
            _ => None,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Dtype::F32 => "f32",
            Dtype::Bf16 => "bf16",
            Dtype::F16 => "f16",
        }
    }
}

impl Tensor {
    /// The shape in words, for messages.
    pub(super) fn shape_name(&self) -> String {
        match &self.shape {
            Shape::Number => "one number".to_string(),
            Shape::Vector => format!("shape [{}]", self.values.len()),
            Shape::Matrix { n_rows, n_columns } => format!("shape [{n_rows}, {n_columns}]"),
            Shape::Ragged { offsets } => {
                let lengths: Vec<_> = offsets.windows(2).map(|pair| pair[1] - pair[0]).collect();
                format!("rows of {lengths:?} values")
            }
        }
    }

    pub(super) fn to_floats(&self) -> FloatVec {
        match self.dtype {
            Dtype::F32 => FloatVec::F32(self.values.iter().map(|&value| value as f32).collect()),
            Dtype::Bf16 => {
                FloatVec::Bf16(self.values.iter().copied().map(bf16::from_f64).collect())
            }
            Dtype::F16 => FloatVec::F16(self.values.iter().copied().map(f16::from_f64).collect()),
        }
    }
}

/// Values of one dtype.
pub(super) enum FloatVec {
    F32(Vec<f32>),
    Bf16(Vec<bf16>),
    F16(Vec<f16>),
}

impl FloatVec {
    pub(super) fn as_floats(&self) -> Floats<'_> {
        match self {
            FloatVec::F32(values) => Floats::F32(values),
            FloatVec::Bf16(values) => Floats::Bf16(values),
            FloatVec::F16(values) => Floats::F16(values),
        }
    }
}
