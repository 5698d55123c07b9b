//! The exit statuses, and which kind of error has which.
//!
//! Must never: give a status 3 that leaves something half done behind, since
//! scripts read it as "failed, and nothing changed".

use std::fmt::Write as _;

use leafpress::ErrorKind;

/// Exit status of the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Everything was done.
    Done = 0,
    /// The work was done, but rows were rejected; or problems were found; or only a part was done.
    DoneWithProblems = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The command failed, and nothing changed.
    Failed = 3,
}

/// A row of the table: the status of a kind of error, by the kind's name.
struct Row {
    kind: &'static str,
    status: Status,
    exception: Option<Exception>,
}

/// Errors of a kind that have another status than the others.
struct Exception {
    status: Status,
    /// These errors in words: "of …".
    says: &'static str,
    holds: fn(&ErrorKind) -> bool,
}

/// The kinds of which some have another status than [`Status::Failed`]. A command line that names
/// what is not there makes no sense; that a file or a thing of a queue is not there can change
/// without the command line.
const TABLE: [Row; 3] = [
    Row { kind: "misuse", status: Status::Usage, exception: None },
    Row {
        kind: "not_found",
        status: Status::Usage,
        exception: Some(Exception {
            status: Status::Failed,
            says: "of a file, queue, job or schedule",
            holds: |kind| {
                let ErrorKind::NotFound { what, .. } = kind else { return false };
                matches!(*what, "file" | "queue" | "job" | "schedule")
            },
        }),
    },
    Row {
        kind: "script",
        status: Status::Failed,
        exception: Some(Exception {
            status: Status::DoneWithProblems,
            says: "where transactions before it were committed",
            holds: |kind| matches!(kind, ErrorKind::Script(error) if error.transactions_committed > 0),
        }),
    },
];

impl Status {
    /// The status for a failure of this kind.
    pub fn of(kind: &ErrorKind) -> Self {
        let Some(row) = row_of(kind.name()) else { return Self::Failed };
        match &row.exception {
            Some(exception) if (exception.holds)(kind) => exception.status,
            _ => row.status,
        }
    }
}

fn row_of(kind: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.kind == kind)
}

/// The table in words, for the help of the command.
pub fn statuses_of_kinds() -> String {
    const WIDTH: usize = 79;
    let mut text = String::from("Exit status by the kind of error (\"kind\" with --json):");
    for status in [Status::DoneWithProblems, Status::Usage, Status::Failed] {
        let mut words = Vec::new();
        for row in &TABLE {
            if row.status == status {
                words.push(row.kind.to_owned());
            }
            if let Some(exception) = row.exception.as_ref().filter(|it| it.status == status) {
                words.push(format!("{} {}", row.kind, exception.says));
            }
        }
        let _ = write!(text, "\n  {}  ", status as u8);
        let mut column = 5;
        if status == Status::Failed {
            let mut others: Vec<&str> = ErrorKind::NAMES.to_vec();
            others.retain(|kind| row_of(kind).is_none());
            others.sort_unstable();
            words.extend(others.into_iter().map(str::to_owned));
        }
        for word in words.join(", ").split(' ') {
            if column + word.len() > WIDTH {
                text.truncate(text.trim_end().len());
                text.push_str("\n     ");
                column = 5;
            }
            text.push_str(word);
            text.push(' ');
            column += word.len() + 1;
        }
        text.truncate(text.trim_end().len());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_of_a_kind() {
        for row in &TABLE {
            assert!(ErrorKind::NAMES.contains(&row.kind), "{}", row.kind);
        }
    }

    #[test]
    fn only_a_wrong_command_line_is_status_2() {
        use leafpress::Error;

        let status = |error: &Error| Status::of(error.kind()) as u8;
        let not_found = |what| status(&Error::not_found(what, "a", "there is no a"));
        assert_eq!(status(&Error::misuse("two options contradict")), 2);
        assert_eq!(["table", "column", "profile"].map(not_found), [2, 2, 2]);
        assert_eq!(["file", "queue", "job", "schedule"].map(not_found), [3, 3, 3, 3]);
        assert_eq!(Status::of(&ErrorKind::Unsupported("it".to_owned())) as u8, 3);
        assert_eq!(Status::of(&ErrorKind::Bug("it".to_owned())) as u8, 3);
    }

    /// The document has the table in the words of the help.
    #[test]
    fn the_document_has_the_table() {
        let document = include_str!("../../../docs/loading.md");
        assert!(document.contains(&statuses_of_kinds()), "{}", statuses_of_kinds());
    }
}
