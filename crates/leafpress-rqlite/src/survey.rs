//! The state of each node of a cluster, as the nodes tell it: for `leafpress doctor`.
//!
//! Must never: change something, or send credentials to a host that the address does not name.

use std::io;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leafpress::rusqlite::Connection;
use leafpress::{Error, Result};
use serde::Serialize;
use serde_json::Value;

use crate::address::Address;
use crate::node::{Node, Peer};
use crate::target::RqliteTarget;

/// The state of a cluster.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Survey {
    /// Its nodes: those of the URL, then those that only other nodes name.
    pub nodes: Vec<NodeState>,
    /// Tables of loads that are going on, or were cut off; none if the cluster answers no query.
    pub staging_tables: Vec<String>,
    /// The reason why the cluster answers no query, if it does not.
    pub unanswered: Option<String>,
}

/// The state of a node.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct NodeState {
    /// Its URL, without credentials.
    pub url: String,
    /// Its name in the cluster, if a node tells it.
    pub id: Option<String>,
    /// False for a node that only receives the log.
    pub votes: bool,
    /// The reason why it could not be asked.
    pub error: Option<String>,
    /// Its own report, if it answered.
    pub status: Option<NodeStatus>,
}

/// A node's report of itself.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct NodeStatus {
    /// Version of rqlite.
    pub rqlite: String,
    /// Version of SQLite.
    pub sqlite: String,
    /// Its part in Raft: `Leader`, `Follower`, `Candidate`.
    pub state: String,
    /// The term that it knows.
    pub term: u64,
    /// The last entry that most nodes have.
    pub commit_index: u64,
    /// The last entry that it has carried out.
    pub applied_index: u64,
    /// Entries that a new node would have to carry out: those since the last snapshot.
    pub entries_since_snapshot: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Bytes of the database.
    pub database_bytes: u64,
    /// Bytes of its folder, with log, snapshots and database.
    pub folder_bytes: u64,
    /// Seconds by which its clock is ahead of this machine's.
    pub clock_ahead_s: Option<f64>,
    /// The largest error of that number.
    pub clock_error_s: f64,
}

/// Asks all nodes of the address, and the first that answers for the others.
///
/// # Errors
/// No node answers.
pub fn survey(address: &Address) -> Result<Survey> {
    let mut nodes = states(address)?;
    let mut target = RqliteTarget::new(address.clone());
    let sql = "SELECT name FROM sqlite_schema WHERE substr(name, 1, 16) = '_leafpress_load_'";
    let (staging_tables, unanswered) = match target.read(sql, &[]) {
        Ok(rows) => {
            (rows.iter().filter_map(|row| Some(row.get(0)?.as_str()?.to_owned())).collect(), None)
        }
        Err(error) => (Vec::new(), Some(error.kind().to_string())),
    };
    let leads = |it: &NodeState| it.status.as_ref().is_some_and(|it| it.state == "Leader");
    if unanswered.is_none() && !nodes.iter().any(leads) {
        // The nodes have elected a leader meanwhile.
        nodes = states(address)?;
    }
    Ok(Survey { nodes, staging_tables, unanswered })
}

/// The states of all nodes that the address or the first node that answers names.
///
/// # Errors
/// No node answers.
fn states(address: &Address) -> Result<Vec<NodeState>> {
    let mut nodes = Vec::new();
    let mut peers: Option<Vec<Peer>> = None;
    let mut last_error = None;
    for (url, status) in address.nodes.iter().zip(statuses(address)) {
        let (status, error) = match status {
            Ok(status) => (Some(status), None),
            Err(error) => {
                let words = error.kind().to_string();
                last_error.get_or_insert(error);
                (None, Some(words))
            }
        };
        if status.is_some() && peers.is_none() {
            match Node::new(address, url).nodes() {
                Ok(found) => peers = Some(found),
                Err(error) => last_error = Some(error),
            }
        }
        nodes.push(NodeState { url: url.clone(), id: None, votes: true, error, status });
    }
    if let (true, Some(error)) = (nodes.iter().all(|it| it.status.is_none()), last_error) {
        return Err(error);
    }
    join(&mut nodes, peers.unwrap_or_default());
    Ok(nodes)
}

/// Brings the nodes of the URL together with those that a node tells of.
fn join(nodes: &mut Vec<NodeState>, peers: Vec<Peer>) {
    let (silent, mut named): (Vec<Peer>, Vec<Peer>) =
        peers.into_iter().partition(|it| it.api_addr.is_empty());
    named.retain(|peer| match nodes.iter_mut().find(|it| it.url == peer.api_addr) {
        Some(node) => {
            node.id = Some(peer.id.clone());
            node.votes = peer.voter;
            false
        }
        None => true,
    });
    // Of a node that is gone the others know no URL: it may be one that did not answer here either.
    let unknown: Vec<usize> = nodes
        .iter()
        .enumerate()
        .filter(|(_, it)| it.status.is_none() && it.id.is_none())
        .map(|(at, _)| at)
        .collect();
    if let ([at], [peer]) = (unknown.as_slice(), silent.as_slice()) {
        nodes[*at].id = Some(peer.id.clone());
        nodes[*at].votes = peer.voter;
    }
    for peer in named.into_iter().chain(silent.into_iter().skip(unknown.len())) {
        let error = match (peer.reachable, peer.error) {
            (true, _) => "the URL does not name it, so it was not asked".to_owned(),
            (false, error) => {
                format!("another node cannot reach it: {}", error.unwrap_or_default())
            }
        };
        nodes.push(NodeState {
            url: if peer.api_addr.is_empty() { peer.id.clone() } else { peer.api_addr },
            id: Some(peer.id),
            votes: peer.voter,
            error: Some(error),
            status: None,
        });
    }
}

/// The reports of all nodes of the address, which are asked at the same time: some may be frozen.
fn statuses(address: &Address) -> Vec<Result<NodeStatus>> {
    thread::scope(|scope| {
        let ask = |url: &String| {
            let node = Node::new(address, url);
            thread::Builder::new().spawn_scoped(scope, move || status(&node))
        };
        let asked: Vec<_> = address.nodes.iter().map(ask).collect();
        let answer = |asked: io::Result<ScopedJoinHandle<'_, _>>| match asked {
            Ok(asked) => asked.join().unwrap_or_else(|_| Err(Error::bug("asking a node panicked"))),
            Err(source) => Err(Error::no_thread("that asks a node", source)),
        };
        asked.into_iter().map(answer).collect()
    })
}

fn status(node: &Node<'_>) -> Result<NodeStatus> {
    let (asked, asked_at) = (Instant::now(), SystemTime::now());
    let body = node.get("/status")?;
    let took = asked.elapsed();
    let text = |at: &str| body.pointer(at).and_then(Value::as_str).unwrap_or_default().to_owned();
    let number = |at: &str| body.pointer(at).and_then(Value::as_u64).unwrap_or_default();
    let told = text("/node/current_time");
    let here = asked_at.duration_since(UNIX_EPOCH).unwrap_or_default() + took / 2;
    let ahead = unix_time(&told).map(|there| there - here.as_secs_f64());
    Ok(NodeStatus {
        rqlite: text("/build/version"),
        sqlite: text("/store/sqlite3/version"),
        state: text("/store/raft/state"),
        term: number("/store/raft/term"),
        commit_index: number("/store/raft/commit_index"),
        applied_index: number("/store/raft/applied_index"),
        entries_since_snapshot: number("/store/raft/last_log_index")
            .saturating_sub(number("/store/raft/last_snapshot_index")),
        log_bytes: number("/store/raft/log_size"),
        database_bytes: number("/store/sqlite3/db_size"),
        folder_bytes: number("/store/dir_size"),
        clock_ahead_s: ahead,
        clock_error_s: (took / 2 + Duration::from_millis(1)).as_secs_f64(),
    })
}

/// Seconds since 1970 of a time such as `2026-11-25T08:04:33.589Z`, or with a zone.
fn unix_time(text: &str) -> Option<f64> {
    let memory = Connection::open_in_memory().ok()?;
    let (seconds, fraction) = match text.split_once('.') {
        Some((before, rest)) => {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let fraction: f64 = format!("0.{}", &rest[..digits]).parse().ok()?;
            (format!("{before}{}", &rest[digits..]), fraction)
        }
        None => (text.to_owned(), 0.0),
    };
    let whole: Option<i64> =
        memory.query_row("SELECT unixepoch(?1)", [seconds], |row| row.get(0)).ok()?;
    Some(whole? as f64 + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_gone_counts_once() {
        let of_url = |url: &str, is_up: bool| NodeState {
            url: url.to_owned(),
            id: None,
            votes: true,
            error: (!is_up).then(|| "refused".to_owned()),
            status: is_up.then(NodeStatus::default),
        };
        let peer = |id: &str, url: &str| Peer {
            id: id.to_owned(),
            api_addr: url.to_owned(),
            voter: true,
            reachable: !url.is_empty(),
            leads: false,
            error: None,
        };
        let mut nodes = vec![of_url("http://a", true), of_url("http://b", false)];
        join(&mut nodes, vec![peer("1", "http://a"), peer("2", ""), peer("3", "http://c")]);
        let found: Vec<_> = nodes
            .iter()
            .map(|it| (it.id.as_deref(), it.url.as_str(), it.error.is_some()))
            .collect();
        let expected = [
            (Some("1"), "http://a", false),
            (Some("2"), "http://b", true),
            (Some("3"), "http://c", true),
        ];
        assert_eq!(found, expected);
        let mut nodes = vec![of_url("http://a", true)];
        join(&mut nodes, vec![peer("1", "http://a"), peer("2", "")]);
        assert_eq!(nodes.len(), 2);
    }

    #[test]
    fn times_of_nodes_are_read() {
        assert_eq!(unix_time("1970-01-01T00:01:00.25Z"), Some(60.25));
        assert_eq!(unix_time("1970-01-01T01:01:00.250000001+01:00").map(f64::round), Some(60.0));
        assert_eq!(unix_time("1970-01-01T00:01:00Z"), Some(60.0));
        assert_eq!(unix_time("yesterday"), None);
    }
}
