//! The meaning of an answer of rqlite: the fate of a group, the rows of queries, errors as callers see them.
//!
//! Errors of statements come as HTTP 200, with `error` in the result of the statement or beside
//! the results. A node without a leader answers 500 or 503, and may have handed the group on.
//!
//! | type | is the outcome of |
//! |---|---|
//! | [`Fate`] | one request of statements |
//! | `queue::request::Reply` | one request of statements and queries |
//! | `once::RowRefused` | the first statement of a request, if the row of its group was refused |
//! | `target::Refusal` | a request of a writer that was rejected: which of its statements was, and so what is sent next |
//! | `target::End`, `queue::engine::End` | all requests of a group |
//! | `client::Unread` | queries that gave no rows |
//!
//! Must never: call a group rejected that may still be applied.

use leafpress::{Error, rusqlite};
use serde::Deserialize;
use serde_json::Value;

/// SQLite's words for errors that are of one node. Each node carries out an entry of the log for itself, and only the
/// leader's answer is told: others may have the call.
const OF_THE_MACHINE: [&str; 14] = [
    "access permission denied",
    "attempt to write a readonly database",
    "database disk image is malformed",
    "database is locked",
    "database or disk is full",
    "database schema is locked",
    "database table is locked",
    "disk I/O error",
    "file is not a database",
    "interrupted",
    "locking protocol",
    "out of memory",
    "query aborted",
    "unable to open database file",
];

/// The fate of one request.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// All statements were carried out and committed.
    Applied(Vec<Counts>),
    /// Nothing of this request is or will be applied: the error, and the statement if it is known.
    Rejected(Option<usize>, String),
    /// It may have been applied, or may be yet.
    Unknown(String),
    /// It reached no node, or was turned away before it was looked at.
    NotTaken(String),
    /// As [`NotTaken`](Self::NotTaken), and sending it again changes nothing: the credentials are wrong.
    Denied(String),
}

impl Fate {
    /// The reason, in words; empty if the request was applied.
    pub fn reason(self) -> String {
        match self {
            Self::Applied(_) => String::new(),
            Self::Rejected(_, reason)
            | Self::Unknown(reason)
            | Self::NotTaken(reason)
            | Self::Denied(reason) => reason,
        }
    }
}

/// Counts of a statement, as rqlite gives them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub struct Counts {
    #[serde(default)]
    pub rows_affected: u64,
    #[serde(default)]
    pub last_insert_id: i64,
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    results: Vec<Value>,
    error: Option<String>,
}

/// The fate of a group of `statements` statements by its answer.
pub fn fate(status: u16, body: &str, statements: usize) -> Fate {
    match status {
        200 => of_body(body, statements),
        400 | 413 => Fate::Rejected(None, format!("rqlite refuses the request: {}", body.trim())),
        401 | 403 => Fate::Denied(format!("HTTP status {status}: the credentials do not allow it")),
        404 | 405 => Fate::NotTaken(format!("HTTP status {status}: this is not a node of rqlite")),
        _ => Fate::Unknown(format!("HTTP status {status}: {}", body.trim())),
    }
}

fn of_body(body: &str, statements: usize) -> Fate {
    let Ok(body) = serde_json::from_str::<Body>(body) else {
        return Fate::Unknown("the answer is not rqlite's".to_owned());
    };
    let error_in = |result: &Value| result.get("error").and_then(Value::as_str).map(str::to_owned);
    let mut failed = body.results.iter().enumerate();
    if let Some((at, error)) = failed.find_map(|(at, it)| Some((at, error_in(it)?))) {
        if OF_THE_MACHINE.iter().any(|it| error.starts_with(it)) {
            return Fate::Unknown(format!("the leader's machine: {error}"));
        }
        return Fate::Rejected(Some(at), error);
    }
    match body.error {
        // That of COMMIT, where a deferred foreign key is checked.
        Some(error) if error.contains("constraint failed") => Fate::Rejected(None, error),
        Some(error) => Fate::Unknown(error),
        None if body.results.len() == statements => {
            let counts = body.results.into_iter().map(serde_json::from_value::<Counts>);
            match counts.collect() {
                Ok(counts) => Fate::Applied(counts),
                Err(error) => Fate::Unknown(format!("the answer cannot be read: {error}")),
            }
        }
        None => Fate::Unknown("the answer lacks results of some statements".to_owned()),
    }
}

/// The rows of each result, if there is no error.
pub fn results(body: &str) -> Option<Vec<Vec<Value>>> {
    let mut body: Value = serde_json::from_str(body).ok()?;
    if body.get("error").is_some() {
        return None;
    }
    let Value::Array(results) = body.get_mut("results")?.take() else { return None };
    let rows = |mut result: Value| {
        if !result.is_object() || result.get("error").is_some() {
            return None;
        }
        match result.get_mut("values").map(Value::take) {
            Some(Value::Array(rows)) => Some(rows),
            _ => Some(Vec::new()),
        }
    };
    results.into_iter().map(rows).collect()
}

/// Returns true if a transaction with an error was not rolled back, and one of its first `writes` statements was
/// carried out. After a rollback the results of the statements that follow are missing.
pub fn went_on(body: &str, writes: usize, statements: usize) -> bool {
    let Ok(body) = serde_json::from_str::<Body>(body) else { return false };
    let mut written = body.results.iter().take(writes);
    body.results.len() == statements && written.any(|it| it.get("error").is_none())
}

/// The error of the first query that has one.
pub fn error_of_query(body: &str) -> Option<String> {
    let body: Value = serde_json::from_str(body).ok()?;
    let mut results = body.get("results")?.as_array()?.iter();
    results.find_map(|it| it.get("error")?.as_str()).map(str::to_owned)
}

/// The error of a statement, in SQLite's words.
pub fn of_sqlite(reason: &str) -> Error {
    if reason.contains("constraint failed") {
        return Error::constraint(reason);
    }
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ERROR);
    let source = rusqlite::Error::SqliteFailure(code, Some(reason.to_owned()));
    Error::sqlite("carry out the statement", source).on_disk("nothing of this call")
}

/// The error of a request that reached no node.
pub fn not_taken(reason: &str) -> Error {
    let source = std::io::Error::other(reason.to_owned());
    Error::io("reach", std::path::Path::new("the cluster of rqlite"), source)
        .on_disk("nothing of this call")
        .to_do("see that most nodes run, and that the URL names them and the credentials: leafpress doctor asks each")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_in_an_answer_of_200_are_found() {
        let error =
            r#"{"results":[{"rows_affected":1},{"error":"UNIQUE constraint failed: t.id"}]}"#;
        let told = Fate::Rejected(Some(1), "UNIQUE constraint failed: t.id".to_owned());
        assert_eq!(fate(200, error, 3), told);
        assert!(matches!(fate(200, r#"{"error":"not leader"}"#, 1), Fate::Unknown(_)));
        let at_commit = r#"{"results":[],"error":"FOREIGN KEY constraint failed"}"#;
        assert!(matches!(fate(200, at_commit, 1), Fate::Rejected(None, _)));
    }

    #[test]
    fn an_error_of_one_node_tells_nothing_of_the_others() {
        let error = r#"{"results":[{},{"error":"disk I/O error: no space left on device"}]}"#;
        assert!(matches!(fate(200, error, 2), Fate::Unknown(_)));
        let raised = r#"{"results":[{"error":"the disk I/O error"}]}"#;
        assert!(matches!(fate(200, raised, 1), Fate::Rejected(Some(0), _)));
    }

    #[test]
    fn only_a_whole_answer_is_success() {
        let two = r#"{"results":[{"last_insert_id":7,"rows_affected":1},{}]}"#;
        let counts = vec![Counts { rows_affected: 1, last_insert_id: 7 }, Counts::default()];
        assert_eq!(fate(200, two, 2), Fate::Applied(counts));
        for (status, body) in [(200, two), (200, "{"), (200, "{}"), (500, two), (503, "no leader")]
        {
            assert!(matches!(fate(status, body, 3), Fate::Unknown(_)), "{status} {body}");
        }
        assert!(matches!(fate(401, "", 1), Fate::Denied(_)));
    }

    #[test]
    fn rows_are_read_and_errors_found() {
        let body =
            r#"{"results":[{"rows_affected":1},{"columns":["a"],"values":[[1]]},{"columns":[]}]}"#;
        assert_eq!(results(body), Some(vec![vec![], vec![serde_json::json!([1])], vec![]]));
        for body in ["", "{}", r#"{"results":[{"error":"x"}]}"#, r#"{"results":[],"error":"x"}"#] {
            assert_eq!(results(body), None, "{body}");
        }
    }
}
