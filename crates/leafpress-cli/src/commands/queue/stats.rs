//! `leafpress queue stats`: once, or again and again.
//!
//! Must never: go on when nobody reads any more, or draw where that is no terminal.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use leafpress::Result;
use leafpress::queue::{Queue, QueueStats, names};
use serde_json::json;

use super::Database;
use crate::exit::Status;
use crate::flags::QueueStatsFlags;
use crate::{interrupt, output, summary};

/// Back to the first of so many lines, and away with what stood there.
const UP_AND_CLEAR: &str = "\x1b[0J";

/// Shows what the queues hold.
pub fn run(flags: &QueueStatsFlags) -> Status {
    let outcome = match flags.watch {
        Some(interval) => watch(flags, interval),
        None => once(flags),
    };
    match outcome {
        Ok(()) => Status::Done,
        Err(error) => output::print_failure(&error, flags.common.json),
    }
}

fn once(flags: &QueueStatsFlags) -> Result<()> {
    let database = Database::existing(&flags.database, &flags.common)?;
    let all = stats(&queues(&database, flags)?)?;
    if flags.common.json {
        output::print_json(&json!({ "queues": all }));
    } else {
        output::print_report(&summary::of_queues(&all));
    }
    Ok(())
}

/// The one that is named, or all.
fn queues(database: &Database, flags: &QueueStatsFlags) -> Result<Vec<Queue>> {
    match &flags.queue {
        Some(name) => Ok(vec![database.queue(name)?]),
        None => names(&database.writer)?.iter().map(|name| database.queue(name)).collect(),
    }
}

fn stats(queues: &[Queue]) -> Result<Vec<QueueStats>> {
    queues.iter().map(Queue::stats).collect()
}

fn watch(flags: &QueueStatsFlags, interval: Duration) -> Result<()> {
    let (stop, stopped) = channel();
    interrupt::on_each_interrupt(1, move |_| {
        // Where nobody listens any more, it has ended already.
        let _ = stop.send(());
    });
    let database = Database::existing(&flags.database, &flags.common)?;
    let draws = !flags.common.json && io::stdout().is_terminal() && output::stderr_is_terminal();
    // How many were open at each look, for the small curve.
    let mut past: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut lines_drawn = 0;
    loop {
        let all = stats(&queues(&database, flags)?)?;
        let text = if flags.common.json {
            format!("{}\n", json!({ "queues": all }))
        } else if draws {
            for stats in &all {
                past.entry(stats.queue.clone()).or_default().push(stats.jobs.open());
            }
            summary::of_queues_over_time(&all, &mut past)
        } else {
            all.iter().map(summary::of_queue_in_a_line).collect()
        };
        let up = if lines_drawn > 0 {
            format!("\x1b[{lines_drawn}A\r{UP_AND_CLEAR}")
        } else {
            String::new()
        };
        let mut stdout = anstream::stdout().lock();
        // A reader that has gone has seen enough.
        if stdout.write_all((up + &text).as_bytes()).and_then(|()| stdout.flush()).is_err() {
            return Ok(());
        }
        lines_drawn = if draws { text.lines().count() } else { 0 };
        if stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout) {
            return Ok(());
        }
    }
}
