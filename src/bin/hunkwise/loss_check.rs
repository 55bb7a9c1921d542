//! `hunkwise loss-check`: a policy loss from a trainer's tensors, in f64 and on the fast path.

mod compare;
mod input;
mod json;
mod table;
mod tensor;
mod tensor_file;

use std::path::Path;

use hunkwise::error::{Error, Place, Result};
use hunkwise::loss::PolicyLossConfig;
use hunkwise::report;

use crate::args::{LossCheckArgs, read_toml};
use crate::credit::check_outputs;
use input::Tensors;

/// Returns how many comparisons found a difference.
pub(crate) fn run(args: &LossCheckArgs) -> Result<usize> {
    let outputs: Vec<&Path> = args.json.iter().map(std::path::PathBuf::as_path).collect();
    check_outputs(&outputs, std::slice::from_ref(&args.file))?;
    let tensors = read(&args.file)?;
    let config = config(args, &tensors)?;
    let check = compare::check(&tensors, config, args.tolerance)?;
    if let Some(path) = &args.json {
        report::write_whole(path, |out| {
            serde_json::to_writer(&mut *out, &check)?;
            writeln!(out)
        })?;
    }
    let on_stdout = !outputs.contains(&Path::new("-"));
    table::print(&check, &args.file, args.tokens, on_stdout)?;
    Ok(check.comparisons.iter().filter(|comparison| !comparison.is_equal).count())
}

fn read(path: &Path) -> Result<Tensors> {
    let bytes = std::fs::read(path).map_err(|e| Error::io(path, e))?;
    let place = Place::new(path.display().to_string(), 0);
    // A safetensors file begins with the length of its header in 8 bytes; JSON has no zero byte.
    let is_tensors = path.extension().is_some_and(|extension| extension == "safetensors")
        || bytes.get(..8).is_some_and(|length| length.contains(&0));
    let input =
        if is_tensors { tensor_file::read(&bytes, &place)? } else { json::read(&bytes, &place)? };
    input.check()
}

/// That of the command line, else that of the file, else GRPO's.
fn config(args: &LossCheckArgs, tensors: &Tensors) -> Result<PolicyLossConfig> {
    let (value, file) = match (&args.preset, &args.config, &tensors.config) {
        (Some(name), _, _) => return PolicyLossConfig::preset(name),
        (None, Some(path), _) => (read_toml(path)?, path),
        (None, None, Some(value)) => (value.clone(), &args.file),
        (None, None, None) => return Ok(PolicyLossConfig::grpo()),
    };
    PolicyLossConfig::from_json(&value).map_err(|e| match e {
        Error::Input { place, what } => {
            Error::input(Place { file: file.display().to_string().into(), ..place }, what)
        }
        other => other,
    })
}
