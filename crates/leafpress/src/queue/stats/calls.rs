//! The calls of a [`Queue`] about its statistics.

use std::sync::Arc;

use super::{QueueStats, collect, write};
use crate::error::Result;
use crate::queue::Queue;

impl Queue {
    /// Statistics of the queue.
    ///
    /// Counting looks at one entry of an index for each job (about 0.03 s for a million), and at
    /// the row of each job that is leased. It reads beside the writer and holds up no caller,
    /// unless the writer has the database alone
    /// ([`Locking::Exclusive`](crate::profile::Locking::Exclusive)): then it is a call of the
    /// writer. The counts of this process are written first, as a small call of the writer.
    ///
    /// # Errors
    /// If the database cannot be read, or the queue was dropped.
    pub fn stats(&self) -> Result<QueueStats> {
        let session = self.session.get()?;
        if session.counters().has_unwritten()
            && let Err(error) = self.call(|work, _| write(work)).wait()
        {
            // Then the figures are a little older.
            tracing::debug!(%error, "the queue's statistics could not be written");
        }
        let (session, queue) = (Arc::clone(self.session.get()?), self.id);
        self.read(move |connection| collect::collect(connection, queue, session.clock().now_ms()))
    }

    /// Number of jobs that their group's rate holds off; they are delayed ones.
    #[doc(hidden)]
    pub fn held_off(&self) -> Result<u64> {
        let queue = self.id;
        self.read(move |connection| collect::held_off(connection, queue))
    }

    /// The statistics as text for Prometheus, labelled with the queue's name.
    ///
    /// # Errors
    /// As [`stats`](Self::stats).
    pub fn prometheus(&self) -> Result<String> {
        Ok(self.stats()?.to_prometheus(&[]))
    }
}
