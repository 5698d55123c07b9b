//! Requests of a queue: transactions that give rows.
//!
//! Must never: call a transaction rejected that was committed. rqlite commits though a query in it has failed, and
//! without the statements that it could not prepare.

use std::time::Duration;

use serde_json::{Value, json};

use crate::answer::{Fate, fate, results, went_on};
use crate::client::Client;
use crate::parameters::carried;

/// Without `noparse`, rqlite reads each statement and may write it anew.
const TRANSACTION: &str = "/db/request?transaction&noparse";

/// The meaning of the answer to a transaction.
#[derive(Debug)]
pub enum Reply {
    /// It was committed: the rows of its queries.
    Done(Vec<Vec<Value>>),
    /// It was not and will not be: the statement if it is known, and the error.
    Rejected(Option<usize>, String),
    /// It was committed without the statements that could not be prepared: the error of the first.
    InPart(String),
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
    let all: Vec<_> = writes.iter().chain(queries).map(carried).collect();
    let posted = client.post(TRANSACTION, &json!(all).to_string(), limit);
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
        (Fate::Rejected(_, reason), Ok((_, body))) if went_on(&body, writes.len(), all.len()) => {
            Reply::InPart(reason)
        }
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
