//! The calls of a [`Queue`] about its schedules.

use super::recurrence::{BadSchedule, Recurrence};
use super::{Schedule, ScheduleInfo, refused, table};
use crate::error::{Error, Result};
use crate::queue::Queue;
use crate::writer::PendingCall;

/// The error of a schedule that would never push a job.
fn over(schedule: &Schedule) -> Error {
    let reason = format!("\"{}\" never happens again: its last moment has passed", schedule.cron);
    let to_do = "let its year be one to come, or leave the year out".to_owned();
    refused(&schedule.name, BadSchedule { reason, to_do })
}

impl Queue {
    /// Keeps a schedule, in place of that of the same name if there is one.
    ///
    /// The first occurrence is the next one from now on. If the expression and
    /// the time zone are those that are kept already, the next occurrence stays
    /// as it is, even if it has passed: so each process may do this at its start.
    ///
    /// # Errors
    /// If the job has a due time of its own, or metadata that are no object; if all occurrences of a
    /// new schedule have passed; as [`push`](Self::push). The schedule is as it was before.
    pub fn schedule(&self, schedule: &Schedule) -> Result<()> {
        self.schedule_async(schedule).wait()
    }

    /// As [`schedule`](Self::schedule), as a future.
    pub fn schedule_async(&self, schedule: &Schedule) -> PendingCall<()> {
        let recurrence = schedule.check_template().and_then(|()| {
            Recurrence::parse(&schedule.cron, &schedule.timezone)
                .map_err(|bad| refused(&schedule.name, bad))
        });
        let recurrence = match recurrence {
            Ok(recurrence) => recurrence,
            Err(error) => return self.writer.refused_async(error),
        };
        let schedule = schedule.clone();
        self.call(move |work, queue| {
            let kept_ms = table::kept_next_ms(work, queue, &schedule)?;
            let next_at_ms = kept_ms.or_else(|| recurrence.next_after_ms(work.now_ms));
            if next_at_ms.is_none() && !table::is_there(work, queue, &schedule)? {
                return Err(over(&schedule));
            }
            table::keep(work, queue, &schedule, next_at_ms)?;
            // A claim that waits may have to wake up earlier now.
            work.wake(&*work.row(queue)?, 1);
            Ok(())
        })
    }

    /// Forgets a schedule, and returns true if there was one. Its jobs stay.
    ///
    /// # Errors
    /// As [`push`](Self::push). The schedule is still there.
    pub fn unschedule(&self, name: &str) -> Result<bool> {
        self.unschedule_async(name).wait()
    }

    /// As [`unschedule`](Self::unschedule), as a future.
    pub fn unschedule_async(&self, name: &str) -> PendingCall<bool> {
        let name = name.to_owned();
        self.call(move |work, queue| table::forget(work, queue, &name))
    }

    /// The schedules of the queue, by name.
    ///
    /// # Errors
    /// If the table cannot be read.
    pub fn schedules(&self) -> Result<Vec<ScheduleInfo>> {
        self.schedules_async().wait()
    }

    /// As [`schedules`](Self::schedules), as a future.
    pub fn schedules_async(&self) -> PendingCall<Vec<ScheduleInfo>> {
        self.call(table::list)
    }
}
