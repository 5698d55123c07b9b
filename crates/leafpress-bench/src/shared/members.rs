//! The rung's process: makes the database, starts the members, lets them begin at one moment, and
//! sums up what they answer.
//!
//! Must never: wait for a member for ever, or leave one running.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use leafpress::queue::Queue;
use serde_json::{Value, json};

use super::member::{GO, READY};
use super::rung::{Role, SharedRung, Work};
use super::{ours, rivals};
use crate::commits::TABLE;
use crate::connect;
use crate::error::{Error, Result};
use crate::pragmas::Pragmas;
use crate::queue::QUEUE_NAME;
use crate::recording;
use crate::report::{Processes, Safety};
use crate::rung::request::Request;
use crate::rung::result::{RungResult, SimulatedWork};

/// Runs the members and sums up.
pub(super) fn run(rung: SharedRung, database: &Path) -> Result<RungResult> {
    make(rung, database)?;
    let mut members = Members::start(rung, database)?;
    let patience = Duration::from_millis(rung.patience_ms);
    for (index, line) in members.line_of_each(patience, false)?.iter().enumerate() {
        if line != READY {
            return Err(members.error(index, &format!("said {line:?}, not {READY:?}")));
        }
    }
    members.go()?;
    let limit = patience + Duration::from_millis(rung.milliseconds_max);
    let lines = members.line_of_each(limit, true)?;
    let parsed = lines.iter().enumerate().map(|(index, line)| {
        serde_json::from_str(line).map_err(|error| members.error(index, &error.to_string()))
    });
    let answers = parsed.collect::<Result<Vec<RungResult>>>()?;
    members.wait()?;
    tidy(database)?;
    sum_up(rung, &answers)
}

/// Makes the database that all members open.
fn make(rung: SharedRung, database: &Path) -> Result<()> {
    match rung.work {
        Work::Rows => {
            let connection = connect::open(database, None)?;
            Pragmas::WAL_FULL.set(&connection)?;
            connection.execute_batch(TABLE).map_err(Error::sqlite("make the table"))?;
            connect::close(connection)
        }
        Work::Jobs => {
            let writer = connect::open_writer(Safety::Durable, database, None)?;
            drop(Queue::open(&writer, QUEUE_NAME)?);
            Ok(writer.close()?)
        }
    }
}

/// Leaves nothing beside the database: of two members that close at the same moment, each may leave
/// the log to the other one.
fn tidy(database: &Path) -> Result<()> {
    let connection = connect::open(database, None)?;
    connection
        .query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
        .map_err(Error::sqlite("read the database that the members left"))?;
    connect::close(connection)?;
    let path = rivals::mutex_file(database);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", &path)(error))
        }
        _ => Ok(()),
    }
}

/// Line of a member, with its index; `None` when the member has closed its stdout.
type Said = (usize, Option<String>);

/// The members, killed when this is dropped.
struct Members {
    rung: SharedRung,
    children: Vec<Child>,
    /// Open until this is dropped: at the end of its stdin a member ends itself.
    stdins: Vec<ChildStdin>,
    said: Receiver<Said>,
}

impl Members {
    fn start(rung: SharedRung, database: &Path) -> Result<Self> {
        let (sender, said) = channel();
        let mut members = Self { rung, children: Vec::new(), stdins: Vec::new(), said };
        for index in 0..rung.processes.max(1) {
            let request = member_request(rung, index, database);
            let mut command = request.command(&rung.name())?;
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().map_err(Error::io("start", Path::new("a member")))?;
            let stdout = child.stdout.take();
            members.stdins.extend(child.stdin.take());
            members.children.push(child);
            let (index, sender) = (index as usize, sender.clone());
            thread::spawn(move || stdout.map(|stdout| listen(index, stdout, &sender)));
        }
        Ok(members)
    }

    /// The next line of each member; after its last line a member may end.
    fn line_of_each(&mut self, limit: Duration, is_last: bool) -> Result<Vec<String>> {
        let until = Instant::now() + limit;
        let mut lines: Vec<Option<String>> = vec![None; self.children.len()];
        while let Some(missing) = lines.iter().position(Option::is_none) {
            let left = until.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok((index, Some(line))) => lines[index] = Some(line),
                Ok((index, None)) if is_last && lines[index].is_some() => {}
                Ok((index, None)) => return Err(self.ended(index)),
                Err(_) => {
                    let reason = format!("did not answer within {limit:.1?} and was killed");
                    return Err(self.error(missing, &reason));
                }
            }
        }
        Ok(lines.into_iter().flatten().collect())
    }

    /// Lets all members begin.
    fn go(&mut self) -> Result<()> {
        let told = self.stdins.iter_mut().map(|stdin| writeln!(stdin, "{GO}"));
        let told: Vec<io::Result<()>> = told.collect();
        for (index, told) in told.into_iter().enumerate() {
            told.map_err(|error| self.error(index, &format!("cannot be told to begin: {error}")))?;
        }
        Ok(())
    }

    /// Waits until all members have ended, as they do after their answers.
    fn wait(&mut self) -> Result<()> {
        for index in 0..self.children.len() {
            if !self.children[index].wait().is_ok_and(|status| status.success()) {
                return Err(self.ended(index));
            }
        }
        Ok(())
    }

    /// The error of a member that has ended without an answer.
    fn ended(&mut self, index: usize) -> Error {
        let child = &mut self.children[index];
        // Its stdout is closed, so it is ending; a member that only closed it would hang here.
        let _ = child.kill();
        let status = child.wait().map_or_else(|error| error.to_string(), |it| it.to_string());
        let mut said = String::new();
        if let Some(stderr) = &mut child.stderr {
            // What cannot be read is no reason to hide the end.
            let _ = stderr.read_to_string(&mut said);
        }
        self.error(index, &format!("ended before its answer ({status}): {}", said.trim_end()))
    }

    fn error(&self, index: usize, reason: &str) -> Error {
        let count = self.children.len();
        let reason = format!("member {} of {count} {reason}", index + 1);
        Error::rung(self.rung.name(), reason)
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for child in &mut self.children {
            // It may be gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Request to a member, as `RungKind` writes it: that enum is above this file.
pub(super) fn member_request(rung: SharedRung, index: u32, database: &Path) -> Request<Value> {
    let member = SharedRung { role: Role::Member(index), ..rung };
    Request::new(json!({ "shared": member }), database)
}

/// Hands on the lines of a member, and its end.
fn listen(index: usize, stdout: ChildStdout, said: &Sender<Said>) {
    for line in BufReader::new(stdout).lines().map_while(io::Result::ok) {
        if said.send((index, Some(line))).is_err() {
            return;
        }
    }
    // The rung may have failed already.
    let _ = said.send((index, None));
}

/// Figures of all members together.
pub(super) fn sum_up(rung: SharedRung, answers: &[RungResult]) -> Result<RungResult> {
    let rows: u64 = answers.iter().map(|answer| answer.rows).sum();
    let fewest = answers.iter().map(|answer| answer.rows).min().unwrap_or_default();
    let works = || answers.iter().filter_map(|answer| answer.member.as_ref());
    let [pushed, claimed] = works().map(|work| work.jobs_sums).fold([0; 2], ours::plus);
    if pushed != claimed {
        return Err(Error::Unequal {
            name: rung.name(),
            found: format!("{rows} jobs claimed, sum {claimed:x}"),
            expected: format!("as many pushed, sum {pushed:x}"),
        });
    }
    let syncs: Option<u64> = works().map(|work| work.syncs).sum();
    let mut took: Vec<u32> = works().flat_map(|work| &work.took_tenths_us).copied().collect();
    let processes = Processes {
        processes: rung.processes,
        callers: rung.callers,
        curve: rung.curve(),
        slowest_of_mean: fewest as f64 * answers.len() as f64 / rows.max(1) as f64,
        refused: works().map(|work| work.refused).sum(),
        syncs_per_row: syncs.map(|syncs| syncs as f64 / rows.max(1) as f64),
    };
    let played = answers.iter().filter_map(|answer| answer.played);
    Ok(RungResult {
        wall_s: answers.iter().map(|answer| answer.wall_s).fold(0.0, f64::max),
        rows,
        cpu_s: answers.iter().map(|answer| answer.cpu_s).sum(),
        peak_mb: answers.iter().filter_map(|answer| answer.peak_mb).reduce(f64::max),
        latency_us: recording::latency_of(&mut took),
        not_given: answers.iter().find_map(|answer| answer.not_given.clone()),
        processes: Some(processes),
        played: played.reduce(SimulatedWork::plus),
        ..RungResult::default()
    })
}
