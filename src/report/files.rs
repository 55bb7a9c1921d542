//! Files that appear whole or not at all.

use std::io::{BufWriter, Write};
use std::path::Path;

use crate::error::{Error, Result};

/// Writes a file through `write`: into a temporary file beside it, renamed over it when all is written. After an error
/// the old file, or none, is what there is. A link stays a link: the file that it leads to is replaced. What cannot
/// be replaced is written as it comes: `-`, which is standard output, a pipe and a device.
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
    let target = match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => {
            let what = "is a directory; name a file";
            return Err(failed(std::io::Error::new(std::io::ErrorKind::IsADirectory, what)));
        }
        Ok(metadata) if !metadata.is_file() => {
            let file = std::fs::OpenOptions::new().write(true).open(path).map_err(failed)?;
            let mut out = BufWriter::new(file);
            return write(&mut out).and_then(|()| out.flush()).map_err(failed);
        }
        Ok(_) => std::fs::canonicalize(path).map_err(failed)?,
        Err(_) => path.to_path_buf(),
    };
    let folder = match target.parent() {
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
    temporary.persist(&target).map_err(|e| failed(e.error))?;
    Ok(())
}
