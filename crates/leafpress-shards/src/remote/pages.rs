//! Pages of a remote database: those in front, a bounded cache, and read-ahead.
//!
//! A page that is missing is fetched with the pages that will be wanted next: the rest of its chain
//! of overflow pages, or, where pages are read one after the other, as many as were read so far.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use leafpress::vfs::fork::Process;
use leafpress::vfs::sync::lock;
use leafpress::{Error, Result};
use leafpress_format::header::{self, MAGIC};
use leafpress_format::{PageLayout, chain_pages};

use super::object::Object;
use crate::manifest::{PageRun, PartRecord};

/// Bytes of the first request, where no record says how many are worth it.
const FIRST_BYTES: u64 = 64 << 10;
/// Limit of the pages in front.
const FRONT_BYTES_MAX: u64 = 64 << 20;
/// Pages behind the interior ones that may be the statistics of SQLite's planner.
const SIDE_PAGES: u64 = 4;
/// Bytes between two runs of interior pages that are fetched with them.
const GAP_BYTES_MAX: u64 = 64 << 10;
/// Limit of one request for pages that are read one after the other.
const AHEAD_BYTES_MAX: u64 = 4 << 20;
/// Limit of one request for a chain of overflow pages.
const CHAIN_BYTES_MAX: u64 = 16 << 20;
/// Scans that are told apart: each reads its own stretch of pages.
const SCANS_MAX: usize = 8;
/// First byte of interior pages.
const INTERIOR_KINDS: [u8; 2] = [2, 5];

/// The pages of one object.
#[derive(Debug)]
pub struct RemotePages {
    /// The process that opened them: its threads may hold the locks, and the connections to the store are its own.
    process: Process,
    object: Object,
    layout: PageLayout,
    page_count: u64,
    /// The first pages, which stay in memory.
    front: Vec<u8>,
    cached_pages_max: usize,
    state: Mutex<State>,
    arrived: Condvar,
    fault: Mutex<Option<Error>>,
}

/// A page in memory.
pub type Page = Arc<[u8]>;

#[derive(Debug, Default)]
struct State {
    /// Pages with the time of their last use.
    cached: HashMap<u64, (Page, u64)>,
    by_use: BTreeMap<u64, u64>,
    uses: u64,
    /// Pages that are being fetched.
    in_flight: Vec<Range<u64>>,
    /// The least recently continued scan is the first.
    scans: VecDeque<Scan>,
}

/// Pages that were read one after the other.
#[derive(Debug, Clone, Copy)]
struct Scan {
    /// The page behind the last one.
    next: u64,
    /// Pages of the last request.
    pages: u64,
}

impl RemotePages {
    /// Fetches the pages in front.
    ///
    /// # Errors
    /// Those of the object; it is no database, or has another size than the record says.
    pub fn open(object: Object, record: Option<&PartRecord>, cache_bytes: usize) -> Result<Self> {
        let first_bytes = record.map_or(FIRST_BYTES, front_bytes);
        let mut front = object.fetch(0..first_bytes)?.to_vec();
        let layout = layout_of(&front).ok_or_else(|| not_a_database(&object))?;
        let page_bytes = layout.page_bytes() as u64;
        let (size, expected) = (object.size(), record.map(|record| record.bytes));
        if expected.is_some_and(|bytes| bytes != size) {
            let wanted = expected.unwrap_or_default();
            return Err(Error::changed(format!(
                "the object {} has {size} bytes, and its manifest says {wanted}",
                object.name()
            )));
        }
        if size < page_bytes {
            return Err(not_a_database(&object));
        }
        if (front.len() as u64) < page_bytes {
            front.extend_from_slice(&object.fetch(front.len() as u64..page_bytes)?);
        }
        if record.is_none_or(|record| record.interior_pages.is_none()) {
            extend(&mut front, &object, page_bytes)?;
        }
        front.truncate(front.len() / layout.page_bytes() * layout.page_bytes());
        // A published file is whole, so there is no log to look for.
        front[header::VERSIONS].fill(header::VERSION_ROLLBACK);
        let cached_pages_max = (cache_bytes / layout.page_bytes()).max(16);
        let page_count = size / page_bytes;
        let (state, arrived, fault) = (Mutex::default(), Condvar::new(), Mutex::new(None));
        let process = Process::current();
        Ok(Self {
            process,
            object,
            layout,
            page_count,
            front,
            cached_pages_max,
            state,
            arrived,
            fault,
        })
    }

    pub fn process(&self) -> Process {
        self.process
    }

    pub fn object(&self) -> &Object {
        &self.object
    }

    /// Size of the database, in bytes.
    pub fn size(&self) -> u64 {
        self.page_count * self.page_bytes()
    }

    pub fn page_bytes(&self) -> u64 {
        self.layout.page_bytes() as u64
    }

    /// The error of the last read that failed.
    pub fn take_fault(&self) -> Option<Error> {
        lock(&self.fault).take()
    }

    pub fn keep_fault(&self, error: Error) {
        tracing::warn!(%error, "a page could not be read");
        *lock(&self.fault) = Some(error);
    }

    /// Copies bytes of one page, the one at `index` from 0. `recent` are pages that were read before:
    /// one of them may say that a chain begins here.
    ///
    /// # Errors
    /// Those of the object.
    pub fn read(
        &self,
        index: u64,
        at: usize,
        into: &mut [u8],
        recent: &VecDeque<u64>,
    ) -> Result<()> {
        if let Some(page) = self.in_front(index) {
            into.copy_from_slice(&page[at..at + into.len()]);
            return Ok(());
        }
        let page = self.page(index, recent)?;
        into.copy_from_slice(&page[at..at + into.len()]);
        Ok(())
    }

    fn in_front(&self, index: u64) -> Option<&[u8]> {
        let start = usize::try_from(index).ok()?.checked_mul(self.layout.page_bytes())?;
        self.front.get(start..start + self.layout.page_bytes())
    }

    /// A page in memory, or fetched. A thread that waits for another one's request, and then makes one
    /// of its own as that has failed, has the time of one read for both.
    fn page(&self, index: u64, recent: &VecDeque<u64>) -> Result<Page> {
        let started = Instant::now();
        let mut state = self.lock();
        loop {
            if let Some(page) = state.take(index) {
                return Ok(page);
            }
            if !state.in_flight.iter().any(|range| range.contains(&index)) {
                break;
            }
            let left = self.object.left(started)?;
            let waited = self.arrived.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let chain = self.chain_at(index, recent, &state);
        let ahead = self.pages_ahead(&state, index);
        let range = self.range_to_fetch(&state, index, ahead.max(chain.unwrap_or(1)));
        state.continue_scan(index, Scan { next: range.end, pages: ahead.min(range.end - index) });
        state.in_flight.push(range.clone());
        drop(state);
        let flight = Flight { pages: self, range: range.clone() };
        let page_bytes = self.page_bytes();
        let bytes = range.start * page_bytes..range.end * page_bytes;
        let fetched = self.object.fetch_since(bytes, started);
        let mut state = self.lock();
        let bytes = match fetched {
            Ok(bytes) => bytes,
            Err(error) => {
                drop(state);
                return Err(error);
            }
        };
        let mut wanted = None;
        // The wanted page comes last, so that the others do not push it out.
        for (at, page) in bytes.chunks_exact(self.layout.page_bytes()).enumerate().rev() {
            let (number, page) = (range.start + at as u64, Page::from(page));
            if number == index {
                wanted = Some(Arc::clone(&page));
            }
            state.keep(number, page, self.cached_pages_max);
        }
        drop(state);
        drop(flight);
        wanted.ok_or_else(|| Error::changed("the object ends before its last page"))
    }

    /// Number of pages to fetch of the chain that begins at a page, if one of the recent pages says so.
    fn chain_at(&self, index: u64, recent: &VecDeque<u64>, state: &State) -> Option<u64> {
        let number = u32::try_from(index + 1).ok()?;
        let pages = recent.iter().find_map(|&before| {
            let page = match self.in_front(before) {
                Some(page) => page,
                None => &state.cached.get(&before)?.0,
            };
            chain_pages(self.layout, page, number).map(u64::from)
        });
        pages.map(|pages| pages.min(self.pages_max(CHAIN_BYTES_MAX)))
    }

    /// Limit of the pages of one request: so many bytes, and no more than leave room for others in memory.
    fn pages_max(&self, bytes: u64) -> u64 {
        let in_memory_max = self.cached_pages_max as u64 / 4;
        (bytes / self.page_bytes()).min(in_memory_max).max(1)
    }

    /// Number of pages that a scan reads next: twice as many as by its last request, so that a long scan
    /// costs few requests, and a short one few pages for nothing. 1 if no scan comes to this page.
    fn pages_ahead(&self, state: &State, index: u64) -> u64 {
        let scan = state.scans.iter().find(|scan| scan.next == index);
        scan.map_or(1, |scan| (scan.pages * 2).min(self.pages_max(AHEAD_BYTES_MAX)))
    }

    /// The pages of a request: from the missing page on as many as are wanted, but none that is in memory
    /// or on its way. One request is one range, so it ends before the first such page.
    fn range_to_fetch(&self, state: &State, index: u64, pages: u64) -> Range<u64> {
        let end = (index + pages).min(self.page_count);
        let cached = (index + 1..end).find(|page| state.cached.contains_key(page));
        let flying = state.in_flight.iter().map(|range| range.start).filter(|&it| it > index).min();
        index..end.min(cached.unwrap_or(end)).min(flying.unwrap_or(end))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl State {
    /// A page in memory, which is the last one to be dropped now.
    fn take(&mut self, index: u64) -> Option<Page> {
        let (page, used) = self.cached.get_mut(&index)?;
        self.uses += 1;
        self.by_use.remove(used);
        self.by_use.insert(self.uses, index);
        *used = self.uses;
        Some(Arc::clone(page))
    }

    /// Moves the scan that comes to this page on, or remembers a new one in place of the scan that was
    /// continued least recently. Each request may be the beginning of a scan.
    fn continue_scan(&mut self, index: u64, scan: Scan) {
        if let Some(at) = self.scans.iter().position(|scan| scan.next == index) {
            self.scans.remove(at);
        } else if self.scans.len() == SCANS_MAX {
            self.scans.pop_front();
        }
        self.scans.push_back(scan);
    }

    fn keep(&mut self, index: u64, page: Page, pages_max: usize) {
        self.uses += 1;
        if let Some((_, used)) = self.cached.insert(index, (page, self.uses)) {
            self.by_use.remove(&used);
        }
        self.by_use.insert(self.uses, index);
        while self.cached.len() > pages_max {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            self.cached.remove(&oldest);
        }
    }
}

/// Pages that are being fetched, until this is dropped.
struct Flight<'p> {
    pages: &'p RemotePages,
    range: Range<u64>,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.pages.lock().in_flight.retain(|range| *range != self.range);
        self.pages.arrived.notify_all();
    }
}

/// Bytes from the first page to the last interior page that lies in front, and a little more.
fn front_bytes(record: &PartRecord) -> u64 {
    let page_bytes = u64::from(record.page_size).max(1);
    let gap = GAP_BYTES_MAX / page_bytes + 1;
    let mut end = 1_u64;
    for PageRun { first, pages } in record.interior_pages.iter().flatten() {
        // Page numbers begin with 1. A record that no manifest has checked may have any.
        let first = first.saturating_sub(1);
        if first > end.saturating_add(gap) {
            break;
        }
        end = end.max(first.saturating_add(*pages));
    }
    let bytes = end.saturating_add(SIDE_PAGES).saturating_mul(page_bytes);
    bytes.clamp(FIRST_BYTES, FRONT_BYTES_MAX)
}

/// Fetches more while the pages that are there end with an interior page.
fn extend(front: &mut Vec<u8>, object: &Object, page_bytes: u64) -> Result<()> {
    loop {
        let pages = front.len() as u64 / page_bytes;
        let last = (pages.saturating_sub(1) * page_bytes) as usize;
        let is_interior = pages > 1 && INTERIOR_KINDS.contains(&front[last]);
        let have = front.len() as u64;
        if !is_interior || have >= object.size().min(FRONT_BYTES_MAX) {
            return Ok(());
        }
        front.extend_from_slice(&object.fetch(have..have * 2)?);
    }
}

fn layout_of(front: &[u8]) -> Option<PageLayout> {
    header::layout_in(front).ok().filter(|_| front.starts_with(MAGIC))
}

fn not_a_database(object: &Object) -> Error {
    Error::input(object.name(), "it is no SQLite database")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    #[test]
    fn a_record_that_makes_no_sense_has_bounded_pages_in_front() {
        let runs = [(0, 1), (1, u64::MAX), (u64::MAX, u64::MAX), (2, 3)];
        let runs = runs.map(|(first, pages)| PageRun { first, pages });
        let record = PartRecord {
            part: 0,
            path: "a.db".to_owned(),
            bytes: 0,
            sha256: String::new(),
            rows: 0,
            smallest: Key::Null,
            largest: Key::Null,
            page_size: 0,
            pages: 0,
            interior_pages: Some(runs.to_vec()),
            attempt: "a".to_owned(),
        };
        assert_eq!(front_bytes(&record), FRONT_BYTES_MAX);
    }
}
