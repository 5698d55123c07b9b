//! Results to stdout, messages to stderr. Here are the few shapes that they share.
//!
//! Colour codes are written always and taken out by `anstream` wherever they
//! do not belong: on a file, a pipe, a dumb terminal, or with `NO_COLOR`.
//!
//! Must never: panic when the reader of stdout has gone (`leafpress … | head`), or
//! mix messages into stdout.

use std::io::{self, IsTerminal, Write};

use clap::builder::styling::{AnsiColor, Style};
use leafpress::{BadRow, Error, ErrorKind, path_text};
use serde_json::{Value, json};

use crate::exit::Status;
use crate::human;

/// Headings and the numbers that matter.
pub const STRONG: Style = Style::new().bold();
/// Explanations of figures and results.
pub const FAINT: Style = Style::new().dimmed();
/// Leafpress's own lines among those of other tools.
pub const OURS: Style = AnsiColor::Green.on_default();
const GOOD: Style = AnsiColor::Green.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const ERROR: Style = AnsiColor::Red.on_default().bold();
/// The state on disk where a failure came before any change.
const NOTHING_CHANGED: &str = "nothing was changed";
const SEE_HELP: &str = "see the command's --help";

/// The text in a style.
pub fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// The text in the colour of a good or a bad verdict.
pub fn verdict(is_good: bool, text: &str) -> String {
    styled(if is_good { GOOD } else { ERROR }, text)
}

/// Returns true if stderr is a terminal that can be drawn on.
pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Writes a result to stdout. A reader that has gone is no failure: it has
/// what it wanted.
fn write_result(text: &str) -> io::Result<()> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Writes a text that is the whole purpose of the command.
pub fn print_result(text: &str) -> Status {
    match write_result(text) {
        Ok(()) => Status::Done,
        Err(error) => {
            print_error(&format!("cannot write to stdout: {error}"));
            Status::Failed
        }
    }
}

/// Writes the answer of a command that changes nothing, as one JSON object in one line or as text.
/// The answer is its whole purpose.
pub fn print_answer(
    as_json: bool,
    object: &impl serde::Serialize,
    text: impl FnOnce() -> String,
) -> Status {
    if !as_json {
        return print_result(&text());
    }
    match serde_json::to_string(object) {
        Ok(line) => print_result(&format!("{line}\n")),
        Err(error) => {
            print_error(&format!("the result cannot be written as JSON: {error}"));
            Status::Failed
        }
    }
}

/// Writes the report on work that is done; that it cannot be written does not
/// undo the work, and so does not change the status.
pub fn print_report(text: &str) {
    print_part(text);
}

/// Writes a part of such a report. Returns false, after a warning, if it cannot be written.
pub fn print_part(text: &str) -> bool {
    let written = write_result(text);
    if let Err(error) = &written {
        print_warning(&format!("the report cannot be written to stdout: {error}"));
    }
    written.is_ok()
}

/// Writes the command's result as one JSON object in one line.
pub fn print_json(object: &impl serde::Serialize) {
    match serde_json::to_string(object) {
        Ok(line) => print_report(&format!("{line}\n")),
        Err(error) => print_warning(&format!("the result cannot be written as JSON: {error}")),
    }
}

/// Writes a message to stderr. A failure is ignored: stderr is closed, so no message
/// could report it.
pub fn print_message(text: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = stderr.write_all(text.as_bytes());
}

/// Writes a `warning:` line.
pub fn print_warning(text: &str) {
    print_message(&format!("{} {}\n", styled(WARNING, "warning:"), human::printable(text)));
}

/// Writes an `error:` line.
pub fn print_error(text: &str) {
    print_message(&format!("{} {}\n", styled(ERROR, "error:"), human::printable(text)));
}

/// Writes an error of the library, whose lines it has made itself of escaped parts.
pub fn print_error_in_lines(error: &dyn std::error::Error) {
    let lines = human::printable_lines(&error.to_string());
    print_message(&format!("{} {lines}\n", styled(ERROR, "error:")));
}

/// A remark on a result, as a line of it, or as several if it was wrapped. What others chose
/// in it is escaped before that.
pub fn note(text: &str) -> String {
    format!("{} {}\n", styled(WARNING, "note:"), human::printable_lines(text))
}

/// Prints the result, as text or as an object, and gives the status.
pub fn report<T: serde::Serialize>(
    outcome: leafpress::Result<T>,
    as_json: bool,
    text: impl FnOnce(&T) -> String,
    status: impl FnOnce(&T) -> Status,
) -> Status {
    match outcome {
        Ok(done) => {
            if as_json {
                print_json(&done);
            } else {
                print_report(&text(&done));
            }
            status(&done)
        }
        Err(error) => print_failure(error, as_json),
    }
}

/// As [`report`], for a command that changes nothing: it fails if its answer cannot be written.
pub fn answer<T: serde::Serialize>(
    outcome: leafpress::Result<T>,
    as_json: bool,
    text: impl FnOnce(&T) -> String,
    status: impl FnOnce(&T) -> Status,
) -> Status {
    match outcome {
        Ok(found) => match print_answer(as_json, &found, || text(&found)) {
            Status::Done => status(&found),
            not_written => not_written,
        },
        Err(error) => print_failure(error, as_json),
    }
}

/// Reports a failure, as an object on stdout too where one is awaited, and
/// gives the exit status.
pub fn print_failure(error: Error, as_json: bool) -> Status {
    print_failure_beside(error, as_json.then(|| json!({})))
}

/// Reports a failure; `done` is the object for stdout, with what was done all the same.
pub fn print_failure_beside(error: Error, done: Option<Value>) -> Status {
    let error = completed(error);
    if let Some(object) = done {
        print_json_with(object, error_json(&error));
    }
    print_completed(&error)
}

/// Reports a failure within an object on stdout that is begun: `rest` is what comes before the
/// error, which ends the object.
pub fn print_failure_within(error: Error, rest: &str) -> Status {
    let error = completed(error);
    print_report(&format!("{rest},\"error\":{}}}\n", error_json(&error)));
    print_completed(&error)
}

fn print_completed(error: &Error) -> Status {
    if matches!(error.kind(), ErrorKind::Cancelled) {
        let state = error.state_on_disk().unwrap_or("nothing was written");
        let state = human::printable(state);
        print_message(&format!("{}; {state}\n", styled(WARNING, "stopped")));
    } else {
        print_error_in_lines(error);
    }
    Status::of(error.kind())
}

/// The error with all that a message has: what is on disk, and what to do.
///
/// A failure whose place did not say what is on disk ends with a status that promises that
/// nothing changed; so that is said.
fn completed(error: Error) -> Error {
    let status = Status::of(error.kind());
    let advice = match error.kind() {
        ErrorKind::Cancelled => return error,
        ErrorKind::NotFound { what: "file", .. } => "check the name",
        ErrorKind::Misuse(_) => "see the command's --help",
        ErrorKind::NotFound { .. } => "see the command's --help, and what the database holds",
        ErrorKind::Io { source, .. } => match source.kind() {
            io::ErrorKind::PermissionDenied => {
                "change the permissions (chmod), or run as the owner"
            }
            io::ErrorKind::NotADirectory => {
                "check the path: what is before a slash must be a folder"
            }
            _ => "see that the disk and its file system are sound, and try again",
        },
        ErrorKind::NoSpace { .. } => "free some space, and try again",
        ErrorKind::Busy { .. } => "try again when the database is free",
        ErrorKind::ReadOnly { .. } => "make the file, its folder and its file system writable",
        ErrorKind::NotADatabase { .. } => "name a database",
        ErrorKind::Input { .. } => {
            "check that it is what it should be, and what the flags say of it"
        }
        ErrorKind::Destination { .. } | ErrorKind::Sqlite { .. } => {
            "see what leafpress doctor and leafpress verify say of the database"
        }
        ErrorKind::BadRow(_) | ErrorKind::Constraint { .. } => "correct the row, and try again",
        ErrorKind::Script(_) => "correct the statement, and try again",
        ErrorKind::Unsupported(_) => "leave the option out, or use another build or platform",
        _ => "try again",
    };
    let error = error.to_do(advice);
    match status {
        Status::Usage | Status::Failed => error.on_disk(NOTHING_CHANGED),
        Status::Done | Status::DoneWithProblems => error,
    }
}

/// The object for a command line that makes no sense, of the text for people.
pub fn print_usage_json(text: &str) {
    // What follows the first paragraph is the usage line, for people.
    let message = text.split("\n\n").next().unwrap_or(text);
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let mut to_do: Vec<&str> =
        text.lines().filter_map(|line| line.trim_start().strip_prefix("tip: ")).collect();
    to_do.push(SEE_HELP);
    let error = Error::misuse(message).on_disk(NOTHING_CHANGED).to_do(to_do.join("; "));
    print_json_with(json!({}), error_json(&error));
}

/// Prints the object of what was done, with the error beside it if there is one.
pub fn print_json_beside(done: Value, error: Option<Error>) {
    match error {
        Some(error) => print_json_with(done, error_json(&completed(error))),
        None => print_json(&done),
    }
}

fn print_json_with(mut object: Value, error: Value) {
    object["error"] = error;
    print_json(&object);
}

fn error_json(error: &Error) -> Value {
    let mut object = json!({
        "kind": error.kind().name(),
        "message": error.kind().to_string(),
        "on_disk": error.state_on_disk(),
        "to_do": error.advice(),
        "is_retryable": error.is_retryable(),
    });
    if let Some(statement) = error.failed_statement() {
        object["statement"] = json!(statement);
    }
    if let Some(holders) = error.holders() {
        object["held_by"] = json!(holders);
    }
    if let Some(row) = error.bad_row() {
        place(&mut object, row);
    }
    match error.kind() {
        ErrorKind::Script(error) => {
            object["file"] = json!(error.file);
            object["line"] = json!(error.line);
            object["column"] = json!(error.column);
            object["reason"] = json!(error.reason);
            object["sql"] = json!(error.sql);
            object["transactions_committed"] = json!(error.transactions_committed);
        }
        ErrorKind::Input { file, .. } => object["file"] = json!(file),
        ErrorKind::LeaseLost { token, why, .. } => {
            object["token"] = json!(token);
            object["why"] = json!(why);
        }
        ErrorKind::NotFound { what, name, .. } => {
            object["what"] = json!(what);
            object["name"] = json!(name);
            if *what == "file" {
                object["file"] = json!(name);
            }
        }
        ErrorKind::NoSuchClaim { token, .. } => object["token"] = json!(token),
        ErrorKind::Damaged { path: Some(path), .. }
        | ErrorKind::Destination { path, .. }
        | ErrorKind::ReadOnly { path, .. }
        | ErrorKind::TableExists { path, .. }
        | ErrorKind::NotADatabase { path, .. }
        | ErrorKind::NoSpace { path, .. }
        | ErrorKind::Io { path, .. } => {
            object["file"] = json!(path_text(path));
        }
        _ => {}
    }
    object
}

fn place(object: &mut Value, row: &BadRow) {
    object["file"] = json!(row.file);
    object["line"] = json!(row.line);
    object["column"] = json!(row.column);
    object["reason"] = json!(row.reason);
    object["row"] = json!(row.row);
}
