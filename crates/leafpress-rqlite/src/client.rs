//! Requests over HTTP: one node after the other, each with a time limit.
//!
//! Must never: send credentials to a host that the address does not name.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

use crate::address::Address;
use crate::answer::{Fate, error_of_query, fate, results};
use crate::parameters::carried;

/// The longest time for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Two nodes that call each other the leader must not send a request back and forth for ever.
const REDIRECTS_MAX: usize = 4;
/// An answer that is larger is none: that of a claim has the payloads of its jobs.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

/// A client of one cluster.
pub struct Client {
    address: Address,
    agent: Agent,
    /// The node that answered last.
    node: usize,
}

/// The level of a read.
#[derive(Debug, Clone, Copy)]
pub enum Level {
    /// It sees all that was committed before it.
    Strong,
    /// By the leader alone, which may have been replaced a moment ago.
    Weak,
}

/// The reason why queries gave no rows.
#[derive(Debug)]
pub enum Unread {
    /// SQLite refuses one of them.
    Refused(String),
    /// The cluster refuses the request; asking again is of no use.
    Denied(String),
    /// No node answers now.
    Unanswered(String),
}

impl Unread {
    /// Returns true if asking again is of no use.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Unanswered(_))
    }

    pub fn reason(self) -> String {
        let (Self::Refused(reason) | Self::Denied(reason) | Self::Unanswered(reason)) = self;
        reason
    }
}

impl Client {
    pub fn new(address: Address) -> Self {
        let agent = address.agent(CONNECT_MAX, None);
        Self { address, agent, node: 0 }
    }

    /// Sends statements as one transaction, to one node; after a failure the next request goes to
    /// another node. `limit`: the longest time for the answer.
    pub fn execute(&mut self, statements: &[Value], limit: Duration) -> Fate {
        let texts: Vec<String> = statements.iter().map(|it| carried(it).to_string()).collect();
        self.execute_texts(&texts, limit)
    }

    /// As [`execute`](Self::execute), of statements in JSON.
    pub fn execute_texts<T: AsRef<str>>(&mut self, statements: &[T], limit: Duration) -> Fate {
        let bytes: usize = statements.iter().map(|it| it.as_ref().len() + 1).sum();
        let mut body = String::with_capacity(bytes + 2);
        body.push('[');
        for (at, statement) in statements.iter().enumerate() {
            if at > 0 {
                body.push(',');
            }
            body.push_str(statement.as_ref());
        }
        body.push(']');
        let fate = match self.post("/db/execute?transaction&noparse", &body, limit) {
            Ok((status, body)) => fate(status, &body, statements.len()),
            Err(fate) => fate,
        };
        if matches!(fate, Fate::Unknown(_) | Fate::NotTaken(_)) {
            self.turn();
        }
        fate
    }

    /// The rows of each query. `limit`: the longest time for the answer.
    ///
    /// # Errors
    /// The reason why there are none; after no answer the next request goes to another node.
    pub fn read(
        &mut self,
        level: Level,
        queries: &[Value],
        limit: Duration,
    ) -> Result<Vec<Vec<Value>>, Unread> {
        let path = match level {
            Level::Strong => "/db/query?level=strong",
            Level::Weak => "/db/query?level=weak",
        };
        let queries: Vec<_> = queries.iter().map(carried).collect();
        let read = match self.post(path, &json!(queries).to_string(), limit) {
            Ok((status, body)) => rows(status, &body),
            Err(fate) => Err(Unread::Unanswered(fate.reason())),
        };
        if matches!(read, Err(Unread::Unanswered(_))) {
            self.turn();
        }
        read
    }

    /// The rows of one query that sees all that was committed before it.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn rows(
        &mut self,
        sql: &str,
        parameters: &[&str],
        limit: Duration,
    ) -> Result<Vec<Value>, Unread> {
        let mut query = vec![json!(sql)];
        query.extend(parameters.iter().map(|it| json!(it)));
        let rows = self.read(Level::Strong, &[json!(query)], limit)?;
        let none = || Unread::Unanswered("the answer has no result".to_owned());
        rows.into_iter().next().ok_or_else(none)
    }

    /// The next request goes to another node.
    pub fn turn(&mut self) {
        self.node = (self.node + 1) % self.address.nodes.len();
    }

    /// Sends a body to the node that answered last; the answer's status and body.
    pub fn post(&mut self, path: &str, body: &str, limit: Duration) -> Result<(u16, String), Fate> {
        let mut node = self.node;
        for _ in 0..REDIRECTS_MAX {
            let mut request = self
                .agent
                .post(format!("{}{path}", self.address.nodes[node]))
                .config()
                .timeout_global(Some(limit))
                .build()
                .header("Content-Type", "application/json");
            if let Some(value) = &self.address.authorization {
                request = request.header("Authorization", value);
            }
            let mut response = request.send(body).map_err(|error| of_error(&error))?;
            let status = response.status().as_u16();
            if !(300..400).contains(&status) {
                let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
                let body = body.read_to_string();
                self.node = node;
                return Ok((status, body.map_err(|error| Fate::Unknown(error.to_string()))?));
            }
            let leader = response.headers().get("Location").and_then(|it| it.to_str().ok());
            let leader = leader.unwrap_or_default();
            let known = self.address.nodes.iter().position(|it| {
                leader.strip_prefix(it.as_str()).is_some_and(|rest| rest.starts_with('/'))
            });
            node = known.ok_or_else(|| {
                Fate::NotTaken(format!("the leader is at {leader:?}, which the URL does not name"))
            })?;
        }
        Err(Fate::NotTaken("nodes send the request to one another".to_owned()))
    }
}

/// The rows of an answer to queries.
fn rows(status: u16, body: &str) -> Result<Vec<Vec<Value>>, Unread> {
    if status == 200
        && let Some(rows) = results(body)
    {
        return Ok(rows);
    }
    if let Some(error) = error_of_query(body) {
        return Err(Unread::Refused(error));
    }
    let reason = format!("HTTP status {status}: {}", body.trim());
    Err(match status {
        400 | 401 | 403 => Unread::Denied(reason),
        _ => Unread::Unanswered(reason),
    })
}

/// The words for a request that was not answered.
pub fn words_of(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "no answer in time".to_owned(),
        error => error.to_string(),
    }
}

/// The fate of a request that was not answered.
fn of_error(error: &ureq::Error) -> Fate {
    let says = words_of(error);
    match error {
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => Fate::NotTaken(says),
        ureq::Error::Io(source) if source.kind() == io::ErrorKind::ConnectionRefused => {
            Fate::NotTaken(says)
        }
        _ => Fate::Unknown(says),
    }
}
