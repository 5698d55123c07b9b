//! `leafpress queue settings`: shows and changes the settings of a queue.
//!
//! Must never: change a setting that the flags do not name, or make a database to look at.

use leafpress::Result;
use leafpress::queue::Settings;

use super::database::with_made_queue;
use super::json::SettingsObject;
use super::place::JobQueue;
use crate::exit::Status;
use crate::flags::{OrNone, QueueSettingsFlags};
use crate::{output, summary};

/// Changes the settings that the flags name, and shows all.
pub fn run(flags: &QueueSettingsFlags) -> Status {
    let outcome = settings(flags);
    let name = &flags.place.queue;
    let text = outcome.as_ref().map(|it| summary::of_queue_settings(name, it)).unwrap_or_default();
    let object = outcome.map(|settings| SettingsObject { queue: name, settings });
    output::report(object, flags.common.json, |_| text, |_| Status::Done)
}

fn settings(flags: &QueueSettingsFlags) -> Result<Settings> {
    let (place, common) = (&flags.place, &flags.common);
    if changes(flags).is_empty() {
        return JobQueue::existing(place, common)?.settings();
    }
    if let Some(queue) = JobQueue::made_on_cluster(place, common) {
        return queue?.configure(all_of(changes(flags)));
    }
    with_made_queue(&place.database, &place.queue, common, |queue| {
        queue.configure(all_of(changes(flags)))
    })
}

fn all_of(changes: Vec<Change>) -> impl FnMut(&mut Settings) + Send + 'static {
    move |settings| changes.iter().for_each(|change| change(settings))
}

type Change = Box<dyn Fn(&mut Settings) + Send>;

/// A change for each flag that is there.
fn changes(flags: &QueueSettingsFlags) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    if let Some(lease) = flags.lease {
        changes.push(Box::new(move |settings| settings.lease = lease));
    }
    if let Some(attempts) = flags.attempts {
        changes.push(Box::new(move |settings| settings.attempts_max = attempts));
    }
    if let Some(words) = flags.backoff {
        changes.push(Box::new(move |settings| {
            let backoff = &mut settings.backoff;
            backoff.first = words.first;
            backoff.factor = words.factor.unwrap_or(backoff.factor);
            // FIRST alone is enough, even where it is more than the queue's MAX.
            backoff.max = words.max.unwrap_or(backoff.max.max(words.first));
            backoff.jitter = words.jitter.unwrap_or(backoff.jitter);
        }));
    }
    if let Some(time) = flags.keep_done {
        changes.push(Box::new(move |settings| settings.keep_done = time));
    }
    if let Some(OrNone(time)) = flags.keep_dead {
        changes.push(Box::new(move |settings| settings.keep_dead = time));
    }
    if let Some(OrNone(jobs)) = flags.concurrency {
        changes.push(Box::new(move |settings| settings.concurrency = jobs));
    }
    if let Some(jobs) = flags.group_concurrency {
        changes.push(Box::new(move |settings| settings.group_concurrency = jobs));
    }
    if let Some(OrNone(rate)) = flags.rate {
        changes.push(Box::new(move |settings| settings.rate = rate));
    }
    if let Some(OrNone(rate)) = flags.group_rate {
        changes.push(Box::new(move |settings| settings.group_rate = rate));
    }
    changes
}
