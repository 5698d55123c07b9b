//! `leafpress queue schedule`: jobs that are pushed again and again.
//!
//! Must never: push a job itself; the processes that claim jobs do.

use leafpress::Result;
use leafpress::queue::{Missed, Schedule, ScheduleInfo};
use serde_json::json;

use super::database::{Database, with_made_queue};
use super::template::Template;
use super::view::Looked;
use crate::exit::Status;
use crate::flags::{
    QueueMissedFlag, QueueScheduleAddFlags, QueueScheduleListFlags, QueueScheduleRemoveFlags, When,
};
use crate::{output, summary};

/// Adds a schedule, or replaces the one of its name.
pub fn add(flags: &QueueScheduleAddFlags) -> Status {
    let object = add_schedule(flags).map(|()| json!({"queue": flags.queue, "name": flags.name}));
    output::report(object, flags.common.json, |_| String::new(), |_| Status::Done)
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
    with_made_queue(&flags.database, &flags.queue, &flags.common, |queue| queue.schedule(&schedule))
}

/// A schedule, and the queue that it pushes to.
#[derive(serde::Serialize)]
struct Listed {
    queue: String,
    #[serde(flatten)]
    schedule: ScheduleInfo,
}

/// Shows the schedules of the queue that is named, or of all.
pub fn list(flags: &QueueScheduleListFlags) -> Status {
    let schedules = schedules(flags);
    let text = schedules.as_ref().map(|all| {
        let lines: Vec<_> = all.iter().map(|it| (it.queue.as_str(), &it.schedule)).collect();
        summary::of_schedules(&lines, flags.queue.is_none())
    });
    let text = text.unwrap_or_default();
    let object = schedules.map(|schedules| json!({ "schedules": schedules }));
    output::answer(object, flags.common.json, |_| text, |_| Status::Done)
}

fn schedules(flags: &QueueScheduleListFlags) -> Result<Vec<Listed>> {
    let looked = Looked::at(&flags.database, &flags.common)?;
    let names = match &flags.queue {
        Some(name) => vec![name.clone()],
        None => looked.names()?,
    };
    let mut all = Vec::new();
    for queue in names {
        let schedules = looked.schedules(&queue)?;
        all.extend(schedules.into_iter().map(|schedule| Listed { queue: queue.clone(), schedule }));
    }
    Ok(all)
}

/// Removes a schedule.
pub fn remove(flags: &QueueScheduleRemoveFlags) -> Status {
    let outcome = remove_schedule(flags).map(|()| json!({ "removed": flags.name }));
    output::report(outcome, flags.common.json, |_| String::new(), |_| Status::Done)
}

fn remove_schedule(flags: &QueueScheduleRemoveFlags) -> Result<()> {
    let database = Database::existing(&flags.database, &flags.common)?;
    if database.queue(&flags.queue)?.unschedule(&flags.name)? {
        return Ok(());
    }
    let reason = format!("the queue '{}' has no schedule '{}'", flags.queue, flags.name);
    let error = database.not_found("schedule", &flags.name, &reason);
    Err(error.to_do("see `leafpress queue schedule list`"))
}
