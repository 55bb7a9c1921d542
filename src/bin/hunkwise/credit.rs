//! `hunkwise credit`.

use std::path::Path;

use hunkwise::error::{Error, Result};
use hunkwise::report;

use crate::args::CreditArgs;
use crate::{session, summary};

/// Returns how many input rows could not be taken.
pub(crate) fn run(args: &CreditArgs) -> Result<usize> {
    let config = session::configure(&args.input, &args.config)?;
    for path in [&args.output, &args.groups, &args.diagnostics].into_iter().flatten() {
        check_writable(path)?;
    }
    let batch = session::read(&args.input)?;
    let credit = session::credit(&batch, &config, false)?;
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
        let on_stdout = args.output.as_deref() != Some(Path::new("-"));
        summary::print(&credit.diagnostics, &config, args.output.as_deref(), on_stdout)?;
    }
    Ok(batch.flagged.len())
}

/// A missing folder is better said before an hour's work than after it.
fn check_writable(path: &Path) -> Result<()> {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.is_dir() => Err(Error::io(
            path,
            std::io::Error::new(
                std::io::ErrorKind::NotFound,
                "its folder does not exist; make it first",
            ),
        )),
        _ => Ok(()),
    }
}
