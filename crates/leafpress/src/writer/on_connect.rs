//! The caller's preparation of each connection on which SQL of callers runs.
//!
//! Stands between opening a connection and its first use: the writer's own, and each reader. The
//! checkpointer and the waiters of queues run no SQL of callers, and need none.
//!
//! 1. What the profile has set is read back after the caller's code: its promise still holds.
//! 2. No transaction and no attached database is left to other callers.
//!
//! Must never: run a caller's code on a connection that others use already.

use std::fmt;
use std::sync::Arc;

use rusqlite::Connection;

use crate::error::{Error, Result};
use crate::profile::InForce;

type Prepare = Arc<dyn Fn(&Connection) -> Result<()> + Send + Sync>;

/// Closures of the caller, in the order in which they were given.
#[derive(Clone, Default)]
pub(super) struct OnConnect(Vec<Prepare>);

impl fmt::Debug for OnConnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnConnect").field(&self.0.len()).finish()
    }
}

impl OnConnect {
    pub(super) fn add(
        &mut self,
        prepare: impl Fn(&Connection) -> Result<()> + Send + Sync + 'static,
    ) {
        self.0.push(Arc::new(prepare));
    }

    /// Prepares the writer's connection, and reads its settings again.
    pub(super) fn prepare_writer(
        &self,
        connection: &Connection,
        in_force: &mut InForce,
    ) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        self.prepare(connection)?;
        let now = InForce::read(connection, in_force.profile)?;
        now.check().map_err(|off| changed(&format!("a setting of the profile ({off})")))?;
        if now.locking != in_force.locking {
            return Err(changed("the locking mode"));
        }
        *in_force = now;
        Ok(())
    }

    /// Prepares a reader, which cannot write after it either.
    pub(super) fn prepare_reader(&self, connection: &Connection) -> Result<()> {
        if self.0.is_empty() {
            return Ok(());
        }
        self.prepare(connection)?;
        let ask = || connection.pragma_query_value(None, "query_only", |row| row.get(0));
        let is_read_only: bool =
            ask().map_err(|error| Error::sqlite("look at a reader's settings", error))?;
        if is_read_only { Ok(()) } else { Err(changed("query_only of a reader")) }
    }

    fn prepare(&self, connection: &Connection) -> Result<()> {
        for prepare in &self.0 {
            prepare(connection).map_err(|error| {
                error.on_disk("what was there before, and what on_connect has done")
            })?;
        }
        if !connection.is_autocommit() {
            return Err(Error::misuse("on_connect has left a transaction open")
                .to_do("commit it there, or do that work in a call of the writer"));
        }
        // The first two are the database and the temporary one.
        if connection.db_name(2).is_ok() {
            return Err(Error::misuse("on_connect has left a database attached"));
        }
        Ok(())
    }
}

fn changed(what: &str) -> Error {
    Error::misuse(format!("on_connect has changed {what}, on which the writer relies"))
        .to_do("leave that setting to the profile")
}
