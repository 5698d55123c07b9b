//! Time of each cycle, and the cycles in which a checkpoint moved pages.
//!
//! In WAL mode only a checkpoint writes to the database's own file. So a cycle after
//! which that file has changed (its size, or the time of its last change) was one in which
//! a checkpoint moved pages, of whichever connection. The clock of a file system may tick a few
//! milliseconds at a time: of two checkpoints within one tick the second is not seen.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::rung::{Cycler, CyclesRung, ROWS_OF_CYCLE};
use crate::rung::result::RungResult;
use crate::statistics::latency;
use crate::usage::Usage;

/// A run of cycles on its way.
pub(super) struct Record {
    rung: CyclesRung,
    database: PathBuf,
    before: Usage,
    start: Instant,
    /// Moment at which the last cycle's answer was there.
    last_answer: Instant,
    cycles_us: Vec<f64>,
    checkpoints: Vec<usize>,
    /// As the database's file was after the cycle before.
    file: Option<(u64, SystemTime)>,
    /// Time for looking at files while nothing else went on, which counts for no rival.
    looking: Duration,
    log_bytes: Option<u64>,
}

impl Record {
    /// Begins the time.
    pub(super) fn begin(rung: CyclesRung, database: &Path) -> Self {
        let file = if rung.has_log() { state_of(database) } else { None };
        let before = Usage::now();
        let start = Instant::now();
        Self {
            rung,
            database: database.to_owned(),
            before,
            start,
            last_answer: start,
            cycles_us: Vec::with_capacity(rung.cycles as usize),
            checkpoints: Vec::new(),
            file,
            looking: Duration::ZERO,
            log_bytes: None,
        }
    }

    /// Takes in a cycle that began at `began` and has its answer now.
    pub(super) fn cycle(&mut self, began: Instant) {
        let now = Instant::now();
        self.cycles_us.push((now - began).as_secs_f64() * 1e6);
        if self.rung.has_log() {
            let file = state_of(&self.database);
            if file != self.file {
                self.checkpoints.push(self.cycles_us.len() - 1);
                self.file = file;
            }
            self.looked_since(now);
        }
        self.last_answer = Instant::now();
    }

    /// Returns true if no further cycle is to begin.
    pub(super) fn is_out_of_patience(&self) -> bool {
        self.start.elapsed() >= self.rung.time_max()
    }

    /// Looks how large the log has become, before it goes.
    pub(super) fn look_at_log(&mut self) {
        let now = Instant::now();
        let mut log = self.database.clone().into_os_string();
        log.push("-wal");
        self.log_bytes = fs::metadata(Path::new(&log)).ok().map(|file| file.len());
        self.looked_since(now);
    }

    fn looked_since(&mut self, began: Instant) {
        // Where cycles overlap, work went on meanwhile.
        if !self.overlaps() {
            self.looking += began.elapsed();
        }
    }

    /// Ends the time: the database is closed.
    pub(super) fn end(self) -> RungResult {
        let wall = self.start.elapsed().saturating_sub(self.looking);
        let in_cycles = if self.overlaps() {
            (self.last_answer - self.start).as_secs_f64()
        } else {
            self.cycles_us.iter().sum::<f64>() / 1e6
        };
        let used = Usage::now().since(self.before);
        let rows = self.cycles_us.len() as u64 * ROWS_OF_CYCLE;
        let rows_in_full = self.rung.rows();
        RungResult {
            wall_s: wall.as_secs_f64(),
            rows,
            rows_in_full: (rows < rows_in_full).then_some(rows_in_full),
            latency_us: latency(&self.cycles_us),
            wal_bytes_max: self.log_bytes,
            outside_s: Some((wall.as_secs_f64() - in_cycles).max(0.0)),
            cycles_us: self.cycles_us,
            checkpoints: self.checkpoints,
            ..RungResult::of(used)
        }
    }

    /// Returns true if several cycles are under way at once, so that their sum is no time.
    fn overlaps(&self) -> bool {
        matches!(self.rung.by, Cycler::WriterInFlight(_))
    }
}

/// Size and time of change, asked for by name.
fn state_of(database: &Path) -> Option<(u64, SystemTime)> {
    let file = fs::metadata(database).ok()?;
    Some((file.len(), file.modified().ok()?))
}
