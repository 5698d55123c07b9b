//! The seam: where a group is committed.
//!
//! Grouping, order, back-pressure and tickets know nothing of SQLite files. They
//! hand a [`Group`] to a [`CommitTarget`], which answers every call in it. The
//! database in this process ([`LocalTarget`](super::local)) is one; a
//! replicated one behind a network would be another.
//!
//! Must never: let a target see a call that was cancelled, or a caller see an
//! answer before the target has returned.

use super::call::{Answer, Call};
use crate::error::{Error, Result};

/// Where groups are committed.
///
/// For each group `commit` is called once, by one thread at a time: the
/// writer's own or that of a caller that waits. When it returns, each call must have an [`answer`](Group::answer), and those whose
/// answer is `Ok` must be as durable as the target promises. One call's failure
/// must not be another's. The calls' order is the order in which they must take
/// effect.
pub trait CommitTarget: Send {
    /// Commits a group.
    ///
    /// # Errors
    /// If no further group can be committed: the writer stops, and tells that
    /// reason to all who come. Calls of this group that have no answer yet are
    /// answered that their outcome is unknown.
    fn commit(&mut self, group: &mut Group) -> Result<(), String>;

    /// Called once after the last group.
    ///
    /// # Errors
    /// What could not be brought to its end.
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Calls that are committed together, and their answers.
#[derive(Debug, Default)]
pub struct Group {
    calls: Vec<(Call, Option<Result<Answer>>)>,
}

impl Group {
    /// A group of these calls, without answers.
    pub fn new(calls: impl IntoIterator<Item = Call>) -> Self {
        Self { calls: calls.into_iter().map(|call| (call, None)).collect() }
    }

    pub(super) fn clear(&mut self) {
        self.calls.clear();
    }

    pub(super) fn push(&mut self, call: Call) {
        self.calls.push((call, None));
    }

    /// How many calls there are.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The call at `index`, in order.
    pub fn call(&mut self, index: usize) -> &mut Call {
        &mut self.calls[index].0
    }

    /// What the call at `index` is answered. The last answer counts.
    pub fn answer(&mut self, index: usize, answer: Result<Answer>) {
        self.calls[index].1 = Some(answer);
    }

    /// Whether the call at `index` has failed, by its answer so far.
    pub fn has_failed(&self, index: usize) -> bool {
        matches!(self.calls[index].1, Some(Err(_)))
    }

    /// The answers, in order; calls without one have an unknown outcome.
    pub(super) fn take_answers(&mut self) -> impl Iterator<Item = Result<Answer>> + '_ {
        self.calls.drain(..).map(|(_, answer)| {
            answer.unwrap_or_else(|| {
                Err(Error::unknown_outcome("the writer stopped in the middle of it"))
            })
        })
    }
}
