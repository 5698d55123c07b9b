//! The transaction hooks of the session.

use super::session::{Session, Work};
use super::stats;
use crate::error::Result;
use crate::vfs::kept::KeepingConnection;
use crate::writer::TransactionHooks;

impl TransactionHooks for Session {
    fn began(&self) {
        Self::began(self);
    }

    fn call_began(&self) {
        self.counters().call_began();
    }

    fn call_undone(&self) {
        Self::call_undone(self);
    }

    fn committed(&self) {
        Self::committed(self);
    }

    fn not_committed(&self) {
        Self::not_committed(self);
    }

    fn has_last_work(&self) -> bool {
        self.counters().has_unwritten()
    }

    fn last_work(&self, connection: &KeepingConnection) -> Result<()> {
        stats::write(&Work::new(connection, self))
    }

    fn closed(&self) {
        self.close();
    }
}
