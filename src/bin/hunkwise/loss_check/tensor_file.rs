//! Tensors of a loss from a safetensors file.

use half::{bf16, f16};
use hunkwise::error::{Error, Place, Result};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype as FileDtype, TensorView};

use super::input::Input;
use super::tensor::{Dtype, Shape, Tensor};

pub(super) fn read(bytes: &[u8], place: &Place) -> Result<Input> {
    let not_read = |e| Error::input(place.clone(), format!("is not safetensors: {e}"));
    let tensors = SafeTensors::deserialize(bytes).map_err(not_read)?;
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(not_read)?;
    let mut input = Input::new(place.clone());
    if let Some(config) = header.metadata().as_ref().and_then(|metadata| metadata.get("config")) {
        input.config =
            Some(serde_json::from_str(config).unwrap_or_else(|_| config.as_str().into()));
    }
    let mut named = tensors.tensors();
    named.sort_by(|(a, _), (b, _)| a.cmp(b));
    for (name, view) in named {
        input.put(&name, tensor(&view, &place.at(name.as_str()))?)?;
    }
    Ok(input)
}

fn tensor(view: &TensorView<'_>, place: &Place) -> Result<Tensor> {
    let shape = match *view.shape() {
        [] => Shape::Number,
        [_] => Shape::Vector,
        [n_rows, n_columns] => Shape::Matrix { n_rows, n_columns },
        _ => {
            let what =
                format!("has the shape {:?}; it must have one or two dimensions", view.shape());
            return Err(Error::input(place.clone(), what));
        }
    };
    let data = view.data();
    let (values, dtype) = match view.dtype() {
        FileDtype::F32 => (each(data, |b| f32::from_le_bytes(b).into()), Dtype::F32),
        FileDtype::BF16 => (each(data, |b| bf16::from_le_bytes(b).to_f64()), Dtype::Bf16),
        FileDtype::F16 => (each(data, |b| f16::from_le_bytes(b).to_f64()), Dtype::F16),
        FileDtype::F64 => (each(data, f64::from_le_bytes), Dtype::F32),
        FileDtype::I64 => (each(data, |b| i64::from_le_bytes(b) as f64), Dtype::F32),
        FileDtype::I32 => (each(data, |b| i32::from_le_bytes(b).into()), Dtype::F32),
        FileDtype::U8 | FileDtype::BOOL => (each(data, |[b]: [u8; 1]| b.into()), Dtype::F32),
        other => {
            let what =
                format!("is {other:?}; it must be F32, BF16, F16, F64, I64, I32, U8 or BOOL");
            return Err(Error::input(place.clone(), what));
        }
    };
    Ok(Tensor { values, shape, dtype })
}

fn each<const N: usize>(data: &[u8], value: impl Fn([u8; N]) -> f64) -> Vec<f64> {
    data.as_chunks().0.iter().map(|&bytes| value(bytes)).collect()
}
