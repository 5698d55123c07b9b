//! `leafpress queue stats`: once, or again and again.
//!
//! Must never: go on when stdout's reader has gone, or draw where stdout is no terminal.

#[cfg(feature = "rqlite")]
mod cluster;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use console::Term;
use leafpress::queue::QueueStats;
use leafpress::{Error, Result};
use serde_json::{Value, json};

use super::view::Looked;
use crate::exit::Status;
use crate::flags::QueueStatsFlags;
use crate::{interrupt, output, summary};

/// Escape sequence that clears the terminal from the cursor to its end.
const CLEAR_TO_END: &str = "\x1b[0J";

/// Shows the statistics of queues.
pub fn run(flags: &QueueStatsFlags) -> Status {
    let outcome = match flags.watch {
        Some(interval) => watch(flags, interval).map(|()| Status::Done),
        None => once(flags),
    };
    match outcome {
        Ok(status) => status,
        Err(error) => output::print_failure(error, flags.common.json),
    }
}

/// The place of the queues.
enum Place {
    File(Box<Looked>),
    #[cfg(feature = "rqlite")]
    Cluster(leafpress_rqlite::RqliteQueues),
}

/// Statistics of the queue that the flags name, or of all queues.
struct Seen {
    all: Vec<QueueStats>,
    json: Value,
}

impl Place {
    fn of(flags: &QueueStatsFlags) -> Result<Self> {
        #[cfg(feature = "rqlite")]
        if let Some(url) = crate::cluster::url_of(&flags.database) {
            return super::place::connect(url, &(&flags.common).into()).map(Self::Cluster);
        }
        Looked::at(&flags.database, &flags.common).map(|looked| Self::File(Box::new(looked)))
    }

    /// Sees to it that the next look is at the queues as they are then.
    fn renew(&mut self, flags: &QueueStatsFlags) -> Result<()> {
        match self {
            Self::File(looked) => {
                if looked.is_of_one_moment() {
                    **looked = Looked::at(&flags.database, &flags.common)?;
                }
            }
            #[cfg(feature = "rqlite")]
            Self::Cluster(_) => {}
        }
        Ok(())
    }

    /// Looks at the queues; `None` if `is_stopped` says so before the last of them.
    fn look(&self, flags: &QueueStatsFlags, is_stopped: impl Fn() -> bool) -> Result<Option<Seen>> {
        match self {
            Self::File(looked) => {
                let names = match &flags.queue {
                    Some(name) => vec![name.clone()],
                    None => looked.names()?,
                };
                let mut all = Vec::with_capacity(names.len());
                for name in &names {
                    if is_stopped() {
                        return Ok(None);
                    }
                    all.push(looked.stats(name)?);
                }
                Ok(Some(Seen { json: json!({ "queues": all }), all }))
            }
            #[cfg(feature = "rqlite")]
            Self::Cluster(queues) => {
                let found = cluster::look(queues, flags.queue.as_deref())?;
                let all = found.iter().map(cluster::as_of_a_file).collect();
                Ok(Some(Seen { all, json: json!({ "queues": found }) }))
            }
        }
    }

    /// A cluster counts what its queues hold, and not what has happened.
    fn has_rates(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

fn once(flags: &QueueStatsFlags) -> Result<Status> {
    let place = Place::of(flags)?;
    let Some(seen) = place.look(flags, || false)? else { return Ok(Status::Done) };
    let text = || summary::of_queues(&seen.all, place.has_rates());
    Ok(output::print_answer(flags.common.json, &seen.json, text))
}

fn watch(flags: &QueueStatsFlags, interval: Duration) -> Result<()> {
    let (stop, stopped) = channel();
    interrupt::on_each_interrupt(1, move |_| {
        // The receiver is dropped only when the command is about to end.
        let _ = stop.send(());
    });
    let mut place = Place::of(flags)?;
    let has_rates = place.has_rates();
    let draws = !flags.common.json && io::stdout().is_terminal() && output::stderr_is_terminal();
    // Number of open jobs at each look, for the small curve.
    let mut past: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    let mut lines_drawn = 0;
    loop {
        let is_stopped = || stopped.try_recv().is_ok();
        let Some(Seen { all, json }) = place.look(flags, is_stopped)? else { return Ok(()) };
        let text = if flags.common.json {
            format!("{json}\n")
        } else if draws {
            for stats in &all {
                past.entry(stats.queue.clone()).or_default().push(stats.jobs.open());
            }
            summary::of_queues_within(&all, has_rates, &mut past, Term::stdout().size_checked())
        } else {
            all.iter().map(|it| summary::of_queue_in_a_line(it, has_rates)).collect()
        };
        let up = if lines_drawn > 0 {
            format!("\x1b[{lines_drawn}A\r{CLEAR_TO_END}")
        } else {
            String::new()
        };
        let mut stdout = anstream::stdout().lock();
        match stdout.write_all((up + &text).as_bytes()).and_then(|()| stdout.flush()) {
            Ok(()) => {}
            // Its reader has gone, so there is no more to do.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(Error::io("write to", Path::new("stdout"), error)),
        }
        lines_drawn = if draws { text.lines().count() } else { 0 };
        if stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout) {
            return Ok(());
        }
        place.renew(flags)?;
    }
}
