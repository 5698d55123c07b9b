//! Hooks of the writer's transactions: another part of this crate is called for each of
//! them.
//!
//! Must never: be offered to code outside of this crate.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::error::Result;
use crate::vfs::kept::KeepingConnection;

/// Hooks of each transaction of a writer, whichever calls are in it. One thread calls it at a
/// time, the one that drives the engine.
pub(crate) trait TransactionHooks: Any + Send + Sync {
    /// A transaction has begun: no other process writes until it ends.
    fn began(&self);
    /// A call begins in it, which may be undone by itself.
    fn call_began(&self);
    /// The call that began last was undone, and the transaction goes on.
    fn call_undone(&self);
    /// The transaction was committed, and no caller was answered yet.
    fn committed(&self);
    /// The transaction was rolled back, or its outcome is not known.
    fn not_committed(&self);
    /// Returns true if [`last_work`](Self::last_work) is to be done, as the writer's last call.
    fn has_last_work(&self) -> bool;
    /// Does the last work inside a transaction before the writer is closed. It may be called again.
    fn last_work(&self, connection: &KeepingConnection) -> Result<()>;
    /// The writer takes no calls any more.
    fn closed(&self);
}

/// A place for hooks, which are put there when they are first needed.
#[derive(Clone, Default)]
pub(super) struct TransactionHooksPlace(pub(super) Arc<OnceLock<Arc<dyn TransactionHooks>>>);

impl fmt::Debug for TransactionHooksPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TransactionHooksPlace").field(&self.0.get().is_some()).finish()
    }
}

impl TransactionHooksPlace {
    /// The hooks, if there are any.
    pub(super) fn get(&self) -> Option<&Arc<dyn TransactionHooks>> {
        self.0.get()
    }
}
