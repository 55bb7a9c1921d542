//! The one error type. Every variant says which operation failed, where (file, line, field, row) and what to do.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A place in an input file, for messages.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Place {
    /// File name as the user gave it; empty for data that came through the API.
    pub file: Arc<str>,
    /// Line number from 1 in a text file, row number from 1 in a table; 0 when unknown.
    pub line: u64,
    /// Field name, dotted for nested fields; empty when the whole row is meant.
    pub field: String,
}

impl Place {
    /// A line (from 1) of a file.
    pub fn new(file: impl Into<Arc<str>>, line: u64) -> Self {
        Place { file: file.into(), line, field: String::new() }
    }

    /// The same line, at the named field.
    pub fn at(&self, field: impl Into<String>) -> Self {
        Place { field: field.into(), ..self.clone() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = if self.file.is_empty() { "input" } else { &self.file };
        match (self.line, self.field.as_str()) {
            (0, "") => write!(f, "{file}"),
            (0, field) => write!(f, "{file}, field `{field}`"),
            (line, "") => write!(f, "{file}:{line}"),
            (line, field) => write!(f, "{file}:{line}, field `{field}`"),
        }
    }
}

/// What can go wrong, in every stage and on every device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A row of input that cannot be used.
    #[error("{place}: {what}")]
    Input {
        /// Where it stands.
        place: Place,
        /// What is wrong with it and what was expected.
        what: String,
    },
    /// A parameter outside its range.
    #[error("{op}: `{name}` is {got}; it must be {expected}")]
    Config {
        /// The operation or stage.
        op: &'static str,
        /// The parameter, as it is spelled in the configuration.
        name: &'static str,
        /// The value given.
        got: String,
        /// The range allowed.
        expected: &'static str,
    },
    /// Two arrays that must agree in length or content do not.
    #[error("{op}: {what}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// Both names with both lengths, or the entry that is out of range.
        what: String,
    },
    /// Work that would not fit in an index type or a memory limit; checked before it begins.
    #[error("{op}: {what} needs {needed}, the limit is {limit}; {advice}")]
    Limit {
        /// The operation.
        op: &'static str,
        /// What is counted, with its unit.
        what: &'static str,
        /// How much is needed.
        needed: u64,
        /// How much is allowed.
        limit: u64,
        /// What the caller can do.
        advice: &'static str,
    },
    /// A file that cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A device that failed at its work.
    #[error("{device}: {what}")]
    Device {
        /// Its name.
        device: String,
        /// What it said, and what can be done.
        what: String,
    },
    /// A device or a feature that is not there.
    #[error("{what} is not available: {reason}")]
    Unavailable {
        /// The device or feature.
        what: String,
        /// What was looked for, and how to get it.
        reason: String,
    },
}

impl Error {
    /// An [`Error::Input`].
    pub fn input(place: Place, what: impl Into<String>) -> Self {
        Error::Input { place, what: what.into() }
    }

    /// An [`Error::Io`].
    pub fn io(path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Error::Io { path: path.into(), source }
    }
}

/// The result of every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
