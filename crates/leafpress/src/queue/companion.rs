//! The hub as a companion of the writer's transactions.

use rusqlite::Connection;

use super::hub::{Hub, Work};
use super::stats;
use crate::error::Result;
use crate::writer::Companion;

impl Companion for Hub {
    fn began(&self) {
        Self::began(self);
    }

    fn call_began(&self) {
        self.tally().call_began();
    }

    fn call_undone(&self) {
        self.tally().call_undone();
    }

    fn committed(&self) {
        Self::committed(self);
    }

    fn not_committed(&self) {
        Self::not_committed(self);
    }

    fn has_last_work(&self) -> bool {
        self.tally().has_unwritten()
    }

    fn last_work(&self, connection: &Connection) -> Result<()> {
        stats::write(&Work::new(connection, self))
    }

    fn closed(&self) {
        self.close();
    }
}
