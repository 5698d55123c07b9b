//! `leafpress queue schedule`: jobs that are pushed again and again.
//!
//! Must never: push a job itself; whoever claims does.

use leafpress::Result;
use leafpress::queue::{Missed, Queue, Schedule};
use serde_json::json;

use super::push::Template;
use super::{Database, existing_queue, report};
use crate::exit::Status;
use crate::flags::{
    QueueMissedFlag, QueueScheduleAddFlags, QueueScheduleListFlags, QueueScheduleRemoveFlags, When,
};
use crate::summary;

/// Keeps a schedule.
pub fn add(flags: &QueueScheduleAddFlags) -> Status {
    let object = add_schedule(flags).map(|()| json!({"queue": flags.queue, "name": flags.name}));
    report(object, flags.common.json, |_| String::new(), |_| Status::Done)
}

fn add_schedule(flags: &QueueScheduleAddFlags) -> Result<()> {
    let mut template = Template::new(&flags.job);
    template.expires = flags.expires.map(When::After);
    let payload = template.payload(flags.payload.as_bytes().to_vec(), "PAYLOAD")?;
    let mut schedule = Schedule::cron(&flags.name, &flags.cron)?.job(template.job(payload)?);
    if let Some(zone) = &flags.timezone {
        schedule = schedule.timezone(zone)?;
    }
    if let Some(missed) = flags.missed {
        schedule = schedule.missed(match missed {
            QueueMissedFlag::Once => Missed::Once,
            QueueMissedFlag::Skip => Missed::Skip,
            QueueMissedFlag::All => Missed::All,
        });
    }
    // Made only once all of it makes sense.
    let database = Database::made(&flags.database, &flags.common)?;
    Queue::open(&database.writer, &flags.queue)?.schedule(&schedule)
}

/// Shows the schedules.
pub fn list(flags: &QueueScheduleListFlags) -> Status {
    let schedules = existing_queue(&flags.place, &flags.common).and_then(|queue| queue.schedules());
    let text = schedules.as_ref().map(|it| summary::of_schedules(it)).unwrap_or_default();
    let object = schedules.map(|schedules| json!({ "schedules": schedules }));
    report(object, flags.common.json, |_| text, |_| Status::Done)
}

/// Forgets a schedule.
pub fn remove(flags: &QueueScheduleRemoveFlags) -> Status {
    let outcome = remove_schedule(flags).map(|()| json!({ "removed": flags.name }));
    report(outcome, flags.common.json, |_| String::new(), |_| Status::Done)
}

fn remove_schedule(flags: &QueueScheduleRemoveFlags) -> Result<()> {
    let database = Database::existing(&flags.database, &flags.common)?;
    if database.queue(&flags.queue)?.unschedule(&flags.name)? {
        return Ok(());
    }
    let reason = format!("the queue '{}' has no schedule '{}'", flags.queue, flags.name);
    Err(database.refuse(reason).to_do("see `leafpress queue schedule list`"))
}
