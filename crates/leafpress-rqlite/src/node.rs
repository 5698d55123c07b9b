//! One node: its questions over HTTP that are not for the cluster as a whole.
//!
//! Must never: show a password, or send one to another host than the node's.

use std::time::Duration;

use leafpress::{Error, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use ureq::Agent;

use crate::address::Address;
use crate::client::words_of;

/// The longest time for a connection, and for a request without a file.
const CONNECT_MAX: Duration = Duration::from_secs(2);
pub const REQUEST_MAX: Duration = Duration::from_secs(10);
/// A node counts rows of large tables in this time.
const QUERY_MAX: Duration = Duration::from_secs(70);

/// A node of a cluster, as another one sees it.
#[derive(Debug, Clone, Deserialize)]
pub struct Peer {
    #[serde(default)]
    pub id: String,
    /// The URL of its interface for programs; empty if it does not answer.
    #[serde(default)]
    pub api_addr: String,
    #[serde(default)]
    pub voter: bool,
    #[serde(default)]
    pub reachable: bool,
    #[serde(default, rename = "leader")]
    pub leads: bool,
    #[serde(default)]
    pub error: Option<String>,
}

/// The node at a URL.
pub struct Node<'a> {
    pub url: String,
    address: &'a Address,
}

impl<'a> Node<'a> {
    pub fn new(address: &'a Address, url: &str) -> Self {
        Self { url: url.to_owned(), address }
    }

    /// The nodes of its cluster.
    pub fn nodes(&self) -> Result<Vec<Peer>> {
        let nodes = self.get("/nodes?ver=2&nonvoters&timeout=2s")?;
        let list = nodes.get("nodes").cloned().unwrap_or_default();
        serde_json::from_value(list).map_err(|_| self.refused("it does not list its cluster"))
    }

    pub fn refused(&self, reason: &str) -> Error {
        Error::destination(&self.url, reason)
    }

    pub fn query(&self, sql: &str) -> Result<Vec<Value>> {
        let request = self.agent(QUERY_MAX).post(format!("{}/db/query?level=strong", self.url));
        let request = self.signed(request).header("Content-Type", "application/json");
        let answer = request.send(json!([[sql]]).to_string());
        let body = self.body(answer.map_err(|error| self.failed(&error))?)?;
        let result = body.pointer("/results/0").cloned().unwrap_or_default();
        if let Some(error) = result.get("error").or_else(|| body.get("error")) {
            return Err(Error::destination(&self.url, format!("it cannot answer {sql}: {error}")));
        }
        Ok(result.get("values").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    pub fn get(&self, path: &str) -> Result<Value> {
        let request = self.signed(self.agent(REQUEST_MAX).get(format!("{}{path}", self.url)));
        self.body(request.call().map_err(|error| self.failed(&error))?)
    }

    fn body(&self, mut answer: ureq::http::Response<ureq::Body>) -> Result<Value> {
        let status = answer.status();
        let text = answer.body_mut().read_to_string().map_err(|error| self.failed(&error))?;
        match serde_json::from_str(&text) {
            Ok(body) if status == 200 => Ok(body),
            _ => Err(self.other_answer(status.as_u16(), &text)),
        }
    }

    /// The error for an answer that is not the one that was asked for.
    pub fn other_answer(&self, status: u16, text: &str) -> Error {
        let answer =
            |reason| Error::destination(&self.url, format!("it answers {status}: {reason}"));
        match status {
            401 | 403 => answer("the credentials do not allow it").on_disk("nothing was changed").to_do(
                "give the user in the URL, as rqlite://USER@HOST, and the password; the user needs the permissions \
                 query, execute, status and, to load into a new node, load",
            ),
            _ => answer(text.trim()),
        }
    }

    pub fn agent(&self, time: Duration) -> Agent {
        self.address.agent(CONNECT_MAX, Some(time))
    }

    pub fn signed<B>(&self, request: ureq::RequestBuilder<B>) -> ureq::RequestBuilder<B> {
        match &self.address.authorization {
            Some(value) => request.header("Authorization", value),
            None => request,
        }
    }

    pub fn failed(&self, error: &ureq::Error) -> Error {
        Error::destination(&self.url, format!("it does not answer: {}", words_of(error)))
            .to_do("check the host, the port and that rqlited runs there")
    }
}
