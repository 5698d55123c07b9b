//! Models of simulated disks: a few figures, each with its source.
//!
//! The arithmetic of the cost of writes is here too, as plain functions. Must never:
//! hold a figure whose origin it does not say.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use super::extents::BLOCK_BYTES;
use crate::error::{Error, Result};

/// Source of a figure of a [`DiskModel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskSource {
    /// The source's own figures, and the way to the model's.
    pub says: &'static str,
    /// Its title, or its publisher.
    pub title: &'static str,
    /// Its address.
    pub url: &'static str,
}

/// A disk to be simulated. `docs/experiments.md` describes the model.
///
/// Take one by its name, and change figures of it for a disk of your own:
///
/// ```
/// use std::time::Duration;
/// use leafpress_vfs::DiskModel;
///
/// let mut card: DiskModel = "sdcard".parse()?;
/// card.name = "my card";
/// card.flush = Duration::from_millis(15);
/// let error = "floppy".parse::<DiskModel>().unwrap_err();
/// assert!(error.to_string().contains("sdcard, hdd, emmc, nvme, phone2016"));
/// # Ok::<(), leafpress_vfs::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskModel {
    /// Name on the command line.
    pub name: &'static str,
    /// Description in words.
    pub title: &'static str,
    /// Time of a sync beside the writing: the file system's own journal, and the disk's command to
    /// empty its cache.
    pub flush: Duration,
    /// Time of one write before its first byte, at any place.
    pub request: Duration,
    /// Bytes written in a second, in order.
    pub bytes_per_second: u64,
    /// True if it turns: then it passes over a small gap between two writes instead of seeking, and
    /// writes in order take no request anew.
    pub is_rotating: bool,
    /// Bytes that may wait in memory before a thread that writes has to wait.
    pub unwritten_bytes_max: u64,
    /// Sources of the figures.
    pub sources: &'static [DiskSource],
}

/// The cost of writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cost {
    pub time: Duration,
    pub requests: u64,
    pub bytes: u64,
}

const fn says(says: &'static str, title: &'static str, url: &'static str) -> DiskSource {
    DiskSource { says, title, url }
}

const MEMORY: DiskSource = says(
    "programs that write have to wait when a fifth of the free memory is unwritten",
    "Linux, Documentation/admin-guide/sysctl/vm.rst: dirty_ratio",
    "https://docs.kernel.org/admin-guide/sysctl/vm.html",
);

impl DiskModel {
    /// An SD card that is as fast as its class A1 promises, and no faster.
    pub const SDCARD: Self = Self {
        name: "sdcard",
        title: "an SD card of class A1, as in a Raspberry Pi",
        flush: Duration::from_millis(4),
        request: Duration::from_millis(2),
        bytes_per_second: 10_000_000,
        is_rotating: false,
        unwritten_bytes_max: 100 << 20,
        sources: &[
            says(
                "500 writes a second in any order, 2 ms each, and 10 MB/s in order; such a card \
                 has no cache of its own, so that a sync is two writes more, for the file \
                 system's journal",
                "SD Association: Application Performance Class",
                "https://www.sdcard.org/developers/sd-standard-overview/application-performance-class/",
            ),
            says(
                "an fdatasync after 2.3 KB takes 1.3 ms on average and 0.4 s at worst: a card can \
                 be faster than this one, and stall",
                "Performance/cost ratio for silicon storage media",
                "https://nmnx.org/journal/dawei/efficient-storage",
            ),
            MEMORY,
        ],
    };

    /// A hard disk.
    pub const HDD: Self = Self {
        name: "hdd",
        title: "a hard disk of 7,200 turns a minute",
        flush: Duration::from_micros(8_330),
        request: Duration::from_micros(8_260),
        bytes_per_second: 180_000_000,
        is_rotating: true,
        unwritten_bytes_max: 1 << 30,
        sources: &[
            says(
                "a turn takes 8.33 ms, so that a sector comes by after 4.16 ms on average; a seek \
                 to write takes 8.2 ms over the whole disk, and half of that is taken here for \
                 files that lie near each other; a sync costs a turn, as the file system's journal \
                 is written after the data",
                "Western Digital: Ultrastar DC HC310 specification",
                "https://manualshive.com/en/manual/western-digital/ultrastar-dc-hc310/961649?page=23",
            ),
            says(
                "some 60 transactions a second on a disk of 7,200 turns a minute, which is what a \
                 transaction of one sync comes to here",
                "SQLite: Frequently Asked Questions, question 19",
                "https://sqlite.org/faq.html#q19",
            ),
            MEMORY,
        ],
    };

    /// Flash that is soldered in, as in small boards, cheap laptops and phones.
    pub const EMMC: Self = Self {
        name: "emmc",
        title: "an eMMC 5.1, as in small boards and cheap laptops",
        flush: Duration::from_millis(2),
        request: Duration::from_micros(77),
        bytes_per_second: 125_000_000,
        is_rotating: false,
        unwritten_bytes_max: 256 << 20,
        sources: &[
            says(
                "13,000 writes a second in any order and 125 MB/s in order",
                "Samsung develops first eMMC 5.1 flash memory",
                "https://cdrinfo.com/d7/content/samsung-develops-first-emmc-51-flash-memory",
            ),
            says(
                "the time of a sync is an estimate of ours, as no data sheet says it: between the \
                 0.5 and 3.3 ms that a small write took on two phones of 2016",
                "Glek: Moto Z and Google Pixel, storage compared",
                "https://taras.glek.net/",
            ),
            MEMORY,
        ],
    };

    /// A consumer's solid-state disk.
    pub const NVME: Self = Self {
        name: "nvme",
        title: "a consumer's NVMe, without protection against power loss",
        flush: Duration::from_micros(850),
        request: Duration::from_micros(10),
        bytes_per_second: 2_000_000_000,
        is_rotating: false,
        unwritten_bytes_max: 2 << 30,
        sources: &[
            says(
                "446 to 4,265 writes of 4 KB a second, each with its fdatasync, on most of such disks: \
                 0.23 to 2.2 ms each; and 20,000 and more without",
                "Freund: latency of durable writes, one at a time",
                "https://gist.github.com/anarazel/b527e5317bb7d58483a9858f5f2435ca",
            ),
            says(
                "an fdatasync after 8 KB takes 1.6 ms on a Samsung 990 Pro, an fsync 5.6 ms: a disk \
                 can be slower than this one",
                "Poder: Using Postgres pg_test_fsync for testing low latency writes",
                "https://tanelpoder.com/posts/using-pg-test-fsync-for-testing-low-latency-writes",
            ),
            MEMORY,
        ],
    };

    /// The flash of a phone of the year 2016.
    pub const PHONE_2016: Self = Self {
        name: "phone2016",
        title: "the flash of a phone of 2016",
        flush: Duration::from_micros(6_300),
        request: Duration::from_micros(143),
        bytes_per_second: 90_000_000,
        is_rotating: false,
        unwritten_bytes_max: 200 << 20,
        sources: &[
            says(
                "100,000 inserts, each a transaction of its own, take 2,000 s; a sync takes here \
                 what makes one of them 20 ms",
                "Android SQLite insertion optimization",
                "https://shunix.com/android-sqlite-insertion-optimization/",
            ),
            says(
                "half of the small writes take 3.3 ms and more on a Google Pixel, of 2016, and a \
                 transaction is two of them at best, with WAL: 6.6 ms",
                "Glek: Moto Z and Google Pixel, storage compared",
                "https://taras.glek.net/",
            ),
            says(
                "39 inserts a second on a phone as it is sold, 26 ms each",
                "Jeong and others: I/O Stack Optimization for Smartphones (USENIX ATC 2013)",
                "https://www.usenix.org/conference/atc13/technical-sessions/presentation/jeong",
            ),
            says(
                "an eMMC 5.0 writes 90 MB/s in order; 7,000 writes a second in any order, half \
                 of what the next generation promises, are an estimate of ours",
                "Samsung first to introduce eMMC 5.1 flash memory",
                "https://androidvillaz.blogspot.com/2015/02/samsung-first-to-introduces-mmc-51.html",
            ),
            MEMORY,
        ],
    };

    /// All models that have a name.
    pub const ALL: [Self; 5] = [Self::SDCARD, Self::HDD, Self::EMMC, Self::NVME, Self::PHONE_2016];

    fn transfer(&self, bytes: u64) -> Duration {
        let nanoseconds =
            u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.max(1));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// Cost of writing these blocks, in this order.
    pub(super) fn cost_of(&self, runs: &[Range<u64>]) -> Cost {
        let mut cost = Cost::default();
        let mut before: Option<&Range<u64>> = None;
        for run in runs {
            let bytes = (run.end - run.start) * BLOCK_BYTES;
            cost.time += self.way(before, run) + self.transfer(bytes);
            cost.requests += 1;
            cost.bytes += bytes;
            before = Some(run);
        }
        cost
    }

    /// Time to begin a run after another.
    fn way(&self, before: Option<&Range<u64>>, run: &Range<u64>) -> Duration {
        match before {
            Some(before) if self.is_rotating && before.end <= run.start => {
                self.transfer((run.start - before.end) * BLOCK_BYTES).min(self.request)
            }
            _ => self.request,
        }
    }
}

impl FromStr for DiskModel {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|model| model.name == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(|model| model.name).join(", ");
            let reason = format!("no disk of the name {name:?} can be simulated");
            Error::not_found("simulated disk", name, reason).advise(format!("name one of {names}"))
        })
    }
}

impl DiskModel {
    /// Its figures in words: what a sync takes, a write, and a megabyte.
    ///
    /// ```
    /// use leafpress_vfs::DiskModel;
    ///
    /// assert_eq!(DiskModel::EMMC.figures(), "2 ms a sync, 77 µs a write, 125 MB/s in order");
    /// ```
    pub fn figures(&self) -> String {
        format!(
            "{} a sync, {} a write, {} MB/s in order",
            in_words(self.flush),
            in_words(self.request),
            self.bytes_per_second / 1_000_000,
        )
    }
}

fn in_words(time: Duration) -> String {
    match time.as_micros() {
        microseconds @ ..1_000 => format!("{microseconds} µs"),
        microseconds => format!("{} ms", microseconds as f64 / 1e3),
    }
}

/// The model's description, and its figures.
impl fmt::Display for DiskModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.title, self.figures())
    }
}
