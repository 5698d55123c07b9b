//! Calls that another part of this crate makes.
//!
//! Closures of callers are watched by the guard, since their code is not known, and have savepoints
//! where calls fail often. The code of a part of this crate (the queue) is known: its statements
//! stay compiled, and it never has a savepoint: it looks before it changes, and an error after a
//! change undoes the whole transaction and has the calls of others carried out again
//! ([`local`](super::local), 2).
//!
//! Must never: be offered to code outside of this crate.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use super::call::{AnyValue, Call, InternalCall};
use super::caught::Caught;
use super::transaction_hooks::TransactionHooks;
use super::{PendingCall, Writer, value};
use crate::error::{Error, Result};
use crate::vfs::kept::KeepingConnection;

impl Writer {
    /// Does `body` inside of a group's transaction and waits for the commit. An
    /// error of it undoes all that it did.
    pub(crate) fn internal<T: Send + 'static>(
        &self,
        body: impl FnMut(&KeepingConnection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.carry_out(internal_call(body), value)
    }

    /// As [`internal`](Self::internal), as a future that never blocks the thread that polls it.
    pub(crate) fn internal_async<T: Send + 'static>(
        &self,
        body: Result<impl FnMut(&KeepingConnection) -> Result<T> + Send + 'static>,
    ) -> PendingCall<T> {
        PendingCall::new(self, body.map(internal_call), value)
    }

    /// A future that gives this error.
    pub(crate) fn refused_async<T: Send + 'static>(&self, error: Error) -> PendingCall<T> {
        PendingCall::new(self, Err(error), value)
    }

    /// The hooks of this writer, made if it has none, of the database's path
    /// and the name of its VFS.
    pub(crate) fn hooks<C: TransactionHooks>(
        &self,
        make: impl FnOnce(&Path, Option<&str>) -> Arc<C>,
    ) -> Result<Arc<C>> {
        let local = self.shared.get()?.local.as_ref().ok_or_else(|| {
            Error::misuse("this writer's groups are committed elsewhere: it has no tables here")
        })?;
        let (path, vfs) = (local.readers.path(), local.readers.vfs());
        let hooks = Arc::clone(local.hooks.0.get_or_init(|| make(path, vfs)));
        let any: Arc<dyn Any + Send + Sync> = hooks;
        any.downcast::<C>().map_err(|_| Error::bug("this writer has hooks of another kind already"))
    }
}

pub(super) fn internal_call<T: Send + 'static>(
    mut body: impl FnMut(&KeepingConnection) -> Result<T> + Send + 'static,
) -> Call<'static> {
    Call::Internal(InternalCall(Caught::new(Box::new(move |connection: &KeepingConnection| {
        body(connection).map(|value| Box::new(value) as AnyValue)
    }))))
}
