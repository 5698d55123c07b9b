//! The seam: where a group is committed.
//!
//! Grouping, order, back-pressure and tickets know nothing of SQLite files. They
//! hand a [`Group`] to a [`CommitTarget`], which answers every call in it.
//! [`LocalTarget`](super::local) is the database of this process; the crate
//! `leafpress-rqlite` has one for a cluster.
//!
//! Must never: let a target see a call that was cancelled, or a caller see an
//! answer before the target has returned.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;

use super::call::{Answer, Call};
use super::caught::drop_caught;
use super::interrupt::Interrupts;
use super::maintenance::Maintenance;
use super::request::Batch;
use crate::error::{Error, Result};

/// A target, which commits groups.
///
/// For each group `commit` is called once, by one thread at a time: the writer's own or that of a
/// caller that waits. When it returns, each call must have an [`answer`](Group::answer), and those
/// whose answer is `Ok` must be as durable as the target promises. One call's failure must not be
/// another's. The calls' order is the order in which they must take effect.
///
/// ```
/// use leafpress::writer::{Answer, Call, CommitTarget, Executed, Group, Writer};
///
/// /// Takes every statement, and keeps none.
/// struct Nowhere;
///
/// impl CommitTarget for Nowhere {
///     fn commit(&mut self, group: &mut Group<'_>) -> Result<(), String> {
///         for index in 0..group.len() {
///             let answer = match group.call(index) {
///                 Call::Execute(_) => {
///                     Ok(Answer::Executed(Executed::new(0, 0)))
///                 }
///                 _ => Err(leafpress::Error::aborted("only single statements can be sent there")),
///             };
///             group.answer(index, answer);
///         }
///         Ok(())
///     }
/// }
///
/// let writer = Writer::with_target(Nowhere, 100)?;
/// writer.execute("INSERT INTO far_away VALUES (1)", ())?;
/// assert!(writer.execute_batch("SELECT 1").is_err());
/// # Ok::<(), leafpress::Error>(())
/// ```
pub trait CommitTarget: Send {
    /// Commits a group.
    ///
    /// # Errors
    /// If no further group can be committed: the writer stops, and tells that
    /// reason to all who come. Calls of this group that have no answer yet are
    /// answered that their outcome is unknown.
    fn commit(&mut self, group: &mut Group<'_>) -> Result<(), String>;

    /// Maintains the database, between two groups and outside of a transaction.
    ///
    /// # Errors
    /// That of the work, of which nothing is left then. A target that does not say otherwise
    /// refuses it.
    fn maintain(&mut self, work: Maintenance) -> Result<()> {
        Err(Error::misuse(format!(
            "this writer's groups are committed elsewhere: there is no database here for {work}"
        )))
    }

    /// Lets `read` use the connection between two groups, in a read transaction. For work of this
    /// crate.
    #[doc(hidden)]
    fn read(&mut self, _read: Reading<'_>) -> Result<()> {
        Err(Error::misuse("this writer's groups are committed elsewhere: there is nothing to read"))
    }

    /// Called once after the last group.
    ///
    /// # Errors
    /// A description of the work that could not be brought to its end.
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Work of this crate that reads a whole database.
pub(super) type Reading<'r> = &'r mut dyn FnMut(&Connection) -> Result<()>;

/// Calls that are committed together, and their answers.
#[derive(Debug, Default)]
pub struct Group<'c> {
    calls: Vec<Member<'c>>,
    /// The stops that were asked for; none in a group that was made by hand.
    interrupts: Option<Arc<Interrupts>>,
}

/// A call of a group.
#[derive(Debug)]
struct Member<'c> {
    call: Call<'c>,
    answer: Option<Result<Answer>>,
    /// Number by which it is interrupted; 0 in a group that was made by hand.
    number: u64,
    limit: Option<Duration>,
}

impl<'c> Group<'c> {
    /// A group of these calls, without answers.
    pub fn new(calls: impl IntoIterator<Item = Call<'c>>) -> Self {
        let member = |call| Member { call, answer: None, number: 0, limit: None };
        Self { calls: calls.into_iter().map(member).collect(), interrupts: None }
    }

    /// An empty group whose calls can be interrupted.
    pub(super) fn interrupted_by(interrupts: Arc<Interrupts>) -> Self {
        Self { calls: Vec::new(), interrupts: Some(interrupts) }
    }

    pub(super) fn clear(&mut self) {
        self.calls.clear();
    }

    pub(super) fn push(&mut self, call: Call<'c>, number: u64, limit: Option<Duration>) {
        self.calls.push(Member { call, answer: None, number, limit });
    }

    /// The number by which the call at `index` is interrupted.
    pub(super) fn number(&self, index: usize) -> u64 {
        self.calls[index].number
    }

    /// Returns true if the caller of the call at `index` has asked for its end since it was
    /// submitted. A target that can stop calls asks this as it carries one out, leaves
    /// nothing of it, and answers [`Interrupted`](crate::ErrorKind::Interrupted).
    pub fn is_interrupted(&self, index: usize) -> bool {
        let number = self.calls[index].number;
        self.interrupts.as_ref().is_some_and(|interrupts| interrupts.is_asked(number))
    }

    /// The longest time that the call at `index` may run, if its caller set a limit.
    pub fn call_limit(&self, index: usize) -> Option<Duration> {
        self.calls[index].limit
    }

    /// Number of calls.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Returns true if there is no call.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The call at `index`, in order.
    pub fn call(&mut self, index: usize) -> &mut Call<'c> {
        &mut self.calls[index].call
    }

    /// Sets the answer to the call at `index`. The last answer counts.
    pub fn answer(&mut self, index: usize, answer: Result<Answer>) {
        if let Some(earlier) = self.calls[index].answer.replace(answer) {
            // It may hold a value of the caller's, of a run that was undone.
            drop_caught(earlier);
        }
    }

    /// Returns true if the call at `index` has failed, by its answer so far.
    pub fn has_failed(&self, index: usize) -> bool {
        matches!(self.calls[index].answer, Some(Err(_)))
    }

    /// Drops the calls that run code of callers as they are dropped.
    pub(super) fn drop_closures(&mut self) {
        for member in self.calls.iter_mut().filter(|member| !member.call.is_plain_data()) {
            member.call = Call::Batch(Batch::new());
        }
    }

    /// The answers, in order, each with its call if that is plain data; calls without an answer
    /// have an unknown outcome.
    pub(super) fn take_answers(
        &mut self,
    ) -> impl Iterator<Item = (Result<Answer>, Option<Call<'c>>)> + '_ {
        self.calls.drain(..).map(|Member { call, answer, .. }| {
            let answer = answer.unwrap_or_else(|| {
                Err(Error::unknown_outcome("the writer stopped in the middle of it"))
            });
            (answer, call.is_plain_data().then_some(call))
        })
    }
}
