//! The native half of the Python package: `hunkwise._hunkwise`. `python/hunkwise` is what people import; it checks types
//! and gives memory as addresses, and everything else is the crate's.

mod arrays;
mod credit;
mod error;
mod loss;
mod opcodes;
mod threads;
mod tokens;

use pyo3::prelude::*;

/// Native functions of hunkwise; not for direct use.
#[pymodule]
fn _hunkwise(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("METRICS", loss::metric_names())?;
    module.add_class::<credit::RawCredit>()?;
    module.add_class::<tokens::RawTokenBytes>()?;
    module.add_function(wrap_pyfunction!(credit::credit_rows, module)?)?;
    module.add_function(wrap_pyfunction!(credit::credit_files, module)?)?;
    module.add_function(wrap_pyfunction!(credit::default_config, module)?)?;
    module.add_function(wrap_pyfunction!(loss::loss_config, module)?)?;
    module.add_function(wrap_pyfunction!(loss::policy_loss, module)?)?;
    module.add_function(wrap_pyfunction!(loss::reference_policy_loss, module)?)?;
    module.add_function(wrap_pyfunction!(loss::reference_loss_at, module)?)?;
    module.add_function(wrap_pyfunction!(loss::token_logprob, module)?)?;
    module.add_function(wrap_pyfunction!(loss::logits_loss, module)?)?;
    module.add_function(wrap_pyfunction!(loss::linear_loss, module)?)?;
    module.add_function(wrap_pyfunction!(opcodes::opcodes, module)?)?;
    module.add_function(wrap_pyfunction!(opcodes::opcodes_of_pairs, module)?)?;
    module.add_function(wrap_pyfunction!(opcodes::ratio, module)?)?;
    module.add_function(wrap_pyfunction!(opcodes::opcode_anchors, module)?)?;
    module.add_function(wrap_pyfunction!(opcodes::groupability, module)?)?;
    module.add_function(wrap_pyfunction!(opcodes::refine, module)?)?;
    module.add_function(wrap_pyfunction!(opcodes::baselined, module)?)?;
    module.add_function(wrap_pyfunction!(opcodes::fill, module)?)?;
    Ok(())
}
