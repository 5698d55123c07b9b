//! Calls that another part of this crate makes, and what accompanies their transactions.
//!
//! Closures of callers are fenced by savepoints and watched by the guard, since their code is
//! not known. The code of a part of this crate (the queue) is known: its statements stay
//! compiled, and it needs no savepoint, since an error after a change undoes the whole
//! transaction and has the calls of others carried out again ([`local`](super::local), 2).
//!
//! Must never: be offered to code outside of this crate.

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rusqlite::Connection;

use super::call::{AnyValue, Call};
use super::caught::Caught;
use super::{Writer, ticket::Ticket, value};
use crate::error::{Error, Result};

/// Work on the writer's connection. It may be called again, as a closure of a caller may.
pub(super) type OwnBody = Box<dyn FnMut(&Connection) -> Result<AnyValue> + Send>;

/// Work of this crate itself, inside of the group's transaction.
pub struct Own(pub(super) Caught<OwnBody>);

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Own(..)")
    }
}

/// Goes with each transaction of a writer, whichever calls are in it. One thread calls it at a
/// time, the one that drives the engine.
pub(crate) trait Companion: Any + Send + Sync {
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
    fn last_work(&self, connection: &Connection) -> Result<()>;
    /// The writer takes no calls any more.
    fn closed(&self);
}

/// A place for a companion, which is put there when it is first needed.
#[derive(Clone, Default)]
pub(super) struct CompanionPlace(Arc<OnceLock<Arc<dyn Companion>>>);

impl fmt::Debug for CompanionPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CompanionPlace").field(&self.0.get().is_some()).finish()
    }
}

impl CompanionPlace {
    /// The companion, if there is one.
    pub(super) fn get(&self) -> Option<&Arc<dyn Companion>> {
        self.0.get()
    }
}

impl Writer {
    /// Does `body` inside of a group's transaction and waits for the commit. An
    /// error of it undoes all that it did.
    pub(crate) fn own<T: Send + 'static>(
        &self,
        body: impl FnMut(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.carry_out(own_call(body), value)
    }

    /// As [`own`](Self::own), without waiting for the commit.
    pub(crate) fn submit_own<T: Send + 'static>(
        &self,
        body: impl FnMut(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<Ticket<T>> {
        self.submit_call(own_call(body), value)
    }

    /// The companion of this writer, made if it has none, of the database's path
    /// and the name of its VFS.
    pub(crate) fn companion<C: Companion>(
        &self,
        make: impl FnOnce(&Path, Option<&str>) -> Arc<C>,
    ) -> Result<Arc<C>> {
        let local = self.shared.get()?.local.as_ref().ok_or_else(|| {
            Error::usage("this writer's groups are committed elsewhere: it has no tables here")
        })?;
        let (path, vfs) = (local.readers.path(), local.readers.vfs());
        let companion = Arc::clone(local.companion.0.get_or_init(|| make(path, vfs)));
        let any: Arc<dyn Any + Send + Sync> = companion;
        any.downcast::<C>()
            .map_err(|_| Error::usage("this writer has a companion of another kind already"))
    }
}

pub(super) fn own_call<T: Send + 'static>(
    mut body: impl FnMut(&Connection) -> Result<T> + Send + 'static,
) -> Call {
    Call::Own(Own(Caught::new(Box::new(move |connection: &Connection| {
        body(connection).map(|value| Box::new(value) as AnyValue)
    }))))
}
