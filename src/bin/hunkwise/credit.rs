//! `hunkwise credit`.

use std::path::{Path, PathBuf};

use hunkwise::error::{Error, Result};
use hunkwise::report;

use crate::args::CreditArgs;
use crate::{session, summary};

/// Returns how many input rows could not be taken.
pub(crate) fn run(args: &CreditArgs) -> Result<usize> {
    let config = session::configure(&args.input.reading, &args.config)?;
    let outputs: Vec<&Path> = [&args.output, &args.groups, &args.diagnostics]
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .collect();
    check_outputs(&outputs, &args.input.files)?;
    let batch = session::read(&args.input.files, &args.input.reading)?;
    let credit = session::credit(&args.input.reading, &batch, &config, false)?;
    if let Some(path) = &args.output {
        report::write_whole(path, |out| {
            report::write_credit(out, &batch, &credit, !args.spans_only, args.source)
        })?;
    }
    if let Some(path) = &args.groups {
        report::write_whole(path, |out| report::write_groups(out, &batch, &credit))?;
    }
    if let Some(path) = &args.diagnostics {
        report::write_whole(path, |out| report::write_diagnostics(out, &batch, &credit, &config))?;
    }
    session::report_flagged(&batch);
    if !args.quiet {
        let on_stdout = !outputs.contains(&Path::new("-"));
        summary::print(&credit.diagnostics, &config, args.output.as_deref(), on_stdout)?;
    }
    Ok(batch.flagged.len())
}

/// What would go wrong is better said before an hour's work than after it: a missing folder, two outputs in one
/// file, an output over an input.
pub(crate) fn check_outputs(outputs: &[&Path], inputs: &[PathBuf]) -> Result<()> {
    let refuse = |path: &Path, kind, what: &str| {
        Err(Error::io(path, std::io::Error::new(kind, what.to_string())))
    };
    let inputs: Vec<PathBuf> = inputs.iter().filter_map(|path| identity(path)).collect();
    let mut taken: Vec<PathBuf> = Vec::new();
    for &path in outputs {
        match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => {
                let what = "its folder does not exist; make it first";
                return refuse(path, std::io::ErrorKind::NotFound, what);
            }
            _ => {}
        }
        if path.is_dir() {
            return refuse(path, std::io::ErrorKind::IsADirectory, "is a folder; name a file");
        }
        let Some(identity) = identity(path) else { continue };
        if taken.contains(&identity) {
            let what = "is named for two outputs; give each its own";
            return refuse(path, std::io::ErrorKind::InvalidInput, what);
        }
        if path.as_os_str() != "-" && inputs.contains(&identity) {
            let what = "is an input, which the output would replace; name another file";
            return refuse(path, std::io::ErrorKind::InvalidInput, what);
        }
        taken.push(identity);
    }
    Ok(())
}

/// The file behind a path, whether it exists or not; `None` for a device or a pipe, which can be named twice.
fn identity(path: &Path) -> Option<PathBuf> {
    if path.as_os_str() == "-" {
        return Some(path.into());
    }
    match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => None,
        Ok(_) => std::fs::canonicalize(path).ok(),
        Err(_) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = std::fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
            Some(folder.join(path.file_name()?))
        }
    }
}
