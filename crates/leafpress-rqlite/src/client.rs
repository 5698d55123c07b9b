//! Requests over HTTP: one node after the other, each with a time limit.
//!
//! Must never: send credentials to a host that the address does not name.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use ureq::Agent;

use crate::address::Address;
use crate::answer::{Fate, fate};

/// The longest time for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// The longest time for a request with its answer.
const REQUEST_MAX: Duration = Duration::from_secs(10);
/// Two nodes that call each other the leader must not send a request back and forth for ever.
const REDIRECTS_MAX: usize = 4;

/// A client of one cluster.
pub struct Client {
    address: Address,
    agent: Agent,
    /// The node that answered last.
    node: usize,
}

impl Client {
    pub fn new(address: Address) -> Self {
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_connect(Some(CONNECT_MAX))
            .timeout_global(Some(REQUEST_MAX))
            .build();
        Self { address, agent: config.into(), node: 0 }
    }

    /// Sends statements as one transaction, to one node; after a failure the next request goes to
    /// another node.
    pub fn execute(&mut self, statements: &[Value]) -> Fate {
        let path = "/db/execute?transaction";
        let fate = match self.post(path, &json!(statements)) {
            Ok((status, body)) => fate(status, &body, statements.len()),
            Err(fate) => fate,
        };
        if matches!(fate, Fate::Unknown(_) | Fate::NotTaken(_)) {
            self.node = (self.node + 1) % self.address.nodes.len();
        }
        fate
    }

    /// The rows of a query that sees all that was committed before it; `None` if it cannot be
    /// answered now.
    pub fn query(&mut self, sql: &str, parameters: &[&str]) -> Option<Vec<Value>> {
        let mut statement = vec![json!(sql)];
        statement.extend(parameters.iter().map(|it| json!(it)));
        let answer = self.post("/db/query?level=strong", &json!([statement]));
        let rows = answer.ok().filter(|(status, _)| *status == 200).and_then(|(_, body)| {
            let body: Value = serde_json::from_str(&body).ok()?;
            let result = body.get("results")?.get(0)?;
            result.get("columns")?;
            Some(result.get("values").and_then(Value::as_array).cloned().unwrap_or_default())
        });
        if rows.is_none() {
            self.node = (self.node + 1) % self.address.nodes.len();
        }
        rows
    }

    /// The next request goes to another node.
    pub fn turn(&mut self) {
        self.node = (self.node + 1) % self.address.nodes.len();
    }

    /// Sends a body to the node that answered last; the answer's status and body.
    pub fn post(&mut self, path: &str, body: &Value) -> Result<(u16, String), Fate> {
        let text = body.to_string();
        let mut node = self.node;
        for _ in 0..REDIRECTS_MAX {
            let mut request = self
                .agent
                .post(format!("{}{path}", self.address.nodes[node]))
                .header("Content-Type", "application/json");
            if let Some(value) = &self.address.authorization {
                request = request.header("Authorization", value);
            }
            let mut response = request.send(&text).map_err(|error| of_error(&error))?;
            let status = response.status().as_u16();
            if !(300..400).contains(&status) {
                let body = response.body_mut().read_to_string();
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

/// The fate of a request that was not answered.
fn of_error(error: &ureq::Error) -> Fate {
    let says = error.to_string();
    match error {
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => Fate::NotTaken(says),
        ureq::Error::Io(source) if source.kind() == io::ErrorKind::ConnectionRefused => {
            Fate::NotTaken(says)
        }
        _ => Fate::Unknown(says),
    }
}
