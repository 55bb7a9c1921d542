//! Lines of a stream, one in memory at a time, none longer than a limit.

use std::io::{self, BufRead};

use memchr::memchr;

/// What the stream gave.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A line is in the buffer, without its end (`\n` or `\r\n`).
    Whole,
    /// A line of this many bytes was passed over; the buffer is empty.
    TooLong(u64),
    /// There are no more lines.
    End,
}

/// Reads the next line into `buffer`. A line longer than `max_bytes` is passed over without being held. Returns what
/// came and the number of bytes taken from the stream.
pub(super) fn next_line(
    reader: &mut dyn BufRead,
    buffer: &mut Vec<u8>,
    max_bytes: usize,
) -> io::Result<(Line, u64)> {
    buffer.clear();
    let mut n_taken = 0u64;
    let mut too_long = false;
    loop {
        let chunk = match reader.fill_buf() {
            Ok(chunk) => chunk,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let newline = memchr(b'\n', chunk);
        let n_content = newline.unwrap_or(chunk.len());
        let at_end = chunk.is_empty();
        if !too_long {
            // One more for a `\r` that is not content.
            if buffer.len() + n_content > max_bytes.saturating_add(1) {
                too_long = true;
                *buffer = Vec::new();
            } else {
                buffer.extend_from_slice(&chunk[..n_content]);
            }
        }
        let n_used = n_content + usize::from(newline.is_some());
        reader.consume(n_used);
        n_taken += n_used as u64;
        if newline.is_none() && !at_end {
            continue;
        }
        if at_end && n_taken == 0 {
            return Ok((Line::End, 0));
        }
        if buffer.last() == Some(&b'\r') {
            buffer.pop();
        }
        if too_long || buffer.len() > max_bytes {
            *buffer = Vec::new();
            return Ok((Line::TooLong(n_taken), n_taken));
        }
        return Ok((Line::Whole, n_taken));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, capacity: usize, max_bytes: usize) -> Vec<Result<String, u64>> {
        let mut reader = io::BufReader::with_capacity(capacity, text.as_bytes());
        let mut buffer = Vec::new();
        let mut found = Vec::new();
        loop {
            match next_line(&mut reader, &mut buffer, max_bytes).unwrap().0 {
                Line::Whole => found.push(Ok(String::from_utf8(buffer.clone()).unwrap())),
                Line::TooLong(n_bytes) => found.push(Err(n_bytes)),
                Line::End => return found,
            }
        }
    }

    #[test]
    fn ends_of_lines_and_limits() {
        let own = |text: &str| Ok(text.to_owned());
        for capacity in [1, 2, 3, 64] {
            assert_eq!(
                lines("a\r\n\nbcd\n12345\nlast", capacity, 4),
                [own("a"), own(""), own("bcd"), Err(6), own("last")]
            );
            assert_eq!(lines("abcd\r\nabcde\r\n", capacity, 4), [own("abcd"), Err(7)]);
            assert_eq!(lines("", capacity, 4), []);
            assert_eq!(lines("\n", capacity, 4), [own("")]);
        }
    }
}
