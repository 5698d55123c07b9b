//! Requests of a queue: transactions that give rows, and reads.
//!
//! Must never: call a transaction rejected that was committed. rqlite commits though a query in
//! it has failed.

use std::time::Duration;

use serde_json::{Value, json};

use crate::answer::{Fate, fate};
use crate::client::Client;

/// The meaning of the answer to a transaction.
#[derive(Debug)]
pub enum Reply {
    /// It was committed: the rows of its queries.
    Done(Vec<Vec<Value>>),
    /// It was not and will not be: the statement if it is known, and the error.
    Rejected(Option<usize>, String),
    /// It may have been, or may be yet.
    Unknown(String),
    /// It reached no node; if `is_final`, it never will.
    NotTaken { reason: String, is_final: bool },
}

/// Sends `writes` and then `queries` as one transaction. `limit`: the longest time for the answer.
pub fn transact(
    client: &mut Client,
    writes: &[Value],
    queries: &[Value],
    limit: Duration,
) -> Reply {
    let all: Vec<&Value> = writes.iter().chain(queries).collect();
    let posted = client.post("/db/request?transaction", &json!(all).to_string(), limit);
    let fate = match &posted {
        Ok((status, body)) => fate(*status, body, all.len()),
        Err(fate) => fate.clone(),
    };
    match (fate, posted) {
        (Fate::Applied(_), Ok((_, body))) => match results(&body) {
            Some(results) => Reply::Done(results.into_iter().skip(writes.len()).collect()),
            None => Reply::Unknown("the answer cannot be read".to_owned()),
        },
        (Fate::Rejected(Some(at), reason), _) if at >= writes.len() => Reply::Unknown(reason),
        (Fate::Rejected(at, reason), _) => Reply::Rejected(at, reason),
        (Fate::Denied(reason), _) => Reply::NotTaken { reason, is_final: true },
        (Fate::NotTaken(reason), _) => {
            client.turn();
            Reply::NotTaken { reason, is_final: false }
        }
        (Fate::Unknown(reason), _) => {
            client.turn();
            Reply::Unknown(reason)
        }
        (Fate::Applied(_), Err(_)) => Reply::Unknown("there was no answer".to_owned()),
    }
}

/// The level of a read.
#[derive(Debug, Clone, Copy)]
pub enum Level {
    /// It sees all that was committed before it.
    Strong,
    /// By the leader alone, which may have been replaced a moment ago.
    Weak,
}

/// The rows of each query. `limit`: the longest time for the answer.
///
/// # Errors
/// Why there are none.
pub fn read(
    client: &mut Client,
    level: Level,
    queries: &[Value],
    limit: Duration,
) -> Result<Vec<Vec<Value>>, NotRead> {
    let path = match level {
        Level::Strong => "/db/query?level=strong",
        Level::Weak => "/db/query?level=weak",
    };
    let answer = client.post(path, &json!(queries).to_string(), limit);
    let (status, body) = match answer {
        Ok(answer) => answer,
        Err(Fate::Unknown(reason) | Fate::NotTaken(reason)) => {
            client.turn();
            return Err(NotRead { reason, is_final: false });
        }
        Err(other) => return Err(NotRead { reason: format!("{other:?}"), is_final: true }),
    };
    if status == 200
        && let Some(rows) = results(&body)
    {
        return Ok(rows);
    }
    let error = serde_json::from_str::<Value>(&body).ok().and_then(|body| {
        let mut results = body.get("results")?.as_array()?.iter();
        let of_query = results.find_map(|it| it.get("error")?.as_str());
        of_query.map(str::to_owned)
    });
    let is_final = error.is_some() || matches!(status, 400..=499);
    if !is_final {
        client.turn();
    }
    let reason = error.unwrap_or_else(|| format!("HTTP status {status}: {}", body.trim()));
    Err(NotRead { reason, is_final })
}

/// The reason why there are no rows; if `is_final`, asking again is of no use.
#[derive(Debug)]
pub struct NotRead {
    pub reason: String,
    pub is_final: bool,
}

/// The rows of each result, if there is no error.
fn results(body: &str) -> Option<Vec<Vec<Value>>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_errors_found() {
        let body =
            r#"{"results":[{"rows_affected":1},{"columns":["a"],"values":[[1]]},{"columns":[]}]}"#;
        assert_eq!(results(body), Some(vec![vec![], vec![json!([1])], vec![]]));
        for body in ["", "{}", r#"{"results":[{"error":"x"}]}"#, r#"{"results":[],"error":"x"}"#] {
            assert_eq!(results(body), None, "{body}");
        }
    }
}
