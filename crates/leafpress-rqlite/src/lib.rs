//! rqlite as the place of a writer's groups: the same calls, durable on a cluster.
//!
//! ```no_run
//! use leafpress::Writer;
//! use leafpress_rqlite::{Address, RqliteTarget};
//!
//! let address: Address = "rqlite://ann@db1:4001,db2:4001".parse()?;
//! let writer = Writer::with_target(RqliteTarget::new(address), 512)?;
//! writer.execute("INSERT INTO event(what) VALUES (?1)", ["started"])?;
//! # Ok::<(), leafpress::Error>(())
//! ```
//!
//! | module | is for |
//! |---|---|
//! | `address` | the URL of a cluster |
//! | `client` | requests over HTTP, to one node after the other |
//! | `answer` | the meaning of an answer |
//! | `statement` | SQL and values as rqlite takes them, and what is refused |
//! | `parameters` | the parameters of a statement, and their values in order |
//! | `literal` | values that stand in the SQL |
//! | `clock` | the leader's clock |
//! | `limits` | limits of what is sent |
//! | `once` | what lets a group be applied once |
//! | `declared` | a table that is on the cluster |
//! | `runs` | calls of one INSERT as one statement, with the counts of each |
//! | `records` | the statements of one request |
//! | `target` | groups, each applied once |
//! | `patience` | times between attempts of one request |
//! | `node` | questions to one node |
//! | `boot` | a file as the content of a new cluster |
//! | `queue` | durable jobs on a cluster |
//! | `survey` | the state of each node |
//! | [`load`] | rows into a running cluster, all or none |

#![forbid(unsafe_code)]

/// The examples of the guide, which are tests like all others.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rqlite.md")]
struct Guide;

mod address;
mod answer;
mod boot;
mod client;
mod clock;
mod declared;
mod limits;
mod literal;
pub mod load;
mod node;
mod once;
mod parameters;
mod patience;
mod queue;
mod records;
mod runs;
mod statement;
mod survey;
mod target;

pub use address::Address;
pub use boot::{Booted, boot};
pub use queue::{RqliteQueue, RqliteQueueStats, RqliteQueues, RqliteQueuesBuilder};
pub use survey::{NodeState, NodeStatus, Survey, survey};
pub use target::RqliteTarget;
