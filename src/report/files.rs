//! Files that appear whole or not at all.

use std::io::{BufWriter, Write};
use std::path::Path;

use crate::error::{Error, Result};

/// Writes a file through `write`: into a temporary file beside it, renamed over it when all is written. After an error
/// the old file, or none, is what there is. `-` is standard output.
///
/// # Errors
/// [`Error::Io`] with the path.
pub fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<()> {
    let failed = |source| Error::io(path, source);
    if path.as_os_str() == "-" {
        let mut out = BufWriter::new(std::io::stdout().lock());
        return write(&mut out).and_then(|()| out.flush()).map_err(failed);
    }
    if path.is_dir() {
        return Err(failed(std::io::Error::new(
            std::io::ErrorKind::IsADirectory,
            "is a directory; name a file",
        )));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut builder = tempfile::Builder::new();
    // A file of the user's, so readable as the umask says and not only by its owner.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let temporary = builder.prefix(".hunkwise-").tempfile_in(folder).map_err(failed)?;
    let mut out = BufWriter::with_capacity(1 << 20, temporary);
    write(&mut out).map_err(failed)?;
    let temporary = out.into_inner().map_err(|e| failed(e.into_error()))?;
    temporary.persist(path).map_err(|e| failed(e.error))?;
    Ok(())
}
