//! Calls that do not go through the queue: the caller's thread waits for its turn at the engine,
//! and does the work itself.
//!
//! So a closure may borrow from its caller's stack, and runs once; and work may be done outside
//! of a transaction, between two groups. The price is a commit of its own.
//!
//! Must never: overtake a call that its thread has submitted before.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::MutexGuard;

use super::call::{Answer, AnyValue, Call, Closure};
use super::caught::{Caught, panicked};
use super::engine::{self, Engine};
use super::maintenance::Maintenance;
use super::ticket::waits_in_closure;
use super::transaction::Transaction;
use super::{Writer, driving};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::lock;

impl Writer {
    /// As [`transaction`](Self::transaction), for a closure that borrows from the function around
    /// it. It runs once, on this thread, in a group of its own, after all calls that wait now. So
    /// it shares its commit with no other call: where many threads write small transactions,
    /// [`transaction`](Self::transaction) is many times as fast.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.db");
    /// # let writer = leafpress::Writer::builder(&path).open()?;
    /// writer.execute_batch("CREATE TABLE word(text)")?;
    /// let (words, mut seen) = (vec!["tea".to_owned(), "pot".to_owned()], Vec::new());
    /// writer.transaction_scoped(|tx| {
    ///     for word in &words {
    ///         seen.push(tx.execute("INSERT INTO word VALUES (?1)", [word])?.last_insert_rowid);
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(seen, [1, 2]);
    /// # Ok::<(), leafpress::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`transaction`](Self::transaction).
    pub fn transaction_scoped<T: Send>(
        &self,
        body: impl FnOnce(&Transaction<'_>) -> Result<T> + Send,
    ) -> Result<T> {
        let (mut body, mut value) = (Some(body), None);
        let run = |transaction: &Transaction<'_>| {
            let Some(body) = body.take() else {
                return Err(Error::misuse("a scoped closure cannot run a second time"));
            };
            value = Some(body(transaction)?);
            Ok(Box::new(()) as AnyValue)
        };
        let call = Call::Closure(Closure(Caught::new(Box::new(run))));
        self.at_the_engine(|engine| engine.commit_alone(call, self.call_limit))?;
        value.ok_or_else(|| Error::misuse("the target answered without running the closure"))
    }

    /// Maintains the database as a whole: between two groups, outside of a transaction, after all
    /// calls that wait now. Calls that come meanwhile wait until it is done, and readers go on.
    /// [`interrupt`](Self::interrupt) stops it.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("app.db");
    /// use leafpress::writer::{Maintenance, Writer};
    ///
    /// let writer = Writer::builder(&path).open()?;
    /// writer.execute_batch("CREATE TABLE note(text)")?;
    /// assert!(writer.execute_batch("VACUUM").is_err()); // each call is a part of a transaction
    /// writer.maintain(Maintenance::Vacuum)?;
    /// # Ok::<(), leafpress::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Busy`](crate::ErrorKind::Busy) if another connection is in the way for longer than the
    /// [busy limit](super::WriterBuilder::busy_limit), as a reader may be for a checkpoint; if
    /// SQLite refuses; in a closure; if the groups are committed elsewhere. The content of the
    /// database is unchanged.
    pub fn maintain(&self, work: Maintenance) -> Result<()> {
        self.maintain_if(work, || true)
    }

    /// As [`maintain`](Self::maintain). `begins` is called when its turn has come, and returns false if
    /// it is not wanted any more.
    ///
    /// # Errors
    /// As [`maintain`](Self::maintain), [`Cancelled`](crate::ErrorKind::Cancelled) if `begins` has
    /// returned false, and [`Panicked`](crate::ErrorKind::Panicked) if it panics.
    pub fn maintain_if(&self, work: Maintenance, begins: impl FnOnce() -> bool) -> Result<()> {
        let done = self.at_the_engine(|engine| {
            engine.between_groups(|target| {
                let is_wanted = catch_unwind(AssertUnwindSafe(begins)).map_err(panicked)?;
                if is_wanted { target.maintain(work) } else { Err(ErrorKind::Cancelled.into()) }
            })
        });
        done.map_err(|error| error.on_disk("the database holds what it held"))
    }

    /// The engine, if no thread drives it and no call waits for it.
    fn idle_engine(&self) -> Option<MutexGuard<'_, Engine>> {
        let shared = self.shared.here()?;
        let may_drive = shared.local.is_some() && !driving::is_driving();
        if !may_drive || shared.queue.has_turn_taken() {
            return None;
        }
        let engine = engine::try_lock(&shared.engine)?;
        // A thread's own calls of before are in the queue, or in a group, which locks the engine.
        if shared.queue.is_idle() {
            return Some(engine);
        }
        drop(engine);
        // A thread that met this lock has left its call to others.
        shared.queue.wake_thread();
        None
    }

    /// Carries out a call on this thread, in a group of its own, if the engine is idle; else gives it
    /// back. This thread calls `is_to_end` meanwhile.
    pub(super) fn carry_out_if_idle(
        &self,
        call: Call<'static>,
        is_to_end: fn() -> bool,
    ) -> std::result::Result<Result<Answer>, Call<'static>> {
        let Some(engine) = self.idle_engine() else { return Err(call) };
        let limit = self.call_limit;
        let commit = |engine: &mut Engine| engine.commit_before_others(call, limit);
        Ok(self.drive(engine, |engine| driving::looking(is_to_end, || commit(engine))))
    }

    /// Waits until no other thread drives the engine, and drives it.
    pub(super) fn at_the_engine<T>(
        &self,
        work: impl FnOnce(&mut Engine) -> Result<T>,
    ) -> Result<T> {
        let shared = self.shared.get()?;
        if driving::is_driving() {
            return Err(waits_in_closure());
        }
        let turn = shared.queue.take_turn();
        let engine = lock(&shared.engine);
        drop(turn);
        self.drive(engine, work)
    }

    /// Does work at the engine, and lets the writer's thread go on behind it.
    fn drive<T>(
        &self,
        mut engine: MutexGuard<'_, Engine>,
        work: impl FnOnce(&mut Engine) -> Result<T>,
    ) -> Result<T> {
        let done = work(&mut engine);
        drop(engine);
        // In a child of `fork` no lock may be taken.
        self.shared.get()?.queue.wake_thread();
        done
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::writer::call_queue::CarriedOutBy;
    use crate::writer::request::Batch;

    /// The caller of the first call found the engine locked by the look, and left its call to others.
    #[test]
    fn a_look_for_an_idle_engine_wakes_the_writers_thread_for_a_call_that_waits() {
        let folder = tempfile::tempdir().unwrap();
        let writer = Writer::builder(folder.path().join("a.db")).open().unwrap();
        writer.execute_batch("CREATE TABLE t(n)").unwrap();
        let queue = &writer.shared.here().unwrap().queue;
        loop {
            let call = Call::Batch(Batch::from("INSERT INTO t VALUES (1)"));
            let ticket = queue.push((call, None), |_| Ok(()), CarriedOutBy::Caller).unwrap();
            let found_idle = writer.idle_engine().is_some();
            let answered = ticket.wait_answered(Some(Duration::from_secs(60)));
            assert_eq!(answered.ok(), Some(true));
            // Otherwise the writer's thread had not begun to sleep, and carried the call out.
            if !found_idle {
                return;
            }
        }
    }

    #[test]
    fn a_panic_of_the_caller_that_maintains_is_that_calls_error() {
        let folder = tempfile::tempdir().unwrap();
        let writer = Writer::builder(folder.path().join("a.db")).open().unwrap();
        let begins = || -> bool { panic!("it does not begin") };
        let error = writer.maintain_if(Maintenance::Vacuum, begins).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Panicked { .. }), "{error}");
        assert_eq!(writer.stopped(), None);
        writer.execute_batch("CREATE TABLE t(n)").unwrap();
    }
}
