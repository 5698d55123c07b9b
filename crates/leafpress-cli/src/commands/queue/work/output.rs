//! The output of a program: its stderr is passed on, and the last lines are kept for
//! the job's error; its stdout is kept if the user asks for it.
//!
//! Must never: keep more than a bound, or let the lines of two programs mix.

use std::io::{self, Read, Write as _};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

/// Bytes of stderr that are kept at most. An error is for people, who read its end.
const TAIL_BYTES_MAX: usize = 4_096;
const TAIL_LINES_MAX: usize = 20;
/// Bytes of stdout that are kept at most: results are stored in the database.
pub const RESULT_BYTES_MAX: usize = 1 << 20;
/// Bytes of a line beyond which it is passed on in pieces.
const LINE_BYTES_MAX: usize = 64 << 10;
/// Longest wait for the rest of the output after the program has ended: a child that
/// it left behind may hold the pipe for ever.
const REST_WAIT_MAX: Duration = Duration::from_secs(2);

/// Output that a thread of its own reads from a pipe.
pub struct Collected<T>(Receiver<T>);

impl<T> Collected<T> {
    /// Returns the output up to the end of the pipe; none if a child that was left
    /// behind holds the pipe open.
    pub fn get(&self) -> Option<T> {
        self.0.recv_timeout(REST_WAIT_MAX).ok()
    }
}

/// Passes lines on to our stderr, and keeps the last of them.
pub fn pass_on(pipe: impl Read + Send + 'static) -> io::Result<Collected<String>> {
    on_a_thread("leafpress-stderr", move || {
        tail_of(pipe, |line| {
            // Our stderr is closed, so no message could report the failure.
            let _ = io::stderr().lock().write_all(line);
        })
    })
}

/// Keeps all of the output, or nothing if it is too much.
pub fn keep(pipe: impl Read + Send + 'static) -> io::Result<Collected<Option<Vec<u8>>>> {
    on_a_thread("leafpress-stdout", move || all_of(pipe))
}

fn on_a_thread<T: Send + 'static>(
    name: &str,
    collect: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Collected<T>> {
    let (sender, receiver) = sync_channel(1);
    let thread = thread::Builder::new().name(name.to_owned());
    // The receiver may have stopped waiting.
    thread.spawn(move || drop(sender.send(collect())))?;
    Ok(Collected(receiver))
}

fn tail_of(mut pipe: impl Read, mut pass: impl FnMut(&[u8])) -> String {
    let mut tail: Vec<u8> = Vec::new();
    let mut line: Vec<u8> = Vec::new();
    let mut buffer = [0; 8_192];
    loop {
        let read = match pipe.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => &buffer[..read],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        line.extend_from_slice(read);
        let end = line.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let end = if line.len() > LINE_BYTES_MAX { line.len() } else { end };
        pass(&line[..end]);
        line.drain(..end);
        tail.extend_from_slice(read);
        let too_many = tail.len().saturating_sub(TAIL_BYTES_MAX);
        tail.drain(..too_many);
    }
    if !line.is_empty() {
        line.push(b'\n');
        pass(&line);
    }
    let text = String::from_utf8_lossy(&tail);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(TAIL_LINES_MAX)..].join("\n")
}

fn all_of(mut pipe: impl Read) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    let limit = RESULT_BYTES_MAX as u64 + 1;
    let read = pipe.by_ref().take(limit).read_to_end(&mut all);
    // Read on: a closed pipe would kill the program as it writes.
    let rest = io::copy(&mut pipe, &mut io::sink());
    let is_whole = read.is_ok() && rest.is_ok() && all.len() <= RESULT_BYTES_MAX;
    is_whole.then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_all_are_passed_on_whole() {
        let text: String =
            (0..1000).fold(String::new(), |text, at| text + &format!("line {at}\n")) + "end";
        let mut passed = Vec::new();
        let tail = tail_of(text.as_bytes(), |lines| {
            assert!(lines.is_empty() || lines.ends_with(b"\n"));
            passed.extend_from_slice(lines);
        });
        assert_eq!(String::from_utf8(passed).unwrap(), text + "\n");
        assert_eq!(tail.lines().count(), TAIL_LINES_MAX);
        assert!(tail.starts_with("line 981\n") && tail.ends_with("line 999\nend"), "{tail}");
        assert_eq!(tail_of(&b""[..], |_| ()), "");
        let long = "x".repeat(200_000);
        assert_eq!(tail_of(long.as_bytes(), |_| ()).len(), TAIL_BYTES_MAX);
    }

    #[test]
    fn a_result_is_kept_whole_or_not_at_all() {
        let most = vec![b'x'; RESULT_BYTES_MAX];
        assert_eq!(all_of(&most[..]), Some(most.clone()));
        let mut more = &[&most[..], b"x and more"].concat()[..];
        assert_eq!(all_of(&mut more), None);
        assert!(more.is_empty(), "it was read to its end");
    }
}
