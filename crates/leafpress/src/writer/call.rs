//! Calls of the writer and their answers: plain data, so that a group can be committed here or sent
//! elsewhere.
//!
//! Stands between the public calls (`mod.rs`), which make a [`Call`], and a
//! [`CommitTarget`](super::CommitTarget), which carries it out.
//!
//! Must never: know where or with whom a call is committed.

use std::any::Any;
use std::fmt;

use super::caught::Caught;
use super::insert_many::InsertMany;
use super::request::{Batch, Executed, Statement};
use super::transaction::Transaction;
use crate::error::Result;
use crate::vfs::kept::KeepingConnection;

/// A value of the caller's own, on its way back to it.
pub(super) type AnyValue = Box<dyn Any + Send>;

/// The caller's closure, which runs inside a transaction. It may be called again, if another
/// caller's call takes the group's transaction with it.
pub(super) type Body<'c> = Box<dyn FnMut(&Transaction<'_>) -> Result<AnyValue> + Send + 'c>;

/// One caller's transaction. It lives as long as `'c` if its caller waits for it without the
/// queue, and for ever otherwise.
#[non_exhaustive]
pub enum Call<'c> {
    /// A single statement.
    Execute(Statement),
    /// Several statements, all or none.
    Batch(Batch),
    /// Many rows for one table, all or none.
    InsertMany(InsertMany),
    /// Code of the caller. Only a target in this process can run it.
    Closure(Closure<'c>),
    /// Work of this crate itself, as of its queue. Only a target in this process can carry it out.
    Internal(InternalCall),
}

impl Call<'_> {
    /// Returns true if dropping it runs no code of a caller.
    pub(super) fn is_plain_data(&self) -> bool {
        match self {
            Self::Execute(_) | Self::Batch(_) | Self::InsertMany(_) => true,
            Self::Closure(_) | Self::Internal(_) => false,
        }
    }
}

impl fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Execute(statement) => f.debug_tuple("Execute").field(statement).finish(),
            Self::Batch(batch) => f.debug_tuple("Batch").field(batch).finish(),
            Self::InsertMany(_) => f.write_str("InsertMany(..)"),
            Self::Closure(_) => f.write_str("Closure(..)"),
            Self::Internal(_) => f.write_str("Internal(..)"),
        }
    }
}

/// A caller's code, to be run inside a transaction.
pub struct Closure<'c>(pub(super) Caught<Body<'c>>);

impl fmt::Debug for Closure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Closure(..)")
    }
}

/// The answer to a call that was committed.
#[non_exhaustive]
pub enum Answer {
    /// Answer to [`Call::Execute`].
    Executed(Executed),
    /// Answer to [`Call::Batch`].
    Done,
    /// Answer to [`Call::InsertMany`]: number of rows that went in.
    Inserted(u64),
    /// Answer to [`Call::Closure`] and [`Call::Internal`].
    Value(ClosureValue),
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Executed(executed) => f.debug_tuple("Executed").field(executed).finish(),
            Self::Done => f.write_str("Done"),
            Self::Inserted(rows) => f.debug_tuple("Inserted").field(rows).finish(),
            Self::Value(_) => f.write_str("Value(..)"),
        }
    }
}

/// The value that a caller's closure returned.
pub struct ClosureValue(pub(super) Caught<AnyValue>);

impl fmt::Debug for ClosureValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClosureValue(..)")
    }
}

/// Work on the writer's connection. It may be called again, as a closure of a caller may.
pub(super) type InternalBody = Box<dyn FnMut(&KeepingConnection) -> Result<AnyValue> + Send>;

/// Work of this crate itself, inside of the group's transaction.
pub struct InternalCall(pub(super) Caught<InternalBody>);

impl fmt::Debug for InternalCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Internal(..)")
    }
}
