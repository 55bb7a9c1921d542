//! Reading dumps: the format of each file told from its content, a few megabytes of lines in memory at a time.
//!
//! Lines are parsed side by side and taken in their order, so that rows, flags and the first error of strict reading do
//! not depend on the number of threads.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::fields::{Context, Flaw};
use super::format::{DumpFormat, Format, detect};
use super::json::Object;
use super::lines::{Line, next_line};
use super::trl::{PARQUET_MAGIC, read_parquet};
use super::{Batch, Flagged, Row, TokenBytes};
use crate::error::{Error, Place, Result};

/// Lines are parsed side by side once they have this many bytes together; a longer line is a batch by itself.
const BATCH_BYTES: usize = 4 << 20;

/// How dumps are read.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// The format of every file; `None` tells it from the content of each.
    pub format: Option<DumpFormat>,
    /// The model's `tokenizer.json`, for exact byte-ends of tokens.
    pub tokenizer: Option<PathBuf>,
    /// A longer line is flagged and passed over without being held. 256 MiB by default.
    pub max_line_bytes: usize,
    /// The first flag is an error.
    pub strict: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { format: None, tokenizer: None, max_line_bytes: 256 << 20, strict: false }
    }
}

/// Reads files, each in a format of its own, into one batch. `progress` gets the number of bytes read so far, over all
/// files. The batch does not depend on the order of the files.
///
/// # Errors
/// [`Error::Io`] for a file that cannot be read; [`Error::Input`] for a file in which no row is usable (with the first
/// reasons), and for the first bad row when [`ReadOptions::strict`]; errors of the tokenizer.
pub fn read_files(
    paths: &[PathBuf],
    options: &ReadOptions,
    progress: &mut dyn FnMut(u64),
) -> Result<Batch> {
    let mut reader = DumpReader::new(options)?;
    for path in paths {
        reader.read_file(path, progress)?;
    }
    reader.finish()
}

/// Reads one stream, for example standard input. `name` stands for the file in messages.
///
/// # Errors
/// As [`read_files`].
pub fn read_from(reader: impl BufRead, name: &str, options: &ReadOptions) -> Result<Batch> {
    let mut rows = DumpReader::new(options)?;
    rows.read_from(reader, name, &mut |_| {})?;
    rows.finish()
}

/// Gathers the rows of any number of files and streams.
#[derive(Debug)]
pub struct DumpReader {
    options: ReadOptions,
    tokenizer: Option<TokenBytes>,
    rows: Vec<Row>,
    flagged: Vec<Flagged>,
    notes: BTreeSet<String>,
    n_bytes: u64,
    /// Files read, to notice one that is given twice: rows without ids would count twice.
    paths: BTreeSet<PathBuf>,
}

/// What is known of the file being read.
struct Source {
    name: Arc<str>,
    format: Option<&'static Format>,
    /// Flags of this file begin here.
    first_flag: usize,
    /// Rows given, usable or not.
    n_rows: u64,
    n_usable: u64,
}

/// A line that waits to be parsed: its number, and its bytes or why they were not held.
type WaitingLine = (u64, Result<Vec<u8>, Flaw>);

/// What a row came to, before it is put in its place among the others.
#[derive(Default)]
struct Parsed {
    row: Option<Row>,
    /// Why there is no row, or what is wrong with the one there is.
    flaws: Vec<Flaw>,
    notes: BTreeSet<String>,
}

impl From<Flaw> for Parsed {
    fn from(flaw: Flaw) -> Parsed {
        Parsed { flaws: vec![flaw], ..Parsed::default() }
    }
}

impl DumpReader {
    /// Loads the tokenizer, if one is asked for.
    ///
    /// # Errors
    /// See [`TokenBytes::from_file`].
    pub fn new(options: &ReadOptions) -> Result<DumpReader> {
        let tokenizer = options.tokenizer.as_deref().map(TokenBytes::from_file).transpose()?;
        Ok(DumpReader {
            options: options.clone(),
            tokenizer,
            rows: Vec::new(),
            flagged: Vec::new(),
            notes: BTreeSet::new(),
            n_bytes: 0,
            paths: BTreeSet::new(),
        })
    }

    /// Reads one file; `-` is standard input.
    ///
    /// # Errors
    /// As [`read_files`].
    pub fn read_file(&mut self, path: &Path, progress: &mut dyn FnMut(u64)) -> Result<()> {
        let twice = |name: &str| {
            let what = "is given twice; its rollouts would count twice. Name each file once";
            Err(Error::input(Place::new(name, 0), what))
        };
        if path.as_os_str() == "-" {
            if !self.paths.insert(path.to_path_buf()) {
                return twice("standard input");
            }
            return self.read_from(std::io::stdin().lock(), "standard input", progress);
        }
        let io = |source| Error::io(path, source);
        let name = path.display().to_string();
        let file = File::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        // A pipe has no path of its own, and cannot be given twice.
        if metadata.is_file() && !self.paths.insert(std::fs::canonicalize(path).map_err(io)?) {
            return twice(&name);
        }
        let mut reader = BufReader::with_capacity(1 << 16, file);
        if metadata.is_file() && reader.fill_buf().map_err(io)?.starts_with(PARQUET_MAGIC) {
            let mut file = reader.into_inner();
            file.rewind().map_err(io)?;
            self.read_table(file, &name)?;
            self.n_bytes += metadata.len();
            progress(self.n_bytes);
            return Ok(());
        }
        self.read_from(reader, &name, progress)
    }

    /// Reads one stream.
    ///
    /// # Errors
    /// As [`read_files`].
    pub fn read_from(
        &mut self,
        mut reader: impl BufRead,
        name: &str,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let is_parquet =
            reader.fill_buf().map_err(|source| Error::io(name, source))?.starts_with(PARQUET_MAGIC);
        if !is_parquet {
            return self.read_lines(&mut reader, name, progress);
        }
        // The index of a Parquet file stands at its end, so a stream goes to a file first.
        let mut spool = || -> io::Result<(File, u64)> {
            let mut file = tempfile::tempfile()?;
            let n_bytes = io::copy(&mut reader, &mut file)?;
            file.rewind()?;
            Ok((file, n_bytes))
        };
        let (file, n_bytes) = spool().map_err(|source| Error::io(name, source))?;
        self.read_table(file, name)?;
        self.n_bytes += n_bytes;
        progress(self.n_bytes);
        Ok(())
    }

    /// The rows read so far as a batch.
    ///
    /// # Errors
    /// A batch without a row, with the first reason; when [`ReadOptions::strict`], the first flag that only shows when
    /// all rows are known, as a repeated turn.
    pub fn finish(self) -> Result<Batch> {
        let mut batch = Batch::new(self.rows);
        if !batch.flagged.is_empty() && (self.options.strict || batch.tasks.is_empty()) {
            let Flagged { place, reason } = batch.flagged.swap_remove(0);
            return Err(Error::input(place, reason));
        }
        batch.flagged.extend(self.flagged);
        batch.flagged.sort();
        batch.notes = self.notes.into_iter().collect();
        Ok(batch)
    }

    fn read_lines(
        &mut self,
        reader: &mut dyn BufRead,
        name: &str,
        progress: &mut dyn FnMut(u64),
    ) -> Result<()> {
        let mut source = self.source(name);
        let mut buffer = Vec::new();
        let mut waiting: Vec<WaitingLine> = Vec::new();
        let mut n_waiting = 0;
        let mut n_reported = self.n_bytes;
        for line_number in 1u64.. {
            let (line, n_taken) = next_line(reader, &mut buffer, self.options.max_line_bytes)
                .map_err(|error| Error::io(name, error))?;
            self.n_bytes += n_taken;
            if self.n_bytes - n_reported >= 1 << 20 {
                n_reported = self.n_bytes;
                progress(self.n_bytes);
            }
            match line {
                Line::End => break,
                Line::TooLong(n_bytes) => {
                    let what = format!(
                        "is a line of {n_bytes} bytes; at most {} are read. Raise `max_line_bytes` or split the row",
                        self.options.max_line_bytes
                    );
                    waiting.push((line_number, Err(Flaw::new("", what))));
                }
                Line::Whole => {
                    let mut line = std::mem::take(&mut buffer);
                    if line_number == 1 && line.starts_with("\u{FEFF}".as_bytes()) {
                        line.drain(.."\u{FEFF}".len());
                    }
                    if line.iter().all(u8::is_ascii_whitespace) {
                        continue;
                    }
                    n_waiting += line.len();
                    waiting.push((line_number, Ok(line)));
                }
            }
            if n_waiting >= BATCH_BYTES {
                self.take_lines(&mut waiting, &mut source)?;
                n_waiting = 0;
            }
        }
        self.take_lines(&mut waiting, &mut source)?;
        progress(self.n_bytes);
        self.check_source(&source)
    }

    /// Parses the lines side by side and takes what they give in their order.
    fn take_lines(&mut self, waiting: &mut Vec<WaitingLine>, source: &mut Source) -> Result<()> {
        let mut lines = std::mem::take(waiting).into_iter();
        // The first line that fits a format chooses it for all that follow.
        while source.format.is_none()
            && let Some((number, line)) = lines.next()
        {
            let place = Place::new(source.name.clone(), number);
            let parsed = match line.and_then(|line| format_of(&line).map(|format| (line, format))) {
                Ok((line, format)) => {
                    source.format = Some(format);
                    parse_line(&line, format, &place, self.tokenizer.as_ref())
                }
                Err(flaw) => flaw.into(),
            };
            self.take(parsed, &place, source)?;
        }
        let Some(format) = source.format else { return Ok(()) };
        let tokenizer = self.tokenizer.as_ref();
        let name = source.name.clone();
        let parsed: Vec<(Place, Parsed)> = lines
            .collect::<Vec<WaitingLine>>()
            .into_par_iter()
            .map(|(number, line)| {
                let place = Place::new(name.clone(), number);
                let parsed = match line {
                    Ok(line) => parse_line(&line, format, &place, tokenizer),
                    Err(flaw) => flaw.into(),
                };
                (place, parsed)
            })
            .collect();
        parsed.into_iter().try_for_each(|(place, parsed)| self.take(parsed, &place, source))
    }

    fn read_table(&mut self, file: File, name: &str) -> Result<()> {
        let mut source = self.source(name);
        let format = match self.options.format {
            None | Some(DumpFormat::Trl) => DumpFormat::Trl.format(),
            Some(other) => {
                let what = format!(
                    "is a Parquet file; the format {other}, which was asked for, is JSON lines"
                );
                return Err(Error::input(Place::new(name, 0), what));
            }
        };
        read_parquet(file, name, &mut |row_number, object| {
            let place = Place::new(source.name.clone(), row_number);
            let Some(format) = format else { return Ok(()) };
            let parsed = parse_object(object, format, &place, self.tokenizer.as_ref());
            self.take(parsed, &place, &mut source)
        })?;
        self.check_source(&source)
    }

    /// Puts a row among the others. In strict reading its first flaw is an error, be the row usable or not.
    fn take(&mut self, parsed: Parsed, place: &Place, source: &mut Source) -> Result<()> {
        source.n_rows += 1;
        self.notes.extend(parsed.notes);
        for flaw in parsed.flaws {
            let flagged = flaw.at(place);
            if self.options.strict {
                return Err(Error::input(flagged.place, flagged.reason));
            }
            self.flagged.push(flagged);
        }
        source.n_usable += u64::from(parsed.row.is_some());
        self.rows.extend(parsed.row);
        Ok(())
    }

    fn source(&self, name: &str) -> Source {
        Source {
            name: name.into(),
            format: self.options.format.and_then(DumpFormat::format),
            first_flag: self.flagged.len(),
            n_rows: 0,
            n_usable: 0,
        }
    }

    /// A file without a usable row is an error, not an empty result.
    fn check_source(&self, source: &Source) -> Result<()> {
        if source.n_usable > 0 {
            return Ok(());
        }
        let place = Place::new(source.name.clone(), 0);
        if source.n_rows == 0 {
            return Err(Error::input(
                place,
                "is empty; expected one JSON object on each line, or a Parquet file",
            ));
        }
        let reasons: Vec<String> = self
            .flagged
            .iter()
            .skip(source.first_flag)
            .take(3)
            .map(|flagged| {
                let field = &flagged.place.field;
                let field =
                    if field.is_empty() { String::new() } else { format!(", field `{field}`") };
                format!("row {}{field} {}", flagged.place.line, flagged.reason)
            })
            .collect();
        let what =
            format!("none of its {} rows can be used: {}", source.n_rows, reasons.join("; "));
        Err(Error::input(place, what))
    }
}

fn text_of(line: &[u8]) -> Result<&str, Flaw> {
    std::str::from_utf8(line).map_err(|error| {
        Flaw::new("", format!("is not UTF-8 at byte {} of the line", error.valid_up_to()))
    })
}

/// The format of a file whose first usable row is this line.
fn format_of(line: &[u8]) -> Result<&'static Format, Flaw> {
    let whole = |reason: String| Flaw::new("", reason);
    let names = Object::parse(text_of(line)?, Some(&[])).map_err(whole)?.others;
    detect(&names).map_err(whole)
}

fn parse_line(
    line: &[u8],
    format: &'static Format,
    place: &Place,
    tokenizer: Option<&TokenBytes>,
) -> Parsed {
    let object = text_of(line).and_then(|line| {
        Object::parse(line, format.wanted).map_err(|reason| Flaw::new("", reason))
    });
    match object {
        Ok(object) => parse_object(object, format, place, tokenizer),
        Err(flaw) => flaw.into(),
    }
}

fn parse_object(
    object: Object,
    format: &'static Format,
    place: &Place,
    tokenizer: Option<&TokenBytes>,
) -> Parsed {
    let mut notes = BTreeSet::new();
    if format.closed {
        for name in &object.others {
            notes
                .insert(format!("{}: the field `{name}` is not known and was ignored", place.file));
        }
    }
    let mut context = Context {
        place: place.clone(),
        tokenizer,
        flaws: Vec::new(),
        unscored: false,
        notes: &mut notes,
    };
    let row = (format.read)(object, &mut context).and_then(|row| match row.sequence.validate() {
        Ok(()) => Ok(row),
        Err(Error::Input { place, what }) => Err(Flaw::new(place.field, what)),
        Err(other) => Err(Flaw::new("", other.to_string())),
    });
    let flaws = context.flaws;
    match row {
        Ok(row) => Parsed { row: Some(row), flaws, notes },
        // Why a row is lost counts; what else was odd about it does not.
        Err(flaw) => Parsed { row: None, flaws: vec![flaw], notes },
    }
}
